//! What a person can do about it, what helps most first.

use serde::Serialize;

use super::facts::Facts;
use super::policies::{Trial, Trials};
use super::verdict::{Cause, Verdict};
use crate::report::{count, cut, percent, size};

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Advice {
    /// What, and what speaks for it.
    pub(super) text: String,
    /// Whether a replay shows that it is enough.
    pub(super) is_shown_to_pass: bool,
}

/// All that makes sense after this verdict.
pub(super) fn advise(facts: &Facts, verdict: &Verdict, trials: &Trials) -> Vec<Advice> {
    let mut advice = Vec::new();
    let mut say = |text: String, is_shown_to_pass| advice.push(Advice { text, is_shown_to_pass });
    let cause = verdict.cause;
    if cause == Cause::Passed {
        say("Nothing: it passed. A smaller --capacity shows where it would have failed.".to_owned(), false);
        return advice;
    }
    // One line for each kind of setting: the value that needs least, and the others that pass.
    let mut families: Vec<(&str, Vec<&Trial>)> = Vec::new();
    for trial in trials.helpful() {
        let family = family(trial);
        match families.iter_mut().find(|(known, _)| *known == family) {
            Some((_, members)) => members.push(trial),
            None => families.push((family, vec![trial])),
        }
    }
    for (_, members) in &families {
        let Some((best, others)) = members.split_first() else { continue };
        let value = |trial: &Trial| trial.name.rsplit(':').next().unwrap_or_default().to_owned();
        let others: Vec<String> = others.iter().map(|trial| value(trial)).collect();
        let others = if others.is_empty() { String::new() } else { format!(" ({} pass too)", others.join(", ")) };
        let how = best.how.as_deref().unwrap_or_default();
        let least = match best.min_capacity_bytes {
            Some(bytes) => format!("would still with {}", size(bytes)),
            None => format!("reserves {} at most", size(best.peak_reserved_bytes)),
        };
        say(format!("{how}{others}: the replay passes, and {least}."), true);
    }
    if cause.is_about_places() {
        let mut told: Vec<&str> = Vec::new();
        for (trial, less) in trials.thriftier() {
            let needs = trial.min_capacity_bytes.unwrap_or_default();
            let how = trial.how.as_deref().unwrap_or_default();
            if !told.contains(&family(trial)) {
                told.push(family(trial));
                let (needs, less) = (size(needs), size(less));
                say(format!("{how}: in the replays {needs} are enough, {less} less than as recorded."), false);
            }
        }
    }
    match cause {
        Cause::TooBig => less_memory(facts, verdict, &mut say),
        Cause::OutsideMemory => {
            say(
                format!(
                    "Free what others hold on the device ({}): look for other processes (nvidia-smi), a second \
                     framework in this process, and buffers of communication libraries.",
                    size(facts.limit.outside_bytes.unwrap_or(0))
                ),
                false,
            );
            less_memory(facts, verdict, &mut say);
        }
        Cause::PendingFrees => {
            say(
                "Let streams finish before memory runs short: a synchronize of the stream that uses the blocks before \
                 this request lets them be handed out again."
                    .to_owned(),
                false,
            );
            say(
                "Keep tensors alive until the other stream is waited for, in place of record_stream \
                 (TORCH_NCCL_AVOID_RECORD_STREAMS=1 where collectives cause it): then they are free at once."
                    .to_owned(),
                false,
            );
        }
        Cause::OtherStreams => say(
            "Allocate on one stream what is used one after the other: what one stream frees is not handed to another. \
             Set-up on a side stream should give its memory back (torch.cuda.empty_cache) before the main work."
                .to_owned(),
            false,
        ),
        Cause::PrivatePools => say(
            "Let captured graphs share one pool, and drop graphs that are no longer launched: their pools keep what \
             they hold."
                .to_owned(),
            false,
        ),
        Cause::Fragmentation => pins(facts, &mut say),
        Cause::Unexplained => say(
            "See whether a limit was set for the process (set_per_process_memory_fraction), and whether other devices \
             of the file ran out: --device N."
                .to_owned(),
            false,
        ),
        Cause::HeldMore | Cause::Passed => {}
    }
    if matches!(cause, Cause::Fragmentation | Cause::OtherStreams | Cause::PendingFrees) && trials.helpful().is_empty()
    {
        less_memory(facts, verdict, &mut say);
    }
    advice
}

/// What kind of setting it is: one may have several values.
fn family(trial: &Trial) -> &str {
    trial.name.split(':').next().unwrap_or_default()
}

fn less_memory(facts: &Facts, verdict: &Verdict, say: &mut impl FnMut(String, bool)) {
    if verdict.short_bytes > 0 && facts.limit.source != "reserved_before" {
        let share = percent(verdict.short_bytes, facts.needed_bytes);
        say(
            format!(
                "Need less: at least {} less ({share} of what was needed) at this moment, by a smaller batch, \
                 recomputation, lower precision, sharding or offload.",
                size(verdict.short_bytes)
            ),
            false,
        );
    }
    if let Some(holder) = facts.by_stack.first().filter(|holder| holder.share >= 0.1) {
        let share = percent(holder.bytes, facts.sums.live_bytes);
        let label = cut(&holder.label.line(), 120);
        say(
            format!("Look at the largest holder first: {} ({share} of what is live) from {label}.", size(holder.bytes)),
            false,
        );
    }
}

fn pins(facts: &Facts, say: &mut impl FnMut(String, bool)) {
    let in_the_way = [
        facts.window.as_ref().map(|window| (window.blocked_bytes, window.blocks, &window.largest)),
        facts.release.as_ref().map(|release| (release.blocked_bytes, release.blocks, &release.largest)),
    ];
    let least =
        in_the_way.into_iter().flatten().filter(|(_, blocks, _)| *blocks > 0).min_by_key(|(bytes, _, _)| *bytes);
    let Some((bytes, blocks, largest)) = least else { return };
    let Some(block) = largest.first() else { return };
    let origin = match block.has_origin() {
        true => format!(" The largest is from {}.", cut(&block.origin(), 120)),
        false => String::new(),
    };
    say(
        format!(
            "Make what lasts before what comes and goes, or free it earlier: {} of {} in the wrong place {} enough to \
             {} this request.{origin}",
            count(blocks, "block"),
            size(bytes),
            if blocks == 1 { "is" } else { "are" },
            if facts.limit.source == "reserved_before" { "take more memory for" } else { "fail" }
        ),
        false,
    );
}
