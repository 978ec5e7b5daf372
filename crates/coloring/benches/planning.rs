//! How long a first answer takes, on problems like those of training steps: many short-lived buffers, some that live
//! from the forward to the backward pass, a handful of sizes.
//!
//! `cargo bench -p coloring`. The targets (one core): under 1 ms at 500 buffers, 0.2 s at 30 000, 8 s at 1 000 000.
#![allow(clippy::expect_used)]

use std::hint::black_box;

use coloring::{Baseline, Buffer, Options, Problem, baselines, merge_holes, solve, verify};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use lifetime::{Bytes, HalfStep, LiveRange};

/// Numbers that look random and are the same everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A step of `count` buffers: every fourth is kept from the forward pass for its mirror image in the backward pass.
fn step(count: u64) -> Problem {
    let mut numbers = Numbers(count);
    let sizes = [512, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20];
    let buffer = |i: u64| {
        let birth = 2 * i;
        let death = if i.is_multiple_of(4) && i < count / 2 { 2 * (count - i) } else { birth + 2 + numbers.below(24) };
        let size = sizes[numbers.below(sizes.len() as u64) as usize] * (1 + numbers.below(8));
        Buffer::new(LiveRange::new(HalfStep(birth), HalfStep(death)), Bytes(size))
    };
    Problem { buffers: (0..count).map(buffer).collect(), ..Problem::default() }
}

fn first_answer(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("first answer");
    group.sample_size(10);
    for count in [500, 30_000, 1_000_000] {
        let problem = step(count);
        let options =
            Options { node_limit: 0, threads: 1, merge_holes: false, match_baselines: false, ..Options::default() };
        group.bench_with_input(BenchmarkId::from_parameter(count), &problem, |bencher, problem| {
            bencher.iter(|| solve(black_box(problem), &options, &mut |_| {}).expect("a valid problem"));
        });
    }
    group.finish();
}

/// What the other planners' rules cost by the same structures, for scale.
fn peers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("all baselines");
    group.sample_size(10);
    assert_eq!(Baseline::ALL.len(), 4);
    let problem = step(3_000);
    group.bench_function("3000", |bencher| bencher.iter(|| baselines(black_box(&problem)).expect("a valid problem")));
    group.finish();
}

fn afterwards(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("afterwards");
    group.sample_size(10);
    let problem = step(3_000);
    let options =
        Options { node_limit: 0, threads: 1, merge_holes: false, match_baselines: false, ..Options::default() };
    let offsets = solve(&problem, &options, &mut |_| {}).expect("a valid problem").offsets;
    group.bench_function("verify 3000", |bencher| bencher.iter(|| verify(black_box(&problem), &offsets)));
    group.bench_function("merge holes 3000", |bencher| {
        bencher.iter_batched_ref(
            || offsets.clone(),
            |offsets| merge_holes(black_box(&problem), offsets),
            criterion::BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(benches, first_answer, peers, afterwards);
criterion_main!(benches);
