// The plan as typed arrays. Buffers are numbered in drawing order: by birth, then by offset. Times are relative to
// `origin`, the first moment drawn, so that late clocks keep their precision.

async function readPlan(facts) {
  const count = facts.buffers;
  const columns = new Columns(await unpack("plan-data"));
  const birth = columns.wide(count).accumulate();
  const death = birth.plus(columns.wide(count));
  const offset = columns.wide(count);
  const bytes = columns.wide(count);
  const alignment = columns.wide(count);
  const flags = columns.raw(count);
  const gapStarts = columns.narrow(count + 1);
  const gaps = facts.gaps;
  const gap = { start: columns.wide(gaps), length: columns.wide(gaps), from: columns.wide(gaps), to: columns.wide(gaps) };
  const lengths = columns.narrow(3 * count);
  const ends = new Float64Array(3 * count + 1);
  for (let i = 0; i < lengths.length; i++) ends[i + 1] = ends[i] + lengths[i];
  const text = columns.raw(ends[3 * count]);
  const decoder = new TextDecoder();
  const textAt = (k) => decoder.decode(text.subarray(ends[k], ends[k + 1]));

  const plan = {
    count,
    origin: BigInt(facts.start),
    span: Number(BigInt(facts.end) - BigInt(facts.start)),
    top: Number(BigInt(facts.top)),
    facts,
    birth,
    death,
    offset,
    bytes,
    gap,
    gapStarts,
    tier: (i) => flags[i] & 3,
    isFixed: (i) => (flags[i] & 4) !== 0,
    alignment: (i) => alignment.big(i),
    name: (i) => textAt(3 * i),
    id: (i) => textAt(3 * i + 1) || textAt(3 * i),
    op: (i) => (flags[i] & 8 ? textAt(3 * i + 2) : null),
    // Texts that a search looks through, made once when they are first needed.
    searchable() {
      this.lower ??= Array.from({ length: count }, (_, i) => {
        const [name, id, op] = [textAt(3 * i), textAt(3 * i + 1), textAt(3 * i + 2)];
        return `${name}\n${id}\n${op}`.toLowerCase();
      });
      return this.lower;
    },
  };
  plan.pieces = piecesOf(plan);
  plan.loads = loadsOf(plan);
  return plan;
}

// `value`, or the next double after `least` if it isn't greater.
function above(least, value) {
  return value > least ? value : least + Math.max(1, least * 2 ** -52);
}

// Rectangles in doubles, by start: a buffer, or what its gaps leave of it.
function piecesOf(plan) {
  const { count, birth, death, offset, bytes, gap, gapStarts } = plan;
  const most = count + 2 * gapStarts[count];
  let pieces = {
    length: 0,
    buffer: new Uint32Array(most),
    start: new Float64Array(most),
    end: new Float64Array(most),
    low: new Float64Array(most),
    high: new Float64Array(most),
  };
  const add = (buffer, start, end, low, high) => {
    if (start >= end || low >= high) return;
    const k = pieces.length++;
    pieces.buffer[k] = buffer;
    pieces.start[k] = start;
    pieces.end[k] = end;
    pieces.low[k] = low;
    pieces.high[k] = high;
  };
  for (let i = 0; i < count; i++) {
    const low = offset.number(i);
    const high = low + bytes.number(i);
    let now = birth.number(i);
    if (gapStarts[i] === gapStarts[i + 1] && high > 0) {
      // Past 2^53 both ends of something short may be the same double; it is still drawn.
      add(i, now, above(now, death.number(i)), low, bytes.number(i) > 0 ? above(low, high) : low);
      continue;
    }
    for (let g = gapStarts[i]; g < gapStarts[i + 1]; g++) {
      const start = birth.number(i) + gap.start.number(g);
      const end = start + gap.length.number(g);
      add(i, now, start, low, high);
      add(i, start, end, low + gap.from.number(g), low + gap.to.number(g));
      now = end;
    }
    add(i, now, death.number(i), low, high);
  }
  if (gapStarts[count] > 0) {
    const order = new Uint32Array(pieces.length).map((_, k) => k).sort((a, b) => pieces.start[a] - pieces.start[b]);
    const sorted = (column) => Float64Array.from(order, (k) => column[k]);
    pieces = {
      length: order.length,
      buffer: Uint32Array.from(order, (k) => pieces.buffer[k]),
      start: sorted(pieces.start),
      end: sorted(pieces.end),
      low: sorted(pieces.low),
      high: sorted(pieces.high),
    };
  }
  return pieces;
}

// A heap of numbers below `capacity`, the one with the smallest key on top.
class Heap {
  constructor(capacity, keys, sign) {
    this.items = new Uint32Array(capacity);
    this.keys = keys;
    this.sign = sign;
    this.length = 0;
  }

  top() {
    return this.items[0];
  }

  push(item) {
    const { items, keys, sign } = this;
    const key = keys[item] * sign;
    let at = this.length++;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (keys[items[above]] * sign <= key) break;
      items[at] = items[above];
      at = above;
    }
    items[at] = item;
  }

  pop() {
    const { items, keys, sign } = this;
    const item = items[--this.length];
    const key = keys[item] * sign;
    let at = 0;
    for (let below = 1; below < this.length; below = 2 * at + 1) {
      if (below + 1 < this.length && keys[items[below + 1]] * sign < keys[items[below]] * sign) below++;
      if (keys[items[below]] * sign >= key) break;
      items[at] = items[below];
      at = below;
    }
    items[at] = item;
  }
}

// From each moment at which something changes: live bytes per tier, and the highest byte in use. `time[k]` to
// `time[k + 1]` has `tiers[0..2][k]` and `tops[k]`.
function loadsOf(plan) {
  const { pieces } = plan;
  const { start, end, low, high, buffer, length: count } = pieces;
  const time = new Float64Array(2 * count);
  const tiers = [0, 1, 2].map(() => new Float64Array(2 * count));
  const tops = new Float64Array(2 * count);
  const now = [0, 0, 0];
  const ending = new Heap(count, end, 1);
  const tallest = new Heap(count, high, -1);
  let length = 0;
  for (let s = 0; s < count || ending.length > 0; ) {
    let at = s < count ? start[s] : Infinity;
    if (ending.length > 0) at = Math.min(at, end[ending.top()]);
    while (ending.length > 0 && end[ending.top()] <= at) {
      const k = ending.top();
      now[plan.tier(buffer[k])] -= high[k] - low[k];
      ending.pop();
    }
    for (; s < count && start[s] <= at; s++) {
      now[plan.tier(buffer[s])] += high[s] - low[s];
      ending.push(s);
      tallest.push(s);
    }
    while (tallest.length > 0 && end[tallest.top()] <= at) tallest.pop();
    time[length] = at;
    // Sums past 2^53 are rounded and could end a little below nothing.
    for (let tier = 0; tier < 3; tier++) tiers[tier][length] = Math.max(0, now[tier]);
    tops[length] = tallest.length > 0 ? high[tallest.top()] : 0;
    length++;
  }
  return { length, time, tiers, tops };
}

// The number of the last change at or before a relative time; -1 before the first.
function momentAt(plan, relative) {
  const { time, length } = plan.loads;
  let [from, to] = [0, length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (time[middle] <= relative) from = middle + 1;
    else to = middle;
  }
  return from - 1;
}
