//! A valid graph with its ops in a chosen order.

use crate::{
    HalfStep, LiveRange, OpId,
    check::Scan,
    storage::{NONE, Origin},
};

/// Where every op stands, and which positions each storage is used at.
#[derive(Clone, Debug)]
pub(crate) struct Ordered<'s, 'g> {
    pub(crate) scan: &'s Scan<'g>,
    /// The ops, one after another.
    pub(crate) order: Vec<OpId>,
    position: Vec<u32>,
    /// First and last position at which each storage is touched; [`NONE`] if it never is.
    uses: Vec<(u32, u32)>,
}

impl<'s, 'g> Ordered<'s, 'g> {
    /// `order` holds every op once, each after the ops it needs.
    pub(crate) fn new(scan: &'s Scan<'g>, order: Vec<OpId>) -> Self {
        let mut position = vec![0; order.len()];
        let mut uses = vec![(NONE, NONE); scan.storages.len()];
        for (at, op) in order.iter().enumerate() {
            position[op.index()] = at as u32;
            for &storage in scan.touches.row(op.index()) {
                let (first, last) = &mut uses[storage as usize];
                *first = (*first).min(at as u32);
                *last = at as u32;
            }
        }
        Self { scan, order, position, uses }
    }

    /// The half-step after the step.
    pub(crate) fn end(&self) -> HalfStep {
        HalfStep((2 * self.order.len() as u64).max(1))
    }

    /// Where an op stands.
    pub(crate) fn position(&self, op: u32) -> u32 {
        self.position[op as usize]
    }

    /// The op at a position.
    pub(crate) fn op_at(&self, position: u32) -> OpId {
        self.order[position as usize]
    }

    /// The first and the last position that touches a storage.
    pub(crate) fn uses(&self, storage: u32) -> Option<(u32, u32)> {
        Some(self.uses[storage as usize]).filter(|&(first, _)| first != NONE)
    }

    /// When a storage needs bytes; `None` if it has none or nothing ever makes it.
    pub(crate) fn range(&self, id: u32) -> Option<LiveRange> {
        let storage = self.scan.storages.get(id);
        let uses = self.uses(id);
        if storage.bytes.0 == 0 {
            return None;
        }
        let birth = match (storage.origin, uses) {
            (Origin::Persistent, _) => return Some(LiveRange::new(HalfStep(0), self.end())),
            (Origin::HandedIn, _) => HalfStep(0),
            (Origin::Made, Some((first, _))) => born_at(first),
            (Origin::Made, None) => return None,
        };
        let death = match uses {
            _ if storage.is_result => self.end(),
            Some((_, last)) => released_after(last),
            None => HalfStep(1),
        };
        Some(LiveRange::new(birth, death))
    }
}

/// When the outputs and the workspace of the op at this position go live.
pub(crate) fn born_at(position: u32) -> HalfStep {
    HalfStep(2 * u64::from(position))
}

/// When what the op at this position uses last is released.
pub(crate) fn released_after(position: u32) -> HalfStep {
    HalfStep(2 * u64::from(position) + 1)
}
