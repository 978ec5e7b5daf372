//! A driver call that is about to happen.

use std::fmt;
use std::sync::Arc;

use super::Shared;
use super::clock::{Entry, Stamp};

/// A driver call that orders streams, announced before it is made. Hand it to `commit` once the call has succeeded; drop it
/// if the call has failed. A dropped notice credits nothing, and a dropped record leaves the event without a clock.
#[must_use = "an announced call is credited only by commit"]
pub struct Notice {
    pub(super) shared: Arc<Shared>,
    pub(super) what: What,
    /// Of a synchronization of the device: which frees came before it, as each shard counts.
    pub(crate) frees: Vec<u64>,
}

/// What is credited at the commit.
#[derive(Debug)]
pub(super) enum What {
    Nothing,
    /// The event carries this clock from now on; without one it carries nothing.
    Record {
        event: u64,
        clock: Option<Stamp>,
    },
    /// Stream `by` is ordered behind what the event carried, if it still does.
    Wait {
        event: u64,
        version: u64,
        clock: Stamp,
        by: u32,
    },
    /// The host has seen finish what the event carried, if it still does.
    SeeEvent {
        event: u64,
        version: u64,
        clock: Stamp,
    },
    /// Stream `by` is ordered behind this.
    Join {
        by: u32,
        clock: Stamp,
    },
    /// The host has seen this finish.
    See(Stamp),
    /// The host has seen all of these finish.
    SeeAll(Vec<Entry>),
}

impl Drop for Notice {
    fn drop(&mut self) {
        if let What::Record { event, .. } = self.what {
            self.shared.state().events.end(event, None);
        }
    }
}

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Notice").field(&self.what).finish()
    }
}
