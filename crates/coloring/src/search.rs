//! Exact search: do the buffers fit below a given height?
//!
//! Depth-first over *canonical* placements (Moffitt, "MiniMalloc", ASPLOS 2023): buffers are placed at rising offsets,
//! each directly on what is below it, ties by rank. Every placement can be pushed down into a canonical one, so nothing
//! is lost. What cuts the tree:
//! - a moment whose floor and unplaced bytes don't fit below the height any more;
//! - a buffer that could still be put wholly below the current offset (dominated: it should have gone first);
//! - a buffer with nothing unplaced above it (hatless: if the rest fails with it here, it fails with it anywhere);
//! - twins, equal in time and size, are placed in order of number;
//! - when the unplaced buffers fall apart in time, the parts are solved on their own.
//!
//! A fixed buffer has one candidate offset and bars all higher ones until it is placed.

use crate::instance::{FREE, Instance, align_up};

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// These offsets fit.
    Found(Vec<u64>),
    /// Nothing fits: everything was tried.
    Exhausted,
    /// The node budget ran out, or somebody asked to stop.
    Stopped,
}

/// Result of a subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fits,
    Fails,
    Stop,
}

/// State of one search; see the module's page.
pub(crate) struct Search<'a> {
    instance: &'a Instance,
    height: u64,
    /// Position of each buffer in the order of preference.
    rank: Vec<u32>,
    /// Lowest offset at which each unplaced buffer clears all that is placed.
    lowest: Vec<u64>,
    /// Offset of each placed buffer.
    offsets: Vec<u64>,
    /// Per moment: the highest end placed there.
    floor: Vec<u64>,
    /// Per moment: bytes still to be placed there.
    rest: Vec<u64>,
    /// Per boundary between moments `m - 1` and `m`: unplaced buffers that span it.
    spanning: Vec<u32>,
    /// Unplaced buffers of the parts that are open, each part in order of rank, the innermost last.
    open: Vec<u32>,
    /// Placed buffers, last on top, each with how long the two lists below were before it.
    trail: Vec<(u32, usize, usize)>,
    /// Old values of `lowest`.
    raised: Vec<(u32, u64)>,
    /// Old values of `floor`.
    floors: Vec<u64>,
    candidates: Vec<(u64, u32, u32)>,
    nodes: u64,
    node_limit: u64,
    stopped: &'a dyn Fn() -> bool,
}

/// An open part: its slice of `Search::open`, the moments it spans, and the last placement before it.
#[derive(Clone, Copy, Debug)]
struct Part {
    from: usize,
    to: usize,
    first: u32,
    end: u32,
    last_offset: u64,
    last_rank: u32,
}

impl<'a> Search<'a> {
    /// A search for offsets whose ends are all at most `height`, trying buffers in `order` where nothing else decides.
    /// The instance must be plain.
    pub(crate) fn new(
        instance: &'a Instance,
        height: u64,
        order: &[u32],
        node_limit: u64,
        stopped: &'a dyn Fn() -> bool,
    ) -> Self {
        let n = instance.len();
        let mut rank = vec![0; n];
        for (position, &i) in order.iter().enumerate() {
            rank[i as usize] = position as u32;
        }
        let mut spanning = vec![0_i64; instance.moments + 2];
        for i in 0..n {
            spanning[instance.birth[i] as usize + 1] += 1;
            spanning[instance.death[i] as usize] -= 1;
        }
        let mut count = 0;
        let spanning = spanning.iter().map(|change| {
            count += change;
            count.max(0) as u32
        });
        Self {
            instance,
            height,
            rank,
            lowest: instance.fixed.iter().map(|&fixed| if fixed == FREE { 0 } else { fixed }).collect(),
            offsets: vec![0; n],
            floor: vec![0; instance.moments],
            rest: instance.loads(),
            spanning: spanning.collect(),
            open: order.to_vec(),
            trail: Vec::new(),
            raised: Vec::new(),
            floors: Vec::new(),
            candidates: Vec::new(),
            nodes: 0,
            node_limit,
            stopped,
        }
    }

    /// Runs to the end or the limit; also says how many nodes were visited.
    pub(crate) fn run(mut self) -> (Outcome, u64) {
        let whole = Part {
            from: 0,
            to: self.open.len(),
            first: 0,
            end: self.instance.moments as u32,
            last_offset: 0,
            last_rank: 0,
        };
        let outcome = match self.split(whole) {
            Verdict::Fits => Outcome::Found(self.offsets),
            Verdict::Fails => Outcome::Exhausted,
            Verdict::Stop => Outcome::Stopped,
        };
        (outcome, self.nodes)
    }

    /// Solves the parts into which `part` falls, one after the other.
    fn split(&mut self, part: Part) -> Verdict {
        let top = self.open.len();
        let mut first = part.first;
        let mut verdict = Verdict::Fits;
        while first < part.end && verdict == Verdict::Fits {
            let mut end = first + 1;
            while end < part.end && self.spanning[end as usize] > 0 {
                end += 1;
            }
            if self.rest[first as usize] > 0 {
                let from = self.open.len();
                if first == part.first && end == part.end {
                    self.open.extend_from_within(part.from..part.to);
                } else {
                    for k in part.from..part.to {
                        let i = self.open[k];
                        if (first..end).contains(&self.instance.birth[i as usize]) {
                            self.open.push(i);
                        }
                    }
                }
                let to = self.open.len();
                verdict = self.solve(Part { from, to, first, end, ..part });
                self.open.truncate(from);
            }
            first = end;
        }
        self.open.truncate(top);
        verdict
    }

    fn solve(&mut self, part: Part) -> Verdict {
        self.nodes += 1;
        if self.nodes > self.node_limit || (self.nodes & 255 == 0 && (self.stopped)()) {
            return Verdict::Stop;
        }
        let first_candidate = self.candidates.len();
        let Some(roof) = self.roof(part) else { return Verdict::Fails };
        self.collect_candidates(part, roof);
        let end = self.candidates.len();
        self.candidates[first_candidate..end].sort_unstable();
        let mut verdict = Verdict::Fails;
        for k in first_candidate..end {
            let (offset, rank, i) = self.candidates[k];
            if self.has_earlier_twin(first_candidate, k) {
                continue;
            }
            let placed = self.trail.len();
            let (fits, is_split, is_hatless) = self.put(part, i, offset);
            if fits {
                let next = Part { last_offset: offset, last_rank: rank, ..part };
                verdict = self.go_on(next, i, is_split);
            }
            if verdict == Verdict::Fits || verdict == Verdict::Stop {
                break;
            }
            self.take_back(placed);
            if is_hatless && k == first_candidate {
                break;
            }
        }
        self.candidates.truncate(first_candidate);
        verdict
    }

    /// The lowest end that some unplaced buffer can have: no candidate may begin there or above. `None` if the part
    /// can't be solved any more.
    fn roof(&self, part: Part) -> Option<u64> {
        let (mut roof, mut ground) = (u64::MAX, u64::MAX);
        for &i in &self.open[part.from..part.to] {
            let (lowest, size) = (self.lowest[i as usize], self.instance.size[i as usize]);
            // Offsets rise, so nothing may begin above a fixed buffer that is still to come.
            let is_fixed = self.instance.fixed[i as usize] != FREE;
            roof = roof.min(if is_fixed { lowest + 1 } else { lowest + size });
            ground = ground.min(lowest);
        }
        if part.last_offset >= roof {
            return None;
        }
        let ground = ground.max(part.last_offset);
        let moments = part.first as usize..part.end as usize;
        let fits = self.floor[moments.clone()]
            .iter()
            .zip(&self.rest[moments])
            .all(|(&floor, &rest)| floor.max(ground) + rest <= self.height || rest == 0);
        fits.then_some(roof)
    }

    fn collect_candidates(&mut self, part: Part, roof: u64) {
        for k in part.from..part.to {
            let i = self.open[k];
            let (offset, rank) = (self.lowest[i as usize], self.rank[i as usize]);
            let is_next =
                offset > part.last_offset || (offset == part.last_offset && (offset == 0 || rank > part.last_rank));
            if offset < roof && is_next {
                self.candidates.push((offset, rank, i));
            }
        }
    }

    /// Whether an equal buffer stands earlier among the candidates: trying this one first would repeat that.
    fn has_earlier_twin(&self, from: usize, k: usize) -> bool {
        let same = |a: u32, b: u32| {
            let (a, b, instance) = (a as usize, b as usize, self.instance);
            instance.size[a] == instance.size[b]
                && instance.birth[a] == instance.birth[b]
                && instance.death[a] == instance.death[b]
                && instance.align[a] == instance.align[b]
                && instance.fixed[a] == instance.fixed[b]
        };
        self.candidates[from..k].iter().any(|c| same(c.2, self.candidates[k].2))
    }

    /// Places `i`; says whether every neighbour still fits, whether the rest falls apart, and whether nothing unplaced is
    /// left above it.
    fn put(&mut self, part: Part, i: u32, offset: u64) -> (bool, bool, bool) {
        let instance = self.instance;
        let (birth, death) = (instance.birth[i as usize], instance.death[i as usize]);
        let size = instance.size[i as usize];
        let end = offset + size;
        self.offsets[i as usize] = offset;
        self.trail.push((i, self.raised.len(), self.floors.len()));
        let mut left = 0;
        let mut fits = true;
        for m in birth as usize..death as usize {
            self.floors.push(self.floor[m]);
            self.floor[m] = end;
            self.rest[m] -= size;
            left |= self.rest[m];
            fits &= end + self.rest[m] <= self.height;
        }
        let mut is_split = birth == part.first || death == part.end;
        for boundary in birth as usize + 1..death as usize {
            self.spanning[boundary] -= 1;
            is_split |= self.spanning[boundary] == 0;
        }
        if fits {
            for k in part.from..part.to {
                let j = self.open[k];
                let n = j as usize;
                if self.lowest[n] < end && instance.birth[n] < death && birth < instance.death[n] && j != i {
                    self.raised.push((j, self.lowest[n]));
                    self.lowest[n] = align_up(end, instance.align[n]);
                    fits &= self.lowest[n] + instance.size[n] <= self.height && instance.fixed[n] == FREE;
                }
            }
        }
        (fits, is_split, left == 0)
    }

    /// Undoes every placement after the first `placed`, those of parts that were solved meanwhile included.
    fn take_back(&mut self, placed: usize) {
        while self.trail.len() > placed
            && let Some((i, raised, floors)) = self.trail.pop()
        {
            for (j, lowest) in self.raised.drain(raised..).rev() {
                self.lowest[j as usize] = lowest;
            }
            let (birth, death) = (self.instance.birth[i as usize] as usize, self.instance.death[i as usize] as usize);
            let size = self.instance.size[i as usize];
            for (m, floor) in (birth..death).zip(self.floors.drain(floors..)) {
                self.floor[m] = floor;
                self.rest[m] += size;
            }
            for boundary in birth + 1..death {
                self.spanning[boundary] += 1;
            }
        }
    }

    fn go_on(&mut self, part: Part, placed: u32, is_split: bool) -> Verdict {
        let from = self.open.len();
        for k in part.from..part.to {
            let j = self.open[k];
            if j != placed {
                self.open.push(j);
            }
        }
        let next = Part { from, to: self.open.len(), ..part };
        let verdict = if next.from == next.to {
            Verdict::Fits
        } else if is_split {
            self.split(next)
        } else {
            self.solve(next)
        };
        self.open.truncate(from);
        verdict
    }
}
