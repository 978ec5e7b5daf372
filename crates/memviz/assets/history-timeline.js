// Curves over time: which groups hold how many bytes, what is pending, what is reserved; and how scattered the free
// bytes are. A column of pixels shows the fullest of its moments, so that no peak is ever lost.

// What lies across: moments, or their times.
class Axis {
  constructor(moments, clock) {
    this.moments = moments;
    this.clock = clock;
    this.end = clock ? clock[moments] : moments;
  }

  // Where a moment begins.
  edge(moment) {
    return this.clock ? this.clock[moment] : moment;
  }

  momentAt(x) {
    const last = this.moments - 1;
    if (!this.clock) return Math.max(0, Math.min(last, Math.floor(x)));
    let [from, to] = [0, last + 1];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.clock[middle] <= x) from = middle + 1;
      else to = middle;
    }
    return Math.max(0, from - 1);
  }

  // First moment shown between two places, and the one after the last. Moments wider than a pixel change in its middle.
  within(x0, x1) {
    const [from, to] = [this.momentAt(x0), this.momentAt(x1)];
    if (to - from > 1) return [from, to + 1];
    const only = this.momentAt((x0 + x1) / 2);
    return [only, only + 1];
  }
}

// Styles: each group in its shades, then dimmed, then hidden.
const MOST_GROUPS = 12;
const DIMMED = MOST_GROUPS * SHADES;
const HIDDEN = DIMMED + MOST_GROUPS;
// Moments between two sums that are kept.
const KEPT = 128;

// Blocks by group, with the sums of each group at every moment.
class Grouping {
  constructor(data, by) {
    this.data = data;
    this.by = by;
    const { facts, count } = data;
    this.group = new Uint8Array(count);
    if (by === "life") this.group.set(data.lives);
    else if (by === "size") {
      const limits = [...facts.sizes].reverse();
      for (let i = 0; i < count; i++) {
        let at = 0;
        while (at < limits.length && data.asked[i] <= limits[at]) at++;
        this.group[i] = at;
      }
    } else {
      const keys = data.keys[by];
      for (let i = 0; i < count; i++) this.group[i] = Math.min(keys[i], facts.named);
    }
    this.shown = new Array(MOST_GROUPS).fill(true);
    this.style = new Uint8Array(count);
    this.keep();
  }

  // Looks of the groups in a palette.
  static looks(by, colors) {
    return colors.looks[by === "life" ? "lives" : by === "size" ? "sizes" : "groups"];
  }

  // Names of the groups that have blocks.
  static labels(data, by) {
    const { facts } = data;
    let titles = [];
    if (by === "life") return facts.lives;
    if (by === "size") {
      const limits = [...facts.sizes].reverse();
      return [`over ${shortBytes(limits[0])}`, ...limits.map((limit) => `up to ${shortBytes(limit)}`)];
    }
    if (by === "stack") titles = data.texts.titlesOf(Array.from(data.stacks.subarray(0, facts.named)));
    const name = {
      stream: (k) => `stream ${grouped(data.streams.big(k))}`,
      tag: (k) => data.texts.name(data.tags[k]) || "no tag",
      stack: (k) => titles[k],
    }[by];
    const all = { stream: data.device.streams, tag: data.device.allTags, stack: data.device.allStacks }[by];
    const known = { stream: all, tag: data.tags.length, stack: data.stacks.length }[by];
    const labels = Array.from({ length: Math.min(known, facts.named) }, (_, k) => name(k));
    if (all > labels.length) labels[facts.named] = all === 1 ? "left out" : `${grouped(all - labels.length)} others`;
    return labels;
  }

  // Sums at every KEPT-th moment.
  keep() {
    const { data } = this;
    const rows = Math.ceil(data.moments / KEPT);
    this.kept = new Float64Array(rows * (MOST_GROUPS + 1));
    const sums = new Float64Array(MOST_GROUPS + 1);
    for (let m = 0; m < data.moments; m++) {
      this.change(sums, m);
      if (m % KEPT === 0) this.kept.set(sums, (m / KEPT) * sums.length);
    }
  }

  // Takes what changes at a moment into the sums; the last one is of what is pending.
  change(sums, m) {
    const { data, group } = this;
    const { size, births, pends, deaths, pend, death } = data;
    for (let k = deaths.starts[m]; k < deaths.starts[m + 1]; k++) {
      const i = deaths.order[k];
      sums[pend[i] < death[i] ? MOST_GROUPS : group[i]] -= size[i];
    }
    for (let i = births[m]; i < births[m + 1]; i++) sums[group[i]] += size[i];
    for (let k = pends.starts[m]; k < pends.starts[m + 1]; k++) {
      const i = pends.order[k];
      sums[group[i]] -= size[i];
      sums[MOST_GROUPS] += size[i];
    }
  }

  // A walker over the sums of later and later moments.
  walker() {
    const sums = new Float64Array(MOST_GROUPS + 1);
    let now = -1;
    return (moment) => {
      const row = Math.floor(moment / KEPT);
      if (now < row * KEPT || now > moment) {
        now = row * KEPT;
        sums.set(this.kept.subarray(row * sums.length, (row + 1) * sums.length));
      }
      while (now < moment) this.change(sums, ++now);
      return sums;
    };
  }

  // Styles of all blocks; `isHit` says which ones a search leaves bright, if there is one.
  restyle(isHit) {
    const { group, style, shown } = this;
    for (let i = 0; i < style.length; i++) {
      if (!shown[group[i]]) style[i] = HIDDEN;
      else if (isHit && !isHit(i)) style[i] = DIMMED + group[i];
      else style[i] = group[i] * SHADES + shadeOf(i);
    }
  }
}

function shortBytes(bytes) {
  return byteText(bytes).replace(/\.000/, "");
}

// Fills and edges of each style, and what they become while only streams hold a block.
function styleTables(looks, colors) {
  const [fill, edge, wait] = Array.from({ length: 3 }, () => new Uint32Array(HIDDEN + 1));
  const [plot, muted] = [pixelOf(colors.plot), pixelOf(colors.muted)];
  looks.forEach((look, group) => {
    for (let shade = 0; shade < SHADES; shade++) {
      fill[group * SHADES + shade] = pixelOf(look.shades[shade]);
      edge[group * SHADES + shade] = pixelOf(look.edge);
    }
    fill[DIMMED + group] = pixelOf(look.dimmed);
    edge[DIMMED + group] = mixPixels(fill[DIMMED + group], muted, 0.25);
  });
  fill[HIDDEN] = edge[HIDDEN] = mixPixels(plot, muted, 0.1);
  for (let style = 0; style <= HIDDEN; style++) wait[style] = mixPixels(fill[style], plot, 0.62);
  return { fill, edge, wait, plain: looks.map((look) => pixelOf(look.fill)) };
}

// A column of pixels from the bottom up.
class Column {
  constructor(raster, top, bottom) {
    this.raster = raster;
    this.high = top;
    this.scale = raster.height / (top - bottom);
  }

  begin(x) {
    this.x = x;
    this.sum = 0;
    this.row = Math.min(this.raster.height, Math.round(this.high * this.scale));
  }

  // Where the next `bytes` end; says how many rows they fill.
  rise(bytes) {
    this.sum += bytes;
    this.until = Math.max(0, Math.min(this.row, Math.round((this.high - this.sum) * this.scale)));
    return this.row - this.until;
  }

  paint(color) {
    const { px, width } = this.raster;
    while (this.row > this.until) px[--this.row * width + this.x] = color;
  }

  hatch({ size, tile }, gx, gy) {
    const { px, width } = this.raster;
    const across = (this.x + gx) % size;
    while (this.row > this.until) {
      this.row--;
      px[this.row * width + this.x] = tile[((this.row + gy) % size) * size + across];
    }
  }
}

// Lines of the hatch in a colour over a lighter one: bytes that only streams hold.
function pendingTile(colors, ratio) {
  const tile = hatchTile({ ...colors, "hole-ground": colors.plot, hole: colors.muted }, ratio);
  const wash = pixelOf(colors.muted);
  for (let i = 0; i < tile.tile.length; i++) tile.tile[i] = mixPixels(tile.tile[i], wash, 0.3);
  return tile;
}

// The blocks that are there at later and later moments, in the order of their groups, then by birth; those that only
// streams hold come last.
class Stack {
  constructor(data, grouping) {
    this.data = data;
    this.group = grouping.group;
    this.keys = null;
    this.now = -1;
  }

  // Sorts by group and then by birth, as numbers below 2^53.
  key(i, isPending) {
    return (isPending ? MOST_GROUPS : this.group[i]) * 4294967296 + i;
  }

  start(moment) {
    const { data } = this;
    const list = data.blocksAt(moment).map((i) => this.key(i, data.pend[i] <= moment));
    list.sort((a, b) => a - b);
    this.length = list.length;
    this.keys = new Float64Array(Math.max(64, list.length * 2));
    this.keys.set(list);
    this.now = moment;
  }

  find(key) {
    let [from, to] = [0, this.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.keys[middle] < key) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  insert(key) {
    if (this.length === this.keys.length) {
      const larger = new Float64Array(this.length * 2);
      larger.set(this.keys);
      this.keys = larger;
    }
    const at = this.find(key);
    this.keys.copyWithin(at + 1, at, this.length);
    this.keys[at] = key;
    this.length++;
  }

  remove(key) {
    const at = this.find(key);
    if (this.keys[at] !== key || at >= this.length) return;
    this.keys.copyWithin(at, at + 1, this.length);
    this.length--;
  }

  advance(moment) {
    const { data } = this;
    if (this.now < 0 || moment < this.now || moment - this.now > 2000) return this.start(moment);
    for (let m = this.now + 1; m <= moment; m++) {
      for (let k = data.deaths.starts[m]; k < data.deaths.starts[m + 1]; k++) {
        const i = data.deaths.order[k];
        this.remove(this.key(i, data.pend[i] < data.death[i]));
      }
      for (let i = data.births[m]; i < data.births[m + 1]; i++) this.insert(this.key(i, false));
      for (let k = data.pends.starts[m]; k < data.pends.starts[m + 1]; k++) {
        const i = data.pends.order[k];
        this.remove(this.key(i, false));
        this.insert(this.key(i, true));
      }
    }
    this.now = moment;
  }

  block(at) {
    return this.keys[at] % 4294967296;
  }

  isPending(at) {
    return this.keys[at] >= MOST_GROUPS * 4294967296;
  }
}

// Fills a tile of the timeline. `single` draws block by block; otherwise each group is one area.
function rasterTimeline(raster, place, data, grouping, axis, look, single) {
  const { width, height, px } = raster;
  const { x0, x1, top, bottom, gx, gy } = place;
  const step = (x1 - x0) / width;
  px.fill(look.plot);
  const column = new Column(raster, top, bottom);
  const walk = grouping.walker();
  const stack = single ? new Stack(data, grouping) : null;
  const { fill, edge, plain } = look.tables;
  const isWhole = grouping.shown.every(Boolean);
  const rows = { reserved: new Int32Array(width + 1).fill(NOWHERE), live: new Int32Array(width + 1).fill(NOWHERE) };
  const scale = height / (top - bottom);
  // Rows above and below the tile count too: the line may come from there.
  const rowOf = (bytes) => Math.max(-FAR, Math.min(FAR, Math.round((top - bytes) * scale)));
  // What the column before was made of: the row where each part ends, its colour (or 0) and its hatch (or null).
  const parts = [];
  let done = -1;
  const part = (bytes, color, hatch, line) => {
    const tall = column.rise(bytes);
    if (tall <= 0) return;
    parts.push(column.until + (tall >= 3 && line ? 1 : 0), color, hatch);
    if (tall >= 3 && line) parts.push(column.until, line, null);
    column.row = column.until;
  };
  // One column more to the left, so that lines join from tile to tile.
  for (let x = -1; x < width; x++) {
    const left = x0 + x * step;
    if (left + step <= 0 || left >= axis.end) continue;
    const found = data.extremes(...axis.within(Math.max(0, left), Math.min(axis.end, left + step)));
    const moment = found.fullest;
    rows.reserved[x + 1] = rowOf(found.reserved);
    rows.live[x + 1] = rowOf(data.live[moment]);
    if (x < 0) continue;
    if (moment !== done) {
      parts.length = 0;
      column.begin(x);
      if (single) {
        stack.advance(moment);
        for (let at = 0; at < stack.length; at++) {
          const i = stack.block(at);
          const kind = grouping.style[i];
          if (kind !== HIDDEN) part(data.size[i], fill[kind], stack.isPending(at) ? look.pending : null, edge[kind]);
        }
      } else {
        const sums = walk(moment);
        for (let group = 0; group < MOST_GROUPS; group++) {
          if (sums[group] > 0 && grouping.shown[group]) part(sums[group], plain[group], null, 0);
        }
        if (sums[MOST_GROUPS] > 0) part(sums[MOST_GROUPS], 0, look.pending, 0);
      }
      // Free bytes of the moment shown.
      if (isWhole) part(data.reserved[moment] - data.active[moment], 0, look.hole, 0);
      done = moment;
    }
    column.begin(x);
    for (let k = 0; k < parts.length; k += 3) {
      column.until = parts[k];
      if (parts[k + 2]) column.hatch(parts[k + 2], gx, gy);
      else column.paint(parts[k + 1]);
    }
  }
  drawSteps(raster, rows.live, 1, look.live);
  drawSteps(raster, rows.reserved, look.weight, look.reserved);
}

// Rows of a line that has none there, and the farthest it may have.
const NOWHERE = 1 << 30;
const FAR = 1 << 20;

// A stepped line through a tile; `rows` has one column more to the left.
function drawSteps(raster, rows, weight, color) {
  for (let x = 0; x < raster.width; x++) {
    if (rows[x + 1] !== NOWHERE) lineTo(raster, x, rows[x] === NOWHERE ? null : rows[x], rows[x + 1], weight, color);
  }
}

// The part of a stepped line in one column: from the row before to this one.
function lineTo({ px, width, height }, x, before, row, weight, color) {
  const from = Math.max(0, Math.min(before ?? row, row));
  const to = Math.min(height, Math.max(before ?? row, row) + weight);
  for (let y = from; y < to; y++) px[y * width + x] = color;
}

// A tile of the curve of fragmentation: from the lowest to the highest value of each column.
function rasterFragmentation(raster, place, data, axis, look) {
  const { width, height, px } = raster;
  const { x0, x1, top, bottom } = place;
  const step = (x1 - x0) / width;
  const rowOf = (share) => Math.max(-FAR, Math.min(FAR, Math.round(((top - share) * height) / (top - bottom))));
  const foot = rowOf(0);
  const rows = new Int32Array(width + 1).fill(NOWHERE);
  px.fill(look.plot);
  for (let x = -1; x < width; x++) {
    const left = x0 + x * step;
    if (left + step <= 0 || left >= axis.end) continue;
    const { low, high } = data.extremes(...axis.within(Math.max(0, left), Math.min(axis.end, left + step)));
    const [upper, lower] = [rowOf(high), rowOf(low)];
    rows[x + 1] = Math.min(upper, foot - look.weight);
    for (let y = Math.max(0, upper); x >= 0 && y < Math.min(height, foot); y++) px[y * width + x] = y < lower ? look.scatteredRange : look.scatteredGround;
  }
  drawSteps(raster, rows, look.weight, look.scattered);
}

// What is known before the blocks are read: the columns that came with the page.
function rasterOverview(raster, place, data, by, look) {
  const { overview } = data;
  const { width, height, px } = raster;
  const step = (place.x1 - place.x0) / width;
  const column = new Column(raster, place.top, place.bottom);
  const scale = height / (place.top - place.bottom);
  const sums = overview.groups[by];
  px.fill(look.plot);
  let before = null;
  for (let x = 0; x < width; x++) {
    const moment = place.x0 + (x + 0.5) * step;
    if (moment < 0 || moment >= data.moments) continue;
    const c = Math.min(overview.count - 1, Math.floor((moment * overview.count) / data.moments));
    column.begin(x);
    sums.forEach((sum, group) => {
      if (sum[c] > 0 && column.rise(sum[c]) > 0) column.paint(look.tables.plain[group]);
    });
    if (overview.pending[c] > 0 && column.rise(overview.pending[c]) > 0) column.hatch(look.pending, 0, 0);
    const active = column.sum;
    if (column.rise(overview.reserved[c] - active) > 0) column.hatch(look.hole, 0, 0);
    const row = Math.round((place.top - overview.reserved[c]) * scale);
    lineTo(raster, x, before, row, look.weight, look.reserved);
    before = row;
  }
}
