//! Bytes for a device of addresses only: kept by handle where memory is mapped, else by address.

use super::Defect;
use device::{DevicePtr, HandleId, Mapping, Place};
use std::collections::{BTreeMap, HashMap};

const CHUNK: u64 = 4096;

#[derive(Default)]
pub(crate) struct Bytes {
    /// By (whose bytes, number of the chunk).
    chunks: HashMap<(u64, u64), Vec<u8>>,
    mapped: BTreeMap<u64, (HandleId, u64)>,
}

impl Bytes {
    pub(crate) fn map(&mut self, mappings: &[Mapping]) {
        for mapping in mappings {
            self.mapped.insert(mapping.at.0, (mapping.handle, mapping.bytes));
        }
    }

    pub(crate) fn unmap(&mut self, start: DevicePtr, end: u64) {
        self.mapped.retain(|at, _| !(start.0..end).contains(at));
    }

    /// Whose byte it is, and which.
    fn find(&self, place: Place, offset: u64, defect: Defect) -> (u64, u64) {
        let address = match place {
            Place::Host(ptr) => return (u64::MAX, ptr.0 + offset),
            Place::Device(ptr) => ptr.0 + offset,
        };
        match self.mapped.range(..=address).next_back() {
            Some((at, (handle, bytes))) if address < at + bytes && defect != Defect::BytesStayAtAddresses => {
                (1 + handle.0, address - at)
            }
            _ => (0, address),
        }
    }

    /// The pieces of `len` bytes from `place` that lie in one chunk each: (owner, chunk, place in it, position, bytes).
    fn pieces(&self, place: Place, len: usize, defect: Defect) -> Vec<(u64, u64, usize, usize, usize)> {
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < len {
            let (owner, offset) = self.find(place, at as u64, defect);
            let inside = (offset % CHUNK) as usize;
            let bytes = (len - at).min(CHUNK as usize - inside);
            pieces.push((owner, offset / CHUNK, inside, at, bytes));
            at += bytes;
        }
        pieces
    }

    pub(crate) fn write(&mut self, place: Place, from: &[u8], defect: Defect) {
        for (owner, chunk, inside, at, bytes) in self.pieces(place, from.len(), defect) {
            let chunk = self.chunks.entry((owner, chunk)).or_insert_with(|| vec![0; CHUNK as usize]);
            chunk[inside..inside + bytes].copy_from_slice(&from[at..at + bytes]);
        }
    }

    pub(crate) fn read(&self, place: Place, to: &mut [u8], defect: Defect) {
        for (owner, chunk, inside, at, bytes) in self.pieces(place, to.len(), defect) {
            match self.chunks.get(&(owner, chunk)) {
                Some(chunk) => to[at..at + bytes].copy_from_slice(&chunk[inside..inside + bytes]),
                None => to[at..at + bytes].fill(0),
            }
        }
    }
}
