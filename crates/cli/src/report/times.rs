//! When something was: event, time since the first event, step.

use std::fmt;
use std::time::Duration;

use records::{StepFigures, StepSource, Steps};
use serde::Serialize;

use crate::quantity::{Grouped, Took};

/// A moment of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct When {
    /// How many events had been played.
    pub(crate) event: u64,
    /// Time as the file has it, in ns; absent if the file has none.
    pub(crate) time_ns: Option<u64>,
    /// Time since the first event, in ns.
    pub(crate) since_start_ns: Option<u64>,
    /// Number of the marked step it fell in; absent where there are none.
    pub(crate) step: Option<u64>,
    /// Where no steps are marked: number of the repetition it fell in, from 1 up.
    pub(crate) repetition: Option<u64>,
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.event {
            0 => write!(f, "at the start")?,
            // The last one played, numbered from 0 as on the page, in tables and for --from.
            played => write!(f, "event {}", Grouped(played - 1))?,
        }
        if let Some(ns) = self.since_start_ns.filter(|_| self.event > 0) {
            write!(f, ", {}", Took(Duration::from_nanos(ns)))?;
        }
        match (self.step, self.repetition) {
            (Some(step), _) => write!(f, ", step {step}"),
            (None, Some(repetition)) => write!(f, ", repetition {repetition}"),
            (None, None) => Ok(()),
        }
    }
}

/// Tells moments of one recording.
pub(crate) struct Clock<'a> {
    first_ns: Option<u64>,
    steps: &'a [StepFigures],
    are_marked: bool,
}

impl<'a> Clock<'a> {
    /// For a recording whose first event has this time, and which has these steps.
    pub(crate) fn new(first_ns: Option<u64>, steps: Option<&'a Steps>) -> Self {
        let are_marked =
            steps.is_some_and(|steps| matches!(steps.source, StepSource::Events | StepSource::Annotations));
        Self { first_ns, steps: steps.map_or(&[], |steps| &steps.steps), are_marked }
    }

    /// The moment after so many events, whose time is `time_ns` (0 if not known).
    pub(crate) fn when(&self, event: u64, time_ns: u64) -> When {
        let time_ns = Some(time_ns).filter(|ns| *ns != 0);
        let since_start_ns = time_ns.zip(self.first_ns).map(|(ns, first)| ns.saturating_sub(first));
        let number = event.checked_sub(1).and_then(|index| self.step_of(index));
        let (step, repetition) = if self.are_marked { (number, None) } else { (None, number) };
        When { event, time_ns, since_start_ns, step, repetition }
    }

    /// Number of the step that the event with this number (from 0 up) belongs to.
    fn step_of(&self, index: u64) -> Option<u64> {
        let after = self.steps.partition_point(|step| step.start <= index);
        let step = self.steps.get(after.checked_sub(1)?)?;
        (index < step.end).then_some(step.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_by_the_event_before_it_numbered_from_0() {
        let at = |event| When { event, since_start_ns: Some(2_000_000), ..When::default() };
        assert_eq!(at(0).to_string(), "at the start");
        assert_eq!(at(1).to_string(), "event 0, 2.0 ms");
        assert_eq!(When { step: Some(6), ..at(20_967) }.to_string(), "event 20 966, 2.0 ms, step 6");
    }
}
