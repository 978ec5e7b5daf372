//! Sums over a moment.

/// Bytes at one moment. Where nothing contradicts itself, each is at most the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Totals {
    /// Asked for and not yet dropped by the host.
    pub live: u64,
    /// Handed out after rounding, not yet dropped by the host.
    pub allocated: u64,
    /// Also what the host dropped and streams may still use.
    pub active: u64,
    /// Held from the device.
    pub reserved: u64,
}

impl Totals {
    /// Held and not active. Derived: reserved - active.
    pub fn free(&self) -> u64 {
        self.reserved.saturating_sub(self.active)
    }

    /// Dropped by the host and maybe still in use. Derived: active - allocated.
    pub fn pending(&self) -> u64 {
        self.active.saturating_sub(self.allocated)
    }
}

/// (1 - largest free block / total free) x 100; 0 where nothing is free.
pub fn fragmentation_percent(largest_free_bytes: u64, free_bytes: u64) -> f64 {
    if free_bytes == 0 {
        return 0.0;
    }
    ((1.0 - largest_free_bytes as f64 / free_bytes as f64) * 100.0).clamp(0.0, 100.0)
}
