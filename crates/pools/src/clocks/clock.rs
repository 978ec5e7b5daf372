//! Vector clocks, sparse and shared.

use std::iter;
use std::sync::Arc;

/// Everything of stream `stream` up to `component`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) stream: u32,
    pub(super) component: u64,
}

/// What a stream is ordered behind: at most one entry a stream, by rising number, the stream itself left out. Copies share
/// the list, so that an event costs no more than a pointer until its stream has waited for something again.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    entries: Option<Arc<Vec<Entry>>>,
}

/// The clock of a stream at a record, with the component that the record ended.
#[derive(Clone, Debug)]
pub(super) struct Stamp {
    pub(super) own: Entry,
    pub(super) clock: Clock,
}

impl Stamp {
    /// Every entry, by rising number.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let entries = self.clock.entries();
        let (before, after) = entries.split_at(entries.partition_point(|entry| entry.stream < self.own.stream));
        before.iter().copied().chain(iter::once(self.own)).chain(after.iter().copied())
    }
}

impl Clock {
    /// Every entry, by rising number.
    pub(super) fn entries(&self) -> &[Entry] {
        self.entries.as_deref().map_or(&[], Vec::as_slice)
    }

    /// The component of a stream; 0 if nothing of it is known.
    pub(super) fn component(&self, stream: u32) -> u64 {
        let entries = self.entries();
        entries.binary_search_by_key(&stream, |entry| entry.stream).map_or(0, |at| entries[at].component)
    }

    /// The clock of stream `by` once it also has what `stamp` says: `None` if that is no news. What the host has seen finish
    /// is left out, since everybody is ordered behind that.
    pub(super) fn joined(&self, by: u32, stamp: &Stamp, seen: impl Fn(u32) -> u64) -> Option<Vec<Entry>> {
        let matters = |entry: &Entry| entry.stream != by && entry.component > seen(entry.stream);
        if !stamp.entries().any(|entry| entry.component > self.component(entry.stream) && matters(&entry)) {
            return None;
        }
        let mut ours = self.entries().iter().copied().peekable();
        let mut theirs = stamp.entries().peekable();
        let mut both = Vec::with_capacity(self.entries().len() + stamp.clock.entries().len() + 1);
        loop {
            let next = match (ours.peek(), theirs.peek()) {
                (None, None) => break,
                (Some(_), None) => ours.next(),
                (None, Some(_)) => theirs.next(),
                (Some(our), Some(their)) if our.stream < their.stream => ours.next(),
                (Some(our), Some(their)) if our.stream > their.stream => theirs.next(),
                (Some(our), Some(their)) => {
                    let component = our.component.max(their.component);
                    ours.next();
                    theirs.next().map(|entry| Entry { component, ..entry })
                }
            };
            both.extend(next.filter(&matters));
        }
        Some(both)
    }

    /// Takes these entries, which are by rising number.
    pub(super) fn replace(&mut self, entries: Vec<Entry>) {
        self.entries = Some(Arc::new(entries));
    }
}

/// Drops entries until at most `most` are left: first those of streams that are gone, then the oldest streams', but never
/// that of `keep`. Returns how many. To know less costs memory, never bytes.
pub(super) fn bound(entries: &mut Vec<Entry>, most: usize, keep: u32, is_live: impl Fn(u32) -> bool) -> usize {
    let excess = entries.len().saturating_sub(most);
    let mut left = excess;
    if left > 0 {
        entries.retain(|entry| {
            entry.stream == keep || left == 0 || is_live(entry.stream) || {
                left -= 1;
                false
            }
        });
        entries.retain(|entry| {
            entry.stream == keep || left == 0 || {
                left -= 1;
                false
            }
        });
    }
    excess - left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u32, u64)]) -> Vec<Entry> {
        entries.iter().map(|&(stream, component)| Entry { stream, component }).collect()
    }

    fn stamp(own: (u32, u64), entries: &[(u32, u64)]) -> Stamp {
        let mut clock = Clock::default();
        clock.replace(list(entries));
        Stamp { own: Entry { stream: own.0, component: own.1 }, clock }
    }

    #[test]
    fn a_join_takes_the_larger_of_each_and_leaves_out_self_and_seen() {
        let mut clock = Clock::default();
        clock.replace(list(&[(1, 5), (3, 7), (6, 1)]));
        let joined =
            clock.joined(4, &stamp((2, 9), &[(1, 6), (3, 2), (4, 8), (5, 3)]), |stream| u64::from(stream == 5) * 3);
        assert_eq!(joined, Some(list(&[(1, 6), (2, 9), (3, 7), (6, 1)])));
    }

    #[test]
    fn a_join_without_news_changes_nothing() {
        let mut clock = Clock::default();
        clock.replace(list(&[(1, 5), (3, 7)]));
        assert_eq!(clock.joined(4, &stamp((3, 7), &[(1, 5), (4, 9)]), |_| 0), None);
    }

    #[test]
    fn a_full_clock_drops_streams_that_are_gone_first_and_never_the_one_just_waited_for() {
        let mut entries = list(&[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]);
        assert_eq!(bound(&mut entries, 3, 1, |stream| stream != 4), 2);
        assert_eq!(entries, list(&[(1, 1), (3, 1), (5, 1)]));
        assert_eq!(bound(&mut entries, 3, 1, |_| true), 0);
    }
}
