//! Which tier a storage belongs to, and why.

use crate::{
    HalfStep, LiveRange, Tier, TierRule,
    ordered::Ordered,
    storage::{Origin, Storage},
    turning::Turning,
};

/// The tier of each storage that has a live range. The rules are tried in the order of [`TierRule`]'s variants.
pub(crate) fn classify(
    ordered: &Ordered<'_, '_>,
    ranges: &[Option<LiveRange>],
    turning: Option<&Turning>,
    long_lived_share: f64,
) -> Vec<Option<(Tier, TierRule)>> {
    let end = ordered.end();
    let tier = |(id, (storage, range)): (usize, (&Storage, &Option<LiveRange>))| {
        let range = (*range)?;
        if let Some(tier) = storage.hint {
            return Some((tier, TierRule::Hint));
        }
        if storage.origin == Origin::Persistent {
            return Some((Tier::Persistent, TierRule::Kind));
        }
        if let Some((producer, reader)) = turning.and_then(|t| t.crossing(ordered, id as u32)) {
            return Some((Tier::Cyclic, TierRule::AcrossTurningPoint { producer, reader }));
        }
        if is_long_lived(range, end, long_lived_share) {
            return Some((Tier::Cyclic, TierRule::LongLived { share_ppm: share_ppm(range, end) }));
        }
        Some((Tier::Temporary, TierRule::Rest))
    };
    ordered.scan.storages.iter().zip(ranges).enumerate().map(tier).collect()
}

fn is_long_lived(range: LiveRange, end: HalfStep, share: f64) -> bool {
    range.half_steps() as f64 >= share * end.0 as f64
}

fn share_ppm(range: LiveRange, end: HalfStep) -> u32 {
    let ppm = u128::from(range.half_steps()) * 1_000_000 / u128::from(end.0.max(1));
    u32::try_from(ppm).unwrap_or(u32::MAX)
}
