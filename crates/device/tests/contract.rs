//! The devices of this crate keep the promises, and the suite notices a device that doesn't.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod broken;

use broken::{Broken, Defect};
use device::{
    Completion, CostModel, Device, FaultPlan, HostDevice, HostOptions, OrderCheck, Scripted, SimDevice, SimOptions,
    contract,
};
use std::collections::BTreeSet;
use std::time::Duration;

fn sim() -> SimDevice {
    SimDevice::new(SimOptions::with_capacity(1 << 30)).unwrap()
}

#[test]
fn the_simulated_device_keeps_every_promise_whatever_its_options() {
    let defaults = || SimOptions::with_capacity(1 << 30);
    let variants = [
        ("default", defaults()),
        ("small granules", SimOptions { plain_granule_bytes: 512, page_bytes: Some(64 << 10), ..defaults() }),
        ("unwatched", SimOptions { check_order: OrderCheck::Off, costs: CostModel::free_of_charge(), ..defaults() }),
        ("odd capacity", SimOptions { capacity_bytes: (3 << 30) + 12_345, ..defaults() }),
    ];
    for (name, options) in variants {
        let report = contract::check(|| Ok(Box::new(SimDevice::new(options.clone())?)));
        assert!(report.failed.is_empty(), "{name}: {report}");
        assert!(report.passed.len() >= 40, "{name}: {report}");
    }
}

#[test]
fn the_host_device_keeps_every_promise_whatever_its_options() {
    let probe = HostDevice::new(HostOptions::with_capacity(1 << 30)).unwrap();
    let refused = probe.page_locked().unwrap().alloc_host(4 << 20).err();
    if let Some(error) = &refused {
        println!("not run: page-locked memory: {error}");
    }
    let with = |change: fn(&mut HostOptions)| {
        let mut options = HostOptions::with_capacity(1 << 30);
        options.page_locked_limit_bytes = refused.as_ref().map(|_| 0);
        change(&mut options);
        options
    };
    let late = |options: &mut HostOptions| {
        options.completion = Completion::Late { longest: Duration::from_millis(2), seed: 7 };
    };
    let variants = [
        ("default", with(|_| {})),
        ("late", with(late)),
        ("manual", with(|options| options.completion = Completion::Manual)),
        ("one thread", with(|options| options.threads = 1)),
        ("a file each", with(|options| options.exports_handles = true)),
        ("small pages", with(|options| (options.plain_granule_bytes, options.page_bytes) = (4096, Some(64 << 10)))),
        ("more than the machine has", with(|options| options.capacity_bytes = Some((1 << 40) + 12_345))),
    ];
    for (name, options) in variants {
        let exports = options.exports_handles;
        let report = contract::check(|| Ok(Box::new(HostDevice::new(options.clone())?)));
        assert!(report.failed.is_empty(), "{name}: {report}");
        let due = |why: &str| match why {
            "no driver's pool" => true,
            "no memory between processes" => !exports,
            "no page-locked memory" => refused.is_some(),
            _ => false,
        };
        assert!(report.not_run.iter().all(|(_, why)| due(why)), "{name}: {report}");
    }
}

#[test]
fn a_host_device_of_plain_memory_only_keeps_the_other_promises() {
    let mut options = HostOptions::with_capacity(1 << 30);
    (options.page_bytes, options.page_locked_limit_bytes) = (None, Some(0));
    let report = contract::check(|| Ok(Box::new(HostDevice::new(options.clone())?)));
    assert!(report.failed.is_empty(), "{report}");
    assert!(report.not_run.contains(&("locked_memory_is_accounted", "no page-locked memory")), "{report}");
}

#[test]
fn a_device_without_virtual_memory_keeps_the_other_promises() {
    let options = SimOptions { page_bytes: None, ..SimOptions::with_capacity(1 << 30) };
    let report = contract::check(|| Ok(Box::new(SimDevice::new(options.clone())?)));
    assert!(report.failed.is_empty(), "{report}");
    assert!(report.not_run.contains(&("handles_are_mapped_whole", "no virtual memory")), "{report}");
}

#[test]
fn a_scripted_device_without_a_script_keeps_every_promise() {
    let report = contract::check(|| Ok(Box::new(Scripted::new(sim(), FaultPlan::default()))));
    assert!(report.failed.is_empty(), "{report}");
}

#[test]
fn a_wrapper_that_breaks_nothing_keeps_every_promise() {
    let report = contract::check(|| Ok(Box::new(Broken::new(Defect::None))));
    assert!(report.failed.is_empty(), "{report}");
}

#[test]
fn each_broken_device_breaks_the_promise_that_is_about_it() {
    for (defect, case) in broken::DEFECTS {
        let report = contract::check(|| Ok(Box::new(Broken::new(*defect))));
        let broken: Vec<_> = report.failed.iter().map(|broken| broken.case).collect();
        assert!(broken.contains(case), "{defect:?} should break {case}, but broke {broken:?}");
        assert!(report.passed.len() > 20, "{defect:?} breaks everything, so it shows nothing: {report}");
    }
}

#[test]
fn promises_about_bytes_can_be_kept_and_broken() {
    let sound = contract::check(|| Ok(Box::new(Broken::with_bytes(Defect::None))));
    assert!(sound.failed.is_empty(), "{sound}");
    let not_run: Vec<_> = sound.not_run.iter().map(|(case, _)| *case).collect();
    assert_eq!(not_run, ["an_exported_handle_can_be_imported"]);
    for (defect, case) in broken::DEFECTS_OF_BYTES {
        let report = contract::check(|| Ok(Box::new(Broken::with_bytes(*defect))));
        assert!(report.failed.iter().any(|broken| broken.case == *case), "{defect:?} should break {case}: {report}");
    }
}

#[test]
fn each_promise_is_broken_by_some_broken_device() {
    let mut never: BTreeSet<_> = contract::check(|| Ok(Box::new(sim()))).passed.into_iter().collect();
    for (defect, _) in broken::DEFECTS {
        for broken in contract::check(|| Ok(Box::new(Broken::new(*defect)))).failed {
            never.remove(broken.case);
        }
    }
    assert!(never.is_empty(), "no defect breaks {never:?}: these cases may be unable to fail");
}

#[test]
fn a_device_that_cannot_be_opened_keeps_no_promise() {
    let report = contract::check(|| Ok(Box::new(SimDevice::new(SimOptions::with_capacity(u64::MAX))?)));
    assert!(report.passed.is_empty() && !report.failed.is_empty());
}
