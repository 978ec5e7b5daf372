//! The page of a history.

use std::io::{self, Write};

use records::{Action, Event, History, SegmentKind, Stage};

use super::{
    groups::{GROUPS, Groups, LIVES, NAMED, SIZES},
    model::DeviceModel,
    options::{ColorBy, HistoryOptions},
    overview::{CHOICES, Column, columns},
    texts::{LEFT_OUT, Texts},
    window::shown,
};
use crate::{
    Error,
    escape::markup,
    numbers::cut,
    pack::Packer,
    palette::{DARK, LIGHT},
    shell::{Page, filled, icon},
};

const BODY: &str = include_str!("../../assets/history.html");
const STYLE: &str = concat!(include_str!("../../assets/stage.css"), include_str!("../../assets/history.css"));
const SCRIPTS: [&str; 9] = [
    include_str!("../../assets/raster.js"),
    include_str!("../../assets/stage.js"),
    include_str!("../../assets/input.js"),
    include_str!("../../assets/history-data.js"),
    include_str!("../../assets/history-timeline.js"),
    include_str!("../../assets/history-layout.js"),
    include_str!("../../assets/history-view.js"),
    include_str!("../../assets/history-state.js"),
    include_str!("../../assets/history-main.js"),
];

/// Columns of the picture that a page draws first.
const OVERVIEW: usize = 1024;
/// Most tags of a device that a page names, those with most bytes.
const MAX_TAGS: usize = 50_000;

/// Writes `history` as one HTML file that needs no network.
///
/// Names may hold anything: they travel as base 64 and are shown as text. Numbers are exact up to 64 bits. The file
/// takes some 10 to 20 bytes an event, and 120 KiB for the page itself. At most 12 MiB of names are kept; a name is
/// cut at 400 bytes, a stack at its 96 innermost frames.
///
/// # Errors
/// [`Error::NoSuchDevice`], [`Error::NothingInRange`] and [`Error::TooManyEvents`] before anything is written;
/// [`Error::Write`] when `out` fails, with part of the page written.
pub fn write_history_html(history: &History, options: &HistoryOptions, out: impl Write) -> Result<(), Error> {
    let shown = shown(history, options)?;
    let models: Vec<(DeviceModel<'_>, Groups)> = shown
        .into_iter()
        .map(|(device, window)| {
            let model = DeviceModel::new(device, window);
            let groups = Groups::new(&model);
            (model, groups)
        })
        .collect();
    let title = title_of(history, options);
    let body = filled(BODY, |name| match name.strip_prefix("icon-") {
        Some(which) => icon(which),
        None => part(name, &title, history, options, &models),
    });
    let page = Page { title: &title, theme: options.picture.theme, style: STYLE, body: &body, scripts: &SCRIPTS };
    page.write(out, |out| write_data(history, options, &models, out))?;
    Ok(())
}

/// What a picture is called.
pub(crate) fn title_of(history: &History, options: &HistoryOptions) -> String {
    let title = options.picture.title.as_deref().unwrap_or(&history.name);
    if title.trim().is_empty() { "untitled history".to_owned() } else { cut(title, 300).into_owned() }
}

/// The escaped markup of a placeholder.
fn part(
    name: &str,
    title: &str,
    history: &History,
    options: &HistoryOptions,
    models: &[(DeviceModel<'_>, Groups)],
) -> String {
    match name {
        "title" => markup(title),
        "allocator" if history.allocator.is_empty() => String::new(),
        "allocator" => format!(" of {}", markup(&cut(&history.allocator, 100))),
        "label" => markup(&format!("Memory history {title}")),
        "devices" => models
            .iter()
            .enumerate()
            .map(|(at, (model, _))| format!("<option value=\"{at}\">device {}</option>", model.history.device))
            .collect(),
        "device-hidden" if models.len() < 2 => " hidden".to_owned(),
        "colors" => ColorBy::ALL
            .map(|by| {
                let chosen = if by == options.color_by { " selected" } else { "" };
                format!("<option value=\"{0}\"{chosen}>{0}</option>", by.name())
            })
            .concat(),
        "settings" => settings(history),
        _ => String::new(),
    }
}

fn settings(history: &History) -> String {
    if history.settings.is_empty() {
        return String::new();
    }
    let row = |(key, value): &(String, String)| {
        format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", markup(&cut(key, 200)), markup(&cut(value, 600)))
    };
    let rows: String = history.settings.iter().take(100).map(row).collect();
    format!("<h2>Settings of the allocator</h2>\n<table>{rows}</table>\n")
}

/// Writes what the script reads: `history-facts` (JSON made of numbers and our own words only, 64-bit numbers as
/// strings) and packed columns, in the order in which `history-data.js` reads them. Each device has three blocks, so
/// that the page can draw the first before it reads the others.
fn write_data<W: Write>(
    history: &History,
    options: &HistoryOptions,
    models: &[(DeviceModel<'_>, Groups)],
    mut out: W,
) -> io::Result<W> {
    let mut texts = Texts::new(history);
    let tables: Vec<Tables> =
        models.iter().map(|(model, groups)| Tables::new(history, model, groups, options, &mut texts)).collect();
    let views: Vec<Vec<Column>> = models.iter().map(|(model, groups)| columns(model, groups, OVERVIEW)).collect();
    let devices: Vec<String> = models
        .iter()
        .zip(&tables)
        .zip(&views)
        .map(|(((model, groups), tables), view)| device_facts(model, groups, tables, view.len()))
        .collect();
    let frames: usize = texts.stacks().iter().map(Vec::len).sum();
    writeln!(
        out,
        "<script type=\"application/json\" id=\"history-facts\">{{\"names\":{},\"frames\":{},\"stacks\":{},\
         \"calls\":{frames},\"groups\":{GROUPS},\"named\":{NAMED},\"sizes\":[{}],\"lives\":[{}],\"choices\":[{}],\
         \"devices\":[{}],\"palettes\":{{\"light\":{},\"dark\":{}}}}}</script>",
        texts.names().len(),
        texts.frames().len(),
        texts.stacks().len(),
        SIZES.map(|size| size.to_string()).join(","),
        LIVES.map(|name| format!("\"{name}\"")).join(","),
        ColorBy::ALL.map(|by| format!("\"{}\"", by.name())).join(","),
        devices.join(","),
        LIGHT.history_json(),
        DARK.history_json(),
    )?;
    let mut out = block(out, "history-texts", |packer| pack_texts(&texts, packer))?;
    for (at, (((model, groups), tables), view)) in models.iter().zip(&tables).zip(&views).enumerate() {
        out =
            block(out, &format!("device-{at}-overview"), |packer| pack_overview(model, groups, tables, view, packer))?;
        out = block(out, &format!("device-{at}-blocks"), |packer| pack_blocks(model, groups, tables, packer))?;
        out = block(out, &format!("device-{at}-moments"), |packer| pack_moments(model, tables, packer))?;
    }
    Ok(out)
}

/// Writes one packed data block.
fn block<W: Write>(mut out: W, id: &str, pack: impl FnOnce(&mut Packer<W>) -> io::Result<()>) -> io::Result<W> {
    write!(out, "<script type=\"application/octet-stream\" id=\"{id}\">")?;
    let mut packer = Packer::new(out);
    pack(&mut packer)?;
    let mut out = packer.finish()?;
    writeln!(out, "</script>")?;
    Ok(out)
}

/// What the texts of a device are in the tables of the page.
struct Tables {
    /// Name of each tag.
    tags: Vec<u32>,
    /// Each stack.
    stacks: Vec<u32>,
    /// Stack of each piece.
    piece_stacks: Vec<u32>,
    /// Moments that have a mark, with their events, tags and stacks.
    marks: Vec<(u32, Event, u32, u32)>,
    /// Annotations: whether it begins, its name, when.
    annotations: Vec<(bool, u32, u64)>,
    /// Moments at which the largest hole changes, and to what.
    holes: Vec<(u32, u64)>,
    /// Whether events say when they happened.
    has_times: bool,
}

/// Most marks and annotations of a device.
const MAX_MARKS: usize = 100_000;

impl Tables {
    fn new(
        history: &History,
        model: &DeviceModel<'_>,
        groups: &Groups,
        options: &HistoryOptions,
        texts: &mut Texts<'_>,
    ) -> Self {
        let is_mark = |action| matches!(action, Action::OutOfMemory | Action::Snapshot | Action::Step);
        let marks = (1..).zip(model.events()).filter(|(_, event)| is_mark(event.action)).take(MAX_MARKS);
        let marks = marks.map(|(at, event)| (at, *event, texts.name(event.tag), texts.stack(event.stack))).collect();
        let annotations = history.annotations.iter().filter(|a| a.device == model.history.device).take(MAX_MARKS);
        let annotations = annotations.map(|a| (a.stage == Stage::Start, texts.name(a.name), a.time_ns)).collect();
        let mut holes = Vec::new();
        for (moment, &bytes) in (0..).zip(&model.largest) {
            if holes.last().is_none_or(|&(_, before)| before != bytes) {
                holes.push((moment, bytes));
            }
        }
        let mut stacks: Vec<u32> = groups.stacks.iter().take(options.max_stacks).map(|&id| texts.stack(id)).collect();
        // What is cut off is told from what is there by the length of the table.
        stacks.truncate(stacks.iter().position(|&index| index == LEFT_OUT).unwrap_or(stacks.len()));
        Self {
            tags: groups.tags.iter().take(MAX_TAGS).map(|&id| texts.name(id)).collect(),
            stacks,
            piece_stacks: model.pieces.iter().take(options.max_stacks).map(|piece| texts.stack(piece.stack)).collect(),
            marks,
            annotations,
            holes,
            has_times: model.events().iter().any(|event| event.time_ns != 0),
        }
    }
}

fn device_facts(model: &DeviceModel<'_>, groups: &Groups, tables: &Tables, columns: usize) -> String {
    let defects: Vec<String> = model
        .defects
        .iter()
        .map(|(defect, count, first)| {
            format!("{{\"what\":\"{}\",\"count\":\"{count}\",\"first\":\"{first}\"}}", defect.in_words())
        })
        .collect();
    let peak = |measure: fn(&records::Totals) -> u64| {
        let moment = model.highest(measure);
        format!("{{\"moment\":{moment},\"bytes\":\"{}\"}}", measure(&model.totals[moment as usize]))
    };
    let capacity = model.history.capacity_bytes.map_or("null".to_owned(), |bytes| format!("\"{bytes}\""));
    let waiting = model.blocks.iter().filter(|life| life.birth == 0).count();
    format!(
        "{{\"device\":{},\"capacity\":{capacity},\"from\":\"{}\",\"moments\":{},\"total\":\"{}\",\"blocks\":{},\
         \"initial\":{waiting},\"pieces\":{},\"stretches\":{},\"height\":\"{}\",\"streams\":{},\"tags\":{},\
         \"stacks\":{},\"allTags\":{},\"allStacks\":{},\"columns\":{columns},\"marks\":{},\"annotations\":{},\
         \"holes\":{},\"hasTimes\":{},\"live\":{},\"active\":{},\"reserved\":{},\"defects\":[{}]}}",
        model.history.device,
        model.window.from,
        model.moments(),
        model.history.events.len(),
        model.blocks.len(),
        model.pieces.len(),
        model.stretches.len(),
        model.height(),
        groups.streams.len(),
        tables.tags.len(),
        tables.stacks.len(),
        groups.tags.len(),
        groups.stacks.len(),
        tables.marks.len(),
        tables.annotations.len(),
        tables.holes.len(),
        tables.has_times,
        peak(|totals| totals.live),
        peak(|totals| totals.active),
        peak(|totals| totals.reserved),
        defects.join(","),
    )
}

fn pack_texts<W: Write>(texts: &Texts<'_>, packer: &mut Packer<W>) -> io::Result<()> {
    packer.narrow(texts.names().iter().map(|name| name.len() as u32))?;
    for name in texts.names() {
        packer.raw(name.as_bytes())?;
    }
    for column in 0..3 {
        packer.narrow(texts.frames().iter().map(|frame| frame[column]))?;
    }
    packer.narrow(texts.stacks().iter().map(|stack| stack.len() as u32))?;
    packer.narrow(texts.stacks().iter().flatten().copied())
}

fn pack_overview<W: Write>(
    model: &DeviceModel<'_>,
    groups: &Groups,
    tables: &Tables,
    view: &[Column],
    packer: &mut Packer<W>,
) -> io::Result<()> {
    packer.wide(groups.streams.iter().copied())?;
    packer.narrow(tables.tags.iter().copied())?;
    packer.narrow(tables.stacks.iter().copied())?;
    packer.wide(model.stretches.iter().map(|stretch| stretch.address))?;
    packer.wide(model.stretches.iter().map(|stretch| stretch.bytes))?;
    packer.narrow(view.iter().map(|column| column.moment))?;
    packer.wide(view.iter().map(|column| column.live))?;
    packer.wide(view.iter().map(|column| column.reserved))?;
    packer.wide(view.iter().map(|column| column.pending))?;
    // In hundredths of a percent.
    packer.narrow(view.iter().map(|column| (column.fragmentation.0 * 100.0).round() as u32))?;
    packer.narrow(view.iter().map(|column| (column.fragmentation.1 * 100.0).round() as u32))?;
    for choice in 0..CHOICES {
        for group in 0..GROUPS {
            packer.wide(view.iter().map(|column| column.groups[choice][group]))?;
        }
    }
    Ok(())
}

/// Differences to the value before; the first to 0.
fn steps(values: impl Iterator<Item = u32> + Clone) -> impl Iterator<Item = u32> + Clone {
    std::iter::once(0).chain(values.clone()).zip(values).map(|(before, value)| value.wrapping_sub(before))
}

fn pack_blocks<W: Write>(
    model: &DeviceModel<'_>,
    groups: &Groups,
    tables: &Tables,
    packer: &mut Packer<W>,
) -> io::Result<()> {
    let blocks = || model.blocks.iter();
    packer.narrow(steps(blocks().map(|life| life.birth)))?;
    packer.narrow(blocks().map(|life| life.pend - life.birth))?;
    packer.narrow(blocks().map(|life| life.death - life.pend))?;
    let offsets: Vec<u64> = blocks().map(|life| model.offset_of(life.block.address)).collect();
    packer.wide(offsets.into_iter())?;
    packer.wide(blocks().map(|life| life.block.bytes))?;
    // What rounding added; past 0 where less lies there than was asked for.
    packer.wide(blocks().map(|life| life.block.bytes.wrapping_sub(life.block.requested_bytes)))?;
    for (column, count) in [(0, groups.streams.len()), (1, tables.tags.len()), (2, tables.stacks.len())] {
        packer.narrow(groups.indices.iter().map(|row| row[column].min(count as u32)))?;
    }
    packer.raw(&groups.lives)?;
    // Of what was there at the start: the number of the event that made it, counted from 1; 0 if before the record.
    packer.wide(blocks().take_while(|life| life.birth == 0).map(|life| life.event.map_or(0, |number| number + 1)))?;

    let pieces = || model.pieces.iter();
    packer.narrow(steps(pieces().map(|piece| piece.birth)))?;
    packer.narrow(pieces().map(|piece| piece.death - piece.birth))?;
    packer.wide(pieces().map(|piece| model.offset_of(piece.address)))?;
    packer.wide(pieces().map(|piece| piece.bytes))?;
    packer.wide(pieces().map(|piece| piece.stream))?;
    packer.wide(pieces().map(|piece| piece.pool.0))?;
    packer.wide(pieces().map(|piece| piece.pool.1))?;
    let kinds: Vec<u8> = pieces()
        .map(|piece| {
            let kind = match piece.kind {
                SegmentKind::Small => 1,
                SegmentKind::Large => 2,
                _ => 0,
            };
            kind | u8::from(piece.is_expandable) << 2
        })
        .collect();
    packer.raw(&kinds)?;
    let known = tables.piece_stacks.iter().copied();
    packer.narrow(known.chain(std::iter::repeat(LEFT_OUT)).take(model.pieces.len()))
}

fn pack_moments<W: Write>(model: &DeviceModel<'_>, tables: &Tables, packer: &mut Packer<W>) -> io::Result<()> {
    let events = || model.events().iter();
    let actions: Vec<u8> = events().map(|event| action_code(event.action)).collect();
    packer.raw(&actions)?;
    if tables.has_times {
        let before = std::iter::once(0).chain(events().map(|event| event.time_ns));
        packer.wide(events().zip(before).map(|(event, before)| event.time_ns.wrapping_sub(before)))?;
    }
    packer.narrow(steps(tables.holes.iter().map(|hole| hole.0)))?;
    packer.wide(tables.holes.iter().map(|hole| hole.1))?;
    let marks = || tables.marks.iter();
    packer.narrow(marks().map(|mark| mark.0))?;
    packer.wide(marks().map(|mark| mark.1.bytes))?;
    packer.wide(marks().map(|mark| mark.1.address))?;
    packer.wide(marks().map(|mark| mark.1.stream))?;
    packer.narrow(marks().map(|mark| mark.2))?;
    packer.narrow(marks().map(|mark| mark.3))?;
    let stages: Vec<u8> = tables.annotations.iter().map(|annotation| u8::from(annotation.0)).collect();
    packer.raw(&stages)?;
    packer.narrow(tables.annotations.iter().map(|annotation| annotation.1))?;
    packer.wide(tables.annotations.iter().map(|annotation| annotation.2))
}

/// The place of an action in the table of `history-data.js`.
fn action_code(action: Action) -> u8 {
    match action {
        Action::Alloc => 0,
        Action::FreeRequested => 1,
        Action::FreeCompleted => 2,
        Action::SegmentAlloc => 3,
        Action::SegmentFree => 4,
        Action::SegmentMap => 5,
        Action::SegmentUnmap => 6,
        Action::OutOfMemory => 7,
        Action::Snapshot => 8,
        Action::Step => 9,
        _ => 255,
    }
}
