//! Plans to draw: read from CSV files, or made up. The placing is a plain first fit: enough for a picture, no more.

use std::{error::Error, io::Read};

use coloring::{BoundKind, Gap, PlacedBuffer, Plan, Status};
use lifetime::{Bytes, HalfStep, LiveRange, Offset, OpId, Tier};

/// The plan that `source` names.
pub(crate) fn from_source(source: &str) -> Result<Plan, Box<dyn Error>> {
    match source.split_once(':') {
        Some(("synthetic", count)) => Ok(synthetic(count.parse()?)),
        _ => match source {
            "empty" => Ok(finish("empty", Vec::new())),
            "one" => Ok(finish("one", vec![buffer("only", (5, 6), 1, 0, Tier::Cyclic)])),
            "small" => Ok(small()),
            "hostile" => Ok(hostile()),
            "extreme" => Ok(extreme()),
            path => csv(path),
        },
    }
}

/// A buffer without anything special.
pub(crate) fn buffer(name: &str, life: (u64, u64), bytes: u64, offset: u64, tier: Tier) -> PlacedBuffer {
    PlacedBuffer {
        id: name.to_owned(),
        name: name.to_owned(),
        op: None,
        tier,
        offset: Offset(offset),
        bytes: Bytes(bytes),
        alignment: 1,
        range: LiveRange { birth: HalfStep(life.0), death: HalfStep(life.1) },
        fixed: false,
        gaps: Vec::new(),
    }
}

/// A plan of placed buffers, with its numbers worked out.
pub(crate) fn finish(name: &str, buffers: Vec<PlacedBuffer>) -> Plan {
    let peak = buffers.iter().map(|b| b.offset.0.saturating_add(b.bytes.0)).max().unwrap_or(0);
    let mut events: Vec<(u64, i128)> = Vec::new();
    for buffer in &buffers {
        events.push((buffer.range.birth.0, i128::from(buffer.bytes.0)));
        events.push((buffer.range.death.0, -i128::from(buffer.bytes.0)));
    }
    events.sort_unstable();
    let (mut load, mut most) = (0, 0);
    for (_, change) in events {
        load += change;
        most = most.max(load);
    }
    let bound = u64::try_from(most).unwrap_or(u64::MAX);
    Plan {
        name: name.to_owned(),
        end: buffers.iter().map(|b| b.range.death).max().unwrap_or_default(),
        buffers,
        separations: Vec::new(),
        peak: Bytes(peak),
        max_load: Bytes(bound),
        lower_bound: Bytes(bound),
        bound_kind: BoundKind::Load,
        status: if peak == bound { Status::Optimal } else { Status::Feasible },
        capacity: None,
        order: None,
        solver: "first fit (example)".to_owned(),
    }
}

/// Six buffers whose places are known to the browser test: a hole at [20, 60) x [1024, 2048), a buffer with a gap.
pub(crate) fn small() -> Plan {
    let mut weights = buffer("weights", (0, 100), 1024, 0, Tier::Persistent);
    weights.fixed = true;
    let mut mask = buffer("mask", (60, 100), 1024, 1024, Tier::Cyclic);
    let range = LiveRange { birth: HalfStep(70), death: HalfStep(80) };
    mask.gaps = vec![Gap { range, kept: Some((Offset(0), Offset(512))) }];
    let mut hidden = buffer("hidden.1", (10, 90), 2048, 2048, Tier::Cyclic);
    (hidden.op, hidden.id, hidden.alignment) = (Some("dense.1".to_owned()), "t7".to_owned(), 256);
    let buffers = vec![
        weights,
        buffer("input", (0, 20), 1024, 1024, Tier::Temporary),
        hidden,
        mask,
        buffer("loss", (40, 44), 4096, 4096, Tier::Temporary),
        buffer("scratch", (50, 52), 1000, 4096, Tier::Temporary),
    ];
    let mut plan = finish("small", buffers);
    plan.order = Some((0..50).map(OpId).collect());
    plan.capacity = Some(Bytes(9000));
    plan
}

/// Names that try to break out of wherever they are put; each would set `window.hacked` if it ran.
pub(crate) fn hostile() -> Plan {
    let names = [
        "</script><script>window.hacked=1</script>",
        "<!--<script>window.hacked=2",
        "\"><img src=x onerror=\"window.hacked=3\">",
        "'); window.hacked=4; ('",
        "${window.hacked=5}`${window.hacked=5}`",
        "line\u{2028}break\u{2029}window.hacked=6",
        "{{title}}{{facts}}",
        "]]></svg><script>window.hacked=7</script>",
        "\u{0}\u{1}\u{7f}\u{202e}txt.exe",
        "javascript:window.hacked=8",
        "</title></style></textarea></noscript><svg onload=window.hacked=9>",
        "nested &lt;script&gt; &amp; entities",
        "数据 данные données 🚀",
        "__proto__",
    ];
    let mut buffers: Vec<PlacedBuffer> = (0..)
        .zip(names)
        .map(|(index, name)| {
            let mut buffer = buffer(name, (index, index + 40), 1 << 20, index << 20, Tier::ALL[index as usize % 3]);
            buffer.op = Some(format!("op {name}"));
            buffer.id = format!("id {name}");
            buffer
        })
        .collect();
    buffers.push(buffer(&"long ".repeat(20_000), (0, 60), 4 << 20, 14 << 20, Tier::Temporary));
    let mut plan = finish(names[0], buffers);
    plan.solver = names[2].to_owned();
    plan
}

/// Times near 2^60 and offsets near 2^64.
pub(crate) fn extreme() -> Plan {
    const LATE: u64 = 1 << 60;
    let mut buffers = vec![
        buffer("late", (LATE + 1, LATE + 3), 1, 0, Tier::Temporary),
        buffer("odd", (LATE + 2, LATE + 1001), (1 << 53) + 1, 1, Tier::Cyclic),
        buffer("high", (LATE + 5, LATE + 900), 3, u64::MAX - 3, Tier::Persistent),
    ];
    buffers.push(buffer("huge", (LATE + 4, LATE + 800), 1 << 62, 1 << 62, Tier::Temporary));
    finish("extreme", buffers)
}

/// A step of about `count` buffers shaped like training: weights throughout, activations that wait for the backward
/// pass, temporaries of a few ops.
pub(crate) fn synthetic(count: u64) -> Plan {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let steps = count * 2;
    let mut buffers = Vec::new();
    for index in 0..count {
        let at = index * 2;
        let size = 256 << random.below(13);
        let layer = index * 48 / count.max(1);
        let (name, life, bytes, tier) = match random.below(100) {
            0..2 => (format!("layer{layer}.weight.{index}"), (0, steps), size * 2, Tier::Persistent),
            2..25 if at < steps / 2 => {
                let until = steps - at - random.below(40).min(steps - at - 1) - 1;
                (format!("layer{layer}.attention.saved_{index}"), (at, until.max(at + 1)), size, Tier::Cyclic)
            }
            _ => {
                let until = (at + 1 + random.below(24) * random.below(8)).clamp(at + 1, steps);
                (format!("fusion.{index}"), (at, until), size * 3, Tier::Temporary)
            }
        };
        let mut buffer = buffer(&name, life, bytes, 0, tier);
        buffer.op = Some(format!("op.{}", index / 3));
        buffers.push(buffer);
    }
    first_fit(&mut buffers);
    let mut plan = finish("synthetic training step", buffers);
    plan.end = HalfStep(steps);
    plan.order = Some((0..u32::try_from(count).unwrap_or(u32::MAX)).map(OpId).collect());
    plan
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % limit
    }
}

/// Places buffers in order of birth, each in the lowest free bytes that are large enough at that moment.
pub(crate) fn first_fit(buffers: &mut [PlacedBuffer]) {
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.sort_by_key(|&i| (buffers[i].range.birth, std::cmp::Reverse(buffers[i].range.death)));
    let mut deaths = std::collections::BinaryHeap::new();
    let mut live: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
    for index in order {
        let now = buffers[index].range.birth;
        while let Some(&std::cmp::Reverse((death, offset))) = deaths.peek() {
            if death > now {
                break;
            }
            live.remove(&offset);
            deaths.pop();
        }
        let mut offset = 0;
        for (&low, &high) in &live {
            if low >= offset + buffers[index].bytes.0 {
                break;
            }
            offset = offset.max(high);
        }
        buffers[index].offset = Offset(offset);
        live.insert(offset, offset + buffers[index].bytes.0);
        deaths.push(std::cmp::Reverse((buffers[index].range.death, offset)));
    }
}

/// Reads `id,lower,upper,size[,offset[,values]]`.
fn csv(path: &str) -> Result<Plan, Box<dyn Error>> {
    let mut bytes = std::fs::read(path)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain)?;
        bytes = plain;
    }
    let text = String::from_utf8(bytes)?;
    let mut buffers = Vec::new();
    let mut has_offsets = false;
    for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
        let mut fields = line.splitn(6, ',');
        let mut next = || fields.next().ok_or("a field is missing");
        let id = next()?.to_owned();
        let life = (next()?.parse()?, next()?.parse()?);
        let size = next()?.parse()?;
        let offset = next().ok().map(str::parse).transpose()?;
        has_offsets |= offset.is_some();
        let name = next().map_or(id.clone(), str::to_owned);
        let mut buffer = buffer(&name, life, size, offset.unwrap_or(0), Tier::Temporary);
        buffer.id = id;
        buffers.push(buffer);
    }
    let end = buffers.iter().map(|b| b.range.death.0).max().unwrap_or(0);
    for buffer in &mut buffers {
        // The file has no tiers; long lives stand in for them.
        buffer.tier = match buffer.range.half_steps() as f64 / end as f64 {
            share if share > 0.9 => Tier::Persistent,
            share if share > 0.25 => Tier::Cyclic,
            _ => Tier::Temporary,
        };
    }
    if !has_offsets {
        first_fit(&mut buffers);
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    Ok(finish(name.split(".temp").next().unwrap_or(name), buffers))
}
