//! Allocations that are one piece of memory each: plain memory and page-locked memory.

use super::raw::Pages;
use super::span::Span;
use crate::books::Refusal;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Blocks {
    live: BTreeMap<u64, Arc<Pages>>,
    /// Of what is live, and of what is on its way back to the system.
    bytes: u64,
}

impl Blocks {
    pub(super) fn new() -> Blocks {
        Blocks { live: BTreeMap::new(), bytes: 0 }
    }

    /// What `bytes` take, in whole granules. `None` if that can't be counted.
    pub(super) fn rounded(bytes: u64, granule: u64) -> Result<Option<u64>, Refusal> {
        if bytes == 0 {
            return Err(Refusal::value("0 bytes can't be allocated"));
        }
        Ok(bytes.checked_next_multiple_of(granule))
    }

    /// A new block.
    pub(super) fn add(&mut self, pages: Pages) -> u64 {
        let start = pages.start();
        self.bytes += pages.bytes();
        self.live.insert(start, Arc::new(pages));
        start
    }

    /// Takes a block out; its bytes count until it is [`gone`](Self::gone).
    pub(super) fn take(&mut self, start: u64) -> Option<Arc<Pages>> {
        self.live.remove(&start)
    }

    /// A block that was taken out could not go.
    pub(super) fn put_back(&mut self, pages: Arc<Pages>) {
        self.live.insert(pages.start(), pages);
    }

    /// A block that was taken out is gone.
    pub(super) fn gone(&mut self, bytes: u64) {
        self.bytes -= bytes;
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes from `start`, if one live block has all of them.
    pub(super) fn span(&self, start: u64, bytes: u64) -> Option<Span> {
        let (&at, pages) = self.live.range(..=start).next_back()?;
        let inside = start - at;
        let is_held = inside < pages.bytes() && inside.checked_add(bytes).is_some_and(|end| end <= pages.bytes());
        if is_held { Span::one(pages, inside, bytes) } else { None }
    }

    /// Names the invariant that doesn't hold.
    pub(super) fn check(&self) -> Result<(), String> {
        let held: u64 = self.live.values().map(|pages| pages.bytes()).sum();
        if held > self.bytes {
            return Err(format!("blocks hold {held} bytes, the books say {}", self.bytes));
        }
        match self.live.iter().find(|(start, pages)| **start != pages.start()) {
            Some((start, pages)) => Err(format!("the block at {start:#x} is at {:#x}", pages.start())),
            None => Ok(()),
        }
    }
}
