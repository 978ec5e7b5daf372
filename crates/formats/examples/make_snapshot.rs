//! Writes the memory snapshot of a made-up training run, of any length and the same for the same seed:
//! `cargo run --release -p formats --example make_snapshot -- OUT.pickle[.gz] [EVENTS [SEED]]`

#[path = "../tests/support/training_run.rs"]
mod training_run;

use std::error::Error;

use formats::{Output, write_snapshot};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: make_snapshot OUT.pickle[.gz] [EVENTS [SEED]]")?;
    let events = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let seed = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let history = training_run::training_run(events, seed);
    let mut out = Output::create(&path)?;
    write_snapshot(&history, &mut out)?;
    out.finish()?;
    println!("{path}: {} events", history.devices.iter().map(|device| device.events.len()).sum::<usize>());
    Ok(())
}
