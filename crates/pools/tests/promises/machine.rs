//! The two devices that programs run on: one that knows all about order, one that keeps bytes.

use std::sync::Arc;

use device::{
    ContractMode, Device, DevicePtr, FaultPlan, HostDevice, HostOptions, OrderCheck, Place, Scripted, SimDevice,
    SimOptions, StreamId, Touch,
};

/// What a program needs of a device besides what the allocator does.
pub(crate) trait Machine: Send + Sync {
    fn device(&self) -> Arc<dyn Device>;
    fn set_faults(&self, faults: FaultPlan);
    fn create_stream(&self) -> StreamId;
    fn destroy_stream(&self, stream: StreamId);
    /// Work on `stream` that uses a block; the first of a block fills it with `value`.
    fn use_block(&self, stream: StreamId, ptr: DevicePtr, bytes: u64, begins: bool, value: u8);
    fn order(&self, of: StreamId, by: StreamId);
    fn observe(&self, stream: StreamId);
    fn observe_all(&self);
    /// Fails if a block doesn't hold `value`; waits for `stream`.
    fn verify(&self, stream: StreamId, ptr: DevicePtr, bytes: u64, value: u8);
    /// Bytes that the device says are taken.
    fn taken_bytes(&self) -> u64;
    /// The device's own invariants.
    fn check(&self);
}

/// A simulated device that refuses work on memory whose reuse isn't ordered.
pub(crate) struct Sim(pub(crate) Arc<SimDevice>);

impl Sim {
    pub(crate) fn new(capacity: u64) -> Self {
        let mut options = SimOptions::with_capacity(capacity);
        options.check_order = OrderCheck::Seen;
        options.contract = ContractMode::Abort;
        Self(Arc::new(SimDevice::new(options).unwrap()))
    }
}

impl Machine for Sim {
    fn device(&self) -> Arc<dyn Device> {
        self.0.clone()
    }
    fn set_faults(&self, faults: FaultPlan) {
        self.0.set_faults(faults);
    }
    fn create_stream(&self) -> StreamId {
        loop {
            // The program's own call may be struck too.
            if let Ok(stream) = self.0.create_stream() {
                return stream;
            }
        }
    }
    fn destroy_stream(&self, stream: StreamId) {
        while self.0.destroy_stream(stream).is_err() {}
    }
    fn use_block(&self, stream: StreamId, ptr: DevicePtr, bytes: u64, begins: bool, _: u8) {
        if bytes == 0 {
            return;
        }
        let touch = if begins { Touch::begin(ptr, bytes) } else { Touch::again(ptr, bytes) };
        self.0.launch(stream, &[touch]).unwrap();
    }
    fn order(&self, of: StreamId, by: StreamId) {
        self.0.order(of, by).unwrap();
    }
    fn observe(&self, stream: StreamId) {
        self.0.observe(stream).unwrap();
    }
    fn observe_all(&self) {
        self.0.observe_all();
    }
    fn verify(&self, _: StreamId, _: DevicePtr, _: u64, _: u8) {}
    fn taken_bytes(&self) -> u64 {
        self.0.stats().in_use_bytes
    }
    fn check(&self) {
        self.0.check().unwrap();
        assert_eq!(self.0.stats().violations, 0);
    }
}

/// A host device whose calls by the allocator may fail.
pub(crate) struct Host(pub(crate) Arc<Scripted<HostDevice>>);

impl Host {
    pub(crate) fn new(capacity: u64) -> Self {
        let mut options = HostOptions::with_capacity(capacity);
        options.threads = 2;
        Self(Arc::new(Scripted::new(HostDevice::new(options).unwrap(), FaultPlan::default())))
    }

    fn pieces(bytes: u64) -> impl Iterator<Item = (u64, u64)> {
        // All of a small block; the ends, and a few bytes every 64 KiB, of a large one.
        const STEP: u64 = 64 << 10;
        let whole = bytes <= STEP;
        let inner = (0..if whole { 0 } else { bytes / STEP }).map(|at| (at * STEP, 64));
        let ends = if whole { (0, bytes) } else { (bytes - 64, 64) };
        inner.chain(std::iter::once(ends)).filter(|(_, bytes)| *bytes > 0)
    }
}

impl Machine for Host {
    fn device(&self) -> Arc<dyn Device> {
        self.0.clone()
    }
    fn set_faults(&self, faults: FaultPlan) {
        self.0.set_faults(faults);
        self.0.take_log();
    }
    fn create_stream(&self) -> StreamId {
        self.0.inner().create_stream().unwrap()
    }
    fn destroy_stream(&self, stream: StreamId) {
        self.0.inner().destroy_stream(stream).unwrap();
    }
    fn use_block(&self, stream: StreamId, ptr: DevicePtr, bytes: u64, begins: bool, value: u8) {
        if begins {
            for (at, bytes) in Self::pieces(bytes) {
                self.0.inner().fill(Place::Device(DevicePtr(ptr.0 + at)), value, bytes, stream).unwrap();
            }
        }
    }
    fn order(&self, of: StreamId, by: StreamId) {
        self.0.inner().order_streams(of, by).unwrap();
    }
    fn observe(&self, stream: StreamId) {
        self.0.inner().synchronize_stream(stream).unwrap();
    }
    fn observe_all(&self) {
        self.0.inner().synchronize().unwrap();
    }
    fn verify(&self, stream: StreamId, ptr: DevicePtr, bytes: u64, value: u8) {
        self.0.inner().synchronize_stream(stream).unwrap();
        let mut found = vec![0; 64 << 10];
        for (at, bytes) in Self::pieces(bytes) {
            let found = &mut found[..bytes as usize];
            self.0.inner().read(Place::Device(DevicePtr(ptr.0 + at)), found).unwrap();
            let wrong = found.iter().position(|byte| *byte != value);
            assert_eq!(wrong, None, "a byte of the live block at {ptr} changed, {at} bytes in");
        }
    }
    fn taken_bytes(&self) -> u64 {
        let memory = self.0.inner().memory().unwrap();
        memory.total_bytes - memory.free_bytes
    }
    fn check(&self) {
        self.0.inner().check().unwrap();
    }
}
