//! Barriers of which one side costs nothing: Dekker's handshake between a thread that does it all the time and one that
//! does it hardly ever. The latter asks the kernel to have every running thread of the process pass a full barrier
//! (`membarrier(2)`, private expedited). Where the kernel can't, both sides pass a barrier of their own.

use crate::sync::Ordering;

/// The side that is passed all the time: what comes before it comes before what comes after it, as seen by a thread that passed
/// [`heavy`] in between.
#[inline]
pub(crate) fn light() {
    #[cfg(not(loom))]
    if kernel::can() {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        std::sync::atomic::fence(Ordering::SeqCst);
    }
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// The side that costs microseconds.
pub(crate) fn heavy() {
    #[cfg(not(loom))]
    {
        std::sync::atomic::fence(Ordering::SeqCst);
        kernel::barrier();
    }
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// To be called before the first lock is made.
pub(crate) fn prepare() {
    #[cfg(not(loom))]
    kernel::prepare();
}

#[cfg(all(target_os = "linux", not(miri), not(tsan), not(loom)))]
mod kernel {
    use std::sync::Once;
    use std::sync::atomic::{AtomicBool, Ordering};

    const PRIVATE_EXPEDITED: libc::c_long = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_long = 1 << 4;

    /// Set once, before the first lock is made, so that both sides of each handshake see the same.
    static CAN: AtomicBool = AtomicBool::new(false);

    fn membarrier(command: libc::c_long) -> bool {
        // SAFETY:
        // - the call takes numbers only and changes no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(super) fn prepare() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let can = membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED);
            CAN.store(can, Ordering::SeqCst);
        });
    }

    #[inline]
    pub(super) fn can() -> bool {
        CAN.load(Ordering::Relaxed)
    }

    pub(super) fn barrier() {
        // After a registration it fails only if the call has been forbidden since. There is no other way then to make the
        // other side's stores seen but to wait until any store buffer has been emptied many times over.
        if can() && !membarrier(PRIVATE_EXPEDITED) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[cfg(all(not(loom), any(not(target_os = "linux"), miri, tsan)))]
mod kernel {
    pub(super) fn prepare() {}

    pub(super) fn can() -> bool {
        false
    }

    pub(super) fn barrier() {}
}
