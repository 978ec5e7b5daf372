//! Traces to test with.

use std::path::PathBuf;

use proptest::prelude::*;
use records::{NameId, Operation, Row, StackId, Trace};

use super::{files, shared};

/// Every trace of the shared data; `None`, with a note, where there is none.
pub fn shared_traces() -> Option<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for folder in ["traces", "graphs/trace"] {
        let folder = shared(folder)?;
        paths.extend(files(&folder, ".csv").into_iter().chain(files(&folder, ".csv.gz")));
    }
    assert!(paths.len() >= 40, "{}", paths.len());
    Some(paths)
}

/// What happens to a block next.
#[derive(Clone, Debug)]
pub struct Step {
    operation: Operation,
    pick: prop::sample::Index,
    row: Row,
    tag: &'static str,
}

pub fn any_step() -> impl Strategy<Value = Step> {
    let tags = prop::sample::select(vec!["", "conv", "a,b", "\"", " x ", "# no", "two\nlines", "\u{1f600}"]);
    let operation = prop::sample::select(Operation::ALL.to_vec());
    let numbers = (any::<u64>(), 0..=1_u64 << 40, 0..=i64::MAX, any::<u32>(), any::<u32>(), any::<u64>());
    (operation, any::<prop::sample::Index>(), numbers, tags).prop_map(|(operation, pick, numbers, tag)| {
        let (id, bytes, stream, device, thread, time_ns) = numbers;
        let row =
            Row { operation, id, bytes, stream, device, thread, time_ns, tag: NameId::EMPTY, stack: StackId::EMPTY };
        Step { operation, pick, row, tag }
    })
}

/// A sound trace out of any steps.
pub fn sound(steps: Vec<Step>) -> Trace {
    let mut trace = Trace::default();
    let (mut live, mut pending): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
    for step in steps {
        let Step { operation, pick, mut row, tag } = step;
        match operation {
            Operation::Alloc if live.contains(&row.id) => continue,
            Operation::Alloc => {
                pending.retain(|&id| id != row.id);
                live.push(row.id);
            }
            Operation::Free | Operation::Use if live.is_empty() => continue,
            Operation::Free => {
                row.id = live.swap_remove(pick.index(live.len()));
                pending.push(row.id);
            }
            Operation::Use => row.id = live[pick.index(live.len())],
            Operation::FreeCompleted if pending.is_empty() => continue,
            Operation::FreeCompleted => row.id = pending.swap_remove(pick.index(pending.len())),
            Operation::Sync => row.stream = -1,
            Operation::Wait => row.id >>= 1,
            _ => {}
        }
        row.tag = trace.names.intern(tag);
        trace.rows.push(row);
    }
    trace
}
