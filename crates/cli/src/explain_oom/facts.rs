//! The facts of a request that failed, or came closest to it: `gpumem-explain-oom/1`, described in `docs/formats.md`.

use records::{
    BlockState, DeviceHistory, Moment, Segment, SegmentKind, TightRequest, Tightness, Window, cheapest_release,
    cheapest_window,
};
use serde::Serialize;

use crate::report::{BlockFacts, Clock, HolderFacts, Labels, Scene, StackLabel, When, by_stack, by_tag, first};

/// Most blocks and groups that are listed.
const LISTED: usize = 20;
/// Requests up to this many bytes come from segments of their own in PyTorch's allocator.
const SMALL_REQUEST: u64 = 1 << 20;
/// Segments that allocator takes: for small requests, for medium ones, and the multiple for large ones.
const SMALL_SEGMENT: u64 = 2 << 20;
const MEDIUM_SEGMENT: u64 = 20 << 20;
const MEDIUM_REQUEST: u64 = 10 << 20;
const SEGMENT_MULTIPLE: u64 = 2 << 20;

/// The request, and the moment it was made.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Facts {
    pub(super) request: RequestFacts,
    pub(super) limit: Limit,
    pub(super) sums: Sums,
    pub(super) idle: Idle,
    /// Bytes that an allocator without any waste would have needed for this request: allocated at that moment + the
    /// request, rounded.
    pub(super) needed_bytes: u64,
    /// The most that one would have needed up to there.
    pub(super) perfect_bytes: u64,
    /// What lies where the request could be put with the least moved, if a segment is large enough.
    pub(super) window: Option<WindowFacts>,
    /// What keeps segments from being given back, so that the device has enough for the request.
    pub(super) release: Option<ReleaseFacts>,
    /// Who holds the live bytes.
    pub(super) by_stack: Vec<HolderFacts<StackLabel>>,
    pub(super) by_tag: Vec<HolderFacts<String>>,
    /// Who holds what is pending, by stream.
    pub(super) pending_by_stream: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct RequestFacts {
    /// `failed`, `over_capacity`, `most_reserved` or `most_active`.
    pub(super) why: &'static str,
    pub(super) bytes: u64,
    /// With the allocator's rounding.
    pub(super) rounded_bytes: u64,
    pub(super) stream: u64,
    pub(super) stack: StackLabel,
    pub(super) tag: String,
    #[serde(flatten)]
    pub(super) when: When,
}

/// What the allocator could reserve at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Limit {
    pub(super) bytes: u64,
    /// `failed_request`, `option`, `file`, or `reserved_before` where nothing states a limit: then it is what was
    /// reserved before the request.
    pub(super) source: &'static str,
    /// What the device had left.
    pub(super) device_free_bytes: u64,
    /// Bytes of the device, if known.
    pub(super) device_bytes: Option<u64>,
    /// Bytes of the device that neither this allocator held nor anybody could have had.
    pub(super) outside_bytes: Option<u64>,
    /// Whether the bytes of the device were stated; else they are what is known to have been reserved at some time.
    pub(super) is_device_stated: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Sums {
    pub(super) live_bytes: u64,
    pub(super) allocated_bytes: u64,
    pub(super) pending_bytes: u64,
    pub(super) active_bytes: u64,
    pub(super) reserved_bytes: u64,
    pub(super) reserved_after_bytes: u64,
}

/// Where the idle bytes (reserved and not active) are, seen from the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Idle {
    pub(super) bytes: u64,
    pub(super) pieces: u64,
    pub(super) largest_bytes: u64,
    /// Segments with nothing in them, of the common pool: they can be given back to the device.
    pub(super) whole_segments_bytes: u64,
    pub(super) whole_segments: u64,
    /// In segments that serve the request's stream and size; the largest piece of it.
    pub(super) own_bytes: u64,
    pub(super) own_largest_bytes: u64,
    /// In segments of other streams.
    pub(super) other_streams_bytes: u64,
    /// In private pools.
    pub(super) private_pools_bytes: u64,
    /// In segments for requests of another size class.
    pub(super) other_sizes_bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct WindowFacts {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) segment_bytes: u64,
    pub(super) stream: u64,
    pub(super) blocked_bytes: u64,
    pub(super) blocks: u64,
    /// The largest of them.
    pub(super) largest: Vec<BlockFacts>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReleaseFacts {
    pub(super) bytes: u64,
    pub(super) segments: u64,
    pub(super) blocked_bytes: u64,
    pub(super) blocks: u64,
    /// The largest of the blocks in them.
    pub(super) largest: Vec<BlockFacts>,
}

/// What the person says about the device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stated {
    /// `--capacity`.
    pub(super) capacity: Option<u64>,
}

impl Facts {
    /// Looks at the moment of `request`.
    pub(super) fn new(
        device: &DeviceHistory,
        request: &TightRequest,
        stated: Stated,
        labels: &Labels<'_>,
        clock: &Clock<'_>,
    ) -> Self {
        let granule = device.granule_bytes.max(1);
        let rounded = request.bytes.max(1).checked_next_multiple_of(granule).unwrap_or(request.bytes);
        let count = usize::try_from(request.events_before).unwrap_or(usize::MAX).min(device.events.len());
        let mut moment = Moment::new(device);
        let mut peak_allocated = moment.map().totals().allocated;
        for event in &device.events[..count] {
            moment.apply(event);
            peak_allocated = peak_allocated.max(moment.map().totals().allocated);
        }
        let totals = moment.map().totals();
        let segments: Vec<Segment> = moment.map().segments().collect();
        let limit = limit(device, request, stated, totals.reserved);
        let needed_bytes = totals.allocated.saturating_add(rounded);
        let scene = Scene { device, moment: &moment, labels, clock };
        let blocks = || moment.map().blocks();
        Self {
            request: RequestFacts {
                why: request.why.key(),
                bytes: request.bytes,
                rounded_bytes: rounded,
                stream: request.stream,
                stack: labels.stack(request.stack),
                tag: labels.tag(request.tag).to_owned(),
                when: clock.when(request.event + 1, request.time_ns),
            },
            sums: Sums {
                live_bytes: totals.live,
                allocated_bytes: totals.allocated,
                pending_bytes: totals.pending(),
                active_bytes: totals.active,
                reserved_bytes: totals.reserved,
                reserved_after_bytes: reserved_after(device, request, &moment),
            },
            idle: idle(&moment, &segments, request),
            needed_bytes,
            perfect_bytes: peak_allocated.max(needed_bytes),
            window: window(&segments, request, rounded).map(|window| window_facts(&window, &segments, &scene)),
            release: release(&segments, rounded, &limit, &scene),
            by_stack: first(by_stack(blocks(), labels), totals.live, LISTED),
            by_tag: first(by_tag(blocks(), labels), totals.live, LISTED),
            pending_by_stream: pending_by_stream(&moment),
            limit,
        }
    }

    /// Whether it was served within the limit, or without reserving anything if none is known.
    pub(super) fn has_passed(&self) -> bool {
        let can_fail = matches!(self.request.why, "failed" | "over_capacity");
        !can_fail && self.sums.reserved_after_bytes <= self.limit.bytes
    }

    /// Whether blocks lie outside of every segment that the file knows, so that what was reserved isn't known.
    pub(super) fn is_without_segments(&self) -> bool {
        self.sums.active_bytes > self.sums.reserved_bytes
    }

    /// Bytes that nobody used and the allocator could have had: idle ones and those the device had left.
    pub(super) fn unused_bytes(&self) -> u64 {
        self.limit.bytes.saturating_sub(self.sums.active_bytes)
    }
}

fn reserved_after(device: &DeviceHistory, request: &TightRequest, moment: &Moment) -> u64 {
    if request.why == Tightness::Failed {
        return moment.map().totals().reserved;
    }
    let mut map = moment.map().clone();
    let range = request.events_before..=request.event;
    for index in range {
        if let Some(event) = usize::try_from(index).ok().and_then(|index| device.events.get(index)) {
            map.apply(event);
        }
    }
    map.totals().reserved
}

fn limit(device: &DeviceHistory, request: &TightRequest, stated: Stated, reserved: u64) -> Limit {
    let device_bytes = stated.capacity.or(device.capacity_bytes);
    let source = if stated.capacity.is_some() { "option" } else { "file" };
    if let Some(free) = request.device_free {
        let bytes = reserved.saturating_add(free);
        // Somebody who states less than the file wants to know about that.
        if let Some(capacity) = stated.capacity.filter(|capacity| *capacity < bytes) {
            let free = capacity.saturating_sub(reserved);
            return Limit {
                bytes: capacity,
                source,
                device_free_bytes: free,
                device_bytes: Some(capacity),
                outside_bytes: Some(0),
                is_device_stated: true,
            };
        }
        return Limit {
            bytes,
            source: "failed_request",
            device_free_bytes: free,
            device_bytes,
            outside_bytes: device_bytes.map(|device| device.saturating_sub(bytes)),
            is_device_stated: stated.capacity.is_some(),
        };
    }
    match device_bytes {
        Some(bytes) => Limit {
            bytes,
            source,
            device_free_bytes: bytes.saturating_sub(reserved),
            device_bytes,
            outside_bytes: None,
            is_device_stated: true,
        },
        None => Limit { bytes: reserved, source: "reserved_before", ..Limit::default() },
    }
}

fn serves(segment: &Segment, request: &TightRequest) -> bool {
    segment.stream == request.stream && segment.pool == (0, 0) && serves_size(segment, request)
}

fn serves_size(segment: &Segment, request: &TightRequest) -> bool {
    match segment.kind {
        SegmentKind::Small => request.bytes <= SMALL_REQUEST,
        SegmentKind::Large => request.bytes > SMALL_REQUEST,
        _ => true,
    }
}

fn idle(moment: &Moment, segments: &[Segment], request: &TightRequest) -> Idle {
    let mut idle = Idle::default();
    for hole in moment.map().holes() {
        idle.bytes += hole.bytes;
        idle.pieces += 1;
        idle.largest_bytes = idle.largest_bytes.max(hole.bytes);
        let found = segments.binary_search_by_key(&hole.segment, |segment| segment.address);
        let Some(segment) = found.ok().and_then(|index| segments.get(index)) else { continue };
        if serves(segment, request) {
            idle.own_largest_bytes = idle.own_largest_bytes.max(hole.bytes);
        }
        if hole.bytes == segment.bytes && segment.pool == (0, 0) {
            idle.whole_segments += 1;
            idle.whole_segments_bytes += hole.bytes;
        } else if segment.pool != (0, 0) {
            idle.private_pools_bytes += hole.bytes;
        } else if segment.stream != request.stream {
            idle.other_streams_bytes += hole.bytes;
        } else if !serves_size(segment, request) {
            idle.other_sizes_bytes += hole.bytes;
        } else {
            idle.own_bytes += hole.bytes;
        }
    }
    idle
}

/// The best place in a segment that serves the request, else in any of the common pool.
fn window(segments: &[Segment], request: &TightRequest, rounded: u64) -> Option<Window> {
    let own = segments.iter().filter(|segment| serves(segment, request));
    let common = segments.iter().filter(|segment| segment.pool == (0, 0));
    cheapest_window(own, rounded).or_else(|| cheapest_window(common, rounded))
}

fn window_facts(window: &Window, segments: &[Segment], scene: &Scene<'_>) -> WindowFacts {
    let found = segments.binary_search_by_key(&window.segment, |segment| segment.address);
    WindowFacts {
        address: window.address,
        bytes: window.bytes,
        segment_bytes: window.segment_bytes,
        stream: found.ok().and_then(|index| segments.get(index)).map_or(0, |segment| segment.stream),
        blocked_bytes: window.blocked_bytes,
        blocks: window.blocks.len() as u64,
        largest: largest(window.blocks.iter(), scene),
    }
}

fn largest<'b>(blocks: impl Iterator<Item = &'b records::Block>, scene: &Scene<'_>) -> Vec<BlockFacts> {
    let mut blocks: Vec<&records::Block> = blocks.collect();
    blocks.sort_unstable_by(|a, b| b.bytes.cmp(&a.bytes).then(a.address.cmp(&b.address)));
    blocks.into_iter().take(LISTED).map(|block| scene.block(block)).collect()
}

/// What a new segment for the request takes from the device, by the rules of PyTorch's allocator.
pub(super) fn segment_for(rounded: u64) -> u64 {
    match rounded {
        0..=SMALL_REQUEST => SMALL_SEGMENT,
        _ if rounded < MEDIUM_REQUEST => MEDIUM_SEGMENT,
        _ => rounded.checked_next_multiple_of(SEGMENT_MULTIPLE).unwrap_or(rounded),
    }
}

fn release(segments: &[Segment], rounded: u64, limit: &Limit, scene: &Scene<'_>) -> Option<ReleaseFacts> {
    let wanted = segment_for(rounded).saturating_sub(limit.device_free_bytes);
    if wanted == 0 {
        return None;
    }
    let found = cheapest_release(segments.iter().filter(|segment| segment.pool == (0, 0)), wanted)?;
    let blocks = || found.segments.iter().flat_map(|segment| &segment.blocks);
    Some(ReleaseFacts {
        bytes: found.bytes,
        segments: found.segments.len() as u64,
        blocked_bytes: found.blocked_bytes,
        blocks: blocks().count() as u64,
        largest: largest(blocks(), scene),
    })
}

fn pending_by_stream(moment: &Moment) -> Vec<(u64, u64)> {
    let mut streams = std::collections::BTreeMap::new();
    for block in moment.map().blocks().filter(|block| block.state == BlockState::Pending) {
        let sum: &mut u64 = streams.entry(block.stream).or_default();
        *sum = sum.saturating_add(block.bytes);
    }
    streams.into_iter().collect()
}
