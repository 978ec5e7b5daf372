//! A plan checked and put in the order in which it is drawn.

use coloring::{PlacedBuffer, Plan};
use lifetime::LiveRange;

use crate::{Error, numbers::cut};

/// A rectangle of a buffer: all of it, or what its gaps leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Number of the buffer in drawing order.
    pub(crate) number: u32,
    /// First moment.
    pub(crate) start: u64,
    /// Moment after the last.
    pub(crate) end: u64,
    /// First byte.
    pub(crate) low: u64,
    /// Byte after the last.
    pub(crate) high: u64,
}

/// A gap inside its buffer's life, apart from the gaps before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CleanGap {
    /// First moment.
    pub(crate) start: u64,
    /// Moment after the last.
    pub(crate) end: u64,
    /// Bytes kept, `[from, to)` from the buffer's own start; equal where nothing is.
    pub(crate) kept: (u64, u64),
}

/// A plan ready to be drawn.
#[derive(Debug)]
pub(crate) struct Model<'a> {
    /// The plan.
    pub(crate) plan: &'a Plan,
    /// Indices of the buffers in drawing order: by birth, then by offset.
    pub(crate) order: Vec<u32>,
    /// First moment drawn.
    pub(crate) start: u64,
    /// Moment after the last one drawn; greater than `start`.
    pub(crate) end: u64,
    /// Byte after the last one in use, or the plan's peak if that is higher.
    pub(crate) top: u64,
}

impl<'a> Model<'a> {
    /// Checks that `plan` can be drawn.
    ///
    /// # Errors
    /// Refuses an empty live range, an end past 2^64, and more buffers than 32 bits count.
    pub(crate) fn new(plan: &'a Plan) -> Result<Self, Error> {
        let Ok(count) = u32::try_from(plan.buffers.len()) else {
            return Err(Error::TooManyBuffers { count: plan.buffers.len(), limit: u32::MAX as usize });
        };
        let mut top = plan.peak.0;
        for buffer in &plan.buffers {
            let LiveRange { birth, death } = buffer.range;
            let name = || cut(&buffer.id, 200).into_owned();
            if birth >= death {
                return Err(Error::EmptyLiveRange { buffer: name(), birth, death });
            }
            let Some(end) = buffer.offset.0.checked_add(buffer.bytes.0) else {
                return Err(Error::EndOverflow { buffer: name(), offset: buffer.offset, bytes: buffer.bytes });
            };
            top = top.max(end);
        }
        let mut order: Vec<u32> = (0..count).collect();
        order.sort_unstable_by_key(|&index| {
            let buffer = &plan.buffers[index as usize];
            (buffer.range.birth, buffer.offset, index)
        });
        let born = order.first().map_or(0, |&index| plan.buffers[index as usize].range.birth.0);
        // A graph's step begins at 0; a file's times may begin anywhere.
        let start = if plan.order.is_some() { 0 } else { born };
        let died = plan.buffers.iter().map(|b| b.range.death.0).max().unwrap_or(0);
        let mut end = died.max(plan.end.0).max(start);
        let mut start = start;
        if end == start {
            (start, end) = if end == u64::MAX { (end - 1, end) } else { (start, end + 1) };
        }
        Ok(Self { plan, order, start, end, top })
    }

    /// The buffers in drawing order.
    pub(crate) fn buffers(&self) -> impl ExactSizeIterator<Item = &'a PlacedBuffer> + Clone + '_ {
        self.order.iter().map(|&index| &self.plan.buffers[index as usize])
    }

    /// The buffer with this number in drawing order.
    pub(crate) fn buffer(&self, number: u32) -> &'a PlacedBuffer {
        &self.plan.buffers[self.order[number as usize] as usize]
    }

    /// Time units of one label on the time axis: a position in the order owns two half-steps.
    pub(crate) fn time_unit(&self) -> u64 {
        if self.plan.order.is_some() { 2 } else { 1 }
    }

    /// What the time axis counts.
    pub(crate) fn time_title(&self) -> &'static str {
        if self.plan.order.is_some() { "step (position in the order of ops)" } else { "step (time as in the file)" }
    }

    /// The rectangles of all buffers, by start.
    pub(crate) fn pieces(&self) -> Vec<Piece> {
        let mut pieces = Vec::with_capacity(self.order.len());
        for (number, buffer) in (0..).zip(self.buffers()) {
            cut_out(number, buffer, &mut pieces);
        }
        // Without gaps they are in order already, which the sort finds in one pass.
        pieces.sort_by_key(|piece| piece.start);
        pieces
    }
}

/// The gaps of a buffer in order, cut to its life and to each other.
pub(crate) fn clean_gaps(buffer: &PlacedBuffer) -> Vec<CleanGap> {
    let mut gaps: Vec<_> = buffer.gaps.iter().filter(|gap| gap.range.birth < gap.range.death).collect();
    gaps.sort_by_key(|gap| gap.range.birth);
    let mut clean = Vec::with_capacity(gaps.len());
    let mut now = buffer.range.birth.0;
    for gap in gaps {
        let (start, end) = (gap.range.birth.0.max(now), gap.range.death.0.min(buffer.range.death.0));
        if start >= end {
            continue;
        }
        let kept = gap.kept.map_or((0, 0), |(from, to)| {
            let to = to.0.min(buffer.bytes.0);
            (from.0.min(to), to)
        });
        clean.push(CleanGap { start, end, kept });
        now = end;
    }
    clean
}

/// Adds the rectangles of one buffer.
fn cut_out(number: u32, buffer: &PlacedBuffer, pieces: &mut Vec<Piece>) {
    let (offset, bytes) = (buffer.offset.0, buffer.bytes.0);
    let mut add = |start: u64, end: u64, from: u64, to: u64| {
        if start < end && from < to {
            pieces.push(Piece { number, start, end, low: offset + from, high: offset + to });
        }
    };
    let mut now = buffer.range.birth.0;
    if !buffer.gaps.is_empty() {
        for gap in clean_gaps(buffer) {
            add(now, gap.start, 0, bytes);
            add(gap.start, gap.end, gap.kept.0, gap.kept.1);
            now = gap.end;
        }
    }
    add(now, buffer.range.death.0, 0, bytes);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use coloring::Gap;
    use lifetime::{HalfStep, Offset};

    use super::*;
    use crate::samples;

    fn rectangles(plan: &Plan) -> Vec<(u64, u64, u64, u64)> {
        Model::new(plan).unwrap().pieces().iter().map(|p| (p.start, p.end, p.low, p.high)).collect()
    }

    #[test]
    fn gaps_are_cut_out_of_a_buffer() {
        let mut plan = samples::plan(&[(0, 100, 64, 32)]);
        let range = |a, b| LiveRange { birth: HalfStep(a), death: HalfStep(b) };
        plan.buffers[0].gaps = vec![
            Gap { range: range(60, 70), kept: Some((Offset(8), Offset(16))) },
            Gap { range: range(10, 20), kept: None },
        ];
        assert_eq!(rectangles(&plan), [(0, 10, 64, 96), (20, 60, 64, 96), (60, 70, 72, 80), (70, 100, 64, 96)]);
    }

    #[test]
    fn gaps_that_overlap_or_stick_out_are_cut_to_size() {
        let mut plan = samples::plan(&[(10, 20, 0, 8)]);
        let range = |a, b| LiveRange { birth: HalfStep(a), death: HalfStep(b) };
        plan.buffers[0].gaps = vec![
            Gap { range: range(0, 12), kept: None },
            Gap { range: range(11, 14), kept: Some((Offset(4), Offset(u64::MAX))) },
            Gap { range: range(18, u64::MAX), kept: Some((Offset(9), Offset(3))) },
            Gap { range: range(16, 15), kept: None },
        ];
        assert_eq!(rectangles(&plan), [(12, 14, 4, 8), (14, 18, 0, 8)]);
    }

    #[test]
    fn a_plan_that_cannot_be_drawn_is_refused_with_the_buffer_named() {
        let mut plan = samples::plan(&[(0, 1, 0, 8), (5, 6, 0, 8)]);
        plan.buffers[1].range = LiveRange { birth: HalfStep(5), death: HalfStep(5) };
        let text = Model::new(&plan).unwrap_err().to_string();
        assert!(text.contains("\"b1\"") && text.contains("dies at 5"), "{text}");
        let plan = samples::plan(&[(0, 1, u64::MAX, 1)]);
        let text = Model::new(&plan).unwrap_err().to_string();
        assert!(text.contains("\"b0\"") && text.contains("2^64"), "{text}");
    }

    #[test]
    fn time_starts_with_the_graph_or_with_the_first_birth() {
        let mut plan = samples::plan(&[(900, 950, 0, 8)]);
        assert_eq!(Model::new(&plan).unwrap().start, 900);
        plan.order = Some(Vec::new());
        assert_eq!(Model::new(&plan).unwrap().start, 0);
        let empty = samples::plan(&[]);
        let model = Model::new(&empty).unwrap();
        assert!(model.start < model.end);
    }
}
