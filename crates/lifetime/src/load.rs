//! Bytes live at each position of an order, kept up to date while live ranges change.

/// A tree over the positions: adding bytes to a range of positions and asking for the most bytes in a range take
/// logarithmic time.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    positions: usize,
    /// Power of two, at least `positions`.
    leaves: usize,
    /// Bytes added to everything below a node, not yet counted in its children.
    added: Vec<i128>,
    /// Most bytes below a node, `added` of the node itself included.
    most: Vec<i128>,
}

impl Profile {
    /// The profile with these bytes at its positions.
    pub(crate) fn new(load: &[i128]) -> Self {
        let leaves = load.len().next_power_of_two();
        let mut most = vec![0; 2 * leaves];
        most[leaves..leaves + load.len()].copy_from_slice(load);
        for node in (1..leaves).rev() {
            most[node] = most[2 * node].max(most[2 * node + 1]);
        }
        Self { positions: load.len(), leaves, added: vec![0; 2 * leaves], most }
    }

    /// Most bytes at any position; 0 without positions.
    pub(crate) fn peak(&self) -> i128 {
        self.most[1]
    }

    /// The first position with the most bytes.
    pub(crate) fn peak_position(&self) -> usize {
        let mut node = 1;
        while node < self.leaves {
            let (left, right) = (2 * node, 2 * node + 1);
            node = if self.most[left] >= self.most[right] { left } else { right };
        }
        node - self.leaves
    }

    /// Adds bytes to the positions `from..to`.
    pub(crate) fn add(&mut self, from: usize, to: usize, bytes: i128) {
        debug_assert!(from <= to && to <= self.positions, "range outside the order");
        let (mut left, mut right) = (from + self.leaves, to + self.leaves);
        let (first, last) = (left, right);
        while left < right {
            if left & 1 == 1 {
                self.add_below(left, bytes);
                left += 1;
            }
            if right & 1 == 1 {
                right -= 1;
                self.add_below(right, bytes);
            }
            (left, right) = (left / 2, right / 2);
        }
        if from < to {
            self.recount_above(first);
            self.recount_above(last - 1);
        }
    }

    fn add_below(&mut self, node: usize, bytes: i128) {
        self.added[node] += bytes;
        self.most[node] += bytes;
    }

    fn recount_above(&mut self, mut node: usize) {
        while node > 1 {
            node /= 2;
            self.most[node] = self.most[2 * node].max(self.most[2 * node + 1]) + self.added[node];
        }
    }

    /// Most bytes at the positions `from..to`; 0 for none.
    pub(crate) fn peak_in(&self, from: usize, to: usize) -> i128 {
        let mut best: Option<i128> = None;
        let (mut left, mut right) = (from + self.leaves, to + self.leaves);
        while left < right {
            if left & 1 == 1 {
                best = best.max(Some(self.most[left] + self.added_above(left)));
                left += 1;
            }
            if right & 1 == 1 {
                right -= 1;
                best = best.max(Some(self.most[right] + self.added_above(right)));
            }
            (left, right) = (left / 2, right / 2);
        }
        best.unwrap_or(0)
    }

    fn added_above(&self, mut node: usize) -> i128 {
        let mut sum = 0;
        while node > 1 {
            node /= 2;
            sum += self.added[node];
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_profile_answers_like_a_plain_array(
            mut plain in prop::collection::vec(0_i128..50, 1..40),
            changes in prop::collection::vec((0_usize..40, 0_usize..40, -20_i128..20), 0..30),
        ) {
            let mut profile = Profile::new(&plain);
            for (a, b, bytes) in changes {
                let (from, to) = (a.min(b).min(plain.len()), a.max(b).min(plain.len()));
                plain[from..to].iter_mut().for_each(|load| *load += bytes);
                profile.add(from, to, bytes);
                prop_assert_eq!(profile.peak_in(from, to), plain[from..to].iter().copied().max().unwrap_or(0));
                // Positions past the end count as empty.
                let peak = plain.iter().copied().max().unwrap_or(0);
                if peak >= 0 {
                    prop_assert_eq!(profile.peak(), peak);
                    let first = plain.iter().position(|&load| load == peak);
                    prop_assert_eq!(Some(profile.peak_position()), first);
                }
            }
        }
    }

    #[test]
    fn an_order_without_ops_has_no_load() {
        assert_eq!(Profile::new(&[]).peak(), 0);
    }
}
