//! `gpumem explain-oom`: why a request failed, and what would have helped.

mod advice;
mod facts;
mod policies;
mod requests;
mod text;
mod verdict;

use records::{find_steps, tightest_request};
use serde::Serialize;

use crate::answer::{answer, check_json};
use crate::args::ExplainOomArgs;
use crate::explain_oom::advice::{Advice, advise};
use crate::explain_oom::facts::{Facts, Stated};
use crate::explain_oom::policies::Trials;
use crate::explain_oom::verdict::Verdict;
use crate::failure::Failure;
use crate::progress::Spinner;
use crate::recording::{self, Input, Modelled};
use crate::report::{Clock, Labels};

/// Everything that is told.
#[derive(Debug, Serialize)]
pub(crate) struct Explanation {
    format: &'static str,
    name: String,
    input: Input,
    allocator: String,
    modelled: Option<Modelled>,
    device: u32,
    /// How many devices the file is about.
    #[serde(skip)]
    devices: u64,
    verdict: Verdict,
    #[serde(flatten)]
    facts: Facts,
    trials: Trials,
    advice: Vec<Advice>,
    inconsistencies: u64,
}

/// Runs the command.
pub(crate) fn run(args: &ExplainOomArgs) -> Result<(), Failure> {
    check_json(args.json.as_deref(), &[&args.file])?;
    let capacity = args.capacity.map(|size| size.0);
    let spinner = Spinner::new(true);
    let recording = recording::open(&args.file, capacity, &spinner)?;
    let device = recording.device_that_failed(args.device)?;
    spinner.say("looking for the request");
    let Some(request) = tightest_request(device, capacity.or(device.capacity_bytes)) else {
        let path = args.file.display();
        return Err(Failure::input(format!(
            "{path}: device {}: nothing was asked for, so nothing can have failed",
            device.device
        )));
    };
    let history = &recording.history;
    let labels = Labels::from(history);
    let steps = find_steps(device, &history.annotations, &history.names);
    let first_ns = device.events.iter().map(|event| event.time_ns).filter(|ns| *ns != 0).min();
    let clock = Clock::new(first_ns, steps.as_ref());
    let facts = Facts::new(device, &request, Stated { capacity }, &labels, &clock);
    let mut verdict = Verdict::new(&facts);
    let stated_failures = recording.stated_failures(device.device);
    // With a capacity they were asked for again, and there are none.
    if stated_failures.count > 0 {
        verdict.say_what_is_stated(&stated_failures);
    }
    let trials = match args.no_replay {
        true => Trials::not_run("not asked for"),
        false => policies::try_all(&recording, device, &request, &facts, &spinner),
    };
    spinner.say("done");
    let explanation = Explanation {
        format: "gpumem-explain-oom/1",
        name: history.name.clone(),
        input: recording.input.clone(),
        allocator: history.allocator.clone(),
        modelled: recording.modelled.clone(),
        device: device.device,
        devices: history.devices.len() as u64,
        advice: advise(&facts, &verdict, &trials),
        verdict,
        facts,
        trials,
        inconsistencies: device.defects.total(),
    };
    drop(spinner);
    answer(args.json.as_deref(), &explanation, |out| text::write(&explanation, out))
}
