//! The rectangles of a plan, for a picture of bounded size.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use crate::{
    cells::{Cells, LEVELS},
    model::{Model, Piece},
    numbers::{counted, cut, grouped},
    palette::{Palette, Rgb, SHADES, shade_of, tier_index},
    scene::{Item, Rect},
    ticks::bytes,
};

/// At most this many rectangles are drawn one by one, the largest ones; about 25 bytes of SVG each.
const MAX_SINGLE: usize = 20_000;
/// Cells are made larger until they join to at most this many rectangles.
const MAX_RUNS: usize = 40_000;
/// Plans of at most this many rectangles say in SVG what each is.
const MAX_NOTED: usize = 2_000;

/// What a column of the picture shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Column {
    /// Live bytes of each tier at the column's fullest moment.
    pub(crate) load: [u64; 3],
    /// Highest byte in use at any of its moments.
    pub(crate) high: u64,
}

/// A live piece, the one that reaches highest first in a heap.
#[derive(PartialEq, Eq)]
struct Reach(u64, u64);

impl Ord for Reach {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

impl PartialOrd for Reach {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What each of `count` columns of equal width shows.
pub(crate) fn columns(model: &Model<'_>, pieces: &[Piece], count: usize) -> Vec<Column> {
    let mut columns = vec![Column::default(); count];
    let mut most = vec![0_u128; count];
    let scale = count as f64 / (model.end - model.start) as f64;
    let mut ending: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut reach: BinaryHeap<Reach> = BinaryHeap::new();
    let mut load = [0_u64; 3];
    let mut next = 0;
    loop {
        let birth = pieces.get(next).map(|piece| piece.start);
        let death = ending.peek().map(|Reverse((end, _))| *end);
        let now = match (birth, death) {
            (Some(birth), Some(death)) => birth.min(death),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => return columns,
        };
        while let Some(&Reverse((end, index))) = ending.peek()
            && end <= now
        {
            let tier = &mut load[tier_index(model.buffer(pieces[index].number).tier)];
            *tier = tier.saturating_sub(pieces[index].high - pieces[index].low);
            ending.pop();
        }
        while let Some(piece) = pieces.get(next)
            && piece.start <= now
        {
            let tier = &mut load[tier_index(model.buffer(piece.number).tier)];
            *tier = tier.saturating_add(piece.high - piece.low);
            ending.push(Reverse((piece.end, next)));
            reach.push(Reach(piece.high, piece.end));
            next += 1;
        }
        while reach.peek().is_some_and(|top| top.1 <= now) {
            reach.pop();
        }
        let until = [pieces.get(next).map(|p| p.start), ending.peek().map(|Reverse((end, _))| *end)];
        let Some(until) = until.into_iter().flatten().min() else { continue };
        let (left, right) = ((now - model.start) as f64 * scale, (until - model.start) as f64 * scale);
        let first = if left.round() < right.round() { left.round() } else { left.floor() };
        let first = (first as usize).min(count - 1);
        let last = (right.round() as usize).clamp(first + 1, count);
        let sum: u128 = load.iter().map(|&bytes| u128::from(bytes)).sum();
        let high = reach.peek().map_or(0, |top| top.0);
        for (column, most) in columns[first..last].iter_mut().zip(&mut most[first..last]) {
            column.high = column.high.max(high);
            if sum > *most {
                (*most, column.load) = (sum, load);
            }
        }
    }
}

/// Rectangles of the same height side by side as one: `top` and `bottom` say where column `i` begins and ends.
pub(crate) fn joined(area: Rect, columns: usize, edges: impl Fn(usize) -> (f64, f64)) -> Vec<Rect> {
    let width = area.w / columns as f64;
    let mut rects: Vec<Rect> = Vec::new();
    for column in 0..columns {
        let (top, bottom) = edges(column);
        if bottom <= top {
            continue;
        }
        let (left, right) = (area.x + column as f64 * width, area.x + (column + 1) as f64 * width);
        match rects.last_mut() {
            Some(last) if last.right() >= left - 1e-6 && last.y == top && last.bottom() == bottom => {
                last.w = right - last.x
            }
            _ => rects.push(Rect::new(left, top, right, bottom)),
        }
    }
    rects
}

/// Where a piece lies in the picture.
pub(crate) fn place_of(piece: &Piece, model: &Model<'_>, area: Rect, top: f64) -> Rect {
    let x = |time: u64| area.x + (time - model.start) as f64 / (model.end - model.start) as f64 * area.w;
    let y = |byte: u64| area.bottom() - byte as f64 / top * area.h;
    Rect::new(x(piece.start), y(piece.high), x(piece.end), y(piece.low))
}

/// Draws the pieces into `area`, whose upper edge is byte `top`. Edges are rounded to multiples of `unit`, so that
/// neighbours stay without a seam. What is too thin or too much for single rectangles is summed up in cells.
pub(crate) fn draw(
    model: &Model<'_>,
    pieces: &[Piece],
    area: Rect,
    top: f64,
    unit: f64,
    palette: &Palette,
    items: &mut Vec<Item>,
) {
    let exact: Vec<Rect> = pieces.iter().map(|piece| place_of(piece, model, area, top)).collect();
    let (singles, is_single) = split(&exact, area, unit);
    draw_singles(model, pieces, &singles, palette, items);
    if singles.len() < pieces.len() {
        let rest = (0..pieces.len()).filter(|&index| !is_single[index]);
        let rest = rest.map(|index| (exact[index], tier_index(model.buffer(pieces[index].number).tier)));
        draw_rest(rest, area, &palette.tiers, items);
    }
}

/// The rectangles to be drawn one by one, with edges rounded to multiples of `unit`, and which ones those are.
pub(crate) fn split(exact: &[Rect], area: Rect, unit: f64) -> (Vec<(usize, Rect)>, Vec<bool>) {
    let snap = |v: f64, origin: f64| origin + ((v - origin) / unit).round() * unit;
    let snapped = |place: &Rect| {
        let bottom = area.bottom();
        Rect::new(
            snap(place.x, area.x),
            snap(place.y, bottom),
            snap(place.right(), area.x),
            snap(place.bottom(), bottom),
        )
    };
    let mut singles: Vec<(usize, Rect)> =
        exact.iter().map(snapped).enumerate().filter(|(_, p)| p.w >= unit / 2.0 && p.h >= unit / 2.0).collect();
    if singles.len() > MAX_SINGLE {
        singles.select_nth_unstable_by(MAX_SINGLE, |a, b| (b.1.w * b.1.h).total_cmp(&(a.1.w * a.1.h)));
        singles.truncate(MAX_SINGLE);
        singles.sort_unstable_by_key(|single| single.0);
    }
    let mut is_single = vec![false; exact.len()];
    singles.iter().for_each(|&(index, _)| is_single[index] = true);
    (singles, is_single)
}

fn draw_singles(
    model: &Model<'_>,
    pieces: &[Piece],
    singles: &[(usize, Rect)],
    palette: &Palette,
    items: &mut Vec<Item>,
) {
    let look = |number: u32| (tier_index(model.buffer(number).tier), shade_of(number as usize));
    let item = |(tier, shade): (usize, usize), is_large: bool, note, rects| Item::Rects {
        fill: palette.shade(tier, shade),
        alpha: 1.0,
        rim: is_large.then(|| palette.edge(tier)),
        note,
        rects,
    };
    let is_large = |place: &Rect| place.w >= 3.0 && place.h >= 3.0;
    if pieces.len() <= MAX_NOTED {
        for (index, place) in singles {
            let number = pieces[*index].number;
            items.push(item(look(number), is_large(place), Some(note(model, number)), vec![*place]));
        }
        return;
    }
    // By tier, shade and size: few long paths.
    let mut groups: Vec<Vec<Rect>> = vec![Vec::new(); 3 * SHADES * 2];
    for (index, place) in singles {
        let (tier, shade) = look(pieces[*index].number);
        groups[(tier * SHADES + shade) * 2 + usize::from(is_large(place))].push(*place);
    }
    for (index, rects) in groups.into_iter().enumerate().filter(|(_, rects)| !rects.is_empty()) {
        items.push(item((index / 2 / SHADES, index / 2 % SHADES), index % 2 == 1, None, rects));
    }
}

/// What a rectangle is, in a line.
fn note(model: &Model<'_>, number: u32) -> String {
    let buffer = model.buffer(number);
    let end = buffer.offset.0.saturating_add(buffer.bytes.0);
    let op = buffer.op.as_ref().map_or(String::new(), |op| format!(" by {}", cut(op, 80)));
    format!(
        "{}{op}: {}, {}, offset {} to {}, live [{}, {})",
        cut(&buffer.name, 120),
        buffer.tier,
        if buffer.bytes.0 < 1024 { counted(buffer.bytes.0, "byte", "bytes") } else { bytes(buffer.bytes) },
        grouped(buffer.offset.0),
        grouped(end),
        grouped(buffer.range.birth.0),
        grouped(buffer.range.death.0),
    )
}

/// Sums up rectangles, each of a group, in cells of the groups' colours.
pub(crate) fn draw_rest<const G: usize>(
    rest: impl Iterator<Item = (Rect, usize)> + Clone,
    area: Rect,
    colors: &[Rgb; G],
    items: &mut Vec<Item>,
) {
    let mut size = 1.0;
    let runs = loop {
        let mut cells = Cells::<G>::new(area, size);
        rest.clone().for_each(|(place, group)| cells.add(place, group));
        let runs = cells.runs();
        // At 16 pixels even the largest picture has few enough.
        if runs.len() <= MAX_RUNS || size >= 64.0 {
            break runs;
        }
        size *= 2.0;
    };
    let mut groups: Vec<Vec<Rect>> = vec![Vec::new(); G * (LEVELS + 1)];
    for run in runs {
        groups[run.group * (LEVELS + 1) + run.level].push(run.place);
    }
    for (index, rects) in groups.into_iter().enumerate().filter(|(_, rects)| !rects.is_empty()) {
        let (group, level) = (index / (LEVELS + 1), index % (LEVELS + 1));
        let alpha = level as f64 / LEVELS as f64;
        items.push(Item::Rects { fill: colors[group], alpha, rim: None, note: None, rects });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn columns_show_the_fullest_moment_and_the_highest_byte() {
        // Tiers take turns: persistent, cyclic, temporary.
        let plan = samples::plan(&[(0, 100, 0, 10), (20, 60, 10, 30), (24, 26, 90, 1)]);
        let model = Model::new(&plan).unwrap();
        let columns = columns(&model, &model.pieces(), 10);
        let load = |i: usize| columns[i].load;
        assert_eq!((load(0), columns[0].high), ([10, 0, 0], 10));
        assert_eq!((load(2), columns[2].high), ([10, 30, 1], 91));
        assert_eq!((load(5), columns[5].high), ([10, 30, 0], 40));
        assert_eq!((load(6), columns[6].high), ([10, 0, 0], 10));
        assert_eq!(columns[9].high, 10);
    }

    #[test]
    fn equal_columns_become_one_rectangle() {
        let rects = joined(Rect::new(0.0, 0.0, 10.0, 8.0), 10, |i| {
            if i < 4 { (2.0, 8.0) } else { (5.0, if i == 9 { 5.0 } else { 8.0 }) }
        });
        assert_eq!(rects, [Rect::new(0.0, 2.0, 4.0, 8.0), Rect::new(4.0, 5.0, 9.0, 8.0)]);
    }

    #[test]
    fn singles_and_cells_stay_within_their_limits() {
        let rows: Vec<(u64, u64, u64, u64)> =
            (0..60_000_u64).map(|i| (i % 300 * 10, i % 300 * 10 + 7 + i % 3, i / 300 * 64, 40 + i % 24)).collect();
        let plan = samples::plan(&rows);
        let model = Model::new(&plan).unwrap();
        let mut items = Vec::new();
        let area = Rect::new(0.0, 0.0, 1400.0, 700.0);
        draw(&model, &model.pieces(), area, plan.peak.0 as f64, 0.25, &crate::palette::LIGHT, &mut items);
        let (mut whole, mut parts) = (0, 0);
        for item in &items {
            if let Item::Rects { alpha, rects, rim, .. } = item {
                *(if *alpha == 1.0 && rim.is_some() { &mut whole } else { &mut parts }) += rects.len();
            }
        }
        assert!(whole <= MAX_SINGLE && parts <= MAX_RUNS + MAX_SINGLE && whole + parts > 10_000, "{whole} {parts}");
    }
}
