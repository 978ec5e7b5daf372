//! What the reports about recordings share: who asked for a block, when something was, how bytes are written.

mod blocks;
mod groups;
mod labels;
mod text;
mod times;

pub(crate) use blocks::{BlockFacts, HoleFacts, Scene};
pub(crate) use groups::{Group, HolderFacts, by_stack, by_tag, first};
pub(crate) use labels::{Labels, StackLabel};
pub(crate) use text::{bars, count, cut, percent, size, size_exact, wrap};
pub(crate) use times::{Clock, When};
