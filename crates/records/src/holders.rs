//! Who holds the bytes of a moment.

use std::hash::Hash;

use hashbrown::HashMap;

use crate::{Block, BlockState};

/// Blocks that belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holder<K> {
    /// What they have in common.
    pub key: K,
    /// Bytes asked for by the live ones.
    pub live_bytes: u64,
    /// How many live ones there are.
    pub live_count: u64,
    /// Bytes of those that only streams hold.
    pub pending_bytes: u64,
}

/// Groups blocks by what `key` says of them: most live bytes first, then by key.
pub fn holders<'a, K: Eq + Hash + Ord + Copy>(
    blocks: impl IntoIterator<Item = &'a Block>,
    key: impl Fn(&Block) -> K,
) -> Vec<Holder<K>> {
    let mut groups: HashMap<K, Holder<K>> = HashMap::new();
    for block in blocks {
        let key = key(block);
        let group = groups.entry(key).or_insert(Holder { key, live_bytes: 0, live_count: 0, pending_bytes: 0 });
        match block.state {
            BlockState::Live => {
                group.live_bytes = group.live_bytes.saturating_add(block.requested_bytes);
                group.live_count += 1;
            }
            BlockState::Pending => group.pending_bytes = group.pending_bytes.saturating_add(block.bytes),
            BlockState::Free => {}
        }
    }
    let mut holders: Vec<Holder<K>> = groups.into_values().collect();
    holders.sort_unstable_by(|a, b| {
        (b.live_bytes, b.pending_bytes).cmp(&(a.live_bytes, a.pending_bytes)).then(a.key.cmp(&b.key))
    });
    holders
}
