// A device's history as typed arrays. Moment 0 is the state before the first event shown, moment k the state after the
// k-th one. Blocks are numbered by birth. Addresses are offsets: places once all addresses never in use are left out.

const ACTIONS = [
  "alloc",
  "free requested",
  "free completed",
  "segment alloc",
  "segment free",
  "segment map",
  "segment unmap",
  "out of memory",
  "snapshot",
  "step",
];
const [OUT_OF_MEMORY, SNAPSHOT, STEP] = [7, 8, 9];
const LEFT_OUT = 0xffffffff;

// Lets the browser paint and answer.
const breathe = () => new Promise((done) => setTimeout(done));

// Names, frames and stacks of all devices; index 0 is the empty one.
async function readTexts(facts) {
  const columns = new Columns(await unpack("history-texts"));
  const ends = endsOf(columns.narrow(facts.names));
  const text = columns.raw(ends[facts.names]);
  const [functions, files, lines] = [columns.narrow(facts.frames), columns.narrow(facts.frames), columns.narrow(facts.frames)];
  const calls = endsOf(columns.narrow(facts.stacks));
  const frames = columns.narrow(facts.calls);
  const decoder = new TextDecoder();
  const known = new Map();
  const name = (i) => {
    if (!known.has(i)) known.set(i, decoder.decode(text.subarray(ends[i], ends[i + 1])));
    return known.get(i);
  };
  const frameText = (f) => {
    const place = name(files[f]) ? `${name(files[f])}${lines[f] ? `:${lines[f]}` : ""}` : "";
    return { call: name(functions[f]) || "?", place };
  };
  const framesOf = (i) => frames.subarray(calls[i], calls[i + 1]);
  const stack = (i) => Array.from(framesOf(i), frameText);
  // Where a stack's own story begins: past the frames of the allocator and of the framework.
  const kinds = [
    (f) => /\.py$/.test(name(files[f])) && !/(^|\/)torch\//.test(name(files[f])),
    (f) => /\.py$/.test(name(files[f])),
    (f) => /autograd::generated::/.test(name(functions[f])),
    (f) => !/^(torch::(unwind|CapturedTraceback|cuda)|c10::|at::)/.test(name(functions[f])),
  ];
  const begins = new Map();
  const beginOf = (i) => {
    if (!begins.has(i)) {
      const all = framesOf(i);
      const found = kinds.map((isOfKind) => all.findIndex(isOfKind)).find((at) => at >= 0);
      begins.set(i, found ?? 0);
    }
    return begins.get(i);
  };
  const frameTitle = (f) => {
    const { call, place } = frameText(f);
    // Of C++, the name without arguments.
    const short = call.includes("::") ? call.replace(/\(.*$/, "") : call;
    return place && !place.startsWith("??") ? `${short} (${place.split("/").pop()})` : short;
  };
  const titles = new Map();
  const stackTitle = (i) => {
    if (i === LEFT_OUT) return "stack left out";
    if (!titles.has(i)) titles.set(i, calls[i] === calls[i + 1] ? "no stack" : frameTitle(framesOf(i)[beginOf(i)]));
    return titles.get(i);
  };
  return {
    name,
    stack,
    stackTitle,
    stackBegin: (i) => (i === LEFT_OUT ? 0 : beginOf(i)),
    // Titles of stacks shown side by side: those that would read the same also say the first call that differs.
    titlesOf(list) {
      const plain = list.map(stackTitle);
      return list.map((i, at) => {
        const twins = list.filter((other, k) => k !== at && plain[k] === plain[at] && other !== LEFT_OUT);
        if (i === LEFT_OUT || !twins.length) return plain[at];
        const [own, others] = [framesOf(i), twins.map(framesOf)];
        for (let k = beginOf(i) + 1; k < own.length; k++) {
          const isShared = others.every((frames, t) => frames[k - beginOf(i) + beginOf(twins[t])] === own[k]);
          if (!isShared) return `${plain[at]} \u2190 ${frameTitle(own[k])}`;
        }
        return plain[at];
      });
    },
  };
}

function endsOf(lengths) {
  const ends = new Float64Array(lengths.length + 1);
  for (let i = 0; i < lengths.length; i++) ends[i + 1] = ends[i] + lengths[i];
  return ends;
}

function accumulated(column) {
  for (let i = 1; i < column.length; i++) column[i] += column[i - 1];
  return column;
}

class DeviceData {
  constructor(facts, device, index, texts) {
    this.facts = facts;
    this.device = device;
    this.index = index;
    this.texts = texts;
    this.moments = device.moments;
    this.from = BigInt(device.from);
    this.height = Number(BigInt(device.height));
    this.capacity = device.capacity === null ? null : BigInt(device.capacity);
    this.isReady = false;
  }

  // What the first picture needs.
  async readOverview() {
    const { device, facts } = this;
    const columns = new Columns(await unpack(`device-${this.index}-overview`));
    this.streams = columns.wide(device.streams);
    this.tags = columns.narrow(device.tags);
    this.stacks = columns.narrow(device.stacks);
    this.stretch = { address: columns.wide(device.stretches), bytes: columns.wide(device.stretches) };
    this.stretchEnds = endsOf(Array.from(this.stretch.bytes.low, (_, i) => this.stretch.bytes.number(i)));
    const count = device.columns;
    const numbers = () => {
      const column = columns.wide(count);
      return Float64Array.from(column.low, (_, i) => column.number(i));
    };
    this.overview = {
      count,
      moment: columns.narrow(count),
      live: numbers(),
      reserved: numbers(),
      pending: numbers(),
      low: Float32Array.from(columns.narrow(count), (x) => x / 100),
      high: Float32Array.from(columns.narrow(count), (x) => x / 100),
      groups: Object.fromEntries(facts.choices.map((by) => [by, Array.from({ length: facts.groups }, numbers)])),
    };
  }

  // Everything else, in steps between which the browser can breathe.
  async readRest() {
    const { device } = this;
    const { blocks: count, pieces: pieceCount } = device;
    const columns = new Columns(await unpack(`device-${this.index}-blocks`));
    await breathe();
    const birth = accumulated(columns.narrow(count));
    const pend = columns.narrow(count);
    const death = columns.narrow(count);
    for (let i = 0; i < count; i++) {
      pend[i] += birth[i];
      death[i] += pend[i];
    }
    const offset = columns.wide(count);
    const bytes = columns.wide(count);
    await breathe();
    const added = columns.wide(count);
    Object.assign(this, { count, birth, pend, death, offset, bytes, added });
    this.keys = { stream: columns.narrow(count), tag: columns.narrow(count), stack: columns.narrow(count) };
    this.lives = columns.raw(count);
    this.bornAt = columns.wide(device.initial);
    this.piece = {
      count: pieceCount,
      birth: accumulated(columns.narrow(pieceCount)),
      death: columns.narrow(pieceCount),
      offset: columns.wide(pieceCount),
      bytes: columns.wide(pieceCount),
      stream: columns.wide(pieceCount),
      pool: [columns.wide(pieceCount), columns.wide(pieceCount)],
      kind: columns.raw(pieceCount),
      stack: columns.narrow(pieceCount),
    };
    for (let i = 0; i < pieceCount; i++) this.piece.death[i] += this.piece.birth[i];
    await breathe();
    this.low = Float64Array.from(offset.low, (_, i) => offset.number(i));
    this.size = Float64Array.from(bytes.low, (_, i) => bytes.number(i));
    this.asked = Float64Array.from(bytes.low, (_, i) => Number(this.requested(i)));
    this.piece.low = Float64Array.from(this.piece.offset.low, (_, i) => this.piece.offset.number(i));
    this.piece.size = Float64Array.from(this.piece.bytes.low, (_, i) => this.piece.bytes.number(i));
    await breathe();
    await this.readMoments();
    await breathe();
    this.indexBlocks();
    await breathe();
    this.sumMoments();
    this.isReady = true;
  }

  async readMoments() {
    const { device, moments } = this;
    const events = moments - 1;
    const columns = new Columns(await unpack(`device-${this.index}-moments`));
    this.actions = columns.raw(events);
    this.times = device.hasTimes ? columns.wide(events).accumulate() : null;
    const changes = accumulated(columns.narrow(device.holes));
    const values = columns.wide(device.holes);
    // Of each moment: which change of the largest hole is in force.
    this.largestAt = new Uint32Array(moments);
    for (let k = 0, m = 0; m < moments; m++) {
      while (k + 1 < changes.length && changes[k + 1] <= m) k++;
      this.largestAt[m] = k;
    }
    this.largestValues = values;
    const marks = device.marks;
    this.marks = {
      count: marks,
      moment: columns.narrow(marks),
      bytes: columns.wide(marks),
      address: columns.wide(marks),
      stream: columns.wide(marks),
      tag: columns.narrow(marks),
      stack: columns.narrow(marks),
    };
    const notes = device.annotations;
    this.notes = this.spansOf(columns.raw(notes), columns.narrow(notes), columns.wide(notes));
    this.clock = this.clockOf();
  }

  // Times as doubles in ns after the first, never running backwards; one for each moment and for the end.
  clockOf() {
    if (!this.times) return null;
    const { moments, times } = this;
    let first = null;
    for (let i = 0; i < moments - 1 && first === null; i++) if (times.big(i) !== 0n) first = times.big(i);
    if (first === null) return null;
    this.firstTime = first;
    const [low, high] = [Number(first & 0xffffffffn), Number(first >> 32n)];
    const clock = new Float64Array(moments + 1);
    let now = 0;
    for (let m = 1; m < moments; m++) {
      const time = (times.high[m - 1] - high) * 4294967296 + (times.low[m - 1] - low);
      if (time > now) now = time;
      clock[m] = now;
    }
    clock[moments] = now + Math.max(1, now / Math.max(1, moments));
    return now > 0 ? clock : null;
  }

  // Annotations that begin and end, as spans of time; what never ends lasts to the end.
  spansOf(stages, names, times) {
    const open = new Map();
    const spans = [];
    for (let i = 0; i < stages.length; i++) {
      if (stages[i]) {
        const span = { name: names[i], start: times.big(i), end: null };
        spans.push(span);
        if (!open.has(names[i])) open.set(names[i], []);
        open.get(names[i]).push(span);
      } else {
        const span = open.get(names[i])?.pop();
        if (span) span.end = times.big(i);
      }
    }
    return spans;
  }

  // Order of deaths and of waits, and which blocks are there at every `stride`-th moment.
  indexBlocks() {
    const { count, moments, birth, pend, death } = this;
    const sorted = (keys, has) => {
      const starts = new Uint32Array(moments + 2);
      for (let i = 0; i < count; i++) if (has(i)) starts[keys[i] + 1]++;
      for (let m = 1; m < starts.length; m++) starts[m] += starts[m - 1];
      const order = new Uint32Array(starts[moments + 1]);
      const next = starts.slice();
      for (let i = 0; i < count; i++) if (has(i)) order[next[keys[i]]++] = i;
      return { starts, order };
    };
    this.deaths = sorted(death, () => true);
    this.pends = sorted(pend, (i) => pend[i] < death[i]);
    this.births = new Uint32Array(moments + 1);
    for (let i = 0; i < count; i++) this.births[birth[i] + 1]++;
    for (let m = 1; m <= moments; m++) this.births[m] += this.births[m - 1];
    // As many lists as fit some megabytes.
    let most = 0;
    let now = 0;
    for (let m = 0; m < moments; m++) {
      now += this.births[m + 1] - this.births[m] - (this.deaths.starts[m + 1] - this.deaths.starts[m]);
      most = Math.max(most, now);
    }
    const lists = Math.max(1, Math.min(1024, Math.floor(3e6 / Math.max(1, most))));
    this.stride = Math.max(64, Math.ceil(moments / lists));
    this.there = [];
    let list = new Uint32Array(0);
    for (let m = 0; m < moments; m += this.stride) {
      const alive = list.filter((i) => death[i] > m);
      const born = [];
      for (let i = m === 0 ? 0 : this.births[m - this.stride + 1]; i < this.births[m + 1]; i++) if (death[i] > m) born.push(i);
      list = new Uint32Array(alive.length + born.length);
      list.set(alive);
      list.set(born, alive.length);
      this.there.push(list);
    }
  }

  // Calls `visit` with each block that is there at some moment of [from, to], by birth.
  between(from, to, visit) {
    const { birth, death, births } = this;
    const at = Math.floor(from / this.stride);
    for (const i of this.there[at]) if (death[i] > from && birth[i] <= to) visit(i);
    const end = births[Math.min(this.moments, to + 1)];
    for (let i = births[at * this.stride + 1]; i < end; i++) if (death[i] > from) visit(i);
  }

  // Blocks that are there at a moment, by birth.
  blocksAt(moment) {
    const list = [];
    this.between(moment, moment, (i) => list.push(i));
    return list;
  }

  piecesAt(moment) {
    const { piece } = this;
    const list = [];
    for (let i = 0; i < piece.count && piece.birth[i] <= moment; i++) if (piece.death[i] > moment) list.push(i);
    return list.sort((a, b) => piece.low[a] - piece.low[b]);
  }

  // Sums of each moment as doubles, and for each run of 64 moments the one with most active bytes.
  sumMoments() {
    const { count, moments, birth, pend, death, size, asked, piece } = this;
    const [live, held, active, reserved] = Array.from({ length: 4 }, () => new Float64Array(moments + 1));
    for (let i = 0; i < count; i++) {
      live[birth[i]] += asked[i];
      live[pend[i]] -= asked[i];
      held[birth[i]] += size[i];
      held[pend[i]] -= size[i];
      active[birth[i]] += size[i];
      active[death[i]] -= size[i];
    }
    for (let i = 0; i < piece.count; i++) {
      reserved[piece.birth[i]] += piece.size[i];
      reserved[piece.death[i]] -= piece.size[i];
    }
    for (const column of [live, held, active, reserved]) for (let m = 1; m <= moments; m++) column[m] += column[m - 1];
    const fragmentation = new Float32Array(moments);
    const largest = Float64Array.from(this.largestValues.low, (_, k) => this.largestValues.number(k));
    for (let m = 0; m < moments; m++) {
      const free = reserved[m] - active[m];
      if (free > 0) fragmentation[m] = Math.max(0, 100 * (1 - largest[this.largestAt[m]] / free));
    }
    Object.assign(this, { live, held, active, reserved, fragmentation });
    const runs = Math.ceil(moments / RUN);
    this.runs = {
      fullest: new Uint32Array(runs),
      reserved: new Float64Array(runs),
      low: new Float32Array(runs),
      high: new Float32Array(runs),
    };
    for (let r = 0; r < runs; r++) {
      const found = this.scan(r * RUN, Math.min(moments, (r + 1) * RUN));
      for (const key of Object.keys(this.runs)) this.runs[key][r] = found[key];
    }
  }

  // Extremes of the moments [from, to).
  scan(from, to) {
    const { active, reserved, fragmentation } = this;
    const found = { fullest: from, reserved: 0, low: Infinity, high: 0 };
    for (let m = from; m < to; m++) this.merge(found, m, active[m], reserved[m], fragmentation[m], fragmentation[m]);
    return found;
  }

  merge(found, moment, active, reserved, low, high) {
    if (active > this.active[found.fullest]) found.fullest = moment;
    if (reserved > found.reserved) found.reserved = reserved;
    if (low < found.low) found.low = low;
    if (high > found.high) found.high = high;
  }

  // The same, run by run where it can be.
  extremes(from, to) {
    if (to - from <= 2 * RUN) return this.scan(from, to);
    const { runs, active } = this;
    const [first, last] = [Math.ceil(from / RUN), Math.floor(to / RUN)];
    const found = this.scan(from, first * RUN);
    for (let r = first; r < last; r++) {
      const fullest = runs.fullest[r];
      this.merge(found, fullest, active[fullest], runs.reserved[r], runs.low[r], runs.high[r]);
    }
    for (let m = last * RUN; m < to; m++) {
      const share = this.fragmentation[m];
      this.merge(found, m, active[m], this.reserved[m], share, share);
    }
    return found;
  }

  // ---- exact values ----

  requested(i) {
    return BigInt.asUintN(64, this.bytes.big(i) - this.added.big(i));
  }

  // The address of an offset, which is a BigInt.
  address(offset) {
    const ends = this.stretchEnds;
    let [from, to] = [0, ends.length - 1];
    while (to - from > 1) {
      const middle = (from + to) >> 1;
      if (ends[middle] <= Number(offset)) from = middle;
      else to = middle;
    }
    let below = 0n;
    if (this.exactEnds === undefined) {
      this.exactEnds = new BigUint64Array(Math.max(1, ends.length));
      for (let i = 0; i + 1 < ends.length; i++) {
        this.exactEnds[i] = below;
        below += this.stretch.bytes.big(i);
      }
    }
    // Doubles may have led one stretch too far.
    while (from > 0 && this.exactEnds[from] > offset) from--;
    return this.stretch.address.big(from) + (offset - this.exactEnds[from]);
  }

  largest(moment) {
    return this.largestValues.big(this.largestAt[moment]);
  }

  // When the event before a moment happened, exactly; null if not known.
  timeOf(moment) {
    if (!this.times || moment === 0) return null;
    const time = this.times.big(moment - 1);
    return time === 0n ? null : time;
  }

  // Number of the event before a moment, in the whole record.
  eventOf(moment) {
    return this.from + BigInt(moment) - 1n;
  }

  // Number of the event that made a block; null if it was there before the record.
  bornBy(i) {
    if (this.birth[i] > 0) return this.eventOf(this.birth[i]);
    const number = this.bornAt.big(i);
    return number === 0n ? null : number - 1n;
  }

  streamOf(i) {
    return this.streams.big(this.keys.stream[i]);
  }

  tagOf(i) {
    const at = this.keys.tag[i];
    return at < this.tags.length ? this.texts.name(this.tags[at]) : "";
  }

  // Index of a block's stack in the texts, or LEFT_OUT.
  stackOf(i) {
    const at = this.keys.stack[i];
    return at < this.stacks.length ? this.stacks[at] : LEFT_OUT;
  }

  // What a block is called: its tag, else where it was asked for, else its size.
  nameOf(i) {
    const tag = this.tagOf(i);
    if (tag) return tag;
    const stack = this.stackOf(i);
    if (stack === LEFT_OUT || stack === 0) return `${byteText(this.requested(i))} block`;
    return this.texts.stackTitle(stack);
  }

  markAt(moment) {
    const { marks } = this;
    for (let k = 0; k < marks.count; k++) if (marks.moment[k] === moment) return k;
    return -1;
  }

  // What the event before a moment did, in words, and the block it was about.
  deed(moment) {
    if (moment === 0) return { text: this.from === 0n ? "before the first event" : "before the part shown", block: -1 };
    const action = this.actions[moment - 1];
    const text = ACTIONS[action] ?? "unknown";
    const { births, pends, deaths } = this;
    let block = -1;
    if (action === 0 && births[moment] < births[moment + 1]) block = births[moment];
    if (action === 1 && pends.starts[moment] < pends.starts[moment + 1]) block = pends.order[pends.starts[moment]];
    if (action <= 2 && block < 0 && deaths.starts[moment] < deaths.starts[moment + 1]) block = deaths.order[deaths.starts[moment]];
    const about = block < 0 ? "" : ` ${byteText(this.requested(block))}, ${this.nameOf(block)}`;
    if (action >= OUT_OF_MEMORY) {
      const k = this.markAt(moment);
      if (k >= 0 && action === OUT_OF_MEMORY) {
        return { text: `${text}: ${byteText(this.marks.bytes.big(k))} asked for, ${byteText(this.marks.address.big(k))} free on the device`, block };
      }
      if (k >= 0 && this.marks.tag[k]) return { text: `${text} ${this.texts.name(this.marks.tag[k])}`, block };
    }
    return { text: text + about, block };
  }
}

// Moments that are summed up as one.
const RUN = 64;
