//! Calls that are made to fail.

use crate::error::codes;
use crate::{Attempt, DriverCall, Error, Failure};

/// What an injected failure looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// As if memory ran out.
    OutOfMemory,
    /// As if a value were wrong.
    InvalidValue,
    /// As if it came at the wrong time.
    InvalidState,
    /// As if the device couldn't do it.
    Unsupported,
    /// As if the device failed.
    Device,
}

/// Which calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Each `n`-th one, the `n`-th first; 0 is never.
    Every(u64),
    /// Only the one with this number; the first is 1.
    Nth(u64),
    /// This one and all later ones.
    From(u64),
}

impl When {
    fn matches(self, number: u64) -> bool {
        match self {
            When::Every(n) => n != 0 && number.is_multiple_of(n),
            When::Nth(n) => number == n,
            When::From(n) => number >= n,
        }
    }
}

/// One rule: these calls fail in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of call that is counted and fails; `None` for any kind.
    pub call: Option<DriverCall>,
    /// Which of them, counted since the plan was put in.
    pub when: When,
    /// How they fail.
    pub kind: FaultKind,
    /// Whether the device is lost with it.
    pub sticky: bool,
}

impl Fault {
    /// The rule that calls of a kind (`None`: any) fail for lack of memory, without losing the device.
    #[must_use]
    pub fn out_of_memory(call: impl Into<Option<DriverCall>>, when: When) -> Fault {
        Fault { call: call.into(), when, kind: FaultKind::OutOfMemory, sticky: false }
    }

    /// The same rule with another error.
    #[must_use]
    pub fn with_kind(mut self, kind: FaultKind) -> Fault {
        self.kind = kind;
        self
    }

    /// The same rule, after which the device is lost.
    #[must_use]
    pub fn sticky(mut self) -> Fault {
        self.sticky = true;
        self
    }
}

/// Rules by which calls fail. Each rule counts for itself; the first that matches decides.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    rules: Vec<(Fault, u64)>,
}

impl FaultPlan {
    /// A plan of these rules.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = Fault>) -> FaultPlan {
        FaultPlan { rules: rules.into_iter().map(|fault| (fault, 0)).collect() }
    }

    /// Counts a call and says how it fails, if it does.
    pub(crate) fn next(&mut self, call: DriverCall) -> Option<Fault> {
        let mut hit = None;
        for (fault, number) in &mut self.rules {
            if fault.call.is_none_or(|wanted| wanted == call) {
                *number += 1;
                if fault.when.matches(*number) {
                    hit = hit.or(Some(*fault));
                }
            }
        }
        hit
    }
}

impl Fault {
    /// The error of the call it strikes.
    pub(crate) fn error(&self, attempt: Attempt, free_bytes: u64, total_bytes: u64) -> Error {
        let failure =
            |code| Box::new(Failure::new(attempt, code, "made to fail by the fault plan").with_sticky(self.sticky));
        match self.kind {
            FaultKind::OutOfMemory => {
                Error::OutOfMemory { failure: failure(codes::OUT_OF_MEMORY), free_bytes, total_bytes }
            }
            FaultKind::InvalidValue => Error::InvalidValue(failure(codes::INVALID_VALUE)),
            FaultKind::InvalidState => Error::InvalidState(failure(codes::ILLEGAL_STATE)),
            FaultKind::Unsupported => Error::Unsupported(failure(codes::NOT_SUPPORTED)),
            FaultKind::Device => Error::Device(failure(codes::LAUNCH_FAILED)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn struck(plan: &mut FaultPlan, calls: &[DriverCall]) -> Vec<bool> {
        calls.iter().map(|&call| plan.next(call).is_some()).collect()
    }

    #[test]
    fn every_nth_and_nth_count_only_their_kind() {
        let (map, free) = (DriverCall::Map, DriverCall::Free);
        let mut plan = FaultPlan::new([
            Fault::out_of_memory(map, When::Every(2)),
            Fault::out_of_memory(free, When::Nth(2)),
            Fault::out_of_memory(None, When::From(8)),
        ]);
        let calls = [map, free, map, free, free, map, map, free];
        assert_eq!(struck(&mut plan, &calls), [false, false, true, true, false, false, true, true]);
    }

    #[test]
    fn every_zeroth_call_is_none() {
        let mut plan = FaultPlan::new([Fault::out_of_memory(None, When::Every(0))]);
        assert_eq!(struck(&mut plan, &[DriverCall::Map, DriverCall::Map]), [false, false]);
    }
}
