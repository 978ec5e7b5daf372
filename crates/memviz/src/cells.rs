//! Rectangles too thin to draw one by one, summed up in square cells.
//!
//! There may be a million of them, and long ones, so each costs four corners: the grid holds differences, and a sum
//! over both directions makes them coverage. `plan-raster.js` does the same for the page.

use crate::scene::Rect;

/// Steps of opacity a cell may have.
pub(crate) const LEVELS: usize = 8;
/// One whole cell.
const WHOLE: f64 = 65536.0;
/// Cells are made larger until no more than this many are needed.
const MAX_CELLS: f64 = 2_000_000.0;

/// Coverage of a part of the picture, for each of `G` groups.
pub(crate) struct Cells<const G: usize> {
    area: Rect,
    size: f64,
    width: usize,
    height: usize,
    sums: Vec<[i64; G]>,
}

/// Cells of one look that lie side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Run {
    /// The group that covers most of them.
    pub(crate) group: usize,
    /// How much of them is covered, 1 to [`LEVELS`].
    pub(crate) level: usize,
    /// Where they lie.
    pub(crate) place: Rect,
}

impl<const G: usize> Cells<G> {
    /// Empty cells over `area`, of `size` pixels or more.
    pub(crate) fn new(area: Rect, size: f64) -> Self {
        let size = size.max((area.w * area.h / MAX_CELLS).sqrt());
        let (width, height) = ((area.w / size).ceil().max(1.0) as usize, (area.h / size).ceil().max(1.0) as usize);
        Self { area, size, width, height, sums: vec![[0; G]; (width + 1) * (height + 1)] }
    }

    /// Adds a rectangle, which must lie inside the area.
    pub(crate) fn add(&mut self, place: Rect, group: usize) {
        let (columns, across) = span(place.x - self.area.x, place.right() - self.area.x, self.size, self.width);
        let (rows, along) = span(place.y - self.area.y, place.bottom() - self.area.y, self.size, self.height);
        let part = (WHOLE * across * along).clamp(1.0, WHOLE) as i64;
        for (row, column, part) in [
            (rows.0, columns.0, part),
            (rows.0, columns.1, -part),
            (rows.1, columns.0, -part),
            (rows.1, columns.1, part),
        ] {
            self.sums[row * (self.width + 1) + column][group] += part;
        }
    }

    /// The covered cells, joined along rows and then down columns.
    pub(crate) fn runs(mut self) -> Vec<Run> {
        let stride = self.width + 1;
        for row in 0..self.height {
            let mut across = [0; G];
            for column in 0..self.width {
                let at = row * stride + column;
                let above = if row > 0 { self.sums[at - stride] } else { [0; G] };
                for group in 0..G {
                    across[group] += self.sums[at][group];
                    self.sums[at][group] = across[group] + above[group];
                }
            }
        }
        let mut done = Vec::new();
        // Runs of the row above: first column, column after the last, look, first row.
        let mut open: Vec<(usize, usize, (usize, usize), usize)> = Vec::new();
        for row in 0..=self.height {
            let found = if row < self.height { self.looks(row) } else { Vec::new() };
            let mut before = open.into_iter().peekable();
            open = Vec::with_capacity(found.len());
            for (from, to, look) in found {
                let mut first = row;
                while let Some(run) = before.next_if(|run| run.0 <= from) {
                    if (run.0, run.1, run.2) == (from, to, look) {
                        first = run.3;
                    } else {
                        done.push(self.run(run, row));
                    }
                }
                open.push((from, to, look, first));
            }
            done.extend(before.map(|run| self.run(run, row)));
        }
        done
    }

    /// Runs of one row.
    fn looks(&self, row: usize) -> Vec<(usize, usize, (usize, usize))> {
        let mut found: Vec<(usize, usize, (usize, usize))> = Vec::new();
        for column in 0..self.width {
            let sums = self.sums[row * (self.width + 1) + column];
            let all: i64 = sums.iter().sum();
            if all <= 0 {
                continue;
            }
            let group = (0..G).max_by_key(|&group| sums[group]).unwrap_or(0);
            let level = ((all as f64 / WHOLE * LEVELS as f64).round() as usize).clamp(1, LEVELS);
            match found.last_mut() {
                Some((_, to, look)) if *to == column && *look == (group, level) => *to += 1,
                _ => found.push((column, column + 1, (group, level))),
            }
        }
        found
    }

    fn run(&self, (from, to, (group, level), first): (usize, usize, (usize, usize), usize), after: usize) -> Run {
        let x = |column: usize| (self.area.x + column as f64 * self.size).min(self.area.right());
        let y = |row: usize| (self.area.y + row as f64 * self.size).min(self.area.bottom());
        Run { group, level, place: Rect::new(x(from), y(first), x(to), y(after)) }
    }
}

/// The cells from `low` to `high`, and the share of them that is covered; at least one cell.
fn span(low: f64, high: f64, size: f64, count: usize) -> ((usize, usize), f64) {
    let (low, high) = (low / size, high / size);
    let (first, last) = (low.round().max(0.0) as usize, (high.round().max(0.0) as usize).min(count));
    if first < last {
        return ((first, last), 1.0);
    }
    let only = (((low + high) / 2.0).max(0.0) as usize).min(count - 1);
    ((only, only + 1), (high - low).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_thin_rows_add_up_to_a_full_one() {
        let mut cells = Cells::<3>::new(Rect::new(10.0, 10.0, 30.0, 20.0), 1.0);
        for i in 0..10 {
            let top = 12.0 + f64::from(i) / 10.0;
            cells.add(Rect::new(15.0, top, 25.0, top + 0.1), 1);
        }
        cells.add(Rect::new(28.0, 10.0, 28.4, 20.0), 2);
        let mut runs = cells.runs();
        runs.sort_by(|a, b| a.place.x.total_cmp(&b.place.x));
        assert_eq!(
            runs,
            [
                Run { group: 1, level: 8, place: Rect::new(15.0, 12.0, 25.0, 13.0) },
                Run { group: 2, level: 3, place: Rect::new(28.0, 10.0, 29.0, 20.0) },
            ]
        );
    }

    #[test]
    fn a_huge_area_takes_few_cells() {
        let cells = Cells::<3>::new(Rect::new(0.0, 0.0, 8192.0, 8192.0), 1.0);
        assert!(cells.sums.len() < 2_100_000);
    }
}
