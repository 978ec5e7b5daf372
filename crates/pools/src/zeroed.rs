//! Tables so large that only the parts in use may take memory: the system gives zeroed pages as they are touched.

use std::alloc::Layout;
use std::ops::Deref;
use std::ptr::NonNull;

/// A type all of whose fields may be zero bytes.
///
/// # Safety
/// Memory of zeros has to be a valid value of the type, and the type must need no dropping.
#[cfg(not(loom))]
pub(crate) unsafe trait Zeroable {}

/// The same under the checker of interleavings, whose atomics are not plain bytes: the table makes each value.
///
/// # Safety
/// As above.
#[cfg(loom)]
pub(crate) unsafe trait Zeroable: Default {}

/// `len` values that began as zeros. Reserves addresses; takes memory only for what is touched.
#[derive(Debug)]
pub(crate) struct ZeroedTable<T> {
    start: NonNull<T>,
    len: usize,
    layout: Layout,
}

// SAFETY:
// - the table owns its values and hands out shared references only, like a boxed slice.
unsafe impl<T: Send> Send for ZeroedTable<T> {}
// SAFETY:
// - as above.
unsafe impl<T: Sync> Sync for ZeroedTable<T> {}

impl<T: Zeroable> ZeroedTable<T> {
    /// As many of `len` values as there are addresses for: `len`, or a half, a quarter and so on of it. `None`: not even
    /// one.
    pub(crate) fn new(len: usize) -> Option<Self> {
        let mut len = len;
        while len > 0 {
            if let Some(table) = Self::exactly(len) {
                return Some(table);
            }
            len /= 2;
        }
        None
    }

    fn exactly(len: usize) -> Option<Self> {
        let layout = Layout::array::<T>(len).ok().filter(|layout| layout.size() > 0)?;
        let start = memory::take(layout)?.cast::<T>();
        #[cfg(loom)]
        for at in 0..len {
            // SAFETY:
            // - there is room for `len` values from `start` on.
            unsafe { start.add(at).write(T::default()) };
        }
        Some(Self { start, len, layout })
    }
}

/// Zeroed memory that is there only once it is touched.
#[cfg(all(unix, not(miri), not(loom)))]
mod memory {
    use std::alloc::Layout;
    use std::ptr::NonNull;

    /// Addresses without a claim on memory: whatever the process's allocator does with what it is asked for, and where the
    /// system counts every claim, this counts for what is touched.
    pub(super) fn take(layout: Layout) -> Option<NonNull<u8>> {
        // Mappings begin at pages.
        if layout.align() > 4096 {
            return None;
        }
        // SAFETY:
        // - a new private mapping at addresses of the kernel's choice touches no memory of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                layout.size(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) }
    }

    /// # Safety
    /// The memory came from [`take`] with this layout, and nobody uses it any more.
    pub(super) unsafe fn give_back(start: NonNull<u8>, layout: Layout) {
        // SAFETY:
        // - it is a whole mapping of ours that nobody uses any more (the caller's promise). Unmapping one can't fail.
        let _ = unsafe { libc::munmap(start.as_ptr().cast(), layout.size()) };
    }
}

/// The same from the process's allocator, for interpreters and checkers.
#[cfg(not(all(unix, not(miri), not(loom))))]
mod memory {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    pub(super) fn take(layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY:
        // - the layout's size isn't zero.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    }

    /// # Safety
    /// The memory came from [`take`] with this layout, and nobody uses it any more.
    pub(super) unsafe fn give_back(start: NonNull<u8>, layout: Layout) {
        // SAFETY:
        // - the caller's promise.
        unsafe { dealloc(start.as_ptr(), layout) }
    }
}

impl<T> Deref for ZeroedTable<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY:
        // - from `start` on there is room for `len` values in one allocation, aligned for them, that lives as long as the table;
        // - zeros are valid values of the type (`Zeroable`), and values change only through shared references, as atomics do;
        // - its size is that of a layout, so it doesn't exceed `isize::MAX`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for ZeroedTable<T> {
    fn drop(&mut self) {
        // SAFETY:
        // - the memory was taken with this layout and nobody has references into it any more;
        // - the values need no dropping (`Zeroable`).
        unsafe { memory::give_back(self.start.cast(), self.layout) }
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sync::{AtomicU32, Ordering};

    #[derive(Debug)]
    #[repr(align(64))]
    struct Value(AtomicU32);

    // SAFETY:
    // - an atomic integer may be zero and needs no dropping.
    unsafe impl Zeroable for Value {}

    #[test]
    fn values_begin_as_zeros_and_keep_what_is_stored() {
        let table = ZeroedTable::<Value>::new(1000).unwrap();
        assert!(table.iter().all(|value| value.0.load(Ordering::Relaxed) == 0));
        table[999].0.store(7, Ordering::Relaxed);
        assert_eq!((table.len(), table[999].0.load(Ordering::Relaxed)), (1000, 7));
    }

    #[test]
    fn what_has_no_addresses_gets_fewer_values() {
        // Kept from the optimizer, which may take an allocation that nobody looks at for one that succeeded.
        let table = std::hint::black_box(ZeroedTable::<Value>::new(if cfg!(miri) { 1 << 4 } else { 1 << 56 }).unwrap());
        assert!(table.len() < 1 << 56 && table[0].0.load(Ordering::Relaxed) == 0);
    }
}
