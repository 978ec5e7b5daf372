//! Plans for this crate's unit tests.

use coloring::{BoundKind, PlacedBuffer, Plan, Status};
use lifetime::{Bytes, HalfStep, LiveRange, Offset, Tier};

/// A plan of buffers `b0, b1, ...` given as `(birth, death, offset, bytes)`, tiers taking turns.
pub(crate) fn plan(rows: &[(u64, u64, u64, u64)]) -> Plan {
    let buffers: Vec<PlacedBuffer> = rows
        .iter()
        .enumerate()
        .map(|(index, &(birth, death, offset, bytes))| PlacedBuffer {
            id: format!("b{index}"),
            name: format!("tensor {index}"),
            op: Some(format!("op {index}")),
            tier: Tier::ALL[index % 3],
            offset: Offset(offset),
            bytes: Bytes(bytes),
            alignment: 1,
            range: LiveRange { birth: HalfStep(birth), death: HalfStep(death) },
            fixed: false,
            gaps: Vec::new(),
        })
        .collect();
    let peak = Bytes(buffers.iter().map(|b| b.offset.0.saturating_add(b.bytes.0)).max().unwrap_or(0));
    Plan {
        name: "sample".to_owned(),
        end: HalfStep(rows.iter().map(|r| r.1).max().unwrap_or(0)),
        buffers,
        separations: Vec::new(),
        peak,
        max_load: peak,
        lower_bound: peak,
        bound_kind: BoundKind::Load,
        status: Status::Optimal,
        capacity: None,
        order: None,
        solver: "test".to_owned(),
    }
}
