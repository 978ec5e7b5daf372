// What is on the screen: a lane of marks, the timeline, the curve of fragmentation and the layout, all over one axis.

// Milliseconds of a frame in which new tiles are made.
const TILE_TIME = 13;
// Blocks are drawn one by one where a moment is at least this share of a pixel wide.
const SINGLE_SHARE = 0.3;
// With more blocks at a time than this, single ones could not be told apart, and would be slow.
const MOST_SINGLE = 30000;

class HistoryView extends StageView {
  constructor() {
    super();
    this.hover = -1;
    this.pinned = -1;
    this.moment = 0;
    this.spot = null;
    this.mode = "both";
    this.widths = new Map();
    this.setFull({ x0: 0, x1: 1, b0: 0, b1: 1, y0: 0, y1: 1, f0: 0, f1: 100 });
    this.tiles = {
      timeline: new Tiles((raster, place) =>
        rasterTimeline(raster, place, this.data, this.grouping, this.axis, this.look, this.isSingle()),
      ),
      scattered: new Tiles((raster, place) => rasterFragmentation(raster, place, this.data, this.axis, this.look)),
      layout: new Tiles((raster, place) => {
        rasterLayout(raster, place, this.data, this.grouping, this.axis, this.look, this.box.ratio);
        raster.names = this.namedIn(place, raster);
      }),
    };
  }

  // Shows a device, all of it.
  show(data, by) {
    this.data = data;
    this.by = by;
    this.grouping = data.isReady ? new Grouping(data, by) : null;
    this.grouping?.restyle(null);
    this.setAxis(false);
  }

  setAxis(isClock) {
    const { data } = this;
    this.axis = new Axis(data.moments, isClock && data.clock ? data.clock : null);
    const capacity = data.capacity === null ? 0 : Number(data.capacity);
    const top = Number(BigInt(data.device.reserved.bytes)) || Number(BigInt(data.device.active.bytes));
    // A capacity a little above the peak is worth seeing; one far above would press the curves flat.
    const highest = Math.max(top, Number(BigInt(data.device.active.bytes)), capacity <= top * 1.25 ? capacity : 0, 1);
    this.setFull({ x0: 0, x1: this.axis.end, b0: 0, b1: highest * 1.06, y0: 0, y1: Math.max(1, data.height) * 1.02, f0: 0, f1: 100 });
    this.forget();
  }

  // The view stays, the axis changes under it.
  swapAxis(isClock) {
    const [from, to] = [this.axis.momentAt(this.view.x0), this.axis.momentAt(this.view.x1)];
    const isAll = this.view.x1 - this.view.x0 >= this.full.x1 * 0.9999;
    const kept = { ...this.view };
    this.setAxis(isClock);
    const x = isAll ? {} : { x0: this.axis.edge(from), x1: this.axis.edge(Math.min(this.data.moments, to + 1)) };
    this.setView({ ...kept, x0: this.full.x0, x1: this.full.x1, ...x });
  }

  // Everything is to be drawn anew; `isOther` if even what was there before is of no use.
  forget(isOther = true) {
    for (const tiles of Object.values(this.tiles)) tiles.clear(isOther);
    this.trace = null;
    this.request();
  }

  rethemed() {
    this.fonts = getComputedStyle(document.body).fontFamily;
    this.lookFor = null;
    this.forget();
  }

  makeLook() {
    const { colors } = theme;
    const { ratio } = this.box;
    if (this.lookFor === `${ratio} ${this.by}`) return;
    this.lookFor = `${ratio} ${this.by}`;
    const looks = Grouping.looks(this.by, colors);
    const [plot, accent] = [pixelOf(colors.plot), pixelOf(colors.accent)];
    this.look = {
      looks,
      tables: styleTables(looks, colors),
      hole: hatchTile(colors, ratio),
      pending: pendingTile(colors, ratio),
      plot,
      beyond: pixelOf(colors.beyond),
      seam: mixPixels(pixelOf(colors.hole), pixelOf(colors.muted), 0.6),
      reserved: pixelOf(colors.peak),
      live: pixelOf(colors.bound),
      weight: Math.max(1, Math.round(1.5 * ratio)),
      scattered: accent,
      scatteredRange: mixPixels(plot, accent, 0.45),
      scatteredGround: mixPixels(plot, accent, 0.16),
    };
    this.forget();
  }

  isSingle() {
    const { timeline } = this.box;
    if (!timeline || !this.data.isReady) return false;
    const { births, deaths } = this.data;
    const [from, to] = [this.axis.momentAt(this.view.x0), this.axis.momentAt(this.view.x1)];
    if (timeline.w * this.box.ratio < (to - from + 1) * SINGLE_SHARE) return false;
    return [from, to, (from + to) >> 1].every((m) => births[m + 1] - deaths.starts[m + 1] < MOST_SINGLE);
  }

  // ---- places ----

  layout() {
    const [width, height] = [this.stage.clientWidth, this.stage.clientHeight];
    const ratio = Math.min(3, window.devicePixelRatio || 1);
    const narrow = width < 640;
    const snap = (value) => Math.round(value * ratio) / ratio;
    const [left, right, foot, gap] = [narrow ? 70 : 88, narrow ? 12 : 16, 46, 12];
    const [x, w] = [snap(left), Math.max(40, snap(width - left - right))];
    const box = { narrow, width, height, ratio };
    let y = snap(4);
    const pane = (name, tall, keys) => {
      // The timeline stands on its ground: a wheel moves only what lies across, unless it is on the axis.
      box[name] = { x, y, w, h: Math.max(20, snap(tall)), keys, name, wheel: name === "timeline" ? "x" : "both" };
      y = snap(y + box[name].h + gap);
    };
    pane("lane", 20, ["f0", "f1"]);
    y -= gap - 3;
    const scattered = Math.max(30, Math.min(54, height * 0.08));
    const room = height - y - foot;
    if (this.mode !== "layout") {
      pane("timeline", this.mode === "both" ? room * 0.38 : room - scattered - gap, ["b0", "b1"]);
      pane("scattered", scattered, ["f0", "f1"]);
    }
    if (this.mode !== "timeline") pane("plot", height - y - foot, ["y0", "y1"]);
    box.last = box.plot ?? box.scattered;
    box.hasLayout = Boolean(box.plot);
    box.plot ??= box.timeline;
    return box;
  }

  panes() {
    const { lane, timeline, scattered, plot, hasLayout } = this.box;
    return [lane, timeline, scattered, hasLayout ? plot : null].filter(Boolean);
  }

  paneOf({ y }) {
    const panes = this.panes();
    return panes.find((pane) => y < pane.y + pane.h + 6) ?? panes[panes.length - 1];
  }

  zoneOf(at) {
    const pane = this.paneOf(at);
    const isFixed = pane.name === "lane" || pane.name === "scattered";
    let axes = isFixed ? "x" : "both";
    if (at.x < pane.x) axes = isFixed ? "none" : "y";
    else if (at.y > this.box.last.y + this.box.last.h) axes = "x";
    return { pane, axes };
  }

  isInside({ x, y }) {
    const { lane, last } = this.box;
    return x >= last.x && x <= last.x + last.w && y >= lane.y && y <= last.y + last.h;
  }

  // In the lane, and on the line of the moment, the pointer moves the moment.
  isScrubbed(at) {
    if (!this.isInside(at)) return false;
    return this.paneOf(at).name === "lane";
  }

  // The moment under a place: in the timeline the one that its column shows.
  momentUnder(at) {
    const { plot } = this.box;
    const { x } = this.at(at.x, at.y, plot);
    if (!this.data.isReady || this.paneOf(at).name === "plot") return this.axis.momentAt(x);
    const step = (this.view.x1 - this.view.x0) / (plot.w * this.box.ratio);
    const column = Math.floor(x / step) * step;
    return this.data.extremes(...this.axis.within(Math.max(0, column), Math.min(this.axis.end, column + step))).fullest;
  }

  // The block under a place, or -1.
  pick(px, py) {
    const at = { x: px, y: py };
    if (!this.data?.isReady || !this.isInside(at)) return -1;
    const pane = this.paneOf(at);
    if (pane.name === "plot") return this.pickInLayout(at);
    if (pane.name === "timeline" && this.isSingle()) return this.pickInTimeline(at);
    return -1;
  }

  pickInLayout(at) {
    const { data, axis, box } = this;
    const { x, y } = this.at(at.x, at.y, box.plot);
    const unitX = (this.view.x1 - this.view.x0) / box.plot.w;
    const unitY = (this.view.y1 - this.view.y0) / box.plot.h;
    const [from, to] = [axis.momentAt(x - 3 * unitX), axis.momentAt(x + 3 * unitX)];
    let best = -1;
    let least = 9;
    data.between(from, to, (i) => {
      if (data.low[i] > y + 3 * unitY || data.low[i] + data.size[i] < y - 3 * unitY) return;
      if (this.grouping.style[i] === HIDDEN) return;
      const dx = Math.max(axis.edge(data.birth[i]) - x, x - axis.edge(data.death[i]), 0) / unitX;
      const dy = Math.max(data.low[i] - y, y - data.low[i] - data.size[i], 0) / unitY;
      const distance = dx * dx + dy * dy;
      if (distance < least) [best, least] = [i, distance];
    });
    return best;
  }

  pickInTimeline(at) {
    const { y } = this.at(at.x, at.y, this.box.timeline);
    const stack = new Stack(this.data, this.grouping);
    stack.start(this.momentUnder(at));
    let sum = 0;
    for (let k = 0; k < stack.length; k++) {
      const i = stack.block(k);
      if (this.grouping.style[i] === HIDDEN) continue;
      sum += this.data.size[i];
      if (y < sum && y >= 0) return i;
    }
    return -1;
  }

  boxOf(i) {
    const { data, axis } = this;
    return [axis.edge(data.birth[i]), axis.edge(data.death[i]), data.low[i], data.low[i] + data.size[i]];
  }

  // Shows block `i` with room around it.
  fit(i) {
    const [x0, x1, y0, y1] = this.boxOf(i);
    const [padX, padY] = [(x1 - x0) * 1.5, (y1 - y0) * 1.5];
    this.glide({ x0: x0 - padX, x1: x1 + padX, y0: y0 - padY, y1: y1 + padY });
  }

  // Brings a rectangle of the layout into the view without changing the scale more than it must.
  reveal([x0, x1, y0, y1]) {
    const { view } = this;
    const target = {};
    const move = (low, high, from, to) => {
      if (from >= view[low] && to <= view[high]) return;
      const size = Math.max(view[high] - view[low], (to - from) * 1.2);
      [target[low], target[high]] = [(from + to - size) / 2, (from + to + size) / 2];
    };
    move("x0", "x1", x0, x1);
    move("y0", "y1", y0, y1);
    if (Object.keys(target).length) this.glide(target);
    else this.request();
  }

  // Brings the moment into the view.
  revealMoment() {
    const x = this.axis.edge(this.moment);
    const { x0, x1 } = this.view;
    if (x >= x0 && x <= x1) return this.requestOver();
    this.glide({ x0: x - (x1 - x0) / 2, x1: x + (x1 - x0) / 2 });
  }

  // ---- drawing ----

  draw() {
    if (!this.data) return;
    const { data, view } = this;
    const { colors } = theme;
    this.box = this.layout();
    this.makeLook();
    const single = this.isSingle();
    if (single !== this.wasSingle) {
      this.tiles.timeline.clear(false);
      this.wasSingle = single;
      this.trace = null;
    }
    const { timeline, scattered, plot, last, ratio, hasLayout } = this.box;
    const context = this.context(this.base);
    const until = performance.now() + TILE_TIME;
    let isWhole = true;
    if (data.isReady) {
      for (const [tiles, pane] of [[this.tiles.timeline, timeline], [this.tiles.scattered, scattered], [this.tiles.layout, hasLayout ? plot : null]]) {
        if (pane) isWhole = tiles.draw(context, pane, view, this.full, ratio, until) && isWhole;
      }
      if (hasLayout) this.drawNames(context);
    } else this.drawBefore(context);
    this.drawEmpty(context);
    this.drawAxes(context);
    this.drawMarks(context);
    if (timeline) this.drawRules(context, timeline);
    this.isWhole = isWhole;
    this.frames++;
    this.drawOver();
    this.onDraw?.();
    if (!isWhole) this.request();
  }

  // The first picture, from what came with the page.
  drawBefore(context) {
    const { timeline, scattered, plot, ratio, hasLayout } = this.box;
    const { colors } = theme;
    if (timeline && this.data.overview) {
      const raster = this.raster("firstRaster", timeline);
      const { x0, x1, b0, b1 } = this.view;
      rasterOverview(raster, { x0, x1, top: b1, bottom: b0 }, this.data, this.by, this.look);
      context.putImageData(raster.image, Math.round(timeline.x * ratio), Math.round(timeline.y * ratio));
    }
    context.fillStyle = colors.plot;
    for (const pane of [scattered, hasLayout ? plot : null].filter(Boolean)) context.fillRect(pane.x, pane.y, pane.w, pane.h);
    if (hasLayout) this.drawNote(context, plot, `Reading ${grouped(this.data.device.blocks)} blocks…`);
  }

  drawNote(context, pane, text) {
    context.font = `15px ${this.fonts}`;
    context.textAlign = "center";
    context.fillStyle = theme.colors.muted;
    context.fillText(text, pane.x + pane.w / 2, pane.y + pane.h / 2);
  }

  // Words where there is nothing to see.
  drawEmpty(context) {
    const { data } = this;
    const { timeline, plot, hasLayout } = this.box;
    if (data.device.blocks === 0 && data.device.pieces === 0) {
      if (timeline) this.drawNote(context, timeline, "Nothing was allocated or reserved on this device.");
      if (hasLayout) this.drawNote(context, plot, "No segments, no blocks.");
    } else if (data.device.pieces === 0 && hasLayout) {
      context.font = `12px ${this.fonts}`;
      context.textAlign = "left";
      context.fillStyle = theme.colors.muted;
      context.fillText("This record has no segments: holes are not known.", plot.x + 8, plot.y + 14);
    }
  }

  // Blocks of a tile that have room for their name.
  namedIn(place, { width, height }) {
    const { data, axis } = this;
    const names = [];
    const [leastX, leastY] = [(44 * this.box.ratio * (place.x1 - place.x0)) / width, (13 * this.box.ratio * (place.top - place.bottom)) / height];
    data.between(axis.momentAt(place.x0), axis.momentAt(place.x1), (i) => {
      if (data.size[i] < leastY || data.low[i] >= place.top || data.low[i] + data.size[i] <= place.bottom) return;
      if (axis.edge(data.death[i]) - axis.edge(data.birth[i]) >= leastX) names.push(i);
    });
    return names;
  }

  // Names on blocks that are large enough, the largest first.
  drawNames(context) {
    const { data, grouping, view } = this;
    const { plot, ratio } = this.box;
    const seen = new Set();
    for (const tile of this.tiles.layout.tiles.values()) for (const i of tile.names ?? []) seen.add(i);
    const places = [];
    for (const i of seen) {
      if (grouping.style[i] >= DIMMED) continue;
      const [x0, x1, y0, y1] = this.boxOf(i);
      if (x1 <= view.x0 || x0 >= view.x1 || y1 <= view.y0 || y0 >= view.y1) continue;
      const [l, r] = [Math.max(plot.x, this.xOf(x0)), Math.min(plot.x + plot.w, this.xOf(x1))];
      const [t, b] = [Math.max(plot.y, this.yOf(y1)), Math.min(plot.y + plot.h, this.yOf(y0))];
      if (r - l >= 44 && b - t >= 13) places.push({ i, l, r, t, b, area: (r - l) * (b - t) });
    }
    places.sort((a, b) => b.area - a.area);
    context.textAlign = "left";
    for (const { i, l, r, t, b } of places.slice(0, 200)) {
      const size = b - t >= 24 && r - l >= 120 ? 12 : 10.5;
      context.font = `${size}px ${this.fonts}`;
      context.fillStyle = this.look.looks[grouping.group[i]].ink;
      const name = this.fitted(context, i, size, r - l - 10);
      if (!name) continue;
      const two = b - t >= 40 && r - l >= 90;
      const middle = (t + b) / 2;
      context.fillText(name, l + 5, two ? middle - 7 : middle + 0.5);
      if (!two) continue;
      context.globalAlpha = 0.78;
      context.font = `10.5px ${this.fonts}`;
      context.fillText(byteText(data.requested(i)), l + 5, middle + 8);
      context.globalAlpha = 1;
    }
  }

  // The name of a block, or as much of it as fits.
  fitted(context, i, size, room) {
    const name = this.data.nameOf(i).slice(0, 120);
    let perPixel = this.widths.get(name);
    if (perPixel === undefined) {
      perPixel = context.measureText(name).width / size;
      this.widths.set(name, perPixel);
    }
    const width = perPixel * size;
    if (width <= room) return name;
    const count = Math.floor((name.length * room) / width) - 1;
    return count >= 4 ? `${name.slice(0, count)}…` : "";
  }

  drawAxes(context) {
    const { view, axis, data } = this;
    const { timeline, scattered, plot, last, hasLayout } = this.box;
    for (const pane of this.panes().slice(1)) this.drawFrame(context, pane);
    if (timeline) {
      const ticks = byteTicks(view.b0, view.b1, Math.max(3, timeline.h / 44));
      this.drawLeftAxis(context, timeline, ticks.ticks, (byte) => this.yOf(byte, timeline), titled("bytes", ticks.base));
      const shares = [0, 50, 100].map((at) => ({ at, label: `${at}${NBSP}%` }));
      this.drawLeftAxis(context, scattered, shares, (at) => scattered.y + scattered.h * (1 - at / 100), "fragm.");
    }
    if (hasLayout) {
      const ticks = byteTicks(view.y0, view.y1, Math.max(3, plot.h / 52));
      this.drawLeftAxis(context, plot, ticks.ticks, (byte) => this.yOf(byte, plot), titled("address, gaps left out", ticks.base));
    }
    const most = Math.max(2, plot.w / 104);
    if (axis.clock) {
      const times = clockTicks(view.x0, view.x1, most);
      this.drawFootAxis(context, last, times.ticks, times.title);
    } else {
      // Moment k is the one after event k - 1; moment 0 has no event.
      const times = timeTicks(data.from - 1n, view.x0, view.x1, 1, most);
      times.ticks = times.ticks.filter((tick) => tick.at >= 1);
      this.drawFootAxis(context, last, times.ticks, titled("event", times.base, ""));
    }
  }

  // Marks: steps and what the program said in the lane, failures through all panes.
  drawMarks(context) {
    const { data, axis, view } = this;
    const { lane, last, width } = this.box;
    const { colors } = theme;
    context.fillStyle = colors.beyond;
    context.beginPath();
    context.roundRect(lane.x, lane.y, lane.w, lane.h, 5);
    context.fill();
    if (!data.isReady) return;
    const { marks } = data;
    context.save();
    context.beginPath();
    context.rect(lane.x, lane.y, lane.w, last.y + last.h - lane.y);
    context.clip();
    let free = -Infinity;
    context.font = `11px ${this.fonts}`;
    context.textAlign = "left";
    const isClear = (x) => x >= free;
    // Spans of the program's own words, if times say where they are.
    if (axis.clock || data.clock) this.drawNotes(context);
    let before = -Infinity;
    for (let k = 0; k < marks.count; k++) {
      const x = this.xOf(axis.edge(marks.moment[k]));
      const kind = data.actions[marks.moment[k] - 1];
      if (x < lane.x - 200 || x > lane.x + lane.w) continue;
      if (kind === STEP) {
        // Neither a crowd of ticks nor one through a name.
        if (x - before < 2 || x < free - 8) continue;
        before = x;
        context.fillStyle = colors.muted;
        context.fillRect(Math.round(x), lane.y + 3, 1, lane.h - 6);
        const name = data.texts.name(marks.tag[k]);
        if (!name || !isClear(x)) continue;
        const wide = context.measureText(name).width;
        if (wide > 180) continue;
        context.fillStyle = colors.text;
        context.fillText(name, x + 5, lane.y + lane.h / 2 + 0.5);
        free = x + wide + 12;
      } else {
        const color = kind === OUT_OF_MEMORY ? colors.bad : colors.muted;
        context.strokeStyle = color;
        context.globalAlpha = kind === OUT_OF_MEMORY ? 0.9 : 0.5;
        context.setLineDash(kind === OUT_OF_MEMORY ? [] : [2, 3]);
        strokeLine(context, Math.round(x) + 0.5, lane.y + lane.h, Math.round(x) + 0.5, last.y + last.h);
        context.setLineDash([]);
        context.globalAlpha = 1;
        context.fillStyle = color;
        context.beginPath();
        context.moveTo(x - 5, lane.y + 5);
        context.lineTo(x + 6, lane.y + 5);
        context.lineTo(x + 0.5, lane.y + lane.h - 3);
        context.fill();
      }
    }
    context.restore();
  }

  drawNotes(context) {
    const { data } = this;
    const { lane } = this.box;
    const { colors } = theme;
    let end = -Infinity;
    for (const span of data.notes) {
      const [l, r] = this.spanOf(span);
      if (r < lane.x || l > lane.x + lane.w || r - l < 3) continue;
      context.fillStyle = colors.accent;
      context.globalAlpha = 0.13;
      context.fillRect(l, lane.y + lane.h - 5, r - l - 1, 4);
      context.globalAlpha = 1;
      const name = data.texts.name(span.name);
      const from = Math.max(l, lane.x) + 4;
      if (from < end || data.device.marks > 0) continue;
      const wide = context.measureText(name).width;
      if (!name || wide > r - from - 6) continue;
      context.fillStyle = colors.text;
      context.fillText(name, from, lane.y + lane.h / 2 - 1);
      end = from + wide + 8;
    }
  }

  // Where a span of the program's words begins and ends on the screen.
  spanOf(span) {
    const { data, axis } = this;
    const place = (time) => {
      const relative = Number(time - data.firstTime);
      if (axis.clock) return this.xOf(Math.max(0, Math.min(axis.end, relative)));
      const clock = new Axis(data.moments, data.clock);
      return this.xOf(relative <= 0 ? 0 : clock.momentAt(relative));
    };
    return [place(span.start), span.end === null ? this.xOf(axis.end) : place(span.end)];
  }

  // Capacity and peak across the timeline.
  drawRules(context, pane) {
    const { device, capacity } = this.data;
    const { colors } = theme;
    const rules = [];
    const add = (name, bytes, color, dashes) => {
      const y = this.yOf(Number(bytes), pane);
      if (y >= pane.y - 1 && y <= pane.y + pane.h + 1) rules.push({ y, color, dashes, text: `${name}  ${byteText(bytes)}` });
    };
    if (capacity !== null) add("capacity", capacity, colors.capacity, [10, 4, 2, 4]);
    const live = BigInt(device.live.bytes);
    if (live > 0n) add("peak live", live, colors.bound, [7, 5]);
    const reserved = BigInt(device.reserved.bytes);
    drawRules(context, pane, rules, colors.plot);
    if (reserved > 0n) add("peak reserved", reserved, colors.peak, []);
    drawRuleNames(context, pane, rules, this.fonts);
  }

  // Pointer, moment, hovered and pinned blocks, what a list points at, the zoom box.
  drawOver() {
    if (!this.box || !this.data) return;
    const { lane, plot, last, hasLayout, timeline } = this.box;
    const { colors } = theme;
    const context = this.context(this.over);
    context.save();
    context.beginPath();
    context.rect(last.x, lane.y, last.w, last.y + last.h - lane.y);
    context.clip();
    const x = Math.round(this.xOf(this.axis.edge(this.moment))) + 0.5;
    context.strokeStyle = colors.accent;
    context.lineWidth = 1.5;
    strokeLine(context, x, lane.y + lane.h, x, last.y + last.h);
    context.fillStyle = colors.accent;
    context.beginPath();
    context.roundRect(x - 5, lane.y + 1, 10, lane.h - 2, 4);
    context.fill();
    context.lineWidth = 1;
    context.restore();
    context.save();
    context.beginPath();
    for (const pane of [timeline, hasLayout ? plot : null]) if (pane) context.rect(pane.x, pane.y, pane.w, pane.h);
    context.clip();
    if (this.data.isReady) {
      for (const [i, color, weight] of [[this.pinned, colors.accent, 2.5], [this.hover, colors.text, 1.5]]) {
        if (i < 0 || (i === this.pinned && color !== colors.accent)) continue;
        if (hasLayout) this.outline(context, this.boxOf(i), color, weight);
        if (timeline && this.isSingle()) this.drawTrace(context, i, color);
      }
      if (this.spot && hasLayout) this.outline(context, this.spot, colors.bad, 2);
    }
    this.drawBand(context);
    context.restore();
    if (this.pointer && !this.band) {
      const at = Math.round(this.pointer.x) + 0.5;
      context.strokeStyle = colors.text;
      context.globalAlpha = 0.35;
      for (const pane of this.panes().slice(1)) strokeLine(context, at, pane.y, at, pane.y + pane.h);
      context.globalAlpha = 1;
    }
  }

  outline(context, [x0, x1, y0, y1], color, weight) {
    const { plot } = this.box;
    // Far outside coordinates are cut, since canvases lose precision there.
    const cutX = (x) => Math.min(plot.x + plot.w + 9, Math.max(plot.x - 9, this.xOf(x, plot)));
    const cutY = (y) => Math.min(plot.y + plot.h + 9, Math.max(plot.y - 9, this.yOf(y, plot)));
    strokeBox(context, cutX(x0), cutX(x1), cutY(y1), cutY(y0), color, weight);
  }

  // Where a block lies in the timeline, column by column.
  traceOf(i) {
    const { data, axis, view } = this;
    const { timeline } = this.box;
    const key = `${i} ${view.x0} ${view.x1} ${timeline.w} ${this.by}`;
    if (this.trace?.key === key) return this.trace.parts;
    const stack = new Stack(data, this.grouping);
    const step = (view.x1 - view.x0) / timeline.w;
    const parts = [];
    const first = Math.max(0, Math.floor((axis.edge(data.birth[i]) - view.x0) / step));
    const end = Math.min(timeline.w, Math.ceil((axis.edge(data.death[i]) - view.x0) / step));
    let last = null;
    for (let x = first; x < end; x++) {
      const left = Math.max(0, view.x0 + x * step);
      const moment = data.extremes(...axis.within(left, Math.min(axis.end, left + step))).fullest;
      if (data.birth[i] > moment || data.death[i] <= moment) continue;
      if (last && last.moment === moment) {
        last.w++;
        continue;
      }
      stack.advance(moment);
      let sum = 0;
      for (let at = 0; at < stack.length && stack.block(at) !== i; at++) {
        if (this.grouping.style[stack.block(at)] !== HIDDEN) sum += data.size[stack.block(at)];
      }
      last = { x, w: 1, low: sum, moment };
      parts.push(last);
    }
    this.trace = { key, parts };
    return parts;
  }

  drawTrace(context, i, color) {
    const { timeline } = this.box;
    const size = this.data.size[i];
    context.fillStyle = color;
    context.globalAlpha = 0.5;
    for (const { x, w, low } of this.traceOf(i)) {
      const top = this.yOf(low + size, timeline);
      context.fillRect(timeline.x + x, top, w, Math.max(1.5, this.yOf(low, timeline) - top));
    }
    context.globalAlpha = 1;
  }
}

function titled(name, base, unit = " bytes") {
  return base === null ? name : `${name}, from ${grouped(base)}${unit}`;
}

const TIME_UNITS = [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]];

// Nanoseconds in a readable unit.
function durationText(ns) {
  if (ns < 0) return `\u2212${durationText(-ns)}`;
  const [name, size] = TIME_UNITS.filter(([, size]) => ns >= size).pop() ?? TIME_UNITS[0];
  return `${trimmed(ns / size)}${NBSP}${name}`;
}

// Ticks of time since the first event. Where three decimals don't tell them apart, they count from a base.
function clockTicks(from, to, most) {
  let step = 1;
  for (let k = 0; (to - from) / step >= most; k++) step = [1, 2, 5][k % 3] * 10 ** Math.floor(k / 3);
  const [unit, size] = TIME_UNITS.filter(([, size]) => Math.max(step, 1) * 1000 > size && size <= Math.max(to, 1)).pop() ?? TIME_UNITS[0];
  const ticks = [];
  const first = Math.ceil(from / step) * step;
  const base = first > (to - from) * 1000 ? Math.floor(first / (step * 10)) * step * 10 : 0;
  for (let at = first; at <= to && ticks.length < 60; at += step) {
    ticks.push({ at, label: `${base ? "+" : ""}${trimmed((at - base) / size)}${NBSP}${unit}` });
  }
  return { ticks, title: base ? `time, from ${durationText(base)} after the first event` : "time since the first event" };
}
