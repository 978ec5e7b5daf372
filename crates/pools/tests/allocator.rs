//! The allocator over the simulated device, used as its callers do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{Device, DevicePtr, SimDevice, SimOptions, StreamId};
use pools::{Allocator, Backing, Error, Settings, Tag, Tier};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn settings(backing: Backing) -> Settings {
    let mut settings = Settings::default();
    settings.backing = backing;
    settings
}

fn allocator(capacity: u64, backing: Backing) -> (Arc<SimDevice>, Allocator) {
    let device = Arc::new(SimDevice::new(SimOptions::with_capacity(capacity)).unwrap());
    let allocator = Allocator::new(device.clone(), settings(backing)).unwrap();
    (device, allocator)
}

#[test]
fn what_is_asked_for_is_handed_out_and_comes_back() {
    for backing in [Backing::Segments, Backing::Range] {
        let (device, pools) = allocator(1 << 30, backing);
        let small = pools.alloc(1000, 0, StreamId::DEFAULT).unwrap();
        let large = pools.alloc(5 * MIB + 1, 0, StreamId::DEFAULT).unwrap();
        let nothing = pools.alloc(0, 0, StreamId::DEFAULT).unwrap();
        assert!(small != large && large != nothing && nothing != small);
        for ptr in [small, large, nothing] {
            assert_eq!(ptr.0 % 512, 0);
        }
        pools.check().unwrap();
        let figures = pools.statistics();
        assert_eq!(figures.live.current_bytes, 1000 + 5 * MIB + 1);
        assert_eq!(figures.allocated.current_bytes, 1024 + 5 * MIB + 512 + 512);
        assert_eq!(figures.live.peak_bytes, 1000 + 5 * MIB + 1);
        for ptr in [small, large, nothing] {
            pools.free(ptr, None).unwrap();
        }
        pools.check().unwrap();
        let figures = pools.statistics();
        assert_eq!((figures.live.current_bytes, figures.active.current_bytes), (0, 0));
        assert!(figures.reserved.current_bytes >= 6 * MIB);
        assert_eq!(pools.trim(0).unwrap(), figures.reserved.current_bytes);
        assert_eq!(pools.statistics().reserved.current_bytes, 0);
        assert_eq!(device.memory().unwrap().free_bytes, 1 << 30);
        pools.check().unwrap();
    }
}

#[test]
fn a_freed_block_answers_the_next_request_of_its_size_without_the_device() {
    let (device, pools) = allocator(1 << 30, Backing::Auto);
    let first = pools.alloc(4096, 0, StreamId::DEFAULT).unwrap();
    pools.free(first, Some(StreamId::DEFAULT)).unwrap();
    let calls = device.counts();
    for _ in 0..1000 {
        let again = pools.alloc(4096, 0, StreamId::DEFAULT).unwrap();
        assert_eq!(again, first);
        pools.free(again, None).unwrap();
    }
    assert_eq!(device.counts(), calls);
    assert!(pools.statistics().cache_hits >= 1000);
}

#[test]
fn wrong_pointers_are_told_apart() {
    for backing in [Backing::Segments, Backing::Range] {
        let (_device, pools) = allocator(1 << 30, backing);
        let stream = StreamId::DEFAULT;
        let ptr = pools.alloc(3 * MIB, 0, stream).unwrap();
        let inside = DevicePtr(ptr.0 + 512);
        assert!(matches!(pools.free(DevicePtr(0), None), Err(Error::ForeignPointer { .. })));
        assert!(matches!(pools.free(DevicePtr(u64::MAX), None), Err(Error::ForeignPointer { .. })));
        assert!(matches!(pools.free(inside, None), Err(Error::InteriorPointer { into: 512, .. })));
        assert!(matches!(pools.free(DevicePtr(ptr.0 + 1), None), Err(Error::InteriorPointer { into: 1, .. })));
        pools.free(ptr, None).unwrap();
        assert!(matches!(pools.free(ptr, None), Err(Error::DoubleFree { .. })));
        assert!(matches!(pools.retain(ptr), Err(Error::DoubleFree { .. })));
        let small = pools.alloc(100, 0, stream).unwrap();
        pools.free(small, None).unwrap();
        assert!(matches!(pools.free(small, None), Err(Error::DoubleFree { .. })));
        assert!(matches!(pools.record_use(small, StreamId(7)), Err(Error::DoubleFree { .. })));
        pools.check().unwrap();
    }
}

#[test]
fn requests_that_no_device_can_serve_are_refused_by_number() {
    let (_device, pools) = allocator(1 << 30, Backing::Auto);
    for bytes in [1 << 47, 1 << 62, 1 << 63, u64::MAX] {
        assert!(matches!(pools.alloc(bytes, 0, StreamId::DEFAULT), Err(Error::TooLarge { .. })));
    }
    for align in [3, 513, 1 << 31, u64::MAX] {
        assert!(matches!(pools.alloc(1, align, StreamId::DEFAULT), Err(Error::BadAlignment { .. })));
    }
    match pools.alloc(2 << 30, 0, StreamId::DEFAULT) {
        Err(Error::OutOfMemory(shortage)) => {
            assert_eq!(shortage.requested_bytes, 2 << 30);
            assert!(shortage.to_string().contains("out of memory: a request for 2.00 GiB"), "{shortage}");
        }
        other => panic!("{other:?}"),
    }
    let small = pools.alloc(1, 0, StreamId::DEFAULT).unwrap();
    pools.free(small, None).unwrap();
    pools.check().unwrap();
}

#[test]
fn a_block_is_not_reused_before_its_user_is_waited_for() {
    for backing in [Backing::Segments, Backing::Range] {
        let (device, pools) = allocator(64 * MIB, backing);
        let home = StreamId::DEFAULT;
        let user = device.create_stream().unwrap();
        let ptr = pools.alloc(40 * MIB, 0, home).unwrap();
        pools.record_use(ptr, user).unwrap();
        pools.free(ptr, None).unwrap();
        assert_eq!(pools.statistics().pending_bytes, 40 * MIB);
        pools.check().unwrap();
        // There is room for another: nobody has to wait.
        let other = pools.alloc(20 * MIB, 0, home).unwrap();
        assert!(other.0 >= ptr.0 + 40 * MIB || other.0 + 20 * MIB <= ptr.0);
        pools.free(other, None).unwrap();
        device.order(user, home).unwrap();
        pools.stream_wait(user, home).unwrap();
        let again = pools.alloc(40 * MIB, 0, home).unwrap();
        assert_eq!(pools.statistics().pending_bytes, 0);
        pools.free(again, None).unwrap();
        pools.check().unwrap();
    }
}

#[test]
fn another_stream_gets_a_block_once_it_is_ordered_behind_its_home() {
    let (device, pools) = allocator(64 * MIB, Backing::Auto);
    let (home, taker) = (device.create_stream().unwrap(), device.create_stream().unwrap());
    let ptr = pools.alloc(40 * MIB, 0, home).unwrap();
    pools.free(ptr, None).unwrap();
    // hand_over = recorded: home's first request after the free has to lie before the wait.
    let other = pools.alloc(1, 0, home).unwrap();
    pools.stream_wait(home, taker).unwrap();
    let taken = pools.alloc(39 * MIB, 0, taker).unwrap();
    let figures = pools.statistics();
    assert_eq!((figures.slow.handed_over, figures.slow.stream_waits), (1, 0));
    pools.free(taken, None).unwrap();
    pools.free(other, None).unwrap();
    pools.check().unwrap();
}

#[test]
fn memory_taken_at_the_start_goes_whole_to_the_first_stream_that_asks() {
    let device = Arc::new(SimDevice::new(SimOptions::with_capacity(1 << 30)).unwrap());
    for backing in [Backing::Segments, Backing::Range] {
        let mut settings = settings(backing);
        settings.initial_bytes = 512 * MIB;
        let pools = Allocator::new(device.clone(), settings).unwrap();
        let stream = device.create_stream().unwrap();
        for _ in 0..100 {
            pools.alloc(5 * MIB, 0, stream).unwrap();
        }
        let figures = pools.statistics();
        assert_eq!((figures.slow.requests, figures.slow.handed_over, figures.slow.grown), (1, 0, 0));
        pools.check().unwrap();
    }
}

/// Rule 7 of docs/order.md: home may still be about to wait for a use that nobody recorded.
#[test]
fn a_wait_of_our_own_does_not_let_a_block_leave_home_before_homes_next_request() {
    let (device, pools) = allocator(64 * MIB, Backing::Auto);
    let (home, taker) = (device.create_stream().unwrap(), device.create_stream().unwrap());
    let ptr = pools.alloc(40 * MIB, 0, home).unwrap();
    pools.free(ptr, None).unwrap();
    pools.alloc(39 * MIB, 0, taker).unwrap();
    let figures = pools.statistics();
    assert_eq!(figures.slow.host_waits, 1, "only the whole device's end shows that nobody uses it");
    pools.check().unwrap();
}

#[test]
fn a_budget_is_never_exceeded_and_the_callback_can_make_room() {
    let (_device, pools) = allocator(1 << 30, Backing::Segments);
    let stream = StreamId::DEFAULT;
    pools.set_budget(pools::Budget { hard_bytes: Some(64 * MIB), soft_bytes: None }).unwrap();
    let held = pools.alloc(60 * MIB, 0, stream).unwrap();
    assert!(matches!(pools.alloc(30 * MIB, 0, stream), Err(Error::OutOfMemory(_))));
    let other = pools.clone();
    let to_free = std::sync::Mutex::new(Some(held));
    pools.on_out_of_memory(Some(Arc::new(move |shortage| {
        assert_eq!(shortage.requested_bytes, 30 * MIB);
        match to_free.lock().unwrap().take() {
            Some(ptr) => other.free(ptr, None).is_ok(),
            None => false,
        }
    })));
    let ptr = pools.alloc(30 * MIB, 0, stream).unwrap();
    assert!(pools.statistics().reserved.peak_bytes <= 64 * MIB);
    pools.on_out_of_memory(Some(Arc::new(|_| panic!("a callback of the user's"))));
    assert!(matches!(pools.alloc(60 * MIB, 0, stream), Err(Error::OutOfMemory(_))));
    pools.on_out_of_memory(None);
    pools.free(ptr, None).unwrap();
    pools.check().unwrap();
}

#[test]
fn persistent_blocks_lie_apart_from_temporary_ones() {
    let (_device, pools) = allocator(1 << 30, Backing::Range);
    let persistent = Tag { tier: Tier::Persistent, ..Tag::NONE };
    let mut spans = Vec::new();
    for round in 0..10 {
        let tag = if round % 2 == 0 { persistent } else { Tag::NONE };
        spans.push((tag.tier, pools.alloc_tagged(MIB, 0, StreamId::DEFAULT, tag).unwrap()));
    }
    let snapshot = pools.snapshot();
    for (tier, ptr) in spans {
        let span =
            snapshot.spans.iter().find(|span| (span.address..span.address + span.bytes).contains(&ptr.0)).unwrap();
        assert_eq!(span.is_persistent, tier == Tier::Persistent);
    }
    let figures = pools.statistics();
    assert_eq!(figures.tiers.map(|tier| tier.current_bytes), [5 * MIB, 0, 5 * MIB]);
    pools.check().unwrap();
}

#[derive(Clone, Debug)]
enum Step {
    Alloc { bytes: u64, align: u64, stream: usize, tier: usize },
    Free { which: usize, named: bool },
    Use { which: usize, stream: usize },
    Wait { of: usize, by: usize },
    Sync { stream: usize },
    Retain { which: usize },
    Trim { keep: u64 },
    End,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![3 => 0_u64..5000, 2 => 0_u64..(3 * MIB), 1 => 0_u64..(40 * MIB)];
    let align = prop_oneof![6 => Just(0_u64), 1 => (0_u32..23).prop_map(|bits| 1 << bits)];
    prop_oneof![
        12 => (bytes, align, 0_usize..3, 0_usize..3)
            .prop_map(|(bytes, align, stream, tier)| Step::Alloc { bytes, align, stream, tier }),
        10 => (any::<usize>(), any::<bool>()).prop_map(|(which, named)| Step::Free { which, named }),
        3 => (any::<usize>(), 0_usize..3).prop_map(|(which, stream)| Step::Use { which, stream }),
        3 => (0_usize..3, 0_usize..3).prop_map(|(of, by)| Step::Wait { of, by }),
        1 => (0_usize..3).prop_map(|stream| Step::Sync { stream }),
        1 => any::<usize>().prop_map(|which| Step::Retain { which }),
        1 => (0_u64..(64 * MIB)).prop_map(|keep| Step::Trim { keep }),
        1 => Just(Step::End),
    ]
}

/// Runs steps against the simulated device, which refuses work on memory whose reuse isn't ordered.
fn run(steps: &[Step], settings: Settings) {
    use device::{ContractMode, OrderCheck, Touch};
    let mut options = SimOptions::with_capacity(128 * MIB);
    options.check_order = OrderCheck::Seen;
    options.contract = ContractMode::Abort;
    let device = Arc::new(SimDevice::new(options).unwrap());
    let pools = Allocator::new(device.clone(), settings).unwrap();
    let streams: Vec<StreamId> = (0..3).map(|_| device.create_stream().unwrap()).collect();
    let mut live: Vec<(DevicePtr, u64, u32)> = Vec::new();
    let mut ranges: BTreeMap<u64, u64> = BTreeMap::new();
    for step in steps {
        match *step {
            Step::Alloc { bytes, align, stream, tier } => {
                let tag = Tag { tier: Tier::ALL[tier], ..Tag::NONE };
                match pools.alloc_tagged(bytes, align, streams[stream], tag) {
                    Ok(ptr) => {
                        let end = ptr.0 + bytes.max(1);
                        assert_eq!(ptr.0 % align.max(512), 0);
                        let below = ranges.range(..end).next_back();
                        assert!(below.is_none_or(|(_, below_end)| *below_end <= ptr.0), "blocks overlap");
                        ranges.insert(ptr.0, end);
                        device.launch(streams[stream], &[Touch::begin(ptr, bytes.max(1))]).unwrap();
                        live.push((ptr, bytes.max(1), 1));
                    }
                    Err(Error::OutOfMemory(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Free { which, named } if !live.is_empty() => {
                let at = which % live.len();
                let (ptr, _, references) = &mut live[at];
                let home = pools.block(*ptr).unwrap().stream;
                pools.free(*ptr, named.then_some(home)).unwrap();
                *references -= 1;
                if *references == 0 {
                    ranges.remove(&ptr.0);
                    live.swap_remove(at);
                }
            }
            Step::Use { which, stream } if !live.is_empty() => {
                let (ptr, bytes, _) = live[which % live.len()];
                pools.record_use(ptr, streams[stream]).unwrap();
                // As a program would: the other stream's work comes after home's so far.
                let home = pools.block(ptr).unwrap().stream;
                device.order(home, streams[stream]).unwrap();
                pools.stream_wait(home, streams[stream]).unwrap();
                device.launch(streams[stream], &[Touch::again(ptr, bytes)]).unwrap();
            }
            Step::Wait { of, by } if of != by => {
                device.order(streams[of], streams[by]).unwrap();
                pools.stream_wait(streams[of], streams[by]).unwrap();
            }
            Step::Sync { stream } => {
                device.observe(streams[stream]).unwrap();
                pools.synchronized(Some(streams[stream])).unwrap();
            }
            Step::Retain { which } if !live.is_empty() => {
                let at = which % live.len();
                live[at].2 += 1;
                assert_eq!(pools.retain(live[at].0).unwrap(), live[at].2);
            }
            Step::Trim { keep } => {
                pools.trim(keep).unwrap();
            }
            Step::End => pools.step().unwrap(),
            _ => {}
        }
        pools.check().unwrap();
        let figures = pools.statistics();
        assert!(figures.live.current_bytes <= figures.allocated.current_bytes);
        assert!(figures.allocated.current_bytes <= figures.active.current_bytes);
        assert!(figures.active.current_bytes <= figures.reserved.current_bytes);
        let memory = device.memory().unwrap();
        assert_eq!(figures.reserved.current_bytes, memory.total_bytes - memory.free_bytes);
    }
    for (ptr, _, references) in live {
        for _ in 0..references {
            pools.free(ptr, None).unwrap();
        }
    }
    pools.synchronized(None).unwrap();
    device.observe_all();
    pools.trim(0).unwrap();
    pools.check().unwrap();
    let figures = pools.statistics();
    assert_eq!((figures.reserved.current_bytes, figures.active.current_bytes), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_block_overlaps_another_or_unordered_work_and_all_bytes_come_back(
        steps in proptest::collection::vec(step(), 1..120),
        is_range in any::<bool>(),
        hands_over_all in any::<bool>(),
        has_magazines in any::<bool>(),
        separates in any::<bool>(),
    ) {
        let mut settings = settings(if is_range { Backing::Range } else { Backing::Segments });
        settings.hand_over = if hands_over_all { pools::HandOver::All } else { pools::HandOver::Recorded };
        settings.magazines = has_magazines;
        settings.separate_precisions = separates;
        run(&steps, settings);
    }
}
