//! Who holds bytes, by stack and by tag.

use std::collections::HashMap;

use records::{Block, holders};
use serde::Serialize;

use super::labels::{ByLabel, Labels, StackLabel};
use super::text::{cut, size};
use crate::quantity::Grouped;

/// Live blocks that came from the same place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group<L> {
    /// The place.
    pub(crate) label: L,
    /// Bytes asked for and live.
    pub(crate) live_bytes: u64,
    /// How many blocks.
    pub(crate) live_count: u64,
    /// How many different stacks or tags read like this.
    pub(crate) members: u64,
}

/// A group as reports list it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct HolderFacts<L> {
    /// The place.
    pub(crate) label: L,
    /// Bytes asked for and live.
    pub(crate) bytes: u64,
    /// How many blocks.
    pub(crate) blocks: u64,
    /// The part of all live bytes, from 0 to 1.
    pub(crate) share: f64,
}

impl<L> HolderFacts<L> {
    /// One line of at most `width` characters: bytes, share, blocks, and the label in what is left.
    pub(crate) fn row(&self, label: &str, width: usize) -> String {
        let share = format!("{:.1} %", self.share * 100.0);
        let start = format!("  {:>12} {share:>7} {:>6} x ", size(self.bytes), Grouped(self.blocks));
        let room = width.saturating_sub(start.chars().count());
        format!("{start}{}", cut(label, room))
    }
}

/// The first `count` groups, with their share of `whole`.
pub(crate) fn first<L>(groups: Vec<Group<L>>, whole: u64, count: usize) -> Vec<HolderFacts<L>> {
    let facts = |group: Group<L>| HolderFacts {
        label: group.label,
        bytes: group.live_bytes,
        blocks: group.live_count,
        share: if whole == 0 { 0.0 } else { group.live_bytes as f64 / whole as f64 },
    };
    groups.into_iter().take(count).map(facts).collect()
}

/// Live blocks by what their stacks read like, most bytes first. Those without live bytes are left out.
pub(crate) fn by_stack<'a>(blocks: impl IntoIterator<Item = &'a Block>, labels: &Labels<'_>) -> Vec<Group<StackLabel>> {
    let mut groups: ByLabel<Group<()>> = HashMap::new();
    for holder in holders(blocks, |block| block.stack).into_iter().filter(|holder| holder.live_count > 0) {
        let group = groups.entry(labels.key(holder.key)).or_default();
        group.live_bytes = group.live_bytes.saturating_add(holder.live_bytes);
        group.live_count += holder.live_count;
        group.members += 1;
    }
    // Different frames may read the same, once shortened.
    let mut words: HashMap<StackLabel, Group<()>> = HashMap::new();
    for (key, group) in groups {
        let sum = words.entry(labels.words(&key)).or_default();
        sum.live_bytes = sum.live_bytes.saturating_add(group.live_bytes);
        sum.live_count += group.live_count;
        sum.members += group.members;
    }
    sorted(words)
}

/// Live blocks by tag, most bytes first.
pub(crate) fn by_tag<'a>(blocks: impl IntoIterator<Item = &'a Block>, labels: &Labels<'_>) -> Vec<Group<String>> {
    let mut words: HashMap<String, Group<()>> = HashMap::new();
    for holder in holders(blocks, |block| block.tag).into_iter().filter(|holder| holder.live_count > 0) {
        let group = words.entry(labels.tag(holder.key).to_owned()).or_default();
        group.live_bytes = group.live_bytes.saturating_add(holder.live_bytes);
        group.live_count += holder.live_count;
        group.members += 1;
    }
    sorted(words)
}

fn sorted<L: Ord>(groups: HashMap<L, Group<()>>) -> Vec<Group<L>> {
    let with_label = |(label, group): (L, Group<()>)| Group {
        label,
        live_bytes: group.live_bytes,
        live_count: group.live_count,
        members: group.members,
    };
    let mut sorted: Vec<Group<L>> = groups.into_iter().map(with_label).collect();
    sorted.sort_unstable_by(|a, b| b.live_bytes.cmp(&a.live_bytes).then_with(|| a.label.cmp(&b.label)));
    sorted
}
