//! What the devices of this crate keep books with: ids, addresses, mappings, and why a call is refused.

mod refusal;
mod slab;
mod space;
mod virtual_space;

pub(crate) use refusal::Refusal;
pub(crate) use slab::{Slab, join, split};
pub(crate) use space::AddressSpace;
pub(crate) use virtual_space::VirtualSpace;
