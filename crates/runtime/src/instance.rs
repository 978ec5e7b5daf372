//! A device with an allocator, as a configuration says.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pools::{Allocator, Backing, Budget, HandOver, OpPool, Settings};

use crate::{Configuration, Error, OpenDevice, Result, TraceFile, open_configured};

/// A device with an allocator.
#[derive(Debug)]
pub struct Instance {
    configuration: Configuration,
    device: OpenDevice,
    allocator: Allocator,
    trace: Mutex<Option<Arc<TraceFile>>>,
    /// The process that made it.
    process: u32,
}

impl Instance {
    /// Opens the device that the configuration names, and makes an allocator on it.
    ///
    /// # Errors
    /// The device or the allocator refuses, or the trace can't be written.
    pub fn new(configuration: Configuration) -> Result<Self> {
        let device = open_configured(&configuration)?;
        Self::on(device, configuration)
    }

    /// Makes an allocator on a device that is open already; what the configuration says of devices isn't looked at.
    ///
    /// # Errors
    /// The allocator refuses, or the trace can't be written.
    pub fn on(device: OpenDevice, configuration: Configuration) -> Result<Self> {
        let allocator = Allocator::new(Arc::clone(&device.device), settings_of(&configuration))
            .map_err(|error| refused_setting(error, &configuration))?;
        let instance = Self { configuration, device, allocator, trace: Mutex::new(None), process: std::process::id() };
        if let Some(path) = instance.configuration.text("trace") {
            instance.start_trace(&path.replace("%p", &std::process::id().to_string()))?;
        }
        Ok(instance)
    }

    /// Every setting with where it came from.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// The devices: one so far.
    pub fn devices(&self) -> &[OpenDevice] {
        std::slice::from_ref(&self.device)
    }

    /// The allocators, one for each device in the same order.
    pub fn allocators(&self) -> &[Allocator] {
        std::slice::from_ref(&self.allocator)
    }

    /// The device.
    pub fn device(&self) -> &OpenDevice {
        &self.device
    }

    /// Its allocator.
    #[inline]
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// Writes all requests from now on to a file as gpumem-trace/1, in place of an earlier trace, which is finished.
    /// Requests take longer meanwhile.
    ///
    /// # Errors
    /// The file can't be created: then an earlier trace goes on. The earlier one can't be finished: then the new one is on
    /// all the same. A child of a fork is refused.
    pub fn start_trace(&self, path: &str) -> Result<()> {
        self.check_process()?;
        let mut current = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        let trace = Arc::new(TraceFile::create(path)?);
        self.allocator.set_sink(Some(Arc::clone(&trace) as Arc<dyn records::Sink>));
        current.replace(trace).map_or(Ok(()), |earlier| earlier.finish())
    }

    /// Ends the trace and finishes its file. Nothing happens if there is none.
    ///
    /// # Errors
    /// Some of it can't be written, now or earlier. A child of a fork is refused: the file is its parent's.
    pub fn stop_trace(&self) -> Result<()> {
        self.check_process()?;
        let mut current = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        self.allocator.set_sink(None);
        current.take().map_or(Ok(()), |trace| trace.finish())
    }

    /// A lock may be held by a thread that isn't in a forked child, and the file has one position for both.
    fn check_process(&self) -> Result<()> {
        if std::process::id() == self.process { Ok(()) } else { Err(pools::Error::Forked.into()) }
    }

    /// The trace that is being written, for what only the program knows.
    pub fn trace(&self) -> Option<Arc<TraceFile>> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            // Nor may its end be written when it is dropped.
            std::mem::forget(std::mem::take(&mut self.trace));
            return;
        }
        // Whoever wants to know calls it before.
        let _ = self.stop_trace();
    }
}

/// What an allocator doesn't like about its settings, in the words of the configuration.
fn refused_setting(error: pools::Error, configuration: &Configuration) -> Error {
    let pools::Error::BadSetting { name, problem, .. } = error else { return error.into() };
    let key = match name {
        "segment_bytes" => "minimum_segment",
        "initial_bytes" => "initial",
        "budget.soft_bytes" => "soft_budget",
        _ => return error.into(),
    };
    let Some(setting) = configuration.setting(key) else { return error.into() };
    Error::BadValue {
        key: key.to_owned(),
        value: setting.value.clone(),
        source_: setting.source.clone(),
        expected: problem.to_owned(),
        nearest: None,
    }
}

/// What a configuration says of allocators.
#[must_use]
pub fn settings_of(configuration: &Configuration) -> Settings {
    let mut settings = Settings::default();
    settings.budget =
        Budget { hard_bytes: configuration.size("hard_budget"), soft_bytes: configuration.size("soft_budget") };
    settings.initial_bytes = configuration.size("initial").unwrap_or(settings.initial_bytes);
    settings.segment_bytes = configuration.size("minimum_segment").unwrap_or(settings.segment_bytes);
    let percent = |name, default| configuration.percent(name).map_or(default, u32::from);
    settings.cached_limit_percent = percent("cached_limit", settings.cached_limit_percent);
    settings.defragment_percent = percent("defragment", settings.defragment_percent);
    settings.defragment_floor_bytes = configuration.size("defragment_floor").unwrap_or(settings.defragment_floor_bytes);
    settings.guard = configuration.is_on("guard");
    settings.separate_precisions = configuration.is_on("separate_precisions");
    settings.sees_all_work = configuration.is_on("sees_all_work");
    settings.magazines = configuration.is_on("magazines");
    settings.stream_waits = configuration.is_on("stream_waits");
    settings.host_waits = configuration.is_on("host_waits");
    settings.hand_over = match configuration.text("hand_over") {
        Some("all") => HandOver::All,
        Some("off") => HandOver::Off,
        _ => HandOver::Recorded,
    };
    settings.backing = match configuration.text("backing") {
        Some("segments") => Backing::Segments,
        Some("range") => Backing::Range,
        _ => Backing::Auto,
    };
    settings.op_pools = configuration.op_pools().map(|(op, bytes)| OpPool { op: op.to_owned(), bytes }).collect();
    settings
}

/// The process's own instance, made by whoever asks first from the environment's configuration. It is there until the
/// process ends.
///
/// # Errors
/// As [`Configuration::resolve`] and [`Instance::new`]; the next who asks tries again.
pub fn default_instance() -> Result<&'static Instance> {
    static INSTANCE: OnceLock<Instance> = OnceLock::new();
    static MAKING: Mutex<()> = Mutex::new(());
    if let Some(instance) = INSTANCE.get() {
        return Ok(instance);
    }
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(instance) = INSTANCE.get() {
        return Ok(instance);
    }
    let made = Instance::new(Configuration::from_environment("", &[])?)?;
    Ok(INSTANCE.get_or_init(|| made))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::KEYS;
    use device::StreamId;

    fn configured(call: &str) -> Configuration {
        Configuration::resolve(call, &[], &|_| None).unwrap()
    }

    #[test]
    fn defaults_of_the_keys_are_those_of_the_allocator() {
        assert_eq!(settings_of(&configured("")), Settings::default());
    }

    #[test]
    fn every_key_of_an_allocator_changes_its_settings() {
        let about_devices = ["device", "capacity", "trace"];
        for key in KEYS.iter().filter(|key| !about_devices.contains(&key.name)) {
            let name = key.name.replace("op_pool.", "op_pool.conv");
            let changed = ["1", "64M", "on", "off", "all", "segments"].into_iter().find(|value| {
                *value != key.default
                    && Configuration::resolve(&format!("{name}={value}"), &[], &|_| None)
                        .is_ok_and(|configuration| settings_of(&configuration) != Settings::default())
            });
            assert!(changed.is_some(), "{name} changes nothing");
        }
    }

    #[test]
    fn a_setting_that_the_allocator_refuses_is_named_as_it_was_written() {
        for (call, wanted) in [
            ("minimum_segment=3M", "`3M` in the call is no value for `minimum_segment`: it has to be a power of two"),
            ("capacity=64M;initial=1G", "`1G` in the call is no value for `initial`: it is more than the device has"),
            (
                "hard_budget=1M;initial=1G",
                "`1G` in the call is no value for `initial`: it is more than the hard budget",
            ),
            ("hard_budget=1M;soft_budget=2M", "`2M` in the call is no value for `soft_budget`: it is above the hard"),
        ] {
            let error = Instance::new(configured(&format!("device=sim;{call}"))).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{call}: {error}");
        }
    }

    #[test]
    fn the_default_instance_is_one_for_all() {
        let first = default_instance().unwrap();
        assert!(std::ptr::eq(first, default_instance().unwrap()));
        assert_eq!(first.device().kind.name, "host");
    }

    #[test]
    fn what_is_traced_can_be_told_and_is_finished() {
        let instance = Instance::new(configured("device=sim;capacity=1G")).unwrap();
        let path = std::env::temp_dir().join(format!("gpumem-instance-{}.gmtrace", std::process::id()));
        let name = path.to_str().unwrap();
        instance.start_trace(name).unwrap();
        let block = instance.allocator().alloc(1000, 0, StreamId(0)).unwrap();
        assert!(instance.trace().is_some());
        instance.allocator().free(block, None).unwrap();
        instance.stop_trace().unwrap();
        instance.stop_trace().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(bytes.starts_with(&records::TRACE_MAGIC) && bytes.len() > records::TRACE_HEAD_BYTES + 13);
        assert!(instance.start_trace("no/such/folder/trace").is_err());
    }
}
