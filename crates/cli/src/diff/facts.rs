//! The facts of a comparison: `gpumem-diff/1`, described in `docs/formats.md`.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use records::{Action, DeviceHistory, Moment, Survey};
use serde::Serialize;

use super::At;
use crate::recording::{Input, Modelled, Recording};
use crate::report::{Clock, Group, Labels, StackLabel, When, by_stack, by_tag};

/// Most groups that are kept of each kind.
const GROUPS: usize = 200;

/// Everything that is told.
#[derive(Debug, Serialize)]
pub(crate) struct Difference {
    format: &'static str,
    /// `peak` or `end`.
    pub(super) at: &'static str,
    pub(super) before: Side,
    pub(super) after: Side,
    pub(super) by_stack: Changes<StackLabel>,
    pub(super) by_tag: Changes<String>,
}

/// One of the two runs.
#[derive(Debug, Serialize)]
pub(crate) struct Side {
    pub(super) name: String,
    input: Input,
    pub(super) modelled: Option<Modelled>,
    device: u32,
    pub(super) requests: u64,
    pub(super) requested_bytes: u64,
    pub(super) peak_live_bytes: u64,
    pub(super) peak_allocated_bytes: u64,
    pub(super) peak_active_bytes: u64,
    pub(super) peak_reserved_bytes: u64,
    pub(super) end_live_bytes: u64,
    /// The moment compared, and what was live then.
    pub(super) when: When,
    pub(super) live_bytes: u64,
    pub(super) live_blocks: u64,
    pub(super) inconsistencies: u64,
}

/// Groups of blocks, the largest change first.
#[derive(Debug, Serialize)]
pub(crate) struct Changes<L> {
    /// How many groups there are in all.
    pub(super) count: usize,
    pub(super) listed: Vec<Change<L>>,
    /// Change of those that are not listed.
    pub(super) rest_bytes: i64,
}

/// Live blocks that came from the same place in both runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Change<L> {
    /// The place, as the later run has it if it is there.
    pub(super) label: L,
    pub(super) before_bytes: u64,
    pub(super) after_bytes: u64,
    pub(super) change_bytes: i64,
    pub(super) before_blocks: u64,
    pub(super) after_blocks: u64,
    /// Function and file are the same, but the lines aren't.
    pub(super) lines_moved: bool,
}

type Groups = (Vec<Group<StackLabel>>, Vec<Group<String>>);

impl Difference {
    /// Compares the same moment of two runs, the earlier first.
    pub(super) fn new(sides: [(&Recording, &DeviceHistory); 2], at: At) -> Self {
        let [(before, (old_stacks, old_tags)), (after, (new_stacks, new_tags))] =
            sides.map(|(recording, device)| side(recording, device, at));
        let stacks = with_moved_lines(matched(old_stacks, new_stacks));
        Self {
            format: "gpumem-diff/1",
            at: if at == At::Peak { "peak" } else { "end" },
            before,
            after,
            by_stack: sorted(stacks),
            by_tag: sorted(matched(old_tags, new_tags)),
        }
    }
}

fn side(recording: &Recording, device: &DeviceHistory, at: At) -> (Side, Groups) {
    let survey = Survey::new(device, 1);
    let events = if at == At::Peak { survey.peaks.live.events } else { device.events.len() as u64 };
    let moment = Moment::after(device, events);
    let labels = Labels::from(&recording.history);
    let blocks = || moment.map().blocks();
    let groups = (by_stack(blocks(), &labels), by_tag(blocks(), &labels));
    let side = Side {
        name: recording.history.name.clone(),
        input: recording.input.clone(),
        modelled: recording.modelled.clone(),
        device: device.device,
        requests: survey.count(Action::Alloc),
        requested_bytes: survey.requested_bytes,
        peak_live_bytes: survey.peaks.live.bytes,
        peak_allocated_bytes: survey.peaks.allocated.bytes,
        peak_active_bytes: survey.peaks.active.bytes,
        peak_reserved_bytes: survey.peaks.reserved.bytes,
        end_live_bytes: survey.end.live,
        when: Clock::new(survey.times_ns.map(|(first, _)| first), None).when(events, moment.time_ns()),
        live_bytes: moment.map().totals().live,
        live_blocks: groups.0.iter().map(|group| group.live_count).sum(),
        inconsistencies: survey.defects.total(),
    };
    (side, groups)
}

/// `after - before`, as far as 64 bits go.
pub(super) fn change(before: u64, after: u64) -> i64 {
    let change = i128::from(after) - i128::from(before);
    i64::try_from(change).unwrap_or(if change < 0 { i64::MIN } else { i64::MAX })
}

/// Pairs groups that read the same; what is in one run only has nothing in the other.
fn matched<L: Clone + Eq + Hash + Ord>(before: Vec<Group<L>>, after: Vec<Group<L>>) -> Vec<Change<L>> {
    let mut pairs: HashMap<L, [Group<()>; 2]> = HashMap::new();
    for (side, groups) in [before, after].into_iter().enumerate() {
        for group in groups {
            let sum = &mut pairs.entry(group.label).or_default()[side];
            sum.live_bytes = sum.live_bytes.saturating_add(group.live_bytes);
            sum.live_count += group.live_count;
        }
    }
    let with_change = |(label, [old, new]): (L, [Group<()>; 2])| Change {
        label,
        before_bytes: old.live_bytes,
        after_bytes: new.live_bytes,
        change_bytes: change(old.live_bytes, new.live_bytes),
        before_blocks: old.live_count,
        after_blocks: new.live_count,
        lines_moved: false,
    };
    pairs.into_iter().map(with_change).collect()
}

/// Joins what only the earlier run has with what only the later one has, where nothing but line numbers differs. Several
/// lines of a function are joined in their order.
fn with_moved_lines(changes: Vec<Change<StackLabel>>) -> Vec<Change<StackLabel>> {
    let is_lone = |change: &Change<StackLabel>| (change.before_blocks == 0) != (change.after_blocks == 0);
    let (lone, mut joined): (Vec<_>, Vec<_>) = changes.into_iter().partition(is_lone);
    let mut by_place: BTreeMap<StackLabel, [Vec<Change<StackLabel>>; 2]> = BTreeMap::new();
    for change in lone {
        let side = usize::from(change.before_blocks == 0);
        by_place.entry(change.label.without_lines()).or_default()[side].push(change);
    }
    for (_, mut sides) in by_place {
        for side in &mut sides {
            side.sort_by_key(|change| change.label.lines());
        }
        let [gone, come] = sides;
        let pairs = gone.len().min(come.len());
        let (mut gone, mut come) = (gone.into_iter(), come.into_iter());
        for (old, new) in gone.by_ref().zip(come.by_ref()).take(pairs) {
            joined.push(Change {
                before_bytes: old.before_bytes,
                before_blocks: old.before_blocks,
                change_bytes: change(old.before_bytes, new.after_bytes),
                lines_moved: true,
                ..new
            });
        }
        joined.extend(gone);
        joined.extend(come);
    }
    joined
}

fn sorted<L: Ord>(mut changes: Vec<Change<L>>) -> Changes<L> {
    changes.sort_by(|a, b| {
        let by_change = b.change_bytes.unsigned_abs().cmp(&a.change_bytes.unsigned_abs());
        by_change.then(b.after_bytes.cmp(&a.after_bytes)).then_with(|| a.label.cmp(&b.label))
    });
    let count = changes.len();
    let rest = changes.split_off(GROUPS.min(count));
    let rest_bytes = rest.iter().fold(0_i64, |sum, change| sum.saturating_add(change.change_bytes));
    Changes { count, listed: changes, rest_bytes }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn group(call: &str, live_bytes: u64) -> Group<StackLabel> {
        let label = StackLabel { calls: vec![call.to_owned()], operator: None };
        Group { label, live_bytes, live_count: 1, members: 1 }
    }

    #[test]
    fn places_are_found_again_when_their_lines_move() {
        let before = vec![group("f a.py:3", 10), group("f a.py:9", 20), group("g a.py:1", 5), group("h b.py:1", 7)];
        let after = vec![group("f a.py:5", 11), group("f a.py:11", 20), group("g a.py:1", 50), group("k b.py:1", 8)];
        let changes = sorted(with_moved_lines(matched(before, after)));
        let told: Vec<(&str, i64, bool)> = changes
            .listed
            .iter()
            .map(|change| (change.label.calls[0].as_str(), change.change_bytes, change.lines_moved))
            .collect();
        let expected = [
            ("g a.py:1", 45, false),
            ("k b.py:1", 8, false),
            ("h b.py:1", -7, false),
            ("f a.py:5", 1, true),
            ("f a.py:11", 0, true),
        ];
        assert_eq!(told, expected);
    }
}
