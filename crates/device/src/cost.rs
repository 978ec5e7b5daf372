//! What driver calls cost.

use crate::DriverCall;

/// The price of one kind of call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// Nanoseconds for the call itself, refused or not.
    pub base_ns: u64,
    /// Nanoseconds for each handle, address range or mapping in it (1 for calls that aren't batches).
    pub per_handle_ns: u64,
    /// Nanoseconds for each MiB in it.
    pub per_mib_ns: u64,
    /// Whether the call waits until the device has finished all queued work, as `cuMemFree` does. The device stands
    /// still until the call returns. Counts for [`Timeline`](crate::Timeline), not for `modelled_driver_seconds`.
    pub stalls_device: bool,
}

impl Price {
    /// A price by the call, in nanoseconds.
    #[must_use]
    pub const fn per_call(base_ns: u64) -> Price {
        Price { base_ns, per_handle_ns: 0, per_mib_ns: 0, stalls_device: false }
    }

    /// Nanoseconds for a call with this many handles and bytes in it.
    #[must_use]
    pub fn of(&self, handles: u64, bytes: u64) -> u64 {
        let sized = u128::from(self.per_mib_ns) * u128::from(bytes) / u128::from(1u64 << 20);
        self.base_ns
            .saturating_add(self.per_handle_ns.saturating_mul(handles))
            .saturating_add(u64::try_from(sized).unwrap_or(u64::MAX))
    }
}

/// The price of each kind of call.
///
/// The default is a model, not a measurement: `cuMemAlloc` and `cuMemFree` are commonly seen to take 0.1 to 1 ms (the
/// free also waits for the device), making and mapping a handle and setting its access tens of microseconds each,
/// events and stream waits about a microsecond. Unmapping is taken to wait for the device too. Use it to compare
/// policies on one model, never as a time on some machine; [`with_price`](CostModel::with_price) puts in what was
/// measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostModel {
    prices: [Price; DriverCall::COUNT],
}

impl CostModel {
    /// All calls free of charge.
    #[must_use]
    pub fn free_of_charge() -> CostModel {
        CostModel { prices: [Price::default(); DriverCall::COUNT] }
    }

    /// The price of a kind.
    #[must_use]
    pub fn price(&self, call: DriverCall) -> Price {
        self.prices[call.index()]
    }

    /// The same model with another price for a kind.
    #[must_use]
    pub fn with_price(mut self, call: DriverCall, price: Price) -> CostModel {
        self.prices[call.index()] = price;
        self
    }
}

impl Default for CostModel {
    fn default() -> CostModel {
        let us = 1_000;
        let mut model = CostModel::free_of_charge();
        for &call in DriverCall::ALL {
            model.prices[call.index()] = match call {
                DriverCall::Alloc => Price { base_ns: 200 * us, per_mib_ns: 200, ..Price::default() },
                DriverCall::Free => Price { base_ns: 200 * us, stalls_device: true, ..Price::default() },
                DriverCall::MemoryInfo => Price::per_call(20 * us),
                DriverCall::RangeReserve | DriverCall::RangeRelease => Price::per_call(5 * us),
                DriverCall::HandleCreate => Price { per_handle_ns: 30 * us, per_mib_ns: 200, ..Price::default() },
                DriverCall::HandleRelease => Price { per_handle_ns: 20 * us, ..Price::default() },
                DriverCall::Map => Price { per_handle_ns: 5 * us, ..Price::default() },
                DriverCall::SetAccess => Price { base_ns: 10 * us, per_handle_ns: 30 * us, ..Price::default() },
                DriverCall::Unmap => {
                    Price { base_ns: 10 * us, per_handle_ns: 30 * us, stalls_device: true, ..Price::default() }
                }
                DriverCall::StreamCreate | DriverCall::StreamDestroy => Price::per_call(20 * us),
                DriverCall::StreamWait | DriverCall::EventRecord => Price::per_call(us),
                DriverCall::EventCreate | DriverCall::EventDestroy => Price::per_call(us),
                DriverCall::StreamQuery | DriverCall::EventQuery => Price::per_call(us / 2),
                DriverCall::StreamSync | DriverCall::EventSync | DriverCall::DeviceSync => Price::per_call(2 * us),
                DriverCall::Copy => Price::per_call(2 * us),
                DriverCall::PoolAlloc | DriverCall::PoolFree => Price::per_call(us),
                DriverCall::PoolTrim => Price { base_ns: 200 * us, ..Price::default() },
                // Locking pages costs the host by the page.
                DriverCall::HostAlloc => Price { base_ns: 100 * us, per_mib_ns: 100 * us, ..Price::default() },
                DriverCall::HostFree => Price { base_ns: 100 * us, per_mib_ns: 50 * us, ..Price::default() },
            };
        }
        model
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_adds_call_handles_and_bytes_and_stops_at_the_end_of_numbers() {
        let price = Price { base_ns: 5, per_handle_ns: 10, per_mib_ns: 3, stalls_device: false };
        assert_eq!(price.of(0, 0), 5);
        assert_eq!(price.of(4, (2 << 20) + 1), 5 + 40 + 6);
        assert_eq!(price.of(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn only_what_waits_for_the_device_stalls_it_by_default() {
        let model = CostModel::default();
        let stalling: Vec<_> = DriverCall::ALL.iter().filter(|call| model.price(**call).stalls_device).collect();
        assert_eq!(stalling, [&DriverCall::Free, &DriverCall::Unmap]);
    }
}
