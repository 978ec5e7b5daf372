//! The still picture of a history: heading, legend, curves over time, addresses over time, axes.

use lifetime::Bytes;
use records::{Action, History};

use super::{
    groups::{GROUPS, Groups, LIVES, NAMED, SIZES},
    model::{DeviceModel, Life},
    options::{ColorBy, HistoryOptions},
    overview::{Column, columns},
    page::title_of,
    window::shown,
};
use crate::{
    Error,
    escape::readable,
    numbers::{cut, grouped},
    palette::{Palette, Rgb, SHADES, ink_on, shade_of, shaded},
    plan_rects::{draw_rest, joined, split},
    plan_scene::{BOUND_DASHES, CAPACITY_DASHES, MAX_LABELS, Medium},
    scene::{Item, Rect, Scene},
    sketch::{Mark, PAD, Rule, Sketch},
    ticks::{Tick, byte_ticks, bytes, time_ticks},
};

/// Draws the first device shown of `history`.
pub(crate) fn scene(history: &History, options: &HistoryOptions, medium: &Medium) -> Result<Scene, Error> {
    let palette = Palette::of(options.picture.theme);
    let (width, height) = (options.picture.width, options.picture.height);
    let title = title_of(history, options);
    let mut sketch = Sketch::new(palette, medium.slack, width, height)?;
    let y = sketch.heading(&title);
    let Some((device, window)) = shown(history, options)?.into_iter().next() else {
        let place = Rect::new(PAD, y, sketch.width - PAD, sketch.height - PAD);
        sketch.note(place, "This history has no devices: nothing was recorded.");
        let description = "A history without devices.".to_owned();
        return Ok(Scene { width, height, ground: palette.ground, title, description, items: sketch.items });
    };
    let model = DeviceModel::new(device, window);
    let groups = Groups::new(&model);
    let mut drawing = Drawing { history, model: &model, groups: &groups, by: options.color_by, palette, sketch };
    let header = drawing.header(y);
    drawing.picture(header, medium.unit);
    let description = format!(
        "{} events and {} blocks of device {}; peak live {}, peak reserved {}. Above: bytes over time, stacked by {}. \
         Below: addresses over time, those never reserved left out; holes are hatched.",
        model.events().len(),
        model.blocks.len(),
        device.device,
        Bytes(drawing.peak(|totals| totals.live)),
        Bytes(drawing.peak(|totals| totals.reserved)),
        options.color_by.name(),
    );
    Ok(Scene { width, height, ground: palette.ground, title, description, items: drawing.sketch.items })
}

struct Drawing<'a> {
    history: &'a History,
    model: &'a DeviceModel<'a>,
    groups: &'a Groups,
    by: ColorBy,
    palette: &'static Palette,
    sketch: Sketch,
}

impl Drawing<'_> {
    fn peak(&self, measure: impl Fn(&records::Totals) -> u64) -> u64 {
        self.model.totals.iter().map(measure).max().unwrap_or(0)
    }

    /// Colour of each group.
    fn colors(&self) -> [Rgb; GROUPS] {
        let mut colors = self.palette.groups;
        match self.by {
            ColorBy::Size => colors[..5].copy_from_slice(&self.palette.sizes),
            ColorBy::Life => colors[..3].copy_from_slice(&self.palette.tiers),
            _ => {}
        }
        colors
    }

    /// Numbers and legend; returns where they end.
    fn header(&mut self, y: f64) -> f64 {
        let text = self.palette.text;
        let (live, reserved) = (self.peak(|totals| totals.live), self.peak(|totals| totals.reserved));
        let mut facts = vec![("peak live", bytes(Bytes(live)), text), ("peak reserved", bytes(Bytes(reserved)), text)];
        if live > 0 && reserved > 0 {
            facts.push(("reserved over live", format!("{:.3}", reserved as f64 / live as f64), text));
        }
        if let Some(capacity) = self.model.history.capacity_bytes {
            facts.push(("capacity", bytes(Bytes(capacity)), text));
        }
        facts.push(("events", grouped(self.model.events().len() as u64), text));
        facts.push(("blocks", grouped(self.model.blocks.len() as u64), text));
        facts.push(("device", self.model.history.device.to_string(), text));
        let failed = self.model.events().iter().filter(|event| event.action == Action::OutOfMemory).count();
        if failed > 0 {
            facts.push(("failed requests", grouped(failed as u64), self.palette.bad));
        }
        if !self.history.allocator.is_empty() {
            facts.push(("allocator", readable(&cut(&self.history.allocator, 80)).into_owned(), text));
        }
        let y = self.sketch.facts(y, facts);
        let colors = self.colors();
        let mut used = [false; GROUPS];
        (0..self.model.blocks.len()).for_each(|block| used[self.groups.of(self.model, self.by, block)] = true);
        let mut marks: Vec<(Mark, String)> = (0..GROUPS)
            .filter(|&group| used[group])
            .map(|group| (Mark::Fill(colors[group], self.palette.edge_of(colors[group])), self.group_name(group)))
            .collect();
        marks.push((Mark::Hatch(self.palette.plot, self.palette.muted), "pending".to_owned()));
        marks.push((Mark::Hatch(self.palette.hole_ground, self.palette.hole), "hole".to_owned()));
        marks.push((Mark::Fill(self.palette.beyond, self.palette.hairline), "not reserved".to_owned()));
        marks.push((Mark::Line(self.palette.peak, &[]), "reserved".to_owned()));
        if failed > 0 {
            marks.push((Mark::Line(self.palette.bad, &[]), "failed request".to_owned()));
        }
        self.sketch.legend(y + 26.0, marks)
    }

    /// What a group is called.
    fn group_name(&self, group: usize) -> String {
        let groups = self.groups;
        let rest = |all: usize| format!("{}\u{a0}others", grouped((all - NAMED) as u64));
        let name = match self.by {
            ColorBy::Life => LIVES[group].to_owned(),
            ColorBy::Size => match SIZES.len().checked_sub(group).and_then(|at| SIZES.get(at)) {
                Some(&limit) => format!("up to {}", round_bytes(limit)),
                None => format!("over {}", round_bytes(SIZES[SIZES.len() - 1])),
            },
            ColorBy::Stream if group == NAMED => rest(groups.streams.len()),
            ColorBy::Tag if group == NAMED => rest(groups.tags.len()),
            ColorBy::Stack if group == NAMED => rest(groups.stacks.len()),
            ColorBy::Stream => format!("stream {}", grouped(groups.streams[group])),
            ColorBy::Tag if groups.tags[group].is_empty() => "no tag".to_owned(),
            ColorBy::Tag => self.history.names.get(groups.tags[group]).to_owned(),
            ColorBy::Stack => self.stack_name(groups.stacks[group]),
        };
        readable(&cut(&name, 40)).into_owned()
    }

    /// The innermost call of a stack that is in a Python file, else the innermost one.
    fn stack_name(&self, stack: records::StackId) -> String {
        let frames = self.history.stacks.frames(stack);
        let names = &self.history.names;
        let file = |id| names.get(self.history.stacks.frame(id).file);
        let own = frames.iter().find(|id| file(**id).ends_with(".py") && !file(**id).contains("torch/"));
        match own.or(frames.iter().find(|id| file(**id).ends_with(".py"))).or(frames.first()) {
            None => "no stack".to_owned(),
            Some(&id) => names.get(self.history.stacks.frame(id).function).to_owned(),
        }
    }

    /// Curves, layout and axes, below `header`.
    fn picture(&mut self, header: f64, unit: f64) {
        let (width, height) = (self.sketch.width, self.sketch.height);
        let (left, right) = (84.0, (width - PAD).floor());
        let upper = (header + 16.0).round();
        let foot = (height - 52.0).round();
        let split = upper + ((foot - upper) * 0.42).round();
        let curves = Rect::new(left, upper, right, split - 8.0);
        let layout = Rect::new(left, split + 8.0, right, foot.max(split + 48.0));
        self.curves(curves);
        self.layout(layout, unit);
        self.failures(Rect::new(left, curves.y, right, layout.bottom()));
        self.sketch.frame(curves);
        self.sketch.frame(layout);
        let window = self.model.window;
        // Moment k is the one after event k - 1, so an event stands one to the right of its number.
        let mut times = time_ticks(window.from, window.to, 1, (layout.w / 100.0).max(2.0) as u32);
        times.ticks.retain(|tick| tick.at < window.to);
        times.ticks.iter_mut().for_each(|tick| tick.at += 1);
        let range = (window.from, window.to + 1);
        self.sketch.foot_axis(layout, range, times, "event");
    }

    fn curves(&mut self, place: Rect) {
        let model = self.model;
        let capacity = model.history.capacity_bytes.unwrap_or(0);
        let highest = self.peak(|totals| totals.reserved.max(totals.active));
        let near = if capacity as f64 <= highest as f64 * 1.25 { capacity } else { 0 };
        let top = highest.max(near).max(1) as f64 * 1.06;
        // A column a pixel, or a moment where there are fewer of them.
        let columns = columns(model, self.groups, place.w.round().max(1.0) as usize);
        let by = ColorBy::ALL.iter().position(|choice| *choice == self.by).unwrap_or(0);
        self.sketch.fill(vec![place], self.palette.plot);
        let y = |byte: f64| (place.bottom() - byte / top * place.h).round().max(place.y);
        let sum = |i: usize, groups: usize| columns[i].groups[by][..groups].iter().map(|&b| b as f64).sum::<f64>();
        let active = |i: usize| sum(i, GROUPS) + columns[i].pending as f64;
        self.sketch.holes(joined(place, columns.len(), |i| (y(columns[i].reserved as f64), y(active(i)))));
        let (ground, line) = (self.palette.plot, self.palette.muted);
        let rects = joined(place, columns.len(), |i| (y(active(i)), y(sum(i, GROUPS))));
        self.sketch.items.push(Item::Hatch { ground, line, rects });
        for (group, color) in self.colors().into_iter().enumerate() {
            self.sketch.fill(joined(place, columns.len(), |i| (y(sum(i, group + 1)), y(sum(i, group)))), color);
        }
        self.steps(place, &columns, y);
        let mut rules = Vec::new();
        let (live, reserved) = (self.peak(|totals| totals.live), self.peak(|totals| totals.reserved));
        if let Some(capacity) = model.history.capacity_bytes {
            let (color, dashes) = (self.palette.capacity, CAPACITY_DASHES);
            rules.push(Rule { name: "capacity", byte: capacity, color, dashes });
        }
        if live > 0 {
            rules.push(Rule { name: "peak live", byte: live, color: self.palette.bound, dashes: BOUND_DASHES });
        }
        self.sketch.rules(place, top, &rules);
        if reserved > 0 {
            rules.push(Rule { name: "peak reserved", byte: reserved, color: self.palette.peak, dashes: &[] });
        }
        self.sketch.rule_names(place, top, &rules);
        let ticks = byte_ticks(top as u64, (place.h / 44.0).max(2.0) as u32);
        self.sketch.left_axis(place, top, ticks, "bytes");
        if model.blocks.is_empty() && model.pieces.is_empty() {
            self.sketch.note(place, "Nothing was allocated or reserved on this device.");
        }
    }

    /// The stepped line of reserved bytes.
    fn steps(&mut self, place: Rect, columns: &[Column], y: impl Fn(f64) -> f64) {
        let x = |at: usize| place.x + at as f64 * place.w / columns.len() as f64;
        let (color, width, dashes) = (self.palette.peak, 1.5, [].as_slice());
        let mut from = 0;
        for at in 1..=columns.len() {
            let level = y(columns[from].reserved as f64);
            let next = columns.get(at).map(|column| y(column.reserved as f64));
            if next == Some(level) {
                continue;
            }
            self.sketch.items.push(Item::Line { from: (x(from), level), to: (x(at), level), color, width, dashes });
            if let Some(next) = next {
                self.sketch.items.push(Item::Line { from: (x(at), level), to: (x(at), next), color, width, dashes });
            }
            from = at;
        }
    }

    fn layout(&mut self, place: Rect, unit: f64) {
        let model = self.model;
        let top = model.height().max(1) as f64 * 1.02;
        let moments = f64::from(model.moments());
        let x = |moment: u32| place.x + f64::from(moment) / moments * place.w;
        let y = |offset: u64| place.bottom() - offset as f64 / top * place.h;
        let rect = |from: u32, to: u32, address: u64, bytes: u64| {
            let low = model.offset_of(address);
            Rect::new(x(from), y(low.saturating_add(bytes)), x(to), y(low))
        };
        self.sketch.fill(vec![place], self.palette.plot);
        let ground = Rect::new(place.x, y(model.height()).round(), place.right(), place.bottom());
        self.sketch.fill(vec![ground], self.palette.beyond);
        let exact: Vec<Rect> = model.pieces.iter().map(|p| rect(p.birth, p.death, p.address, p.bytes)).collect();
        let (segments, _) = split(&exact, place, unit);
        self.sketch.holes(segments.into_iter().map(|(_, place)| place).collect());
        // What waits is a rectangle of its own, lighter than the rest of its block.
        let whole = |life: &Life| (life.birth, life.pend, false);
        let waiting = |life: &Life| (life.pend, life.death, true);
        let parts: Vec<(usize, (u32, u32, bool))> = model
            .blocks
            .iter()
            .enumerate()
            .flat_map(|(block, life)| [(block, whole(life)), (block, waiting(life))])
            .filter(|(_, (from, to, _))| from < to)
            .collect();
        let exact: Vec<Rect> = parts
            .iter()
            .map(|&(block, (from, to, _))| {
                let block = &model.blocks[block].block;
                rect(from, to, block.address, block.bytes)
            })
            .collect();
        let (singles, is_single) = split(&exact, place, unit);
        let colors = self.colors();
        let group = |part: usize| self.groups.of(model, self.by, parts[part].0);
        // By colour, shade, size and state: few long paths.
        let mut paths: Vec<Vec<Rect>> = vec![Vec::new(); GROUPS * SHADES * 4];
        for &(part, place) in &singles {
            let is_large = place.w >= 3.0 && place.h >= 3.0;
            let look = (group(part) * SHADES + shade_of(parts[part].0)) * 4;
            paths[look + usize::from(is_large) * 2 + usize::from(parts[part].1.2)].push(place);
        }
        for (look, rects) in paths.into_iter().enumerate().filter(|(_, rects)| !rects.is_empty()) {
            let color = colors[look / 4 / SHADES];
            let rim = (look & 2 != 0).then(|| self.palette.edge_of(color));
            let alpha = if look & 1 != 0 { 0.45 } else { 1.0 };
            self.sketch.items.push(Item::Rects {
                fill: shaded(color, look / 4 % SHADES),
                alpha,
                rim,
                note: None,
                rects,
            });
        }
        if singles.len() < parts.len() {
            let rest = (0..parts.len()).filter(|&part| !is_single[part]).map(|part| (exact[part], group(part)));
            draw_rest(rest, place, &colors, &mut self.sketch.items);
        }
        self.names(&parts, &exact);
        let ticks = byte_ticks(top as u64, (place.h / 52.0).max(2.0) as u32);
        let ticks: Vec<Tick> = if model.height() == 0 { Vec::new() } else { ticks };
        self.sketch.left_axis(place, top, ticks, "address, gaps left out");
        if model.blocks.is_empty() && model.pieces.is_empty() {
            self.sketch.note(place, "No segments, no blocks.");
        }
    }

    /// Names on the blocks that have room for them, the largest first.
    fn names(&mut self, parts: &[(usize, (u32, u32, bool))], exact: &[Rect]) {
        let roomy = |place: &Rect| place.w >= 56.0 && place.h >= 13.0;
        let mut places: Vec<(usize, Rect)> = parts
            .iter()
            .zip(exact)
            .filter(|((_, part), place)| !part.2 && roomy(place))
            .map(|(p, r)| (p.0, *r))
            .collect();
        places.sort_by(|a, b| (b.1.w * b.1.h).total_cmp(&(a.1.w * a.1.h)));
        let colors = self.colors();
        for (block, place) in places.into_iter().take(MAX_LABELS) {
            let life = &self.model.blocks[block];
            let tag = self.history.names.get(life.block.tag);
            let name = match tag.is_empty() {
                false => tag.to_owned(),
                true if life.block.stack.is_empty() => continue,
                true => self.stack_name(life.block.stack),
            };
            let color = ink_on(colors[self.groups.of(self.model, self.by, block)]);
            self.sketch.label(place, &name, bytes(Bytes(life.block.requested_bytes)), color);
        }
    }

    /// Failed requests, through both plots.
    fn failures(&mut self, place: Rect) {
        let moments = f64::from(self.model.moments());
        let failed = (1_u32..).zip(self.model.events()).filter(|(_, event)| event.action == Action::OutOfMemory);
        let mut last = f64::NEG_INFINITY;
        for (moment, _) in failed {
            let x = (place.x + f64::from(moment) / moments * place.w).round().min(place.right() - 1.0) + 0.5;
            if x - last >= 1.0 {
                let (from, to) = ((x, place.y), (x, place.bottom()));
                let color = self.palette.bad;
                self.sketch.items.push(Item::Line { from, to, color, width: 1.0, dashes: &[] });
                last = x;
            }
        }
    }
}

/// Bytes that are a whole number of units.
fn round_bytes(value: u64) -> String {
    bytes(Bytes(value)).replace(".000", "")
}
