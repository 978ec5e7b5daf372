//! The page of a plan.

use std::io::{self, Write};

use coloring::{BoundKind, PlacedBuffer, Plan, Status};
use lifetime::{Bytes, Tier};

use crate::{
    Error, PictureOptions,
    escape::{markup, readable},
    model::{CleanGap, Model, clean_gaps},
    numbers::{counted, cut, grouped, percent},
    pack::Packer,
    palette::{DARK, LIGHT, tier_index},
    shell::{Page, filled, icon},
    ticks::bytes,
};

const BODY: &str = include_str!("../assets/plan.html");
const STYLE: &str = concat!(include_str!("../assets/stage.css"), include_str!("../assets/plan.css"));
const SCRIPTS: [&str; 7] = [
    include_str!("../assets/raster.js"),
    include_str!("../assets/stage.js"),
    include_str!("../assets/input.js"),
    include_str!("../assets/plan-data.js"),
    include_str!("../assets/plan-raster.js"),
    include_str!("../assets/plan-view.js"),
    include_str!("../assets/plan-main.js"),
];

/// Longer names are cut, so that a page's size follows the number of buffers.
const MAX_NAME_BYTES: usize = 1024;

/// Writes `plan` as one HTML file that needs no network.
///
/// Names may hold anything: they travel as base 64 and are shown as text. Numbers are exact up to 64 bits. The file
/// takes about 12 bytes a buffer plus its deflated names, and some 80 KiB for the page itself; names are cut at
/// 1 KiB.
///
/// # Errors
/// [`Error::EmptyLiveRange`], [`Error::EndOverflow`] and [`Error::TooManyBuffers`] before anything is written;
/// [`Error::Write`] when `out` fails, with part of the page written.
pub fn write_html(plan: &Plan, options: &PictureOptions, out: impl Write) -> Result<(), Error> {
    let model = Model::new(plan)?;
    let title = title_of(plan, options);
    let body = filled(BODY, |name| match name.strip_prefix("icon-") {
        Some(which) => icon(which),
        None => part(name, &title, plan),
    });
    let page = Page { title: &title, theme: options.theme, style: STYLE, body: &body, scripts: &SCRIPTS };
    page.write(out, |out| write_data(&model, out))?;
    Ok(())
}

/// What a picture is called.
pub(crate) fn title_of(plan: &Plan, options: &PictureOptions) -> String {
    let title = options.title.as_deref().unwrap_or(&plan.name);
    if title.trim().is_empty() { "untitled plan".to_owned() } else { cut(title, 300).into_owned() }
}

/// What a lower bound rests on, for people.
pub(crate) fn bound_note(kind: BoundKind) -> &'static str {
    match kind {
        BoundKind::Load => "most bytes live at once",
        BoundKind::AlignedLoad => "most aligned bytes live at once",
        BoundKind::Fixed => "end of a fixed buffer",
        BoundKind::Search => "proved by search",
    }
}

/// Number and bytes of the buffers of each tier.
pub(crate) fn tier_totals(plan: &Plan) -> [(u64, u128); 3] {
    let mut totals = [(0, 0); 3];
    for buffer in &plan.buffers {
        let total = &mut totals[tier_index(buffer.tier)];
        total.0 += 1;
        total.1 += u128::from(buffer.bytes.0);
    }
    totals
}

/// Bytes that may have been summed past 64 bits.
pub(crate) fn sum_text(sum: u128) -> String {
    bytes(Bytes(u64::try_from(sum).unwrap_or(u64::MAX)))
}

/// The escaped markup of a placeholder.
fn part(name: &str, title: &str, plan: &Plan) -> String {
    match name {
        "title" => markup(title),
        "solver" if plan.solver.is_empty() => String::new(),
        "solver" => format!(" by {}", markup(&cut(&plan.solver, 100))),
        "label" => markup(&format!(
            "Memory plan {title}: {}, peak {}, lower bound {}, {}",
            counted(plan.buffers.len() as u64, "buffer", "buffers"),
            plan.peak,
            plan.lower_bound,
            plan.status.name()
        )),
        "facts" => facts(plan),
        "tiers" => tiers(plan),
        "marks" => marks(plan),
        _ => String::new(),
    }
}

fn facts(plan: &Plan) -> String {
    let mut text = String::new();
    let mut add = |term: &str, value: String, class: &str, hint: String| {
        text.push_str(&format!(
            "<div title=\"{}\"><dt>{}</dt><dd class=\"{class}\">{}</dd></div>\n",
            markup(&hint),
            markup(term),
            markup(&value)
        ));
    };
    let exact = |value: Bytes| counted(value.0, "byte", "bytes");
    let (status, class, hint) = match plan.status {
        Status::Optimal => ("Optimal", "good", "no plan has a lower peak"),
        Status::Feasible => ("Feasible", "", "valid; a lower peak may exist"),
        Status::Infeasible => ("Infeasible", "bad", "the peak is above the capacity"),
    };
    add("status", status.to_owned(), class, hint.to_owned());
    add("peak", bytes(plan.peak), "", exact(plan.peak));
    let note = format!("{}: {}", bound_note(plan.bound_kind), exact(plan.lower_bound));
    add("lower bound", bytes(plan.lower_bound), "", note);
    add("gap", percent(plan.gap()), "", "(peak - lower bound) / lower bound".to_owned());
    add("max load", bytes(plan.max_load), "", format!("most bytes live at one moment: {}", exact(plan.max_load)));
    if let Some(capacity) = plan.capacity {
        add("capacity", bytes(capacity), if plan.peak > capacity { "bad" } else { "" }, exact(capacity));
    }
    add("buffers", grouped(plan.buffers.len() as u64), "", String::new());
    text
}

fn tiers(plan: &Plan) -> String {
    let totals = tier_totals(plan);
    let button = |tier: Tier| {
        let (count, sum) = totals[tier_index(tier)];
        format!(
            "<button type=\"button\" class=\"tier {tier}\" aria-pressed=\"true\"><span class=\"swatch\"></span>{tier} \
             <span class=\"note\">{}, {}</span></button>\n",
            grouped(count),
            sum_text(sum)
        )
    };
    Tier::ALL.map(button).concat()
}

fn marks(plan: &Plan) -> String {
    let mut text = "<li><span class=\"hatch\"></span>hole</li>\n".to_owned();
    if plan.peak == plan.lower_bound {
        text.push_str("<li><span class=\"line\"></span>peak = lower bound</li>\n");
    } else {
        text.push_str(
            "<li><span class=\"line\"></span>peak</li>\n<li><span class=\"line bound\"></span>lower bound</li>\n",
        );
    }
    if plan.capacity.is_some() {
        text.push_str("<li><span class=\"line capacity\"></span>capacity</li>\n");
    }
    text
}

/// Writes what the script reads: `plan-facts` (JSON made of numbers and our own words only, 64-bit numbers as
/// strings) and `plan-data` (packed columns, in the order of `readPlan` in `plan-data.js`).
fn write_data<W: Write>(model: &Model<'_>, mut out: W) -> io::Result<W> {
    let plan = model.plan;
    let gaps: Vec<Vec<CleanGap>> =
        model.buffers().map(|b| if b.gaps.is_empty() { Vec::new() } else { clean_gaps(b) }).collect();
    let gap_count: usize = gaps.iter().map(Vec::len).sum();
    let capacity = plan.capacity.map_or("null".to_owned(), |c| format!("\"{}\"", c.0));
    let tiers = Tier::ALL.map(|tier| format!("{{\"name\":\"{tier}\"}}")).join(",");
    writeln!(
        out,
        "<script type=\"application/json\" id=\"plan-facts\">{{\"buffers\":{},\"gaps\":{gap_count},\"start\":\"{}\",\
         \"end\":\"{}\",\"top\":\"{}\",\"unit\":{},\"timeTitle\":\"{}\",\"peak\":\"{}\",\"bound\":\"{}\",\
         \"capacity\":{capacity},\"tiers\":[{tiers}],\"palettes\":{{\"light\":{},\"dark\":{}}}}}</script>",
        plan.buffers.len(),
        model.start,
        model.end,
        model.top,
        model.time_unit(),
        model.time_title(),
        plan.peak.0,
        plan.lower_bound.0,
        LIGHT.json(),
        DARK.json(),
    )?;
    write!(out, "<script type=\"application/octet-stream\" id=\"plan-data\">")?;
    let mut out = pack(model, &gaps, gap_count, out)?;
    writeln!(out, "</script>")?;
    Ok(out)
}

fn pack<W: Write>(model: &Model<'_>, gaps: &[Vec<CleanGap>], gap_count: usize, out: W) -> io::Result<W> {
    let buffers = || model.buffers();
    let mut packer = Packer::new(out);
    // Births as differences, the first from the start of the picture.
    let births = std::iter::once(model.start).chain(buffers().map(|b| b.range.birth.0));
    packer.wide(births.zip(buffers()).map(|(before, b)| b.range.birth.0 - before))?;
    packer.wide(buffers().map(|b| b.range.half_steps()))?;
    packer.wide(buffers().map(|b| b.offset.0))?;
    packer.wide(buffers().map(|b| b.bytes.0))?;
    packer.wide(buffers().map(|b| b.alignment))?;
    let flags: Vec<u8> = buffers().map(flags).collect();
    packer.raw(&flags)?;
    // A gap takes 32 bytes, so their number fits 32 bits wherever the plan fits the memory of a browser.
    let mut starts = Vec::with_capacity(gaps.len() + 1);
    starts.push(0);
    let mut sum = 0_u32;
    for list in gaps {
        sum = u32::try_from(list.len()).ok().and_then(|n| sum.checked_add(n)).ok_or(io::ErrorKind::InvalidInput)?;
        starts.push(sum);
    }
    packer.narrow(starts.into_iter())?;
    let mut all: Vec<(u64, CleanGap)> = Vec::with_capacity(gap_count);
    for (list, buffer) in gaps.iter().zip(buffers()) {
        all.extend(list.iter().map(|&gap| (buffer.range.birth.0, gap)));
    }
    packer.wide(all.iter().map(|(birth, gap)| gap.start - birth))?;
    packer.wide(all.iter().map(|(_, gap)| gap.end - gap.start))?;
    packer.wide(all.iter().map(|(_, gap)| gap.kept.0))?;
    packer.wide(all.iter().map(|(_, gap)| gap.kept.1))?;
    let texts = || buffers().flat_map(texts);
    let shown = |text| readable(&cut(text, MAX_NAME_BYTES)).into_owned();
    packer.narrow(texts().map(|text| shown(text).len() as u32))?;
    for text in texts() {
        packer.raw(shown(text).as_bytes())?;
    }
    packer.finish()
}

/// Tier in the two lowest bits, then 'fixed', then 'has an op'.
fn flags(buffer: &PlacedBuffer) -> u8 {
    let tier = match buffer.tier {
        Tier::Persistent => 0,
        Tier::Cyclic => 1,
        Tier::Temporary => 2,
    };
    tier | u8::from(buffer.fixed) << 2 | u8::from(buffer.op.is_some()) << 3
}

/// Name, identifier (empty where it is the name again) and op.
fn texts(buffer: &PlacedBuffer) -> [&str; 3] {
    let id = if buffer.id == buffer.name { "" } else { &buffer.id };
    [&buffer.name, id, buffer.op.as_deref().unwrap_or("")]
}
