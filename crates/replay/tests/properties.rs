//! What holds for every trace and policy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use records::{Action, MemoryMap, Operation, Row, Trace};
use replay::{
    Backing, CachingSettings, GpumemSettings, HandOver, LogEntry, Observer, Policy, Program, Reading, Settings,
    min_capacity, replay, replay_observed,
};

/// A random trace that is sound: (what, size class, stream, which live block).
fn traces() -> impl Strategy<Value = Trace> {
    let size = prop_oneof![0_u64..2000, 1_u64 << 19..3 << 20, 8_u64 << 20..40 << 20];
    let step = (0_u8..12, size, 0_i64..4, any::<prop::sample::Index>());
    prop::collection::vec(step, 1..120).prop_map(|steps| {
        let mut rows: Vec<Row> = Vec::new();
        let mut live: Vec<u64> = Vec::new();
        for (number, (what, bytes, stream, which)) in steps.into_iter().enumerate() {
            let mut push = |operation, id, bytes| rows.push(Row { operation, id, bytes, stream, ..Row::default() });
            match what {
                0..=4 => {
                    live.push(number as u64);
                    push(Operation::Alloc, number as u64, bytes);
                }
                5..=7 if !live.is_empty() => push(Operation::Free, live.swap_remove(which.index(live.len())), 0),
                8 if !live.is_empty() => push(Operation::Use, live[which.index(live.len())], 0),
                9 => push(Operation::Wait, (number % 4) as u64, 0),
                10 if number % 3 == 0 => push(Operation::Sync, 0, 0),
                11 => push(Operation::Step, number as u64, 0),
                _ => {}
            }
        }
        Trace { rows, ..Trace::default() }
    })
}

/// Checks each placement against all that are live.
#[derive(Default)]
struct Watcher {
    live: BTreeMap<u64, (u64, u64)>,
    memory: BTreeMap<u64, (u64, u64)>,
    mistakes: Vec<String>,
}

impl Observer for Watcher {
    fn entry(&mut self, entry: &LogEntry<'_>) -> Result<(), String> {
        match *entry {
            LogEntry::Alloc { id, address, bytes, .. } => {
                let end = address + bytes;
                if let Some((at, (other_end, other))) = self.live.range(..end).next_back()
                    && *other_end > address
                {
                    self.mistakes.push(format!("{id} at {address:#x} overlaps {other} at {at:#x}"));
                }
                let mut covered = address;
                while let Some((_, (map_end, _))) = self.memory.range(..=covered).next_back() {
                    if *map_end <= covered || covered >= end {
                        break;
                    }
                    covered = *map_end;
                }
                if covered < end {
                    self.mistakes.push(format!("{id} at {address:#x} has no memory at {covered:#x}"));
                }
                self.live.insert(address, (end, id));
            }
            LogEntry::Map { handle, address, bytes, .. } => {
                self.memory.insert(address, (address + bytes, handle));
            }
            LogEntry::Unmap { handle, address, bytes, .. } => {
                let was = self.memory.remove(&address);
                if was != Some((address + bytes, handle)) {
                    self.mistakes.push(format!("handle {handle} at {address:#x}: {was:?} was mapped there"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn wants_entries(&self) -> bool {
        true
    }
}

fn gpumem() -> impl Strategy<Value = GpumemSettings> {
    let readings = prop::sample::select(&Reading::ALL[..]);
    let hand_overs = prop::sample::select(vec![HandOver::Recorded, HandOver::All, HandOver::Off]);
    let backings = prop::sample::select(vec![Backing::Range, Backing::Segments]);
    let soft = prop_oneof![Just(None), (1_u64..100).prop_map(|mib| Some(mib << 20))];
    (readings, hand_overs, backings, soft).prop_map(|(reading, hand_over, backing, soft_bytes)| GpumemSettings {
        reading,
        hand_over,
        backing,
        soft_bytes,
        ..GpumemSettings::default()
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    let split = prop_oneof![Just(None), Just(Some(21_u64 << 20)), Just(Some(32_u64 << 20))];
    (
        0..Policy::ALL.len(),
        split,
        prop_oneof![Just(0_u32), Just(4)],
        prop_oneof![Just(None), (20_u64..400).prop_map(Some)],
        gpumem(),
    )
        .prop_map(|(policy, max_split_bytes, roundup_power2_divisions, capacity, gpumem)| Settings {
            gpumem,
            checks_policy: true,
            caching: CachingSettings { is_expandable: false, max_split_bytes, roundup_power2_divisions },
            capacity_bytes: capacity.map(|mib| mib << 20),
            keeps_history: true,
            ..Settings::new(Policy::ALL[policy])
        })
}

#[test]
fn every_event_of_a_block_names_the_stream_it_was_asked_for_on() {
    let row = |operation, id, stream| Row { operation, id, bytes: 4096, stream, ..Row::default() };
    let trace = Trace {
        rows: vec![row(Operation::Alloc, 1, 3), row(Operation::Free, 1, 0), row(Operation::Alloc, 2, 0)],
        ..Trace::default()
    };
    let program = Program::new(&trace, None).unwrap();
    for policy in Policy::ALL {
        let outcome = replay(&program, &Settings { keeps_history: true, ..Settings::new(policy) }).unwrap();
        let history = outcome.history.unwrap();
        let events = history.devices[0].events.iter();
        let of_blocks = events
            .filter(|event| matches!(event.action, Action::Alloc | Action::FreeRequested | Action::FreeCompleted));
        assert_eq!(of_blocks.map(|event| event.stream).collect::<Vec<_>>(), [3, 3, 3, 0], "{policy}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    // The simulated device watches each use; an unordered one would be an error here.
    #[test]
    fn no_policy_hands_memory_on_unordered_or_loses_bytes(trace in traces(), settings in settings()) {
        let program = Program::new(&trace, None).unwrap();
        let outcome = replay(&program, &settings).unwrap();
        let history = outcome.history.as_ref().unwrap();
        let device = &history.devices[0];
        let mut map = MemoryMap::new(device);
        let mut peak = 0;
        for event in &device.events {
            map.apply(event);
            peak = peak.max(map.totals().live);
            prop_assert!(map.totals().reserved <= settings.capacity_bytes.unwrap_or(u64::MAX));
        }
        prop_assert_eq!(map.check(), Ok(()));
        prop_assert!(map.defects().is_empty(), "{:?}", map.defects());
        prop_assert!(peak <= outcome.all.peak_live_bytes);
        prop_assert!(!outcome.is_ok() || peak == outcome.all.peak_live_bytes);
        prop_assert!(outcome.all.peak_live_bytes <= outcome.all.peak_live_rounded_bytes);
        prop_assert!(outcome.all.peak_live_bytes <= outcome.all.peak_live_plus_held_bytes);
        prop_assert_eq!(outcome.is_ok(), !device.events.iter().any(|event| event.action == Action::OutOfMemory));
        if outcome.is_ok() {
            prop_assert!(outcome.all.peak_reserved_bytes >= outcome.all.peak_live_bytes);
        }
    }

    #[test]
    fn blocks_handed_out_never_overlap_live_ones_and_have_memory(trace in traces(), settings in settings()) {
        let program = Program::new(&trace, None).unwrap();
        // Frees aren't in the log, so only traces that free nothing can be judged by it alone.
        let without_frees = Trace {
            rows: trace.rows.iter().copied().filter(|row| row.operation != Operation::Free).collect(),
            ..Trace::default()
        };
        let kept = Program::new(&without_frees, None).unwrap();
        let mut watcher = Watcher::default();
        replay_observed(&kept, &settings, &mut watcher).unwrap();
        prop_assert!(watcher.mistakes.is_empty(), "{:?}", watcher.mistakes);
        let first = replay(&program, &settings).unwrap();
        let second = replay(&program, &settings).unwrap();
        prop_assert_eq!(first.all, second.all);
    }

    #[test]
    fn the_smallest_capacity_is_enough_and_a_step_less_is_not(trace in traces(), policy in 0..Policy::ALL.len()) {
        let program = Program::new(&trace, None).unwrap();
        let settings = Settings::new(Policy::ALL[policy]);
        let Some(capacity) = min_capacity(&program, &settings, |_| {}).unwrap() else { return Ok(()) };
        let outcome = replay(&program, &Settings { capacity_bytes: Some(capacity), ..settings }).unwrap();
        prop_assert!(outcome.is_ok());
        prop_assert!(capacity >= program.peak_live_bytes());
    }
}
