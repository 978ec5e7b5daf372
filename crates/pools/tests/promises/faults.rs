//! Devices that fail: at each call in turn, at every few calls, and for a while.

use device::{DriverCall, Fault, FaultKind, FaultPlan, StreamId, When};
use pools::{Allocator, Backing, Error, Settings};

use crate::machine::{Host, Machine, Sim};
use crate::program::{MIB, Program, seed};

const CAPACITY: u64 = 96 * MIB;

fn settings(backing: Backing) -> Settings {
    let mut settings = Settings::default();
    settings.backing = backing;
    // Small, so that the last resorts are come to.
    settings.defragment_floor_bytes = 8 * MIB;
    settings.cached_limit_percent = 60;
    settings
}

fn is_clean(error: &Error) -> bool {
    matches!(error, Error::Device(_) | Error::OutOfMemory(_))
}

/// Runs a program whose device fails by `plan`. After each error everything is as it was, and the next small request works
/// once the device does again. Returns whether anything failed but for lack of memory.
fn run(machine: &dyn Machine, backing: Backing, plan: FaultPlan, seed: u64, steps: usize, heals_after: usize) -> bool {
    machine.set_faults(FaultPlan::default());
    let mut program = Program::new(machine, settings(backing), seed, 40 * MIB).unwrap();
    machine.set_faults(plan);
    let mut failed = false;
    let mut since: Option<usize> = None;
    for step in 0..steps {
        if since.is_some_and(|since| step >= since.saturating_add(heals_after)) {
            machine.set_faults(FaultPlan::default());
        }
        let before = program.pools.statistics().live.current_bytes;
        if let Err(error) = program.step() {
            assert!(is_clean(&error), "{error}");
            program.check();
            assert_eq!(
                program.pools.statistics().live.current_bytes,
                before,
                "a refused call changes nothing: {error}"
            );
            if matches!(error, Error::Device(_)) {
                failed = true;
                since = since.or(Some(step));
                program.verify_all();
            }
        }
    }
    machine.set_faults(FaultPlan::default());
    program.check();
    let small = program.pools.alloc(512, 0, StreamId::DEFAULT);
    match small {
        Ok(ptr) => program.pools.free(ptr, None).unwrap(),
        Err(error) => assert!(matches!(error, Error::OutOfMemory(_)), "the next small request: {error}"),
    }
    program.end();
    failed
}

fn each_nth(machine: &dyn Machine, steps: usize, stride: usize, most: u64, kinds: &[FaultKind]) {
    let seed = seed();
    for backing in [Backing::Segments, Backing::Range] {
        for &kind in kinds {
            let mut failures = 0;
            for n in (1..=most).step_by(stride) {
                let fault = Fault::out_of_memory(None, When::Nth(n)).with_kind(kind);
                failures += u64::from(run(machine, backing, FaultPlan::new([fault]), seed + n % 4, steps, usize::MAX));
            }
            println!("{backing:?}, {kind:?}: {failures} programs of {} saw the device fail", most / stride as u64);
        }
    }
}

#[test]
fn each_call_of_a_simulated_device_may_fail() {
    each_nth(&Sim::new(CAPACITY), 250, 1, 150, &[FaultKind::OutOfMemory, FaultKind::Device]);
}

#[test]
fn each_call_of_a_host_device_may_fail_and_no_byte_of_a_live_block_changes() {
    each_nth(&Host::new(CAPACITY), 120, 3, 90, &[FaultKind::Device]);
}

#[test]
fn each_kind_of_call_may_fail_every_second_and_every_third_time() {
    let seed = seed();
    for backing in [Backing::Segments, Backing::Range] {
        for &call in DriverCall::ALL {
            for every in [1, 2, 3] {
                for kind in [FaultKind::OutOfMemory, FaultKind::InvalidState] {
                    let fault = Fault::out_of_memory(call, When::Every(every)).with_kind(kind);
                    // The program has to get its streams.
                    if !matches!(call, DriverCall::StreamCreate | DriverCall::StreamDestroy) {
                        run(&Sim::new(CAPACITY), backing, FaultPlan::new([fault]), seed, 150, usize::MAX);
                    }
                }
            }
        }
    }
}

#[test]
fn a_device_that_fails_for_a_while_is_used_again_afterwards() {
    let seed = seed();
    for backing in [Backing::Segments, Backing::Range] {
        for kind in [FaultKind::OutOfMemory, FaultKind::Device] {
            for n in 1..=120 {
                let fault = Fault::out_of_memory(None, When::From(n)).with_kind(kind);
                run(&Sim::new(CAPACITY), backing, FaultPlan::new([fault]), seed + n % 3, 250, 3);
            }
        }
    }
}

#[test]
fn an_allocator_that_fails_to_begin_leaves_nothing_behind() {
    for backing in [Backing::Segments, Backing::Range] {
        let mut refused = 0;
        for n in 1..=12 {
            let machine = Sim::new(CAPACITY);
            let mut settings = settings(backing);
            settings.initial_bytes = 40 * MIB;
            machine.set_faults(FaultPlan::new([Fault::out_of_memory(None, When::Nth(n))]));
            match Allocator::new(machine.device(), settings) {
                Ok(pools) => drop(pools),
                Err(error) => {
                    refused += 1;
                    assert!(is_clean(&error), "{error}");
                }
            }
            assert_eq!(machine.taken_bytes(), 0, "call {n}, {backing:?}");
            machine.check();
        }
        assert!(refused > 0);
    }
}

#[test]
fn a_lost_device_is_an_error_for_every_caller_and_harms_nothing() {
    for backing in [Backing::Segments, Backing::Range] {
        let machine = Sim::new(CAPACITY);
        let pools = Allocator::new(machine.device(), settings(backing)).unwrap();
        let ptr = pools.alloc(MIB, 0, StreamId::DEFAULT).unwrap();
        let fault = Fault::out_of_memory(None, When::Nth(1)).with_kind(FaultKind::Device).sticky();
        machine.set_faults(FaultPlan::new([fault]));
        for _ in 0..3 {
            assert!(matches!(pools.alloc(60 * MIB, 0, StreamId::DEFAULT), Err(Error::Device(_))));
        }
        pools.free(ptr, None).unwrap();
        pools.check().unwrap();
        assert!(pools.trim(0).is_err());
        pools.check().unwrap();
        assert_eq!(pools.statistics().reserved.current_bytes, machine.taken_bytes());
        drop(pools);
    }
}

#[test]
fn a_request_that_the_device_refuses_does_not_raise_the_peak() {
    for backing in [Backing::Segments, Backing::Range] {
        let machine = Sim::new(CAPACITY);
        let pools = Allocator::new(machine.device(), settings(backing)).unwrap();
        assert!(pools.alloc(2 * CAPACITY, 0, StreamId::DEFAULT).is_err());
        assert_eq!(pools.statistics().reserved.peak_bytes, 0, "{backing:?}");
        let ptr = pools.alloc(MIB, 0, StreamId::DEFAULT).unwrap();
        assert_eq!(pools.statistics().reserved.peak_bytes, pools.statistics().reserved.current_bytes);
        pools.free(ptr, None).unwrap();
    }
}
