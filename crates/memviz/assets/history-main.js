// Ties data, view, panel and controls together.

async function start() {
  const facts = JSON.parse($("history-facts").textContent);
  const view = new HistoryView();
  const [tip, card, field, colorsField, deviceField] = [$("tip"), $("card"), $("find"), $("color-by"), $("device")];
  const devices = [];
  let texts = null;
  let data = null;
  let boxMode = false;
  let isClock = false;
  // What is sought: a text, or one stream, tag or stack.
  let sought = null;
  let hits = [];
  let hit = -1;

  theme.start(facts.palettes, () => {
    $("theme").setAttribute("aria-label", theme.dark ? "Light theme" : "Dark theme");
    view.rethemed();
    if (data) legend();
    requestAnimationFrame(() => panel?.drawMap());
  });

  // ---- cards ----

  function describe(element, title, tags, rows) {
    element.replaceChildren(make("p", "name", title.length > 400 ? `${title.slice(0, 400)}…` : title));
    if (tags.length) {
      const line = make("p", "tags");
      for (const [text, color] of tags) {
        const tag = make("span", color ? "tag" : "tag plain", text);
        if (color) tag.style.setProperty("--mark", color);
        line.append(tag);
      }
      element.append(line);
    }
    const list = make("dl");
    for (const [term, ...lines] of rows) {
      list.append(make("dt", "", term));
      const detail = make("dd", "", lines[0]);
      for (const line of lines.slice(1)) detail.append(make("span", "more", line));
      list.append(detail);
    }
    element.append(list);
  }

  function blockRows(i, isCard) {
    const rows = [];
    const [bytes, asked] = [data.bytes.big(i), data.requested(i)];
    rows.push(["bytes", byteText(asked), ...(asked < 1024n ? [] : [exactBytes(asked)])]);
    if (bytes !== asked) rows.push(["rounded", byteText(bytes), ...(bytes < 1024n ? [] : [exactBytes(bytes)])]);
    rows.push(["stream", grouped(data.streamOf(i))]);
    const tag = data.tagOf(i);
    if (tag) rows.push(["tag", tag]);
    const born = data.bornBy(i);
    const [birth, death] = [data.birth[i], data.death[i]];
    const at = (moment) => {
      const time = data.timeOf(moment);
      return time === null ? [] : [durationText(Number(time - data.firstTime))];
    };
    rows.push(["born", ...(born === null ? ["before the record"] : [`event ${grouped(born)}`, ...(birth > 0 ? at(birth) : [])])]);
    if (data.pend[i] < death) rows.push(["dropped", `event ${grouped(data.eventOf(data.pend[i]))}`, ...at(data.pend[i])]);
    const isThere = death >= data.moments;
    rows.push(["freed", ...(isThere ? ["still there at the end"] : [`event ${grouped(data.eventOf(death))}`, ...at(death)])]);
    const age = BigInt(death - birth);
    const clock = data.clock ? [durationText(data.clock[Math.min(death, data.moments)] - data.clock[birth])] : [];
    rows.push(["lived", `${grouped(age)} event${age === 1n ? "" : "s"}`, ...clock]);
    rows.push(["address", hexText(data.address(data.offset.big(i)))]);
    if (isCard) {
      const moment = Math.max(birth, Math.min(view.moment, death - 1));
      const segment = segmentsAt(data, moment).find((s) => s.low <= data.offset.big(i) && data.offset.big(i) < s.low + s.bytes);
      rows.push(["segment", ...(segment ? segmentWords(segment) : ["outside of every segment"])]);
    }
    return rows;
  }

  function segmentWords(segment) {
    const words = [byteText(segment.bytes), `stream ${grouped(segment.stream)}`];
    if (segment.isExpandable) words.push("expandable");
    else if (segment.kind !== "any") words.push(`for ${segment.kind} requests`);
    if (segment.pool.some((id) => id !== 0n)) words.push(`private pool ${segment.pool.map((id) => grouped(id)).join(", ")}`);
    return words;
  }

  function blockTags(i) {
    const look = view.look.looks[view.grouping.group[i]];
    const tags = [[Grouping.labels(data, view.by)[view.grouping.group[i]] ?? "", look.fill]];
    return tags;
  }

  function frames(element, stack, most) {
    if (stack === LEFT_OUT) return element.append(make("p", "frames", "Its stack was left out of this page."));
    const all = data.texts.stack(stack);
    if (!all.length) return;
    const isShort = most < all.length;
    // A tip begins where the program's own calls do, and leaves out the interpreter's between them; a card has them all.
    const first = isShort ? Math.min(data.texts.stackBegin(stack), all.length - 1) : 0;
    const isKnown = ({ place }) => place && !place.startsWith("??");
    const own = all.slice(first);
    const calls = isShort && own.some(isKnown) ? own.filter(isKnown) : own;
    const list = make("ol", "frames");
    for (const { call, place } of calls.slice(0, most)) {
      const item = make("li", "", call);
      if (place) item.append(make("span", "more", place));
      list.append(item);
    }
    element.append(list);
    const left = all.length - Math.min(most, calls.length);
    if (left > 0) element.append(make("p", "more", `${grouped(left)} more ${left === 1 ? "frame" : "frames"}`));
  }

  function describeBlock(element, i, isCard) {
    describe(element, data.nameOf(i), blockTags(i), blockRows(i, isCard));
    frames(element, data.stackOf(i), isCard ? 96 : 5);
  }

  function describeHole(element, hole) {
    const name = (i) => `${data.nameOf(i)} (${byteText(data.requested(i))})`;
    describe(element, "hole", [], [
      ["bytes", byteText(hole.bytes), exactBytes(hole.bytes)],
      ["lies", wherePinned(hole, name)],
      ["segment", ...segmentWords(hole.segment)],
      ["address", hexText(data.address(hole.low))],
    ]);
  }

  // What is in the layout where no block is.
  let groundFor = { moment: -1, state: null };
  function groundAt(at) {
    const moment = view.momentUnder(at);
    const { y } = view.at(at.x, at.y, view.box.plot);
    if (y < 0 || y >= data.height) return null;
    if (groundFor.moment !== moment || groundFor.data !== data) groundFor = { moment, data, state: stateAt(data, moment) };
    return groundFor.state.holes.find((hole) => y >= Number(hole.low) && y < Number(hole.low + hole.bytes)) ?? null;
  }

  // ---- hover, pin ----

  let shownFor = "";
  function hover(i, at) {
    view.hover = i;
    view.requestOver();
    readout(at);
    let key = "";
    if (at && data?.isReady && view.isInside(at)) {
      const pane = view.paneOf(at);
      const hole = i < 0 && pane.name === "plot" ? groundAt(at) : null;
      if (i >= 0) key = `block ${i}`;
      else if (hole) key = `hole ${hole.low} ${view.momentUnder(at)}`;
      else if (pane.name === "timeline" || pane.name === "scattered") key = `moment ${view.momentUnder(at)} ${groupUnder(at)}`;
      else if (pane.name === "lane") key = laneKey(at);
      if (key && key !== shownFor) {
        if (i >= 0) describeBlock(tip, i, false);
        else if (hole) describeHole(tip, hole);
        else if (pane.name === "lane") describe(tip, key.slice(5), [], []);
        else describeMoment(tip, view.momentUnder(at), groupUnder(at));
      }
    }
    shownFor = key;
    tip.hidden = !key;
    if (key) placeTip(tip, at, view.box);
  }

  function laneKey(at) {
    const words = [];
    const { marks } = data;
    for (let k = 0; k < marks.count && words.length < 3; k++) {
      if (Math.abs(view.xOf(view.axis.edge(marks.moment[k])) - at.x) < 6) words.push(data.deed(marks.moment[k]).text);
    }
    if (!words.length) {
      const spans = data.notes.filter((span) => {
        const [l, r] = view.spanOf(span);
        return at.x >= l && at.x <= r;
      });
      for (const span of spans.slice(-3)) if (data.texts.name(span.name)) words.push(data.texts.name(span.name));
    }
    return words.length ? `lane ${words.join(", ")}` : "";
  }

  // The group under a place of the timeline where groups are drawn whole, or -1; -2 is what is pending, -3 what is free.
  function groupUnder(at) {
    if (view.paneOf(at).name !== "timeline" || !data.isReady) return -1;
    const { y } = view.at(at.x, at.y, view.box.timeline);
    const moment = view.momentUnder(at);
    const sums = view.grouping.walker()(moment);
    let sum = 0;
    for (let group = 0; group < MOST_GROUPS; group++) {
      if (!view.grouping.shown[group]) continue;
      sum += sums[group];
      if (y >= 0 && y < sum) return group;
    }
    if (y >= 0 && y < sum + sums[MOST_GROUPS]) return -2;
    return y >= 0 && y < data.reserved[moment] ? -3 : -1;
  }

  function describeMoment(element, moment, group) {
    const title = moment === 0 ? "at the start" : `event ${grouped(data.eventOf(moment))}: ${data.deed(moment).text}`;
    const tags = [];
    if (group >= 0) {
      const bytes = view.grouping.walker()(moment)[group];
      tags.push([`${Grouping.labels(data, view.by)[group]}: ${byteText(bytes)}`, view.look.looks[group].fill]);
    } else if (group < -1) tags.push([group === -2 ? "pending" : "free", null]);
    const rows = [
      ["live", byteText(data.live[moment])],
      ["active", byteText(data.active[moment])],
      ["reserved", byteText(data.reserved[moment])],
      ["fragmentation", `${data.fragmentation[moment].toFixed(2)}${NBSP}%`],
    ];
    describe(element, title, tags, rows);
  }

  function pin(i, announced = true, at = null) {
    // A click moves the moment there too.
    if (at && data.isReady && view.isInside(at)) setMoment(view.momentUnder(at));
    view.pinned = i;
    view.spot = null;
    card.hidden = i < 0;
    view.requestOver();
    if (i < 0) return;
    tip.hidden = true;
    describeBlock($("card-body"), i, true);
    if (announced) say(`${data.nameOf(i)}, ${byteText(data.requested(i))}, born ${data.bornBy(i) === null ? "before the record" : `at event ${data.bornBy(i)}`}`);
  }

  function say(text) {
    $("say").textContent = text;
  }

  function readout(at) {
    const out = $("readout");
    if (!at || !view.box || !data?.isReady || !view.isInside(at)) return out.replaceChildren();
    const moment = view.momentUnder(at);
    const pane = view.paneOf(at);
    const parts = [
      ["event", moment === 0 ? "start" : grouped(data.eventOf(moment))],
      ["live", byteText(data.live[moment])],
      ["active", byteText(data.active[moment])],
      ["reserved", byteText(data.reserved[moment])],
    ];
    if (pane.name === "plot") {
      const { y } = view.at(at.x, at.y, pane);
      if (y >= 0 && y < data.height) parts.push(["address", hexText(data.address(BigInt(Math.floor(y))))]);
    }
    showTerms(out, parts);
  }

  // ---- the moment ----

  const panel = new StatePanel(view, {
    pin: (i) => {
      pin(i);
      view.reveal(view.boxOf(i));
    },
    tip(part, event) {
      tip.hidden = !part;
      if (!part) return;
      if (part.kind === "block") describeBlock(tip, part.block, false);
      else describeHole(tip, part);
      const box = view.stage.getBoundingClientRect();
      placeTip(tip, { x: event.clientX - box.left, y: event.clientY - box.top }, view.box);
    },
    isSought: (by, key) => sought?.by === by && sought.key === key,
    seek(by, key, name) {
      const isSame = sought?.by === by && sought.key === key;
      field.value = "";
      seek(isSame ? null : { by, key, name });
      panel.showHolders();
    },
  });

  let waitingPanel = 0;
  function setMoment(moment, isRevealed = false) {
    view.moment = Math.max(0, Math.min(data.moments - 1, moment));
    view.requestOver();
    if (isRevealed) view.revealMoment();
    cancelAnimationFrame(waitingPanel);
    waitingPanel = requestAnimationFrame(() => panel.show(view.moment));
  }

  // To the next or previous mark: a failed request, a snapshot, a step.
  function goToMark(by, kind) {
    const { marks } = data;
    const places = Array.from(marks.moment).filter((m) => kind === undefined || data.actions[m - 1] === kind);
    if (!places.length) return say("There are no marks.");
    const after = places.filter((m) => (by > 0 ? m > view.moment : m < view.moment));
    const next = by > 0 ? (after[0] ?? places[0]) : (after[after.length - 1] ?? places[places.length - 1]);
    setMoment(next, true);
  }

  const places = {
    "go-live": () => setMoment(data.device.live.moment, true),
    "go-reserved": () => setMoment(data.device.reserved.moment, true),
    "go-oom": () => goToMark(1, OUT_OF_MEMORY),
    "go-end": () => setMoment(data.moments - 1, true),
    "go-previous": () => setMoment(view.moment - 1, true),
    "go-next": () => setMoment(view.moment + 1, true),
  };
  const whenReady = (action) => () => data?.isReady && action();
  for (const [id, action] of Object.entries(places)) $(id).addEventListener("click", whenReady(action));

  // ---- search ----

  function seek(wanted) {
    sought = wanted;
    hit = -1;
    hits = [];
    let isHit = null;
    if (sought) {
      if (sought.text !== undefined) {
        const [tags, stacks] = [matching("tag", sought.text), matching("stack", sought.text)];
        isHit = (i) => tags[data.keys.tag[i]] === 1 || stacks[data.keys.stack[i]] === 1;
      } else isHit = (i) => data.keys[sought.by][i] === sought.key;
      for (let i = 0; i < data.count; i++) if (isHit(i)) hits.push(i);
    }
    view.grouping.restyle(isHit);
    view.forget();
    panel.drawMap();
    found();
  }

  // Which tags or stacks have a text in their names.
  function matching(by, text) {
    const table = by === "tag" ? data.tags : data.stacks;
    const has = new Uint8Array(table.length + 1);
    for (let k = 0; k < table.length; k++) {
      const names = by === "tag" ? [data.texts.name(table[k])] : data.texts.stack(table[k]).flatMap(({ call, place }) => [call, place]);
      if (names.some((name) => name.toLowerCase().includes(text))) has[k] = 1;
    }
    return has;
  }

  function found() {
    const out = $("found");
    if (!sought) out.textContent = "";
    else if (!hits.length) out.textContent = "none";
    else if (hit < 0) out.textContent = grouped(hits.length);
    else out.textContent = `${grouped(hit + 1)} of ${grouped(hits.length)}`;
    for (const button of document.querySelectorAll(".finder button")) button.disabled = !hits.length;
    field.classList.toggle("missed", Boolean(sought) && !hits.length);
    $("sought").hidden = !sought?.name;
    $("sought-name").textContent = sought?.name ?? "";
  }

  function nextHit(by) {
    if (!hits.length) return;
    hit = hit < 0 ? (by > 0 ? 0 : hits.length - 1) : (hit + by + hits.length) % hits.length;
    found();
    pin(hits[hit]);
    view.reveal(view.boxOf(hits[hit]));
    setMoment(data.birth[hits[hit]]);
  }

  function findText() {
    if (!data?.isReady) return;
    const text = field.value.trim().toLowerCase();
    seek(text ? { text } : null);
    panel.showHolders();
  }
  let waiting = 0;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(findText, 120);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(waiting);
      if (sought?.text !== field.value.trim().toLowerCase()) findText();
      nextHit(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      event.preventDefault();
      field.value = "";
      findText();
      view.over.focus();
    }
  });
  field.form.addEventListener("submit", (event) => event.preventDefault());
  $("find-next").addEventListener("click", () => nextHit(1));
  $("find-previous").addEventListener("click", () => nextHit(-1));
  $("sought-clear").addEventListener("click", () => {
    seek(null);
    panel.showHolders();
  });

  // ---- legend, facts ----

  function legend() {
    const list = $("legend");
    const looks = Grouping.looks(view.by, theme.colors);
    const peaks = data.overview.groups[view.by].map((sums) => sums.reduce((most, sum) => Math.max(most, sum), 0));
    list.replaceChildren();
    Grouping.labels(data, view.by).forEach((label, group) => {
      if (!peaks[group]) return;
      const button = make("button", "tier");
      button.type = "button";
      button.setAttribute("aria-pressed", String(view.grouping ? view.grouping.shown[group] : true));
      button.title = `${label}\nat most ${byteText(peaks[group])} at a time; click to hide or show`;
      const swatch = make("span", "swatch");
      swatch.style.setProperty("background", looks[group].fill);
      const shown = label.length > 34 ? `${label.slice(0, 33)}…` : label;
      button.append(swatch, document.createTextNode(shown));
      button.addEventListener("click", () => {
        if (!data.isReady) return;
        view.grouping.shown[group] = !view.grouping.shown[group];
        legend();
        seek(sought);
      });
      list.append(button);
    });
  }

  function showFacts() {
    const { device } = data;
    const list = $("facts");
    list.replaceChildren();
    const add = (term, value, hint, className = "") => {
      const row = make("div");
      row.title = hint;
      row.append(make("dt", "", term), make("dd", className, value));
      list.append(row);
    };
    const [live, reserved] = [BigInt(device.live.bytes), BigInt(device.reserved.bytes)];
    add("peak live", byteText(live), exactBytes(live));
    add("peak reserved", byteText(reserved), exactBytes(reserved));
    if (live > 0n && reserved > 0n) add("reserved over live", (Number(reserved) / Number(live)).toFixed(3), "peak reserved over peak live");
    if (data.capacity !== null) add("capacity", byteText(data.capacity), exactBytes(data.capacity), reserved > data.capacity ? "bad" : "");
    const shown = data.moments - 1;
    const isPart = String(shown) !== device.total;
    add("events", isPart ? `${grouped(shown)} of ${grouped(device.total)}` : grouped(shown), isPart ? `from event ${grouped(device.from)}` : "");
    add("blocks", grouped(device.blocks), "");
    const failed = data.isReady ? Array.from(data.marks.moment).filter((m) => data.actions[m - 1] === OUT_OF_MEMORY).length : 0;
    if (failed) add("failed requests", grouped(failed), "out of memory", "bad");
    $("go-oom").disabled = !failed;
    const wrong = device.defects.reduce((sum, { count }) => sum + BigInt(count), 0n);
    if (wrong) add("contradictions", grouped(wrong), "what contradicts itself in this record; the panel lists it", "bad");
    const defects = $("defects");
    defects.hidden = device.defects.length === 0;
    $("defects-count").textContent = `${grouped(wrong)} contradiction${wrong === 1n ? "" : "s"} in this record`;
    $("defects-list").replaceChildren(...device.defects.map(({ what, count, first }) => make("li", "", `${grouped(count)} ${what}, first at event ${grouped(first)}`)));
  }

  // ---- devices, colours, axis, panes ----

  async function showDevice(index) {
    pin(-1);
    tip.hidden = true;
    if (!devices[index]) devices[index] = new DeviceData(facts, facts.devices[index], index, texts);
    const next = devices[index];
    data = next;
    sought = null;
    hits = [];
    if (!next.overview) await next.readOverview();
    view.show(next, colorsField.value);
    view.moment = Math.min(next.device.live.moment, next.moments - 1);
    legend();
    showFacts();
    found();
    view.draw();
    performance.mark("first-picture");
    if (!next.isReady) {
      next.reading ??= next.readRest();
      await breathe();
      await breathe();
      await next.reading;
      if (data !== next) return;
      view.show(next, colorsField.value);
    }
    $("clock").disabled = !next.clock;
    if (isClock) setClock(isClock);
    showFacts();
    legend();
    setMoment(view.moment);
    view.draw();
  }

  function setClock(isOn) {
    isClock = isOn;
    $("clock").setAttribute("aria-pressed", String(isOn && Boolean(data.clock)));
    view.swapAxis(isOn);
  }

  function setColors(by) {
    forgetTip();
    colorsField.value = by;
    view.by = by;
    view.lookFor = null;
    if (!data?.isReady) return view.request();
    view.grouping = new Grouping(data, by);
    seek(sought);
    legend();
    view.draw();
    panel.show(view.moment);
  }

  function setMode(mode) {
    forgetTip();
    view.mode = mode;
    for (const button of document.querySelectorAll("#modes button")) button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
    view.forget();
  }

  function setBoxMode(isOn) {
    boxMode = isOn;
    $("box").setAttribute("aria-pressed", String(isOn));
    view.over.classList.toggle("boxing", isOn);
  }

  function setPanel(isOpen) {
    $("state").hidden = !isOpen;
    $("panel").setAttribute("aria-pressed", String(isOpen));
    if (isOpen && data?.isReady) panel.show(view.moment);
  }

  colorsField.addEventListener("change", () => setColors(colorsField.value));
  deviceField.addEventListener("change", () => showDevice(Number(deviceField.value)));
  for (const button of document.querySelectorAll("#modes button")) button.addEventListener("click", () => setMode(button.dataset.mode));
  $("clock").addEventListener("click", whenReady(() => setClock(!isClock)));
  $("panel").addEventListener("click", () => setPanel($("state").hidden));
  const help = $("help");
  const zoomPane = () => (view.mode === "timeline" ? view.box.timeline : view.box.plot);
  $("zoom-in").addEventListener("click", () => view.zoom(0.6, 1, null, true, zoomPane()));
  $("zoom-out").addEventListener("click", () => view.zoom(1 / 0.6, 1, null, true, zoomPane()));
  $("reset").addEventListener("click", () => view.reset());
  $("box").addEventListener("click", () => setBoxMode(!boxMode));
  $("theme").addEventListener("click", () => theme.toggle());
  $("help-open").addEventListener("click", () => help.showModal());
  $("card-fit").addEventListener("click", () => view.pinned >= 0 && view.fit(view.pinned));
  $("card-close").addEventListener("click", () => pin(-1));

  function forgetTip() {
    shownFor = "";
    tip.hidden = true;
  }

  view.onDraw = () => {
    const moments = view.axis.momentAt(view.view.x1) - view.axis.momentAt(view.view.x0) + 1;
    const all = data.moments;
    const words = moments >= all ? `${grouped(all - 1)} events` : `${grouped(moments)} of ${grouped(all - 1)} events`;
    $("in-view").textContent = data.isReady ? words : `reading ${grouped(data.device.blocks)} blocks…`;
    $("reset").disabled = !view.isZoomed();
    const { last, lane } = view.box;
    card.style.maxHeight = `${Math.max(120, last.y + last.h - lane.y - 40)}px`;
    card.style.top = `${lane.y + lane.h + 10}px`;
    card.style.right = `${view.box.width - last.x - last.w + 8}px`;
  };

  view.box = view.layout();
  listen(view, {
    hover,
    pin,
    scrub: (at) => data?.isReady && setMoment(view.axis.momentAt(view.at(at.x, at.y, view.box.lane).x)),
    help: () => help.showModal(),
    search: () => field.select(),
    hit: nextHit,
    step: (by) => data?.isReady && setMoment(view.moment + by, true),
    isBoxMode: () => boxMode,
    endBoxMode: () => setBoxMode(false),
    toggleBoxMode: () => setBoxMode(!boxMode),
    escape() {
      if (boxMode) setBoxMode(false);
      else if (view.pinned >= 0) pin(-1);
      else if (view.spot) {
        view.spot = null;
        view.requestOver();
      } else if (sought) {
        field.value = "";
        seek(null);
        panel.showHolders();
      }
    },
    keys: {
      p: whenReady(places["go-live"]),
      r: whenReady(places["go-reserved"]),
      o: whenReady(places["go-oom"]),
      e: whenReady(places["go-end"]),
      "]": whenReady(() => goToMark(1)),
      "[": whenReady(() => goToMark(-1)),
      c: () => {
        const at = facts.choices.indexOf(colorsField.value);
        setColors(facts.choices[(at + 1) % facts.choices.length]);
      },
      x: whenReady(() => data.clock && setClock(!isClock)),
      s: () => setPanel($("state").hidden),
      1: () => setMode("both"),
      2: () => setMode("timeline"),
      3: () => setMode("layout"),
    },
  });
  new ResizeObserver(() => {
    view.request();
    panel.drawMap();
  }).observe(view.stage);

  texts = await readTexts(facts);
  if (facts.devices.length) {
    await showDevice(0);
  } else {
    $("nothing").hidden = false;
    view.stage.hidden = true;
    setPanel(false);
  }
  performance.mark("ready");
  document.documentElement.dataset.ready = "yes";

  // For scripts and tests: what is shown, without a way to change the history.
  const finder = (name) => {
    for (let i = 0; i < data.count; i++) if (data.nameOf(i) === name) return i;
    return -1;
  };
  window.memviz = Object.freeze({
    view: () => ({ ...view.view }),
    full: () => ({ ...view.full }),
    box: () => structuredClone({ ...view.box }),
    frames: () => view.frames,
    isWhole: () => view.isWhole,
    isSingle: () => view.isSingle(),
    moments: () => data.moments,
    count: () => data.count,
    moment: () => view.moment,
    pinned: () => view.pinned,
    hits: () => hits.length,
    indexOf: finder,
    place: (i) => {
      const [x0, x1, y0, y1] = view.boxOf(i);
      return { x0: view.xOf(x0), x1: view.xOf(x1), y0: view.yOf(y1), y1: view.yOf(y0) };
    },
    totals: (moment) => {
      const { live, allocated, active, reserved, largest, holes } = stateAt(data, moment);
      const text = (value) => String(value);
      return { live: text(live), allocated: text(allocated), active: text(active), reserved: text(reserved), largest: text(largest), holes: holes.length };
    },
    curves: (moment) => ({ live: data.live[moment], active: data.active[moment], reserved: data.reserved[moment] }),
  });
}

start().catch((error) => {
  const notice = make("p", "failed", `This picture could not be shown: ${error.message}. It needs a browser from 2023 or later.`);
  document.body.append(notice);
  document.documentElement.dataset.ready = "failed";
  throw error;
});
