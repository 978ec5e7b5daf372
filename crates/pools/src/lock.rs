//! A lock for critical sections of tens of nanoseconds.
//!
//! Taking it is one read-modify-write, giving it back one store: half of what a lock that can sleep costs, which shows at
//! 20 ns an operation. In return nobody may wait for anything while holding it: no driver call, no host allocation that
//! could be large, no user code.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

use crate::sync::{AtomicBool, Ordering, pause};

/// Rounds of spinning before the processor is offered to others: a holder that was preempted needs it.
const SPINS: u32 = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Lock<T> {
    is_held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY:
// - the value is reached through a guard only, and at most one guard exists at a time: `is_held` goes from false to true in
//   one atomic step, and only the guard that took it sets it back; so sharing the lock moves the value between threads
//   but never shares it, which `T: Send` allows.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { is_held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        // Pairs with the release of the last holder.
        if self.is_held.swap(true, Ordering::Acquire) {
            self.wait();
        }
        Guard { lock: self }
    }

    #[cold]
    fn wait(&self) {
        let mut spins = 0;
        loop {
            while self.is_held.load(Ordering::Relaxed) {
                spins += 1;
                pause(spins > SPINS);
            }
            // Pairs with the release of the last holder.
            if !self.is_held.swap(true, Ordering::Acquire) {
                return;
            }
        }
    }
}

/// While it lives, the lock is held.
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY:
        // - a guard exists, so nobody else holds the lock, and this reference lives no longer than the borrow of the guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY:
        // - a guard exists, so nobody else holds the lock; the guard is borrowed mutably, so no other reference made
        //   through it is alive.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Pairs with the acquire of the next holder.
        self.lock.is_held.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn no_two_threads_hold_it() {
        let lock = Lock::new(0_u64);
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let mut value = lock.lock();
                        let seen = *value;
                        *value = seen + 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 4 * rounds);
    }
}
