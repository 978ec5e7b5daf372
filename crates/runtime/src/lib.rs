//! Assembles configuration, devices and allocators into one instance. Imported by `capi`, the command and those who
//! replay traces; imports every layer below.
//!
//! # What it promises
//! - Each setting has one winner, and says where it came from ([`Configuration`]): the call, `GPUMEM_CONF`, a variable of
//!   its own, a file, or the default, in this order. A key that doesn't exist and a value that can't be are errors which
//!   name them, their place, and the nearest thing that does exist. Nothing is half taken.
//! - An [`Instance`] is a device with an allocator, made as a configuration says. There is one that everybody in the
//!   process can reach ([`default_instance`]); nothing of it is torn down at exit.
//! - Devices are opened by name ([`open_device`]): `host`, which is the default, and `sim`.
//!
//! # The idea
//! One table of keys ([`KEYS`]) is all there is to know of the settings: the reader, the messages, the list that
//! `gpumem doctor` prints and the documentation are made from it.
//!
//! # Example
//! ```
//! use runtime::{Configuration, Source};
//!
//! let environment = |name: &str| (name == "GPUMEM_CONF").then(|| "hard_budget=16G; guard=on".to_owned());
//! let configuration = Configuration::resolve("hard_budget=8G", &[], &environment)?;
//! assert_eq!(configuration.size("hard_budget"), Some(8 << 30));
//! assert_eq!(configuration.setting("guard").unwrap().source, Source::Variable("GPUMEM_CONF"));
//!
//! let error = Configuration::resolve("hard_buget=8G", &[], &environment).unwrap_err();
//! assert_eq!(error.to_string(), "`hard_buget` in the call is no setting; did you mean `hard_budget`?");
//! # Ok::<(), runtime::Error>(())
//! ```

#![forbid(unsafe_code)]

mod configuration;
mod error;
mod file;
mod instance;
mod json;
mod keys;
mod registry;
mod trace;
mod values;

pub use configuration::{Configuration, Setting, Source};
pub use error::{Error, Result};
pub use instance::{Instance, default_instance, settings_of};
pub use json::{snapshot_json, statistics_json};
pub use keys::{KEYS, Key, Kind};
pub use registry::{DEVICES, DeviceKind, OpenDevice, open_configured, open_device};
pub use trace::TraceFile;
pub use values::{parse_percent, parse_size, parse_switch};
