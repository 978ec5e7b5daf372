//! Where C's pointers become Rust's references: one of the two files of this crate with unsafe code.
//!
//! Each function's body runs in [`boundary!`], which hands it a [`Caller`]: the proof that whoever called promised to
//! keep the rules at the top of `gpumem.h`. Through it null, alignment, text and sizes are checked; what can't be
//! checked (that the memory is there) is what the rules are for.

use std::any::Any;
use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

use crate::failure::{Failure, Result};
use crate::last_error;
use crate::status::{GPUMEM_STATUS_OK, gpumem_status};

/// The body of a C function: catches panics, keeps the message of what failed, answers with the status.
macro_rules! boundary {
    (|$caller:ident| $body:block) => {
        $crate::boundary::run(|| {
            // SAFETY: this function is called from C, or from Rust in an unsafe block, and its callers keep the rules
            // at the top of gpumem.h, which are those of `Caller::vouching`.
            #[allow(unused_variables)]
            let $caller = &unsafe { $crate::boundary::Caller::vouching() };
            $body
        })
    };
}
pub(crate) use boundary;

/// Runs the body of a C function; for [`boundary!`].
#[inline(always)]
pub(crate) fn run(body: impl FnOnce() -> Result<()>) -> gpumem_status {
    // What a panic may leave half done is behind locks that say so, or dropped.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => GPUMEM_STATUS_OK,
        Ok(Err(failure)) => refused(&failure),
        Err(payload) => panicked(payload),
    }
}

/// Calls a function of the program's with what it is told, its own data and nothing else.
pub(crate) fn call_back<T, R>(
    function: unsafe extern "C-unwind" fn(*const T, *mut c_void) -> R,
    told: &T,
    data: *mut c_void,
) -> R {
    // SAFETY: the function and its data came from the program together, which promised that one may be called with the
    // other for as long as it was handed over for. Should it unwind after all, `run` catches that. `told` is there for as
    // long as the call.
    unsafe { function(told, data) }
}

#[cold]
#[inline(never)]
fn refused(failure: &Failure) -> gpumem_status {
    let status = failure.status();
    last_error::set(status, failure);
    status
}

#[cold]
#[inline(never)]
fn panicked(payload: Box<dyn Any + Send>) -> gpumem_status {
    let text = match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast::<&'static str>().map_or_else(
            |other| {
                // Dropping it may panic again, beyond our reach.
                std::mem::forget(other);
                "of an unknown kind".to_owned()
            },
            |text| (*text).to_owned(),
        ),
    };
    refused(&Failure::Panic(text))
}

/// A struct whose first field is `struct_size`.
///
/// # Safety
/// `repr(C)`, the first field is a `usize`, every pattern of bits is a value, and [`SIZES`](Versioned::SIZES) are at most
/// its size.
pub(crate) unsafe trait Versioned: Copy {
    /// Sizes it had in any version, the oldest first.
    const SIZES: &'static [usize];
    /// What a program begins with.
    const INITIALIZER: &'static str;
    /// The value of a struct in which nothing was set.
    const INITIAL: Self;
}

/// Implements [`Versioned`].
macro_rules! versioned {
    ($type:ty, $sizes:expr, $initializer:literal, $initial:expr) => {
        // SAFETY: the type is repr(C) and begins with `struct_size: usize`; its fields are numbers and pointers, which
        // may have any bits; the last size is the whole one, as the assertion says.
        unsafe impl $crate::boundary::Versioned for $type {
            const SIZES: &'static [usize] = {
                let sizes: &[usize] = &$sizes;
                assert!(sizes[sizes.len() - 1] == size_of::<$type>());
                assert!(std::mem::offset_of!($type, struct_size) == 0);
                sizes
            };
            const INITIALIZER: &'static str = $initializer;
            const INITIAL: Self = $initial;
        }

        const _: &[usize] = <$type as $crate::boundary::Versioned>::SIZES;
    };
}
pub(crate) use versioned;

/// What a callback of the program's is called with, until nobody calls it any more: then its data is dropped, by the
/// program's own function.
#[derive(Debug)]
pub(crate) struct Foreign {
    data: *mut c_void,
    drop: Option<unsafe extern "C" fn(*mut c_void)>,
}

// SAFETY: the data is only handed back to the program's own functions, and the program promised that these may be called
// on any thread.
unsafe impl Send for Foreign {}
// SAFETY: as above; several threads may call at once, which the header says of callbacks.
unsafe impl Sync for Foreign {}

impl Foreign {
    /// Calls a function that came with this data. It may unwind: whoever calls this catches that.
    pub(crate) fn ask<T, R>(&self, function: unsafe extern "C-unwind" fn(*const T, *mut c_void) -> R, told: &T) -> R {
        // SAFETY: the function and its data came from the program together, and the data isn't dropped before `self`;
        // `told` is there for as long as the call.
        unsafe { function(told, self.data) }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: as in `ask`; called once, after every call of the callback.
            unsafe { drop(self.data) }
        }
    }
}

/// A place that a result is written to.
#[derive(Debug)]
pub(crate) struct Out<'a, T> {
    place: *mut T,
    caller: PhantomData<&'a Caller>,
}

impl<T: Copy> Out<'_, T> {
    /// Writes the result.
    pub(crate) fn set(&self, value: T) {
        // SAFETY: not null and aligned, as `Caller::out` checked; there for as long as the call, as the caller promised.
        unsafe { self.place.write(value) }
    }
}

/// Whoever called promised to keep the rules of the header.
#[derive(Debug)]
pub(crate) struct Caller(());

impl Caller {
    /// # Safety
    /// For as long as the value lives: pointers handed to its methods are null, or what they point to is there, has the
    /// number of elements that goes with them, was initialised where it is read, and is changed by nobody else; texts
    /// end with a zero; handles aren't destroyed.
    #[inline(always)]
    pub(crate) unsafe fn vouching() -> Self {
        Self(())
    }

    /// A place for a result.
    #[inline(always)]
    pub(crate) fn out<T>(&self, place: *mut T, argument: &'static str) -> Result<Out<'_, T>> {
        check(place, argument)?;
        Ok(Out { place, caller: PhantomData })
    }

    /// A place for a handle or a pointer, which is set to null first.
    #[inline(always)]
    pub(crate) fn pointer_out<T>(&self, place: *mut *mut T, argument: &'static str) -> Result<Out<'_, *mut T>> {
        let out = self.out(place, argument)?;
        out.set(ptr::null_mut());
        Ok(out)
    }

    /// A place for a result that the caller may not want.
    pub(crate) fn out_if_wanted<T>(&self, place: *mut T, argument: &'static str) -> Result<Option<Out<'_, T>>> {
        if place.is_null() { Ok(None) } else { self.out(place, argument).map(Some) }
    }

    /// The data of a callback, with what drops it.
    pub(crate) fn foreign(&self, data: *mut c_void, drop: Option<unsafe extern "C" fn(*mut c_void)>) -> Foreign {
        Foreign { data, drop }
    }

    /// A text, which must be there.
    pub(crate) fn text(&self, text: *const c_char, argument: &'static str) -> Result<&str> {
        check(text, argument)?;
        // SAFETY: not null; ends with a zero and isn't changed, as the caller promised.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_str().map_err(|_| Failure::NotUtf8 { argument })
    }

    /// A text; null is none.
    pub(crate) fn text_if_any(&self, text: *const c_char, argument: &'static str) -> Result<Option<&str>> {
        if text.is_null() { Ok(None) } else { self.text(text, argument).map(Some) }
    }

    /// `count` elements; where there are none the pointer may be null.
    pub(crate) fn list<T: Copy>(&self, first: *const T, count: usize, argument: &'static str) -> Result<&[T]> {
        if count == 0 {
            return Ok(&[]);
        }
        check(first, argument)?;
        let limit = isize::MAX as usize / size_of::<T>();
        if count > limit {
            return Err(Failure::TooMany { argument, value: count, limit });
        }
        // SAFETY: not null and aligned; there are `count` of them that nobody changes, as the caller promised, and
        // together they have at most isize::MAX bytes.
        Ok(unsafe { slice::from_raw_parts(first, count) })
    }

    /// Lets `fill` write `count` bytes; where there are none the pointer may be null.
    pub(crate) fn fill_bytes(
        &self,
        first: *mut u8,
        count: usize,
        argument: &'static str,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        if count == 0 {
            return fill(&mut []);
        }
        check(first, argument)?;
        let limit = isize::MAX as usize;
        if count > limit {
            return Err(Failure::TooMany { argument, value: count, limit });
        }
        // SAFETY: not null; there are `count` of them that nobody else uses, as the caller promised; at most isize::MAX.
        // They are initialised or will be: only bytes are written, and what is read of them has no meaning to anyone.
        fill(unsafe { slice::from_raw_parts_mut(first, count) })
    }

    /// Writes a text with its closing zero into a buffer of `capacity` bytes, and the bytes that takes to `size`. Without
    /// a buffer the size is all that is asked for.
    pub(crate) fn write_text(&self, text: &str, buffer: *mut c_char, capacity: usize, size: *mut usize) -> Result<()> {
        let size = self.out_if_wanted(size, "size")?;
        let needed = text.len() + 1;
        if let Some(size) = &size {
            size.set(needed);
        }
        if buffer.is_null() {
            return if size.is_some() { Ok(()) } else { Err(Failure::Null { argument: "buffer" }) };
        }
        if needed > capacity {
            return Err(Failure::BufferTooSmall { needed, capacity });
        }
        // SAFETY: not null; the caller's buffer has `capacity` bytes, as promised, and that is enough; it isn't `text`,
        // which is ours.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast::<u8>(), text.len());
            buffer.add(text.len()).write(0);
        }
        Ok(())
    }

    /// A struct that begins with its size, which must be there. Fields that the caller's version doesn't have are as in
    /// [`Versioned::INITIAL`].
    pub(crate) fn versioned<T: Versioned>(&self, from: *const T, argument: &'static str) -> Result<T> {
        let size = self.struct_size(from, argument)?;
        let mut value = T::INITIAL;
        // SAFETY: `size` is one of SIZES, so at most that of T; the caller's struct has that many bytes, as it says; any
        // bits are a value of T.
        unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut value).cast::<u8>(), size) }
        Ok(value)
    }

    /// The same; null is a struct in which nothing was set.
    pub(crate) fn versioned_if_any<T: Versioned>(&self, from: *const T, argument: &'static str) -> Result<T> {
        if from.is_null() { Ok(T::INITIAL) } else { self.versioned(from, argument) }
    }

    /// Checks that a struct to be filled is there and says a known size; [`fill`](Self::fill) does the rest.
    pub(crate) fn struct_size<T: Versioned>(&self, at: *const T, argument: &'static str) -> Result<usize> {
        check(at, argument)?;
        // SAFETY: not null and aligned; `struct_size` is its first field, and initialised, as the caller promised.
        let size = unsafe { at.cast::<usize>().read() };
        if T::SIZES.contains(&size) {
            return Ok(size);
        }
        Err(Failure::StructSize { argument, found: size, known: T::SIZES, initializer: T::INITIALIZER })
    }

    /// Fills a struct that begins with its size, as far as the caller's version goes. `struct_size` stays.
    pub(crate) fn fill<T: Versioned>(&self, to: *mut T, value: T, argument: &'static str) -> Result<()> {
        let size = self.struct_size(to, argument)?;
        let head = size_of::<usize>();
        // SAFETY: `size` is one of SIZES, so at most that of T and at least a usize; the caller's struct has that many
        // bytes, as it says, and isn't `value`, which is ours.
        unsafe {
            ptr::copy_nonoverlapping((&raw const value).cast::<u8>().add(head), to.cast::<u8>().add(head), size - head);
        }
        Ok(())
    }
}

#[inline(always)]
fn check<T>(pointer: *const T, argument: &'static str) -> Result<()> {
    if pointer.is_null() {
        return Err(Failure::Null { argument });
    }
    if !pointer.is_aligned() {
        return Err(Failure::Misaligned { argument, address: pointer.addr(), alignment: align_of::<T>() });
    }
    Ok(())
}
