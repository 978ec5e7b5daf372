//! Rows of numbers of uneven length, kept in two flat arrays.

/// Row `i` is `items[start[i]..start[i + 1]]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Csr {
    start: Vec<usize>,
    items: Vec<u32>,
}

impl Csr {
    /// Rows are added one after another with [`Csr::push_row`].
    pub(crate) fn with_rows(rows: usize) -> Self {
        let mut start = Vec::with_capacity(rows + 1);
        start.push(0);
        Self { start, items: Vec::new() }
    }

    /// Appends a row.
    pub(crate) fn push_row(&mut self, row: impl IntoIterator<Item = u32>) {
        self.items.extend(row);
        self.start.push(self.items.len());
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.start.len().saturating_sub(1)
    }

    /// How many items all rows hold together.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// One row.
    pub(crate) fn row(&self, row: usize) -> &[u32] {
        &self.items[self.start[row]..self.start[row + 1]]
    }

    /// Every `(row, item)`, row by row.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..self.rows()).flat_map(move |row| self.row(row).iter().map(move |&item| (row as u32, item)))
    }

    /// Items become rows: row `j` of the result lists, in ascending order, the rows that hold `j`. `rows` is how many
    /// rows the result has; every item is below it.
    pub(crate) fn transposed(&self, rows: usize) -> Self {
        let mut start = vec![0_usize; rows + 1];
        for &item in &self.items {
            start[item as usize + 1] += 1;
        }
        for row in 0..rows {
            start[row + 1] += start[row];
        }
        let mut next = start.clone();
        let mut items = vec![0_u32; self.items.len()];
        for (row, item) in self.pairs() {
            items[next[item as usize]] = row;
            next[item as usize] += 1;
        }
        Self { start, items }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposing_lists_for_each_item_the_rows_that_hold_it() {
        let mut rows = Csr::with_rows(3);
        rows.push_row([2, 0]);
        rows.push_row([]);
        rows.push_row([2]);
        let columns = rows.transposed(4);
        assert_eq!(columns.rows(), 4);
        assert_eq!(columns.row(0), [0]);
        assert_eq!(columns.row(1), [0_u32; 0]);
        assert_eq!(columns.row(2), [0, 2]);
        assert_eq!(columns.len(), rows.len());
    }
}
