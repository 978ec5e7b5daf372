//! What pages of histories promise, whatever the history: they can be opened, they are small, the same input gives the
//! same bytes, and names do nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(missing_docs)]

#[path = "../examples/picture/histories.rs"]
mod histories;

use memviz::{
    ColorBy, HistoryOptions, PictureOptions, Theme, write_history_html, write_history_png, write_history_svg,
};
use records::History;
use tiny_skia::Pixmap;

fn history(name: &str) -> History {
    histories::from_source(name).unwrap()
}

fn html(history: &History, options: &HistoryOptions) -> String {
    let mut page = Vec::new();
    write_history_html(history, options, &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

const ALL: [&str; 6] =
    ["small-history", "empty-history", "no-segments", "hostile-history", "inconsistent", "extreme-history"];

#[test]
fn a_page_asks_nobody_and_is_the_same_each_time() {
    for name in ALL {
        let history = history(name);
        let page = html(&history, &HistoryOptions::default());
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{name}");
        assert!(!page.contains("http://") && !page.contains("https://"), "{name}");
        assert!(page.contains("default-src 'none'"), "{name}");
        assert_eq!(page, html(&history, &HistoryOptions::default()), "{name}");
    }
}

#[test]
fn names_of_a_history_never_become_markup() {
    let page = html(&history("hostile-history"), &HistoryOptions::default());
    for name in histories::HOSTILE.iter().filter(|name| name.contains('<')) {
        assert!(!page.contains(name), "{name}");
    }
    // Facts, texts, three blocks of the device, the page's own script.
    assert_eq!(page.matches("<script").count(), 6);
    assert_eq!(page.matches("</script").count(), 6);
}

#[test]
fn theme_title_and_colours_are_the_callers() {
    let picture = PictureOptions::default().with_theme(Theme::Dark).with_title("a <title>");
    let options = HistoryOptions { picture, color_by: ColorBy::Tag, ..HistoryOptions::default() };
    let page = html(&history("small-history"), &options);
    assert!(page.contains("data-theme=\"dark\"") && page.contains("<title>a &lt;title&gt;</title>"));
    assert!(page.contains("<option value=\"tag\" selected>"));
}

#[test]
fn a_part_of_a_history_is_a_smaller_page() {
    let history = history("run:20000");
    let whole = html(&history, &HistoryOptions::default());
    let part = html(&history, &HistoryOptions { from: Some(9000), to: Some(9500), ..HistoryOptions::default() });
    assert!(whole.len() < 600_000, "{}", whole.len());
    assert!(part.len() + 50_000 < whole.len(), "{} {}", part.len(), whole.len());
    assert!(part.contains("\"from\":\"9000\",\"moments\":501"));
}

#[test]
fn a_million_stacks_stay_within_their_limit() {
    let mut history = history("small-history");
    let device = &mut history.devices[0];
    let alloc = device.events[1];
    for at in 0..30_000_u32 {
        let function = history.names.intern(&format!("function {at} {}", "x".repeat(600)));
        let frame = history.stacks.intern_frame(records::Frame { function, ..records::Frame::default() });
        let stack = history.stacks.intern(&[frame]);
        device.events.push(records::Event { stack, address: u64::from(at) << 20 | 1 << 50, ..alloc });
    }
    let options = HistoryOptions { max_stacks: 1000, ..HistoryOptions::default() };
    let page = html(&history, &options);
    assert!(page.contains("\"stacks\":1000,") && page.contains("\"allStacks\":30002"), "limits are not stated");
    assert!(page.len() < 1_500_000, "{}", page.len());
}

fn svg(history: &History, options: &HistoryOptions) -> String {
    let mut picture = Vec::new();
    write_history_svg(history, options, &mut picture).unwrap();
    String::from_utf8(picture).unwrap()
}

#[test]
fn still_pictures_are_well_formed_and_bounded() {
    for name in ALL.into_iter().chain(["run:100000"]) {
        let history = history(name);
        for color_by in ColorBy::ALL {
            let text = svg(&history, &HistoryOptions { color_by, ..HistoryOptions::default() });
            let document = roxmltree::Document::parse(&text).unwrap();
            assert_eq!(document.root_element().tag_name().name(), "svg", "{name}");
            assert!(document.descendants().all(|node| !["script", "image", "a"].contains(&node.tag_name().name())));
            assert!(text.len() < 2_000_000, "{name}: {}", text.len());
        }
    }
}

#[test]
fn a_still_picture_shows_blocks_holes_and_what_is_pending_in_their_places() {
    let picture = PictureOptions::default().with_size(1000, 800);
    let options = HistoryOptions { picture, ..HistoryOptions::default() };
    let mut file = Vec::new();
    write_history_png(&history("small-history"), &options, &mut file).unwrap();
    let pixels = Pixmap::decode_png(&file).unwrap();
    // The ground of the layout is the last shape in the colour of what isn't reserved: all addresses, all moments.
    let text = svg(&history("small-history"), &options);
    let document = roxmltree::Document::parse(&text).unwrap();
    let ground = document.descendants().rfind(|node| node.attribute("fill") == Some("#eef0f4")).unwrap();
    let path = ground.attribute("d").unwrap();
    let numbers: Vec<f64> =
        path.split(|c: char| !c.is_ascii_digit() && c != '.').filter_map(|n| n.parse().ok()).collect();
    let [left, top, width, height, ..] = numbers[..] else { panic!("{path}") };
    let at = |moment: f64, share: f64| {
        let (x, y) = (left + width * moment / 14.0, top + height * (1.0 - share));
        let pixel = pixels.pixel(x as u32, y as u32).unwrap();
        [pixel.red(), pixel.green(), pixel.blue()]
    };
    let near = |a: [u8; 3], b: [u8; 3]| a.iter().zip(b).all(|(a, b)| a.abs_diff(b) < 30);
    // Of 128 KiB: weights up to 16, nothing reserved above 96 before event 11, `grads` from 64 to 96.
    assert!(near(at(7.3, 0.03), [0x3f, 0x5a, 0xa0]), "weights: {:?}", at(7.3, 0.03));
    assert!(near(at(5.0, 0.9), [0xee, 0xf0, 0xf4]), "not reserved: {:?}", at(5.0, 0.9));
    assert!(near(at(11.5, 0.62), [0xf2, 0xb3, 0x48]), "grads: {:?}", at(11.5, 0.62));
    assert!(!near(at(12.5, 0.28), at(8.4, 0.28)), "what is pending looks as if it were live");
}

#[test]
fn names_in_a_still_picture_are_text() {
    let text =
        svg(&history("hostile-history"), &HistoryOptions { color_by: ColorBy::Tag, ..HistoryOptions::default() });
    assert!(!text.contains("<script") && !text.contains("onload=window") || text.contains("&lt;svg onload"), "markup");
    assert!(text.contains("&lt;/script&gt;"), "the name is missing");
}
