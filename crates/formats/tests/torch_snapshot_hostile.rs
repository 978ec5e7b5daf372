//! Snapshots made to do harm: each is refused, with the opcode, the place and the reason, before it costs anything.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::Instant;

use formats::{Content, Limits, read_bytes};
use records::{Action, Defect, History};
use support::root;

fn read(bytes: &[u8]) -> Result<History, String> {
    read_within(bytes, &Limits::default())
}

fn read_within(bytes: &[u8], limits: &Limits) -> Result<History, String> {
    match read_bytes("f", bytes, limits) {
        Ok(document) => match document.content {
            Content::History(history) => Ok(history),
            _ => panic!("not a history"),
        },
        Err(error) => Err(error.to_string()),
    }
}

fn refusal(bytes: &[u8]) -> String {
    read(bytes).expect_err("was read")
}

fn seed(name: &str) -> Vec<u8> {
    std::fs::read(root().join("fuzz/corpus/snapshot").join(name)).unwrap()
}

/// A pickle of these opcodes.
fn pickle(body: &[u8]) -> Vec<u8> {
    [b"\x80\x04", body, b"."].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&[0x8c, text.len() as u8], text.as_bytes()].concat()
}

fn int(number: u64) -> Vec<u8> {
    [&[0x8a, 9][..], &number.to_le_bytes(), &[0]].concat()
}

/// A dict with these keys, whose values are opcodes.
fn dict(items: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let items = items.iter().flat_map(|(key, value)| [text(key), value.clone()]);
    [b"}(".to_vec(), items.flatten().collect(), b"u".to_vec()].concat()
}

fn list(items: &[Vec<u8>]) -> Vec<u8> {
    [b"](".to_vec(), items.concat(), b"e".to_vec()].concat()
}

fn event(action: &str, address: u64, bytes: u64, time_us: u64) -> Vec<u8> {
    dict(&[("action", text(action)), ("addr", int(address)), ("size", int(bytes)), ("time_us", int(time_us))])
}

fn block(bytes: u64, state: &str) -> Vec<u8> {
    dict(&[("size", int(bytes)), ("requested_size", int(bytes)), ("state", text(state))])
}

fn segment(address: u64, bytes: u64, blocks: &[Vec<u8>]) -> Vec<u8> {
    dict(&[("address", int(address)), ("total_size", int(bytes)), ("blocks", list(blocks))])
}

fn snapshot(segments: &[Vec<u8>], events: &[Vec<u8>]) -> Vec<u8> {
    pickle(&dict(&[("segments", list(segments)), ("device_traces", list(&[list(events)]))]))
}

#[test]
fn a_snapshot_cut_anywhere_is_refused() {
    for name in ["modern-protocol-4.pickle", "torch-pickler.pickle"] {
        let bytes = seed(name);
        read(&bytes).unwrap();
        for end in 2..bytes.len() {
            assert_eq!(
                refusal(&bytes[..end]),
                format!("f: byte {end}: the pickle is cut off; was the file copied completely?")
            );
        }
    }
}

#[test]
fn opcodes_that_import_build_or_run_are_refused_by_name_and_place() {
    for (opcode, name) in [
        (&b"cos\nsystem\n"[..], "GLOBAL"),
        (b"\x8c\x02os\x8c\x06system\x93", "STACK_GLOBAL"),
        (b"(ios\nsystem\n", "INST"),
        (b"(o", "OBJ"),
        (b")\x81", "NEWOBJ"),
        (b"\x92", "NEWOBJ_EX"),
        (b"))R", "REDUCE"),
        (b"}b", "BUILD"),
        (b"\x82\x01", "EXT1"),
        (b"\x83\x01\x00", "EXT2"),
        (b"\x84\x01\x00\x00\x00", "EXT4"),
        (b"Pid\n", "PERSID"),
        (b"NQ", "BINPERSID"),
        (b"\x97", "NEXT_BUFFER"),
        (b"\x98", "READONLY_BUFFER"),
    ] {
        let message = refusal(&pickle(opcode));
        assert!(message.contains(&format!(": opcode {name} would import, build or run something")), "{message}");
    }
    assert!(refusal(&pickle(b"NNNcos\nsystem\n")).starts_with("f: byte 5: opcode GLOBAL "));
    assert!(refusal(&pickle(b"I5\n")).contains("opcode INT is of an older pickle protocol"));
    assert!(refusal(&pickle(b"\xfe")).contains("0xfe is not a pickle opcode"));
    assert!(refusal(b"\x80\x04\x80\x06.").contains("byte 2: pickle protocol 6"));
}

#[test]
fn opcodes_without_what_they_need_are_refused() {
    for (body, message) in [
        (&b""[..], "opcode STOP takes values that aren't there"),
        (b"0", "opcode POP takes values"),
        (b"1", "opcode POP_MARK needs a MARK"),
        (b"2", "opcode DUP takes values"),
        (b"\x94", "opcode MEMOIZE takes values"),
        (b"a", "opcode APPEND takes values"),
        (b"Na", "opcode APPEND takes values"),
        (b"](a", "opcode APPEND takes values"),
        (b"]N(a", "opcode APPEND takes values"),
        (b"](Nt\x94(.", "opcode STOP takes values"),
        (b"e", "opcode APPENDS needs a MARK"),
        (b"(Ne", "opcode APPENDS takes values"),
        (b"N(Ne", "opcode APPENDS is applied to None"),
        (b"}(Ne", "opcode APPENDS is applied to a dict"),
        (b"](NNu", "opcode SETITEMS is applied to a list"),
        (b"}(Nu", "a dict's last key has no value"),
        (b"\x86", "opcode TUPLE2 takes values"),
        (b"(N\x90", "opcode ADDITEMS takes values"),
        (b"N(N\x90", "opcode ADDITEMS is applied to None"),
        (b"h\x07", "memo entry 7 was never made"),
        (b"T\xff\xff\xff\xff", "a length of -1"),
        (b"\x8b\xff\xff\xff\xff", "a length of -1"),
        (b"(.", "opcode STOP takes values"),
    ] {
        let refusal = refusal(&pickle(body));
        assert!(refusal.contains(message), "{refusal:?}\n not {message:?}");
    }
}

#[test]
fn floods_end_at_the_limits() {
    let mut limits = Limits::default();
    (limits.max_values, limits.max_memo_entries, limits.max_events, limits.max_name_bytes) = (100, 90, 5, 1200);
    for (body, message) in [
        (b"N2".repeat(60), "more than 100 values on the stack"),
        ([b"N".to_vec(), b"\x94".repeat(91)].concat(), "more than 90 memo entries"),
        ([b"]".to_vec(), b"Na".repeat(101)].concat(), "more than 100 values in lists and dicts"),
        (b"]0".repeat(5000), "holds"),
        (b"]\x940".repeat(5000), "more than 90"),
        (b"]2aN".repeat(5000), "part of another"),
        ((0..40).flat_map(|n| text(&format!("{n:060}0"))).collect(), "more than 1200 bytes of text"),
        ([b"](".to_vec(), event("alloc", 1, 1, 1).repeat(6)].concat(), "more than 5 events"),
    ] {
        let refusal = read_within(&pickle(&[&b"N"[..], &body].concat()), &limits).expect_err(message);
        assert!(refusal.contains(message), "{refusal:?}\n not {message:?}");
    }
}

#[test]
fn lengths_that_are_claimed_cost_nothing() {
    let start = Instant::now();
    for body in [
        [&b"\x8d"[..], &(1_u64 << 63).to_le_bytes()].concat(),
        [&b"\x8d"[..], &u64::MAX.to_le_bytes()].concat(),
        [&b"X"[..], &u32::MAX.to_le_bytes()].concat(),
        [&b"\x8e"[..], &u64::MAX.to_le_bytes()].concat(),
        [&b"\x96"[..], &u64::MAX.to_le_bytes()].concat(),
        [&b"B"[..], &u32::MAX.to_le_bytes()].concat(),
        [&b"\x8b"[..], &i32::MAX.to_le_bytes()].concat(),
        [&b"\x95"[..], &u64::MAX.to_le_bytes()].concat(),
        [&b"Nr"[..], &u32::MAX.to_le_bytes(), b"r", &(u32::MAX - 1).to_le_bytes()].concat(),
    ] {
        let message = refusal(&pickle(&body));
        assert!(["cut off", "more than", "holds None", "STOP"].iter().any(|part| message.contains(part)), "{message}");
    }
    assert!(start.elapsed().as_secs() < 5);
}

#[test]
fn deep_nesting_is_refused_whatever_it_is_made_of() {
    const DEPTH: usize = 10_000_000;
    let start = Instant::now();
    let nested = |depth, open: &[u8], close: &[u8]| {
        refusal(&pickle(&[&open.repeat(depth), &b"N"[..], &close.repeat(depth)].concat()))
    };
    let too_deep = "lists and dicts are nested more than 64 deep";
    assert!(nested(DEPTH, b"]", b"a").contains(too_deep));
    assert!(nested(DEPTH, b"](", b"e").contains(too_deep));
    assert!(nested(DEPTH / 2, b"}N", b"s").contains(too_deep));
    assert!(refusal(&pickle(&[&b"N"[..], &b"\x85".repeat(DEPTH)].concat())).contains(too_deep));
    assert!(refusal(&pickle(&b"(".repeat(DEPTH))).contains(too_deep));
    assert!(start.elapsed().as_secs() < 20);
}

#[test]
fn what_contains_itself_is_refused() {
    for body in [
        &b"]\x94h\x00a"[..],
        b"]\x94(h\x00e",
        b"}\x94Nh\x00s",
        b"]2a",
        // A list in a tuple in the list, as Python writes it.
        b"]\x94(h\x00ta",
        b"]\x94](h\x00eah\x00Na",
    ] {
        let message = refusal(&pickle(body));
        assert!(message.contains("already part of another"), "{message}");
    }
    for name in ["self-list.pickle", "self-dict.pickle"] {
        assert!(refusal(&seed(name)).contains("already part of another"));
    }
}

#[test]
fn parts_that_stand_in_many_places_are_not_multiplied() {
    // 8^40 lists, if they were counted out.
    read(&seed("shared-lists.pickle")).unwrap();
    let shared = |part: Vec<u8>| [part, b"\x94".to_vec()].concat();
    let events = shared(list(&[event("alloc", 0, 1, 1)]));
    let body = dict(&[("device_traces", list(&[events.clone(), b"h\x00".to_vec()]))]);
    assert!(refusal(&pickle(&body)).contains("device_traces[1]: the same list stands in the file twice"));
    let part = shared(segment(0, 512, &[block(512, "inactive")]));
    let body = dict(&[("segments", list(&[part, b"h\x00".to_vec()]))]);
    assert!(refusal(&pickle(&body)).contains("segments[1]: the same segment stands in the file twice"));
    let blocks = shared(list(&[block(512, "inactive")]));
    let with = |address, blocks| dict(&[("address", int(address)), ("total_size", int(512)), ("blocks", blocks)]);
    let body = dict(&[("segments", list(&[with(0, blocks), with(512, b"h\x00".to_vec())]))]);
    assert!(refusal(&pickle(&body)).contains("segments[1].blocks: the same list stands in the file twice"));
    // Settings that name one long text many times.
    let long = [&b"X"[..], &200_000_u32.to_le_bytes(), &b"x".repeat(200_000), b"\x94"].concat();
    let mut settings = vec![("a", long)];
    settings.extend((0..100).map(|_| ("b", b"h\x00".to_vec())));
    let body = dict(&[("segments", b"]".to_vec()), ("allocator_settings", dict(&settings))]);
    let history = read(&pickle(&body)).unwrap();
    assert_eq!(history.settings.len(), 5);
    assert!(history.notes[0].contains("settings were left out"));
}

#[test]
fn mistakes_are_named_by_their_path() {
    let with = |key: &str, value: Vec<u8>| {
        let good = [("action", text("alloc")), ("addr", int(0)), ("size", int(1))];
        let mut items: Vec<(&str, Vec<u8>)> = good.into_iter().filter(|(name, _)| *name != key).collect();
        items.push((key, value));
        refusal(&snapshot(&[], &[event("alloc", 0, 1, 1), dict(&items)]))
    };
    let minus = |number: i32| [&b"J"[..], &number.to_le_bytes()].concat();
    for (key, value, message) in [
        ("addr", minus(-1), "-1 is negative"),
        ("size", minus(-7), "-7 is negative"),
        ("size", text("12"), "expected a whole number, found text"),
        ("size", [&b"G"[..], &1.5_f64.to_be_bytes()].concat(), "expected a whole number, found a fraction"),
        ("addr", b"N".to_vec(), "expected a whole number, found None"),
        ("addr", [&b"\x8a\x0a"[..], &[1; 10]].concat(), "a number of more than 64 bits is above the limit"),
        ("time_us", int(u64::MAX / 1000 + 1), "18446744073709552 is above the limit of 18446744073709551"),
        ("action", int(3), "expected text, found a whole number"),
        ("frames", int(3), "expected a list of frames, found a whole number"),
        ("frames", list(&[int(3)]), "expected a list of frames, found a list"),
        ("stream", list(&[]), "expected a whole number, found an empty list"),
    ] {
        let refusal = with(key, value);
        assert!(refusal.contains(&format!(": device_traces[0][1].{key}: {message}")), "{refusal:?}\n not {message:?}");
    }
    for (bytes, message) in [
        (snapshot(&[], &[dict(&[("action", text("alloc")), ("size", int(1))])]), "device_traces[0][0].addr: missing"),
        (snapshot(&[], &[dict(&[("size", int(1))])]), "device_traces[0][0].action: missing"),
        (
            pickle(&dict(&[("device_traces", list(&[int(5)]))])),
            "device_traces[0]: expected a list of events, found a whole",
        ),
        (snapshot(&[], &[int(5), text("x")]), "device_traces[0][0]: expected an event, found a whole number"),
        (snapshot(&[dict(&[("total_size", int(1))])], &[]), "segments[0].address: missing"),
        (snapshot(&[segment(0, 9, &[block(3, "lost")])], &[]), "segments[0].blocks[0].state: state `lost` is unknown"),
        (snapshot(&[segment(0, 9, &[int(3), text("")])], &[]), "segments[0].blocks[0]: expected a block"),
        (pickle(&dict(&[("device_traces", int(3))])), "device_traces: expected a list of traces, found a whole number"),
        (
            snapshot(&[dict(&[("device", int(1 << 33)), ("address", int(0)), ("total_size", int(1))])], &[]),
            "segments[0].device: 8589934592 is above the limit of 65535",
        ),
        (pickle(&dict(&[("model", int(3))])), "a dict without `segments` and `device_traces`"),
        (pickle(&list(&[int(3), text("")])), "not a memory snapshot: it holds a list"),
    ] {
        let refusal = refusal(&bytes);
        assert!(refusal.contains(message), "{refusal:?}\n not {message:?}");
    }
    // What isn't part of the snapshot may be as it likes.
    let strange = dict(&[("action", int(3)), ("addr", text("x"))]);
    read(&pickle(&dict(&[("segments", b"]".to_vec()), ("other", strange)]))).unwrap();
}

#[test]
fn contradictions_are_counted_and_not_fatal() {
    let block = |state: &str| block(512, state);
    let count = |segments: &[Vec<u8>], events: &[Vec<u8>], defect| {
        read(&snapshot(segments, events)).unwrap().devices[0].defects.count(defect)
    };
    let home = || segment(0, 4096, &[block("active_allocated")]);
    let back = [event("alloc", 512, 1, 9), event("free_requested", 512, 1, 8), event("free_completed", 512, 1, 10)];
    assert_eq!(count(&[home()], &back, Defect::TimeBackwards), 1);
    assert_eq!(count(&[home(), segment(1024, 4096, &[])], &[], Defect::SegmentOverlap), 1);
    assert_eq!(count(&[home(), home()], &[], Defect::SegmentOverlap), 1);
    let overlap = segment(
        0,
        4096,
        &[
            block("active_allocated"),
            dict(&[("address", int(256)), ("size", int(512)), ("state", text("active_allocated"))]),
        ],
    );
    assert_eq!(count(&[overlap], &[], Defect::BlockOverlap), 1);
    let twice =
        [event("free_requested", 1024, 1, 1), event("free_requested", 1024, 1, 2), event("free_completed", 1024, 1, 3)];
    assert!(count(&[home()], &twice, Defect::DoubleFree) > 0);
    let completed =
        [event("alloc", 1024, 1, 1), event("free_completed", 1024, 1, 1), event("free_completed", 1024, 1, 2)];
    assert!(read(&snapshot(&[home()], &completed)).unwrap().devices[0].defects.total() > 0);
    assert_eq!(count(&[home()], &[event("alloc", u64::MAX - 3, 512, 1)], Defect::AddressOverflow), 1);
    let far = segment(u64::MAX - 3, 4096, &[]);
    assert!(count(&[far], &[], Defect::AddressOverflow) > 0);
    let greedy = segment(
        0,
        4096,
        &[dict(&[("size", int(512)), ("requested_size", int(u64::MAX)), ("state", text("active_allocated"))])],
    );
    assert_eq!(count(&[greedy], &[], Defect::RequestBeyondBlock), 1);
    let everything = read(&seed("contradictions.pickle")).unwrap();
    assert!(everything.devices[0].defects.iter().count() >= 4, "{:?}", everything.devices[0].defects);
}

#[test]
fn what_is_not_text_is_repaired_and_counted() {
    let history = read(&seed("not-utf-8.pickle")).unwrap();
    assert_eq!(history.notes, ["2 texts were not UTF-8; what could not be read of them was replaced"]);
    assert!(
        history.names.iter().any(|(_, name)| name == "<script>\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}(1)</script>")
    );
}

#[test]
fn names_are_text_whatever_is_in_them() {
    let history = read(&seed("html-names.pickle")).unwrap();
    let event = history.devices[0].events[0];
    assert_eq!((event.action, history.names.get(event.tag)), (Action::Alloc, "</script><b>"));
    let frame = history.stacks.frame(history.stacks.frames(event.stack)[0]);
    assert_eq!(history.names.get(frame.function), "<script>alert(1)</script>");
}
