//! The devices there are, by name.

use std::sync::Arc;

use device::{Device, HostDevice, HostOptions, SimDevice, SimOptions};

use crate::keys::nearest;
use crate::{Configuration, Error, Result};

/// A kind of device that can be opened.
#[derive(Clone, Copy)]
pub struct DeviceKind {
    /// The name it is asked for by.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub help: &'static str,
    /// Whether the host may read and write at its addresses as they are.
    pub is_host_accessible: bool,
    open: fn(capacity_bytes: Option<u64>) -> Result<Arc<dyn Device>>,
}

impl std::fmt::Debug for DeviceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceKind").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Every kind; the first is the default. A new back end is a line here.
pub const DEVICES: &[DeviceKind] = &[
    DeviceKind {
        name: "host",
        help: "The host's own memory as a device, with streams as real queues.",
        is_host_accessible: true,
        open: open_host,
    },
    DeviceKind {
        name: "sim",
        help: "A simulated device: addresses without bytes, every driver call counted and priced.",
        is_host_accessible: false,
        open: open_sim,
    },
];

/// A device that was opened, and as what.
#[derive(Clone)]
pub struct OpenDevice {
    /// The device.
    pub device: Arc<dyn Device>,
    /// What kind it is.
    pub kind: &'static DeviceKind,
}

impl std::fmt::Debug for OpenDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenDevice").field("info", self.device.info()).field("kind", self.kind).finish()
    }
}

/// Opens the device with this name. `capacity_bytes` is how much memory it is to have, where that can be chosen.
///
/// # Errors
/// There is no such device, or it refuses.
pub fn open_device(name: &str, capacity_bytes: Option<u64>) -> Result<OpenDevice> {
    match DEVICES.iter().find(|kind| kind.name == name) {
        Some(kind) => Ok(OpenDevice { device: (kind.open)(capacity_bytes)?, kind }),
        None => Err(Error::UnknownDevice {
            name: name.to_owned(),
            nearest: nearest(name, DEVICES.iter().map(|kind| kind.name)),
            known: DEVICES.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", "),
        }),
    }
}

/// Opens the device that `device` and `capacity` of the configuration name.
///
/// # Errors
/// As [`open_device`].
pub fn open_configured(configuration: &Configuration) -> Result<OpenDevice> {
    open_device(configuration.text("device").unwrap_or_default(), configuration.size("capacity"))
}

fn open_host(capacity_bytes: Option<u64>) -> Result<Arc<dyn Device>> {
    let options = capacity_bytes.map_or_else(HostOptions::default, HostOptions::with_capacity);
    Ok(Arc::new(HostDevice::new(options)?))
}

fn open_sim(capacity_bytes: Option<u64>) -> Result<Arc<dyn Device>> {
    let options = capacity_bytes.map_or_else(SimOptions::default, SimOptions::with_capacity);
    Ok(Arc::new(SimDevice::new(options)?))
}
