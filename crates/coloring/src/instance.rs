//! A problem made ready for the solvers: times become indices of maximal cliques, columns become arrays.

use lifetime::Bytes;

use crate::{Buffer, Error, Problem};

/// A time during which a buffer holds the same bytes `[lo, hi)`, counted from its own start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First moment.
    pub(crate) birth: u32,
    /// Moment after the last.
    pub(crate) death: u32,
    /// First byte held.
    pub(crate) lo: u64,
    /// End of the bytes held.
    pub(crate) hi: u64,
}

/// Marks a buffer that may lie anywhere.
pub(crate) const FREE: u64 = u64::MAX;

/// The solvers' view of a problem.
///
/// A *moment* here is a maximal clique of the interval graph: a point in time at which something has just been born and
/// after which something dies. Two pieces overlap in time exactly if they share a moment, so nothing is lost, and there
/// are at most as many moments as pieces. (Any interval graph has such a clique path: Fulkerson and Gross, 1965.)
#[derive(Clone, Debug, Default)]
pub(crate) struct Instance {
    /// Moments in all.
    pub(crate) moments: usize,
    /// First moment of each buffer.
    pub(crate) birth: Vec<u32>,
    /// Moment after the last of each buffer.
    pub(crate) death: Vec<u32>,
    /// Bytes of each buffer.
    pub(crate) size: Vec<u64>,
    /// Alignment of each buffer.
    pub(crate) align: Vec<u64>,
    /// Fixed offset of each buffer, or [`FREE`].
    pub(crate) fixed: Vec<u64>,
    /// Length of each live range in the problem's own time.
    pub(crate) life: Vec<u64>,
    /// Birth of each live range in the problem's own time.
    pub(crate) born_at: Vec<u64>,
    /// Pieces of all buffers; those of buffer `i` are `first_piece[i]..first_piece[i + 1]`. Empty where no buffer has
    /// gaps: then the columns above say everything.
    pub(crate) pieces: Vec<Piece>,
    first_piece: Vec<u32>,
    /// Buffers that each buffer is separated from, beyond overlaps in time.
    separated: Vec<u32>,
    first_separated: Vec<u32>,
}

impl Instance {
    /// Checks a problem and makes it ready.
    pub(crate) fn new(problem: &Problem) -> Result<Self, Error> {
        check(problem)?;
        let n = problem.buffers.len();
        let has_gaps = problem.buffers.iter().any(|b| !b.gaps.is_empty());
        // In the problem's own time first; moments are substituted below.
        let mut spans: Vec<(u64, u64)> = Vec::with_capacity(n);
        let mut pieces = Vec::new();
        let mut first_piece = Vec::new();
        if has_gaps {
            first_piece.push(0);
            for buffer in &problem.buffers {
                for (birth, death, lo, hi) in held(buffer) {
                    spans.push((birth, death));
                    pieces.push(Piece { birth: 0, death: 0, lo, hi });
                }
                first_piece.push(pieces.len() as u32);
            }
        } else {
            spans.extend(problem.buffers.iter().map(|b| (b.range.birth.0, b.range.death.0)));
        }
        let (moments, spans) = to_moments(&spans);
        let (birth, death) = if has_gaps {
            for (piece, &(birth, death)) in pieces.iter_mut().zip(&spans) {
                (piece.birth, piece.death) = (birth, death);
            }
            hulls(&pieces, &first_piece)
        } else {
            spans.into_iter().unzip()
        };
        let (first_separated, separated) = adjacency(n, &problem.separations);
        Ok(Self {
            moments,
            birth,
            death,
            size: problem.buffers.iter().map(|b| b.size.0).collect(),
            align: problem.buffers.iter().map(|b| b.alignment).collect(),
            fixed: problem.buffers.iter().map(|b| b.fixed.map_or(FREE, |o| o.0)).collect(),
            life: problem.buffers.iter().map(|b| b.range.half_steps()).collect(),
            born_at: problem.buffers.iter().map(|b| b.range.birth.0).collect(),
            pieces,
            first_piece,
            separated,
            first_separated,
        })
    }

    /// Number of buffers.
    pub(crate) fn len(&self) -> usize {
        self.size.len()
    }

    /// What buffer `i` holds and when.
    pub(crate) fn pieces_of(&self, i: usize) -> impl ExactSizeIterator<Item = Piece> + '_ {
        let whole = Piece { birth: self.birth[i], death: self.death[i], lo: 0, hi: self.size[i] };
        let own = match self.first_piece.as_slice() {
            [] => None,
            first => Some(&self.pieces[first[i] as usize..first[i + 1] as usize]),
        };
        let count = own.map_or(1, <[Piece]>::len);
        (0..count).map(move |k| own.map_or(whole, |pieces| pieces[k]))
    }

    /// Buffers that `i` is separated from although they don't overlap in time.
    pub(crate) fn separated_from(&self, i: usize) -> &[u32] {
        match self.first_separated.as_slice() {
            [] => &[],
            first => &self.separated[first[i] as usize..first[i + 1] as usize],
        }
    }

    /// Whether buffers are plain rectangles: no gaps, no separations.
    pub(crate) fn is_plain(&self) -> bool {
        self.pieces.is_empty() && self.separated.is_empty()
    }

    /// Whether some buffer has a fixed offset.
    pub(crate) fn has_fixed(&self) -> bool {
        self.fixed.iter().any(|&offset| offset != FREE)
    }

    /// Bytes live at each moment.
    pub(crate) fn loads(&self) -> Vec<u64> {
        let mut change = vec![0_i128; self.moments + 1];
        for i in 0..self.len() {
            for piece in self.pieces_of(i) {
                let bytes = i128::from(piece.hi - piece.lo);
                change[piece.birth as usize] += bytes;
                change[piece.death as usize] -= bytes;
            }
        }
        let mut load = 0_i128;
        change.truncate(self.moments);
        change
            .iter()
            .map(|c| {
                load += c;
                load as u64
            })
            .collect()
    }

    /// Highest end over all buffers at these offsets.
    pub(crate) fn peak(&self, offsets: &[u64]) -> u64 {
        offsets.iter().zip(&self.size).map(|(o, s)| o + s).max().unwrap_or(0)
    }
}

/// The smallest multiple of `align` that is at least `value`.
pub(crate) fn align_up(value: u64, align: u64) -> u64 {
    if align.is_power_of_two() { (value + align - 1) & !(align - 1) } else { value.div_ceil(align) * align }
}

/// The greatest common divisor; the other number if one is 0.
pub(crate) fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// What a buffer holds and when, `(birth, death, lo, hi)` in the problem's own time; parts without bytes are left out.
pub(crate) fn held(buffer: &Buffer) -> impl Iterator<Item = (u64, u64, u64, u64)> + '_ {
    let size = buffer.size.0;
    let starts = std::iter::once(buffer.range.birth.0).chain(buffer.gaps.iter().map(|g| g.range.death.0));
    let ends = buffer.gaps.iter().map(|g| g.range.birth.0).chain(std::iter::once(buffer.range.death.0));
    let whole = starts.zip(ends).map(move |(from, to)| (from, to, 0, size));
    let kept = buffer
        .gaps
        .iter()
        .filter_map(|gap| gap.kept.map(|(lo, hi)| (gap.range.birth.0, gap.range.death.0, lo.0, hi.0)));
    whole.chain(kept).filter(|&(from, to, lo, hi)| from < to && lo < hi)
}

/// Everything the solvers take for granted.
pub(crate) fn check(problem: &Problem) -> Result<(), Error> {
    let count = problem.buffers.len();
    if count >= u32::MAX as usize - 1 {
        return Err(Error::TooMany { count });
    }
    let (mut total, mut highest_fixed) = (0_u128, 0);
    for (buffer, b) in problem.buffers.iter().enumerate() {
        if b.size == Bytes(0) {
            return Err(Error::EmptyBuffer { buffer });
        }
        if b.range.birth >= b.range.death {
            return Err(Error::EmptyRange { buffer, birth: b.range.birth.0, death: b.range.death.0 });
        }
        if b.alignment == 0 {
            return Err(Error::ZeroAlignment { buffer });
        }
        if let Some(offset) = b.fixed {
            if offset.0 % b.alignment != 0 {
                return Err(Error::MisalignedFixed { buffer, offset: offset.0, alignment: b.alignment });
            }
            highest_fixed = highest_fixed.max(offset.0);
        }
        total += u128::from(b.size.0) + u128::from(b.alignment - 1);
        check_gaps(buffer, b)?;
    }
    if total + u128::from(highest_fixed) >= 1 << 63 {
        return Err(Error::TooLarge);
    }
    let mut previous = None;
    for (index, &(first, second)) in problem.separations.iter().enumerate() {
        if first >= second || second as usize >= count || previous >= Some((first, second)) {
            return Err(Error::BadSeparation { index, first, second });
        }
        previous = Some((first, second));
    }
    Ok(())
}

fn check_gaps(buffer: usize, b: &Buffer) -> Result<(), Error> {
    let mut from = b.range.birth;
    for (gap, g) in b.gaps.iter().enumerate() {
        let bad = |reason| Err(Error::BadGap { buffer, gap, reason });
        if g.range.birth >= g.range.death {
            return bad("is empty");
        }
        if g.range.birth < from || g.range.death > b.range.death {
            return bad("lies outside the live range or before the gap in front of it");
        }
        if let Some((lo, hi)) = g.kept
            && (lo >= hi || hi.0 > b.size.0)
        {
            return bad("keeps no bytes or bytes that the buffer does not have");
        }
        from = g.range.death;
    }
    if held(b).next().is_none() {
        return Err(Error::BadGap {
            buffer,
            gap: 0,
            reason: "leaves the buffer without a moment at which it holds bytes",
        });
    }
    Ok(())
}

/// Replaces times by indices of maximal cliques; returns how many there are, and `[first, last + 1)` for each span.
fn to_moments(spans: &[(u64, u64)]) -> (usize, Vec<(u32, u32)>) {
    let mut births: Vec<u32> = (0..spans.len() as u32).collect();
    let mut deaths = births.clone();
    births.sort_unstable_by_key(|&i| spans[i as usize].0);
    deaths.sort_unstable_by_key(|&i| spans[i as usize].1);
    let mut moments = vec![(0, 0); spans.len()];
    let (mut moment, mut next_death) = (0, 0);
    // A new clique begins with the first birth after a death; until then births only add to the one there is.
    let mut died = false;
    for &i in &births {
        let at = spans[i as usize].0;
        while let Some(&j) = deaths.get(next_death).filter(|&&j| spans[j as usize].1 <= at) {
            moments[j as usize].1 = moment + 1;
            next_death += 1;
            died = true;
        }
        if died {
            moment += 1;
            died = false;
        }
        moments[i as usize].0 = moment;
    }
    for &j in &deaths[next_death..] {
        moments[j as usize].1 = moment + 1;
    }
    (if spans.is_empty() { 0 } else { moment as usize + 1 }, moments)
}

fn hulls(pieces: &[Piece], first: &[u32]) -> (Vec<u32>, Vec<u32>) {
    first
        .windows(2)
        .map(|w| {
            let own = &pieces[w[0] as usize..w[1] as usize];
            let birth = own.iter().map(|p| p.birth).min().unwrap_or(0);
            (birth, own.iter().map(|p| p.death).max().unwrap_or(birth))
        })
        .unzip()
}

/// Neighbour lists of a set of pairs, both directions.
fn adjacency(n: usize, pairs: &[(u32, u32)]) -> (Vec<u32>, Vec<u32>) {
    if pairs.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let mut first = vec![0_u32; n + 1];
    for &(a, b) in pairs {
        first[a as usize + 1] += 1;
        first[b as usize + 1] += 1;
    }
    for i in 0..n {
        first[i + 1] += first[i];
    }
    let mut next = first.clone();
    let mut list = vec![0; pairs.len() * 2];
    for &(a, b) in pairs {
        for (from, to) in [(a, b), (b, a)] {
            list[next[from as usize] as usize] = to;
            next[from as usize] += 1;
        }
    }
    (first, list)
}
