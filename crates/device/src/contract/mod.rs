//! The promises of [`Device`], each tested by a case of its own, on any implementation.
//!
//! Each case gets a new device, without anything taken from it, and leaves behind what it likes. Cases for parts that a
//! device hasn't got are listed as not run. The memory of the device must not change by others' doing meanwhile: run it
//! alone on real hardware.
//!
//! ```
//! use device::{SimDevice, SimOptions, contract};
//!
//! let report = contract::check(|| Ok(Box::new(SimDevice::new(SimOptions::with_capacity(1 << 30))?)));
//! assert!(report.failed.is_empty(), "{report}");
//! ```

mod core;
mod parts;
mod virtual_memory;

use crate::{Attempt, Device, Error, Result};
use std::fmt;

/// What went wrong, in words.
type Outcome = std::result::Result<(), String>;

/// Fails a case unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}
use ensure;

/// What a device needs for a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Core,
    Bytes,
    Vmm,
    VmmAndBytes,
    DriverPools,
    PageLocked,
    PageLockedAndBytes,
    Ipc,
}

impl Needs {
    /// What the device lacks, if anything.
    fn missing(self, device: &dyn Device) -> Option<&'static str> {
        let bytes = device.info().has_bytes;
        let lacking = |has: bool, what| if has { None } else { Some(what) };
        let vmm = lacking(device.vmm().is_some(), "no virtual memory");
        let locked = lacking(device.page_locked().is_some(), "no page-locked memory");
        let bytes = lacking(bytes, "memory keeps no bytes");
        match self {
            Needs::Core => None,
            Needs::Bytes => bytes,
            Needs::Vmm => vmm,
            Needs::VmmAndBytes => vmm.or(bytes),
            Needs::DriverPools => lacking(device.driver_pools().is_some(), "no driver's pool"),
            Needs::PageLocked => locked,
            Needs::PageLockedAndBytes => locked.or(bytes),
            Needs::Ipc => vmm.or(lacking(device.ipc().is_some(), "no memory between processes")),
        }
    }
}

struct Case {
    /// The promise.
    name: &'static str,
    needs: Needs,
    run: fn(&dyn Device) -> Outcome,
}

/// Lists functions as cases under their own names.
macro_rules! cases {
    ($($needs:ident: $($run:ident),+;)+) => {
        pub(super) const CASES: &[Case] = &[$($(Case { name: stringify!($run), needs: Needs::$needs, run: $run },)+)+];
    };
}
use cases;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The promise, as the case is called.
    pub case: &'static str,
    /// What happened instead.
    pub what: String,
}

/// What [`check`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Promises kept.
    pub passed: Vec<&'static str>,
    /// Promises broken.
    pub failed: Vec<Broken>,
    /// Promises about parts that the device hasn't got, with what it lacks.
    pub not_run: Vec<(&'static str, &'static str)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Broken { case, what } in &self.failed {
            writeln!(f, "broken: {case}: {what}")?;
        }
        for (case, why) in &self.not_run {
            writeln!(f, "not run: {case}: {why}")?;
        }
        write!(f, "{} kept, {} broken, {} not run", self.passed.len(), self.failed.len(), self.not_run.len())
    }
}

/// Tests all promises on devices that `make` opens, one for each case.
pub fn check(make: impl Fn() -> Result<Box<dyn Device>>) -> Report {
    let mut report = Report::default();
    for case in [core::CASES, virtual_memory::CASES, parts::CASES].into_iter().flatten() {
        let device = match make() {
            Ok(device) => device,
            Err(error) => {
                report.failed.push(Broken { case: case.name, what: format!("no device: {error}") });
                continue;
            }
        };
        if let Some(why) = case.needs.missing(device.as_ref()) {
            report.not_run.push((case.name, why));
            continue;
        }
        match (case.run)(device.as_ref()) {
            Ok(()) => report.passed.push(case.name),
            Err(what) => report.failed.push(Broken { case: case.name, what }),
        }
    }
    report
}

/// What kind of refusal is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    OutOfMemory,
    /// A wrong value or a wrong moment: drivers differ in which they call it.
    Invalid,
    Unsupported,
}

/// The call was refused, in the way it should be, and its error says what was attempted.
fn refused<T: fmt::Debug>(what: &str, result: Result<T>, kind: Kind, attempt: &Attempt) -> Outcome {
    let error = match result {
        Ok(value) => return Err(format!("{what} was not refused, but gave {value:?}")),
        Err(error) => error,
    };
    let found = match &error {
        Error::OutOfMemory { .. } => Some(Kind::OutOfMemory),
        Error::InvalidValue(_) | Error::InvalidState(_) => Some(Kind::Invalid),
        Error::Unsupported(_) => Some(Kind::Unsupported),
        _ => None,
    };
    ensure!(found == Some(kind), "{what} was refused, but as {found:?} instead of {kind:?}: {error}");
    let Some(failure) = error.failure() else { return Err(format!("{what}: the error has no facts: {error}")) };
    ensure!(!failure.sticky, "{what} lost the device: {error}");
    ensure!(failure.attempt == *attempt, "{what}: the error says {:?}, not {attempt:?}", failure.attempt);
    ensure!(!failure.name.is_empty() && failure.code != 0, "{what}: the error has no name or code: {error}");
    Ok(())
}

/// The call went through.
fn done<T>(what: &str, result: Result<T>) -> std::result::Result<T, String> {
    result.map_err(|error| format!("{what} failed: {error}"))
}

/// Bytes that are free now.
fn free_bytes(device: &dyn Device) -> std::result::Result<u64, String> {
    Ok(done("asking for the free memory", device.memory())?.free_bytes)
}

/// The same memory is free as before.
fn same_free(device: &dyn Device, before: u64, after_what: &str) -> Outcome {
    let now = free_bytes(device)?;
    ensure!(now == before, "{before} bytes were free, {now} are after {after_what}");
    Ok(())
}
