// A stage with two canvases on each other: `base` has what changes with the view, `over` what follows the pointer. A
// view is a set of ranges, each with a key for its lower and its upper end: `x0` and `x1` across, and one pair for
// each pane up and down. A pane is a place { x, y, w, h } with the `keys` of its range.

class StageView {
  constructor() {
    this.stage = $("stage");
    this.base = $("base");
    this.over = $("over");
    this.frames = 0;
    this.pointer = null;
    this.band = null;
  }

  // The ranges that hold everything; the view begins with them.
  setFull(full) {
    this.full = full;
    this.view = { ...full };
    this.pairs = Object.keys(full)
      .filter((key) => key.endsWith("0"))
      .map((low) => [low, `${low.slice(0, -1)}1`]);
  }

  // Closer than this, doubles run out or there is nothing more to see.
  least(low, high) {
    const all = this.full[high] - this.full[low];
    return Math.min(all, Math.max(2, all * 2 ** -40));
  }

  // Takes the ranges that `target` has, made to fit; the others stay.
  setView(target) {
    const { full } = this;
    const view = { ...this.view };
    for (const [low, high] of this.pairs) {
      if (!(low in target)) continue;
      const [from, to] = [target[low], target[high]];
      const size = Math.min(full[high] - full[low], Math.max(this.least(low, high), to - from));
      view[low] = Math.min(full[high] - size, Math.max(full[low], from + (to - from - size) / 2));
      view[high] = view[low] + size;
    }
    this.view = view;
    this.request();
  }

  // Moves there over a few frames, unless the reader prefers no motion.
  glide(target) {
    cancelAnimationFrame(this.gliding);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return this.setView(target);
    const from = this.view;
    const begun = performance.now();
    const frame = (now) => {
      const share = Math.min(1, Math.max(0, (now - begun) / 180));
      const eased = 1 - (1 - share) ** 3;
      const between = (key) => [key, from[key] + (target[key] - from[key]) * eased];
      this.setView(share < 1 ? Object.fromEntries(Object.keys(target).map(between)) : target);
      if (share < 1) this.gliding = requestAnimationFrame(frame);
    };
    this.gliding = requestAnimationFrame(frame);
  }

  stop() {
    cancelAnimationFrame(this.gliding);
  }

  // Zooms by factors, a point of the pane staying where it is; `glide` for buttons and keys.
  zoom(factorX, factorY, at, glide, pane = this.box.plot) {
    const target = {};
    const scale = (low, high, factor, fixed) => {
      const [from, to] = [this.view[low], this.view[high]];
      const all = this.full[high] - this.full[low];
      const f = Math.max(this.least(low, high) / (to - from), Math.min(all / (to - from), factor));
      target[low] = fixed - (fixed - from) * f;
      target[high] = fixed + (to - fixed) * f;
    };
    const [low, high] = pane.keys;
    scale("x0", "x1", factorX, at ? at.x : (this.view.x0 + this.view.x1) / 2);
    scale(low, high, factorY, at ? at.y : (this.view[low] + this.view[high]) / 2);
    if (glide) this.glide(target);
    else this.setView(target);
  }

  pan(shareX, shareY, glide, pane = this.box.plot) {
    const target = {};
    for (const [low, high, share] of [["x0", "x1", shareX], [...pane.keys, shareY]]) {
      const by = share * (this.view[high] - this.view[low]);
      target[low] = this.view[low] + by;
      target[high] = this.view[high] + by;
    }
    if (glide) this.glide(target);
    else this.setView(target);
  }

  reset() {
    this.glide({ ...this.full });
  }

  isZoomed() {
    const { view, full } = this;
    return this.pairs.some(([low, high]) => view[high] - view[low] < (full[high] - full[low]) * 0.9999);
  }

  // ---- places ----

  xOf(x, pane = this.box.plot) {
    return pane.x + ((x - this.view.x0) / (this.view.x1 - this.view.x0)) * pane.w;
  }

  yOf(y, pane = this.box.plot) {
    const [low, high] = pane.keys;
    return pane.y + ((this.view[high] - y) / (this.view[high] - this.view[low])) * pane.h;
  }

  // What lies under a place on the screen.
  at(px, py, pane = this.box.plot) {
    const [low, high] = pane.keys;
    return {
      x: this.view.x0 + ((px - pane.x) / pane.w) * (this.view.x1 - this.view.x0),
      y: this.view[high] - ((py - pane.y) / pane.h) * (this.view[high] - this.view[low]),
    };
  }

  // ---- drawing ----

  request() {
    if (this.requested) return;
    this.requested = requestAnimationFrame(() => {
      this.requested = 0;
      this.draw();
    });
  }

  requestOver() {
    if (this.requested || this.requestedOver) return;
    this.requestedOver = requestAnimationFrame(() => {
      this.requestedOver = 0;
      if (!this.requested) this.drawOver();
    });
  }

  context(canvas) {
    const { width, height, ratio } = this.box;
    const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
    if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
    // Its pixels come from memory frame by frame, so it is best kept there.
    const context = canvas.getContext("2d", { willReadFrequently: canvas === this.base });
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.lineWidth = 1;
    context.textBaseline = "middle";
    return context;
  }

  // Pixels for a place, kept from frame to frame.
  raster(key, place) {
    const { ratio } = this.box;
    const [w, h] = [Math.max(1, Math.round(place.w * ratio)), Math.max(1, Math.round(place.h * ratio))];
    const kept = this[key];
    if (kept && kept.width === w && kept.height === h) return kept;
    return (this[key] = makeRaster(w, h));
  }

  // A thin frame around a pane.
  drawFrame(context, place) {
    context.strokeStyle = theme.colors.hairline;
    context.strokeRect(place.x - 0.5, place.y - 0.5, place.w + 1, place.h + 1);
  }

  // Ticks to the left of a pane, and its title where there is room.
  drawLeftAxis(context, place, ticks, yOf, title) {
    const { colors } = theme;
    context.font = `11px ${this.fonts}`;
    context.textAlign = "right";
    context.strokeStyle = colors.muted;
    context.fillStyle = colors.text;
    for (const { at, label } of ticks) {
      const y = Math.round(yOf(at)) + 0.5;
      strokeLine(context, place.x - 5, y, place.x - 1, y);
      context.fillText(label, place.x - 9, y);
    }
    if (this.box.narrow) return;
    context.fillStyle = colors.muted;
    context.textAlign = "center";
    context.save();
    context.translate(12, place.y + place.h / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(title, 0, 0);
    context.restore();
  }

  // Ticks below a pane, and a title under them.
  drawFootAxis(context, place, ticks, title) {
    const { colors } = theme;
    const foot = place.y + place.h;
    context.font = `11px ${this.fonts}`;
    context.textAlign = "center";
    context.strokeStyle = colors.muted;
    context.fillStyle = colors.text;
    for (const { at, label } of ticks) {
      const x = Math.round(this.xOf(at, place)) + 0.5;
      strokeLine(context, x, foot + 1, x, foot + 5);
      const half = context.measureText(label).width / 2;
      context.fillText(label, Math.min(this.box.width - half - 4, x), foot + 14);
    }
    context.fillStyle = colors.muted;
    context.fillText(title, place.x + place.w / 2, foot + 32);
  }

  // The box that is being drawn to zoom into, if any.
  drawBand(context) {
    if (!this.band) return;
    const { x0, y0, x1, y1 } = this.band;
    context.fillStyle = theme.colors.accent;
    context.globalAlpha = 0.16;
    context.fillRect(x0, y0, x1 - x0, y1 - y0);
    context.globalAlpha = 1;
    context.strokeStyle = theme.colors.accent;
    context.strokeRect(Math.min(x0, x1) + 0.5, Math.min(y0, y1) + 0.5, Math.abs(x1 - x0), Math.abs(y1 - y0));
  }
}

function strokeLine(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

// A rectangle's outline that stands out from any ground, however small the rectangle is.
function strokeBox(context, left, right, top, bottom, color, weight) {
  const w = Math.max(3, right - left);
  const h = Math.max(3, bottom - top);
  context.lineWidth = weight + 2;
  context.strokeStyle = theme.colors.surface;
  context.strokeRect(left - 0.5, top - 0.5, w, h);
  context.lineWidth = weight;
  context.strokeStyle = color;
  context.strokeRect(left - 0.5, top - 0.5, w, h);
}

// Lines across a pane, each { y, color, dashes }, and their names, each below the one before if they would touch.
function drawRules(context, place, rules, ground) {
  context.save();
  context.beginPath();
  context.rect(place.x, place.y - 1, place.w, place.h + 2);
  context.clip();
  for (const { y, color, dashes } of rules) {
    context.setLineDash(dashes);
    for (const [width, alpha, style] of [[4, 0.5, ground], [2, 1, color]]) {
      context.lineWidth = width;
      context.globalAlpha = alpha;
      context.strokeStyle = style;
      strokeLine(context, place.x, Math.round(y), place.x + place.w, Math.round(y));
    }
  }
  context.restore();
}

function drawRuleNames(context, place, rules, fonts) {
  context.font = `600 11px ${fonts}`;
  context.textAlign = "right";
  let free = place.y + 2;
  const half = 9;
  for (const { y, color, text } of [...rules].sort((a, b) => a.y - b.y)) {
    const middle = Math.min(place.y + place.h - half, Math.max(free + half, y + half + 4));
    const wide = context.measureText(text).width + 14;
    context.globalAlpha = 0.92;
    context.fillStyle = theme.colors.surface;
    context.beginPath();
    context.roundRect(place.x + place.w - wide - 8, middle - half, wide, 2 * half, 5);
    context.fill();
    context.globalAlpha = 1;
    context.fillStyle = color;
    context.fillText(text, place.x + place.w - 15, middle + 0.5);
    free = middle + half + 2;
  }
}

// A row of terms and values.
function showTerms(out, parts) {
  out.replaceChildren(
    ...parts.map(([term, value]) => {
      const part = make("span");
      part.append(make("i", "", term), document.createTextNode(value));
      return part;
    }),
  );
}

// Puts a card next to the pointer, inside the stage.
function placeTip(tip, at, { width, height }) {
  const [w, h] = [tip.offsetWidth, tip.offsetHeight];
  const x = at.x + 18 + w < width ? at.x + 18 : Math.max(4, at.x - 18 - w);
  const y = Math.max(4, Math.min(height - h - 4, at.y + 16));
  tip.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
}
