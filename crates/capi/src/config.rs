//! Settings: how a program chooses them, and which it got from where.

use std::ffi::c_char;
use std::ptr;

use runtime::Configuration;

use crate::boundary::{Caller, boundary, versioned};
use crate::failure::{Failure, Result};
use crate::status::gpumem_status;
use crate::version::{GPUMEM_DEFAULT, GPUMEM_OFF, GPUMEM_ON, GPUMEM_UNSET};

/// How a device or an allocator is to be. What isn't set is taken from `GPUMEM_CONF`, from variables of the environment
/// that are aliases of single settings, from files named by either, or from the default. Begin with
/// `GPUMEM_CONFIG_INIT`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_config {
    /// `sizeof(gpumem_config)`.
    pub struct_size: usize,
    /// Any settings as `key=value;key=value`, sizes with K, M, G or T, and `@file.toml`; null for none. The list of keys
    /// is in docs/configuration.md and in `gpumem_config_settings`. The fields below win over it.
    pub settings: *const c_char,
    /// Name of the device, `host` or `sim`; null if not set.
    pub device: *const c_char,
    /// Bytes of memory of a host or simulated device.
    pub capacity_bytes: u64,
    /// Most bytes that an allocator holds from the device.
    pub hard_budget_bytes: u64,
    /// Bytes held from the device above which an allocator gives idle memory back first.
    pub soft_budget_bytes: u64,
    /// Bytes that an allocator takes from the device at the start.
    pub initial_bytes: u64,
    /// Whether overruns and uses after a free are looked for: a switch.
    pub guard: i32,
    /// Whether blocks of different precisions lie apart: a switch.
    pub separate_precisions: i32,
}

versioned!(
    gpumem_config,
    [64],
    "GPUMEM_CONFIG_INIT",
    gpumem_config {
        struct_size: size_of::<gpumem_config>(),
        settings: ptr::null(),
        device: ptr::null(),
        capacity_bytes: GPUMEM_UNSET,
        hard_budget_bytes: GPUMEM_UNSET,
        soft_budget_bytes: GPUMEM_UNSET,
        initial_bytes: GPUMEM_UNSET,
        guard: GPUMEM_DEFAULT,
        separate_precisions: GPUMEM_DEFAULT,
    }
);

/// The number, if it is set.
pub(crate) fn number(value: u64) -> Option<u64> {
    (value != 0 && value != GPUMEM_UNSET).then_some(value)
}

/// The switch, if it is set.
pub(crate) fn switch(value: i32, argument: &'static str) -> Result<Option<bool>> {
    match value {
        GPUMEM_DEFAULT => Ok(None),
        GPUMEM_OFF => Ok(Some(false)),
        GPUMEM_ON => Ok(Some(true)),
        _ => Err(Failure::BadNumber {
            argument,
            value: value.into(),
            expected: "GPUMEM_DEFAULT, GPUMEM_OFF or GPUMEM_ON",
        }),
    }
}

/// All settings that follow from what the program says, null being nothing, and from the environment.
pub(crate) fn resolve(caller: &Caller, config: *const gpumem_config) -> Result<Configuration> {
    let config = caller.versioned_if_any(config, "config")?;
    let settings = caller.text_if_any(config.settings, "config.settings")?.unwrap_or_default();
    let size = |value| number(value).map(|bytes| bytes.to_string());
    let switch = |value, argument| {
        Ok::<_, Failure>(switch(value, argument)?.map(|is_on| if is_on { "on" } else { "off" }.to_owned()))
    };
    let fields = [
        ("device", caller.text_if_any(config.device, "config.device")?.map(str::to_owned)),
        ("capacity", size(config.capacity_bytes)),
        ("hard_budget", size(config.hard_budget_bytes)),
        ("soft_budget", size(config.soft_budget_bytes)),
        ("initial", size(config.initial_bytes)),
        ("guard", switch(config.guard, "config.guard")?),
        ("separate_precisions", switch(config.separate_precisions, "config.separate_precisions")?),
    ];
    let fields: Vec<(&str, String)> = fields.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    Ok(Configuration::from_environment(settings, &fields)?)
}

/// Any thread. Every setting that `config` (null for none) and the environment come to, as a JSON list: name, value (null
/// for none), source (`the call`, `GPUMEM_CONF`, a variable's or a file's name, `the default`) and what it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_config_settings(
    config: *const gpumem_config,
    buffer: *mut c_char,
    capacity: usize,
    size: *mut usize,
) -> gpumem_status {
    boundary!(|caller| {
        let configuration = resolve(caller, config)?;
        caller.write_text(&configuration.to_json(), buffer, capacity, size)
    })
}
