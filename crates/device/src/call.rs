//! The kinds of calls to a driver, for counting, pricing and making them fail.

use std::fmt;

macro_rules! calls {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A kind of call to the driver.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum DriverCall {
            $($(#[$doc])* $variant,)*
        }

        impl DriverCall {
            /// All kinds, in a fixed order.
            pub const ALL: &'static [DriverCall] = &[$(DriverCall::$variant,)*];

            /// The name used in reports: lower case, words joined by `_`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(DriverCall::$variant => $name,)*
                }
            }
        }
    };
}

calls! {
    /// Plain memory is asked for (`cuMemAlloc`).
    Alloc = "alloc",
    /// Plain memory is given back (`cuMemFree`).
    Free = "free",
    /// How much memory is free (`cuMemGetInfo`).
    MemoryInfo = "memory_info",
    /// Addresses are reserved (`cuMemAddressReserve`).
    RangeReserve = "range_reserve",
    /// Reserved addresses are given back (`cuMemAddressFree`).
    RangeRelease = "range_release",
    /// Physical memory is made (`cuMemCreate`).
    HandleCreate = "handle_create",
    /// Physical memory is given back (`cuMemRelease`).
    HandleRelease = "handle_release",
    /// Physical memory is mapped (`cuMemMap`).
    Map = "map",
    /// A mapping is taken away (`cuMemUnmap`).
    Unmap = "unmap",
    /// Access to a mapping is set (`cuMemSetAccess`).
    SetAccess = "set_access",
    /// A stream is made (`cuStreamCreate`).
    StreamCreate = "stream_create",
    /// A stream is given up (`cuStreamDestroy`).
    StreamDestroy = "stream_destroy",
    /// A stream is made to wait for an event (`cuStreamWaitEvent`).
    StreamWait = "stream_wait",
    /// Has a stream finished (`cuStreamQuery`).
    StreamQuery = "stream_query",
    /// The host waits for a stream (`cuStreamSynchronize`).
    StreamSync = "stream_sync",
    /// An event is made (`cuEventCreate`).
    EventCreate = "event_create",
    /// An event is given up (`cuEventDestroy`).
    EventDestroy = "event_destroy",
    /// An event is recorded (`cuEventRecord`).
    EventRecord = "event_record",
    /// Has an event happened (`cuEventQuery`).
    EventQuery = "event_query",
    /// The host waits for an event (`cuEventSynchronize`).
    EventSync = "event_sync",
    /// The host waits for all streams (`cuCtxSynchronize`).
    DeviceSync = "device_sync",
    /// Bytes are copied (`cuMemcpyAsync` and its kin).
    Copy = "copy",
    /// Stream-ordered memory is asked for (`cuMemAllocAsync`).
    PoolAlloc = "pool_alloc",
    /// Stream-ordered memory is given back (`cuMemFreeAsync`).
    PoolFree = "pool_free",
    /// A driver's pool gives idle memory back (`cuMemPoolTrimTo`).
    PoolTrim = "pool_trim",
    /// Page-locked memory is asked for (`cuMemHostAlloc`).
    HostAlloc = "host_alloc",
    /// Page-locked memory is given back (`cuMemFreeHost`).
    HostFree = "host_free",
}

impl DriverCall {
    /// How many kinds there are.
    pub const COUNT: usize = DriverCall::ALL.len();

    /// The kind with this [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<DriverCall> {
        DriverCall::ALL.iter().copied().find(|call| call.name() == name)
    }

    /// The position in [`ALL`](Self::ALL).
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for DriverCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_lies_at_its_index_and_has_a_name_of_its_own() {
        let mut names = std::collections::BTreeSet::new();
        for (index, call) in DriverCall::ALL.iter().enumerate() {
            assert_eq!(call.index(), index);
            assert!(names.insert(call.name()), "{call} twice");
        }
        assert_eq!(DriverCall::COUNT, names.len());
    }
}
