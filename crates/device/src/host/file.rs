//! Memory that can be mapped: files without a name.

use crate::books::AddressSpace;
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::{Errno, Result, retry_on_intr};
use rustix::process::{Resource, getrlimit};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// A file of memory that never shrinks, so that an access to a mapping of it always finds memory.
#[derive(Debug)]
pub(crate) struct MemoryFile {
    descriptor: OwnedFd,
    bytes: u64,
}

impl MemoryFile {
    /// A new one, of zeros that take no memory until they are touched.
    pub(crate) fn new(bytes: u64) -> Result<MemoryFile> {
        let descriptor = memfd_create("gpumem", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        // The system would send a signal that ends the process.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| bytes > limit) {
            return Err(Errno::FBIG);
        }
        ftruncate(&descriptor, bytes)?;
        fcntl_add_seals(&descriptor, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(MemoryFile { descriptor, bytes })
    }

    /// One that another process made. `None` if it has another size or could shrink or isn't for writing.
    pub(crate) fn import(descriptor: BorrowedFd<'_>, bytes: u64) -> Result<Option<MemoryFile>> {
        let seals = match fcntl_get_seals(descriptor) {
            Ok(seals) => seals,
            // Not a file that can be sealed.
            Err(Errno::INVAL) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let is_ours =
            seals.contains(SealFlags::SHRINK) && !seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE);
        if !is_ours || u64::try_from(fstat(descriptor)?.st_size) != Ok(bytes) {
            return Ok(None);
        }
        Ok(Some(MemoryFile { descriptor: duplicate(descriptor)?, bytes }))
    }

    /// Another descriptor of the same memory.
    pub(crate) fn export(&self) -> Result<OwnedFd> {
        duplicate(self.descriptor.as_fd())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn duplicate(descriptor: BorrowedFd<'_>) -> Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(descriptor, 3)
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// One file for many handles: a descriptor each would be more than a process may have open.
#[derive(Debug)]
pub(crate) struct Store {
    file: MemoryFile,
    offsets: Mutex<AddressSpace>,
}

/// Far more than any capacity: parts that were given back are used again only for their own size.
const STORE_BYTES: u64 = 1 << 56;

impl Store {
    pub(crate) fn new() -> Result<Store> {
        Ok(Store { file: MemoryFile::new(STORE_BYTES)?, offsets: Mutex::new(AddressSpace::new(0, STORE_BYTES)) })
    }
}

/// What stands behind a handle. Its memory goes back to the system when it is dropped.
#[derive(Debug)]
pub(crate) enum Backing {
    Part { store: Arc<Store>, offset: u64, bytes: u64 },
    Own(MemoryFile),
}

impl Backing {
    /// A part of the store, of zeros; `None` when it is full. `bytes` are whole pages of `page` bytes.
    pub(crate) fn part(store: &Arc<Store>, bytes: u64, page: u64) -> Option<Backing> {
        let offset = store.offsets.lock().unwrap_or_else(PoisonError::into_inner).take(bytes, page)?;
        Some(Backing::Part { store: Arc::clone(store), offset, bytes })
    }

    /// The file, and where in it this begins.
    pub(crate) fn place(&self) -> (&MemoryFile, u64) {
        match self {
            Backing::Part { store, offset, .. } => (&store.file, *offset),
            Backing::Own(file) => (file, 0),
        }
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        let Backing::Part { store, offset, bytes } = self else { return };
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // A part that could not be emptied is never used again: the next owner has to find zeros.
        if retry_on_intr(|| fallocate(&store.file, flags, *offset, *bytes)).is_ok() {
            store.offsets.lock().unwrap_or_else(PoisonError::into_inner).give_back(*offset, *bytes);
        }
    }
}
