//! Reading PyTorch's memory snapshots: real files, and what each field set means.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/same.rs"]
mod same;
mod support;

use std::path::Path;

use formats::{Content, Limits, read_path};
use records::{Action, BlockState, Defect, DeviceHistory, History, MemoryMap, SegmentKind, Totals};
use same::assert_same;
use support::{files, root, shared};

fn history(path: &Path) -> History {
    match read_path(path, &Limits::default()).unwrap_or_else(|error| panic!("{error}")).content {
        Content::History(history) => history,
        other => panic!("not a history: {other:?}"),
    }
}

/// The highest of each total, and whether each was at most the next all along.
fn peaks(device: &DeviceHistory) -> Totals {
    let mut map = MemoryMap::new(device);
    let mut peaks = map.totals();
    for event in &device.events {
        map.apply(event);
        let now = map.totals();
        assert!(now.live <= now.allocated && now.allocated <= now.active && now.active <= now.reserved);
        peaks.live = peaks.live.max(now.live);
        peaks.allocated = peaks.allocated.max(now.allocated);
        peaks.active = peaks.active.max(now.active);
        peaks.reserved = peaks.reserved.max(now.reserved);
    }
    // What the segments of the file say is allocated: a block may be larger than its request rounded up.
    let blocks = device.end.iter().flat_map(|segment| &segment.blocks);
    let stated = blocks.filter(|block| block.state == BlockState::Live).map(|block| block.bytes).sum::<u64>();
    assert_eq!(map.totals().allocated, stated);
    map.compare(&device.end);
    assert!(map.defects().is_empty(), "{:?}", map.defects());
    map.check().unwrap();
    peaks
}

/// Numbers of the corpus' index, worked out by its maker.
#[test]
fn real_snapshots_have_the_peaks_that_the_index_states() {
    let Some(folder) = shared("graphs/snapshot") else { return };
    let index = std::fs::read_to_string(folder.join("../index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_str(&index).unwrap();
    let mut seen = 0;
    for path in files(&folder, ".pickle.gz") {
        let name = path.file_name().unwrap().to_str().unwrap().trim_end_matches(".pickle.gz").to_owned();
        let Some(entry) = index
            .as_array()
            .unwrap()
            .iter()
            .find(|entry| entry["kind"] == "cuda-trace" && entry["name"] == name.as_str())
        else {
            continue;
        };
        seen += 1;
        let history = history(&path);
        assert_eq!(history.name, name);
        assert_eq!(history.devices.len(), 1, "{name}");
        let device = &history.devices[0];
        assert!(device.defects.is_empty(), "{name}: {:?}", device.defects);
        assert_eq!(device.events.len() as u64, entry["events"].as_u64().unwrap());
        let initial: usize = device.start.iter().map(|segment| segment.blocks.len()).sum();
        assert_eq!(initial as u64, entry["initial_blocks"].as_u64().unwrap());
        let peaks = peaks(device);
        assert_eq!(peaks.live, entry["allocated_peak"].as_u64().unwrap(), "{name}");
        assert_eq!(peaks.reserved, entry["reserved_peak"].as_u64().unwrap(), "{name}");
        assert!(device.events.iter().all(|event| !event.stack.is_empty() && event.time_ns > 0));
    }
    assert_eq!(seen, 3);
}

#[test]
fn the_synthetic_snapshot_with_every_action_holds_together() {
    let Some(folder) = shared("graphs/snapshot") else { return };
    let history = history(&folder.join("synthetic-features.pickle.gz"));
    let [device] = history.devices.as_slice() else { panic!("not one device") };
    let count = |action| device.events.iter().filter(|event| event.action == action).count();
    let counts = [
        (Action::Alloc, 181),
        (Action::FreeRequested, 145),
        (Action::FreeCompleted, 139),
        (Action::SegmentAlloc, 38),
        (Action::SegmentFree, 6),
        (Action::SegmentMap, 5),
        (Action::SegmentUnmap, 1),
        (Action::OutOfMemory, 1),
        (Action::Snapshot, 3),
    ];
    for (action, expected) in counts {
        assert_eq!(count(action), expected, "{action:?}");
    }
    assert!(device.defects.is_empty());
    let peaks = peaks(device);
    assert!(device.capacity_bytes.is_some_and(|capacity| capacity >= peaks.reserved));
    assert!(history.settings.contains(&("expandable_segments".to_owned(), "True".to_owned())));
    assert!(history.settings.contains(&("roundup_power2_divisions.32768".to_owned(), "0".to_owned())));
}

#[test]
fn the_random_snapshot_is_read_with_its_contradictions_counted() {
    let Some(folder) = shared("graphs/snapshot") else { return };
    let history = history(&folder.join("mosaic-fixture.pickle.gz"));
    let device = &history.devices[0];
    assert_eq!((device.events.len(), history.annotations.len()), (1040, 6));
    // Its blocks lie anywhere.
    assert_eq!(device.defects.count(Defect::OutsideSegment), 520);
}

/// The sample that comes with the code, with the numbers of the corpus' index.
#[test]
fn a_real_snapshot_is_read_without_contradictions() {
    let path = root().join("crates/formats/tests/data/cuda-gpt-medium-512-inference.pickle.gz");
    let history = history(&path);
    let [device] = history.devices.as_slice() else { panic!("not one device") };
    assert!(device.defects.is_empty());
    assert_eq!((device.events.len(), device.start.len(), device.end.len()), (4998, 101, 101));
    assert_eq!((device.granule_bytes, device.capacity_bytes), (512, None));
    let peaks = peaks(device);
    assert_eq!((peaks.live, peaks.reserved), (1_949_343_744, 1_981_808_640));
    let first = device.events[0];
    let frame = history.stacks.frame(history.stacks.frames(first.stack)[0]);
    assert_eq!(history.names.get(frame.function), "torch::unwind::unwind()");
    assert_eq!((first.bytes, first.time_ns), (8_388_608, 1_783_874_651_345_374_000));
}

fn seed(name: &str) -> History {
    history(&root().join("fuzz/corpus/snapshot").join(name))
}

const BASE: u64 = 0x7f00_0000_0000;
const MIB: u64 = 1 << 20;

#[test]
fn every_protocol_and_pickler_gives_the_same_history() {
    let expected = seed("modern-protocol-4.pickle");
    for name in ["modern-protocol-2.pickle", "modern-protocol-3.pickle", "modern-protocol-5.pickle"] {
        assert_same(&expected, &History { name: expected.name.clone(), ..seed(name) });
    }
    // Torch's own writer puts all items after one mark and numbers what it wrote, not what it began.
    for name in ["pure-python.pickle", "torch-pickler.pickle"] {
        assert_same(&expected, &History { name: expected.name.clone(), ..seed(name) });
    }
}

#[test]
fn a_modern_snapshot_has_all_its_parts() {
    let history = seed("modern-protocol-4.pickle");
    let [device] = history.devices.as_slice() else { panic!("not one device") };
    assert!(device.defects.is_empty(), "{:?}", device.defects);
    let states: Vec<BlockState> = device.end[0].blocks.iter().map(|block| block.state).collect();
    assert_eq!(states, [BlockState::Live, BlockState::Pending, BlockState::Live, BlockState::Free]);
    assert_eq!((device.end[1].pool, device.end[1].is_expandable, device.end[1].stream), ((1, 0), true, 5));
    assert_eq!((device.end[0].kind, device.end[1].kind), (SegmentKind::Large, SegmentKind::Small));
    // Everything was taken while it was recorded.
    assert!(device.start.is_empty());
    // 22 MiB were held when a request failed with 3 MiB left; 24 had been.
    assert_eq!(device.capacity_bytes, Some(25 * MIB));
    let oom = device.events.iter().find(|event| event.action == Action::OutOfMemory).unwrap();
    assert_eq!((oom.address, oom.bytes), (3 * MIB, 64 * MIB));
    assert_eq!(history.names.get(device.events[2].tag), "attention");
    assert!(device.events[1].tag.is_empty());
    assert_eq!(device.events[0].time_ns, 1_700_000_000_000_000_000);
    let settings = ["PYTORCH_CUDA_ALLOC_CONF=", "max_split_size=-1", "garbage_collection_threshold=0.5"];
    let all: Vec<String> = history.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(all[..3], settings);
    assert_eq!(all[3..], ["expandable_segments=False", "roundup_power2_divisions.1=0", "roundup_power2_divisions.2=4"]);
    assert_eq!(history.annotations.len(), 2);
    assert_eq!(history.names.get(history.annotations[0].name), "ProfilerStep#0");
}

#[test]
fn blocks_with_a_history_say_what_was_asked_for() {
    let history = seed("history-blocks.pickle");
    let device = &history.devices[0];
    assert!(device.defects.is_empty(), "{:?}", device.defects);
    let [first, second, rest] = device.end[0].blocks.as_slice() else { panic!("not three blocks") };
    assert_eq!((first.address, first.requested_bytes), (BASE, 500));
    assert_eq!(history.stacks.frames(first.stack).len(), 2);
    // The file doesn't say it of this one, but its alloc was recorded.
    assert_eq!((second.address, second.requested_bytes, second.state), (BASE + 512, 400, BlockState::Live));
    assert_eq!((rest.state, rest.address), (BlockState::Free, BASE + 1024));
    assert!(device.events.iter().all(|event| event.time_ns == 0));
}

#[test]
fn blocks_without_addresses_lie_one_after_the_other() {
    let history = seed("awaiting-free.pickle");
    let device = &history.devices[0];
    let blocks: Vec<_> = device.end[0].blocks.iter().map(|block| (block.address - BASE, block.state)).collect();
    let expected = [(0, BlockState::Live), (2 * MIB, BlockState::Pending), (3 * MIB, BlockState::Free)];
    assert_eq!(blocks, expected);
    assert_eq!(MemoryMap::new(device).totals().pending(), MIB);
}

#[test]
fn what_torch_makes_of_a_profile_is_read() {
    let history = seed("profile.pickle");
    let [device] = history.devices.as_slice() else { panic!("not one device") };
    assert_eq!((device.device, device.start.len()), (1, 1));
    assert!(device.defects.is_empty(), "{:?}", device.defects);
    assert_eq!(history.names.get(device.events[0].tag), "parameter");
    // The block that was freed was there before.
    assert_eq!(device.start[0].blocks.len(), 1);
}

#[test]
fn a_bare_list_of_segments_is_read() {
    let history = seed("segments-only.pickle");
    let device = &history.devices[0];
    assert_eq!((device.end.len(), device.events.len()), (2, 0));
    assert_eq!(device.start.len(), 2);
    assert_eq!(MemoryMap::new(device).totals().reserved, 22 * MIB);
}

#[test]
fn what_newer_versions_add_is_passed_over() {
    let history = seed("newer.pickle");
    let device = &history.devices[0];
    assert_eq!(device.events.len(), 2);
    assert_eq!(history.stacks.frames(device.events[0].stack).len(), 2);
    assert_eq!(history.notes, ["1 events of the unknown action `user_defined` were left out"]);
}
