//! A history as an SQLite file, for questions that nobody thought of. `docs/formats.md` has the tables.

use std::fs;
use std::io;
use std::path::Path;

use records::{DeviceHistory, History, MemoryMap, Segment, SegmentKind, Stage};
use rusqlite::{Connection, Transaction, params};

use crate::lives::{When, lives, times};
use crate::{Error, Result, output};

/// The tables. Columns that name a row of another table are called after it.
const TABLES: &str = "
    CREATE TABLE meta (key TEXT NOT NULL, value TEXT NOT NULL);
    CREATE TABLE devices (device INTEGER PRIMARY KEY, capacity_bytes INTEGER, granule_bytes INTEGER NOT NULL);
    CREATE TABLE names (name INTEGER PRIMARY KEY, text TEXT NOT NULL);
    CREATE TABLE frame_names (frame INTEGER PRIMARY KEY, function INTEGER NOT NULL, file INTEGER NOT NULL,
        line INTEGER NOT NULL);
    CREATE VIEW frames AS SELECT frame, functions.text AS function, files.text AS file, line FROM frame_names
        JOIN names AS functions ON functions.name = frame_names.function JOIN names AS files ON files.name = frame_names.file;
    CREATE TABLE stacks (stack INTEGER NOT NULL, depth INTEGER NOT NULL, frame INTEGER NOT NULL,
        PRIMARY KEY (stack, depth)) WITHOUT ROWID;
    CREATE TABLE events (device INTEGER NOT NULL, event INTEGER NOT NULL, action TEXT NOT NULL, address INTEGER NOT NULL,
        bytes INTEGER NOT NULL, stream INTEGER NOT NULL, time_ns INTEGER NOT NULL, stack INTEGER NOT NULL,
        name INTEGER NOT NULL, PRIMARY KEY (device, event)) WITHOUT ROWID;
    CREATE TABLE totals (device INTEGER NOT NULL, event INTEGER NOT NULL, live INTEGER NOT NULL,
        allocated INTEGER NOT NULL, active INTEGER NOT NULL, reserved INTEGER NOT NULL,
        largest_free INTEGER NOT NULL, PRIMARY KEY (device, event)) WITHOUT ROWID;
    CREATE TABLE blocks (block INTEGER PRIMARY KEY, device INTEGER NOT NULL, address INTEGER NOT NULL,
        bytes INTEGER NOT NULL, requested_bytes INTEGER NOT NULL, stream INTEGER NOT NULL, stack INTEGER NOT NULL,
        name INTEGER NOT NULL, alloc_event INTEGER, free_event INTEGER, end_event INTEGER, alloc_ns INTEGER,
        free_ns INTEGER, end_ns INTEGER);
    CREATE TABLE segments (device INTEGER NOT NULL, moment TEXT NOT NULL, address INTEGER NOT NULL,
        bytes INTEGER NOT NULL, stream INTEGER NOT NULL, kind TEXT NOT NULL, is_expandable INTEGER NOT NULL,
        pool TEXT NOT NULL, stack INTEGER NOT NULL);
    CREATE TABLE annotations (device INTEGER NOT NULL, stage TEXT NOT NULL, name INTEGER NOT NULL,
        time_ns INTEGER NOT NULL);
";

/// Made when everything is in its place, which is quicker.
const INDICES: &str = "
    CREATE INDEX events_by_address ON events (address);
    CREATE INDEX blocks_by_address ON blocks (address);
    CREATE INDEX blocks_by_stack ON blocks (stack);
    CREATE INDEX blocks_by_size ON blocks (bytes);
";

/// Writes a history as an SQLite file at `path`, with a row for each event, block, stack and so on. What was there is
/// replaced once the file is whole. Numbers from 2^63 on, which no address or size really has, come out negative.
///
/// # Errors
/// The file can't be written; what was there stays.
pub fn write_sqlite(history: &History, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let failed = |action| move |source| Error::Io { file: path.display().to_string(), action, source };
    // Through links, so that a link stays one.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "it is not an ordinary file");
        return Err(failed("create")(source));
    }
    let (file, partial) = output::create_beside(&target).map_err(failed("create"))?;
    drop(file);
    let result = fill(history, &partial)
        .map_err(|error| io::Error::new(kind_of(&error), error))
        .and_then(|()| fs::rename(&partial, &target));
    if result.is_err() {
        // Nothing more can be done about a file that can't be removed.
        let _ = fs::remove_file(&partial);
    }
    result.map_err(failed("write"))
}

fn kind_of(error: &rusqlite::Error) -> io::ErrorKind {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => io::ErrorKind::StorageFull,
        Some(rusqlite::ErrorCode::OutOfMemory) => io::ErrorKind::OutOfMemory,
        _ => io::ErrorKind::Other,
    }
}

fn fill(history: &History, path: &Path) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    // The file is thrown away unless it is whole, so nothing has to be undone or to survive a crash.
    connection
        .execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;")?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    put_meta(history, &transaction)?;
    put_names(history, &transaction)?;
    put_annotations(history, &transaction)?;
    let mut next_block = 0;
    for device in &history.devices {
        put_events(device, &transaction)?;
        next_block = put_blocks(device, next_block, &transaction)?;
    }
    transaction.execute_batch(INDICES)?;
    transaction.commit()?;
    connection.close().map_err(|(_, error)| error)
}

/// SQLite's integers have a sign.
fn signed(number: u64) -> i64 {
    number as i64
}

fn put_meta(history: &History, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare("INSERT INTO meta VALUES (?, ?)")?;
    let mut put = |key: &str, value: &str| insert.execute(params![key, value]).map(drop);
    put("format", "gpumem-sqlite/1")?;
    put("name", &history.name)?;
    put("allocator", &history.allocator)?;
    for (key, value) in &history.settings {
        put(&format!("setting.{key}"), value)?;
    }
    history.notes.iter().try_for_each(|note| put("note", note))
}

fn put_names(history: &History, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare("INSERT INTO names VALUES (?, ?)")?;
    insert.execute(params![0, ""])?;
    for (id, name) in history.names.iter() {
        insert.execute(params![id.0, name])?;
    }
    // By number, so that a long name costs its length once and not once a line.
    let mut insert = transaction.prepare("INSERT INTO frame_names VALUES (?, ?, ?, ?)")?;
    for number in 0..history.stacks.frame_count() as u32 {
        let frame = history.stacks.frame(records::FrameId(number));
        insert.execute(params![number, frame.function.0, frame.file.0, frame.line])?;
    }
    let mut insert = transaction.prepare("INSERT INTO stacks VALUES (?, ?, ?)")?;
    for stack in history.stacks.ids() {
        for (frame, depth) in history.stacks.frames(stack).iter().zip(0_u32..) {
            insert.execute(params![stack.0, depth, frame.0])?;
        }
    }
    Ok(())
}

fn put_annotations(history: &History, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare("INSERT INTO annotations VALUES (?, ?, ?, ?)")?;
    for annotation in &history.annotations {
        let stage = match annotation.stage {
            Stage::Start => "start",
            Stage::End => "end",
        };
        insert.execute(params![annotation.device, stage, annotation.name.0, signed(annotation.time_ns)])?;
    }
    Ok(())
}

fn put_events(device: &DeviceHistory, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let number = device.device;
    let mut insert = transaction.prepare("INSERT INTO devices VALUES (?, ?, ?)")?;
    insert.execute(params![number, device.capacity_bytes.map(signed), signed(device.granule_bytes)])?;
    let mut events = transaction.prepare("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    let mut totals = transaction.prepare("INSERT INTO totals VALUES (?, ?, ?, ?, ?, ?, ?)")?;
    let mut map = MemoryMap::new(device);
    for (event, index) in device.events.iter().zip(0_i64..) {
        let (address, bytes, stream) = (signed(event.address), signed(event.bytes), signed(event.stream));
        let (action, time) = (event.action.name(), signed(event.time_ns));
        events.execute(params![number, index, action, address, bytes, stream, time, event.stack.0, event.tag.0])?;
        map.apply(event);
        let sums = map.totals();
        let [live, allocated, active, reserved, largest_free] =
            [sums.live, sums.allocated, sums.active, sums.reserved, map.largest_free()].map(signed);
        totals.execute(params![number, index, live, allocated, active, reserved, largest_free])?;
    }
    let end: Vec<Segment> = if device.end.is_empty() { map.segments().collect() } else { device.end.clone() };
    let mut insert = transaction.prepare("INSERT INTO segments VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    for (moment, segment) in
        device.start.iter().map(|segment| ("start", segment)).chain(end.iter().map(|segment| ("end", segment)))
    {
        let kind = match segment.kind {
            SegmentKind::Small => "small",
            SegmentKind::Large => "large",
            _ => "any",
        };
        let pool = format!("{}.{}", segment.pool.0, segment.pool.1);
        let (address, bytes, stream) = (signed(segment.address), signed(segment.bytes), signed(segment.stream));
        let (expandable, stack) = (segment.is_expandable, segment.stack.0);
        insert.execute(params![number, moment, address, bytes, stream, kind, expandable, pool, stack])?;
    }
    Ok(())
}

/// Adds the blocks of a device, numbered from `next` on; returns the number after the last one.
fn put_blocks(device: &DeviceHistory, next: i64, transaction: &Transaction<'_>) -> rusqlite::Result<i64> {
    let mut insert = transaction.prepare("INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    let times = times(device);
    let event = |when: Option<When>| when.map(|when| signed(when.event));
    let time = |when: Option<When>| when.map(|when| signed(when.time_ns));
    let mut block = next;
    for life in lives(device, &times) {
        insert.execute(params![
            block,
            device.device,
            signed(life.address),
            signed(life.bytes),
            signed(life.requested_bytes),
            signed(life.stream),
            life.stack.0,
            life.tag.0,
            event(life.born),
            event(life.dropped),
            event(life.ended),
            time(life.born),
            time(life.dropped),
            time(life.ended),
        ])?;
        block += 1;
    }
    Ok(block)
}
