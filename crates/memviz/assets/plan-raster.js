// Fills pixels of the plan and of the live curve. The plan's rectangles don't overlap, so a frame costs about one
// write a pixel and a few operations a rectangle, however many there are; no graphics card is needed.

// Styles of a buffer: three tiers of eight shades, then the tiers dimmed, then hidden.
const DIMMED = 3 * SHADES;
const HIDDEN = DIMMED + 3;

// Lookup tables of a theme: fill and edge of each style.
function pixelTables(colors) {
  const fill = new Uint32Array(HIDDEN + 1);
  const edge = new Uint32Array(HIDDEN + 1);
  for (let tier = 0; tier < 3; tier++) {
    for (let shade = 0; shade < SHADES; shade++) {
      fill[tier * SHADES + shade] = pixelOf(colors.shades[tier][shade]);
      edge[tier * SHADES + shade] = pixelOf(colors.edges[tier]);
    }
    fill[DIMMED + tier] = edge[DIMMED + tier] = pixelOf(colors.dimmed[tier]);
    edge[DIMMED + tier] = mixPixels(fill[DIMMED + tier], pixelOf(colors.muted), 0.25);
  }
  fill[HIDDEN] = edge[HIDDEN] = pixelOf(colors.beyond);
  return { fill, edge };
}

// What each column of pixels shows: the moment with most live bytes among the tiers shown, and the highest byte in
// use. Columns before the first and after the last moment have -1.
function scanColumns(plan, view, width, shown) {
  const { time, tiers, tops, length } = plan.loads;
  const scale = width / (view.x1 - view.x0);
  const moment = new Int32Array(width).fill(-1);
  const load = new Float64Array(width).fill(-1);
  const high = new Float64Array(width).fill(-1);
  const [a, b, c] = shown.map((isShown) => (isShown ? 1 : 0));
  for (let k = Math.max(0, momentAt(plan, view.x0)); k < length && time[k] < view.x1; k++) {
    // The state after the last change lasts for ever, with nothing live.
    const until = k + 1 < length ? time[k + 1] : view.x1;
    const sum = a * tiers[0][k] + b * tiers[1][k] + c * tiers[2][k];
    const top = tops[k];
    const left = Math.max(0, (time[k] - view.x0) * scale);
    const right = Math.min(width, (until - view.x0) * scale);
    // Rounded like the rectangles; what rounds to nothing still counts for its column.
    const l = Math.min(width - 1, Math.round(left));
    const r = Math.round(right);
    let x = r > l ? l : Math.min(width - 1, Math.floor(left));
    do {
      if (sum > load[x]) {
        load[x] = sum;
        moment[x] = k;
      }
      if (top > high[x]) high[x] = top;
    } while (++x < r);
  }
  return { moment, high };
}

// Draws the rectangles within `view`. Edges are rounded to pixels, so rectangles that touch stay without a seam; one
// that rounds to nothing goes to `thin`. Returns how many buffers were drawn and the rectangles that are large enough
// for a label.
function rasterPlan(raster, plan, view, style, tables, scratch) {
  const { px, width, height } = raster;
  const { start, end, low, high, buffer, length } = plan.pieces;
  const { fill, edge } = tables;
  const scaleX = width / (view.x1 - view.x0);
  const scaleY = height / (view.y1 - view.y0);
  const { seen, thin } = scratch;
  const frame = ++scratch.frame;
  let drawn = 0;
  const labels = [];
  px.fill(0);
  for (let k = 0; k < length; k++) {
    if (start[k] >= view.x1) break;
    if (end[k] <= view.x0 || low[k] >= view.y1 || high[k] <= view.y0) continue;
    const kind = style[buffer[k]];
    if (kind !== HIDDEN && seen[buffer[k]] !== frame) {
      seen[buffer[k]] = frame;
      drawn++;
    }
    const left = Math.max(0, (start[k] - view.x0) * scaleX);
    const right = Math.min(width, (end[k] - view.x0) * scaleX);
    const top = Math.max(0, (view.y1 - high[k]) * scaleY);
    const bottom = Math.min(height, (view.y1 - low[k]) * scaleY);
    const l = Math.round(left);
    const r = Math.round(right);
    const t = Math.round(top);
    const b = Math.round(bottom);
    const w = r - l;
    const h = b - t;
    if (w <= 0 || h <= 0) {
      thin.add(left, right, top, bottom, fill[kind]);
      continue;
    }
    const color = fill[kind];
    const line = edge[kind];
    const hasRim = w >= 3 && h >= 3;
    for (let y = t; y < b; y++) {
      const row = y * width;
      const c = hasRim && y === t ? line : color;
      if (w > 24) px.fill(c, row + l, row + r);
      else for (let x = row + l; x < row + r; x++) px[x] = c;
      if (hasRim) px[row + r - 1] = line;
    }
    if (w >= 44 && h >= 13 && kind < DIMMED) labels.push(k);
  }
  thin.blend(raster);
  return { drawn, labels };
}

// Puts a ground under what was drawn: hatch in holes, plain above the highest byte in use, darker above `limit`.
function fillGround(raster, view, limit, high, colors, hatch) {
  const { px, width, height } = raster;
  const scaleX = width / (view.x1 - view.x0);
  const scaleY = height / (view.y1 - view.y0);
  const { size, tile } = hatch;
  const plot = pixelOf(colors.plot);
  const beyond = pixelOf(colors.beyond);
  const limitRow = Math.round((view.y1 - limit) * scaleY);
  // The hatch moves with the plan.
  const shiftX = Math.floor((view.x0 * scaleX) % size);
  const shiftY = size - 1 - Math.floor((view.y1 * scaleY) % size);
  const first = new Int32Array(width);
  for (let x = 0; x < width; x++) first[x] = high[x] <= 0 ? height : Math.round((view.y1 - high[x]) * scaleY);
  for (let y = 0; y < height; y++) {
    const empty = y < limitRow ? beyond : plot;
    const tileRow = ((y + shiftY) % size) * size;
    for (let x = 0, at = y * width; x < width; x++, at++) {
      const over = px[at];
      const alpha = over >>> 24;
      if (alpha === 255) continue;
      const under = y >= first[x] ? tile[tileRow + ((x + shiftX) % size)] : empty;
      px[at] = alpha === 0 ? under : mixPixels(under, over, alpha / 255);
    }
  }
}

// The live curve: tiers stacked, hatch from there to the highest byte in use if `hasHoles`.
function rasterLive(raster, plan, columns, shown, top, hasHoles, colors, hatch) {
  const { px, width, height } = raster;
  const { tiers } = plan.loads;
  const scaleY = height / top;
  px.fill(pixelOf(colors.plot));
  const fills = [0, 1, 2].map((tier) => pixelOf(colors.shades[tier][3]));
  for (let x = 0; x < width; x++) {
    let base = 0;
    let row = height;
    for (let tier = 0; tier < 3 && columns.moment[x] >= 0; tier++) {
      if (!shown[tier]) continue;
      base += tiers[tier][columns.moment[x]];
      const until = Math.max(0, Math.round(height - base * scaleY));
      while (row > until) px[--row * width + x] = fills[tier];
    }
    const until = hasHoles ? Math.max(0, Math.round(height - columns.high[x] * scaleY)) : height;
    while (row > until) {
      row--;
      px[row * width + x] = hatch.tile[(row % hatch.size) * hatch.size + (x % hatch.size)];
    }
  }
}
