//! What in a record contradicts itself.

/// A way in which an event contradicts what came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Defect {
    /// Its time is before that of the event before it.
    TimeBackwards,
    /// A free of a block that isn't there.
    UnknownFree,
    /// A free of a block that the host has dropped already.
    DoubleFree,
    /// A block where another block lies.
    BlockOverlap,
    /// A block outside of every segment.
    OutsideSegment,
    /// A segment where another segment lies.
    SegmentOverlap,
    /// A segment given back that isn't there, or only in part.
    UnknownSegment,
    /// A segment given back while blocks of it are in use.
    SegmentInUse,
    /// A block for which more was asked than it has.
    RequestBeyondBlock,
    /// A block or segment that reaches past the end of the address space.
    AddressOverflow,
    /// The state after the last event isn't the one that the file states.
    EndDiffers,
    /// A block of the file's final state that its events say was freed, or the reverse.
    StartUnclear,
}

impl Defect {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::TimeBackwards,
        Self::UnknownFree,
        Self::DoubleFree,
        Self::BlockOverlap,
        Self::OutsideSegment,
        Self::SegmentOverlap,
        Self::UnknownSegment,
        Self::SegmentInUse,
        Self::RequestBeyondBlock,
        Self::AddressOverflow,
        Self::EndDiffers,
        Self::StartUnclear,
    ];

    /// What it is, for people; reads after a count.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::TimeBackwards => "events before the event they follow",
            Self::UnknownFree => "frees of blocks that aren't there",
            Self::DoubleFree => "blocks freed twice",
            Self::BlockOverlap => "blocks placed on other blocks",
            Self::OutsideSegment => "blocks outside of every segment",
            Self::SegmentOverlap => "segments placed on other segments",
            Self::UnknownSegment => "segments given back that aren't there",
            Self::SegmentInUse => "segments given back with blocks in use",
            Self::RequestBeyondBlock => "blocks smaller than what was asked for",
            Self::AddressOverflow => "ranges past the end of the address space",
            Self::EndDiffers => "blocks or segments at the end that differ from what the file states",
            Self::StartUnclear => "events that don't fit the state after them",
        }
    }

    /// A word for it in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::TimeBackwards => "time_backwards",
            Self::UnknownFree => "unknown_free",
            Self::DoubleFree => "double_free",
            Self::BlockOverlap => "block_overlap",
            Self::OutsideSegment => "outside_segment",
            Self::SegmentOverlap => "segment_overlap",
            Self::UnknownSegment => "unknown_segment",
            Self::SegmentInUse => "segment_in_use",
            Self::RequestBeyondBlock => "request_beyond_block",
            Self::AddressOverflow => "address_overflow",
            Self::EndDiffers => "end_differs",
            Self::StartUnclear => "start_unclear",
        }
    }
}

/// How often each kind was met, and where first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defects {
    counts: [u64; Defect::ALL.len()],
    first: [Option<u64>; Defect::ALL.len()],
}

impl Defects {
    /// Counts one more, met at the event with this number.
    pub fn note(&mut self, defect: Defect, event: u64) {
        let index = defect as usize;
        self.counts[index] = self.counts[index].saturating_add(1);
        self.first[index] = Some(self.first[index].map_or(event, |first| first.min(event)));
    }

    /// Adds what another count has.
    pub fn add(&mut self, other: &Self) {
        for defect in Defect::ALL {
            let index = defect as usize;
            self.counts[index] = self.counts[index].saturating_add(other.counts[index]);
            self.first[index] = earlier(self.first[index], other.first[index]);
        }
    }

    /// Takes the higher count of each kind: for two who looked at the same.
    pub fn cover(&mut self, other: &Self) {
        for defect in Defect::ALL {
            let index = defect as usize;
            self.counts[index] = self.counts[index].max(other.counts[index]);
            self.first[index] = earlier(self.first[index], other.first[index]);
        }
    }

    /// How often this kind was met.
    pub fn count(&self, defect: Defect) -> u64 {
        self.counts[defect as usize]
    }

    /// Number of the event at which this kind was met first.
    pub fn first(&self, defect: Defect) -> Option<u64> {
        self.first[defect as usize]
    }

    /// All kinds together.
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Whether nothing contradicts itself.
    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }

    /// The kinds that were met, with count and first event.
    pub fn iter(&self) -> impl Iterator<Item = (Defect, u64, u64)> + '_ {
        Defect::ALL
            .into_iter()
            .filter(|defect| self.count(*defect) > 0)
            .map(|defect| (defect, self.count(defect), self.first(defect).unwrap_or(0)))
    }
}

fn earlier(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
