// Ties data, view and controls together.

async function start() {
  const facts = JSON.parse($("plan-facts").textContent);
  const plan = await readPlan(facts);
  const view = new PlanView(plan);
  const tip = $("tip");
  const card = $("card");
  const field = $("find");
  let hits = [];
  let hit = -1;
  let boxMode = false;

  // ---- facts about a buffer ----

  const duration = (i) => plan.death.big(i) - plan.birth.big(i);
  function rows(i) {
    const list = [];
    const add = (term, ...lines) => list.push([term, lines]);
    const op = plan.op(i);
    if (plan.id(i) !== plan.name(i)) add("id", plan.id(i));
    if (op !== null) add("op", op);
    const bytes = plan.bytes.big(i);
    add("bytes", byteText(bytes), ...(bytes < 1024n ? [] : [exactBytes(bytes)]));
    const offset = plan.offset.big(i);
    add("offset", grouped(offset), `to ${grouped(offset + bytes)}`);
    const [birth, death] = [plan.origin + plan.birth.big(i), plan.origin + plan.death.big(i)];
    const unit = facts.unit === 2 ? "half-step" : "time unit";
    add("live", `[${grouped(birth)}, ${grouped(death)})`, `${grouped(duration(i))} ${unit}${duration(i) === 1n ? "" : "s"}`);
    if (facts.unit === 2) add("steps", `${grouped(birth / 2n)} to ${grouped((death - 1n) / 2n)}`);
    return list;
  }

  function describe(element, i, isCard) {
    element.replaceChildren();
    const name = plan.name(i);
    const head = make("p", "name", name.length > 400 ? `${name.slice(0, 400)}…` : name);
    element.append(head);
    const tags = make("p", "tags");
    tags.append(make("span", `tag ${facts.tiers[plan.tier(i)].name}`, facts.tiers[plan.tier(i)].name));
    if (plan.isFixed(i)) tags.append(make("span", "tag", "fixed offset"));
    const gaps = plan.gapStarts[i + 1] - plan.gapStarts[i];
    if (gaps) tags.append(make("span", "tag", gaps === 1 ? "1 gap" : `${grouped(gaps)} gaps`));
    element.append(tags);
    const list = make("dl");
    const all = rows(i);
    if (isCard) all.push(["aligned", [`to ${exactBytes(plan.alignment(i))}`]]);
    for (const [term, lines] of all) {
      list.append(make("dt", "", term));
      const detail = make("dd", `is-${term}`, lines[0].length > 400 ? `${lines[0].slice(0, 400)}…` : lines[0]);
      for (const line of lines.slice(1)) detail.append(make("span", "more", line));
      list.append(detail);
    }
    element.append(list);
  }

  // ---- hover, pin ----

  let tipFor = -1;
  function hover(i, at) {
    const isMoved = view.hover !== i;
    view.hover = i;
    view.requestOver();
    readout(at);
    tip.hidden = i < 0;
    if (i < 0) return;
    if (isMoved || tipFor !== i) describe(tip, i, false);
    tipFor = i;
    placeTip(tip, at, view.box);
  }

  function pin(i, announced = true) {
    view.pinned = i;
    card.hidden = i < 0;
    view.requestOver();
    if (i < 0) return;
    tip.hidden = true;
    describe($("card-body"), i, true);
    if (announced) {
      const [birth, death] = [plan.origin + plan.birth.big(i), plan.origin + plan.death.big(i)];
      say(
        `${plan.name(i)}, ${facts.tiers[plan.tier(i)].name}, ${byteText(plan.bytes.big(i))}, ` +
          `offset ${grouped(plan.offset.big(i))}, live from ${grouped(birth)} to ${grouped(death)}`,
      );
    }
  }

  function say(text) {
    $("say").textContent = text;
  }

  function readout(at) {
    const box = view.box;
    const out = $("readout");
    if (!at || !box || at.x < box.plot.x || at.x > box.plot.x + box.plot.w) {
      out.replaceChildren();
      return;
    }
    const { x, y } = view.at(at.x, at.y);
    const time = Math.max(0, Math.floor(x));
    const { live, top } = view.stateAt(x);
    const exact = plan.origin + BigInt(time);
    const isInPlot = at.y >= box.plot.y && at.y <= box.plot.y + box.plot.h && y >= 0;
    const parts = [
      ["step", grouped(facts.unit === 2 ? exact / 2n : exact)],
      ["live", byteText(live)],
      ["holes", byteText(Math.max(0, top - live))],
    ];
    if (isInPlot) parts.push(["offset", byteText(Math.floor(y))]);
    showTerms(out, parts);
  }

  // ---- search ----

  let sought = "";
  function find() {
    sought = field.value;
    const wanted = sought.trim().toLowerCase();
    hit = -1;
    if (!wanted) {
      hits = [];
      view.hits = null;
    } else {
      hits = [];
      const texts = plan.searchable();
      for (let i = 0; i < plan.count; i++) if (texts[i].includes(wanted)) hits.push(i);
      view.hits = new Set(hits);
    }
    found();
    view.restyle();
  }

  function found() {
    const out = $("found");
    if (!view.hits) out.textContent = "";
    else if (!hits.length) out.textContent = "none";
    else if (hit < 0) out.textContent = grouped(hits.length);
    else out.textContent = `${grouped(hit + 1)} of ${grouped(hits.length)}`;
    for (const button of document.querySelectorAll(".finder button")) button.disabled = !hits.length;
    field.classList.toggle("missed", Boolean(view.hits) && !hits.length);
  }

  function nextHit(by) {
    if (!hits.length) return;
    hit = hit < 0 ? (by > 0 ? 0 : hits.length - 1) : (hit + by + hits.length) % hits.length;
    found();
    showTierOf(hits[hit]);
    pin(hits[hit]);
    view.reveal(hits[hit]);
  }

  let waiting = 0;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(find, plan.count > 50000 ? 160 : 40);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(waiting);
      if (sought !== field.value) find();
      nextHit(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      event.preventDefault();
      field.value = "";
      find();
      view.over.focus();
    }
  });
  field.form.addEventListener("submit", (event) => event.preventDefault());
  $("find-next").addEventListener("click", () => nextHit(1));
  $("find-previous").addEventListener("click", () => nextHit(-1));

  // ---- tiers ----

  const tierButtons = [...document.querySelectorAll("button.tier")];
  function showTier(tier, isShown) {
    view.shown[tier] = isShown;
    tierButtons[tier].setAttribute("aria-pressed", String(isShown));
    if (view.pinned >= 0 && !view.shown[plan.tier(view.pinned)]) pin(-1);
    view.restyle();
  }
  function showTierOf(i) {
    if (!view.shown[plan.tier(i)]) showTier(plan.tier(i), true);
  }
  tierButtons.forEach((button, tier) => button.addEventListener("click", () => showTier(tier, !view.shown[tier])));

  // ---- buttons ----

  function setBoxMode(isOn) {
    boxMode = isOn;
    $("box").setAttribute("aria-pressed", String(isOn));
    view.over.classList.toggle("boxing", isOn);
  }
  const help = $("help");
  $("zoom-in").addEventListener("click", () => view.zoom(0.6, 0.6, null, true));
  $("zoom-out").addEventListener("click", () => view.zoom(1 / 0.6, 1 / 0.6, null, true));
  $("reset").addEventListener("click", () => view.reset());
  $("box").addEventListener("click", () => setBoxMode(!boxMode));
  $("theme").addEventListener("click", () => theme.toggle());
  $("help-open").addEventListener("click", () => help.showModal());
  $("card-fit").addEventListener("click", () => view.pinned >= 0 && view.fit(view.pinned));
  $("card-close").addEventListener("click", () => pin(-1));

  view.onDraw = () => {
    const inView = view.drawn === plan.count ? `${grouped(plan.count)} buffers` : `${grouped(view.drawn)} of ${grouped(plan.count)} buffers`;
    $("in-view").textContent = inView;
    $("reset").disabled = !view.isZoomed();
    const { plot } = view.box;
    card.style.maxHeight = `${Math.max(120, plot.h - 16)}px`;
    card.style.top = `${plot.y + 8}px`;
    card.style.right = `${view.box.width - plot.x - plot.w + 8}px`;
  };

  theme.start(facts.palettes, () => {
    $("theme").setAttribute("aria-label", theme.dark ? "Light theme" : "Dark theme");
    view.rethemed();
  });
  view.box = view.layout();
  listen(view, {
    hover,
    pin,
    help: () => help.showModal(),
    search: () => field.select(),
    hit: nextHit,
    step(by) {
      if (!plan.count) return;
      let i = view.pinned;
      for (let tries = 0; tries < plan.count; tries++) {
        i = i < 0 ? (by > 0 ? 0 : plan.count - 1) : (i + by + plan.count) % plan.count;
        if (view.style[i] < DIMMED) break;
      }
      pin(i);
      view.reveal(i);
    },
    isBoxMode: () => boxMode,
    endBoxMode: () => setBoxMode(false),
    toggleBoxMode: () => setBoxMode(!boxMode),
    escape() {
      if (boxMode) setBoxMode(false);
      else if (view.pinned >= 0) pin(-1);
      else if (field.value) {
        field.value = "";
        find();
      }
    },
  });
  new ResizeObserver(() => view.request()).observe(view.stage);
  found();
  view.draw();
  document.documentElement.dataset.ready = "yes";

  // For scripts and tests: what is shown, without a way to change the plan.
  window.memviz = Object.freeze({
    view: () => ({ ...view.view }),
    full: () => ({ ...view.full }),
    plot: () => ({ ...view.box.plot }),
    strip: () => ({ ...view.box.strip }),
    count: () => plan.count,
    drawn: () => view.drawn,
    frames: () => view.frames,
    pinned: () => view.pinned,
    hits: () => hits.length,
    place: (i) => {
      const [x0, x1, y0, y1] = view.boxOf(i);
      return { x0: view.xOf(x0), x1: view.xOf(x1), y0: view.yOf(y1), y1: view.yOf(y0) };
    },
    indexOf: (name) => {
      for (let i = 0; i < plan.count; i++) if (plan.name(i) === name) return i;
      return -1;
    },
  });
}

start().catch((error) => {
  const notice = make("p", "failed", `This picture could not be shown: ${error.message}. It needs a browser from 2023 or later.`);
  document.body.append(notice);
  document.documentElement.dataset.ready = "failed";
  throw error;
});
