//! All memory of a host device: books, and the system's calls behind them.

use super::blocks::Blocks;
use super::file::{Backing, MemoryFile, Store};
use super::limits;
use super::options::HostOptions;
use super::raw::{Pages, Reserved, Spare};
use super::span::Span;
use crate::books::{Refusal, VirtualSpace};
use crate::{Access, AddressRange, DevicePtr, HandleId, Mapping, MemoryState, Place};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

type Outcome<T> = Result<T, Refusal>;

/// Why a batch could not be done. `Lost`: and what was done of it could not be undone.
pub(super) enum Broken {
    Refused(Refusal),
    Lost(Refusal),
}

impl From<Refusal> for Broken {
    fn from(refusal: Refusal) -> Broken {
        Broken::Refused(refusal)
    }
}

pub(super) struct Memory {
    capacity_bytes: u64,
    granule: u64,
    page: u64,
    locked_limit_bytes: u64,
    pub(super) plain: Blocks,
    pub(super) locked: Blocks,
    space: VirtualSpace<Backing>,
    reserved: BTreeMap<u64, Arc<Reserved>>,
    /// What is mapped, by address; the same as in `space`.
    mapped: BTreeMap<u64, Arc<Pages>>,
    /// `None`: each handle has a file of its own.
    store: Option<Arc<Store>>,
    /// Given up where the process has as many mappings as it may: taking one away needs room for more.
    spare: Option<Spare>,
}

impl Memory {
    pub(super) fn new(options: &HostOptions, capacity_bytes: u64, locked_limit_bytes: u64) -> Outcome<Memory> {
        let has_store = options.page_bytes.is_some() && !options.exports_handles;
        let store = has_store.then(Store::new).transpose();
        let store = store.map_err(|errno| limits::of_descriptors("memfd_create", errno))?;
        let page = options.page_bytes.unwrap_or(1);
        Ok(Memory {
            capacity_bytes,
            granule: options.plain_granule_bytes,
            page,
            locked_limit_bytes,
            plain: Blocks::new(),
            locked: Blocks::new(),
            space: VirtualSpace::new(page),
            reserved: BTreeMap::new(),
            mapped: BTreeMap::new(),
            store: store.map(Arc::new),
            spare: None,
        })
    }

    pub(super) fn state(&self) -> MemoryState {
        let held = self.plain.bytes() + self.space.bytes();
        MemoryState { free_bytes: self.capacity_bytes.saturating_sub(held), total_bytes: self.capacity_bytes }
    }

    fn check_room(&self, bytes: u64) -> Outcome<()> {
        if bytes <= self.state().free_bytes { Ok(()) } else { Err(Refusal::NoRoom) }
    }

    // -- blocks

    pub(super) fn alloc(&mut self, bytes: u64) -> Outcome<DevicePtr> {
        let rounded = Blocks::rounded(bytes, self.granule)?.ok_or(Refusal::NoRoom)?;
        self.check_room(rounded)?;
        let pages = Pages::new(size(rounded)?, size(self.granule)?);
        Ok(DevicePtr(self.plain.add(pages.map_err(|errno| limits::of_mapping(errno, rounded))?)))
    }

    pub(super) fn alloc_locked(&mut self, bytes: u64) -> Outcome<u64> {
        let page = limits::system_page();
        let rounded = Blocks::rounded(bytes, page)?;
        let free_bytes = self.locked_limit_bytes.saturating_sub(self.locked.bytes());
        let Some(rounded) = rounded.filter(|bytes| *bytes <= free_bytes) else {
            let reason = "the device's page_locked_limit_bytes leaves no room for it".into();
            return Err(Refusal::Limit { reason, free_bytes, total_bytes: self.locked_limit_bytes });
        };
        let pages = Pages::new(size(rounded)?, size(page)?).map_err(|errno| limits::of_mapping(errno, rounded))?;
        pages.lock().map_err(limits::of_locking)?;
        Ok(self.locked.add(pages))
    }

    /// Gives a block that was taken out back to the system; it is live again if the system can't.
    pub(super) fn give_back(&mut self, mut pages: Pages) -> Outcome<()> {
        let bytes = pages.bytes();
        if let Err(refusal) = Memory::with_spare(&mut self.spare, || pages.unmap()) {
            self.plain.put_back(Arc::new(pages));
            return Err(refusal);
        }
        self.plain.gone(bytes);
        Ok(())
    }

    // -- what work may touch

    /// The bytes from `place` on, for reading or for writing too.
    pub(super) fn span(&self, place: Place, bytes: u64, writes: bool) -> Outcome<Span> {
        let found = match place {
            Place::Host(ptr) => self.locked.span(ptr.0, bytes).ok_or(ptr.0),
            Place::Device(ptr) => match self.plain.span(ptr.0, bytes) {
                Some(span) => Ok(span),
                None => self.mapped_span(ptr.0, bytes, writes),
            },
        };
        found.map_err(|at| {
            let may = if writes { "written" } else { "read" };
            Refusal::value(format!(
                "{place} is not followed by {bytes} bytes of memory that may be {may}: there is none at {at:#x}"
            ))
        })
    }

    /// Or the first address that may not be accessed.
    fn mapped_span(&self, start: u64, bytes: u64, writes: bool) -> Result<Span, u64> {
        let end = start.checked_add(bytes).ok_or(start)?;
        let mut span = Span::default();
        let mut next = start;
        // Even no bytes have to be somewhere.
        while next < end || next == start {
            let (&at, pages) = self.mapped.range(..=next).next_back().ok_or(next)?;
            let may = match pages.access() {
                Access::None => false,
                Access::Read => !writes,
                Access::ReadWrite => true,
            };
            let inside = next - at;
            if !may || inside >= pages.bytes() {
                return Err(next);
            }
            let here = (pages.bytes() - inside).min(end - next);
            span.push(pages, inside, here).ok_or(next)?;
            next += here;
            if here == 0 {
                break;
            }
        }
        Ok(span)
    }

    // -- addresses apart from memory

    pub(super) fn reserve(&mut self, bytes: u64, alignment: u64) -> Outcome<AddressRange> {
        let alignment = self.space.check_reserve(bytes, alignment)?;
        let reserved = Reserved::new(size(bytes)?, size(alignment)?);
        let reserved = reserved.map_err(|errno| limits::of_mapping(errno, bytes))?;
        let range = AddressRange::new(DevicePtr(reserved.start()), bytes);
        self.space.adopt(range);
        self.reserved.insert(range.start.0, Arc::new(reserved));
        Ok(range)
    }

    pub(super) fn release_range(&mut self, range: AddressRange) -> Outcome<()> {
        self.space.check_release(range)?;
        // Nothing is mapped there, so nobody else has it.
        let Some(reserved) = self.reserved.get_mut(&range.start.0).and_then(Arc::get_mut) else {
            return Err(Refusal::State("a mapping of it is on its way back to the system; wait for it first".into()));
        };
        let done = Memory::with_spare(&mut self.spare, || reserved.unmap());
        let _ = self.keep_spare();
        done?;
        self.reserved.remove(&range.start.0);
        self.space.disown(range);
        Ok(())
    }

    pub(super) fn create(&mut self, bytes_each: u64, count: usize) -> Outcome<Vec<HandleId>> {
        self.check_room(self.space.size_of(bytes_each, count)?)?;
        let (store, page) = (&self.store, self.page);
        self.space.create(bytes_each, count, || match store {
            Some(store) => {
                Backing::part(store, bytes_each, page).ok_or(Refusal::TooMany("the file of all handles is used up"))
            }
            None => match MemoryFile::new(bytes_each) {
                Ok(file) => Ok(Backing::Own(file)),
                Err(errno) => Err(limits::of_descriptors("memfd_create", errno)),
            },
        })
    }

    pub(super) fn release(&mut self, handles: &[HandleId]) -> Outcome<()> {
        self.space.release(handles)
    }

    /// Sees to spare mappings. They are there whenever something is mapped, so that it can be taken away again: what
    /// would leave no room for them is refused.
    fn keep_spare(&mut self) -> Outcome<()> {
        if self.spare.is_none() {
            self.spare = Some(Spare::new().map_err(|errno| limits::of_mapping(errno, 0))?);
        }
        Ok(())
    }

    /// Something that may need room for more mappings: tried again with what the spare ones leave.
    fn with_spare(spare: &mut Option<Spare>, mut body: impl FnMut() -> Result<(), Errno>) -> Outcome<()> {
        let done = body().or_else(|errno| spare.take().map_or(Err(errno), |_| body()));
        done.map_err(|errno| limits::of_mapping(errno, 0))
    }

    pub(super) fn map(&mut self, mappings: &[Mapping]) -> Outcome<()> {
        self.keep_spare()?;
        self.space.map(mappings)?;
        for (index, mapping) in mappings.iter().enumerate() {
            match self.map_pages(mapping) {
                Ok(pages) => _ = self.mapped.insert(mapping.at.0, Arc::new(pages)),
                Err(refusal) => {
                    self.spare = None;
                    // Where the system can't take one away all the same, its addresses stay claimed and are never mapped
                    // again.
                    for mapping in mappings[..index].iter().rev() {
                        self.mapped.remove(&mapping.at.0);
                    }
                    self.space.unmap(&mappings.iter().rev().map(Mapping::range).collect::<Vec<_>>());
                    let _ = self.keep_spare();
                    return Err(refusal.at(index));
                }
            }
        }
        Ok(())
    }

    /// Maps what the books say is mapped.
    fn map_pages(&self, mapping: &Mapping) -> Outcome<Pages> {
        let reserved = self.reserved.range(..=mapping.at.0).next_back();
        let (Some((_, reserved)), Some(backing)) = (reserved, self.space.backing_at(mapping.at.0)) else {
            return Err(Refusal::System(format!("the books have no mapping at {}", mapping.at)));
        };
        let (file, offset) = backing.place();
        let pages = Pages::map(reserved, mapping.at.0, size(mapping.bytes)?, file, offset);
        pages.map_err(|errno| limits::of_mapping(errno, 0))
    }

    /// Starts of the mappings in each range, with the range's position. Refused if work may still use one of them.
    fn idle_mappings(&self, ranges: &[AddressRange]) -> Outcome<Vec<(usize, u64)>> {
        let mut found = Vec::new();
        for (index, range) in ranges.iter().enumerate() {
            for (&at, pages) in self.mapped.range(range.start.0..range.end()) {
                if Arc::strong_count(pages) > 1 {
                    let reason = format!("work that uses the memory at {at:#x} hasn't finished; wait for it first");
                    return Err(Refusal::State(reason.into()).at(index));
                }
                found.push((index, at));
            }
        }
        Ok(found)
    }

    pub(super) fn unmap(&mut self, ranges: &[AddressRange]) -> Result<(), Broken> {
        self.space.check_unmap(ranges)?;
        let mappings = self.idle_mappings(ranges)?;
        let mut done = 0;
        let mut refused = None;
        for &(index, at) in &mappings {
            let Some(pages) = self.mapped.get_mut(&at).and_then(Arc::get_mut) else { continue };
            if let Err(refusal) = Memory::with_spare(&mut self.spare, || pages.unmap()) {
                refused = Some(refusal.at(index));
                break;
            }
            done += 1;
        }
        // Cutting a mapping in two may have taken the room for taking others away.
        if let Some(refusal) = refused.or_else(|| self.keep_spare().err()) {
            let broken = self.restore(&mappings[..done], refusal);
            let _ = self.keep_spare();
            return Err(broken);
        }
        for (_, at) in mappings {
            self.mapped.remove(&at);
        }
        self.space.unmap(ranges);
        Ok(())
    }

    /// Maps again what was unmapped, in reverse.
    fn restore(&mut self, mappings: &[(usize, u64)], refusal: Refusal) -> Broken {
        for &(_, at) in mappings.iter().rev() {
            let Some((mapping, access)) = self.space.mapping(at) else { return Broken::Lost(refusal) };
            let Ok(mut pages) = self.map_pages(&mapping) else { return Broken::Lost(refusal) };
            if access != Access::None && pages.protect(access).is_err() {
                return Broken::Lost(refusal);
            }
            self.mapped.insert(at, Arc::new(pages));
        }
        Broken::Refused(refusal)
    }

    pub(super) fn set_access(&mut self, ranges: &[AddressRange], access: Access) -> Result<(), Broken> {
        self.space.check_access(ranges)?;
        let mappings = self.idle_mappings(ranges)?;
        let mut before = Vec::with_capacity(mappings.len());
        let mut refused = None;
        for &(index, at) in &mappings {
            let Some(pages) = self.mapped.get_mut(&at).and_then(Arc::get_mut) else { continue };
            let old = pages.access();
            if old == access {
                continue;
            }
            if let Err(refusal) = Memory::with_spare(&mut self.spare, || pages.protect(access)) {
                refused = Some(refusal.at(index));
                break;
            }
            before.push((at, old));
        }
        if let Some(refusal) = refused.or_else(|| self.keep_spare().err()) {
            let broken = self.unprotect(&before, refusal);
            let _ = self.keep_spare();
            return Err(broken);
        }
        Ok(self.space.set_access(ranges, access)?)
    }

    /// Gives mappings the access back that they had, in reverse.
    fn unprotect(&mut self, before: &[(u64, Access)], refusal: Refusal) -> Broken {
        for &(at, access) in before.iter().rev() {
            let pages = self.mapped.get_mut(&at).and_then(Arc::get_mut);
            if pages.is_none_or(|pages| pages.protect(access).is_err()) {
                return Broken::Lost(refusal);
            }
        }
        Broken::Refused(refusal)
    }

    /// Names the invariant that doesn't hold.
    pub(super) fn check(&self) -> Result<(), String> {
        self.space.check()?;
        self.plain.check()?;
        self.locked.check()?;
        for (&at, pages) in &self.mapped {
            let due = self.space.mapping(at).map(|(mapping, access)| (mapping.bytes, access));
            if pages.start() != at || due != Some((pages.bytes(), pages.access())) {
                return Err(format!("at {at:#x} there is {pages:?}, and by the books {due:?}"));
            }
        }
        let whole = self.space.overlapping(AddressRange::new(DevicePtr(0), u64::MAX)).count();
        if whole != self.mapped.len() {
            return Err(format!("{} mappings, and by the books {whole}", self.mapped.len()));
        }
        Ok(())
    }

    // -- between processes

    pub(super) fn export(&self, handle: HandleId) -> Outcome<OwnedFd> {
        match self.space.backing(handle)? {
            Backing::Own(file) => file.export().map_err(|errno| limits::of_descriptors("fcntl", errno)),
            Backing::Part { .. } => Err(Refusal::Unsupported("handles of this device share one file")),
        }
    }

    pub(super) fn import(&mut self, descriptor: BorrowedFd<'_>, bytes: u64) -> Outcome<HandleId> {
        self.check_room(self.space.size_of(bytes, 1)?)?;
        let file = MemoryFile::import(descriptor, bytes).map_err(|errno| limits::of_descriptors("fcntl", errno))?;
        let file = file.ok_or_else(|| {
            Refusal::value(format!("the descriptor is no exported memory of {bytes} bytes (a sealed memory file)"))
        })?;
        self.space.add(bytes, Backing::Own(file))
    }
}

/// As a size of this process.
fn size(bytes: u64) -> Outcome<usize> {
    usize::try_from(bytes).map_err(|_| Refusal::NoRoom)
}
