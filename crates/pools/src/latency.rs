//! How long calls take, always on.
//!
//! A histogram whose buckets are linear within each power of two, as HdrHistogram's (Gil Tene): 16 to a power, so that the
//! middle of a bucket is at most 3.2 % off. It is our own because it has to be written by many threads without a lock and
//! without an allocation. Each is 4 KiB; recording is one relaxed addition, and a comparison for the maximum.
//!
//! Counts of different threads are added when somebody asks. What is read while others record is short of what they are
//! just recording, and of nothing else.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

/// Of calls that are too short to time each, one in this many is timed: so few that the slowest in a thousand aren't those that
/// were timed.
pub(crate) const SAMPLED_EVERY: u32 = 2048;

/// Buckets in each power of two.
const PER_POWER: usize = 16;
const PER_POWER_LOG: u32 = PER_POWER.ilog2();
/// 2^34 ns are 17 s: what is longer counts in the last bucket, and in full for the maximum.
const POWERS: u32 = 34;
const BUCKETS: usize = (POWERS - PER_POWER_LOG + 1) as usize * PER_POWER;

/// The bucket of a time.
fn bucket(ns: u64) -> usize {
    match ns.checked_ilog2() {
        Some(power) if power >= PER_POWER_LOG => {
            let within = (ns >> (power - PER_POWER_LOG)) as usize & (PER_POWER - 1);
            ((power - PER_POWER_LOG + 1) as usize * PER_POWER + within).min(BUCKETS - 1)
        }
        _ => ns as usize,
    }
}

/// The time in the middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let power = (bucket / PER_POWER).saturating_sub(1);
    let within = (bucket - power * PER_POWER) as u64;
    (within << power) + ((1 << power) >> 1)
}

/// How long calls of one kind took. Written by any number of threads.
#[derive(Debug)]
pub(crate) struct Latency {
    buckets: [AtomicU64; BUCKETS],
    max_ns: AtomicU64,
}

impl Latency {
    pub(crate) const fn new() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], max_ns: AtomicU64::new(0) }
    }

    /// A call took this long.
    pub(crate) fn record(&self, ns: u64) {
        self.buckets[bucket(ns)].fetch_add(1, Ordering::Relaxed);
        self.raise_max(ns);
    }

    fn raise_max(&self, ns: u64) {
        // Almost always the maximum stands, and then its cache line stays shared.
        if ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.fetch_max(ns, Ordering::Relaxed);
        }
    }

    /// What was counted so far.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        counts.add(self, 1);
        counts
    }

    /// The quantiles of what was counted so far.
    pub(crate) fn quantiles(&self) -> Quantiles {
        self.counts().quantiles()
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

/// Counts from several places, at rest.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    buckets: [u64; BUCKETS],
    max_ns: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], max_ns: 0 }
    }
}

impl Counts {
    /// Adds what was counted in one place, each call `weight` times: [`SAMPLED_EVERY`] where one in so many was timed.
    pub(crate) fn add(&mut self, from: &Latency, weight: u64) {
        for (sum, count) in self.buckets.iter_mut().zip(&from.buckets) {
            *sum = sum.saturating_add(count.load(Ordering::Relaxed).saturating_mul(weight));
        }
        self.max_ns = self.max_ns.max(from.max_ns.load(Ordering::Relaxed));
    }

    /// The quantiles: each is the time that so many in 1 000 calls didn't exceed, by the middle of its bucket.
    pub(crate) fn quantiles(&self) -> Quantiles {
        let count = self.buckets.iter().fold(0_u64, |sum, &count| sum.saturating_add(count));
        let at = |per_mille: u64| {
            let rank = (u128::from(count) * u128::from(per_mille)).div_ceil(1_000).max(1);
            let mut below = 0_u128;
            for (bucket, &count) in self.buckets.iter().enumerate() {
                below += u128::from(count);
                if below >= rank {
                    // The last bucket has no upper end. The middle of any may be beyond what was recorded.
                    return if bucket == BUCKETS - 1 { self.max_ns } else { middle(bucket).min(self.max_ns) };
                }
            }
            0
        };
        Quantiles { count, p50_ns: at(500), p90_ns: at(900), p99_ns: at(990), p999_ns: at(999), max_ns: self.max_ns }
    }
}

/// How long calls took, in nanoseconds. Quantiles are within 3.2 % up to 17 s; the maximum is exact.
/// p50 <= p90 <= p99 <= p99.9 <= max.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// How many calls these stand for.
    pub count: u64,
    /// Half of them took at most this.
    pub p50_ns: u64,
    /// Nine in ten took at most this.
    pub p90_ns: u64,
    /// 99 in 100 took at most this.
    pub p99_ns: u64,
    /// 999 in 1 000 took at most this.
    pub p999_ns: u64,
    /// The longest that was timed.
    pub max_ns: u64,
}

/// Says which calls to time. Threads that share one may now and then time a call more or less.
#[derive(Debug)]
pub(crate) struct Sampler {
    calls: AtomicU32,
}

impl Sampler {
    pub(crate) const fn new() -> Self {
        Self { calls: AtomicU32::new(0) }
    }

    /// True on every [`SAMPLED_EVERY`]-th call.
    pub(crate) fn due(&self) -> bool {
        // A load and a store, not an addition: that would cost more than what is measured.
        let calls = self.calls.load(Ordering::Relaxed).wrapping_add(1);
        self.calls.store(calls, Ordering::Relaxed);
        calls.is_multiple_of(SAMPLED_EVERY)
    }
}

impl Default for Sampler {
    fn default() -> Self {
        Self::new()
    }
}

/// Nanoseconds since this was first asked, by a clock that never goes back.
pub(crate) fn now_ns() -> u64 {
    static ANCHOR: OnceLock<Instant> = OnceLock::new();
    u64::try_from(ANCHOR.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_bucket_is_at_most_three_percent_off_and_buckets_rise_with_time() {
        let mut times: Vec<u64> = (0..5_000).collect();
        times.extend((0..4_000).map(|step| 1.006_f64.powi(step) as u64).filter(|&ns| ns <= 10_000_000_000));
        times.extend((3..34).flat_map(|power| [(1_u64 << power) - 1, 1 << power, (1 << power) + 1]));
        times.sort_unstable();
        let mut last = 0;
        for ns in times {
            let bucket = bucket(ns);
            assert!(bucket >= last && bucket < BUCKETS, "{ns}");
            last = bucket;
            let off = middle(bucket).abs_diff(ns) as f64;
            assert!(off <= 0.032 * ns as f64, "{ns} ns counts as {} ns", middle(bucket));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let latency = Latency::new();
        let mut times = Vec::new();
        let mut state = 1_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Six orders of magnitude.
            times.push((2.0_f64.powf((state >> 40) as f64 / (1 << 24) as f64 * 20.0) * 30.0) as u64);
        }
        times.iter().for_each(|&ns| latency.record(ns));
        times.sort_unstable();
        let quantiles = latency.quantiles();
        assert_eq!((quantiles.count, quantiles.max_ns), (20_000, times[19_999]));
        for (said, rank) in [
            (quantiles.p50_ns, 9_999),
            (quantiles.p90_ns, 17_999),
            (quantiles.p99_ns, 19_799),
            (quantiles.p999_ns, 19_979),
        ] {
            assert!(said.abs_diff(times[rank]) as f64 <= 0.032 * times[rank] as f64, "{said} for {}", times[rank]);
        }
    }

    #[test]
    fn without_calls_all_is_zero_and_one_call_is_every_quantile() {
        let latency = Latency::new();
        assert_eq!(latency.quantiles(), Quantiles::default());
        latency.record(0);
        assert_eq!(latency.quantiles(), Quantiles { count: 1, ..Quantiles::default() });
        let latency = Latency::new();
        latency.record(1_000_003);
        let Quantiles { p50_ns, p999_ns, max_ns, .. } = latency.quantiles();
        assert_eq!((max_ns, p50_ns), (1_000_003, p999_ns));
        assert!(p50_ns <= max_ns && p50_ns > 960_000);
    }

    #[test]
    fn times_beyond_the_last_bucket_count_in_full() {
        let latency = Latency::new();
        latency.record(5);
        latency.record(u64::MAX);
        let quantiles = latency.quantiles();
        assert_eq!((quantiles.p50_ns, quantiles.p90_ns, quantiles.max_ns), (5, u64::MAX, u64::MAX));
    }

    #[test]
    fn weighted_counts_are_those_of_all_calls() {
        let (hits, misses) = (Latency::new(), Latency::new());
        (0..10).for_each(|_| hits.record(20));
        (0..10).for_each(|_| misses.record(3_000));
        let mut all = Counts::default();
        all.add(&hits, 64);
        all.add(&misses, 1);
        let quantiles = all.quantiles();
        assert_eq!((quantiles.count, quantiles.p50_ns, quantiles.p90_ns), (650, 20, 20));
        assert!(quantiles.p99_ns > 2_900 && quantiles.max_ns == 3_000);
        all.add(&hits, u64::MAX);
        assert_eq!(all.quantiles().count, u64::MAX, "no overflow");
    }

    #[test]
    fn threads_lose_no_call() {
        let latency = Latency::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let latency = &latency;
                scope.spawn(move || (0..10_000).for_each(|call| latency.record(call * (thread + 1))));
            }
        });
        let quantiles = latency.quantiles();
        assert_eq!((quantiles.count, quantiles.max_ns), (40_000, 9_999 * 4));
    }

    #[test]
    fn one_call_in_so_many_is_timed() {
        let sampler = Sampler::new();
        assert_eq!((0..100 * SAMPLED_EVERY).filter(|_| sampler.due()).count(), 100);
    }

    #[test]
    fn time_never_goes_back() {
        let mut last = now_ns();
        for _ in 0..1_000 {
            let now = now_ns();
            assert!(now >= last);
            last = now;
        }
    }
}
