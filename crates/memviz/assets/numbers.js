// Numbers as people read them; numbers.rs says them the same way.

const NBSP = "\u00a0";

// 1152921 as "1 152 921".
function grouped(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, NBSP);
}

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

// Bytes (number or BigInt) in binary units with three decimals, exact below 1 KiB.
function byteText(bytes) {
  let value = Number(bytes);
  if (value < 1024) return `${value}${NBSP}B`;
  let unit = 0;
  while (value >= 1024 && unit + 1 < BYTE_UNITS.length) {
    value /= 1024;
    unit++;
  }
  return `${value.toFixed(3)}${NBSP}${BYTE_UNITS[unit]}`;
}

function exactBytes(bytes) {
  return `${grouped(bytes)}${NBSP}${bytes === 1n || bytes === 1 ? "byte" : "bytes"}`;
}

// At most three decimals, none that are zero.
function trimmed(value) {
  return value.toFixed(3).replace(/\.?0+$/, "");
}

// "12 500" up to ten million, "1.25 G" from there on; takes a BigInt.
function compact(value) {
  if (value < 10000000n) return grouped(value);
  const units = ["M", "G", "T", "P", "E"];
  let unit = 0;
  let scaled = Number(value) / 1e6;
  while (scaled >= 1000 && unit + 1 < units.length) {
    scaled /= 1000;
    unit++;
  }
  return `${trimmed(scaled)}${NBSP}${units[unit]}`;
}
