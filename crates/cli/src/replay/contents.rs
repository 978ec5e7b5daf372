//! `gpumem replay --contents`: the trace on real memory, with every block's bytes checked.

use std::io::{self, Write};

use lifetime::Bytes;
use replay::{ContentSettings, GpumemSettings, Program, check_contents};

use super::ReplayArgs;
use crate::failure::Failure;
use crate::progress::Bar;
use crate::tame::Tame;

pub(super) fn run(args: &ReplayArgs, program: &Program<'_>) -> Result<(), Failure> {
    let mut settings = ContentSettings::default();
    settings.scale = args.scale;
    settings.capacity_bytes =
        args.capacity.map(|capacity| capacity.bytes(program.peak_live_bytes()).div_ceil(args.scale));
    settings.gpumem = GpumemSettings {
        hand_over: args.hand_over,
        backing: args.backing,
        hard_bytes: args.hard_budget.map(|size| size.0.div_ceil(args.scale)),
        soft_bytes: args.soft_budget.map(|size| size.0.div_ceil(args.scale)),
        ..GpumemSettings::default()
    };
    let bar = Bar::new(!args.quiet, program.row_count() as u64, "replaying");
    let outcome = check_contents(program, &settings, &mut |done| bar.set(done))
        .map_err(|error| Failure::from(error).in_file(&args.trace))?;
    drop(bar);
    if let Some((row, what)) = outcome.failed {
        return Err(Failure::no(format!("row {row}: {what}")));
    }
    if !args.quiet {
        let mut out = Tame(io::stdout().lock());
        writeln!(
            out,
            "{}: {} blocks held their own bytes at {} places; peak live {}, reserved {}{}",
            args.trace.display(),
            outcome.blocks,
            outcome.places,
            Bytes(outcome.peak_live_bytes),
            Bytes(outcome.peak_reserved_bytes),
            if args.scale > 1 { format!(" (sizes divided by {})", args.scale) } else { String::new() },
        )?;
    }
    Ok(())
}
