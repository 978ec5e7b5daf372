//! Reading PyTorch's memory snapshots: real files, and what each field set means.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::Path;

use formats::{Content, Limits, read_path};
use records::{Action, DeviceHistory, History, MemoryMap, Totals};
use support::{files, shared};

fn history(path: &Path) -> History {
    match read_path(path, &Limits::default()).unwrap_or_else(|error| panic!("{error}")).content {
        Content::History(history) => history,
        other => panic!("not a history: {other:?}"),
    }
}

/// The highest of each total, and whether each was at most the next all along.
fn peaks(device: &DeviceHistory) -> Totals {
    let mut map = MemoryMap::new(device);
    let mut peaks = map.totals();
    for event in &device.events {
        map.apply(event);
        let now = map.totals();
        assert!(now.live <= now.allocated && now.allocated <= now.active && now.active <= now.reserved);
        peaks.live = peaks.live.max(now.live);
        peaks.allocated = peaks.allocated.max(now.allocated);
        peaks.active = peaks.active.max(now.active);
        peaks.reserved = peaks.reserved.max(now.reserved);
    }
    map.compare(&device.end);
    assert!(map.defects().is_empty(), "{:?}", map.defects());
    map.check().unwrap();
    peaks
}

/// Numbers of the corpus' index, worked out by its maker.
#[test]
fn real_snapshots_have_the_peaks_that_the_index_states() {
    let Some(folder) = shared("graphs/snapshot") else { return };
    let index = std::fs::read_to_string(folder.join("../index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_str(&index).unwrap();
    let mut seen = 0;
    for path in files(&folder, ".pickle.gz") {
        let name = path.file_name().unwrap().to_str().unwrap().trim_end_matches(".pickle.gz").to_owned();
        let Some(entry) = index
            .as_array()
            .unwrap()
            .iter()
            .find(|entry| entry["kind"] == "cuda-trace" && entry["name"] == name.as_str())
        else {
            continue;
        };
        seen += 1;
        let history = history(&path);
        assert_eq!(history.name, name);
        assert_eq!(history.devices.len(), 1, "{name}");
        let device = &history.devices[0];
        assert!(device.defects.is_empty(), "{name}: {:?}", device.defects);
        assert_eq!(device.events.len() as u64, entry["events"].as_u64().unwrap());
        let initial: usize = device.start.iter().map(|segment| segment.blocks.len()).sum();
        assert_eq!(initial as u64, entry["initial_blocks"].as_u64().unwrap());
        let peaks = peaks(device);
        assert_eq!(peaks.live, entry["allocated_peak"].as_u64().unwrap(), "{name}");
        assert_eq!(peaks.reserved, entry["reserved_peak"].as_u64().unwrap(), "{name}");
        assert!(device.events.iter().all(|event| !event.stack.is_empty() && event.time_ns > 0));
    }
    assert_eq!(seen, 3);
}

#[test]
fn the_synthetic_snapshot_with_every_action_holds_together() {
    let Some(folder) = shared("graphs/snapshot") else { return };
    let history = history(&folder.join("synthetic-features.pickle.gz"));
    println!("{:?} {:?}", history.settings, history.notes);
    for device in &history.devices {
        println!("{} {:?} {:?}", device.device, device.capacity_bytes, device.defects);
        for action in Action::ALL {
            println!("{action:?} {}", device.events.iter().filter(|event| event.action == action).count());
        }
        println!("{:?}", peaks(device));
    }
}

#[test]
fn the_random_snapshot_is_read_with_its_contradictions_counted() {
    let Some(folder) = shared("graphs/snapshot") else { return };
    let history = history(&folder.join("mosaic-fixture.pickle.gz"));
    let device = &history.devices[0];
    println!("{:?} {:?}", history.notes, history.annotations.len());
    println!("{:?}", device.defects.iter().collect::<Vec<_>>());
    assert_eq!(device.events.len(), 1040);
    assert!(!device.defects.is_empty());
}
