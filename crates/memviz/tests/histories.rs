//! What pages of histories promise, whatever the history: they can be opened, they are small, the same input gives the
//! same bytes, and names do nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(missing_docs)]

#[path = "../examples/picture/histories.rs"]
mod histories;

use memviz::{ColorBy, HistoryOptions, PictureOptions, Theme, write_history_html};
use records::History;

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
