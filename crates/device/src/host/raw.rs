//! Memory of this process by address: the one file of this crate with unsafe code. Everything here is safe to call with
//! any argument.
//!
//! What makes it so is who owns what. [`Pages`] are addresses with memory behind them, that nobody else maps, unmaps or
//! protects while the value lives; each access checks bounds and access rights of the `Pages` it goes to. Whoever means
//! to use memory later keeps the `Pages` alive, so memory can't go while somebody uses it.
//!
//! Bytes are only ever copied through raw pointers; no reference to them exists. Threads that touch the same bytes at
//! once without order get bytes of either, as on any device: they break the order that [`Device`](crate::Device) asks
//! of them, not the process.

use super::file::MemoryFile;
use crate::Access;
use rustix::io::{Errno, Result};
use rustix::mm::{
    MapFlags, MprotectFlags, MsyncFlags, ProtFlags, mlock, mmap, mmap_anonymous, mprotect, msync, munmap,
};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Addresses that the system gave to this value, and that go back with it. Whole system pages.
#[derive(Debug)]
struct Addresses {
    start: usize,
    /// 0 once given back.
    bytes: usize,
}

impl Addresses {
    /// New addresses, aligned to a power of two. Memory behind them comes with the first touch, if `protection` lets it.
    fn take(bytes: usize, alignment: usize, protection: ProtFlags) -> Result<Addresses> {
        let mut taken = Addresses::take_anywhere(bytes, protection)?;
        if taken.start.is_multiple_of(alignment) {
            return Ok(taken);
        }
        taken.give_back()?;
        // Take more and cut off both ends.
        let mut wide = Addresses::take_anywhere(bytes.checked_add(alignment).ok_or(Errno::NOMEM)?, protection)?;
        let (low, high) = (wide.start, wide.start + wide.bytes);
        let start = low.next_multiple_of(alignment);
        let end = start + bytes;
        wide.bytes = 0;
        let mut ends = [Addresses { start: low, bytes: start - low }, Addresses { start: end, bytes: high - end }];
        let inner = Addresses { start, bytes };
        ends.iter_mut().try_for_each(Addresses::give_back)?;
        Ok(inner)
    }

    fn take_anywhere(bytes: usize, protection: ProtFlags) -> Result<Addresses> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY:
        // - without `FIXED` the system picks addresses that nothing uses, so nobody's memory changes.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, protection, flags)? };
        Ok(Addresses { start: start.expose_provenance(), bytes })
    }

    fn give_back(&mut self) -> Result<()> {
        if self.bytes > 0 {
            // SAFETY:
            // - the range belongs to this value: `take` is the only place that makes one from addresses, and it splits
            //   what it has into values that don't overlap;
            // - nobody uses memory in it: `Pages` and `Reserved`, which own an `Addresses`, give it back only by `&mut`,
            //   and every access to memory borrows its `Pages`.
            unsafe { munmap(with_exposed_provenance_mut(self.start), self.bytes)? };
            self.bytes = 0;
        }
        Ok(())
    }

    fn holds(&self, start: usize, bytes: usize) -> bool {
        start.checked_sub(self.start).and_then(|at| at.checked_add(bytes)).is_some_and(|end| end <= self.bytes)
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        // What the system doesn't take back stays reserved, and nobody uses it.
        let _ = self.give_back();
    }
}

/// Addresses without memory, in which [`Pages`] can be mapped.
#[derive(Debug)]
pub(crate) struct Reserved {
    addresses: Addresses,
    /// What `Pages` own of it: where, and how many bytes.
    taken: Mutex<BTreeMap<usize, usize>>,
}

impl Reserved {
    pub(crate) fn new(bytes: usize, alignment: usize) -> Result<Reserved> {
        Ok(Reserved { addresses: Addresses::take(bytes, alignment, ProtFlags::empty())?, taken: Mutex::default() })
    }

    pub(crate) fn start(&self) -> u64 {
        self.addresses.start as u64
    }

    /// Gives the addresses back to the system, if it can.
    pub(crate) fn unmap(&mut self) -> Result<()> {
        self.addresses.give_back()
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a range somebody's own, unless a part of it is.
    fn claim(&self, start: usize, bytes: usize) -> Result<()> {
        if bytes == 0 || !self.addresses.holds(start, bytes) {
            return Err(Errno::INVAL);
        }
        let mut taken = self.taken();
        if taken.range(..start + bytes).next_back().is_some_and(|(at, held)| at + held > start) {
            return Err(Errno::EXIST);
        }
        taken.insert(start, bytes);
        Ok(())
    }
}

#[derive(Debug)]
enum Home {
    /// All of these addresses.
    Own(Addresses),
    /// A part of them, claimed.
    Part { reserved: Arc<Reserved>, start: usize, bytes: usize },
}

/// Addresses with memory behind them. Goes back when dropped.
#[derive(Debug)]
pub(crate) struct Pages {
    home: Home,
    access: Access,
}

impl Pages {
    /// New memory of zeros, for reading and writing. It is taken from the system with the first touch, page by page.
    pub(crate) fn new(bytes: usize, alignment: usize) -> Result<Pages> {
        let addresses = Addresses::take(bytes, alignment, ProtFlags::READ | ProtFlags::WRITE)?;
        Ok(Pages { home: Home::Own(addresses), access: Access::ReadWrite })
    }

    /// A part of a file at reserved addresses, for now without access. Both may be mapped elsewhere, too.
    pub(crate) fn map(
        reserved: &Arc<Reserved>,
        start: u64,
        bytes: usize,
        file: &MemoryFile,
        offset: u64,
    ) -> Result<Pages> {
        if offset.checked_add(bytes as u64).is_none_or(|end| end > file.bytes()) {
            return Err(Errno::INVAL);
        }
        let start = usize::try_from(start).map_err(|_| Errno::INVAL)?;
        reserved.claim(start, bytes)?;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
        let at = with_exposed_provenance_mut(start);
        // SAFETY:
        // - the addresses lie in `reserved`, which keeps them, and no other `Pages` has them: `claim` said so;
        // - the file holds the range and can't shrink (`MemoryFile`), so a later access finds memory.
        match unsafe { mmap(at, bytes, ProtFlags::empty(), flags, file, offset) } {
            Ok(_) => {
                Ok(Pages { home: Home::Part { reserved: Arc::clone(reserved), start, bytes }, access: Access::None })
            }
            Err(errno) => {
                // Older kernels may clear the addresses before they fail. Where that is so, and they can't be kept from
                // others again, they stay claimed and are never mapped.
                if is_mapped(start, bytes) || block(start, bytes, MapFlags::FIXED_NOREPLACE).is_ok() {
                    reserved.taken().remove(&start);
                }
                Err(errno)
            }
        }
    }

    fn place(&self) -> (usize, usize) {
        match &self.home {
            Home::Own(addresses) => (addresses.start, addresses.bytes),
            Home::Part { start, bytes, .. } => (*start, *bytes),
        }
    }

    pub(crate) fn start(&self) -> u64 {
        self.place().0 as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.place().1 as u64
    }

    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// Takes the memory away, if the system can. Reserved addresses stay reserved: at no moment they are anybody's.
    pub(crate) fn unmap(&mut self) -> Result<()> {
        match &mut self.home {
            Home::Own(addresses) => addresses.give_back(),
            Home::Part { bytes: 0, .. } => Ok(()),
            Home::Part { reserved, start, bytes } => {
                block(*start, *bytes, MapFlags::FIXED)?;
                reserved.taken().remove(start);
                *bytes = 0;
                Ok(())
            }
        }
    }

    /// Says what may be done with the memory from now on.
    pub(crate) fn protect(&mut self, access: Access) -> Result<()> {
        let flags = match access {
            Access::None => MprotectFlags::empty(),
            Access::Read => MprotectFlags::READ,
            Access::ReadWrite => MprotectFlags::READ | MprotectFlags::WRITE,
        };
        let (start, bytes) = self.place();
        // SAFETY:
        // - the range is this value's own;
        // - nobody uses memory in it: this is `&mut`, and every access to memory borrows its `Pages`.
        unsafe { mprotect(with_exposed_provenance_mut(start), bytes, flags)? };
        self.access = access;
        Ok(())
    }

    /// Keeps the memory resident.
    pub(crate) fn lock(&self) -> Result<()> {
        let (start, bytes) = self.place();
        // SAFETY:
        // - the range is this value's own; locking changes no byte.
        unsafe { mlock(with_exposed_provenance_mut::<c_void>(start), bytes) }
    }

    /// Where byte `at` is, if it and `bytes - 1` behind it are here and `allowed` says yes to the access.
    fn pointer(&self, at: usize, bytes: usize, allowed: impl FnOnce(Access) -> bool) -> Option<*mut u8> {
        let (start, held) = self.place();
        let is_inside = at.checked_add(bytes).is_some_and(|end| end <= held);
        (is_inside && allowed(self.access)).then(|| with_exposed_provenance_mut(start + at))
    }

    fn to_read(&self, at: usize, bytes: usize) -> Option<*const u8> {
        self.pointer(at, bytes, |access| access != Access::None).map(<*mut u8>::cast_const)
    }

    fn to_write(&self, at: usize, bytes: usize) -> Option<*mut u8> {
        self.pointer(at, bytes, |access| access == Access::ReadWrite)
    }

    /// Copies bytes from other pages, or from these. False, and nothing happens, if either side may not.
    #[must_use]
    pub(crate) fn copy(&self, at: usize, from: &Pages, from_at: usize, bytes: usize) -> bool {
        let (Some(to), Some(from)) = (self.to_write(at, bytes), from.to_read(from_at, bytes)) else { return false };
        // SAFETY:
        // - both ranges are mapped with the access that is needed and stay so: `pointer` looked, and changing either
        //   needs `&mut` of a borrowed value;
        // - `copy` allows that they overlap; any byte is a valid `u8`.
        unsafe { std::ptr::copy(from, to, bytes) };
        true
    }

    /// Sets bytes. False, and nothing happens, if it may not.
    #[must_use]
    pub(crate) fn fill(&self, at: usize, bytes: usize, value: u8) -> bool {
        let Some(to) = self.to_write(at, bytes) else { return false };
        // SAFETY:
        // - the range is mapped for writing and stays so, as in `copy`.
        unsafe { std::ptr::write_bytes(to, value, bytes) };
        true
    }

    /// Copies bytes here. False, and nothing happens, if it may not.
    #[must_use]
    pub(crate) fn write(&self, at: usize, from: &[u8]) -> bool {
        let Some(to) = self.to_write(at, from.len()) else { return false };
        // SAFETY:
        // - the range is mapped for writing and stays so, as in `copy`; `from` is readable by its type;
        // - `copy` allows that they overlap.
        unsafe { std::ptr::copy(from.as_ptr(), to, from.len()) };
        true
    }

    /// Copies bytes from here. False, and nothing happens, if it may not.
    #[must_use]
    pub(crate) fn read(&self, at: usize, to: &mut [u8]) -> bool {
        let Some(from) = self.to_read(at, to.len()) else { return false };
        // SAFETY:
        // - the range is mapped for reading and stays so, as in `copy`; `to` is writable by its type;
        // - `copy` allows that they overlap; any byte is a valid `u8`.
        unsafe { std::ptr::copy(from, to.as_mut_ptr(), to.len()) };
        true
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // Where the system can't, the memory stays and its addresses stay claimed: nobody else gets them.
        let _ = self.unmap();
    }
}

/// Mappings that nobody needs. Given up when the process has as many as it may, they leave room to undo what was begun.
#[derive(Debug)]
pub(crate) struct Spare(#[allow(dead_code)] Addresses);

impl Spare {
    /// As many as there is room for, at most 17.
    pub(crate) fn new() -> Result<Spare> {
        Spare::of(17).or_else(|_| Spare::of(9)).or_else(|_| Spare::of(5))
    }

    /// Pages of which no two neighbours have the same protection; those at the ends can be read, so that they don't join
    /// reserved addresses beside them.
    fn of(pages: usize) -> Result<Spare> {
        let page = rustix::param::page_size();
        let spare = Addresses::take_anywhere(pages * page, ProtFlags::empty())?;
        for index in (0..pages).step_by(2) {
            let at = with_exposed_provenance_mut(spare.start + index * page);
            // SAFETY:
            // - the page is this value's own, and nobody uses memory there.
            unsafe { mprotect(at, page, MprotectFlags::READ)? };
        }
        Ok(Spare(spare))
    }
}

/// Whether something is mapped at each of the addresses.
fn is_mapped(start: usize, bytes: usize) -> bool {
    // SAFETY:
    // - without `INVALIDATE` this changes no byte and no mapping, whoever's the addresses are.
    unsafe { msync(with_exposed_provenance_mut(start), bytes, MsyncFlags::ASYNC) }.is_ok()
}

/// Puts addresses without memory in place of whatever is there, in one step.
fn block(start: usize, bytes: usize, fixed: MapFlags) -> Result<()> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | fixed;
    // SAFETY:
    // - with `FIXED`: the only caller is `Pages::unmap`, by `&mut` and with its own range;
    // - with `FIXED_NOREPLACE` nothing that exists changes.
    unsafe { mmap_anonymous(with_exposed_provenance_mut(start), bytes, ProtFlags::empty(), flags)? };
    Ok(())
}
