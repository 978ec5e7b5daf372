// The state at a moment: sums, a map of all segments, who holds most, the largest holes and what keeps them small.

const MOST_ROWS = 10;

// Everything about a moment, exactly.
function stateAt(data, moment) {
  const blocks = data.blocksAt(moment);
  const state = { data, moment, blocks, live: 0n, allocated: 0n, active: 0n, reserved: 0n, largest: data.largest(moment), pendingCount: 0 };
  for (const i of blocks) {
    const bytes = data.bytes.big(i);
    state.active += bytes;
    if (data.pend[i] > moment) {
      state.allocated += bytes;
      state.live += data.requested(i);
    } else state.pendingCount++;
  }
  state.pending = state.active - state.allocated;
  state.segments = segmentsAt(data, moment);
  for (const segment of state.segments) state.reserved += segment.bytes;
  state.free = state.reserved > state.active ? state.reserved - state.active : 0n;
  const order = blocks.slice().sort((a, b) => data.low[a] - data.low[b]);
  state.parts = partsOf(data, state, order);
  state.holes = state.parts.filter((part) => part.kind === "hole").sort((a, b) => (b.bytes > a.bytes ? 1 : b.bytes < a.bytes ? -1 : 0));
  return state;
}

// Segments by address; pieces of an expandable one that touch are one.
function segmentsAt(data, moment) {
  const { piece } = data;
  const segments = [];
  for (const i of data.piecesAt(moment)) {
    const low = piece.offset.big(i);
    const [address, bytes, stream] = [data.address(low), piece.bytes.big(i), piece.stream.big(i)];
    const isExpandable = (piece.kind[i] & 4) !== 0;
    const last = segments[segments.length - 1];
    if (last && isExpandable && last.isExpandable && last.stream === stream && last.address + last.bytes === address) {
      last.bytes += bytes;
      continue;
    }
    const kind = ["any", "small", "large"][piece.kind[i] & 3];
    const pool = [piece.pool[0].big(i), piece.pool[1].big(i)];
    segments.push({ low, address, bytes, stream, isExpandable, kind, pool, piece: i, blocks: 0 });
  }
  return segments;
}

// Blocks and holes of all segments in order, each with its place in a row of them all; then blocks outside of any.
function partsOf(data, state, order) {
  const parts = [];
  let at = 0;
  let next = 0;
  const add = (part) => {
    part.at = at;
    part.size = Number(part.bytes);
    at += part.size;
    parts.push(part);
    return part;
  };
  const outside = [];
  for (const segment of state.segments) {
    const end = segment.low + segment.bytes;
    segment.at = at;
    let now = segment.low;
    let below = -1;
    let hole = null;
    for (; next < order.length; next++) {
      const i = order[next];
      const low = data.offset.big(i);
      if (low < segment.low) {
        outside.push(i);
        continue;
      }
      if (low >= end) break;
      if (low > now) hole = add({ kind: "hole", low: now, bytes: low - now, segment, below, above: i });
      const bytes = data.bytes.big(i);
      add({ kind: "block", block: i, low, bytes, segment });
      segment.blocks++;
      now = low + bytes;
      below = i;
    }
    if (now < end) hole = add({ kind: "hole", low: now, bytes: end - now, segment, below, above: -1 });
  }
  for (; next < order.length; next++) outside.push(order[next]);
  for (const i of outside) add({ kind: "block", block: i, low: data.offset.big(i), bytes: data.bytes.big(i), segment: null });
  state.width = at;
  return parts;
}

// Who holds how much at a moment, most first: [key, bytes, count].
function holdersOf(data, state, by) {
  const sums = new Map();
  for (const i of state.blocks) {
    const key = data.keys[by][i];
    const sum = sums.get(key) ?? [key, 0n, 0];
    sum[1] += data.bytes.big(i);
    sum[2]++;
    sums.set(key, sum);
  }
  return [...sums.values()].sort((a, b) => (b[1] > a[1] ? 1 : b[1] < a[1] ? -1 : a[0] - b[0]));
}

// Names of holders shown side by side.
function holderNames(data, by, keys) {
  if (by === "stream") return keys.map((key) => `stream ${grouped(data.streams.big(key))}`);
  const tag = (key) => (key < data.tags.length ? data.texts.name(data.tags[key]) || "no tag" : "tags left out");
  if (by === "tag") return keys.map(tag);
  return data.texts.titlesOf(keys.map((key) => (key < data.stacks.length ? data.stacks[key] : LEFT_OUT)));
}

// A share of 0 to 1 as a percentage; one that isn't 0 never reads as 0.
function shareText(part, whole) {
  if (whole <= 0n) return `0${NBSP}%`;
  const share = (Number(part) / Number(whole)) * 100;
  return share > 0 && share < 0.01 ? `<${NBSP}0.01${NBSP}%` : `${share.toFixed(2)}${NBSP}%`;
}

// The panel beside the picture.
class StatePanel {
  constructor(view, actions) {
    this.view = view;
    this.actions = actions;
    this.by = "stack";
    this.canvas = $("map");
    this.canvas.addEventListener("pointermove", (event) => this.hoverMap(event));
    this.canvas.addEventListener("pointerleave", () => actions.tip(null));
    this.canvas.addEventListener("click", (event) => this.clickMap(event));
    for (const button of document.querySelectorAll("#holder-tabs button")) {
      button.addEventListener("click", () => this.setBy(button.dataset.by));
    }
  }

  setBy(by) {
    this.by = by;
    for (const button of document.querySelectorAll("#holder-tabs button")) {
      button.setAttribute("aria-pressed", String(button.dataset.by === by));
    }
    this.showHolders();
  }

  show(moment) {
    const { data } = this.view;
    if (!data.isReady) return;
    this.state = stateAt(data, moment);
    const { state } = this;
    const deed = data.deed(moment);
    $("moment-title").textContent = moment === 0 ? "At the start" : `After event ${grouped(data.eventOf(moment))}`;
    $("moment-deed").textContent = deed.text;
    const time = data.timeOf(moment);
    const rows = [
      ["live", byteText(state.live), exactBytes(state.live)],
      ["allocated", byteText(state.allocated), `after rounding: ${exactBytes(state.allocated)}`],
      ["pending", byteText(state.pending), `dropped by the host, held by streams: ${exactBytes(state.pending)}`],
      ["reserved", byteText(state.reserved), exactBytes(state.reserved)],
      ["free", byteText(state.free), `reserved and not active: ${exactBytes(state.free)}`],
      ["largest hole", byteText(state.largest), exactBytes(state.largest)],
      ["fragmentation", `${data.fragmentation[moment].toFixed(2)}${NBSP}%`, "1 - largest hole / free"],
      ["blocks", grouped(state.blocks.length), `${grouped(state.pendingCount)} of them pending`],
      ["segments", grouped(state.segments.length), ""],
    ];
    if (time !== null) rows.push(["time", durationText(Number(time - data.firstTime)), `${grouped(time)} ns`]);
    const list = $("state-facts");
    list.replaceChildren();
    for (const [term, text, hint] of rows) {
      const row = make("div");
      row.title = hint;
      row.append(make("dt", "", term), make("dd", "", text));
      list.append(row);
    }
    this.drawMap();
    this.showHolders();
    this.showHoles();
  }

  // ---- the map ----

  drawMap() {
    const { view, state, canvas } = this;
    const { data, grouping, look } = view;
    // Of another device, or of one that is still being read.
    if (!grouping || state?.data !== data) return;
    const ratio = Math.min(3, window.devicePixelRatio || 1);
    const wide = canvas.parentElement.clientWidth;
    const isEmpty = state.width === 0;
    $("map-empty").hidden = !isEmpty;
    canvas.hidden = isEmpty;
    if (isEmpty || wide === 0) return;
    const rows = Math.max(3, Math.min(14, Math.ceil(state.segments.length / 3) + 6));
    const [tall, gap] = [13, 3];
    this.map = { rows, tall, gap, wide, perRow: state.width / rows };
    canvas.style.height = `${rows * (tall + gap)}px`;
    [canvas.width, canvas.height] = [Math.round(wide * ratio), Math.round(rows * (tall + gap) * ratio)];
    const raster = makeRaster(canvas.width, canvas.height);
    const unit = raster.width / this.map.perRow;
    const top = (row) => Math.round(row * (tall + gap) * ratio);
    const bottom = (row) => Math.round((row * (tall + gap) + tall) * ratio);
    const { size, tile } = look.hole;
    const stretch = (at, bytes, paint) => {
      let row = Math.min(rows - 1, Math.floor(at / this.map.perRow));
      let left = at - row * this.map.perRow;
      let rest = bytes;
      while (rest > 0 && row < rows) {
        const part = Math.min(rest, this.map.perRow - left);
        paint(row, Math.round(left * unit), Math.min(raster.width, Math.round((left + part) * unit)));
        rest -= part;
        left = 0;
        row++;
        if (part <= 0 && left === 0 && row >= rows) break;
      }
    };
    const fill = (row, l, r, color) => {
      for (let y = top(row); y < bottom(row); y++) raster.px.fill(color, y * raster.width + l, y * raster.width + r);
    };
    const hatch = (row, l, r) => {
      for (let y = top(row); y < bottom(row); y++) {
        for (let x = l; x < r; x++) raster.px[y * raster.width + x] = tile[(y % size) * size + (x % size)];
      }
    };
    for (const part of state.parts) {
      if (part.kind === "hole") stretch(part.at, part.size, hatch);
      else {
        const kind = grouping.style[part.block];
        const color = data.pend[part.block] > state.moment ? look.tables.fill[kind] : look.tables.wait[kind];
        stretch(part.at, part.size, (row, l, r) => {
          fill(row, l, r, color);
          if (r - l >= 4) fill(row, r - 1, r, look.tables.edge[kind]);
        });
      }
    }
    // A gap where a segment begins.
    const edge = pixelOf(theme.colors.surface);
    for (const { at } of state.segments) {
      const row = Math.min(rows - 1, Math.floor(at / this.map.perRow));
      const x = Math.round((at - row * this.map.perRow) * unit);
      if (unit * (state.width / state.segments.length) >= 6) fill(row, x, Math.min(raster.width, x + Math.max(1, Math.round(ratio))), edge);
    }
    canvas.getContext("2d").putImageData(raster.image, 0, 0);
  }

  partUnder(event) {
    if (!this.map || !this.state) return null;
    const box = this.canvas.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / (this.map.tall + this.map.gap));
    const at = (row + (event.clientX - box.left) / this.map.wide) * this.map.perRow;
    return this.state.parts.findLast((part) => part.at <= at && part.size > 0) ?? null;
  }

  hoverMap(event) {
    this.actions.tip(this.partUnder(event), event);
  }

  clickMap(event) {
    const part = this.partUnder(event);
    if (!part) return;
    if (part.kind === "block") this.actions.pin(part.block);
    else this.spot(part);
  }

  // ---- lists ----

  showHolders() {
    const { view, state, by } = this;
    const { data } = view;
    if (state?.data !== data) return;
    const all = holdersOf(data, state, by);
    const most = all.length ? Number(all[0][1]) : 1;
    const list = $("holders");
    list.replaceChildren();
    const shown = all.slice(0, MOST_ROWS);
    const names = holderNames(data, by, shown.map(([key]) => key));
    for (const [at, [key, bytes, count]] of shown.entries()) {
      const name = names[at];
      const button = make("button", "row");
      button.type = "button";
      button.title = `${name}\n${exactBytes(bytes)} in ${grouped(count)} ${count === 1 ? "block" : "blocks"}, ${shareText(bytes, state.active)}`;
      const isActive = this.actions.isSought(by, key);
      button.setAttribute("aria-pressed", String(isActive));
      const bar = make("span", "bar-of");
      const share = make("span");
      share.style.setProperty("width", `${Math.max(0.5, (Number(bytes) / most) * 100)}%`);
      const group = Math.min(key, data.facts.named);
      if (by === view.by && view.look) share.style.setProperty("background", view.look.looks[group].fill);
      bar.append(share);
      button.append(make("span", "who", name), make("span", "much", byteText(bytes)), bar);
      button.addEventListener("click", () => this.actions.seek(by, key, name));
      const item = make("li");
      item.append(button);
      list.append(item);
    }
    const rest = all.slice(MOST_ROWS);
    const sum = rest.reduce((total, [, bytes]) => total + bytes, 0n);
    $("holders-rest").textContent = rest.length
      ? `${grouped(rest.length)} more hold ${byteText(sum)}`
      : all.length
        ? ""
        : "Nothing is held at this moment.";
  }

  showHoles() {
    const { view, state } = this;
    const { data } = view;
    const list = $("holes");
    list.replaceChildren();
    const name = (i) => `${data.nameOf(i)} (${byteText(data.requested(i))})`;
    for (const hole of state.holes.slice(0, 8)) {
      const button = make("button", "row");
      button.type = "button";
      button.append(make("span", "who", wherePinned(hole, name)), make("span", "much", byteText(hole.bytes)));
      button.title = `${exactBytes(hole.bytes)} at ${hexText(data.address(hole.low))}`;
      button.addEventListener("click", () => this.spot(hole));
      const item = make("li");
      item.append(button);
      list.append(item);
    }
    const rest = state.holes.slice(8);
    const sum = rest.reduce((total, hole) => total + hole.bytes, 0n);
    $("holes-rest").textContent = rest.length
      ? `${grouped(rest.length)} more have ${byteText(sum)}`
      : state.holes.length
        ? ""
        : state.segments.length
          ? "No holes: every reserved byte is held."
          : "No segments at this moment.";
  }

  // Points at a hole in the layout, at this moment.
  spot(hole) {
    const { view, state } = this;
    const [low, high] = [Number(hole.low), Number(hole.low + hole.bytes)];
    view.spot = [view.axis.edge(state.moment), view.axis.edge(state.moment + 1), low, high];
    view.reveal(view.spot);
  }
}

// What keeps a hole from being larger.
function wherePinned(hole, name) {
  const { below, above, segment } = hole;
  if (below < 0 && above < 0) return `an empty segment, stream ${grouped(segment.stream)}`;
  if (below >= 0 && above >= 0) return `between ${name(below)} and ${name(above)}`;
  return below >= 0 ? `after ${name(below)}, to the segment's end` : `from the segment's start, before ${name(above)}`;
}

function hexText(address) {
  return `0x${address.toString(16)}`;
}
