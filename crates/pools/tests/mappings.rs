//! A process that has as many mappings as the system allows it. In a program of its own, since its threads share them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::result_large_err)]

use std::sync::Arc;

use device::{HostDevice, HostOptions, StreamId};
use pools::{Allocator, Backing, Error, Settings};

const SEGMENT: u64 = 64 << 10;

#[test]
fn too_many_mappings_are_a_typed_error_that_names_the_limit_and_what_was_there_goes_on() {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    let Some(limit) = text.trim().parse::<u64>().ok().filter(|limit| *limit <= 100_000) else {
        println!("not run: vm.max_map_count is beyond what a test can use up");
        return;
    };
    let mut options = HostOptions::with_capacity(1 << 40);
    options.plain_granule_bytes = SEGMENT;
    let host = Arc::new(HostDevice::new(options).unwrap());
    let mut settings = Settings::default();
    (settings.backing, settings.segment_bytes, settings.magazines) = (Backing::Segments, SEGMENT, false);
    let pools = Allocator::new(host.clone(), settings).unwrap();
    let is_typed = |error: &Error| {
        let Error::Device(device::Error::OutOfMemory { total_bytes: 0, .. }) = error else { return false };
        error.to_string().contains("vm.max_map_count")
    };
    // The system joins neighbouring mappings: holes between them are what makes them many.
    let mut blocks = Vec::new();
    let mut refused = None;
    while refused.is_none() && (blocks.len() as u64) < 2 * limit + 100 {
        match pools.alloc(SEGMENT, 0, StreamId::DEFAULT) {
            Ok(ptr) => blocks.push(ptr),
            Err(error) => refused = Some(error),
        }
    }
    blocks.sort_unstable();
    let (freed, kept): (Vec<_>, Vec<_>) = blocks.iter().enumerate().partition(|(number, _)| number % 2 == 1);
    for (_, ptr) in freed {
        pools.free(*ptr, None).unwrap();
    }
    let refused = refused.or_else(|| pools.trim(0).err()).expect("the limit was reached");
    println!("{} segments, limit {limit}: {refused}", blocks.len());
    assert!(is_typed(&refused), "{refused:?}");
    pools.check().unwrap();
    let memory = device::Device::memory(&*host).unwrap();
    assert_eq!(pools.statistics().reserved.current_bytes, memory.total_bytes - memory.free_bytes);
    // What is held can be used.
    let ptr = pools.alloc(1000, 0, StreamId::DEFAULT).unwrap();
    pools.free(ptr, None).unwrap();
    for (_, ptr) in kept {
        pools.free(*ptr, None).unwrap();
    }
    pools.check().unwrap();
}
