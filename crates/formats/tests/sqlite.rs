//! Histories as SQLite files: what is asked of them is what the history says.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use formats::{Content, Error, Limits, read_path, write_sqlite};
use records::{Action, DeviceHistory, Event, History, MemoryMap};
use rusqlite::Connection;
use support::root;

fn number(file: &Connection, query: &str) -> i64 {
    file.query_row(query, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{query}: {error}"))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_snapshot_can_be_asked_for_anything() {
    let path = root().join("crates/formats/tests/data/cuda-gpt-medium-512-inference.pickle.gz");
    let Content::History(history) = read_path(path, &Limits::default()).unwrap().content else { panic!() };
    let folder = folder();
    let path = folder.path().join("out.sqlite");
    std::fs::write(&path, "what was there").unwrap();
    write_sqlite(&history, &path).unwrap();
    let file = Connection::open(&path).unwrap();
    let device = &history.devices[0];
    let mut map = MemoryMap::new(device);
    let peak = device.events.iter().map(|event| {
        map.apply(event);
        map.totals().allocated
    });
    assert_eq!(number(&file, "SELECT max(allocated) FROM totals"), peak.max().unwrap() as i64);
    assert_eq!(number(&file, "SELECT count(*) FROM events") as usize, device.events.len());
    let count = |action| device.events.iter().filter(|event| event.action == action).count() as i64;
    assert_eq!(number(&file, "SELECT count(*) FROM events WHERE action = 'alloc'"), count(Action::Alloc));
    assert_eq!(number(&file, "SELECT count(*) FROM blocks WHERE alloc_event IS NOT NULL"), count(Action::Alloc));
    assert_eq!(number(&file, "SELECT count(*) FROM blocks WHERE end_event IS NOT NULL"), count(Action::FreeCompleted));
    assert_eq!(
        number(&file, "SELECT sum(bytes) FROM segments WHERE moment = 'end'"),
        device.end.iter().map(|segment| segment.bytes as i64).sum::<i64>()
    );
    let calls = "SELECT count(*) FROM stacks JOIN frames USING (frame)";
    assert_eq!(number(&file, calls) as usize, history.stacks.call_count());
    assert_eq!(number(&file, "SELECT count(*) FROM names") as usize, history.names.len() + 1);
    let format: String = file.query_row("SELECT value FROM meta WHERE key = 'format'", [], |row| row.get(0)).unwrap();
    assert_eq!(format, "gpumem-sqlite/1");
    let check: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let docs = std::fs::read_to_string(root().join("docs/formats.md")).unwrap();
    let query = docs.split("```sql\n").nth(1).unwrap().split("```").next().unwrap();
    let mut statement = file.prepare(query).unwrap();
    let held: Vec<i64> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(!held.is_empty() && held.is_sorted_by(|a, b| a >= b), "{held:?}");
    // Nothing is left beside it.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_cannot_be_written_is_an_error_that_leaves_nothing() {
    let folder = folder();
    let error = write_sqlite(&History::default(), folder.path().join("no/such/folder.sqlite")).unwrap_err();
    assert!(matches!(error, Error::Io { action: "create", .. }), "{error}");
    let error = write_sqlite(&History::default(), folder.path()).unwrap_err();
    assert!(error.to_string().contains("not an ordinary file"), "{error}");
    let twice = DeviceHistory::default();
    let error =
        write_sqlite(&History { devices: vec![twice.clone(), twice], ..History::default() }, folder.path().join("x"))
            .unwrap_err();
    assert!(matches!(error, Error::Io { action: "write", .. }), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_million_events_are_written_in_seconds() {
    let mut events = Vec::new();
    for number in 0..500_000_u64 {
        let event = Event {
            address: (number % 997) << 21,
            bytes: number * 7919 % (2 << 20),
            time_ns: number * 900,
            ..Event::default()
        };
        events.extend([event, Event { action: Action::FreeCompleted, ..event }]);
    }
    let device = DeviceHistory { granule_bytes: 512, events, ..DeviceHistory::default() };
    let folder = folder();
    let path = folder.path().join("big.sqlite");
    let start = std::time::Instant::now();
    write_sqlite(&History { devices: vec![device], ..History::default() }, &path).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    println!("{} bytes in {seconds:.2} s", std::fs::metadata(&path).unwrap().len());
    assert_eq!(number(&Connection::open(&path).unwrap(), "SELECT count(*) FROM totals"), 1_000_000);
    assert!(seconds < 60.0, "{seconds}");
}
