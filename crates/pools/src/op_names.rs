//! The names of operators, each with a number for the life of the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use hashbrown::HashMap;

use crate::Tag;

/// How many numbers there are, with 0 for none. At most 32 MiB for names of full length.
const MOST_OPS: usize = 65_536;
/// What is behind this many bytes of a name is not kept.
const MOST_BYTES: usize = 256;

struct Ops {
    numbers: HashMap<Arc<str>, u32>,
    /// By number, from 1.
    names: Vec<Arc<str>>,
}

static OPS: LazyLock<RwLock<Ops>> = LazyLock::new(|| RwLock::new(Ops::new()));
static REFUSED: AtomicU64 = AtomicU64::new(0);

impl Ops {
    fn new() -> Self {
        Self { numbers: HashMap::new(), names: Vec::new() }
    }

    /// A number for a name that has none yet; `None` if `most` numbers (with 0) are taken.
    fn add(&mut self, name: &str, most: usize) -> Option<u32> {
        if let Some(&number) = self.numbers.get(name) {
            return Some(number);
        }
        let number = u32::try_from(self.names.len() + 1).ok().filter(|&number| (number as usize) < most)?;
        let name: Arc<str> = Arc::from(name);
        self.numbers.insert(Arc::clone(&name), number);
        self.names.push(name);
        Some(number)
    }
}

fn clip(name: &str) -> &str {
    &name[..name.floor_char_boundary(MOST_BYTES)]
}

/// The number of an operator's name, the same for the life of the process: to be asked once and kept. 0, which means no
/// operator, for an empty name and once 65 535 names have numbers; [`ops_refused`] counts the latter. Only the first 256
/// bytes of a name count.
pub fn op_number(name: &str) -> u32 {
    let name = clip(name);
    if name.is_empty() {
        return 0;
    }
    if let Some(&number) = OPS.read().unwrap_or_else(PoisonError::into_inner).numbers.get(name) {
        return number;
    }
    OPS.write().unwrap_or_else(PoisonError::into_inner).add(name, MOST_OPS).unwrap_or_else(|| {
        REFUSED.fetch_add(1, Ordering::Relaxed);
        0
    })
}

/// The name that a number was given to.
#[must_use]
pub fn op_name(number: u32) -> Option<Arc<str>> {
    let place = (number as usize).checked_sub(1)?;
    OPS.read().unwrap_or_else(PoisonError::into_inner).names.get(place).cloned()
}

/// How often [`op_number`] had no number left.
#[must_use]
pub fn ops_refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

impl Tag {
    /// This tag with another operator, by its name: see [`op_number`].
    #[must_use]
    pub fn with_op(self, name: &str) -> Self {
        Self { op: op_number(name), ..self }
    }

    /// The name of the operator; `None` if there is none.
    #[must_use]
    pub fn op_name(self) -> Option<Arc<str>> {
        op_name(self.op)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_name_has_one_number_on_every_thread() {
        let numbers: Vec<Vec<u32>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..200).map(|op| op_number(&format!("one number {op}"))).collect()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(numbers.iter().all(|each| *each == numbers[0]));
        for (op, &number) in numbers[0].iter().enumerate() {
            assert_eq!(op_name(number).as_deref(), Some(format!("one number {op}").as_str()));
        }
        let mut distinct = numbers[0].clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!((distinct.len(), distinct.contains(&0)), (200, false));
    }

    #[test]
    fn no_name_is_number_zero_and_unknown_numbers_have_no_name() {
        assert_eq!(op_number(""), 0);
        assert_eq!((op_name(0), op_name(u32::MAX)), (None, None));
        assert_eq!(Tag::NONE.op_name(), None);
        assert_eq!(Tag::NONE.with_op("softmax").op_name().as_deref(), Some("softmax"));
    }

    #[test]
    fn long_names_are_clipped_between_characters() {
        let long = "ü".repeat(200);
        let number = op_number(&format!("x{long}"));
        assert_eq!(op_name(number).unwrap().len(), 255);
        assert_eq!(op_number(&format!("x{long}longer still")), number);
    }

    #[test]
    fn beyond_the_bound_names_get_no_number_and_known_ones_keep_theirs() {
        let mut ops = Ops::new();
        assert_eq!((ops.add("a", 3), ops.add("b", 3), ops.add("c", 3)), (Some(1), Some(2), None));
        assert_eq!((ops.add("a", 3), ops.names.len(), ops.numbers.len()), (Some(1), 2, 2));
    }
}
