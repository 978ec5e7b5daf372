//! Which clock each event carries.

use hashbrown::HashMap;

use super::clock::Stamp;

/// One event. Without a record in the making it has a clock: an event with none is the same as one never recorded, and
/// isn't kept.
#[derive(Debug)]
struct Event {
    clock: Option<Stamp>,
    version: u64,
    /// Records begun and not ended.
    busy: u32,
    /// Which of several records comes last is not known; holds until the last of them has ended.
    doubtful: bool,
}

/// All events that carry a clock or are being recorded.
#[derive(Debug)]
pub(super) struct Events {
    by_key: HashMap<u64, Event>,
    most: usize,
    versions: u64,
    dropped: u64,
}

impl Events {
    pub(super) fn new(most: usize) -> Self {
        Self { by_key: HashMap::new(), most: most.max(1), versions: 0, dropped: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// How many were forgotten to keep within the bound.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// A record begins: nobody may take the event's clock until it has ended.
    pub(super) fn begin(&mut self, key: u64) {
        if self.by_key.len() >= self.most && !self.by_key.contains_key(&key) {
            self.forget_half();
        }
        self.versions += 1;
        let version = self.versions;
        let event = self.by_key.entry(key).or_insert(Event { clock: None, version, busy: 0, doubtful: false });
        event.doubtful |= event.busy > 0;
        event.busy = event.busy.saturating_add(1);
        event.clock = None;
        event.version = version;
    }

    /// A record ends; `clock` is what it took if it succeeded and is one that we model.
    pub(super) fn end(&mut self, key: u64, clock: Option<Stamp>) {
        self.versions += 1;
        let Some(event) = self.by_key.get_mut(&key) else { return };
        event.busy = event.busy.saturating_sub(1);
        event.version = self.versions;
        if event.busy > 0 {
            return;
        }
        match clock {
            Some(clock) if !event.doubtful => event.clock = Some(clock),
            _ => {
                self.by_key.remove(&key);
            }
        }
    }

    /// The event was destroyed, or changed in a way that we don't model.
    pub(super) fn empty(&mut self, key: u64) {
        self.versions += 1;
        if let Some(event) = self.by_key.get_mut(&key) {
            event.version = self.versions;
            event.clock = None;
            event.doubtful = true;
            if event.busy == 0 {
                self.by_key.remove(&key);
            }
        }
    }

    /// The event's clock and its version; `None` where there is nothing to credit: while it is being recorded it has no clock.
    pub(super) fn read(&self, key: u64) -> Option<(u64, Stamp)> {
        let event = self.by_key.get(&key)?;
        Some((event.version, event.clock.clone()?))
    }

    /// Whether the event is as it was when `version` was read: the beginning and the end of a record change the version.
    pub(super) fn stands(&self, key: u64, version: u64) -> bool {
        self.by_key.get(&key).is_some_and(|event| event.version == version)
    }

    /// Forgets the half of the idle events whose records are the oldest.
    fn forget_half(&mut self) {
        let mut versions: Vec<u64> =
            self.by_key.values().filter(|event| event.busy == 0).map(|event| event.version).collect();
        if versions.is_empty() {
            return;
        }
        let middle = (versions.len() - 1) / 2;
        let (_, &mut last, _) = versions.select_nth_unstable(middle);
        let before = self.by_key.len();
        self.by_key.retain(|_, event| event.busy > 0 || event.version > last);
        self.dropped += (before - self.by_key.len()) as u64;
    }

    /// Names the invariant that doesn't hold.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        for event in self.by_key.values() {
            if (event.busy == 0) != event.clock.is_some() {
                return Err("an event has a clock exactly when nobody records it");
            }
            if event.doubtful && event.busy == 0 {
                return Err("an event is in doubt only while somebody records it");
            }
            if event.version > self.versions {
                return Err("an event's version was given out");
            }
        }
        Ok(())
    }

    /// The clocks.
    pub(super) fn clocks(&self) -> impl Iterator<Item = &Stamp> {
        self.by_key.values().filter_map(|event| event.clock.as_ref())
    }
}
