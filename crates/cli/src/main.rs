//! The `gpumem` command: plans graphs, checks plans, converts files, replays traces,
//! explains recorded runs.
//!
//! Nothing imports it. It parses arguments, calls the crates and puts their answers into words; what it prints on
//! standard output is the answer, everything else goes to standard error. Exit codes: 0 done, 1 the answer is no, 2 bad
//! input, 3 an error of gpumem itself.

#![forbid(unsafe_code)]

mod answer;
mod args;
mod convert;
mod diff;
mod explain_oom;
mod failure;
mod load;
mod memviz;
mod plan;
mod progress;
mod quantity;
mod recording;
mod replay;
mod report;
mod summary;
mod tame;
mod targets;
mod verify;
mod words;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::failure::Failure;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        // Clap prints help and version as well; only the rest is a mistake.
        Err(error) => {
            let code = if error.use_stderr() { 2 } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    // The planner must not panic; if it does, scripts still get the exit code that says whose fault it was.
    let outcome = std::panic::catch_unwind(|| run(args));
    match outcome {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => failure.report(),
        Err(_) => Failure::internal("panicked; please report this with the input".to_owned()).report(),
    }
}

fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Plan(args) => plan::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Summary(args) => summary::run(&args),
        Command::ExplainOom(args) => explain_oom::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Memviz(args) => memviz::run(&args),
    }
}
