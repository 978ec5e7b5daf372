//! Highest value in any range of a fixed list.

/// A sparse table: `O(n log n)` to make, `O(1)` to ask.
#[derive(Debug)]
pub(crate) struct RangeMax {
    /// `levels[k][i]` is the highest of the `2^k` values from `i` on.
    levels: Vec<Vec<u64>>,
}

impl RangeMax {
    /// Over these values.
    pub(crate) fn new(values: Vec<u64>) -> Self {
        let mut levels = vec![values];
        let mut width = 1;
        while let Some(last) = levels.last().filter(|l| l.len() > width) {
            let next = (0..last.len() - width).map(|i| last[i].max(last[i + width])).collect();
            levels.push(next);
            width *= 2;
        }
        Self { levels }
    }

    /// The highest of `values[from..to]`; 0 for an empty range.
    pub(crate) fn max(&self, from: usize, to: usize) -> u64 {
        if from >= to {
            return 0;
        }
        let level = (to - from).ilog2() as usize;
        self.levels[level][from].max(self.levels[level][to - (1 << level)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_of_a_list_gives_its_highest_value() {
        for n in 1..20_usize {
            let values: Vec<u64> = (0..n as u64).map(|i| i * 7919 % 31).collect();
            let highest = RangeMax::new(values.clone());
            for from in 0..n {
                for to in from..=n {
                    assert_eq!(highest.max(from, to), values[from..to].iter().copied().max().unwrap_or(0));
                }
            }
        }
    }
}
