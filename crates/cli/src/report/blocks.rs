//! Blocks and holes as reports tell them.

use records::{Block, BlockState, DeviceHistory, History, Hole, Moment};
use serde::Serialize;

use super::{Clock, Labels, StackLabel, When, count, cut, size};

/// A moment of a device, and the means to put it into words.
pub(crate) struct Scene<'a> {
    /// The device.
    pub(crate) device: &'a DeviceHistory,
    /// The moment.
    pub(crate) moment: &'a Moment,
    /// Stacks and tags in words.
    pub(crate) labels: &'a Labels<'a>,
    /// Moments in words.
    pub(crate) clock: &'a Clock<'a>,
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct BlockFacts {
    /// Where it begins.
    pub(crate) address: u64,
    /// Bytes it takes up.
    pub(crate) bytes: u64,
    /// Bytes asked for.
    pub(crate) requested_bytes: u64,
    /// `live`, or `pending` if only streams hold it.
    pub(crate) state: &'static str,
    /// Stream it was handed out on.
    pub(crate) stream: u64,
    /// From where.
    pub(crate) stack: StackLabel,
    /// Who asked.
    pub(crate) tag: String,
    /// When it was handed out; absent if before the record began.
    pub(crate) since: Option<When>,
    /// How many events ago that was.
    pub(crate) age_events: Option<u64>,
    /// How long ago that was, in ns.
    pub(crate) age_ns: Option<u64>,
}

/// A hole and its neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct HoleFacts {
    /// Where it begins.
    pub(crate) address: u64,
    /// How long it is.
    pub(crate) bytes: u64,
    /// Bytes of its segment.
    pub(crate) segment_bytes: u64,
    /// Stream its segment serves.
    pub(crate) stream: u64,
    /// The block below, in the same segment.
    pub(crate) below: Option<BlockFacts>,
    /// The block above.
    pub(crate) above: Option<BlockFacts>,
}

impl Scene<'_> {
    /// The facts of a block.
    pub(crate) fn block(&self, block: &Block) -> BlockFacts {
        let birth = self.moment.birth(block.address);
        let event_time = |index: u64| {
            let event = usize::try_from(index).ok().and_then(|index| self.device.events.get(index));
            event.map_or(0, |event| event.time_ns)
        };
        let since = birth.map(|index| self.clock.when(index + 1, event_time(index)));
        let now = self.moment.time_ns();
        BlockFacts {
            address: block.address,
            bytes: block.bytes,
            requested_bytes: block.requested_bytes,
            state: if block.state == BlockState::Pending { "pending" } else { "live" },
            stream: block.stream,
            stack: self.labels.stack(block.stack),
            tag: self.labels.tag(block.tag).to_owned(),
            age_events: birth.map(|index| self.moment.map().event().saturating_sub(index + 1)),
            age_ns: since.and_then(|since| since.time_ns).filter(|_| now != 0).map(|time| now.saturating_sub(time)),
            since,
        }
    }

    /// The facts of a hole.
    pub(crate) fn hole(&self, hole: &Hole) -> HoleFacts {
        HoleFacts {
            address: hole.address,
            bytes: hole.bytes,
            segment_bytes: hole.segment_bytes,
            stream: hole.stream,
            below: hole.below.as_ref().map(|block| self.block(block)),
            above: hole.above.as_ref().map(|block| self.block(block)),
        }
    }
}

impl BlockFacts {
    /// In one line of at most `width` characters: size, age, from where.
    pub(crate) fn line(&self, width: usize) -> String {
        let age = match (self.age_ns, self.age_events) {
            (Some(ns), _) => format!("{} old", crate::quantity::Took(std::time::Duration::from_nanos(ns))),
            (None, Some(events)) => format!("{} old", count(events, "event")),
            (None, None) => "from before the record".to_owned(),
        };
        let pending = if self.state == "pending" { ", pending" } else { "" };
        cut(&format!("{}{pending}, {age}: {}", size(self.bytes), self.origin()), width)
    }

    /// Whether anything is known of where it came from.
    pub(crate) fn has_origin(&self) -> bool {
        !self.is_without_stack() || !self.tag.is_empty()
    }

    fn is_without_stack(&self) -> bool {
        self.stack.calls.is_empty() && self.stack.operator.is_none()
    }

    /// From where, or who asked.
    pub(crate) fn origin(&self) -> String {
        match (self.is_without_stack(), self.tag.is_empty()) {
            (true, false) => self.tag.clone(),
            (false, false) => format!("{} ({})", self.stack.line(), self.tag),
            (_, true) => self.stack.line(),
        }
    }
}

/// The labels of a recording.
impl<'a> From<&'a History> for Labels<'a> {
    fn from(history: &'a History) -> Self {
        Self::new(&history.names, &history.stacks)
    }
}
