//! Whether this process is a fork of another that used an allocator.

use std::sync::Once;
// A static, which a checker of interleavings can't have.
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between this process and the first one that made an allocator.
static FORKS: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

/// The number of forks so far. An allocator of another number is another process's.
#[inline]
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Sees to it that forks are counted from now on.
pub(crate) fn watch() {
    WATCH.call_once(|| {
        // SAFETY:
        // - the child's handler only adds to an atomic, which may be done between fork and exec;
        // - it is a function of this library, which isn't unloaded (the shared library is linked with `-z nodelete`).
        let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        // It fails for lack of memory only; forks are then not noticed, as they weren't before.
        debug_assert_eq!(failed, 0);
    });
}
