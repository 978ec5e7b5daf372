//! Handles: what a program holds in place of our values. The other of the two files of this crate with unsafe code.
//!
//! A handle is a number that looks like a pointer: the kind of thing, the place in a table, and how often that place was
//! given away before. Nothing is read where it "points to", so null, a foreign pointer, a handle of another kind and one
//! that was destroyed are all told apart from a good one without a risk. A table only grows.

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::boundary::Caller;
use crate::failure::{Failure, Result};

/// Places in the first chunk of a table; each further one has twice as many.
const FIRST: usize = 64;
const CHUNKS: usize = 19;
/// Most handles of a kind at a time.
const LIMIT: usize = FIRST * ((1 << CHUNKS) - 1);

const INDEX_BITS: u32 = 26;
const TURN_BITS: u32 = 30;
const KIND_SHIFT: u32 = INDEX_BITS + TURN_BITS;
const INDEX_MASK: usize = (1 << INDEX_BITS) - 1;
const TURN_MASK: usize = (1 << TURN_BITS) - 1;

const _: () = assert!(LIMIT <= INDEX_MASK && usize::BITS == 64);

/// A type that handles stand for.
pub(crate) trait Handled: Sized + Send + Sync + 'static {
    /// What the program's pointers point to, as far as the header says.
    type Opaque;
    /// The word for it in messages.
    const KIND: &'static str;
    /// Where its handles are.
    fn table() -> &'static Table<Self>;
}

struct Slot<T> {
    /// The handle that is good for this place; 0 while there is none.
    token: AtomicUsize,
    /// What it stands for; null while there is none.
    value: AtomicPtr<T>,
}

/// The handles of one kind.
pub(crate) struct Table<T> {
    /// 1 to 255, in the topmost bits, where no address of a program has any.
    number: u8,
    chunks: [AtomicPtr<Slot<T>>; CHUNKS],
    places: Mutex<Places>,
    owns: PhantomData<T>,
}

/// Which places are free, and how often each was given away.
struct Places {
    free: Vec<usize>,
    turns: Vec<usize>,
}

impl<T: Handled> Table<T> {
    /// An empty table; `number` is that of no other kind.
    pub(crate) const fn new(number: u8) -> Self {
        Self {
            number,
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            places: Mutex::new(Places { free: Vec::new(), turns: Vec::new() }),
            owns: PhantomData,
        }
    }

    /// The place of a handle, if it can be one.
    #[inline(always)]
    fn slot(&self, token: usize) -> Option<&Slot<T>> {
        let at = (token & INDEX_MASK) + FIRST;
        let chunk = (at / FIRST).ilog2() as usize;
        // Acquire: pairs with the release in `add_chunk`, so that the slots are there.
        let first = self.chunks.get(chunk)?.load(Ordering::Acquire);
        if first.is_null() {
            return None;
        }
        // SAFETY: chunk k has FIRST << k slots and is never given back; `at` is at least FIRST << k and less than twice
        // that, by the choice of k.
        Some(unsafe { &*first.add(at - (FIRST << chunk)) })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        // Both lists are whole between any two statements.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_chunk(&self, chunk: usize) {
        let slots: Vec<Slot<T>> = (0..FIRST << chunk)
            .map(|_| Slot { token: AtomicUsize::new(0), value: AtomicPtr::new(ptr::null_mut()) })
            .collect();
        let first = Box::leak(slots.into_boxed_slice()).as_mut_ptr();
        // Release: pairs with the acquire in `slot`.
        self.chunks[chunk].store(first, Ordering::Release);
    }

    fn add(&self, value: T) -> Result<usize> {
        let mut places = self.places();
        let index = match places.free.pop() {
            Some(index) => index,
            None => {
                let index = places.turns.len();
                if index >= LIMIT {
                    return Err(Failure::TooManyHandles { kind: T::KIND, limit: LIMIT });
                }
                let at = index + FIRST;
                if at.is_power_of_two() {
                    self.add_chunk((at / FIRST).ilog2() as usize);
                }
                places.turns.push(0);
                index
            }
        };
        let turn = &mut places.turns[index];
        *turn = (*turn + 1) & TURN_MASK;
        let token = usize::from(self.number) << KIND_SHIFT | *turn << INDEX_BITS | index;
        let Some(slot) = self.slot(token) else {
            return Err(Failure::TooManyHandles { kind: T::KIND, limit: LIMIT });
        };
        slot.value.store(Box::into_raw(Box::new(value)), Ordering::Relaxed);
        // Release: pairs with the acquire in `get`, so that the value is there.
        slot.token.store(token, Ordering::Release);
        Ok(token)
    }

    #[inline(always)]
    fn get(&self, token: usize) -> Option<*mut T> {
        let slot = self.slot(token)?;
        // Acquire: pairs with the release in `add`. No good token is 0: its kind isn't.
        (token != 0 && slot.token.load(Ordering::Acquire) == token).then(|| slot.value.load(Ordering::Relaxed))
    }

    fn remove(&self, token: usize) -> Option<Box<T>> {
        let mut places = self.places();
        let slot = self.slot(token)?;
        if token == 0 || slot.token.load(Ordering::Relaxed) != token {
            return None;
        }
        slot.token.store(0, Ordering::Relaxed);
        let value = slot.value.swap(ptr::null_mut(), Ordering::Relaxed);
        places.free.push(token & INDEX_MASK);
        // SAFETY: made by Box::into_raw in `add` and, under the lock of `places`, taken out once.
        Some(unsafe { Box::from_raw(value) })
    }
}

/// Gives a value to the program.
pub(crate) fn hand_out<T: Handled>(value: T) -> Result<*mut T::Opaque> {
    T::table().add(value).map(ptr::without_provenance_mut)
}

impl Caller {
    /// What a handle stands for. It isn't destroyed while the call runs: that is among the rules of the header.
    #[inline(always)]
    pub(crate) fn handle<T: Handled>(&self, handle: *const T::Opaque, argument: &'static str) -> Result<&T> {
        match T::table().get(handle.addr()) {
            // SAFETY: the value of a good handle is there until it is destroyed, which the caller promised not to do
            // meanwhile; only shared references are made of it.
            Some(value) => Ok(unsafe { &*value }),
            None => Err(bad_handle::<T>(handle.addr(), argument)),
        }
    }

    /// Takes back what a handle stands for; null is nothing.
    pub(crate) fn take_back<T: Handled>(
        &self,
        handle: *mut T::Opaque,
        argument: &'static str,
    ) -> Result<Option<Box<T>>> {
        if handle.is_null() {
            return Ok(None);
        }
        let value = T::table().remove(handle.addr());
        value.map(Some).ok_or_else(|| bad_handle::<T>(handle.addr(), argument))
    }
}

#[cold]
fn bad_handle<T: Handled>(token: usize, argument: &'static str) -> Failure {
    Failure::Handle { argument, token, kind: T::KIND }
}

/// Declares a kind of handle: its opaque C type and its table.
macro_rules! handled {
    ($type:ty, $opaque:ident, $kind:literal, $number:literal) => {
        impl $crate::handles::Handled for $type {
            type Opaque = $opaque;
            const KIND: &'static str = $kind;

            fn table() -> &'static $crate::handles::Table<Self> {
                static TABLE: $crate::handles::Table<$type> = $crate::handles::Table::new($number);
                &TABLE
            }
        }
    };
}
pub(crate) use handled;
