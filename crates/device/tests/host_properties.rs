//! Whatever programs do on a host device, in any order and at any pace, bytes are those of the program's own order.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use device::{Access, Completion, Device, DevicePtr, EventId, HostDevice, HostOptions, Mapping, Place, StreamId};
use proptest::prelude::*;
use std::time::Duration;

const BUFFERS: usize = 6;
const STREAMS: usize = 4;
/// More than two pages of 4096 bytes.
const BYTES: usize = 10_000;

#[derive(Clone, Copy, Debug)]
enum Step {
    Fill {
        buffer: usize,
        from: usize,
        bytes: usize,
        value: u8,
    },
    Copy {
        to: usize,
        to_at: usize,
        from: usize,
        from_at: usize,
        bytes: usize,
    },
    /// The host looks at a buffer once its last work is done.
    Read {
        buffer: usize,
    },
    /// A buffer's stream goes, and another comes.
    Renew,
    /// A mapped buffer gets other addresses, once its work is done.
    Move {
        buffer: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let part = || (0..BYTES / 2, 1..=BYTES / 2);
    let step = prop_oneof![
        3 => (0..BUFFERS, part(), any::<u8>())
            .prop_map(|(buffer, (from, bytes), value)| Step::Fill { buffer, from, bytes, value }),
        6 => (0..BUFFERS, 1..BUFFERS, part(), 0..BYTES / 2).prop_map(|(to, other, (to_at, bytes), from_at)| {
            Step::Copy { to, to_at, from: (to + other) % BUFFERS, from_at, bytes }
        }),
        1 => (0..BUFFERS).prop_map(|buffer| Step::Read { buffer }),
        1 => Just(Step::Renew),
        1 => (0..BUFFERS).prop_map(|buffer| Step::Move { buffer }),
    ];
    proptest::collection::vec((0..STREAMS, step), 1..120)
}

fn pace() -> impl Strategy<Value = Completion> {
    prop_oneof![
        Just(Completion::Prompt),
        any::<u64>().prop_map(|seed| Completion::Late { longest: Duration::from_micros(300), seed }),
        Just(Completion::Manual),
    ]
}

struct Buffer {
    start: DevicePtr,
    mapping: Option<Mapping>,
    /// Of its last work, whose stream it was.
    event: EventId,
    expected: Vec<u8>,
}

struct Program {
    device: HostDevice,
    streams: Vec<StreamId>,
    buffers: Vec<Buffer>,
}

impl Program {
    fn new(completion: Completion) -> Program {
        let mut options = HostOptions::with_capacity(1 << 24);
        options.page_bytes = Some(4096);
        options.plain_granule_bytes = 4096;
        options.completion = completion;
        options.threads = 3;
        let device = HostDevice::new(options).unwrap();
        let streams = (0..STREAMS).map(|_| device.create_stream().unwrap()).collect();
        let mut program = Program { device, streams, buffers: Vec::new() };
        for index in 0..BUFFERS {
            let event = program.device.create_event().unwrap();
            let mapping = (index % 2 == 0).then(|| {
                let handle = program.device.vmm().unwrap().create_handles(3 * 4096, 1).unwrap()[0];
                Mapping { at: DevicePtr(0), handle, bytes: 3 * 4096 }
            });
            let start = if mapping.is_some() { DevicePtr(0) } else { program.device.alloc(BYTES as u64).unwrap() };
            program.buffers.push(Buffer { start, mapping, event, expected: vec![0; BYTES] });
            program.place(index);
        }
        program
    }

    /// Maps a mapped buffer somewhere.
    fn place(&mut self, buffer: usize) {
        let Some(mapping) = &mut self.buffers[buffer].mapping else { return };
        let vmm = self.device.vmm().unwrap();
        let range = vmm.reserve_range(mapping.bytes, 0).unwrap();
        mapping.at = range.start;
        vmm.map(&[*mapping]).unwrap();
        vmm.set_access(&[range], Access::ReadWrite).unwrap();
        self.buffers[buffer].start = range.start;
    }

    fn at(&self, buffer: usize, bytes: usize) -> Place {
        Place::Device(DevicePtr(self.buffers[buffer].start.0 + bytes as u64))
    }

    /// Work on buffers, ordered behind their last work.
    fn work(&self, stream: StreamId, buffers: &[usize], queue: impl FnOnce() -> device::Result<()>) {
        for &buffer in buffers {
            self.device.wait_event(stream, self.buffers[buffer].event).unwrap();
        }
        queue().unwrap();
        for &buffer in buffers {
            self.device.record_event(self.buffers[buffer].event, stream).unwrap();
        }
    }

    fn run(&mut self, stream: usize, step: Step) {
        let on = self.streams[stream];
        match step {
            Step::Fill { buffer, from, bytes, value } => {
                let to = self.at(buffer, from);
                self.work(on, &[buffer], || self.device.fill(to, value, bytes as u64, on));
                self.buffers[buffer].expected[from..from + bytes].fill(value);
            }
            Step::Copy { to, to_at, from, from_at, bytes } => {
                let (there, here) = (self.at(to, to_at), self.at(from, from_at));
                self.work(on, &[to, from], || self.device.copy(there, here, bytes as u64, on));
                let moved = self.buffers[from].expected[from_at..from_at + bytes].to_vec();
                self.buffers[to].expected[to_at..to_at + bytes].copy_from_slice(&moved);
            }
            Step::Read { buffer } => self.compare(buffer),
            Step::Renew => {
                self.device.destroy_stream(on).unwrap();
                self.streams[stream] = self.device.create_stream().unwrap();
            }
            Step::Move { buffer } => {
                let Some(mapping) = self.buffers[buffer].mapping else { return };
                self.device.synchronize_event(self.buffers[buffer].event).unwrap();
                let vmm = self.device.vmm().unwrap();
                vmm.unmap(&[mapping.range()]).unwrap();
                vmm.release_range(mapping.range()).unwrap();
                self.place(buffer);
            }
        }
    }

    fn compare(&self, buffer: usize) {
        self.device.synchronize_event(self.buffers[buffer].event).unwrap();
        let mut found = vec![0; BYTES];
        self.device.read(self.at(buffer, 0), &mut found).unwrap();
        let wrong = found.iter().zip(&self.buffers[buffer].expected).position(|(found, due)| found != due);
        assert_eq!(wrong, None, "in buffer {buffer}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn bytes_follow_the_order_of_streams_and_events(steps in steps(), pace in pace()) {
        let mut program = Program::new(pace);
        for (stream, step) in steps {
            program.run(stream, step);
            program.device.check().unwrap();
        }
        for buffer in 0..BUFFERS {
            program.compare(buffer);
        }
        program.device.synchronize().unwrap();
        program.device.check().unwrap();
    }
}

#[test]
fn many_programs_on_one_machine_do_not_disturb_each_other() {
    // Each thread's device has threads of its own; all streams of one device are used from four threads at once.
    let mut options = HostOptions::with_capacity(1 << 28);
    options.completion = Completion::Late { longest: Duration::from_micros(50), seed: 11 };
    let device = HostDevice::new(options).unwrap();
    let chain = 200u64;
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let device = &device;
            scope.spawn(move || {
                let streams = [device.create_stream().unwrap(), device.create_stream().unwrap()];
                let block = device.alloc(4096 * (chain + 1)).unwrap();
                let place = |index: u64| Place::Device(DevicePtr(block.0 + index * 4096));
                device.write(place(0), &[thread + 1; 4096]).unwrap();
                // A page is handed on from stream to stream, each ordered behind the other.
                for index in 0..chain {
                    let (on, next) = (streams[index as usize % 2], streams[(index as usize + 1) % 2]);
                    device.copy(place(index + 1), place(index), 4096, on).unwrap();
                    device.order_streams(on, next).unwrap();
                }
                device.synchronize_stream(streams[chain as usize % 2]).unwrap();
                let mut found = vec![0; 4096];
                device.read(place(chain), &mut found).unwrap();
                assert_eq!(found, vec![thread + 1; 4096]);
            });
        }
    });
    device.check().unwrap();
}
