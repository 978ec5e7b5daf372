//! What this crate shares memory with, so that the same code also builds with a checker of all interleavings (loom).

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use std::sync::atomic::Ordering;

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// One round of waiting for another thread; `is_long` once it has lasted.
#[cfg(not(loom))]
pub(crate) fn pause(is_long: bool) {
    if is_long { std::thread::yield_now() } else { std::hint::spin_loop() }
}

#[cfg(loom)]
pub(crate) fn pause(_is_long: bool) {
    loom::thread::yield_now();
}

/// Locks a mutex whose holder may have panicked: what it protects is changed in single steps.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
