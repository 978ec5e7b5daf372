//! The still picture of a plan: heading, legend, live curve, map, axes.

use coloring::Plan;
use lifetime::{Bytes, Tier};

use crate::{
    Error, PictureOptions,
    escape::readable,
    model::{Model, Piece},
    numbers::{grouped, percent},
    palette::{Palette, tier_index},
    plan_page::{bound_note, sum_text, tier_totals, title_of},
    plan_rects::{self, Column, columns, joined, place_of},
    scene::{Rect, Scene, Weight},
    sketch::{Mark, PAD, Rule, Sketch},
    ticks::{byte_ticks, bytes, time_ticks},
};

/// Dashes of a line at a bound.
pub(crate) const BOUND_DASHES: &[f64] = &[7.0, 5.0];
/// Dashes of a line at a capacity.
pub(crate) const CAPACITY_DASHES: &[f64] = &[10.0, 4.0, 2.0, 4.0];
/// At most this many rectangles bear their name.
pub(crate) const MAX_LABELS: usize = 150;

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
    let sketch = Sketch::new(palette, medium.slack, options.width, options.height)?;
    let mut drawing = Drawing { model: &model, palette, sketch };
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
    Ok(Scene { width, height, ground: palette.ground, title, description, items: drawing.sketch.items })
}

struct Drawing<'a> {
    model: &'a Model<'a>,
    palette: &'static Palette,
    sketch: Sketch,
}

impl Drawing<'_> {
    /// Heading, numbers and legend; returns where they end.
    fn header(&mut self, title: &str) -> f64 {
        let y = self.sketch.heading(title);
        let y = self.facts(y);
        self.legend(y + 26.0)
    }

    fn facts(&mut self, y: f64) -> f64 {
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
            let solver = self.sketch.font.fitted(&readable(&plan.solver), 13.0, Weight::Bold, 240.0);
            facts.push(("by", solver, self.palette.text));
        }
        self.sketch.facts(y, facts)
    }

    fn legend(&mut self, y: f64) -> f64 {
        let plan = self.model.plan;
        let totals = tier_totals(plan);
        let mut marks: Vec<(Mark, String)> = Tier::ALL
            .into_iter()
            .map(|tier| {
                let index = tier_index(tier);
                let (count, sum) = totals[index];
                let mark = Mark::Fill(self.palette.tiers[index], self.palette.edge(index));
                (mark, format!("{tier}\u{a0} {}, {}", grouped(count), sum_text(sum)))
            })
            .collect();
        marks.push((Mark::Hatch(self.palette.hole_ground, self.palette.hole), "hole".to_owned()));
        for rule in self.rules() {
            marks.push((Mark::Line(rule.color, rule.dashes), rule.name.to_owned()));
        }
        self.sketch.legend(y, marks)
    }

    /// Live curve, map and axes, below `header`.
    fn picture(&mut self, header: f64, unit: f64) {
        let model = self.model;
        let capacity = model.plan.capacity.map_or(0, |c| c.0);
        // A capacity a little above the peak is worth seeing; one far above would press the plan flat.
        let near = if capacity as f64 <= model.top as f64 * 1.25 { capacity } else { 0 };
        let top = (model.top.max(near).max(1)) as f64 * 1.03;
        let left = 84.0;
        let right = (self.sketch.width - PAD).floor();
        let strip_top = (header + 16.0).round();
        let foot = (self.sketch.height - 52.0).round();
        let strip_height = ((foot - strip_top) * 0.18).clamp(40.0, 150.0).round();
        let strip = Rect::new(left, strip_top, right, strip_top + strip_height);
        let map = Rect::new(left, strip.bottom() + 16.0, right, foot.max(strip.bottom() + 56.0));
        let pieces = model.pieces();
        let count = (map.w / unit.max(0.5)).round().max(1.0) as usize;
        let columns = columns(model, &pieces, count);
        self.map_ground(map, top, unit, &columns);
        plan_rects::draw(model, &pieces, map, top, unit, self.palette, &mut self.sketch.items);
        self.names(&pieces, map, top);
        self.live(strip, top, &columns);
        let rules = if model.plan.buffers.is_empty() { Vec::new() } else { self.rules() };
        for place in [strip, map] {
            self.sketch.frame(place);
            self.sketch.rules(place, top, &rules);
        }
        self.sketch.rule_names(map, top, &rules);
        for (place, title, room) in [(strip, "live bytes", 34.0), (map, "offset", 52.0)] {
            let ticks = byte_ticks(top as u64, (place.h / room).max(2.0) as u32);
            self.sketch.left_axis(place, top, ticks, title);
        }
        let times = time_ticks(model.start, model.end, model.time_unit(), (map.w / 100.0).max(2.0) as u32);
        self.sketch.foot_axis(map, (model.start, model.end), times, model.time_title());
        if model.plan.buffers.is_empty() {
            self.sketch.note(map, "This plan has no buffers.");
        }
    }

    /// Ground of the map: plain, darker above the peak, hatched in holes.
    fn map_ground(&mut self, map: Rect, top: f64, unit: f64, columns: &[Column]) {
        let peak = map.bottom() - self.model.top as f64 / top * map.h;
        self.sketch.fill(vec![map], self.palette.plot);
        self.sketch.fill(vec![Rect::new(map.x, map.y, map.right(), peak.round())], self.palette.beyond);
        // Rounded as the rectangles are.
        let y = |byte: u64| map.bottom() - (byte as f64 / top * map.h / unit).round() * unit;
        self.sketch.holes(joined(map, columns.len(), |i| (y(columns[i].high), map.bottom())));
    }

    /// The live curve: tiers stacked, holes above them.
    fn live(&mut self, strip: Rect, top: f64, columns: &[Column]) {
        self.sketch.fill(vec![strip], self.palette.plot);
        let y = |byte: f64| (strip.bottom() - byte / top * strip.h).round().max(strip.y);
        let sum = |i: usize, tiers: usize| columns[i].load[..tiers].iter().map(|&b| b as f64).sum::<f64>();
        self.sketch.holes(joined(strip, columns.len(), |i| (y(columns[i].high as f64), y(sum(i, 3)))));
        for tier in 0..3 {
            let rects = joined(strip, columns.len(), |i| (y(sum(i, tier + 1)), y(sum(i, tier))));
            self.sketch.fill(rects, self.palette.tiers[tier]);
        }
    }

    /// Names on the rectangles that have room for them, the largest first.
    fn names(&mut self, pieces: &[Piece], map: Rect, top: f64) {
        let places = pieces.iter().map(|piece| (piece.number, place_of(piece, self.model, map, top)));
        let mut places: Vec<(u32, Rect)> = places.filter(|(_, place)| place.w >= 56.0 && place.h >= 13.0).collect();
        places.sort_by(|a, b| (b.1.w * b.1.h).total_cmp(&(a.1.w * a.1.h)));
        for (number, place) in places.into_iter().take(MAX_LABELS) {
            let buffer = self.model.buffer(number);
            let color = self.palette.ink(tier_index(buffer.tier));
            self.sketch.label(place, &buffer.name, bytes(buffer.bytes), color);
        }
    }

    /// Lines worth a name.
    fn rules(&self) -> Vec<Rule> {
        let (plan, palette) = (self.model.plan, self.palette);
        let mut rules = Vec::new();
        let mut add = |name, value: Bytes, color, dashes| rules.push(Rule { name, byte: value.0, color, dashes });
        if plan.peak == plan.lower_bound {
            add("peak = lower bound", plan.peak, palette.peak, [].as_slice());
        } else {
            add("peak", plan.peak, palette.peak, [].as_slice());
            add("lower bound", plan.lower_bound, palette.bound, BOUND_DASHES);
        }
        if let Some(capacity) = plan.capacity {
            add("capacity", capacity, palette.capacity, CAPACITY_DASHES);
        }
        rules
    }
}
