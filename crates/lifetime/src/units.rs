//! Newtypes for sizes, times and identifiers, so that they can't be mixed up.

use std::fmt;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A position in an arena, in bytes from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub u64);

/// A moment in a schedule. For a graph, the op at position `i` of the order owns the half-steps `2i` (outputs and
/// workspace go live) and `2i + 1` (inputs are released); for a file that brings live ranges of its own, the file's
/// time unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HalfStep(pub u64);

/// The half-open range `[birth, death)` of moments at which a buffer holds data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LiveRange {
    /// First moment at which the buffer is live.
    pub birth: HalfStep,
    /// First moment at which it no longer is; always greater than `birth`.
    pub death: HalfStep,
}

impl LiveRange {
    /// The range `[birth, death)`.
    pub fn new(birth: HalfStep, death: HalfStep) -> Self {
        debug_assert!(birth < death, "empty live range");
        Self { birth, death }
    }

    /// Length in half-steps.
    pub fn half_steps(self) -> u64 {
        self.death.0 - self.birth.0
    }

    /// Whether the two ranges share a moment.
    pub fn overlaps(self, other: Self) -> bool {
        self.birth < other.death && other.birth < self.death
    }
}

macro_rules! index_type {
    ($(#[$doc:meta] $name:ident),+ $(,)?) => {$(
        #[$doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The index as a `usize`, for slices.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )+};
}

index_type! {
    /// Index of a tensor in [`Graph::tensors`](crate::Graph::tensors).
    TensorId,
    /// Index of an op in [`Graph::ops`](crate::Graph::ops).
    OpId,
    /// Index of a stream, `0` being the one that ops run on unless they say otherwise.
    StreamId,
    /// Index of an event, recorded by at most one op.
    EventId,
    /// Index of a buffer in [`Analysis::buffers`](crate::Analysis::buffers).
    BufferId,
}

impl fmt::Display for Bytes {
    /// Binary units with three significant decimals, exact below 1 KiB: `512 B`, `1.500 KiB`, `17.489 GiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        // What would round to 1024.000 is 1.000 of the next unit.
        while value >= 1023.9995 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        write!(f, "{value:.3} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_in_the_unit_they_round_to() {
        let written = |bytes| Bytes(bytes).to_string();
        assert_eq!(written(0), "0 B");
        assert_eq!(written(1023), "1023 B");
        assert_eq!(written(1024), "1.000 KiB");
        assert_eq!(written((1 << 20) - 1), "1023.999 KiB");
        assert_eq!(written((1 << 30) - 1), "1.000 GiB");
        assert_eq!(written(u64::MAX), "16.000 EiB");
    }
}
