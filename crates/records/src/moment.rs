//! A moment of a history, and since when each block is there.

use hashbrown::HashMap;

use crate::{Action, DeviceHistory, Event, MemoryMap};

/// The state after some of a device's events, with the event that made each block.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    map: MemoryMap,
    /// Number of the event that last handed out an address.
    births: HashMap<u64, u64>,
    time_ns: u64,
}

impl Moment {
    /// Before the first event.
    pub fn new(history: &DeviceHistory) -> Self {
        Self { map: MemoryMap::new(history), births: HashMap::new(), time_ns: 0 }
    }

    /// After the first `events` events, or all of them if there are fewer.
    pub fn after(history: &DeviceHistory, events: u64) -> Self {
        let mut moment = Self::new(history);
        let count = usize::try_from(events).unwrap_or(usize::MAX).min(history.events.len());
        for event in &history.events[..count] {
            moment.apply(event);
        }
        moment
    }

    /// Plays one event.
    pub fn apply(&mut self, event: &Event) {
        if event.action == Action::Alloc {
            self.births.insert(event.address, self.map.event());
        }
        if event.time_ns != 0 {
            self.time_ns = event.time_ns;
        }
        self.map.apply(event);
    }

    /// The memory.
    pub fn map(&self) -> &MemoryMap {
        &self.map
    }

    /// The memory, to be compared with what a file says of it.
    pub fn into_map(self) -> MemoryMap {
        self.map
    }

    /// Time of the last event that has one; 0 if none had.
    pub fn time_ns(&self) -> u64 {
        self.time_ns
    }

    /// Number of the event that handed out the block which is now at `address`; `None` if that was before the record.
    pub fn birth(&self, address: u64) -> Option<u64> {
        self.births.get(&address).copied()
    }
}
