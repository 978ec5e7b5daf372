//! `gpumem diff`: what grew between two runs.

mod facts;
mod text;

use clap::ValueEnum;

use crate::answer::{answer, check_json};
use crate::args::DiffArgs;
use crate::diff::facts::Difference;
use crate::failure::Failure;
use crate::progress::Spinner;
use crate::recording;

/// Which moments are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum At {
    /// When most bytes were live.
    Peak,
    /// After the last event.
    End,
}

/// Runs the command.
pub(crate) fn run(args: &DiffArgs) -> Result<(), Failure> {
    check_json(args.json.as_deref(), &[&args.before, &args.after])?;
    let spinner = Spinner::new(true);
    let before = recording::open(&args.before, None, &spinner)?;
    let after = recording::open(&args.after, None, &spinner)?;
    spinner.say("comparing");
    let sides = [(&before, before.device(args.device)?), (&after, after.device(args.device)?)];
    let difference = Difference::new(sides, args.at);
    drop(spinner);
    answer(args.json.as_deref(), &difference, |out| text::write(&difference, out))
}
