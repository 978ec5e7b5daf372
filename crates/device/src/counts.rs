//! How often each kind of call was made.

use crate::DriverCall;

/// What was counted of one kind of call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCount {
    /// Calls made, refused ones among them.
    pub calls: u64,
    /// Calls refused; at most `calls`.
    pub failed: u64,
    /// Handles, address ranges or mappings in the calls that were not refused: 1 each where the call is no batch.
    pub handles: u64,
    /// Bytes in the calls that were not refused, where the call says bytes.
    pub bytes: u64,
    /// What the calls cost by the cost model, in nanoseconds.
    pub ns: u64,
}

impl CallCount {
    fn minus(self, earlier: CallCount) -> CallCount {
        CallCount {
            calls: self.calls.saturating_sub(earlier.calls),
            failed: self.failed.saturating_sub(earlier.failed),
            handles: self.handles.saturating_sub(earlier.handles),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            ns: self.ns.saturating_sub(earlier.ns),
        }
    }
}

/// Counts of all kinds. Counts only grow, so that two of them give what happened in between ([`since`](Self::since)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    kinds: [CallCount; DriverCall::COUNT],
}

impl CallCounts {
    /// What was counted of a kind.
    #[must_use]
    pub fn of(&self, call: DriverCall) -> CallCount {
        self.kinds[call.index()]
    }

    /// All kinds with at least one call, in the order of [`DriverCall::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (DriverCall, CallCount)> + '_ {
        DriverCall::ALL.iter().map(|&call| (call, self.of(call))).filter(|(_, count)| count.calls > 0)
    }

    /// What all calls cost by the cost model, in nanoseconds. Sum of `ns`.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.kinds.iter().fold(0, |sum, count| sum.saturating_add(count.ns))
    }

    /// The same in seconds. Without the time that a call waited for the device; that is in the makespan.
    #[must_use]
    pub fn modelled_driver_seconds(&self) -> f64 {
        self.total_ns() as f64 / 1e9
    }

    /// What was counted since an earlier copy.
    #[must_use]
    pub fn since(&self, earlier: &CallCounts) -> CallCounts {
        let mut difference = self.clone();
        for (count, before) in difference.kinds.iter_mut().zip(&earlier.kinds) {
            *count = count.minus(*before);
        }
        difference
    }

    /// Counts a refused call.
    pub(crate) fn add_failed(&mut self, call: DriverCall, ns: u64) {
        let count = &mut self.kinds[call.index()];
        count.calls += 1;
        count.failed += 1;
        count.ns = count.ns.saturating_add(ns);
    }

    /// Counts a call that went through.
    pub(crate) fn add(&mut self, call: DriverCall, handles: u64, bytes: u64, ns: u64) {
        let count = &mut self.kinds[call.index()];
        count.calls += 1;
        count.handles = count.handles.saturating_add(handles);
        count.bytes = count.bytes.saturating_add(bytes);
        count.ns = count.ns.saturating_add(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_and_sums_are_by_kind() {
        let mut counts = CallCounts::default();
        counts.add(DriverCall::Map, 4, 8 << 20, 100);
        let earlier = counts.clone();
        counts.add(DriverCall::Map, 2, 4 << 20, 50);
        counts.add_failed(DriverCall::Alloc, 7);
        let since = counts.since(&earlier);
        assert_eq!(since.of(DriverCall::Map), CallCount { calls: 1, failed: 0, handles: 2, bytes: 4 << 20, ns: 50 });
        assert_eq!(since.of(DriverCall::Alloc), CallCount { calls: 1, failed: 1, ns: 7, ..CallCount::default() });
        assert_eq!(counts.total_ns(), 157);
        assert_eq!(since.iter().map(|(call, _)| call).collect::<Vec<_>>(), [DriverCall::Alloc, DriverCall::Map]);
    }
}
