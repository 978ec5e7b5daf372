// Shared by all pages: elements, packed data, colours and theme.

const $ = (id) => document.getElementById(id);

// A new element with a class and text; text is never parsed as markup.
function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// The bytes of a packed data block, which is dropped from the document to free its text.
async function unpack(id) {
  const element = $(id);
  const text = element.textContent.trim();
  element.remove();
  const packed = Uint8Array.fromBase64
    ? Uint8Array.fromBase64(text)
    : Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Reads columns in the order in which they were packed; numbers come as byte planes, lowest byte first.
class Columns {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  raw(length) {
    if (this.at + length > this.bytes.length) throw new Error("the page's data is cut short");
    const part = this.bytes.subarray(this.at, this.at + length);
    this.at += length;
    return part;
  }

  narrow(count) {
    const [a, b, c, d] = [this.raw(count), this.raw(count), this.raw(count), this.raw(count)];
    const column = new Uint32Array(count);
    for (let i = 0; i < count; i++) column[i] = a[i] | (b[i] << 8) | (c[i] << 16) | (d[i] << 24);
    return column;
  }

  // 64-bit numbers as two halves; a double would lose digits past 2^53.
  wide(count) {
    return new Wide(this.narrow(count), this.narrow(count));
  }
}

class Wide {
  constructor(low, high) {
    this.low = low;
    this.high = high;
  }

  // Exact.
  big(i) {
    return (BigInt(this.high[i]) << 32n) | BigInt(this.low[i]);
  }

  // Nearest double.
  number(i) {
    return this.high[i] * 4294967296 + this.low[i];
  }

  // Replaces each number by the sum of all up to it, modulo 2^64.
  accumulate() {
    const { low, high } = this;
    for (let i = 1; i < low.length; i++) {
      const sum = low[i] + low[i - 1];
      low[i] = sum;
      high[i] = high[i] + high[i - 1] + (sum > 4294967295 ? 1 : 0);
    }
    return this;
  }

  // Number by number, modulo 2^64.
  plus(other) {
    const count = this.low.length;
    const [low, high] = [new Uint32Array(count), new Uint32Array(count)];
    for (let i = 0; i < count; i++) {
      const sum = this.low[i] + other.low[i];
      low[i] = sum;
      high[i] = this.high[i] + other.high[i] + (sum > 4294967295 ? 1 : 0);
    }
    return new Wide(low, high);
  }
}

// "#rrggbb" as the pixel of a canvas: red in the lowest byte.
function pixelOf(color) {
  const value = parseInt(color.slice(1), 16);
  return ((255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}

// The second of two pixels over the first, `share` from 0 to 1.
function mixPixels(under, over, share) {
  const red = (under & 255) + ((over & 255) - (under & 255)) * share;
  const green = ((under >>> 8) & 255) + (((over >>> 8) & 255) - ((under >>> 8) & 255)) * share;
  const blue = ((under >>> 16) & 255) + (((over >>> 16) & 255) - ((under >>> 16) & 255)) * share;
  return (0xff000000 | ((blue + 0.5) << 16) | ((green + 0.5) << 8) | (red + 0.5)) >>> 0;
}

// The theme in force, and what is done when it changes.
const theme = {
  dark: false,
  colors: null,
  start(palettes, onChange) {
    const root = document.documentElement;
    const system = matchMedia("(prefers-color-scheme: dark)");
    const apply = () => {
      const chosen = root.dataset.theme;
      this.dark = chosen ? chosen === "dark" : system.matches;
      this.colors = this.dark ? palettes.dark : palettes.light;
      onChange();
    };
    system.addEventListener("change", apply);
    this.toggle = () => {
      root.dataset.theme = this.dark ? "light" : "dark";
      apply();
    };
    apply();
  },
};
