//! Why a picture could not be made.

use std::io;

use lifetime::{Bytes, HalfStep, Offset};

/// What stood in the way of a picture. Nothing useful has been written when one is returned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Invalid input: a buffer dies before or when it is born.
    #[error(
        "cannot draw buffer {buffer:?}: it is born at {} and dies at {}; a live range needs at least one moment",
        birth.0, death.0
    )]
    EmptyLiveRange {
        /// Identifier of the buffer, cut to a readable length.
        buffer: String,
        /// When it is said to be born.
        birth: HalfStep,
        /// When it is said to die.
        death: HalfStep,
    },
    /// Invalid input: the end of a buffer doesn't fit 64 bits.
    #[error("cannot draw buffer {buffer:?}: offset {} plus {} bytes goes past 2^64", offset.0, bytes.0)]
    EndOverflow {
        /// Identifier of the buffer, cut to a readable length.
        buffer: String,
        /// Where it lies.
        offset: Offset,
        /// How many bytes it needs.
        bytes: Bytes,
    },
    /// Unsupported: more buffers than a page can index.
    #[error("cannot draw {count} buffers; the most a picture takes is {limit}")]
    TooManyBuffers {
        /// Buffers in the plan.
        count: usize,
        /// The most that can be drawn.
        limit: usize,
    },
    /// Invalid input: a device was asked for that the history doesn't have.
    #[error("cannot draw device {device}: the history has {}", listed(devices))]
    NoSuchDevice {
        /// The device asked for.
        device: u32,
        /// The devices there are.
        devices: Vec<u32>,
    },
    /// Invalid input: the events or steps asked for are none of those there are.
    #[error(
        "nothing lies {}: there are {events} events and {step_count} step marks",
        wanted(*from, *to, *steps)
    )]
    NothingInRange {
        /// First event asked for.
        from: Option<u64>,
        /// Event after the last asked for.
        to: Option<u64>,
        /// First and last step asked for.
        steps: Option<(u64, u64)>,
        /// Most events of a device.
        events: u64,
        /// Most step marks of a device.
        step_count: u64,
    },
    /// Unsupported: more events than a picture takes.
    #[error("cannot draw {events} events; the most a picture takes is {limit}: choose a part by events or steps")]
    TooManyEvents {
        /// Events to be drawn.
        events: u64,
        /// The most that can be drawn.
        limit: u64,
    },
    /// Invalid input: a picture too small to read or too large to hold.
    #[error(
        "cannot draw a picture of {width} x {height} pixels at scale {scale}; width must be {min_width} to {max_side}, \
         height {min_height} to {max_side}, scale 1 to {max_scale}"
    )]
    Size {
        /// Width asked for.
        width: u32,
        /// Height asked for.
        height: u32,
        /// Scale asked for.
        scale: u32,
        /// Smallest width.
        min_width: u32,
        /// Smallest height.
        min_height: u32,
        /// Largest width and height.
        max_side: u32,
        /// Largest scale.
        max_scale: u32,
    },
    /// I/O: the picture could not be written.
    #[error("cannot write the picture: {0}")]
    Write(#[from] io::Error),
    /// Out of memory: no room for the pixels of a PNG.
    #[error("cannot draw a PNG of {width} x {height} pixels: no memory for {} bytes", u64::from(*width) * u64::from(*height) * 4)]
    Pixels {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// Internal: an invariant of this crate broke.
    #[error("internal error while drawing: {what}")]
    Internal {
        /// The invariant.
        what: &'static str,
    },
}

fn listed(devices: &[u32]) -> String {
    match devices {
        [] => "none".to_owned(),
        some => some.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn wanted(from: Option<u64>, to: Option<u64>, steps: Option<(u64, u64)>) -> String {
    let events = match (from, to) {
        (None, None) => None,
        (from, None) => Some(format!("at event {} or later", from.unwrap_or(0))),
        (from, Some(to)) => Some(format!("from event {} up to {to}", from.unwrap_or(0))),
    };
    let steps = steps.map(|(first, last)| format!("in steps {first} to {last}"));
    [events, steps].into_iter().flatten().collect::<Vec<_>>().join(" and ")
}
