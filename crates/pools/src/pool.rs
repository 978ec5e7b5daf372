//! Which requests share free blocks.

use hashbrown::HashMap;

use crate::settings::Settings;
use crate::{Precision, Tag, Tier, op_number};

/// Temporary and cyclic blocks.
pub(crate) const COMMON: u16 = 0;
/// Persistent blocks, at the other end of the arena.
pub(crate) const PERSISTENT: u16 = 1;
/// The first pool of a precision.
const PRECISIONS: u16 = 2;
/// The first pool of an operator.
const OPS: u16 = PRECISIONS + Precision::ALL.len() as u16;

/// From tags to pools.
#[derive(Debug)]
pub(crate) struct Pools {
    separates_precisions: bool,
    ops: HashMap<u32, u16>,
    bytes: Vec<(String, u64)>,
}

impl Pools {
    pub(crate) fn new(settings: &Settings) -> Self {
        let numbered = (OPS..).zip(&settings.op_pools);
        Self {
            separates_precisions: settings.separate_precisions,
            ops: numbered.map(|(pool, op)| (op_number(&op.op), pool)).collect(),
            bytes: settings.op_pools.iter().map(|op| (op.op.clone(), op.bytes)).collect(),
        }
    }

    /// The pool that serves a request first, and the one it falls back on.
    #[inline]
    pub(crate) fn of(&self, tag: Tag) -> u16 {
        if tag.op != 0
            && !self.ops.is_empty()
            && let Some(pool) = self.ops.get(&tag.op)
        {
            return *pool;
        }
        self.fallback(tag)
    }

    #[inline]
    pub(crate) fn fallback(&self, tag: Tag) -> u16 {
        match tag.tier {
            Tier::Persistent => PERSISTENT,
            _ if self.separates_precisions && tag.precision != Precision::Unknown => PRECISIONS + tag.precision as u16,
            _ => COMMON,
        }
    }

    /// Bytes set apart for an operator's pool; `None` for other pools.
    pub(crate) fn op_bytes(&self, pool: u16) -> Option<u64> {
        self.bytes.get(usize::from(pool.checked_sub(OPS)?)).map(|(_, bytes)| *bytes)
    }

    /// Pools with bytes set apart, with the operators' names.
    pub(crate) fn op_pools(&self) -> impl Iterator<Item = (u16, &str, u64)> {
        (OPS..).zip(&self.bytes).map(|(pool, (name, bytes))| (pool, name.as_str(), *bytes))
    }
}
