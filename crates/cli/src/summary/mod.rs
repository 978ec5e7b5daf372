//! `gpumem summary`: a run on one screen.

mod facts;
mod text;

use crate::answer::{answer, check_json};
use crate::args::SummaryArgs;
use crate::failure::Failure;
use crate::progress::Spinner;
use crate::recording;
use crate::summary::facts::Summary;

/// Runs the command.
pub(crate) fn run(args: &SummaryArgs) -> Result<(), Failure> {
    check_json(args.json.as_deref(), &[&args.file])?;
    let spinner = Spinner::new(true);
    let recording = recording::open(&args.file, None, &spinner)?;
    let device = recording.device_that_failed(args.device)?;
    spinner.say("walking over the events");
    let summary = Summary::new(&recording, device);
    drop(spinner);
    answer(args.json.as_deref(), &summary, |out| text::write(&summary, out))
}
