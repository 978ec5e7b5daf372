// Ticks of axes whose view moves; ticks.rs does the same for static pictures. Places are BigInts: a tick past 2^53
// says its exact number.

// A round step (1, 2, 5, 10, ... units), so that at most `most` ticks fall into `range`.
function roundStep(range, most, unit) {
  for (let tens = BigInt(unit); ; tens *= 10n) {
    for (const factor of [1n, 2n, 5n]) {
      const step = tens * factor;
      if (range / Number(step) < most) return step;
    }
  }
}

// Multiples of `step` within [from, to], which are relative to `origin`.
function multiples(origin, from, to, step) {
  const first = origin + BigInt(Math.max(0, Math.ceil(from)));
  const last = origin + BigInt(Math.max(0, Math.floor(to)));
  const places = [];
  for (let at = ((first + step - 1n) / step) * step; at <= last && places.length < 200; at += step) places.push(at);
  return places;
}

// A tick's `at` is relative to the origin. Where three decimals don't tell labels apart, they count from `base`.
function timeTicks(origin, from, to, unit, most) {
  const step = roundStep(to - from, most, unit);
  const places = multiples(origin, from, to, step);
  if (!places.length) return { ticks: [], base: null };
  const per = BigInt(unit);
  const [first, last] = [places[0] / per, places[places.length - 1] / per];
  const span = last - first > 0n ? last - first : 1n;
  let base = null;
  if (last >= 10000000n && first >= span * 50n) {
    const round = 10n ** BigInt(String(span).length + 1);
    base = (first / round) * round;
  }
  const label = (at) => (base === null ? compact(at / per) : `+${compact(at / per - base)}`);
  return { ticks: places.map((at) => ({ at: Number(at - origin), label: label(at) })), base };
}

function byteTicks(from, to, most) {
  let step = 1n;
  while ((to - from) / Number(step) >= most) step *= 2n;
  const places = multiples(0n, from, to, step);
  if (!places.length) return { ticks: [], base: null };
  const [first, last] = [places[0], places[places.length - 1]];
  const span = last - first > 0n ? last - first : step;
  let base = 0n;
  if (first > span * 64n) {
    let round = step;
    while (round < span * 4n) round *= 2n;
    base = (first / round) * round;
  }
  let unit = 0;
  while (unit < 6 && last - base >= 1024n ** BigInt(unit + 1)) unit++;
  // Three decimals say eighths exactly, and nothing finer.
  while (unit > 0 && step * 8n < 1024n ** BigInt(unit)) unit--;
  const size = 1024n ** BigInt(unit);
  const label = (at) => {
    const count = at - base;
    const number = count % size === 0n ? grouped(count / size) : trimmed(Number(count) / Number(size));
    const text = count === 0n ? "0" : `${number}${NBSP}${BYTE_UNITS[unit]}`;
    return base === 0n ? text : `+${text}`;
  };
  return { ticks: places.map((at) => ({ at: Number(at), label: label(at) })), base: base === 0n ? null : base };
}
