//! The still picture of a plan: heading, legend, live curve, map, axes.

use coloring::Plan;
use lifetime::{Bytes, Tier};

use crate::{
    Error, PictureOptions,
    escape::readable,
    font::Font,
    model::{Model, Piece},
    numbers::{grouped, percent},
    palette::{Palette, tier_index},
    plan_page::{bound_note, sum_text, tier_totals, title_of},
    plan_rects::{self, Column, columns, joined, place_of},
    scene::{Anchor, Item, Rect, Scene, Span, Text, Weight},
    ticks::{byte_ticks, bytes, time_ticks},
};

const PAD: f64 = 24.0;
const BOUND_DASHES: &[f64] = &[7.0, 5.0];
const CAPACITY_DASHES: &[f64] = &[10.0, 4.0, 2.0, 4.0];
/// At most this many rectangles bear their name.
const MAX_LABELS: usize = 150;

/// What a picture is drawn on.
pub(crate) struct Medium {
    /// Edges of rectangles are rounded to multiples of this many pixels.
    pub(crate) unit: f64,
    /// How much wider text may turn out than the embedded font makes it.
    pub(crate) slack: f64,
}

/// Draws `plan`.
pub(crate) fn scene(plan: &Plan, options: &PictureOptions, medium: &Medium) -> Result<Scene, Error> {
    let model = Model::new(plan)?;
    let palette = Palette::of(options.theme);
    let title = title_of(plan, options);
    let mut drawing = Drawing {
        model: &model,
        palette,
        font: Font::new()?,
        slack: medium.slack,
        width: f64::from(options.width),
        height: f64::from(options.height),
        items: Vec::new(),
    };
    let header = drawing.header(&title);
    drawing.picture(header, medium.unit);
    let description = format!(
        "{} buffers; peak {}, lower bound {}, {}. Step on x, offset on y, one rectangle a buffer, coloured by tier; \
         free space below a live buffer is hatched; above it the curve of live bytes.",
        plan.buffers.len(),
        plan.peak,
        plan.lower_bound,
        plan.status.name()
    );
    let (width, height) = (options.width, options.height);
    Ok(Scene { width, height, ground: palette.ground, title, description, items: drawing.items })
}

struct Drawing<'a> {
    model: &'a Model<'a>,
    palette: &'static Palette,
    font: Font,
    slack: f64,
    width: f64,
    height: f64,
    items: Vec<Item>,
}

/// The shape before a word of the legend.
enum Mark {
    Tier(usize),
    Hole,
    Line(crate::palette::Rgb, &'static [f64]),
}

impl Drawing<'_> {
    /// Heading, numbers and legend; returns where they end.
    fn header(&mut self, title: &str) -> f64 {
        let room = self.width - 2.0 * PAD;
        let size = if self.width < 800.0 { 18.0 } else { 22.0 };
        let title = self.font.fitted(&readable(title), size, Weight::Bold, room / self.slack);
        self.text((PAD, PAD + 16.0), size, Weight::Bold, Anchor::Start, self.palette.text, title);
        let y = self.facts(PAD + 42.0);
        self.legend(y + 26.0)
    }

    /// Numbers in a row, as many rows as they need.
    fn facts(&mut self, mut y: f64) -> f64 {
        let plan = self.model.plan;
        let status_color = match plan.status {
            coloring::Status::Optimal => self.palette.good,
            coloring::Status::Feasible => self.palette.text,
            coloring::Status::Infeasible => self.palette.bad,
        };
        let mut facts = vec![
            ("status", plan.status.name().to_owned(), status_color),
            ("peak", bytes(plan.peak), self.palette.text),
            (
                "lower bound",
                format!("{} ({})", bytes(plan.lower_bound), bound_note(plan.bound_kind)),
                self.palette.text,
            ),
            ("gap", percent(plan.gap()), self.palette.text),
            ("max load", bytes(plan.max_load), self.palette.text),
        ];
        if let Some(capacity) = plan.capacity {
            let color = if plan.peak > capacity { self.palette.bad } else { self.palette.text };
            facts.push(("capacity", bytes(capacity), color));
        }
        facts.push(("buffers", grouped(plan.buffers.len() as u64), self.palette.text));
        if !plan.solver.is_empty() {
            facts.push(("by", self.font.fitted(&readable(&plan.solver), 13.0, Weight::Bold, 240.0), self.palette.text));
        }
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
    fn legend(&mut self, mut y: f64) -> f64 {
        let plan = self.model.plan;
        let totals = tier_totals(plan);
        let mut marks: Vec<(Mark, String)> = Tier::ALL
            .into_iter()
            .map(|tier| {
                let (count, sum) = totals[tier_index(tier)];
                (Mark::Tier(tier_index(tier)), format!("{tier}\u{a0} {}, {}", grouped(count), sum_text(sum)))
            })
            .collect();
        marks.push((Mark::Hole, "hole".to_owned()));
        for (name, _, color, dashes) in self.lines() {
            marks.push((Mark::Line(color, dashes), name.to_owned()));
        }
        let mut x = PAD;
        for (mark, name) in marks {
            let wide = self.wide(&name, 12.0, Weight::Regular);
            if x > PAD && x + 22.0 + wide > self.width - PAD {
                (x, y) = (PAD, y + 20.0);
            }
            let swatch = Rect { x, y: y - 10.0, w: 16.0, h: 12.0 };
            match mark {
                Mark::Tier(tier) => {
                    let (fill, rim) = (self.palette.tiers[tier], Some(self.palette.edge(tier)));
                    self.items.push(Item::Rects { fill, alpha: 1.0, rim, note: None, rects: vec![swatch] });
                }
                Mark::Hole => {
                    let (ground, line) = (self.palette.hole_ground, self.palette.hole);
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

    /// Live curve, map and axes, below `header`.
    fn picture(&mut self, header: f64, unit: f64) {
        let model = self.model;
        let capacity = model.plan.capacity.map_or(0, |c| c.0);
        // A capacity a little above the peak is worth seeing; one far above would press the plan flat.
        let near = if capacity as f64 <= model.top as f64 * 1.25 { capacity } else { 0 };
        let top = (model.top.max(near).max(1)) as f64 * 1.03;
        let left = 84.0;
        let right = (self.width - PAD).floor();
        let strip_top = (header + 16.0).round();
        let foot = (self.height - 52.0).round();
        let strip_height = ((foot - strip_top) * 0.18).clamp(40.0, 150.0).round();
        let strip = Rect::new(left, strip_top, right, strip_top + strip_height);
        let map = Rect::new(left, strip.bottom() + 16.0, right, foot.max(strip.bottom() + 56.0));
        let pieces = model.pieces();
        let count = (map.w / unit.max(0.5)).round().max(1.0) as usize;
        let columns = columns(model, &pieces, count);
        self.map_ground(map, top, unit, &columns);
        plan_rects::draw(model, &pieces, map, top, unit, self.palette, &mut self.items);
        self.names(&pieces, map, top);
        self.live(strip, top, &columns);
        for place in [strip, map] {
            self.frame(place);
            self.marks(place, top, place == map);
        }
        self.axes(strip, map, top);
        if model.plan.buffers.is_empty() {
            let middle = (map.x + map.w / 2.0, map.y + map.h / 2.0);
            let text = "This plan has no buffers.".to_owned();
            self.text(middle, 15.0, Weight::Regular, Anchor::Middle, self.palette.muted, text);
        }
    }

    /// Ground of the map: plain, darker above the peak, hatched in holes.
    fn map_ground(&mut self, map: Rect, top: f64, unit: f64, columns: &[Column]) {
        let peak = map.bottom() - self.model.top as f64 / top * map.h;
        self.fill(map, self.palette.plot);
        self.fill(Rect::new(map.x, map.y, map.right(), peak.round()), self.palette.beyond);
        // Rounded as the rectangles are.
        let y = |byte: u64| map.bottom() - (byte as f64 / top * map.h / unit).round() * unit;
        let rects = joined(map, columns.len(), |i| (y(columns[i].high), map.bottom()));
        self.items.push(Item::Hatch { ground: self.palette.hole_ground, line: self.palette.hole, rects });
    }

    /// The live curve: tiers stacked, holes above them.
    fn live(&mut self, strip: Rect, top: f64, columns: &[Column]) {
        self.fill(strip, self.palette.plot);
        let y = |byte: f64| (strip.bottom() - byte / top * strip.h).round().max(strip.y);
        let sum = |i: usize, tiers: usize| columns[i].load[..tiers].iter().map(|&b| b as f64).sum::<f64>();
        let holes = joined(strip, columns.len(), |i| (y(columns[i].high as f64), y(sum(i, 3))));
        self.items.push(Item::Hatch { ground: self.palette.hole_ground, line: self.palette.hole, rects: holes });
        for tier in 0..3 {
            let rects = joined(strip, columns.len(), |i| (y(sum(i, tier + 1)), y(sum(i, tier))));
            let fill = self.palette.tiers[tier];
            self.items.push(Item::Rects { fill, alpha: 1.0, rim: None, note: None, rects });
        }
    }

    /// Names on the rectangles that have room for them, the largest first.
    fn names(&mut self, pieces: &[Piece], map: Rect, top: f64) {
        let places = pieces.iter().map(|piece| (piece.number, place_of(piece, self.model, map, top)));
        let mut places: Vec<(u32, Rect)> = places.filter(|(_, place)| place.w >= 56.0 && place.h >= 13.0).collect();
        places.sort_by(|a, b| (b.1.w * b.1.h).total_cmp(&(a.1.w * a.1.h)));
        for (number, place) in places.into_iter().take(MAX_LABELS) {
            let buffer = self.model.buffer(number);
            let size = if place.h >= 24.0 && place.w >= 120.0 { 12.0 } else { 10.5 };
            let shown = readable(&buffer.name);
            let name = self.font.fitted(&shown, size, Weight::Regular, (place.w - 10.0) / self.slack);
            if name.is_empty() {
                continue;
            }
            let color = self.palette.ink(tier_index(buffer.tier));
            let (x, middle) = (place.x + 5.0, place.y + place.h / 2.0);
            let has_two = place.h >= 40.0 && place.w >= 90.0;
            let y = if has_two { middle - 3.0 } else { middle + size * 0.35 };
            self.text((x, y), size, Weight::Regular, Anchor::Start, color, name);
            if has_two {
                self.text((x, middle + 12.0), 10.5, Weight::Regular, Anchor::Start, color, bytes(buffer.bytes));
            }
        }
    }

    /// Lines worth a name: the name, the byte, the colour, the dashes.
    fn lines(&self) -> Vec<(&'static str, u64, crate::palette::Rgb, &'static [f64])> {
        let (plan, palette) = (self.model.plan, self.palette);
        let mut lines = Vec::new();
        if plan.peak == plan.lower_bound {
            lines.push(("peak = lower bound", plan.peak.0, palette.peak, [].as_slice()));
        } else {
            lines.push(("peak", plan.peak.0, palette.peak, [].as_slice()));
            lines.push(("lower bound", plan.lower_bound.0, palette.bound, BOUND_DASHES));
        }
        if let Some(capacity) = plan.capacity {
            lines.push(("capacity", capacity.0, palette.capacity, CAPACITY_DASHES));
        }
        lines
    }

    /// Peak, lower bound and capacity across a plot.
    fn marks(&mut self, place: Rect, top: f64, is_named: bool) {
        if self.model.plan.buffers.is_empty() {
            return;
        }
        let y = |byte: u64| place.bottom() - byte as f64 / top * place.h;
        let mut lines: Vec<_> = self.lines().into_iter().filter(|line| line.1 as f64 <= top).collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.1));
        for &(_, byte, color, dashes) in &lines {
            let y = y(byte).round();
            self.items.push(Item::Line { from: (place.x, y), to: (place.right(), y), color, width: 2.0, dashes });
        }
        if !is_named {
            return;
        }
        // From the top down, each label below the one before if they would touch.
        let mut free = place.y + 2.0;
        for (name, byte, color, _) in lines {
            let text = format!("{name}\u{a0} {}", bytes(Bytes(byte)));
            let wide = self.wide(&text, 11.0, Weight::Bold) + 14.0;
            let middle = (y(byte) + 13.0).max(free + 9.0).min(place.bottom() - 9.0);
            let pill = Rect { x: place.right() - wide - 8.0, y: middle - 9.0, w: wide, h: 18.0 };
            let fill = self.palette.surface;
            self.items.push(Item::Rects { fill, alpha: 0.92, rim: None, note: None, rects: vec![pill] });
            self.text((pill.right() - 7.0, middle + 4.0), 11.0, Weight::Bold, Anchor::End, color, text);
            free = middle + 11.0;
        }
    }

    /// Ticks and titles.
    fn axes(&mut self, strip: Rect, map: Rect, top: f64) {
        let (text, muted) = (self.palette.text, self.palette.muted);
        for (place, title, room) in [(strip, "live bytes", 34.0), (map, "offset", 52.0)] {
            let most = (place.h / room).max(2.0) as u32;
            for tick in byte_ticks(top as u64, most) {
                let y = (place.bottom() - tick.at as f64 / top * place.h).round();
                self.tick((place.x - 5.0, y), (place.x - 1.0, y));
                self.text((place.x - 9.0, y + 4.0), 11.0, Weight::Regular, Anchor::End, text, tick.label);
            }
            let middle = place.y + place.h / 2.0;
            let spans = vec![Span { text: title.to_owned(), weight: Weight::Regular, color: muted }];
            self.items.push(Item::Text(Text {
                x: 16.0,
                y: middle,
                size: 11.0,
                anchor: Anchor::Middle,
                upwards: true,
                spans,
            }));
        }
        let (start, end) = (self.model.start, self.model.end);
        let times = time_ticks(start, end, self.model.time_unit(), (map.w / 100.0).max(2.0) as u32);
        for tick in times.ticks {
            let x = (map.x + (tick.at - start) as f64 / (end - start) as f64 * map.w).round();
            self.tick((x, map.bottom() + 1.0), (x, map.bottom() + 5.0));
            let half = self.wide(&tick.label, 11.0, Weight::Regular) / 2.0;
            let x = x.min(self.width - half - 4.0);
            self.text((x, map.bottom() + 18.0), 11.0, Weight::Regular, Anchor::Middle, text, tick.label);
        }
        let base = times.base.map_or(String::new(), |base| format!(", from {}", grouped(base)));
        let title = format!("{}{base}", self.model.time_title());
        let middle = (map.x + map.w / 2.0, map.bottom() + 37.0);
        self.text(middle, 11.0, Weight::Regular, Anchor::Middle, muted, title);
    }

    /// Room that a text needs.
    fn wide(&self, text: &str, size: f64, weight: Weight) -> f64 {
        self.font.width(text, size, weight) * self.slack
    }

    fn tick(&mut self, from: (f64, f64), to: (f64, f64)) {
        // A line one pixel wide is sharp in the middle of a pixel.
        let sharp = |(x, y): (f64, f64)| if from.0 == to.0 { (x + 0.5, y) } else { (x, y + 0.5) };
        let color = self.palette.muted;
        self.items.push(Item::Line { from: sharp(from), to: sharp(to), color, width: 1.0, dashes: &[] });
    }

    /// A thin line around a place.
    fn frame(&mut self, place: Rect) {
        let (l, t, r, b) = (place.x - 0.5, place.y - 0.5, place.right() + 0.5, place.bottom() + 0.5);
        for (from, to) in [((l, t), (r, t)), ((l, b), (r, b)), ((l, t), (l, b)), ((r, t), (r, b))] {
            self.items.push(Item::Line { from, to, color: self.palette.hairline, width: 1.0, dashes: &[] });
        }
    }

    fn fill(&mut self, place: Rect, fill: crate::palette::Rgb) {
        self.items.push(Item::Rects { fill, alpha: 1.0, rim: None, note: None, rects: vec![place] });
    }

    fn text(
        &mut self,
        at: (f64, f64),
        size: f64,
        weight: Weight,
        anchor: Anchor,
        color: crate::palette::Rgb,
        text: String,
    ) {
        let spans = vec![Span { text, weight, color }];
        self.items.push(Item::Text(Text { x: at.0, y: at.1, size, anchor, upwards: false, spans }));
    }

    fn row(&mut self, at: (f64, f64), size: f64, spans: Vec<Span>) {
        self.items.push(Item::Text(Text { x: at.0, y: at.1, size, anchor: Anchor::Start, upwards: false, spans }));
    }
}
