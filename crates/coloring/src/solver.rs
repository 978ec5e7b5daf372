//! The portfolio: fast answers first, then whatever lowers the peak, until a bound, a budget or a proof ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lifetime::{Bytes, Offset};
use rayon::prelude::*;

use crate::bounds::{self, Bound};
use crate::greedy::{Order, Ties};
use crate::holes::{self, HoleStats};
use crate::instance::Instance;
use crate::occupancy::Fit;
use crate::promote::{Decoder, Promotion};
use crate::random::Random;
use crate::search::{Outcome, Search};
use crate::{Baseline, BoundKind, Error, Problem, Status, verify};

/// How long and how to search.
#[derive(Clone, Debug)]
pub struct Options {
    /// Work to spend after the first answer, counted in nodes of the exact search and, for a placement of all buffers,
    /// one node a buffer. Equal limits give equal plans on any machine, at any number of threads.
    pub node_limit: u64,
    /// Stop after this long as well. What was found by then depends on the machine, so such a plan isn't deterministic.
    pub time_limit: Option<Duration>,
    /// Stop soon after this becomes true, as if the time limit were over. Only then the plan isn't deterministic.
    pub cancel: Option<Arc<AtomicBool>>,
    /// Threads to use; 0 takes one per core.
    pub threads: usize,
    /// Seed of whatever is random.
    pub seed: u64,
    /// Whether to gather free space in fewer pieces once the offsets are found.
    pub merge_holes: bool,
    /// Whether every [`Baseline`](crate::Baseline) is tried, up to 100 000 buffers, even where the node limit is too low
    /// for that. Without it a plan may be worse than theirs; a time limit cuts it short all the same.
    pub match_baselines: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            node_limit: 4_000_000,
            time_limit: None,
            cancel: None,
            threads: 0,
            seed: 0,
            merge_holes: true,
            match_baselines: true,
        }
    }
}

/// A better plan, as soon as it was found.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Its peak.
    pub peak: Bytes,
    /// What no plan can beat, as far as is known.
    pub lower_bound: Bytes,
    /// The method that found it.
    pub solver: &'static str,
    /// Nodes spent so far.
    pub nodes: u64,
}

/// Offsets and what is known about them.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// One a buffer.
    pub offsets: Vec<Offset>,
    /// Highest end.
    pub peak: Bytes,
    /// Most bytes live at one moment.
    pub max_load: Bytes,
    /// No plan has a lower peak.
    pub lower_bound: Bytes,
    /// What that rests on.
    pub bound_kind: BoundKind,
    /// How good the offsets are known to be.
    pub status: Status,
    /// Whether the same input and options give the same offsets again.
    pub is_deterministic: bool,
    /// The method that found the offsets.
    pub solver: &'static str,
    /// Nodes spent.
    pub nodes: u64,
    /// Free space before hole merging.
    pub holes_before: HoleStats,
    /// Free space after it.
    pub holes_after: HoleStats,
}

/// Largest instance given to the exact search: its memory grows with the square of the number of buffers.
const SEARCH_BUFFERS: usize = 4_000;

/// Room for the exact search's recursion, one level a buffer.
const STACK_BYTES: usize = 64 << 20;

/// How to place all buffers.
type Rule = (Order, Ties, Decoder);

/// Whether some peer places buffers by this rule.
fn is_baseline(rule: &Rule) -> bool {
    let &(order, ties, decoder) = rule;
    let mut rules = Baseline::ALL.iter().flat_map(|b| b.rules());
    ties == Ties::Number && rules.any(|r| r.0 == order && Decoder::Greedy(r.1) == decoder)
}

/// Above this many buffers the first answer is the one that is gentlest to the cache, and what follows must fit the budget.
const MANY_BUFFERS: usize = 100_000;

const BY_ARRIVAL: Rule = (Order::Arrival, Ties::Number, LOWEST);

/// Placements of all buffers that are tried first, cheapest and most often best in front.
const FIRST: [Rule; 9] = [
    (Order::Pressure, Ties::Life, LOWEST),
    (Order::Size, Ties::Number, LOWEST),
    (Order::Area, Ties::Life, LOWEST),
    (Order::Tightness, Ties::Birth, LOWEST),
    (Order::Life, Ties::Number, LOWEST),
    (Order::Area, Ties::Number, LOWEST),
    BY_ARRIVAL,
    (Order::Size, Ties::Life, LOWEST),
    (Order::Departure, Ties::Life, LOWEST),
];

/// Dearer ones, tried where none of the first reached the bound. With the first they contain every baseline, so that no
/// plan is above one.
const SECOND: [Rule; 13] = [
    (Order::Pressure, Ties::Life, BEST),
    (Order::Size, Ties::Number, BEST),
    (Order::Area, Ties::Number, BEST),
    (Order::Life, Ties::Number, BEST),
    (Order::Arrival, Ties::Number, BEST),
    (Order::Tightness, Ties::Birth, BEST),
    (Order::Size, Ties::Life, BEST),
    (Order::Area, Ties::Life, Decoder::Skyline),
    (Order::Life, Ties::Number, Decoder::Skyline),
    (Order::Pressure, Ties::Life, Decoder::Skyline),
    (Order::Size, Ties::Number, Decoder::Skyline),
    (Order::Departure, Ties::Life, Decoder::Skyline),
    (Order::Arrival, Ties::Life, Decoder::Skyline),
];

/// Where the lines of [`Promotion`] start.
const LINES: [Rule; 6] = [
    (Order::Life, Ties::Number, Decoder::Skyline),
    (Order::Size, Ties::Number, LOWEST),
    (Order::Area, Ties::Life, Decoder::Skyline),
    (Order::Pressure, Ties::Life, LOWEST),
    (Order::Size, Ties::Number, Decoder::Skyline),
    (Order::Tightness, Ties::Birth, LOWEST),
];

/// Preferences the exact search is run with.
const PREFERENCES: [(Order, Ties); 8] = [
    (Order::Area, Ties::Life),
    (Order::Life, Ties::Life),
    (Order::Size, Ties::Life),
    (Order::Tightness, Ties::Life),
    (Order::Pressure, Ties::Life),
    (Order::Departure, Ties::Life),
    (Order::Arrival, Ties::Life),
    (Order::Size, Ties::Number),
];

const LOWEST: Decoder = Decoder::Greedy(Fit::Lowest);
const BEST: Decoder = Decoder::Greedy(Fit::Best);

/// Assigns an offset to every buffer, with a peak as low as the budget allows. `on_better` hears of every improvement, the
/// first answer included.
///
/// The result was checked by [`verify`](crate::verify()), which shares no code with the solver.
///
/// # Errors
/// When the problem is refused, when its fixed buffers overlap, or when an invariant of the solver breaks.
pub fn solve(
    problem: &Problem,
    options: &Options,
    on_better: &mut (dyn FnMut(Progress) + Send),
) -> Result<Solution, Error> {
    let instance = Instance::new(problem)?;
    check_fixed(problem)?;
    let mut solver = Solver {
        instance: &instance,
        bound: bounds::bound(&instance),
        capacity: problem.capacity.map(|c| c.0),
        node_limit: options.node_limit,
        match_baselines: options.match_baselines && instance.len() <= MANY_BUFFERS,
        seed: options.seed,
        stop: Stop {
            deadline: options.time_limit.and_then(|limit| Instant::now().checked_add(limit)),
            cancel: options.cancel.as_deref(),
        },
        nodes: 0,
        best: Best { offsets: Vec::new(), peak: u64::MAX, solver: "none" },
        on_better,
    };
    solver.place_first();
    if !solver.is_settled() && (solver.match_baselines || !solver.is_done()) {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(options.threads)
            .stack_size(STACK_BYTES)
            .build()
            .map_err(|e| Error::NoThreads { reason: e.to_string() })?;
        pool.install(|| solver.run());
    }
    let Solver { bound, best, nodes, stop, .. } = solver;
    let mut offsets: Vec<Offset> = best.offsets.into_iter().map(Offset).collect();
    let holes_before = holes::measure(problem, &offsets);
    let holes_after = if options.merge_holes { holes::merge(problem, &mut offsets) } else { holes_before };
    let verified = verify(problem, &offsets).map_err(|defect| Error::Internal { what: defect.to_string() })?;
    let (peak, max_load) = (verified.peak, verified.max_load);
    let lower_bound = Bytes(bound.bytes);
    if max_load != bound.max_load || lower_bound > peak {
        return Err(Error::Internal { what: format!("bound {bound:?} against {verified:?}") });
    }
    let status = match problem.capacity {
        Some(capacity) if peak > capacity => Status::Infeasible,
        _ if peak == lower_bound => Status::Optimal,
        _ => Status::Feasible,
    };
    Ok(Solution {
        offsets,
        peak,
        max_load,
        lower_bound,
        bound_kind: bound.kind,
        status,
        is_deterministic: options.time_limit.is_none() && !stop.is_cancelled(),
        solver: best.solver,
        nodes,
        holes_before,
        holes_after,
    })
}

/// Fixed buffers among themselves are the caller's doing; two on the same bytes can't be placed.
fn check_fixed(problem: &Problem) -> Result<(), Error> {
    let numbers: Vec<usize> = (0..problem.buffers.len()).filter(|&i| problem.buffers[i].fixed.is_some()).collect();
    if numbers.is_empty() {
        return Ok(());
    }
    let place = |i: u32| numbers.binary_search(&(i as usize)).ok().map(|k| k as u32);
    let only = Problem {
        buffers: numbers.iter().map(|&i| problem.buffers[i].clone()).collect(),
        separations: problem.separations.iter().filter_map(|&(a, b)| Some((place(a)?, place(b)?))).collect(),
        capacity: None,
    };
    let offsets: Vec<Offset> = only.buffers.iter().map(|b| b.fixed.unwrap_or_default()).collect();
    match verify(&only, &offsets) {
        Err(crate::Defect::Overlap { first, second, .. }) => {
            Err(Error::FixedOverlap { first: numbers[first], second: numbers[second] })
        }
        Err(defect) => Err(Error::Internal { what: defect.to_string() }),
        Ok(_) => Ok(()),
    }
}

/// What ends the search from outside.
#[derive(Clone, Copy)]
struct Stop<'a> {
    deadline: Option<Instant>,
    cancel: Option<&'a AtomicBool>,
}

impl Stop<'_> {
    fn is_due(self) -> bool {
        self.is_cancelled() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn is_cancelled(self) -> bool {
        // Relaxed: nothing else is read because of it, and a late look only costs work.
        self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }
}

struct Best {
    offsets: Vec<u64>,
    peak: u64,
    solver: &'static str,
}

struct Solver<'a> {
    instance: &'a Instance,
    bound: Bound,
    capacity: Option<u64>,
    node_limit: u64,
    match_baselines: bool,
    seed: u64,
    stop: Stop<'a>,
    nodes: u64,
    best: Best,
    on_better: &'a mut (dyn FnMut(Progress) + Send),
}

impl Solver<'_> {
    fn run(&mut self) {
        if self.capacity.is_some_and(|capacity| self.bound.bytes > capacity) {
            // Nothing fits, so nobody will use the plan, and no work is spent on making it good.
            self.node_limit = 0;
        }
        self.place_all(&FIRST[1..]);
        self.place_all(&SECOND);
        if self.can_search() {
            self.search_at_bound();
        }
        self.promote();
        if self.can_search() {
            self.search_between();
        }
    }

    /// Whether there is nothing left to gain or to spend. The first answer is always waited for.
    fn is_done(&self) -> bool {
        self.is_settled() || self.nodes >= self.node_limit
    }

    /// Whether nothing is left to gain, or no time to gain it in.
    fn is_settled(&self) -> bool {
        let has_plan = !self.best.offsets.is_empty();
        has_plan && (self.best.peak <= self.bound.bytes || self.stop.is_due()) || self.instance.len() == 0
    }

    fn can_search(&self) -> bool {
        self.instance.is_plain() && self.instance.len() <= SEARCH_BUFFERS
    }

    fn can_decode(&self, decoder: Decoder) -> bool {
        decoder != Decoder::Skyline || (self.instance.is_plain() && !self.instance.has_fixed())
    }

    /// Nodes of the exact search per node counted: its nodes look at every unplaced buffer and every moment.
    fn node_weight(&self) -> u64 {
        1 + (self.instance.len() + self.instance.moments) as u64 / 512
    }

    /// Runs tasks in parallel and keeps the best result, the first of several. A task that reaches `goal` ends those after
    /// it, never those before it, and what those after it did counts for nothing, so the result doesn't depend on who
    /// was faster. `run` returns what it found, if anything, and the nodes it spent.
    fn race<T: Send>(
        &mut self,
        solver: &'static str,
        goal: u64,
        tasks: Vec<T>,
        run: impl Fn(&mut T, &dyn Fn() -> bool) -> (Option<Vec<u64>>, u64) + Sync,
    ) -> Vec<T> {
        let (instance, stop) = (self.instance, self.stop);
        let winner = AtomicUsize::new(usize::MAX);
        let results: Vec<_> = tasks
            .into_par_iter()
            .enumerate()
            .with_max_len(1)
            .map(|(index, mut task)| {
                let stopped = || {
                    // Relaxed: a late look only costs work; what counts is read after all tasks have ended.
                    winner.load(Ordering::Relaxed) < index || stop.is_due()
                };
                let (found, spent) = if stopped() { (None, 0) } else { run(&mut task, &stopped) };
                if found.as_ref().is_some_and(|offsets| instance.peak(offsets) <= goal) {
                    winner.fetch_min(index, Ordering::Relaxed);
                }
                (task, found, spent)
            })
            .collect();
        let last = winner.into_inner();
        let mut tasks = Vec::with_capacity(results.len());
        for (index, (task, found, spent)) in results.into_iter().enumerate() {
            if index <= last {
                self.nodes += spent;
                if let Some(offsets) = found {
                    self.offer(solver, offsets);
                }
            }
            tasks.push(task);
        }
        tasks
    }

    fn offer(&mut self, solver: &'static str, offsets: Vec<u64>) {
        let peak = self.instance.peak(&offsets);
        if peak < self.best.peak {
            self.best = Best { offsets, peak, solver };
            let lower_bound = Bytes(self.bound.bytes);
            (self.on_better)(Progress { peak: Bytes(peak), lower_bound, solver, nodes: self.nodes });
        }
    }

    /// The first answer, waited for whatever the limits say.
    fn place_first(&mut self) {
        // So many buffers don't fit into the cache; in order of arrival neighbours in time are at least placed together.
        let rule = if self.instance.len() > MANY_BUFFERS { BY_ARRIVAL } else { FIRST[0] };
        let (order, ties, decoder) = rule;
        self.nodes += decoder.nodes(self.instance);
        if let Ok(offsets) = decoder.place(self.instance, &order.sort(self.instance, ties), u64::MAX) {
            self.offer("greedy", offsets);
        }
    }

    fn place_all(&mut self, rules: &[Rule]) {
        if self.is_settled() {
            return;
        }
        let instance = self.instance;
        let mut left = self.node_limit.saturating_sub(self.nodes);
        let mut is_affordable = |rule: &Rule| {
            let fits = rule.2.nodes(instance) <= left;
            left -= if fits { rule.2.nodes(instance) } else { 0 };
            fits
        };
        let rules: Vec<Rule> = rules
            .iter()
            .copied()
            .filter(|rule| self.can_decode(rule.2))
            .filter(|rule| is_affordable(rule) || (self.match_baselines && is_baseline(rule)))
            .collect();
        self.race("greedy", self.bound.bytes, rules, |&mut (order, ties, decoder), _| {
            let placed = decoder.place(instance, &order.sort(instance, ties), u64::MAX);
            (placed.ok(), decoder.nodes(instance))
        });
    }

    /// Looks for a plan that meets the bound: many preferences in slices that double, since the time such searches take
    /// differs by orders of magnitude from one preference to the next.
    fn search_at_bound(&mut self) {
        let share = self.node_limit.saturating_sub(self.nodes) / 2;
        let until = self.nodes + share;
        let mut slice = 4 * self.instance.len() as u64 + 1_000;
        for round in 0.. {
            if self.is_done() || self.nodes >= until {
                return;
            }
            if self.search(self.bound.bytes, slice, round) == Answer::No {
                self.raise_bound(self.bound.bytes + 1);
                // A bound that search has raised once can often be raised again, at a price; the ladder does that.
                return;
            }
            slice *= 2;
        }
    }

    /// One round of searches for a peak of at most `height`, each of up to `slice` nodes.
    fn search(&mut self, height: u64, slice: u64, round: u64) -> Answer {
        let (instance, seed) = (self.instance, self.seed);
        // Each preference as it is, and from the second round on disturbed as well.
        let count = if round == 0 { PREFERENCES.len() } else { 2 * PREFERENCES.len() };
        let weight = self.node_weight();
        let share = self.node_limit.saturating_sub(self.nodes) / count as u64 / weight;
        let slice = slice.min(share + 1);
        let tasks: Vec<(usize, bool)> = (0..count).map(|k| (k, false)).collect();
        let before = self.best.peak;
        let tasks = self.race("search", height, tasks, |(k, is_exhausted), stopped| {
            let (order, ties) = PREFERENCES[*k % PREFERENCES.len()];
            let mut order = order.sort(instance, ties);
            if *k >= PREFERENCES.len() {
                disturb(&mut order, &mut Random::new(seed, round * 64 + *k as u64));
            }
            let (outcome, nodes) = Search::new(instance, height, &order, slice, stopped).run();
            *is_exhausted = outcome == Outcome::Exhausted;
            let found = if let Outcome::Found(offsets) = outcome { Some(offsets) } else { None };
            (found, nodes * weight)
        });
        if self.best.peak < before {
            Answer::Yes
        } else if tasks.iter().any(|task| task.1) {
            Answer::No
        } else {
            Answer::Unknown
        }
    }

    fn raise_bound(&mut self, bytes: u64) {
        if bytes > self.bound.bytes {
            self.bound = Bound { bytes, kind: BoundKind::Search, ..self.bound };
        }
    }

    /// Improves orders by their failures, a line of search each, until most of the budget is gone.
    fn promote(&mut self) {
        let instance = self.instance;
        let until = if self.can_search() {
            self.nodes + self.node_limit.saturating_sub(self.nodes) * 2 / 3
        } else {
            self.node_limit
        };
        let mut lines: Vec<Promotion> = LINES
            .iter()
            .enumerate()
            .filter(|(_, line)| self.can_decode(line.2))
            .map(|(k, &(order, ties, decoder))| {
                Promotion::new(decoder, order.sort(instance, ties), Random::new(self.seed, k as u64))
            })
            .collect();
        let once = lines.iter().map(|line| line.nodes(instance)).max().unwrap_or(0);
        let mut slice = 4 * once;
        while !self.is_done() && self.nodes < until {
            let (limit, bound) = (self.best.peak, self.bound.bytes);
            slice = slice.min((until - self.nodes) / lines.len().max(1) as u64 + 1);
            lines =
                self.race("promotion", bound, lines, |line, stopped| line.run(instance, limit, bound, slice, stopped));
            slice *= 2;
        }
    }

    /// Searches for plans between the bound and the best peak, halving what is open.
    fn search_between(&mut self) {
        let mut tried = self.bound.bytes;
        for round in 1.. {
            let best = self.best.peak;
            // Closer than this a search that gave up once gives up again.
            if self.is_done() || best - tried <= best / 1024 && tried > self.bound.bytes {
                return;
            }
            let height = tried + (best - tried) / 2;
            let slice = 20_000.max(2 * self.instance.len() as u64);
            match self.search(height.min(best - 1), slice, round) {
                Answer::Yes => tried = self.bound.bytes,
                Answer::No => {
                    self.raise_bound(height.min(best - 1) + 1);
                    tried = tried.max(self.bound.bytes);
                }
                Answer::Unknown => tried = height.max(tried + 1),
            }
        }
    }
}

/// What a round of searches says about a height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    Unknown,
}

/// Swaps about one in eight neighbours-at-a-distance, so that a restart differs without losing the preference.
fn disturb(order: &mut [u32], random: &mut Random) {
    let n = order.len();
    for _ in 0..n / 8 {
        let from = random.below(n);
        let to = (from + 1 + random.below(16)).min(n - 1);
        order.swap(from, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_baseline_is_part_of_the_portfolio() {
        for rule in Baseline::ALL.iter().flat_map(|b| b.rules()) {
            let decoder = Decoder::Greedy(rule.1);
            assert!(
                FIRST.iter().chain(&SECOND).any(|r| (r.0, r.1, r.2) == (rule.0, Ties::Number, decoder)),
                "{rule:?}"
            );
        }
    }
}
