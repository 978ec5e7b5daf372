//! Which kind of death it was.

use serde::Serialize;

use super::facts::{Facts, segment_for};
use crate::quantity::Grouped;
use crate::recording::StatedFailures;
use crate::report::{count, size, size_exact};

/// Why a request couldn't be served, or nearly couldn't.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// It was served, and there was room.
    Passed,
    /// Nothing failed in the recording, but all of it held more than the capacity asked about.
    HeldMore,
    /// More is live at once than there is.
    TooBig,
    /// It would fit if others on the device held less.
    OutsideMemory,
    /// It would fit if what was dropped weren't still held by streams.
    PendingFrees,
    /// Enough is free in segments for this stream, in pieces.
    Fragmentation,
    /// Enough is free only with what lies in segments of other streams.
    OtherStreams,
    /// Enough is free only with what lies in private pools.
    PrivatePools,
    /// By these figures it should have been served.
    Unexplained,
}

impl Cause {
    /// Whether it matters which blocks lie where.
    pub(super) fn is_about_places(self) -> bool {
        !matches!(self, Self::Passed | Self::HeldMore | Self::TooBig | Self::OutsideMemory)
    }
}

/// The verdict, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Verdict {
    pub(super) cause: Cause,
    /// Bytes missing even for an allocator without any waste.
    pub(super) short_bytes: u64,
    pub(super) headline: String,
    pub(super) sentences: Vec<String>,
}

/// Judges by figures alone.
pub(super) fn cause(facts: &Facts) -> Cause {
    let (sums, limit, idle) = (&facts.sums, &facts.limit, &facts.idle);
    let rounded = facts.request.rounded_bytes;
    let has_failed = matches!(facts.request.why, "failed" | "over_capacity");
    if facts.has_passed() {
        return Cause::Passed;
    }
    let needed = facts.needed_bytes;
    if needed > limit.bytes {
        let with_outside = limit.bytes.saturating_add(limit.outside_bytes.unwrap_or(0));
        return if needed <= with_outside { Cause::OutsideMemory } else { Cause::TooBig };
    }
    if !has_failed && limit.source != "reserved_before" {
        return Cause::HeldMore;
    }
    if needed.saturating_add(sums.pending_bytes) > limit.bytes {
        return Cause::PendingFrees;
    }
    // Bytes the device has once empty segments are given back to it.
    let device = limit.device_free_bytes.saturating_add(idle.whole_segments_bytes);
    if has_failed && (idle.own_largest_bytes >= rounded || device >= segment_for(rounded)) {
        return Cause::Unexplained;
    }
    let own = idle.own_bytes.saturating_add(device);
    let streams = own.saturating_add(idle.other_streams_bytes);
    let pools = streams.saturating_add(idle.private_pools_bytes);
    match rounded {
        _ if own >= rounded => Cause::Fragmentation,
        _ if streams >= rounded => Cause::OtherStreams,
        _ if pools >= rounded => Cause::PrivatePools,
        _ => Cause::Fragmentation,
    }
}

impl Verdict {
    /// Puts the cause into words.
    pub(super) fn new(facts: &Facts) -> Self {
        let cause = cause(facts);
        let short_bytes = facts.needed_bytes.saturating_sub(facts.limit.bytes);
        let has_failed = facts.request.why == "failed";
        let sentences = sentences(cause, facts);
        Self { cause, short_bytes, headline: headline(cause, facts, has_failed), sentences }
    }

    /// Says that the file knows of failures that a replay without a limit can't show.
    pub(super) fn say_what_is_stated(&mut self, stated: &StatedFailures) {
        let (count, last) = match stated.count {
            1 => ("1 request".to_owned(), ", of"),
            several => (format!("{} requests", Grouped(several)), ", the last of"),
        };
        let rest = format!("{last} {} on stream {}", size(stated.last_bytes), stated.last_stream);
        let text = format!(
            "The file says that {count} failed{rest}, but not what the device had. Below nothing fails, for a replay has \
             no limit: --capacity SIZE gives it one, and explains that request."
        );
        self.headline = self.headline.replacen("Nothing failed. ", "", 1);
        self.sentences.insert(0, text);
    }
}

fn headline(cause: Cause, facts: &Facts, has_failed: bool) -> String {
    let (limit, needed) = (size(facts.limit.bytes), size(facts.needed_bytes));
    let asked = size(facts.request.bytes);
    let unused = size(facts.unused_bytes());
    let is_growth = facts.limit.source == "reserved_before";
    match cause {
        Cause::Passed if facts.is_without_segments() => format!(
            "Nothing failed. The request that took most in use, of {asked}, made it {needed}; the file doesn't say in \
             which segments, so nothing is known of what was reserved."
        ),
        Cause::Passed if is_growth => format!(
            "Nothing failed, and nothing more had to be reserved. The request that took most in use, of {asked}, was \
             served from the {limit} held; {} of them stayed unused.",
            size(facts.limit.bytes.saturating_sub(facts.sums.active_bytes.saturating_add(facts.request.rounded_bytes)))
        ),
        Cause::Passed => {
            let left = size(facts.limit.bytes.saturating_sub(facts.sums.reserved_after_bytes));
            format!("Nothing failed. The tightest request, of {asked}, left {left} of {limit} unreserved.")
        }
        Cause::HeldMore => format!(
            "Nothing failed, but the recorded run held {} from before the record on, more than {limit}. What it needed \
             at this request, {needed}, would fit.",
            size(facts.sums.reserved_bytes)
        ),
        Cause::TooBig if is_growth => format!(
            "Nothing failed. The tightest request, of {asked}, needed more memory: {needed} in use, {limit} held before."
        ),
        _ if is_growth => format!(
            "Nothing failed. The tightest request, of {asked}, made the allocator take more memory though {unused} \
             of what it held were unused."
        ),
        Cause::TooBig => {
            format!("Too big: {needed} were needed at once, and the allocator could have {limit} at most.")
        }
        Cause::OutsideMemory => format!(
            "Others were on the device: {needed} were needed, {limit} could be had, and {} were held by others.",
            size(facts.limit.outside_bytes.unwrap_or(0))
        ),
        Cause::PendingFrees => format!(
            "Freed too late: {} had been freed by the program, but streams could still be using them.",
            size(facts.sums.pending_bytes)
        ),
        Cause::Fragmentation => {
            format!("Fragmentation: {asked} were asked for and {unused} were unused, but not in one piece.")
        }
        Cause::OtherStreams => format!(
            "Kept for other streams: {asked} were asked for on stream {}, and {unused} were unused, most of them where \
             only other streams may use them.",
            facts.request.stream
        ),
        Cause::PrivatePools => format!(
            "Kept in private pools: {asked} were asked for and {unused} were unused, most of them in pools of graphs."
        ),
        Cause::Unexplained => format!(
            "{} by these figures: {asked} were asked for, and there was a way to serve it.",
            if has_failed { "Not explained" } else { "No reason to fail" }
        ),
    }
}

fn sentences(cause: Cause, facts: &Facts) -> Vec<String> {
    let (sums, idle, limit) = (&facts.sums, &facts.idle, &facts.limit);
    let mut told = Vec::new();
    let mut say = |text: String| told.push(text);
    if facts.request.why == "over_capacity" {
        say(format!(
            "Nothing failed in the recording; with {} this request would be the first to fail.",
            size(limit.bytes)
        ));
    }
    let pieces = format!(
        "{} idle bytes lie in {}; the largest that this request may use has {}.",
        size(idle.bytes),
        count(idle.pieces, "piece"),
        size(idle.own_largest_bytes)
    );
    let perfect = format!(
        "An allocator without any waste would have needed {}, {} less than the limit.",
        size_exact(facts.needed_bytes),
        size(limit.bytes.saturating_sub(facts.needed_bytes))
    );
    match cause {
        Cause::Passed => {
            say(format!(
                "Up to here an allocator without any waste would have needed {}.",
                size_exact(facts.perfect_bytes)
            ));
            if limit.source == "reserved_before" {
                say("No limit is known; --capacity SIZE says whether it would have fitted a device.".to_owned());
            }
        }
        Cause::HeldMore => say("Whether an allocator gets there, the replays below say.".to_owned()),
        Cause::TooBig if limit.source == "reserved_before" => {
            say("No limit is known; --capacity SIZE says whether it would have fitted a device.".to_owned());
        }
        Cause::TooBig => {
            let short = facts.needed_bytes.saturating_sub(limit.bytes);
            say(format!(
                "No allocator can serve this request: {} were in use (after rounding) when {} more were asked for. It \
                 is short by {}.",
                size(sums.allocated_bytes),
                size(facts.request.bytes),
                size_exact(short)
            ));
            if let Some(outside) = limit.outside_bytes.filter(|outside| *outside > limit.bytes / 10) {
                let least = if limit.is_device_stated { "" } else { "at least " };
                say(format!("Others on the device held {least}{} as well.", size(outside)));
            }
        }
        Cause::OutsideMemory => {
            say(format!(
                "The device has {}, this allocator held {} and {} were left: the rest belongs to other processes, the \
                 driver's context, libraries or another allocator in this process.",
                limit.device_bytes.map(size).unwrap_or_default(),
                size(sums.reserved_bytes),
                size(limit.device_free_bytes)
            ));
        }
        Cause::PendingFrees => {
            let streams: Vec<String> = (facts.pending_by_stream.iter())
                .map(|(stream, bytes)| format!("{} handed out on stream {stream}", size(*bytes)))
                .collect();
            say(format!("They are {}.", streams.join(", ")));
            say("A block that another stream used is held until the allocator sees that stream finish.".to_owned());
            say(perfect);
        }
        Cause::Fragmentation => {
            say(pieces);
            say(perfect);
        }
        Cause::OtherStreams => {
            say(format!(
                "{} idle bytes lie in segments of other streams, {} in segments of stream {}. A block freed on one \
                 stream is not handed to another.",
                size(idle.other_streams_bytes),
                size(idle.own_bytes),
                facts.request.stream
            ));
            say(perfect);
        }
        Cause::PrivatePools => {
            say(format!(
                "{} idle bytes lie in private pools, which serve captured graphs only.",
                size(idle.private_pools_bytes)
            ));
            say(perfect);
        }
        Cause::Unexplained => {
            say(pieces);
            say(format!(
                "{} could be had from the device once empty segments are given back. A limit that the file doesn't \
                 state (a memory fraction, a private pool), or figures of another moment, would explain it.",
                size(limit.device_free_bytes.saturating_add(idle.whole_segments_bytes))
            ));
        }
    }
    told
}
