//! What still pictures are drawn with: headings, rows of facts, legends, axes and labels that keep clear of each other.

use lifetime::Bytes;

use crate::{
    Error,
    escape::readable,
    font::Font,
    numbers::grouped,
    palette::{Palette, Rgb},
    scene::{Anchor, Item, Rect, Span, Text, Weight},
    ticks::{Tick, TimeTicks, bytes},
};

/// Room around a picture.
pub(crate) const PAD: f64 = 24.0;

/// The shape before a word of a legend.
pub(crate) enum Mark {
    /// A colour, with the colour of its edge.
    Fill(Rgb, Rgb),
    /// A hatch: its ground and its lines.
    Hatch(Rgb, Rgb),
    /// A line with its dashes.
    Line(Rgb, &'static [f64]),
}

/// A line across a plot and what it is called.
pub(crate) struct Rule {
    /// What it is called.
    pub(crate) name: &'static str,
    /// Where it lies.
    pub(crate) byte: u64,
    /// Its colour.
    pub(crate) color: Rgb,
    /// Its dashes.
    pub(crate) dashes: &'static [f64],
}

/// A picture in the making.
pub(crate) struct Sketch {
    /// Colours.
    pub(crate) palette: &'static Palette,
    /// Measures text.
    pub(crate) font: Font,
    /// How much wider text may turn out than the embedded font makes it.
    pub(crate) slack: f64,
    /// Width in pixels.
    pub(crate) width: f64,
    /// Height in pixels.
    pub(crate) height: f64,
    /// What was drawn.
    pub(crate) items: Vec<Item>,
}

impl Sketch {
    /// Nothing yet.
    pub(crate) fn new(palette: &'static Palette, slack: f64, width: u32, height: u32) -> Result<Self, Error> {
        let (width, height) = (f64::from(width), f64::from(height));
        Ok(Self { palette, font: Font::new()?, slack, width, height, items: Vec::new() })
    }

    /// The title; returns where the row below it lies.
    pub(crate) fn heading(&mut self, title: &str) -> f64 {
        let room = self.width - 2.0 * PAD;
        let size = if self.width < 800.0 { 18.0 } else { 22.0 };
        let title = self.font.fitted(&readable(title), size, Weight::Bold, room / self.slack);
        self.text((PAD, PAD + 16.0), size, Weight::Bold, Anchor::Start, self.palette.text, title);
        PAD + 42.0
    }

    /// Numbers in a row, as many rows as they need; returns where the last one lies.
    pub(crate) fn facts(&mut self, mut y: f64, facts: Vec<(&str, String, Rgb)>) -> f64 {
        // A row is one text, so that it runs on as its font wants.
        let mut x = PAD;
        let mut spans = Vec::new();
        for (name, value, color) in facts {
            let name = format!("{name}\u{a0} ");
            let wide = self.wide(&name, 13.0, Weight::Regular) + self.wide(&value, 13.0, Weight::Bold);
            if x > PAD && x + wide > self.width - PAD {
                self.row((PAD, y), 13.0, std::mem::take(&mut spans));
                (x, y) = (PAD, y + 20.0);
            }
            let rest = "\u{a0} \u{a0} \u{a0} ".to_owned();
            x += wide + self.wide(&rest, 13.0, Weight::Regular);
            spans.push(Span { text: name, weight: Weight::Regular, color: self.palette.muted });
            spans.push(Span { text: value, weight: Weight::Bold, color });
            spans.push(Span { text: rest, weight: Weight::Regular, color });
        }
        self.row((PAD, y), 13.0, spans);
        y
    }

    /// What colours and lines mean; returns where it ends.
    pub(crate) fn legend(&mut self, mut y: f64, marks: Vec<(Mark, String)>) -> f64 {
        let mut x = PAD;
        for (mark, name) in marks {
            let wide = self.wide(&name, 12.0, Weight::Regular);
            if x > PAD && x + 22.0 + wide > self.width - PAD {
                (x, y) = (PAD, y + 20.0);
            }
            let swatch = Rect { x, y: y - 10.0, w: 16.0, h: 12.0 };
            match mark {
                Mark::Fill(fill, rim) => {
                    self.items.push(Item::Rects { fill, alpha: 1.0, rim: Some(rim), note: None, rects: vec![swatch] });
                }
                Mark::Hatch(ground, line) => {
                    self.items.push(Item::Hatch { ground, line, rects: vec![swatch] });
                    self.frame(swatch);
                }
                Mark::Line(color, dashes) => {
                    self.items.push(Item::Line {
                        from: (x, y - 4.0),
                        to: (x + 17.0, y - 4.0),
                        color,
                        width: 1.6,
                        dashes,
                    });
                }
            }
            self.text((x + 23.0, y), 12.0, Weight::Regular, Anchor::Start, self.palette.text, name);
            x += 23.0 + wide + 22.0;
        }
        y
    }

    /// Lines across a plot whose upper edge is byte `top`, the highest first.
    pub(crate) fn rules(&mut self, place: Rect, top: f64, rules: &[Rule]) {
        for rule in rules.iter().filter(|rule| rule.byte as f64 <= top) {
            let y = (place.bottom() - rule.byte as f64 / top * place.h).round();
            let (color, dashes) = (rule.color, rule.dashes);
            self.items.push(Item::Line { from: (place.x, y), to: (place.right(), y), color, width: 2.0, dashes });
        }
    }

    /// Their names: from the top down, each below the one before if they would touch.
    pub(crate) fn rule_names(&mut self, place: Rect, top: f64, rules: &[Rule]) {
        let mut shown: Vec<&Rule> = rules.iter().filter(|rule| rule.byte as f64 <= top).collect();
        shown.sort_by_key(|rule| std::cmp::Reverse(rule.byte));
        let mut free = place.y + 2.0;
        for rule in shown {
            let y = place.bottom() - rule.byte as f64 / top * place.h;
            let text = format!("{}\u{a0} {}", rule.name, bytes(Bytes(rule.byte)));
            let wide = self.wide(&text, 11.0, Weight::Bold) + 14.0;
            let middle = (y + 13.0).max(free + 9.0).min(place.bottom() - 9.0);
            let pill = Rect { x: place.right() - wide - 8.0, y: middle - 9.0, w: wide, h: 18.0 };
            let fill = self.palette.surface;
            self.items.push(Item::Rects { fill, alpha: 0.92, rim: None, note: None, rects: vec![pill] });
            self.text((pill.right() - 7.0, middle + 4.0), 11.0, Weight::Bold, Anchor::End, rule.color, text);
            free = middle + 11.0;
        }
    }

    /// Ticks to the left of a plot over `[0, top]`, and its title.
    pub(crate) fn left_axis(&mut self, place: Rect, top: f64, ticks: Vec<Tick>, title: &str) {
        for tick in ticks {
            let y = (place.bottom() - tick.at as f64 / top * place.h).round();
            self.tick((place.x - 5.0, y), (place.x - 1.0, y));
            let color = self.palette.text;
            self.text((place.x - 9.0, y + 4.0), 11.0, Weight::Regular, Anchor::End, color, tick.label);
        }
        let spans = vec![Span { text: title.to_owned(), weight: Weight::Regular, color: self.palette.muted }];
        let (x, y) = (16.0, place.y + place.h / 2.0);
        self.items.push(Item::Text(Text { x, y, size: 11.0, anchor: Anchor::Middle, upwards: true, spans }));
    }

    /// Ticks below a plot over `[start, end]`, and its title.
    pub(crate) fn foot_axis(&mut self, place: Rect, (start, end): (u64, u64), times: TimeTicks, title: &str) {
        let (text, muted) = (self.palette.text, self.palette.muted);
        for tick in times.ticks {
            let x = (place.x + (tick.at - start) as f64 / (end - start) as f64 * place.w).round();
            self.tick((x, place.bottom() + 1.0), (x, place.bottom() + 5.0));
            let half = self.wide(&tick.label, 11.0, Weight::Regular) / 2.0;
            let x = x.min(self.width - half - 4.0);
            self.text((x, place.bottom() + 18.0), 11.0, Weight::Regular, Anchor::Middle, text, tick.label);
        }
        let base = times.base.map_or(String::new(), |base| format!(", from {}", grouped(base)));
        let middle = (place.x + place.w / 2.0, place.bottom() + 37.0);
        self.text(middle, 11.0, Weight::Regular, Anchor::Middle, muted, format!("{title}{base}"));
    }

    /// A name on a rectangle that has room for it, with its bytes where there is more.
    pub(crate) fn label(&mut self, place: Rect, name: &str, size_text: String, color: Rgb) {
        let size = if place.h >= 24.0 && place.w >= 120.0 { 12.0 } else { 10.5 };
        let name = self.font.fitted(&readable(name), size, Weight::Regular, (place.w - 10.0) / self.slack);
        if name.is_empty() {
            return;
        }
        let (x, middle) = (place.x + 5.0, place.y + place.h / 2.0);
        let has_two = place.h >= 40.0 && place.w >= 90.0;
        let y = if has_two { middle - 3.0 } else { middle + size * 0.35 };
        self.text((x, y), size, Weight::Regular, Anchor::Start, color, name);
        if has_two {
            self.text((x, middle + 12.0), 10.5, Weight::Regular, Anchor::Start, color, size_text);
        }
    }

    /// Words in the middle of a plot in which nothing is.
    pub(crate) fn note(&mut self, place: Rect, text: &str) {
        let middle = (place.x + place.w / 2.0, place.y + place.h / 2.0);
        self.text(middle, 15.0, Weight::Regular, Anchor::Middle, self.palette.muted, text.to_owned());
    }

    /// Room that a text needs.
    pub(crate) fn wide(&self, text: &str, size: f64, weight: Weight) -> f64 {
        self.font.width(text, size, weight) * self.slack
    }

    fn tick(&mut self, from: (f64, f64), to: (f64, f64)) {
        // A line one pixel wide is sharp in the middle of a pixel.
        let sharp = |(x, y): (f64, f64)| if from.0 == to.0 { (x + 0.5, y) } else { (x, y + 0.5) };
        let color = self.palette.muted;
        self.items.push(Item::Line { from: sharp(from), to: sharp(to), color, width: 1.0, dashes: &[] });
    }

    /// A thin line around a place.
    pub(crate) fn frame(&mut self, place: Rect) {
        let (l, t, r, b) = (place.x - 0.5, place.y - 0.5, place.right() + 0.5, place.bottom() + 0.5);
        for (from, to) in [((l, t), (r, t)), ((l, b), (r, b)), ((l, t), (l, b)), ((r, t), (r, b))] {
            self.items.push(Item::Line { from, to, color: self.palette.hairline, width: 1.0, dashes: &[] });
        }
    }

    /// Rectangles of one colour.
    pub(crate) fn fill(&mut self, rects: Vec<Rect>, fill: Rgb) {
        self.items.push(Item::Rects { fill, alpha: 1.0, rim: None, note: None, rects });
    }

    /// Rectangles in which nothing is.
    pub(crate) fn holes(&mut self, rects: Vec<Rect>) {
        self.items.push(Item::Hatch { ground: self.palette.hole_ground, line: self.palette.hole, rects });
    }

    fn text(&mut self, at: (f64, f64), size: f64, weight: Weight, anchor: Anchor, color: Rgb, text: String) {
        let spans = vec![Span { text, weight, color }];
        self.items.push(Item::Text(Text { x: at.0, y: at.1, size, anchor, upwards: false, spans }));
    }

    fn row(&mut self, at: (f64, f64), size: f64, spans: Vec<Span>) {
        self.items.push(Item::Text(Text { x: at.0, y: at.1, size, anchor: Anchor::Start, upwards: false, spans }));
    }
}
