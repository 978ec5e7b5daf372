//! Every pair of options.

use pools::{Backing, Budget, Error, HandOver, OpPool, Settings};

use crate::machine::{Host, Machine, Sim};
use crate::program::{MIB, Program, seed};

/// What one option can be set to.
type Choice = fn(&mut Settings);

const CHOICES: &[(&str, &[Choice])] = &[
    ("backing", &[|s| s.backing = Backing::Segments, |s| s.backing = Backing::Range, |s| s.backing = Backing::Auto]),
    (
        "hand_over",
        &[|s| s.hand_over = HandOver::Recorded, |s| s.hand_over = HandOver::All, |s| s.hand_over = HandOver::Off],
    ),
    ("magazines", &[|s| s.magazines = true, |s| s.magazines = false, |s| s.magazine_share = 1]),
    ("separate_precisions", &[|s| s.separate_precisions = false, |s| s.separate_precisions = true]),
    (
        "op_pools",
        &[
            |s| s.op_pools = Vec::new(),
            |s| s.op_pools = vec![OpPool { op: "hot".into(), bytes: 8 * MIB }],
            |s| s.op_pools = vec![OpPool { op: "hot".into(), bytes: 0 }, OpPool { op: "cold".into(), bytes: u64::MAX }],
        ],
    ),
    (
        "budget",
        &[
            |s| s.budget = Budget::default(),
            |s| s.budget = Budget { hard_bytes: Some(64 * MIB), soft_bytes: None },
            |s| s.budget = Budget { hard_bytes: None, soft_bytes: Some(32 * MIB) },
            |s| s.budget = Budget { hard_bytes: Some(64 * MIB), soft_bytes: Some(48 * MIB) },
        ],
    ),
    ("initial_bytes", &[|s| s.initial_bytes = 0, |s| s.initial_bytes = 1, |s| s.initial_bytes = 30 * MIB]),
    ("segment_bytes", &[|s| s.segment_bytes = 2 * MIB, |s| s.segment_bytes = 64 << 10, |s| s.segment_bytes = 16 * MIB]),
    (
        "cached_limit_percent",
        &[|s| s.cached_limit_percent = 80, |s| s.cached_limit_percent = 0, |s| s.cached_limit_percent = 20],
    ),
    (
        "defragment",
        &[
            |s| s.defragment_floor_bytes = 256 * MIB,
            |s| (s.defragment_floor_bytes, s.defragment_percent) = (0, 0),
            |s| (s.defragment_floor_bytes, s.defragment_percent) = (MIB, 30),
        ],
    ),
    ("stream_waits", &[|s| s.stream_waits = true, |s| s.stream_waits = false]),
    ("host_waits", &[|s| s.host_waits = true, |s| s.host_waits = false]),
];

fn run(machine: &dyn Machine, settings: &Settings, seed: u64, steps: usize) {
    let (hard, initial) = (settings.budget.hard_bytes, settings.initial_bytes);
    let mut program = Program::new(machine, settings.clone(), seed, 30 * MIB).unwrap();
    assert!(machine.taken_bytes() >= initial);
    for step in 0..steps {
        match program.step() {
            Ok(()) | Err(Error::OutOfMemory(_)) => {}
            Err(error) => panic!("{settings:?}, step {step}: {error}"),
        }
        assert!(hard.is_none_or(|hard| machine.taken_bytes() <= hard), "{settings:?}: beyond the hard budget");
        if step % 7 == 0 {
            program.check();
        }
    }
    program.end();
}

#[test]
fn every_pair_of_options_works() {
    let seed = seed();
    let mut programs = 0;
    for (first, (_, ones)) in CHOICES.iter().enumerate() {
        for (_, others) in &CHOICES[first + 1..] {
            for one in *ones {
                for other in *others {
                    let mut settings = Settings::default();
                    one(&mut settings);
                    other(&mut settings);
                    run(&Sim::new(128 * MIB), &settings, seed + programs, 80);
                    programs += 1;
                }
            }
        }
    }
    println!("{programs} pairs");
}

#[test]
fn guards_work_with_every_other_option() {
    let seed = seed();
    let mut programs = 0;
    for (name, choices) in CHOICES {
        for choice in *choices {
            let mut settings = Settings::default();
            settings.guard = true;
            choice(&mut settings);
            println!("guard with {name}");
            run(&Host::new(128 * MIB), &settings, seed + programs, 60);
            programs += 1;
        }
    }
}

#[test]
fn settings_that_cannot_be_are_refused_by_name() {
    let machine = Sim::new(128 * MIB);
    let cases: &[(&str, Choice)] = &[
        ("segment_bytes", |s| s.segment_bytes = 0),
        ("segment_bytes", |s| s.segment_bytes = 3 * MIB),
        ("segment_bytes", |s| s.segment_bytes = 1 << 63),
        ("cached_limit_percent", |s| s.cached_limit_percent = 101),
        ("defragment_percent", |s| s.defragment_percent = u32::MAX),
        ("magazine_share", |s| s.magazine_share = 0),
        ("budget.soft_bytes", |s| s.budget = Budget { hard_bytes: Some(1), soft_bytes: Some(2) }),
        ("op_pools", |s| s.op_pools = vec![OpPool { op: "x".into(), bytes: 1 }; 1001]),
        ("initial_bytes", |s| {
            s.budget.hard_bytes = Some(MIB);
            s.initial_bytes = 2 * MIB;
        }),
    ];
    for (name, case) in cases {
        let mut settings = Settings::default();
        case(&mut settings);
        match pools::Allocator::new(machine.device(), settings) {
            Err(Error::BadSetting { name: found, .. }) => assert_eq!(found, *name),
            other => panic!("{name}: {other:?}"),
        }
    }
    for bytes in [1 << 40, u64::MAX] {
        for backing in [Backing::Segments, Backing::Range] {
            let mut settings = Settings::default();
            (settings.initial_bytes, settings.backing) = (bytes, backing);
            assert!(pools::Allocator::new(machine.device(), settings).is_err());
        }
    }
    assert_eq!(machine.taken_bytes(), 0);
}
