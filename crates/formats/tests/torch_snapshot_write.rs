//! Writing PyTorch's memory snapshots: what is written reads back, here and in Python.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/same.rs"]
mod same;
mod support;
#[path = "support/training_run.rs"]
mod training_run;

use std::io::Write;
use std::process::{Command, Stdio};

use formats::{Content, Error, Limits, read_bytes, read_path, write_snapshot};
use proptest::prelude::*;
use records::{
    Action, Annotation, Block, BlockState, DeviceHistory, Event, Frame, History, MemoryMap, Segment, SegmentKind,
    Stage, rebuild_start,
};
use same::assert_same;
use support::root;

fn written(history: &History) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_snapshot(history, &mut bytes).unwrap();
    bytes
}

fn read(bytes: &[u8]) -> History {
    match read_bytes("f", bytes, &Limits::default()).unwrap_or_else(|error| panic!("{error}")).content {
        Content::History(history) => history,
        _ => panic!("not a history"),
    }
}

fn sample() -> History {
    let path = root().join("crates/formats/tests/data/cuda-gpt-medium-512-inference.pickle.gz");
    match read_path(path, &Limits::default()).unwrap().content {
        Content::History(history) => history,
        _ => panic!("not a history"),
    }
}

#[test]
fn a_made_up_run_reads_back_as_it_was() {
    let history = training_run::training_run(30_000, 3);
    let again = read(&written(&history));
    assert!(again.devices[0].defects.is_empty(), "{:?}", again.devices[0].defects);
    assert_same(&history, &again);
    assert_eq!(written(&again), written(&read(&written(&again))));
}

#[test]
fn a_real_snapshot_reads_back_as_it_was() {
    let history = sample();
    let again = read(&written(&history));
    assert!(again.devices[0].defects.is_empty());
    assert_same(&history, &again);
}

#[test]
fn a_history_without_an_end_is_written_with_the_one_its_events_lead_to() {
    let mut history = training_run::training_run(5_000, 4);
    let device = &mut history.devices[0];
    device.end.clear();
    let mut map = MemoryMap::new(device);
    device.events.iter().for_each(|event| map.apply(event));
    let end = map.segments().collect();
    let again = read(&written(&history));
    history.devices[0].end = end;
    assert_same(&history, &again);
}

#[test]
fn a_device_with_no_place_in_a_list_is_refused() {
    let event = Event { action: Action::SegmentAlloc, address: 1 << 20, bytes: 1 << 20, ..Event::default() };
    let device = |device| DeviceHistory { device, events: vec![event], ..DeviceHistory::default() };
    let history = |number| History { devices: vec![device(number)], ..History::default() };
    assert_eq!(read(&written(&history(7))).devices[0].device, 7);
    let error = write_snapshot(&history(1 << 30), Vec::new()).unwrap_err();
    assert!(matches!(error, Error::NotCarried { .. }), "{error}");
}

/// What torch's viewers do with a snapshot, in few words: every key they take and every sum they assert.
const VIEWER: &str = r#"
import pickle, pickletools, sys
raw = sys.stdin.buffer.read()
allowed = set("PROTO STOP MARK BININT BININT1 BININT2 LONG1 BINFLOAT NONE NEWTRUE NEWFALSE SHORT_BINUNICODE BINUNICODE "
    "EMPTY_LIST APPENDS EMPTY_DICT SETITEMS TUPLE2 MEMOIZE BINGET LONG_BINGET".split())
assert {op.name for op, _, _ in pickletools.genops(raw)} <= allowed
data = pickle.loads(raw)
frames = lambda part: [(f["name"], f["filename"], f["line"]) for f in part["frames"]]
for segment in data["segments"]:
    segment["device"], segment["segment_pool_id"], segment["is_expandable"], frames(segment)
    assert segment["segment_type"] in ("small", "large")
    address = segment["address"]
    for block in segment["blocks"]:
        assert block["address"] == address and block["requested_size"] <= block["size"] or block["state"] == "inactive"
        assert block["state"] in ("active_allocated", "active_pending_free", "inactive")
        address += block["size"]
        frames(block)
    assert address == segment["address"] + segment["total_size"]
    size = lambda *states: sum(b["size"] for b in segment["blocks"] if b["state"] in states)
    assert segment["allocated_size"] == size("active_allocated")
    assert segment["active_size"] == size("active_allocated", "active_pending_free")
count = 0
for trace in data["device_traces"]:
    for event in trace:
        event["device_free" if event["action"] == "oom" else "addr"], event["size"], event["stream"], event["time_us"]
        event["compile_context"], event["user_metadata"], frames(event)
        count += 1
for note in data["external_annotations"]:
    assert note["stage"] in ("START", "END")
    note["name"], note["device"], note["time_us"]
assert isinstance(data["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"], str)
assert data["allocator_settings"]["expandable_segments"] is False
assert isinstance(data["allocator_settings"]["roundup_power2_divisions"], dict)
print(count)
"#;

#[test]
fn python_reads_what_is_written_and_finds_every_key_its_viewers_take() {
    for history in [training_run::training_run(5_000, 5), sample()] {
        let python = Command::new("python3").args(["-c", VIEWER]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut python) = python else {
            println!("not run: no python3");
            return;
        };
        python.stdin.take().unwrap().write_all(&written(&history)).unwrap();
        let output = python.wait_with_output().unwrap();
        assert!(output.status.success());
        let count: usize = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        assert_eq!(count, history.devices[0].events.len());
    }
}

/// Texts of every length class, with what is special to markup, paths and Python.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z<>&\"'\\\\./:é\u{1f600}]{0,12}",
        "[a-z]{250,260}",
        Just("action".to_owned()),
        Just("N/A".to_owned() + " "),
        Just("True".to_owned()),
    ]
}

prop_compose! {
    fn any_event(names: usize, stacks: usize)(
        action in prop::sample::select(Action::ALL.to_vec()),
        address in prop_oneof![0_u64..1 << 24, any::<u64>()],
        bytes in prop_oneof![0_u64..1 << 16, any::<u64>()],
        stream in prop_oneof![Just(0), any::<u64>()],
        time_ns in prop_oneof![(0_u64..1 << 40).prop_map(|us| us * 1000), any::<u64>()],
        tag in 0..names,
        stack in 0..stacks,
    ) -> (Event, usize, usize) {
        (Event { action, address, bytes, stream, time_ns, ..Event::default() }, tag, stack)
    }
}

prop_compose! {
    /// Blocks one after the other with holes between them.
    fn any_segment(names: usize, stacks: usize)(
        parts in prop::collection::vec((0_u64..3, 1_u64..9, 0_usize..3, any::<bool>(), 0..names, 0..stacks), 0..6),
        stream in 0_u64..3,
        kind in prop::sample::select(vec![SegmentKind::Small, SegmentKind::Large]),
        is_expandable in any::<bool>(),
        pool in any::<(u64, u64)>(),
    ) -> (Segment, Vec<(usize, usize)>) {
        let mut segment = Segment { bytes: 1 << 16, stream, kind, is_expandable, pool, ..Segment::default() };
        let mut next = 0;
        let mut ids = Vec::new();
        for (hole, size, state, is_elsewhere, tag, stack) in parts {
            let (address, bytes) = (next + 512 * hole, 512 * size);
            next = address + bytes;
            let state = [BlockState::Live, BlockState::Pending, BlockState::Free][state];
            let stream = if is_elsewhere { 9 } else { stream };
            segment.blocks.push(Block { address, bytes, requested_bytes: bytes - 7, state, stream, ..Block::default() });
            ids.push((tag, stack));
        }
        (segment, ids)
    }
}

const NAMES: usize = 5;
const STACKS: usize = 4;

prop_compose! {
    fn any_history()(
        names in prop::collection::vec(any_text(), NAMES),
        frames in prop::collection::vec((0..NAMES, 0..NAMES, any::<u32>()), 6),
        stacks in prop::collection::vec(prop::collection::vec(0_usize..6, 0..5), STACKS),
        events in prop::collection::vec(prop::collection::vec(any_event(NAMES, STACKS), 0..20), 0..3),
        segments in prop::collection::vec(any_segment(NAMES, STACKS), 0..4),
        settings in prop::collection::vec((any_text(), any_text()), 0..5),
        annotations in prop::collection::vec((any::<bool>(), 0..NAMES, 0_u32..3, any::<u64>()), 0..4),
        (name, allocator) in ("[a-z]{1,9}", any_text()),
        capacity_bytes in prop::option::of(any::<u64>()),
        granule_bytes in prop::sample::select(vec![1_u64, 256, 512]),
    ) -> History {
        let mut history = History { name, allocator, settings, ..History::default() };
        let names: Vec<_> = names.iter().map(|name| history.names.intern(name)).collect();
        let frame = |&(function, file, line): &(usize, usize, u32)| Frame { function: names[function], file: names[file], line };
        let frames: Vec<_> = frames.iter().map(|parts| history.stacks.intern_frame(frame(parts))).collect();
        let stacks: Vec<_> = stacks
            .iter()
            .map(|stack| history.stacks.intern(&stack.iter().map(|frame| frames[*frame]).collect::<Vec<_>>()))
            .collect();
        let mut end = Vec::new();
        for (index, (mut segment, ids)) in segments.into_iter().enumerate() {
            segment.address = (index as u64) << 20;
            for (block, (tag, stack)) in segment.blocks.iter_mut().zip(ids) {
                block.address += segment.address;
                (block.tag, block.stack) = (names[tag], stacks[stack]);
            }
            end.push(segment);
        }
        let event = |(event, tag, stack): (Event, usize, usize)| Event { tag: names[tag], stack: stacks[stack], ..event };
        for (number, events) in events.into_iter().enumerate() {
            let events: Vec<Event> = events.into_iter().map(event).collect();
            let end = std::mem::take(&mut end);
            if events.is_empty() && end.is_empty() {
                continue;
            }
            let start = rebuild_start(&end, &events, granule_bytes).0;
            let device = number as u32 * 3;
            history.devices.push(DeviceHistory { device, capacity_bytes, granule_bytes, start, events, end, ..DeviceHistory::default() });
        }
        history.annotations = annotations
            .into_iter()
            .map(|(is_start, name, device, time_ns)| {
                let stage = if is_start { Stage::Start } else { Stage::End };
                Annotation { stage, name: names[name], device, time_ns }
            })
            .collect();
        history
    }
}

proptest! {
    #[test]
    fn any_history_reads_back_as_it_was(history in any_history()) {
        assert_same(&history, &read(&written(&history)));
    }
}
