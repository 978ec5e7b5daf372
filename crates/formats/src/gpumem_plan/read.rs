//! Reading. Fields that aren't known are stepped over, so that a report may carry a plan and more.

use coloring::{BoundKind, Gap, PlacedBuffer, Plan, Status};
use hashbrown::HashMap;
use lifetime::{Bytes, HalfStep, LiveRange, Offset, OpId, Tier};
use serde::de::IgnoredAny;

use crate::error::Fault;
use crate::ids::At;
use crate::input::Input;
use crate::json::{self, Id, Items, Text, record};
use crate::limits::{MAX_ALIGNMENT, MAX_BYTES, add_below_limit};
use crate::words::Spelled;
use crate::{Error, Result, document, gaps};

record! {
    RawPlan<'de>, Skip:
    may _format "format": IgnoredAny,
    may name "name": Option<Text<'de>>,
    must peak_bytes "peak_bytes": u64,
    must max_load_bytes "max_load_bytes": u64,
    must lower_bound_bytes "lower_bound_bytes": u64,
    must bound_kind "bound_kind": Spelled<BoundKind>,
    must status "status": Spelled<Status>,
    may capacity_bytes "capacity_bytes": Option<u64>,
    must solver "solver": Text<'de>,
    may end "end": Option<u64>,
    may order "order": Option<Items<u64>>,
    may separations "separations": Items<(u64, u64)>,
    must placements "placements": Items<RawPlacement<'de>>,
}

record! {
    RawPlacement<'de>, Skip:
    must id "id": Id<'de>,
    may name "name": Option<Text<'de>>,
    may op "op": Option<Text<'de>>,
    must offset "offset": u64,
    must bytes "bytes": u64,
    must birth "birth": u64,
    must death "death": u64,
    must tier "tier": Spelled<Tier>,
    may alignment "alignment": Option<u64>,
    may fixed "fixed": bool,
    may gaps "gaps": Items<RawGap>,
}

record! {
    RawGap, Skip:
    must birth "birth": u64,
    must death "death": u64,
    may kept "kept": Option<(u64, u64)>,
}

/// Reads a plan. Overlaps, a wrong peak and the like are left for a verifier to find.
pub(crate) fn read(input: &mut Input<'_>) -> Result<Plan> {
    input.read_all()?;
    let at = At { file: input.file() };
    let raw: RawPlan<'_> = json::parse(input.text(), at.file)?;
    let limit = u64::from(u32::MAX);
    if raw.placements.0.len() as u64 > limit {
        return Err(at.fault("placements", "", Fault::TooMany { what: "placements", limit }));
    }
    let last_death = raw.placements.0.iter().map(|placement| placement.death).max();
    let end = raw.end.or(last_death).unwrap_or_default();
    let mut sum = 0_u64;
    let mut buffers = Vec::with_capacity(raw.placements.0.len());
    for (index, placement) in raw.placements.0.into_iter().enumerate() {
        let buffer = placed(index, placement, end, at)?;
        sum = add_below_limit(sum, buffer.bytes.0).ok_or_else(|| {
            let fault = Fault::SumOverflow("the sizes of all placements up to here");
            at.fault(format!("placements[{index}].bytes"), label(&buffer.id), fault)
        })?;
        buffers.push(buffer);
    }
    check_ids(&buffers, at)?;
    let separations = read_separations(&raw.separations.0, buffers.len(), at)?;
    let order = raw.order.map(|order| read_order(&order.0, at)).transpose()?;
    Ok(Plan {
        name: raw.name.map_or_else(|| document::stem(at.file), |name| name.to_string()),
        buffers,
        separations,
        end: HalfStep(end),
        peak: Bytes(raw.peak_bytes),
        max_load: Bytes(raw.max_load_bytes),
        lower_bound: Bytes(raw.lower_bound_bytes),
        bound_kind: raw.bound_kind.0,
        status: raw.status.0,
        capacity: raw.capacity_bytes.map(Bytes),
        order,
        solver: raw.solver.to_string(),
    })
}

fn label(id: &str) -> String {
    format!("placement `{id}`")
}

fn placed(index: usize, raw: RawPlacement<'_>, end: u64, at: At<'_>) -> Result<PlacedBuffer> {
    let id = raw.id.to_string();
    let refuse = |field: &str, fault| {
        Err::<PlacedBuffer, Error>(at.fault(format!("placements[{index}].{field}"), label(&id), fault))
    };
    let (birth, death) = (raw.birth, raw.death);
    if death <= birth {
        return refuse("death", Fault::EmptyRange { birth, death });
    }
    if death > end {
        return refuse("death", Fault::AfterEnd { death, end });
    }
    let alignment = raw.alignment.unwrap_or(1);
    for (field, value, max) in [("bytes", raw.bytes, MAX_BYTES), ("alignment", alignment, MAX_ALIGNMENT)] {
        if value == 0 {
            return refuse(field, Fault::Zero);
        }
        if value > max {
            return refuse(field, Fault::TooLarge { value, max });
        }
    }
    if raw.offset.checked_add(raw.bytes).is_none() {
        return refuse("offset", Fault::EndOverflow { offset: raw.offset, bytes: raw.bytes });
    }
    let range = LiveRange::new(HalfStep(birth), HalfStep(death));
    let mut gaps: Vec<Gap> = Vec::with_capacity(raw.gaps.0.len());
    for (item, gap) in raw.gaps.0.iter().enumerate() {
        let gap = Gap {
            range: LiveRange { birth: HalfStep(gap.birth), death: HalfStep(gap.death) },
            kept: gap.kept.map(|(from, to)| (Offset(from), Offset(to))),
        };
        if let Err(fault) = gaps::check(&gap, gaps.last(), range, Bytes(raw.bytes)) {
            return refuse(&format!("gaps[{item}]"), Fault::Gap(fault));
        }
        gaps.push(gap);
    }
    Ok(PlacedBuffer {
        name: raw.name.map_or_else(|| id.clone(), |name| name.to_string()),
        op: raw.op.map(|op| op.to_string()),
        tier: raw.tier.0,
        offset: Offset(raw.offset),
        bytes: Bytes(raw.bytes),
        alignment,
        range,
        fixed: raw.fixed,
        gaps,
        id,
    })
}

fn check_ids(buffers: &[PlacedBuffer], at: At<'_>) -> Result<()> {
    let mut seen = HashMap::with_capacity(buffers.len());
    for (index, buffer) in buffers.iter().enumerate() {
        if let Some(first) = seen.insert(buffer.id.as_str(), index) {
            let (id, first) = (buffer.id.clone(), format!("placements[{first}]"));
            let fault = Fault::Duplicate { what: "placement", id, first };
            return Err(at.fault(format!("placements[{index}].id"), "", fault));
        }
    }
    Ok(())
}

fn read_separations(raw: &[(u64, u64)], buffers: usize, at: At<'_>) -> Result<Vec<(u32, u32)>> {
    let mut pairs: Vec<(u32, u32)> = Vec::with_capacity(raw.len());
    for (index, &(a, b)) in raw.iter().enumerate() {
        // Below `buffers`, which fits in 32 bits.
        let pair = (a as u32, b as u32);
        if a >= b || b >= buffers as u64 || pairs.last().is_some_and(|last| *last >= pair) {
            return Err(at.fault(format!("separations[{index}]"), "", Fault::BadPair(a, b)));
        }
        pairs.push(pair);
    }
    Ok(pairs)
}

fn read_order(raw: &[u64], at: At<'_>) -> Result<Vec<OpId>> {
    let mut seen = vec![false; raw.len()];
    let mut order = Vec::with_capacity(raw.len());
    for (index, &op) in raw.iter().enumerate() {
        let is_new =
            usize::try_from(op).ok().and_then(|op| seen.get_mut(op)).is_some_and(|seen| !std::mem::replace(seen, true));
        match u32::try_from(op) {
            Ok(op) if is_new => order.push(OpId(op)),
            _ => return Err(at.fault(format!("order[{index}]"), "", Fault::BadOrder(op))),
        }
    }
    Ok(order)
}
