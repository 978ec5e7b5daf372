//! What pictures promise, whatever the plan: they can be opened, they are small, they show the right bytes, and names
//! do nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(missing_docs)]

#[path = "../examples/picture/plans.rs"]
mod plans;

use std::{
    io::{Read, Write},
    path::PathBuf,
    time::{Duration, Instant},
};

use coloring::Plan;
use lifetime::{Bytes, HalfStep, LiveRange, Tier};
use memviz::{Error, PictureOptions, Theme, write_html, write_png, write_svg};
use tiny_skia::Pixmap;

fn options() -> PictureOptions {
    PictureOptions::default()
}

fn html(plan: &Plan) -> String {
    let mut page = Vec::new();
    write_html(plan, &options(), &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

fn svg(plan: &Plan) -> String {
    let mut picture = Vec::new();
    write_svg(plan, &options(), &mut picture).unwrap();
    String::from_utf8(picture).unwrap()
}

fn png(plan: &Plan, options: &PictureOptions) -> Pixmap {
    let mut picture = Vec::new();
    write_png(plan, options, &mut picture).unwrap();
    Pixmap::decode_png(&picture).unwrap()
}

/// What stands between two marks.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).unwrap() + from.len();
    let length = text[start..].find(to).unwrap();
    &text[start..start + length]
}

/// The columns that a page's script reads.
struct Data {
    bytes: Vec<u8>,
    at: usize,
}

impl Data {
    fn of(page: &str) -> Self {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let text = between(page, "id=\"plan-data\">", "</script>");
        let mut packed = Vec::new();
        for four in text.as_bytes().chunks(4) {
            let digits: Vec<u32> = four
                .iter()
                .filter(|&&c| c != b'=')
                .map(|c| ALPHABET.iter().position(|a| a == c).unwrap() as u32)
                .collect();
            let word = digits.iter().enumerate().fold(0, |word, (i, digit)| word | digit << (18 - 6 * i));
            packed.extend_from_slice(&word.to_be_bytes()[1..digits.len()]);
        }
        let mut bytes = Vec::new();
        flate2::read::DeflateDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        Self { bytes, at: 0 }
    }

    fn raw(&mut self, length: usize) -> &[u8] {
        self.at += length;
        &self.bytes[self.at - length..self.at]
    }

    fn numbers(&mut self, count: usize, width: usize) -> Vec<u64> {
        let planes = self.raw(count * width);
        (0..count).map(|i| (0..width).map(|plane| u64::from(planes[plane * count + i]) << (8 * plane)).sum()).collect()
    }
}

#[test]
fn every_plan_gives_every_picture() {
    for source in ["empty", "one", "small", "hostile", "extreme"] {
        let plan = plans::from_source(source).unwrap();
        assert!(html(&plan).ends_with("</html>\n"), "{source}");
        let picture = svg(&plan);
        let document = roxmltree::Document::parse(&picture).unwrap_or_else(|e| panic!("{source}: {e}"));
        assert_eq!(document.root_element().tag_name().name(), "svg", "{source}");
        let pixels = png(&plan, &options());
        assert_eq!((pixels.width(), pixels.height()), (1600, 900), "{source}");
    }
}

#[test]
fn the_extremes_of_64_bits_are_drawn() {
    const MAX: u64 = u64::MAX;
    for (life, bytes, offset) in [
        ((0, MAX), MAX, 0),
        ((MAX - 1, MAX), 1, MAX - 1),
        ((0, 1), MAX, 0),
        ((1 << 60, (1 << 60) + 1), 1 << 62, 1 << 62),
        ((0, MAX), 0, MAX),
    ] {
        let mut plan = plans::finish("extreme", vec![plans::buffer("b", life, bytes, offset, Tier::Cyclic)]);
        plan.capacity = Some(Bytes(MAX));
        plan.end = HalfStep(MAX);
        let mut data = Data::of(&html(&plan));
        assert_eq!(data.numbers(1, 8), [0]);
        assert_eq!(data.numbers(1, 8), [life.1 - life.0]);
        assert_eq!(data.numbers(1, 8), [offset]);
        assert_eq!(data.numbers(1, 8), [bytes]);
        roxmltree::Document::parse(&svg(&plan)).unwrap();
        png(&plan, &options());
    }
}

#[test]
fn a_page_holds_every_buffer_exactly() {
    let plan = plans::small();
    let page = html(&plan);
    let mut data = Data::of(&page);
    let birth_steps = data.numbers(6, 8);
    let births: Vec<u64> = birth_steps
        .iter()
        .scan(0, |sum, step| {
            *sum += step;
            Some(*sum)
        })
        .collect();
    assert_eq!(births, [0, 0, 10, 40, 50, 60]);
    assert_eq!(data.numbers(6, 8), [100, 20, 80, 4, 2, 40]);
    assert_eq!(data.numbers(6, 8), [0, 1024, 2048, 4096, 4096, 1024]);
    assert_eq!(data.numbers(6, 8), [1024, 1024, 2048, 4096, 1000, 1024]);
    assert_eq!(data.numbers(6, 8), [1, 1, 256, 1, 1, 1]);
    // Persistent and fixed; temporary; cyclic with an op; ...
    assert_eq!(data.raw(6), [4, 2, 1 + 8, 2, 2, 1]);
    assert_eq!(data.numbers(7, 4), [0, 0, 0, 0, 0, 0, 1]);
    let gap: Vec<u64> = (0..4).flat_map(|_| data.numbers(1, 8)).collect();
    assert_eq!(gap, [10, 10, 0, 512]);
    let lengths = data.numbers(18, 4);
    let mut texts = lengths.iter().map(|&length| String::from_utf8(data.raw(length as usize).to_vec()).unwrap());
    assert_eq!(
        texts.by_ref().take(9).collect::<Vec<_>>(),
        ["weights", "", "", "input", "", "", "hidden.1", "t7", "dense.1"]
    );
    assert_eq!(texts.count(), 9);
    assert_eq!(data.at, data.bytes.len());
    let facts = between(&page, "id=\"plan-facts\">", "</script>");
    assert!(facts.contains("\"peak\":\"8192\",\"bound\":\"7168\",\"capacity\":\"9000\""), "{facts}");
}

#[test]
fn hostile_names_cannot_leave_their_place() {
    let plan = plans::hostile();
    let page = html(&plan);
    // Two data blocks and one script, and nothing else that opens or closes one.
    assert_eq!(page.matches("<script").count(), 3);
    assert_eq!(page.matches("</script").count(), 3);
    assert_eq!(page.matches("<!--").count(), 0);
    assert_eq!(
        page.matches("window.hacked").count(),
        page.matches("&lt;script&gt;window.hacked=1").count() + page.matches("onerror=&quot;window.hacked=3").count()
    );
    assert!(!page.contains("\u{2028}") && !page.contains("<img"));
    let picture = svg(&plan);
    let document = roxmltree::Document::parse(&picture).unwrap();
    for node in document.descendants().filter(|node| node.is_element()) {
        let name = node.tag_name().name();
        assert!(["svg", "title", "desc", "rect", "path", "pattern", "text", "tspan"].contains(&name), "{name}");
        assert!(node.attributes().all(|a| !a.name().starts_with("on") && a.name() != "href"));
    }
    let texts: String = document.descendants().filter_map(|node| node.text()).collect();
    assert!(texts.contains("<!--<script>window.hacked=2"), "the name itself is still shown");
}

#[test]
fn a_page_asks_nobody_for_anything() {
    let page = html(&plans::small());
    for word in ["http://", "https://", "//cdn", "@import", "url(", "<link rel=\"stylesheet\"", " src="] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.contains("content=\"default-src 'none'; script-src 'sha256-"));
    let references: Vec<_> = svg(&plans::small()).match_indices("http").map(|(at, _)| at).collect();
    assert_eq!(references.len(), 1, "the name space only");
}

#[test]
fn thirty_thousand_buffers_are_small_and_quick() {
    let plan = plans::synthetic(30_000);
    let timed = |draw: &dyn Fn(&mut Vec<u8>)| {
        let (mut out, begun) = (Vec::new(), Instant::now());
        draw(&mut out);
        (out.len(), begun.elapsed())
    };
    let (page, page_time) = timed(&|out| write_html(&plan, &options(), out).unwrap());
    let (vector, vector_time) = timed(&|out| write_svg(&plan, &options(), out).unwrap());
    let (pixels, pixels_time) = timed(&|out| write_png(&plan, &options(), out).unwrap());
    println!("html {page} bytes {page_time:?}, svg {vector} bytes {vector_time:?}, png {pixels} bytes {pixels_time:?}");
    assert!(page < 1_000_000 && vector < 5_000_000 && pixels < 2_000_000);
    assert!(pixels_time < Duration::from_secs(2), "{pixels_time:?}");
    assert!(page_time < Duration::from_secs(2) && vector_time < Duration::from_secs(2));
}

#[test]
fn svg_stays_small_for_the_worst_plan() {
    // A weave of rectangles with holes between them, in no order that joins.
    let mut buffers = Vec::new();
    for i in 0..200_000_u64 {
        let (column, row) = (i % 500, i / 500);
        let life = (column * 8 + row * 7 % 5, column * 8 + 6 + row * 3 % 2);
        buffers.push(plans::buffer(
            "b",
            life,
            40 + (i * 7919) % 20,
            row * 64 + i % 4,
            Tier::ALL[(i * 31 % 3) as usize],
        ));
    }
    let picture = svg(&plans::finish("weave", buffers));
    assert!(picture.len() < 5_000_000, "{}", picture.len());
    roxmltree::Document::parse(&picture).unwrap();
}

#[test]
fn a_png_shows_buffers_in_their_colours_and_holes_between_them() {
    let plan = plans::small();
    for (theme, scale) in [(Theme::Light, 1), (Theme::Dark, 1), (Theme::Light, 2)] {
        let options = options().with_theme(theme).with_scale(scale);
        let picture = png(&plan, &options);
        assert_eq!(picture.width(), 1600 * scale);
        // The map's frame, read from the SVG of the same layout: ticks tell where bytes lie.
        let at = |time: f64, byte: f64| {
            let (left, right, top, bottom) = map_edges();
            let (x, y) = (left + time / 100.0 * (right - left), bottom - byte / (9000.0 * 1.03) * (bottom - top));
            let pixel = picture.pixel((x * f64::from(scale)) as u32, (y * f64::from(scale)) as u32).unwrap();
            [i32::from(pixel.red()), i32::from(pixel.green()), i32::from(pixel.blue())]
        };
        let weights = at(70.0, 300.0);
        assert!(weights[2] > weights[0] + 50, "weights are blue: {weights:?}");
        let hidden = at(70.0, 2300.0);
        assert!(hidden[0] > hidden[2] + 80, "hidden.1 is amber: {hidden:?}");
        let input = at(15.0, 1100.0);
        assert!(input[1] > input[0] + 50, "input is teal: {input:?}");
        let (above, beyond) = (at(30.0, 6000.0), at(30.0, 8500.0));
        assert_ne!(above, beyond, "above the peak looks different");
        // The hatch repeats every 8 pixels along a row: both of its colours are found.
        let hatch: std::collections::HashSet<_> = (0..80).map(|i| at(30.0 + f64::from(i) / 20.0, 1500.0)).collect();
        assert!(hatch.len() >= 2 && !hatch.contains(&above), "{hatch:?}");
    }
}

/// Where the map of a default picture of `small` lies: left, right, top, bottom. The ground of the map is the second
/// large rectangle of the SVG; the first is the page's.
fn map_edges() -> (f64, f64, f64, f64) {
    let picture = svg(&plans::small());
    let document = roxmltree::Document::parse(&picture).unwrap();
    let ground = document
        .descendants()
        .filter(|node| node.has_tag_name("path"))
        .filter_map(|node| node.attribute("d"))
        .map(|d| d.split(['M', ' ', 'h', 'v', 'z']).filter_map(|n| n.parse::<f64>().ok()).collect::<Vec<_>>())
        .find(|n| n.len() >= 4 && n[2] > 1000.0 && n[3] > 400.0)
        .unwrap();
    (ground[0], ground[0] + ground[2], ground[1], ground[1] + ground[3])
}

#[test]
fn a_png_has_letters_in_its_heading() {
    let mut plan = plans::small();
    plan.name = "A long heading to look at".to_owned();
    let ink = |plan: &Plan| {
        let picture = png(plan, &options());
        let ground = picture.pixel(2, 2).unwrap();
        (0..44)
            .flat_map(|y| (0..600).map(move |x| (x, y)))
            .filter(|&(x, y)| picture.pixel(x, y).unwrap() != ground)
            .count()
    };
    let long = ink(&plan);
    plan.name = "A".to_owned();
    let short = ink(&plan);
    assert!(short > 40 && long > short * 8, "{short} {long}");
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let mut plan = plans::small();
    for options in [options().with_size(10, 900), options().with_size(1600, 100_000)] {
        assert!(matches!(write_svg(&plan, &options, Vec::new()), Err(Error::Size { .. })));
        assert!(matches!(write_png(&plan, &options, Vec::new()), Err(Error::Size { .. })));
    }
    assert!(matches!(write_png(&plan, &options().with_scale(9), Vec::new()), Err(Error::Size { .. })));
    plan.buffers[2].range = LiveRange { birth: HalfStep(7), death: HalfStep(3) };
    let mut out = Vec::new();
    assert!(matches!(write_html(&plan, &options(), &mut out), Err(Error::EmptyLiveRange { .. })));
    assert!(matches!(write_svg(&plan, &options(), &mut out), Err(Error::EmptyLiveRange { .. })));
    assert!(matches!(write_png(&plan, &options(), &mut out), Err(Error::EmptyLiveRange { .. })));
    assert!(out.is_empty(), "a refused plan leaves nothing behind");
}

/// A disk that fills up after some bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_reported() {
    let plan = plans::synthetic(2_000);
    for room in [0, 100, 60_000, 85_000] {
        assert!(matches!(write_html(&plan, &options(), Full(room)), Err(Error::Write(_))), "{room}");
    }
    assert!(matches!(write_svg(&plan, &options(), Full(1000)), Err(Error::Write(_))));
    assert!(matches!(write_png(&plan, &options(), Full(1000)), Err(Error::Write(_))));
}

#[test]
fn the_same_plan_gives_the_same_bytes() {
    let plan = plans::synthetic(3_000);
    assert_eq!(html(&plan), html(&plan));
    assert_eq!(svg(&plan), svg(&plan));
}

#[test]
fn titles_and_themes_are_taken_over() {
    let plan = plans::small();
    let mut page = Vec::new();
    write_html(&plan, &options().with_title("Mine & <yours>").with_theme(Theme::Dark), &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("<title>Mine &amp; &lt;yours&gt;</title>"));
    assert!(page.contains("<html lang=\"en\" data-theme=\"dark\">"));
    assert!(html(&plan).contains("<html lang=\"en\">"));
}

/// Folder of the data that lies beside the repository, if it is there.
fn shared() -> Option<PathBuf> {
    let folder = std::env::var_os("GPUMEM_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let found = folder.join("graphs").is_dir().then_some(folder);
    if found.is_none() {
        println!("not run: shared data absent");
    }
    found
}

#[test]
fn real_plans_are_drawn() {
    let Some(shared) = shared() else { return };
    let mut seen = 0;
    for entry in std::fs::read_dir(shared.join("graphs/xla")).unwrap() {
        let path = entry.unwrap().path();
        let path = path.to_str().unwrap();
        if !path.ends_with(".temp.xla-offsets.csv.gz") {
            continue;
        }
        let plan = plans::from_source(path).unwrap();
        let page = html(&plan);
        assert!(page.len() < 100_000 + plan.buffers.len() * 60, "{path}: {}", page.len());
        roxmltree::Document::parse(&svg(&plan)).unwrap();
        png(&plan, &options());
        seen += 1;
    }
    assert!(seen > 5, "only {seen} plans found");
}
