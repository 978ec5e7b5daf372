// Pixels that pages fill by themselves: hatches, and rectangles too thin to draw one by one.

// Things of one colour come in shades, so that neighbours can be told apart.
const SHADES = 8;

function shadeOf(number) {
  return Math.imul(number, 2654435761) >>> 29;
}

// A square of diagonal lines that repeats without a seam.
function hatchTile(colors, ratio) {
  const size = Math.max(4, Math.round(8 * ratio));
  const [ground, line] = [pixelOf(colors["hole-ground"]), pixelOf(colors.hole)];
  const half = 0.55 * ratio;
  const tile = new Uint32Array(size * size);
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      const along = (x + y) % size;
      const distance = Math.min(along, size - along) * Math.SQRT1_2;
      tile[y * size + x] = mixPixels(ground, line, Math.min(1, Math.max(0, half - distance + 0.5)));
    }
  }
  return { size, tile };
}

// Pixels of one plot, row by row.
function makeRaster(width, height) {
  const image = new ImageData(width, height);
  return { image, px: new Uint32Array(image.data.buffer), width, height };
}

// Rectangles thinner than a pixel, summed up in cells of `size` pixels. There may be very many, and long ones, so
// each costs four corners only: the cells hold differences, and a sum over both directions makes them coverage.
// Integers keep those sums exact; a cell's true coverage is about 1 at most, so they don't overflow.
class ThinCells {
  constructor(width, height, size) {
    this.size = size;
    this.width = Math.ceil(width / size);
    this.height = Math.ceil(height / size);
    this.stride = (this.width + 1) * 4;
    this.cells = new Int32Array(this.stride * (this.height + 1));
    this.sums = new Int32Array(this.stride);
    this.touched = new Uint8Array(this.height + 1);
    this.isEmpty = true;
  }

  add(left, right, top, bottom, color) {
    const { size, width, height, stride, cells } = this;
    let share = 65536;
    let l = Math.round(left / size);
    let r = Math.round(right / size);
    let t = Math.round(top / size);
    let b = Math.round(bottom / size);
    if (r <= l) {
      l = Math.min(width - 1, Math.floor((left + right) / (2 * size)));
      r = l + 1;
      share *= (right - left) / size;
    }
    if (b <= t) {
      t = Math.min(height - 1, Math.floor((top + bottom) / (2 * size)));
      b = t + 1;
      share *= (bottom - top) / size;
    }
    const part = Math.max(1, Math.min(65536, share)) | 0;
    const red = part * (color & 255);
    const green = part * ((color >>> 8) & 255);
    const blue = part * ((color >>> 16) & 255);
    const corner = (at, sign) => {
      cells[at] += sign * part;
      cells[at + 1] += sign * red;
      cells[at + 2] += sign * green;
      cells[at + 3] += sign * blue;
    };
    corner(t * stride + l * 4, 1);
    corner(t * stride + r * 4, -1);
    corner(b * stride + l * 4, -1);
    corner(b * stride + r * 4, 1);
    this.touched[t] = this.touched[b] = 1;
    this.isEmpty = false;
  }

  // Mixes the sums into the pixels and empties the cells; what covers nothing yet but for them stays partly clear.
  blend(raster) {
    if (this.isEmpty) return;
    const { size, width, height, stride, cells, sums, touched } = this;
    sums.fill(0);
    let hasAny = false;
    for (let y = 0; y < height; y++) {
      if (touched[y]) hasAny = this.addRow(y * stride);
      if (!hasAny) continue;
      const top = y * size;
      const bottom = Math.min(raster.height, top + size);
      for (let x = 0; x < width; x++) {
        const part = sums[x * 4];
        if (part <= 0) continue;
        const share = part >= 65536 ? 256 : part >> 8;
        const inverse = 1 / part;
        const red = (sums[x * 4 + 1] * inverse) | 0;
        const green = (sums[x * 4 + 2] * inverse) | 0;
        const blue = (sums[x * 4 + 3] * inverse) | 0;
        const right = Math.min(raster.width, (x + 1) * size);
        for (let row = top; row < bottom; row++) {
          mixCells(raster.px, row * raster.width + x * size, row * raster.width + right, red, green, blue, share);
        }
      }
    }
    if (touched[height]) cells.fill(0, height * stride);
    touched.fill(0);
    this.isEmpty = true;
  }

  // Adds a row of differences, summed from the left, to the sums of the rows above. Says whether any is left.
  addRow(row) {
    const { cells, sums, stride } = this;
    let part = 0;
    let red = 0;
    let green = 0;
    let blue = 0;
    let any = 0;
    for (let x = 0; x < stride; x += 4) {
      part += cells[row + x];
      red += cells[row + x + 1];
      green += cells[row + x + 2];
      blue += cells[row + x + 3];
      any |= sums[x] += part;
      sums[x + 1] += red;
      sums[x + 2] += green;
      sums[x + 3] += blue;
    }
    cells.fill(0, row, row + stride);
    return any !== 0;
  }
}

// Mixes `share` of 256 parts of a colour into the pixels from `at` to `end`.
function mixCells(px, at, end, red, green, blue, share) {
  for (; at < end; at++) {
    const under = px[at];
    if (under >>> 24 === 0) {
      // However thin, it leaves a trace.
      const alpha = share > 255 ? 255 : share < 30 ? 30 : share;
      px[at] = (alpha << 24) | (blue << 16) | (green << 8) | red;
    } else {
      const r = under & 255;
      const g = (under >>> 8) & 255;
      const b = (under >>> 16) & 255;
      px[at] =
        0xff000000 |
        ((b + (((blue - b) * share) >> 8)) << 16) |
        ((g + (((green - g) * share) >> 8)) << 8) |
        (r + (((red - r) * share) >> 8));
    }
  }
}
