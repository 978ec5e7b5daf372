//! What holds after any sequence of calls.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use device::{
    Access, AddressRange, ContractMode, Device, DevicePtr, DriverPools, EventId, Fault, FaultPlan, HandleId, Mapping,
    Sequence, SimDevice, SimOptions, SimStats, StreamId, Touch, VirtualMemory, When,
};
use proptest::prelude::*;

const PAGE: u64 = 2 << 20;
const CAPACITY: u64 = 64 * PAGE;

/// A call; numbers choose among what there is.
#[derive(Clone, Debug)]
enum Step {
    Alloc(u64),
    Free(usize),
    Reserve(u64),
    ReleaseRange(usize),
    Create { pages: u64, count: usize },
    ReleaseHandle(usize),
    Map { range: usize, page: u64, handle: usize },
    Unmap { mapping: usize },
    UnmapPages { range: usize, page: u64, pages: u64 },
    SetAccess { range: usize, page: u64, pages: u64 },
    PoolAlloc { bytes: u64, stream: usize },
    PoolFree { block: usize, stream: usize },
    Trim(u64),
    Launch { stream: usize, block: usize },
    Record { event: usize, stream: usize },
    Query(usize),
    SyncEvent(usize),
    Wait { event: usize, stream: usize },
    Finish(usize),
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    let index = 0usize..8;
    prop_oneof![
        (1u64..12 * PAGE).prop_map(Step::Alloc),
        index.clone().prop_map(Step::Free),
        (1u64..20).prop_map(Step::Reserve),
        index.clone().prop_map(Step::ReleaseRange),
        (1u64..4, 1usize..6).prop_map(|(pages, count)| Step::Create { pages, count }),
        index.clone().prop_map(Step::ReleaseHandle),
        (index.clone(), 0u64..20, index.clone()).prop_map(|(range, page, handle)| Step::Map { range, page, handle }),
        index.clone().prop_map(|mapping| Step::Unmap { mapping }),
        (index.clone(), 0u64..20, 0u64..6).prop_map(|(range, page, pages)| Step::UnmapPages { range, page, pages }),
        (index.clone(), 0u64..20, 1u64..6).prop_map(|(range, page, pages)| Step::SetAccess { range, page, pages }),
        (1u64..9 * PAGE, index.clone()).prop_map(|(bytes, stream)| Step::PoolAlloc { bytes, stream }),
        (index.clone(), index.clone()).prop_map(|(block, stream)| Step::PoolFree { block, stream }),
        (0u64..40 * PAGE).prop_map(Step::Trim),
        (index.clone(), index.clone()).prop_map(|(stream, block)| Step::Launch { stream, block }),
        (index.clone(), index.clone()).prop_map(|(event, stream)| Step::Record { event, stream }),
        index.clone().prop_map(Step::Query),
        index.clone().prop_map(Step::SyncEvent),
        (index.clone(), index.clone()).prop_map(|(event, stream)| Step::Wait { event, stream }),
        index.prop_map(Step::Finish),
        Just(Step::Sync),
    ]
}

/// What the caller knows: an independent account, kept in lists.
struct Model {
    device: SimDevice,
    streams: Vec<StreamId>,
    events: Vec<EventId>,
    plain: Vec<AddressRange>,
    ranges: Vec<AddressRange>,
    handles: Vec<(HandleId, u64)>,
    mappings: Vec<Mapping>,
    /// Released and still mapped.
    dying: Vec<(HandleId, u64)>,
    pooled: Vec<AddressRange>,
}

fn pick<T: Copy>(list: &[T], index: usize) -> Option<T> {
    if list.is_empty() { None } else { list.get(index % list.len()).copied() }
}

impl Model {
    fn new() -> Model {
        let options = SimOptions { contract: ContractMode::Count, ..SimOptions::with_capacity(CAPACITY) };
        let device = SimDevice::new(options).unwrap();
        let mut streams = vec![StreamId::DEFAULT];
        streams.extend((0..3).map(|_| device.create_stream().unwrap()));
        let events = (0..4).map(|_| device.create_event().unwrap()).collect();
        Model {
            device,
            streams,
            events,
            plain: Vec::new(),
            ranges: Vec::new(),
            handles: Vec::new(),
            mappings: Vec::new(),
            dying: Vec::new(),
            pooled: Vec::new(),
        }
    }

    fn pages(&self, range: usize, page: u64, pages: u64) -> Option<AddressRange> {
        let range = pick(&self.ranges, range)?;
        Some(AddressRange::new(DevicePtr(range.start.0 + page * PAGE), pages * PAGE))
    }

    fn bury(&mut self) {
        let mappings = &self.mappings;
        self.dying.retain(|(handle, _)| mappings.iter().any(|mapping| mapping.handle == *handle));
    }

    /// Makes the call and, where it goes through, books it. Returns whether it was refused.
    fn apply(&mut self, step: &Step) -> Option<bool> {
        let result = match *step {
            Step::Alloc(bytes) => self.device.alloc(bytes).map(|ptr| {
                self.plain.push(AddressRange::new(ptr, bytes.next_multiple_of(PAGE)));
            }),
            Step::Free(index) => {
                let range = pick(&self.plain, index)?;
                self.device.free(range.start).map(|()| self.plain.retain(|other| *other != range))
            }
            Step::Reserve(pages) => self.device.reserve_range(pages * PAGE, 0).map(|range| self.ranges.push(range)),
            Step::ReleaseRange(index) => {
                let range = pick(&self.ranges, index)?;
                self.device.release_range(range).map(|()| self.ranges.retain(|other| *other != range))
            }
            Step::Create { pages, count } => self.device.create_handles(pages * PAGE, count).map(|made| {
                self.handles.extend(made.into_iter().map(|handle| (handle, pages * PAGE)));
            }),
            Step::ReleaseHandle(index) => {
                let (handle, bytes) = pick(&self.handles, index)?;
                self.device.release_handles(&[handle]).map(|()| {
                    self.handles.retain(|other| other.0 != handle);
                    self.dying.push((handle, bytes));
                    self.bury();
                })
            }
            Step::Map { range, page, handle } => {
                let (handle, bytes) = pick(&self.handles, handle)?;
                let mapping = Mapping { at: self.pages(range, page, 1)?.start, handle, bytes };
                self.device.map(&[mapping]).map(|()| self.mappings.push(mapping))
            }
            Step::Unmap { mapping } => {
                let mapping = pick(&self.mappings, mapping)?;
                self.device.unmap(&[mapping.range()]).map(|()| {
                    self.mappings.retain(|other| *other != mapping);
                    self.bury();
                })
            }
            Step::UnmapPages { range, page, pages } => {
                let range = self.pages(range, page, pages)?;
                self.device.unmap(&[range]).map(|()| {
                    self.mappings.retain(|other| !other.range().overlaps(&range));
                    self.bury();
                })
            }
            Step::SetAccess { range, page, pages } => {
                let range = self.pages(range, page, pages)?;
                self.device.set_access(&[range], Access::ReadWrite)
            }
            Step::PoolAlloc { bytes, stream } => {
                self.device.alloc_async(bytes, pick(&self.streams, stream)?).map(|ptr| {
                    self.pooled.push(AddressRange::new(ptr, bytes));
                })
            }
            Step::PoolFree { block, stream } => {
                let range = pick(&self.pooled, block)?;
                self.device
                    .free_async(range.start, pick(&self.streams, stream)?)
                    .map(|()| self.pooled.retain(|other| *other != range))
            }
            Step::Trim(bytes) => self.device.trim(bytes),
            Step::Launch { stream, block } => {
                let range = pick(&self.plain, block)?;
                self.device.launch(pick(&self.streams, stream)?, &[Touch::begin(range.start, range.bytes)]).map(|_| ())
            }
            Step::Record { event, stream } => {
                self.device.record_event(pick(&self.events, event)?, pick(&self.streams, stream)?)
            }
            Step::Query(event) => self.device.query_event(pick(&self.events, event)?).map(|_| ()),
            Step::SyncEvent(event) => self.device.synchronize_event(pick(&self.events, event)?),
            Step::Wait { event, stream } => {
                self.device.wait_event(pick(&self.streams, stream)?, pick(&self.events, event)?)
            }
            Step::Finish(stream) => self.device.finish(pick(&self.streams, stream)?),
            Step::Sync => self.device.synchronize(),
        };
        Some(result.is_err())
    }

    /// The device agrees with the account.
    fn check(&self) {
        self.device.check().unwrap();
        let stats = self.device.stats();
        let plain: u64 = self.plain.iter().map(|range| range.bytes).sum();
        let handles: u64 = self.handles.iter().chain(&self.dying).map(|(_, bytes)| bytes).sum();
        let pool = self.device.pool_state().unwrap();
        let pooled: u64 = self.pooled.iter().map(|range| range.bytes.next_multiple_of(512)).sum();
        assert_eq!((stats.plain_bytes, stats.handle_bytes), (plain, handles));
        assert_eq!((stats.pool_bytes, pool.live_bytes), (pool.reserved_bytes, pooled));
        assert_eq!(stats.in_use_bytes, plain + handles + pool.reserved_bytes);
        assert!(stats.in_use_bytes <= stats.peak_bytes && stats.peak_bytes <= CAPACITY);
        let mapped: Vec<_> = self.mappings.iter().map(Mapping::range).collect();
        for list in [&self.plain, &self.ranges, &self.pooled, &mapped] {
            for (index, range) in list.iter().enumerate() {
                assert!(!list[..index].iter().any(|other| other.overlaps(range)), "{range} is held twice");
            }
        }
    }
}

/// Figures that a refused call must leave alone.
fn memory_of(stats: SimStats) -> [u64; 5] {
    [stats.in_use_bytes, stats.peak_bytes, stats.plain_bytes, stats.handle_bytes, stats.pool_bytes]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn bytes_are_conserved_and_nothing_live_overlaps(steps in prop::collection::vec(step(), 1..120)) {
        let mut model = Model::new();
        for step in &steps {
            model.apply(step);
            model.check();
        }
    }

    /// Two devices take the same steps; one is also asked for calls that are made to fail. They stay alike.
    #[test]
    fn a_failed_call_changes_nothing_that_later_calls_can_see(
        steps in prop::collection::vec((step(), any::<bool>()), 1..80),
    ) {
        let (mut spared, mut struck) = (Model::new(), Model::new());
        for (step, fails) in &steps {
            if *fails {
                let before = struck.device.stats();
                struck.device.set_faults(FaultPlan::new([Fault::out_of_memory(None, When::Every(1))]));
                // What is no driver call can't fail: it is left to the step below.
                if !matches!(step, Step::Launch { .. } | Step::Finish(_)) {
                    let refused = struck.apply(step);
                    prop_assert_ne!(refused, Some(false), "{:?} was not made to fail", step);
                }
                struck.device.set_faults(FaultPlan::default());
                prop_assert_eq!(memory_of(before), memory_of(struck.device.stats()));
                struck.check();
            }
            prop_assert_eq!(spared.apply(step), struck.apply(step), "{:?}", step);
            prop_assert_eq!(&spared.plain, &struck.plain);
            prop_assert_eq!(&spared.ranges, &struck.ranges);
            prop_assert_eq!(&spared.handles, &struck.handles);
            prop_assert_eq!(&spared.pooled, &struck.pooled);
            prop_assert_eq!(spared.device.stats().violations, struck.device.stats().violations);
        }
        for &stream in &spared.streams {
            prop_assert_eq!(spared.device.issued(stream).unwrap(), struck.device.issued(stream).unwrap());
            prop_assert_eq!(spared.device.finished(stream).unwrap(), struck.device.finished(stream).unwrap());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    /// Whether a reuse is refused is what a walk over the order of all entries says.
    #[test]
    fn the_order_found_is_the_order_of_the_queues(steps in prop::collection::vec(order_step(), 1..60)) {
        order::agree(&steps)?;
    }
}

/// Calls that make or use order.
#[derive(Clone, Copy, Debug)]
enum OrderStep {
    /// A new block in one of a few places.
    Begin {
        stream: usize,
        place: u64,
        places: u64,
    },
    Again {
        stream: usize,
        place: u64,
    },
    Record {
        event: usize,
        stream: usize,
    },
    Wait {
        event: usize,
        stream: usize,
    },
    Query {
        event: usize,
    },
    SyncStream {
        stream: usize,
    },
    Finish {
        stream: usize,
    },
    /// The first quarters of the queue finish.
    FinishQuarters {
        stream: usize,
        quarters: u64,
    },
    Poll {
        stream: usize,
    },
    Order {
        first: usize,
        then: usize,
    },
}

fn order_step() -> impl Strategy<Value = OrderStep> {
    let (stream, event, place) = (0..STREAMS, 0..EVENTS, 0u64..3);
    prop_oneof![
        3 => (stream.clone(), place.clone(), 1u64..3)
            .prop_map(|(stream, place, places)| OrderStep::Begin { stream, place, places }),
        1 => (stream.clone(), place).prop_map(|(stream, place)| OrderStep::Again { stream, place }),
        2 => (event.clone(), stream.clone()).prop_map(|(event, stream)| OrderStep::Record { event, stream }),
        2 => (event.clone(), stream.clone()).prop_map(|(event, stream)| OrderStep::Wait { event, stream }),
        2 => event.prop_map(|event| OrderStep::Query { event }),
        1 => (stream.clone(), 1u64..4)
            .prop_map(|(stream, quarters)| OrderStep::FinishQuarters { stream, quarters }),
        1 => stream.clone().prop_map(|stream| OrderStep::Poll { stream }),
        1 => stream.clone().prop_map(|stream| OrderStep::SyncStream { stream }),
        1 => stream.clone().prop_map(|stream| OrderStep::Finish { stream }),
        2 => (stream.clone(), stream).prop_map(|(first, then)| OrderStep::Order { first, then }),
    ]
}

const STREAMS: usize = 4;
const EVENTS: usize = 2;

/// Order by brute force: all entries are nodes, and a walk over the edges says what lies before what.
mod order {
    use super::*;

    /// An entry of some queue.
    #[derive(Default)]
    struct Node {
        before: Vec<usize>,
    }

    #[derive(Default)]
    struct Graph {
        nodes: Vec<Node>,
        /// The entries of each stream.
        queues: [Vec<usize>; STREAMS],
        events: [Option<usize>; EVENTS],
        finished: Vec<bool>,
        seen: Vec<bool>,
        /// Uses of each place since it became a block.
        uses: [Vec<usize>; 8],
    }

    impl Graph {
        fn push(&mut self, stream: usize, also_before: Option<usize>) -> usize {
            let before = self.last(stream).into_iter().chain(also_before).collect();
            self.nodes.push(Node { before });
            self.finished.push(false);
            self.seen.push(false);
            let node = self.nodes.len() - 1;
            self.queues[stream].push(node);
            node
        }

        fn last(&self, stream: usize) -> Option<usize> {
            self.queues[stream].last().copied()
        }

        /// All that lies before a node, and itself.
        fn closure(&self, node: usize) -> Vec<usize> {
            let mut found = vec![false; self.nodes.len()];
            let mut open = vec![node];
            while let Some(node) = open.pop() {
                if !std::mem::replace(&mut found[node], true) {
                    open.extend(&self.nodes[node].before);
                }
            }
            (0..found.len()).filter(|&node| found[node]).collect()
        }

        fn finish(&mut self, node: usize) {
            for node in self.closure(node) {
                self.finished[node] = true;
            }
        }

        fn see(&mut self, node: usize) {
            for node in self.closure(node) {
                self.seen[node] = true;
            }
        }
    }

    pub(super) fn agree(steps: &[OrderStep]) -> Result<(), TestCaseError> {
        let options = SimOptions { contract: ContractMode::Count, ..SimOptions::with_capacity(1 << 30) };
        let device = SimDevice::new(options).unwrap();
        let mut streams = vec![StreamId::DEFAULT];
        streams.extend((1..STREAMS).map(|_| device.create_stream().unwrap()));
        let events: Vec<_> = (0..EVENTS).map(|_| device.create_event().unwrap()).collect();
        let base = device.alloc(8 * 512).unwrap();
        let at = |place: u64| DevicePtr(base.0 + place * 512);
        let mut graph = Graph::default();
        for step in steps {
            match *step {
                OrderStep::Begin { stream, place, places } => {
                    let node = graph.push(stream, None);
                    let before = graph.closure(node);
                    let range = place as usize..(place + places) as usize;
                    let settled = |used: &usize| graph.seen[*used] || before.contains(used);
                    let fine = graph.uses[range.clone()].iter().flatten().all(settled);
                    let counted = device.stats().violations;
                    device.launch(streams[stream], &[Touch::begin(at(place), places * 512)]).unwrap();
                    prop_assert_eq!(device.stats().violations == counted, fine, "{:?}", step);
                    for uses in &mut graph.uses[range] {
                        *uses = vec![node];
                    }
                }
                OrderStep::Again { stream, place } => {
                    let node = graph.push(stream, None);
                    graph.uses[place as usize].push(node);
                    device.launch(streams[stream], &[Touch::again(at(place), 512)]).unwrap();
                }
                OrderStep::Record { event, stream } => {
                    graph.events[event] = Some(graph.push(stream, None));
                    device.record_event(events[event], streams[stream]).unwrap();
                }
                OrderStep::Wait { event, stream } => {
                    if let Some(marked) = graph.events[event] {
                        graph.push(stream, Some(marked));
                    }
                    device.wait_event(streams[stream], events[event]).unwrap();
                }
                OrderStep::Query { event } => {
                    let due = graph.events[event].is_none_or(|marked| graph.finished[marked]);
                    prop_assert_eq!(device.query_event(events[event]).unwrap(), due);
                    if let (true, Some(marked)) = (due, graph.events[event]) {
                        graph.see(marked);
                    }
                }
                OrderStep::SyncStream { stream } => {
                    if let Some(last) = graph.last(stream) {
                        graph.finish(last);
                        graph.see(last);
                    }
                    device.synchronize_stream(streams[stream]).unwrap();
                }
                OrderStep::Finish { stream } => {
                    if let Some(last) = graph.last(stream) {
                        graph.finish(last);
                    }
                    device.finish(streams[stream]).unwrap();
                }
                OrderStep::FinishQuarters { stream, quarters } => {
                    let upto = graph.queues[stream].len() as u64 * quarters / 4;
                    if let Some(index) = upto.checked_sub(1) {
                        graph.finish(graph.queues[stream][index as usize]);
                    }
                    device.finish_up_to(streams[stream], Sequence(upto)).unwrap();
                }
                OrderStep::Poll { stream } => {
                    let queue = graph.queues[stream].clone();
                    let finished = queue.iter().filter(|&&node| graph.finished[node]).count();
                    prop_assert_eq!(device.poll(streams[stream]).unwrap(), Sequence(finished as u64));
                    for &node in &queue[..finished] {
                        graph.seen[node] = true;
                    }
                    // What lies before is credited only once the stream is idle: a clock is kept for its end alone.
                    if let (true, Some(&last)) = (finished == queue.len(), queue.last()) {
                        graph.see(last);
                    }
                }
                OrderStep::Order { first, then } => {
                    let marked = graph.push(first, None);
                    graph.push(then, Some(marked));
                    device.order(streams[first], streams[then]).unwrap();
                }
            }
            device.check().unwrap();
        }
        Ok(())
    }
}
