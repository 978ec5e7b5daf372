// What is on the screen: layout and drawing.

const LINE_DASHES = { peak: [], bound: [7, 5], capacity: [10, 4, 2, 4] };

class PlanView extends StageView {
  constructor(plan) {
    super();
    this.plan = plan;
    this.drawn = 0;
    this.shown = [true, true, true];
    this.hits = null;
    this.hover = -1;
    this.pinned = -1;
    this.style = new Uint8Array(plan.count);
    this.scratch = { seen: new Uint32Array(plan.count), thin: null, frame: 0 };
    this.widths = new Map();
    const capacity = plan.facts.capacity === null ? 0 : Number(BigInt(plan.facts.capacity));
    // A capacity a little above the peak is worth seeing; one far above would press the plan flat.
    const highest = Math.max(plan.top, capacity <= plan.top * 1.25 ? capacity : 0, 1);
    this.setFull({ x0: 0, x1: plan.span, y0: 0, y1: highest * 1.03 });
    this.restyle();
  }

  // Shows buffer `i` with room around it.
  fit(i) {
    const [x0, x1, y0, y1] = this.boxOf(i);
    const [padX, padY] = [(x1 - x0) * 1.5, (y1 - y0) * 1.5];
    this.glide({ x0: x0 - padX, x1: x1 + padX, y0: y0 - padY, y1: y1 + padY });
  }

  // Brings buffer `i` into the view without changing the scale more than it must.
  reveal(i) {
    const [x0, x1, y0, y1] = this.boxOf(i);
    const { view } = this;
    const width = Math.max(view.x1 - view.x0, (x1 - x0) * 1.2);
    const height = Math.max(view.y1 - view.y0, (y1 - y0) * 1.2);
    const inside = x0 >= view.x0 && x1 <= view.x1 && y0 >= view.y0 && y1 <= view.y1;
    if (inside) return this.request();
    const [x, y] = [(x0 + x1) / 2, (y0 + y1) / 2];
    this.glide({ x0: x - width / 2, x1: x + width / 2, y0: y - height / 2, y1: y + height / 2 });
  }

  boxOf(i) {
    const { birth, death, offset, bytes } = this.plan;
    return [birth.number(i), death.number(i), offset.number(i), offset.number(i) + bytes.number(i)];
  }

  // ---- places ----

  layout() {
    const [width, height] = [this.stage.clientWidth, this.stage.clientHeight];
    const ratio = Math.min(3, window.devicePixelRatio || 1);
    const narrow = width < 640;
    const snap = (value) => Math.round(value * ratio) / ratio;
    const [left, right, foot, gap] = [narrow ? 70 : 88, narrow ? 12 : 24, 46, 16];
    const strip = snap(Math.min(132, Math.max(44, height * 0.17)));
    const box = {
      narrow,
      width,
      height,
      ratio,
      strip: { x: snap(left), y: snap(10), w: Math.max(40, snap(width - left - right)), h: strip },
    };
    const y = snap(box.strip.y + strip + gap);
    box.plot = { x: box.strip.x, y, w: box.strip.w, h: Math.max(40, snap(height - y - foot)), keys: ["y0", "y1"] };
    return box;
  }

  // The pane that a gesture at a place is about, and along which axes it goes.
  zoneOf({ x, y }) {
    const { plot, strip } = this.box;
    let axes = "both";
    if (x < plot.x) axes = y >= plot.y ? "y" : "none";
    else if (y > plot.y + plot.h || y < strip.y + strip.h) axes = "x";
    return { pane: plot, axes };
  }

  isInside({ x, y }) {
    const { plot } = this.box;
    return x >= plot.x && x <= plot.x + plot.w && y >= 0 && y <= plot.y + plot.h;
  }

  // The buffer under a place on the screen; the nearest one within a few pixels if there is none right there.
  pick(px, py) {
    const { plot } = this.box;
    if (px < plot.x || px > plot.x + plot.w || py < plot.y || py > plot.y + plot.h) return -1;
    const { x, y } = this.at(px, py);
    const { start, end, low, high, buffer, length } = this.plan.pieces;
    const unitX = (this.view.x1 - this.view.x0) / plot.w;
    const unitY = (this.view.y1 - this.view.y0) / plot.h;
    let best = -1;
    let least = 9;
    for (let k = 0; k < length && start[k] <= x + 3 * unitX; k++) {
      if (end[k] < x - 3 * unitX || low[k] > y + 3 * unitY || high[k] < y - 3 * unitY) continue;
      if (this.style[buffer[k]] === HIDDEN) continue;
      const dx = Math.max(start[k] - x, x - end[k], 0) / unitX;
      const dy = Math.max(low[k] - y, y - high[k], 0) / unitY;
      const distance = dx * dx + dy * dy;
      if (distance < least) [best, least] = [buffer[k], distance];
      if (distance === 0) break;
    }
    return best;
  }

  // Live bytes, and the highest byte in use, at a relative time.
  stateAt(time) {
    const { tiers, tops } = this.plan.loads;
    const k = momentAt(this.plan, time);
    return k < 0 ? { live: 0, top: 0 } : { live: tiers[0][k] + tiers[1][k] + tiers[2][k], top: tops[k] };
  }

  // ---- what is shown ----

  // Recomputes the style of every buffer after a change of tiers or search.
  restyle() {
    const { plan, style } = this;
    for (let i = 0; i < plan.count; i++) {
      const tier = plan.tier(i);
      if (!this.shown[tier]) style[i] = HIDDEN;
      else if (this.hits && !this.hits.has(i)) style[i] = DIMMED + tier;
      else style[i] = tier * SHADES + shadeOf(i);
    }
    this.request();
  }

  rethemed() {
    this.tables = pixelTables(theme.colors);
    this.fonts = getComputedStyle(document.body).fontFamily;
    this.tile = null;
    this.request();
  }

  // ---- drawing ----

  draw() {
    const { plan, view } = this;
    const { colors } = theme;
    this.box = this.layout();
    const { strip, plot, ratio } = this.box;
    const context = this.context(this.base);
    if (!this.tile || this.tileRatio !== ratio) [this.tile, this.tileRatio] = [hatchTile(colors, ratio), ratio];

    const raster = this.raster("plotRaster", plot);
    const thin = this.scratch.thin;
    if (!thin || this.thinFor !== raster) {
      this.scratch.thin = new ThinCells(raster.width, raster.height, Math.max(1, Math.round(ratio)));
      this.thinFor = raster;
    }
    const columns = scanColumns(plan, view, raster.width, this.shown);
    const { drawn, labels } = rasterPlan(raster, plan, view, this.style, this.tables, this.scratch);
    fillGround(raster, view, plan.top, columns.high, colors, this.tile);
    context.putImageData(raster.image, Math.round(plot.x * ratio), Math.round(plot.y * ratio));
    this.drawn = drawn;

    const live = this.raster("liveRaster", strip);
    rasterLive(live, plan, columns, this.shown, this.full.y1, this.shown.every(Boolean), colors, this.tile);
    context.putImageData(live.image, Math.round(strip.x * ratio), Math.round(strip.y * ratio));

    this.drawLabels(context, labels);
    if (plan.count === 0) {
      context.font = `15px ${this.fonts}`;
      context.textAlign = "center";
      context.fillStyle = colors.muted;
      context.fillText("This plan has no buffers.", plot.x + plot.w / 2, plot.y + plot.h / 2);
    }
    this.drawAxes(context);
    this.drawLines(context, plot, (byte) => this.yOf(byte), true);
    this.drawLines(context, strip, (byte) => this.stripY(byte), false);
    this.frames++;
    this.drawOver();
    this.onDraw?.();
  }

  // Names on rectangles that are large enough, the largest first.
  drawLabels(context, labels) {
    const { plan, view } = this;
    const { plot } = this.box;
    const pieces = plan.pieces;
    const cut = (k) => {
      const l = Math.max(plot.x, this.xOf(pieces.start[k]));
      const r = Math.min(plot.x + plot.w, this.xOf(pieces.end[k]));
      const t = Math.max(plot.y, this.yOf(pieces.high[k]));
      const b = Math.min(plot.y + plot.h, this.yOf(pieces.low[k]));
      return { k, l, r, t, b, area: (r - l) * (b - t) };
    };
    const places = labels.map(cut).filter(({ l, r, t, b }) => r - l >= 44 && b - t >= 13);
    places.sort((a, b) => b.area - a.area);
    context.textAlign = "left";
    for (const { k, l, r, t, b } of places.slice(0, 250)) {
      const i = pieces.buffer[k];
      const size = b - t >= 24 && r - l >= 120 ? 12 : 10.5;
      context.font = `${size}px ${this.fonts}`;
      context.fillStyle = theme.colors.inks[plan.tier(i)];
      const room = r - l - 10;
      const name = this.fitted(context, i, size, room);
      if (!name) continue;
      const two = b - t >= 40 && r - l >= 90;
      const middle = (t + b) / 2;
      context.fillText(name, l + 5, two ? middle - 7 : middle + 0.5);
      if (two) {
        context.globalAlpha = 0.78;
        context.font = `10.5px ${this.fonts}`;
        context.fillText(byteText(plan.bytes.number(i)), l + 5, middle + 8);
        context.globalAlpha = 1;
      }
    }
  }

  // The name of buffer `i`, or as much of it as fits `room`.
  fitted(context, i, size, room) {
    let known = this.widths.get(i);
    if (!known) {
      const name = this.plan.name(i).slice(0, 120);
      known = { name, perPixel: context.measureText(name).width / size };
      this.widths.set(i, known);
    }
    const width = known.perPixel * size;
    if (width <= room) return known.name;
    const count = Math.floor((known.name.length * room) / width) - 1;
    return count >= 4 ? `${known.name.slice(0, count)}…` : "";
  }

  drawAxes(context) {
    const { plan, view } = this;
    const { strip, plot } = this.box;
    for (const place of [plot, strip]) this.drawFrame(context, place);
    const bytes = byteTicks(view.y0, view.y1, Math.max(3, plot.h / 52));
    const title = bytes.base === null ? "offset" : `offset, from ${grouped(bytes.base)} bytes`;
    this.drawLeftAxis(context, plot, bytes.ticks, (byte) => this.yOf(byte), title);
    const live = byteTicks(0, this.full.y1, Math.max(2, strip.h / 34));
    this.drawLeftAxis(context, strip, live.ticks, (byte) => this.stripY(byte), "live bytes");
    const times = timeTicks(plan.origin, view.x0, view.x1, plan.facts.unit, Math.max(2, plot.w / 96));
    const base = times.base === null ? "" : `, from ${grouped(times.base)}`;
    this.drawFootAxis(context, plot, times.ticks, plan.facts.timeTitle + base);
  }

  stripY(byte) {
    const { strip } = this.box;
    return strip.y + strip.h * (1 - byte / this.full.y1);
  }

  // Peak, lower bound and capacity, with their names where there is room.
  drawLines(context, place, yOf, named) {
    const { facts } = this.plan;
    const { colors } = theme;
    const lines = [];
    const add = (key, name, exact) => {
      const text = `${name}  ${byteText(BigInt(exact))}`;
      lines.push({ text, y: yOf(Number(BigInt(exact))), color: colors[key], dashes: LINE_DASHES[key] });
    };
    if (facts.buffers > 0) {
      if (facts.peak === facts.bound) add("peak", "peak = lower bound", facts.peak);
      else {
        add("peak", "peak", facts.peak);
        add("bound", "lower bound", facts.bound);
      }
    }
    if (facts.capacity !== null) add("capacity", "capacity", facts.capacity);
    const inside = lines.filter(({ y }) => y >= place.y - 1 && y <= place.y + place.h + 1);
    drawRules(context, place, inside, colors.plot);
    if (named) drawRuleNames(context, place, inside, this.fonts);
  }

  // Pointer, hovered and pinned buffers, the hit of a search, the zoom box.
  drawOver() {
    if (!this.box) return;
    const { strip, plot } = this.box;
    const { colors } = theme;
    const context = this.context(this.over);
    context.save();
    context.beginPath();
    context.rect(plot.x, plot.y, plot.w, plot.h);
    context.clip();
    if (this.pinned >= 0) this.outline(context, this.pinned, colors.accent, 2.5, true);
    if (this.hover >= 0 && this.hover !== this.pinned) this.outline(context, this.hover, colors.text, 1.5, false);
    this.drawBand(context);
    context.restore();
    if (this.pointer && !this.band) {
      const x = Math.round(this.pointer.x) + 0.5;
      context.strokeStyle = colors.text;
      context.globalAlpha = 0.35;
      context.beginPath();
      context.moveTo(x, strip.y);
      context.lineTo(x, strip.y + strip.h);
      context.moveTo(x, plot.y);
      context.lineTo(x, plot.y + plot.h);
      context.stroke();
      context.globalAlpha = 1;
    }
  }

  // The outline of a buffer, visible even when it is smaller than a pixel; `guides` lead to the axes.
  outline(context, i, color, weight, guides) {
    const { pieces } = this.plan;
    const { plot } = this.box;
    const [x0, x1, y0, y1] = this.boxOf(i);
    // Far outside coordinates are cut, since canvases lose precision there.
    const cutX = (x) => Math.min(plot.x + plot.w + 9, Math.max(plot.x - 9, this.xOf(x)));
    const cutY = (y) => Math.min(plot.y + plot.h + 9, Math.max(plot.y - 9, this.yOf(y)));
    const box = (l, r, t, b) => strokeBox(context, l, r, t, b, color, weight);
    if (guides) {
      context.save();
      context.setLineDash([3, 4]);
      context.strokeStyle = color;
      context.globalAlpha = 0.7;
      context.beginPath();
      for (const x of [cutX(x0), cutX(x1)]) {
        context.moveTo(Math.round(x) - 0.5, cutY(y0));
        context.lineTo(Math.round(x) - 0.5, plot.y + plot.h);
      }
      for (const y of [cutY(y0), cutY(y1)]) {
        context.moveTo(plot.x, Math.round(y) - 0.5);
        context.lineTo(cutX(x0), Math.round(y) - 0.5);
      }
      context.stroke();
      context.restore();
    }
    if (this.plan.gapStarts[i] === this.plan.gapStarts[i + 1]) {
      box(cutX(x0), cutX(x1), cutY(y1), cutY(y0));
      return;
    }
    for (let k = 0; k < pieces.length && pieces.start[k] < x1; k++) {
      if (pieces.buffer[k] !== i) continue;
      box(cutX(pieces.start[k]), cutX(pieces.end[k]), cutY(pieces.high[k]), cutY(pieces.low[k]));
    }
  }
}
