//! Which blocks belong together: by stream, tag, stack, size or length of life.

use std::collections::HashMap;

use records::{Action, NameId, StackId};

pub(crate) use crate::palette::GROUPS;

use super::{
    model::{DeviceModel, Life},
    options::ColorBy,
};

/// Groups with a colour of their own; what comes after shares the last one, the rest's.
pub(crate) const NAMED: usize = GROUPS - 1;

/// Upper ends of the classes of size but the last, in bytes asked for.
pub(crate) const SIZES: [u64; 4] = [1 << 20, 16 << 20, 128 << 20, 1 << 30];

/// Blocks of a device sorted into classes of length of life.
pub(crate) const LIVES: [&str; 3] = ["long-lived", "for a step", "short-lived"];

/// A change of what is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A block is handed out.
    Birth,
    /// From here only streams hold it.
    Pend,
    /// It is free again.
    Death,
}

/// Visits what changes, moment after moment; at each moment deaths come first and births last. After the changes of a
/// moment `settled` is called with it, with what `change` keeps in `state`.
pub(crate) fn walk<S>(
    model: &DeviceModel<'_>,
    state: &mut S,
    mut change: impl FnMut(&mut S, Change, usize),
    mut settled: impl FnMut(&mut S, u32),
) {
    let blocks = &model.blocks;
    let mut deaths: Vec<u32> = (0..blocks.len() as u32).collect();
    let mut pends: Vec<u32> = deaths.iter().copied().filter(|&i| waits(&blocks[i as usize])).collect();
    deaths.sort_by_key(|&i| blocks[i as usize].death);
    pends.sort_by_key(|&i| blocks[i as usize].pend);
    let (mut born, mut pended, mut died) = (0, 0, 0);
    for moment in 0..model.moments() {
        while let Some(&index) = deaths.get(died).filter(|&&i| blocks[i as usize].death <= moment) {
            change(state, Change::Death, index as usize);
            died += 1;
        }
        while let Some(&index) = pends.get(pended).filter(|&&i| blocks[i as usize].pend <= moment) {
            // One that waits from its first moment has to be born first.
            if blocks[index as usize].birth < moment {
                change(state, Change::Pend, index as usize);
            }
            pended += 1;
        }
        while blocks.get(born).is_some_and(|life| life.birth <= moment) {
            change(state, Change::Birth, born);
            if waits(&blocks[born]) && blocks[born].pend <= moment {
                change(state, Change::Pend, born);
            }
            born += 1;
        }
        settled(state, moment);
    }
}

fn waits(life: &Life) -> bool {
    life.pend < life.death
}

/// Streams, tags and stacks of a device's blocks, those with the highest peaks first, and what each block is of.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Streams.
    pub(crate) streams: Vec<u64>,
    /// Tags.
    pub(crate) tags: Vec<NameId>,
    /// Stacks.
    pub(crate) stacks: Vec<StackId>,
    /// Of each block: the index of its stream, of its tag, of its stack.
    pub(crate) indices: Vec<[u32; 3]>,
    /// Of each block: its class in [`LIVES`].
    pub(crate) lives: Vec<u8>,
}

impl Groups {
    /// Sorts the blocks of a device.
    pub(crate) fn new(model: &DeviceModel<'_>) -> Self {
        let blocks = &model.blocks;
        let mut indices = vec![[0; 3]; blocks.len()];
        let streams = ranked(model, &mut indices, 0, |life| life.block.stream);
        let tags = ranked(model, &mut indices, 1, |life| life.block.tag);
        let stacks = ranked(model, &mut indices, 2, |life| life.block.stack);
        Self { streams, tags, stacks, indices, lives: lives(model) }
    }

    /// The group of a block.
    pub(crate) fn of(&self, model: &DeviceModel<'_>, by: ColorBy, block: usize) -> usize {
        let of_index = |at: usize| (self.indices[block][at] as usize).min(NAMED);
        match by {
            ColorBy::Stream => of_index(0),
            ColorBy::Tag => of_index(1),
            ColorBy::Stack => of_index(2),
            ColorBy::Size => size_class(model.blocks[block].block.requested_bytes),
            ColorBy::Life => usize::from(self.lives[block]),
        }
    }
}

/// The class of a size; the largest is 0, so that it lies at the bottom of a stack.
fn size_class(bytes: u64) -> usize {
    SIZES.iter().rev().take_while(|limit| bytes <= **limit).count()
}

/// The keys by their own highest sum, highest first; writes the place of each block's key to `indices`.
fn ranked<K: Copy + Eq + std::hash::Hash + Ord>(
    model: &DeviceModel<'_>,
    indices: &mut [[u32; 3]],
    column: usize,
    key: impl Fn(&Life) -> K,
) -> Vec<K> {
    let mut known: HashMap<K, u32> = HashMap::new();
    let mut sums: Vec<(K, u64, u64)> = Vec::new();
    for (life, row) in model.blocks.iter().zip(indices.iter_mut()) {
        let key = key(life);
        row[column] = *known.entry(key).or_insert_with(|| {
            sums.push((key, 0, 0));
            (sums.len() - 1) as u32
        });
    }
    let rows: &[[u32; 3]] = indices;
    walk(
        model,
        &mut sums,
        |sums, change, block| {
            let sum = &mut sums[rows[block][column] as usize];
            let bytes = model.blocks[block].block.bytes;
            match change {
                Change::Birth => {
                    sum.1 = sum.1.saturating_add(bytes);
                    sum.2 = sum.2.max(sum.1);
                }
                Change::Death => sum.1 = sum.1.saturating_sub(bytes),
                Change::Pend => {}
            }
        },
        |_, _| (),
    );
    let mut order: Vec<u32> = (0..sums.len() as u32).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(sums[i as usize].2), sums[i as usize].0));
    let mut place = vec![0; sums.len()];
    for (at, &i) in (0..).zip(&order) {
        place[i as usize] = at;
    }
    for row in indices {
        row[column] = place[row[column] as usize];
    }
    order.into_iter().map(|i| sums[i as usize].0).collect()
}

/// The class of each block's life.
///
/// Where steps are marked, what crosses two marks is long-lived, and what crosses one, or lives over a quarter of the
/// mean step, is there for a step. Where none are, half of the record and a fiftieth of it take their place. What was
/// there at the start and never went is long-lived.
fn lives(model: &DeviceModel<'_>) -> Vec<u8> {
    let marks: Vec<u32> =
        (1..).zip(model.events()).filter(|(_, event)| event.action == Action::Step).map(|(moment, _)| moment).collect();
    let moments = u64::from(model.moments());
    let step = moments / (marks.len() as u64 + 1);
    let class = |life: &Life| {
        let (birth, end) = (life.birth, life.pend.min(life.death));
        let length = u64::from(end - birth);
        let crossed = marks.partition_point(|&m| m < end) - marks.partition_point(|&m| m < birth);
        let is_there_all_along = birth == 0 && end == model.moments();
        let (is_long, is_medium) = match marks.len() {
            0 | 1 => (length * 2 >= moments, length * 50 >= moments),
            _ => (crossed >= 2, crossed == 1 || length * 4 >= step),
        };
        match (is_there_all_along || is_long, is_medium) {
            (true, _) => 0,
            (false, true) => 1,
            _ => 2,
        }
    };
    model.blocks.iter().map(class).collect()
}
