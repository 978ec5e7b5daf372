// Addresses over time: segments, the blocks in them, and the holes between. Blocks don't overlap, so a tile costs about
// one write a pixel and a few operations a block.

const TILE_WIDTH = 192;
const TILE_HEIGHT = 480;
const MOST_TILES = 90;

// Pixels of a pane in tiles that lie fast on the data, so that a moving view only needs those that are new. What is
// not ready in time is shown from the last picture, and follows with the next frames.
class Tiles {
  constructor(render) {
    this.render = render;
    this.tiles = new Map();
    this.backup = null;
    this.version = 0;
  }

  // Everything looks different now.
  clear(isForgotten) {
    this.tiles.clear();
    if (isForgotten) this.backup = null;
  }

  // Draws the pane; says whether all of it is as it should be. `until` is when to stop.
  draw(context, pane, view, full, ratio, until) {
    const [low, high] = pane.keys;
    const [left, upper] = [Math.round(pane.x * ratio), Math.round(pane.y * ratio)];
    const [w, h] = [Math.max(1, Math.round(pane.w * ratio)), Math.max(1, Math.round(pane.h * ratio))];
    const stepX = (view.x1 - view.x0) / w;
    const stepY = (view[high] - view[low]) / h;
    const key = `${stepX} ${stepY}`;
    if (this.key !== key) {
      this.tiles.clear();
      this.key = key;
    }
    const px = Math.round(view.x0 / stepX);
    const py = Math.round((full[high] - view[high]) / stepY);
    let isWhole = true;
    const missing = [];
    for (let kx = Math.floor(px / TILE_WIDTH); kx * TILE_WIDTH < px + w; kx++) {
      for (let ky = Math.floor(py / TILE_HEIGHT); ky * TILE_HEIGHT < py + h; ky++) {
        if (!this.tiles.has(`${kx} ${ky}`)) missing.push([kx, ky]);
      }
    }
    // One tile a frame at least, or nothing would ever be done.
    let made = 0;
    for (const [kx, ky] of missing) {
      if (made > 0 && performance.now() > until) {
        isWhole = false;
        break;
      }
      this.make(kx, ky, stepX, stepY, full[high]);
      made++;
    }
    if (!isWhole) this.drawBackup(context, pane, view, ratio);
    for (let kx = Math.floor(px / TILE_WIDTH); kx * TILE_WIDTH < px + w; kx++) {
      for (let ky = Math.floor(py / TILE_HEIGHT); ky * TILE_HEIGHT < py + h; ky++) {
        const tile = this.tiles.get(`${kx} ${ky}`);
        if (!tile) continue;
        const [x, y] = [kx * TILE_WIDTH - px, ky * TILE_HEIGHT - py];
        const [cutX, cutY] = [Math.max(0, -x), Math.max(0, -y)];
        const wide = Math.min(TILE_WIDTH, w - x) - cutX;
        const tall = Math.min(TILE_HEIGHT, h - y) - cutY;
        context.putImageData(tile.image, left + x, upper + y, cutX, cutY, wide, tall);
      }
    }
    if (isWhole && (made > 0 || !this.backup)) this.keepBackup(context, left, upper, w, h, pane, view);
    return isWhole;
  }

  make(kx, ky, stepX, stepY, top) {
    let tile = null;
    while (this.tiles.size >= MOST_TILES) {
      const [oldest, kept] = this.tiles.entries().next().value;
      this.tiles.delete(oldest);
      tile = kept;
    }
    tile ??= makeRaster(TILE_WIDTH, TILE_HEIGHT);
    const [gx, gy] = [kx * TILE_WIDTH, ky * TILE_HEIGHT];
    this.render(tile, {
      x0: gx * stepX,
      x1: (gx + TILE_WIDTH) * stepX,
      top: top - gy * stepY,
      bottom: top - (gy + TILE_HEIGHT) * stepY,
      gx: gx + (gx < 0 ? 2 ** 20 * 96 : 0),
      gy: gy + (gy < 0 ? 2 ** 20 * 96 : 0),
    });
    this.tiles.set(`${kx} ${ky}`, tile);
  }

  keepBackup(context, left, upper, w, h, pane, view) {
    const kept = this.backup?.canvas ?? document.createElement("canvas");
    if (kept.width !== w || kept.height !== h) [kept.width, kept.height] = [w, h];
    kept.getContext("2d", { willReadFrequently: true }).drawImage(context.canvas, left, upper, w, h, 0, 0, w, h);
    this.backup = { canvas: kept, view: { ...view }, keys: pane.keys };
  }

  // The last whole picture, moved and stretched to where it belongs.
  drawBackup(context, pane, view, ratio) {
    context.save();
    context.beginPath();
    context.rect(pane.x, pane.y, pane.w, pane.h);
    context.clip();
    context.fillStyle = theme.colors.plot;
    context.fillRect(pane.x, pane.y, pane.w, pane.h);
    if (this.backup) {
      const [low, high] = pane.keys;
      const { canvas, view: old } = this.backup;
      const [scaleX, scaleY] = [pane.w / (view.x1 - view.x0), pane.h / (view[high] - view[low])];
      context.imageSmoothingEnabled = false;
      context.drawImage(
        canvas,
        pane.x + (old.x0 - view.x0) * scaleX,
        pane.y + (view[high] - old[high]) * scaleY,
        (old.x1 - old.x0) * scaleX,
        (old[high] - old[low]) * scaleY,
      );
    }
    context.restore();
  }
}

const thinCells = new Map();

// Fills a tile of the layout. `shapes` gets the rectangles that have room for a name.
function rasterLayout(raster, place, data, grouping, axis, look, ratio) {
  const { px, width, height } = raster;
  const { x0, x1, top, bottom, gx, gy } = place;
  const [scaleX, scaleY] = [width / (x1 - x0), height / (top - bottom)];
  px.fill(0);
  const from = axis.momentAt(x0);
  const to = axis.momentAt(x1);
  const { birth, pend, death, low, size } = data;
  const { fill, edge, wait } = look.tables;
  const cell = Math.max(1, Math.round(ratio));
  if (!thinCells.has(cell)) thinCells.set(cell, new ThinCells(width, height, cell));
  const thin = thinCells.get(cell);
  const isOutside = x1 <= 0 || x0 >= axis.end || bottom >= data.height || top <= 0;

  const box = (start, end, base, bytes, color, line, isWaiting) => {
    const left = Math.max(0, (axis.edge(start) - x0) * scaleX);
    const right = Math.min(width, (axis.edge(end) - x0) * scaleX);
    const upper = Math.max(0, (top - base - bytes) * scaleY);
    const lower = Math.min(height, (top - base) * scaleY);
    if (right <= left || lower <= upper) return;
    const [l, r, t, b] = [Math.round(left), Math.round(right), Math.round(upper), Math.round(lower)];
    if (r <= l || b <= t) return thin.add(left, right, upper, lower, color);
    const hasRim = r - l >= 3 && b - t >= 3;
    for (let y = t; y < b; y++) {
      const row = y * width;
      const c = hasRim && y === t && upper > 0 ? line : color;
      if (r - l > 24) px.fill(c, row + l, row + r);
      else for (let x = row + l; x < row + r; x++) px[x] = c;
      if (isWaiting && c === color) stripe(px, row, l, r, y + gy, gx, line, ratio);
      if (hasRim && right < width) px[row + r - 1] = line;
    }
  };

  if (!isOutside) {
    data.between(from, to, (i) => {
      const base = low[i];
      const bytes = size[i];
      if (base >= top || base + bytes <= bottom) return;
      const kind = grouping.style[i];
      if (pend[i] > birth[i]) box(birth[i], pend[i], base, bytes, fill[kind], edge[kind], false);
      if (pend[i] < death[i]) box(pend[i], death[i], base, bytes, wait[kind], edge[kind], true);
    });
    thin.blend(raster);
  }
  fillGround(raster, place, data, axis, look, from, to, isOutside);
}

// Diagonal lines over a row of a block that only streams hold.
function stripe(px, row, left, right, gy, gx, color, ratio) {
  const period = Math.max(4, Math.round(6 * ratio));
  const first = (period - ((left + gx + gy) % period)) % period;
  for (let x = row + left + first; x < row + right; x += period) px[x] = color;
}

// Puts a ground under the blocks: hatch where a segment is, darker where nothing is reserved.
function fillGround(raster, place, data, axis, look, from, to, isOutside) {
  const { px, width, height } = raster;
  const { x0, x1, top, bottom, gx, gy } = place;
  const [scaleX, scaleY] = [width / (x1 - x0), height / (top - bottom)];
  const { size, tile } = look.hole;
  const { piece } = data;
  if (!isOutside) {
    for (let i = 0; i < piece.count && piece.birth[i] <= to; i++) {
      if (piece.death[i] <= from || piece.low[i] >= top || piece.low[i] + piece.size[i] <= bottom) continue;
      const l = Math.round(Math.max(0, (axis.edge(piece.birth[i]) - x0) * scaleX));
      const r = Math.round(Math.min(width, (axis.edge(piece.death[i]) - x0) * scaleX));
      const upper = (top - piece.low[i] - piece.size[i]) * scaleY;
      const t = Math.round(Math.max(0, upper));
      const b = Math.round(Math.min(height, (top - piece.low[i]) * scaleY));
      const hasRim = b - t >= 4;
      for (let y = t; y < b; y++) {
        const tileRow = ((y + gy) % size) * size;
        for (let x = l, at = y * width + l; x < r; x++, at++) {
          const over = px[at];
          const alpha = over >>> 24;
          if (alpha === 255) continue;
          const under = tile[tileRow + ((x + gx) % size)];
          px[at] = alpha === 0 ? under : mixPixels(under, over, alpha / 255);
        }
        if (hasRim && y === t && upper >= 0) for (let x = l, at = y * width + l; x < r; x++, at++) px[at] = look.seam;
      }
    }
  }
  for (let y = 0, at = 0; y < height; y++) {
    const value = top - (y + 0.5) / scaleY;
    for (let x = 0; x < width; x++, at++) {
      const over = px[at];
      const alpha = over >>> 24;
      if (alpha === 255) continue;
      const under = value > data.height || value < 0 ? look.plot : look.beyond;
      px[at] = alpha === 0 ? under : mixPixels(under, over, alpha / 255);
    }
  }
}
