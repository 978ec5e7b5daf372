//! Long random programs.

use pools::{Backing, Error, HandOver, Settings};

use crate::machine::{Host, Machine, Sim};
use crate::program::{MIB, Program, Random, seed};

/// Steps, by `GPUMEM_SOAK_STEPS` or so many.
fn steps(usual: u64) -> u64 {
    std::env::var("GPUMEM_SOAK_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn soak(machine: &dyn Machine, settings: &Settings, seed: u64, steps: u64, check_every: u64) {
    let mut program = Program::new(machine, settings.clone(), seed, 24 * MIB).unwrap().with_many_streams();
    for step in 0..steps {
        match program.step() {
            Ok(()) | Err(Error::OutOfMemory(_)) => {}
            Err(error) => panic!("step {step}: {error}"),
        }
        if step % check_every == 0 {
            program.check();
        }
    }
    program.end();
}

fn vary(seed: u64, round: u64) -> Settings {
    let mut random = Random::new(seed + round);
    let mut settings = Settings::default();
    settings.backing = if round.is_multiple_of(2) { Backing::Range } else { Backing::Segments };
    settings.hand_over = [HandOver::Recorded, HandOver::All, HandOver::Off][random.below(3) as usize];
    settings.magazines = !random.chance(4);
    settings.defragment_floor_bytes = 4 * MIB;
    settings
}

#[test]
fn a_short_soak_keeps_every_invariant() {
    let seed = seed();
    for round in 0..8 {
        soak(&Sim::new(256 * MIB), &vary(seed, round), seed + round, steps(60_000) / 8, 97);
    }
}

#[test]
fn a_short_soak_on_real_memory_keeps_every_byte() {
    let seed = seed();
    for round in 0..2 {
        soak(&Host::new(128 * MIB), &vary(seed, round), seed + round, steps(4_000) / 2, 97);
    }
}

/// The long form: `GPUMEM_SOAK_STEPS=10000000 cargo test --release -p pools --test promises -- --ignored soak`.
#[test]
#[ignore = "ten million steps take minutes; the short form runs always"]
fn a_soak_of_ten_million_steps_keeps_every_invariant() {
    let (seed, rounds) = (seed(), 20);
    for round in 0..rounds {
        soak(&Sim::new(256 * MIB), &vary(seed, round), seed + round, steps(10_000_000) / rounds, 10_007);
        println!("round {round} of {rounds} done");
    }
}
