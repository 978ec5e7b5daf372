//! The picture from far away: what a few columns show of a million events. A page draws it before it has read
//! anything else, and a still picture is made of it.

use super::{
    groups::{Change, GROUPS, Groups, walk},
    model::DeviceModel,
    options::ColorBy,
};

/// Choices of colour.
pub(crate) const CHOICES: usize = ColorBy::ALL.len();

/// What a column shows: the moment of it with most active bytes, and extremes of all its moments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Column {
    /// That moment.
    pub(crate) moment: u32,
    /// Bytes of each group that the host holds, by choice in the order of [`ColorBy::ALL`].
    pub(crate) groups: [[u64; GROUPS]; CHOICES],
    /// Bytes that only streams hold.
    pub(crate) pending: u64,
    /// Bytes asked for.
    pub(crate) live: u64,
    /// Most bytes reserved at any moment of the column.
    pub(crate) reserved: u64,
    /// Lowest and highest fragmentation in percent.
    pub(crate) fragmentation: (f64, f64),
}

/// The first moment of column `at` of `count` columns.
pub(crate) fn first_moment(at: usize, count: usize, moments: u32) -> u32 {
    (at as u64 * u64::from(moments)).div_ceil(count as u64) as u32
}

/// `count` columns over the moments of a device, no more than there are moments.
pub(crate) fn columns(model: &DeviceModel<'_>, groups: &Groups, count: usize) -> Vec<Column> {
    let count = count.clamp(1, model.moments() as usize);
    let of: Vec<[u8; CHOICES]> =
        (0..model.blocks.len()).map(|block| ColorBy::ALL.map(|by| groups.of(model, by, block) as u8)).collect();
    let mut columns: Vec<Column> = Vec::with_capacity(count);
    let mut state = Column::default();
    let mut most = None;
    let mut next = 0;
    walk(
        model,
        &mut state,
        |state, change, block| {
            let life = &model.blocks[block];
            let is_held = change != Change::Death || life.pend >= life.death;
            for (sums, &group) in state.groups.iter_mut().zip(&of[block]) {
                let sum = &mut sums[usize::from(group)];
                match change {
                    Change::Birth => *sum = sum.saturating_add(life.block.bytes),
                    _ if is_held => *sum = sum.saturating_sub(life.block.bytes),
                    _ => {}
                }
            }
            match change {
                Change::Pend => state.pending = state.pending.saturating_add(life.block.bytes),
                Change::Death if !is_held => state.pending = state.pending.saturating_sub(life.block.bytes),
                _ => {}
            }
        },
        |state, moment| {
            let totals = model.totals[moment as usize];
            let fragmentation = model.fragmentation(moment);
            if moment >= next {
                next = first_moment(columns.len() + 1, count, model.moments());
                most = None;
                columns.push(Column { fragmentation: (fragmentation, fragmentation), ..Column::default() });
            }
            let Some(column) = columns.last_mut() else { return };
            let (reserved, (low, high)) = (column.reserved.max(totals.reserved), column.fragmentation);
            if most.is_none_or(|most| totals.active > most) {
                most = Some(totals.active);
                *column = Column { moment, live: totals.live, ..*state };
            }
            column.reserved = reserved;
            column.fragmentation = (low.min(fragmentation), high.max(fragmentation));
        },
    );
    columns
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::history::{model::tests::wild, window::Window};

    #[test]
    fn a_column_shows_its_fullest_moment_and_the_extremes_of_all() {
        for seed in 0..12 {
            let history = wild(seed, 250);
            let model = DeviceModel::new(&history, Window { from: 0, to: 250 });
            let groups = Groups::new(&model);
            for count in [1, 7, 100, 251, 4000] {
                let columns = columns(&model, &groups, count);
                let count = count.min(251);
                assert_eq!(columns.len(), count);
                for (at, column) in columns.iter().enumerate() {
                    let moments = first_moment(at, count, 251)..first_moment(at + 1, count, 251);
                    let all = &model.totals[moments.start as usize..moments.end as usize];
                    assert!(moments.contains(&column.moment), "{moments:?} {}", column.moment);
                    let most = all.iter().map(|totals| totals.active).max().unwrap();
                    let shown = model.totals[column.moment as usize];
                    assert_eq!((shown.active, column.live), (most, shown.live));
                    assert_eq!(column.pending, shown.pending());
                    for sums in column.groups {
                        assert_eq!(sums.iter().sum::<u64>() + column.pending, most, "seed {seed}, column {at}");
                    }
                    assert_eq!(column.reserved, all.iter().map(|totals| totals.reserved).max().unwrap());
                    let shares = moments.map(|moment| model.fragmentation(moment));
                    assert_eq!(column.fragmentation.1, shares.fold(0.0, f64::max));
                }
            }
        }
    }
}
