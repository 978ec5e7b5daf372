//! A lock for critical sections of tens of nanoseconds.
//!
//! Taking it is one read-modify-write, giving it back one store: half of what a lock that can sleep costs, which shows at
//! 20 ns an operation. In return nobody may wait for anything while holding it: no driver call, no host allocation that
//! could be large, no user code.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::asymmetric;
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

/// Numbers of owned locks, so that a key fits one lock only.
static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// A lock that one thread takes all the time and others hardly ever: that thread says that it is inside by a plain store, and the others, who have to
/// find out, pay for the order between the two (`asymmetric`).
#[derive(Debug)]
pub(crate) struct OwnedLock<T> {
    id: u64,
    /// The owner is inside.
    is_busy: AtomicBool,
    /// Another thread is inside, or waits for the owner to leave.
    is_visited: AtomicBool,
    value: UnsafeCell<T>,
}

/// Makes the thread that holds it the owner of one lock. It stays on its thread.
#[derive(Debug)]
pub(crate) struct OwnerKey {
    id: u64,
    stays: PhantomData<*const ()>,
}

// SAFETY:
// - the value is reached through a guard only, and at most one exists at a time. Of the visitors one at a time goes on, since `is_visited` goes
//   from false to true in one atomic step. The owner is one thread, since its key can't leave it, and there is one key a lock. The owner enters by setting
//   `is_busy` and then seeing `is_visited` false, a visitor by setting `is_visited` and then seeing `is_busy` false; between the
//   two steps each has its half of an asymmetric barrier, so that not both can miss the other's step;
// - so sharing the lock moves the value between threads but never shares it, which `T: Send` allows.
unsafe impl<T: Send> Sync for OwnedLock<T> {}

impl<T> OwnedLock<T> {
    /// For the calling thread.
    pub(crate) fn new(value: T) -> (Self, OwnerKey) {
        let id = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let lock = Self {
            id,
            is_busy: AtomicBool::new(false),
            is_visited: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        };
        (lock, OwnerKey { id, stays: PhantomData })
    }

    /// For the owner. With another lock's key it is a visit.
    #[inline]
    pub(crate) fn lock(&self, key: &OwnerKey) -> OwnedGuard<'_, T> {
        if key.id == self.id {
            self.is_busy.store(true, Ordering::Relaxed);
            asymmetric::light();
            // Pairs with the release of the last visitor.
            if !self.is_visited.load(Ordering::Acquire) {
                return OwnedGuard { lock: self, flag: &self.is_busy };
            }
            self.is_busy.store(false, Ordering::Release);
        }
        self.visit()
    }

    /// For anybody. Takes microseconds.
    #[cold]
    pub(crate) fn visit(&self) -> OwnedGuard<'_, T> {
        let mut spins = 0;
        // Pairs with the release of the last visitor.
        while self.is_visited.swap(true, Ordering::Acquire) {
            spins += 1;
            pause(spins > SPINS);
        }
        asymmetric::heavy();
        // Pairs with the release of the owner.
        while self.is_busy.load(Ordering::Acquire) {
            spins += 1;
            pause(spins > SPINS);
        }
        OwnedGuard { lock: self, flag: &self.is_visited }
    }
}

/// While it lives, an owned lock is held.
pub(crate) struct OwnedGuard<'a, T> {
    lock: &'a OwnedLock<T>,
    /// What says so.
    flag: &'a AtomicBool,
}

impl<T> Deref for OwnedGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY:
        // - a guard exists, so nobody else holds the lock, and this reference lives no longer than the borrow of the guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for OwnedGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY:
        // - a guard exists, so nobody else holds the lock; the guard is borrowed mutably, so no other reference made
        //   through it is alive.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for OwnedGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Pairs with the acquire of whoever is next.
        self.flag.store(false, Ordering::Release);
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
