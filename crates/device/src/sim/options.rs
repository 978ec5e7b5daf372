//! What a simulated device is to be like.

use crate::{CostModel, FaultPlan, TimelineOptions};

/// What the device may know before memory may be used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrderCheck {
    /// Uses are not watched at all.
    Off,
    /// Earlier work has to be finished, or ordered before: lenient with a caller that was merely lucky.
    Finished,
    /// The host has to have seen earlier work finish, or it is ordered before. What nobody looked at doesn't count.
    #[default]
    Seen,
}

/// What happens when memory is taken from work that may still use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContractMode {
    /// The call fails, and so does every later one.
    #[default]
    Abort,
    /// It is counted, the first few are kept, and the run goes on.
    Count,
}

/// What `free` of plain memory does about work that may still use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainFree {
    /// It waits until the device has finished everything, and the host has seen that, as `cuMemFree` does.
    #[default]
    Waits,
    /// Nothing: what is pending stays pending, and the memory goes. So do stand-ins for a driver whose free does nothing
    /// but keep accounts. For comparing with what was measured over one; not what [`Device`](crate::Device) promises.
    Ignores,
    /// What is pending stays pending, and freeing memory that work may still use is a violation: for those who want no
    /// hidden waits at all. Not what [`Device`](crate::Device) promises.
    Refuses,
}

/// What a simulated device is to be like.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// What it is called. Default "simulated device".
    pub name: String,
    /// Memory for plain allocations, handles and the driver's pool together. Default 80 GiB.
    pub capacity_bytes: u64,
    /// Plain allocations take a multiple of this; a power of two. Default 2 MiB.
    pub plain_granule_bytes: u64,
    /// Page of virtual memory; a power of two. Default 2 MiB. `None`: no virtual memory.
    pub page_bytes: Option<u64>,
    /// Most page-locked memory. Default 64 GiB.
    pub page_locked_limit_bytes: u64,
    /// How uses are watched.
    pub check_order: OrderCheck,
    /// What a violation does.
    pub contract: ContractMode,
    /// What `free` of plain memory does about work that may still use it.
    pub plain_free: PlainFree,
    /// Whether a stream that finishes takes along what it waited for, as hardware does. Default true. Without, a stream
    /// finishes by calls that name it alone: the strict reading of traces whose sync rows say when streams finish.
    pub waits_finish: bool,
    /// What driver calls cost.
    pub costs: CostModel,
    /// How long work takes.
    pub timeline: TimelineOptions,
    /// Which calls fail.
    pub faults: FaultPlan,
}

impl SimOptions {
    /// The default with another capacity.
    #[must_use]
    pub fn with_capacity(capacity_bytes: u64) -> SimOptions {
        SimOptions { capacity_bytes, ..SimOptions::default() }
    }
}

impl Default for SimOptions {
    fn default() -> SimOptions {
        SimOptions {
            name: "simulated device".to_owned(),
            capacity_bytes: 80 << 30,
            plain_granule_bytes: 2 << 20,
            page_bytes: Some(2 << 20),
            page_locked_limit_bytes: 64 << 30,
            check_order: OrderCheck::default(),
            contract: ContractMode::default(),
            plain_free: PlainFree::default(),
            waits_finish: true,
            costs: CostModel::default(),
            timeline: TimelineOptions::default(),
            faults: FaultPlan::default(),
        }
    }
}
