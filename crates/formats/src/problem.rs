//! A placement problem whose buffers have names.

use coloring::{Buffer, Plan, Problem};
use lifetime::Offset;

/// A problem as files bring it: every buffer has an identifier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedProblem {
    /// Name of the file, without folder and endings.
    pub name: String,
    /// Identifier of each buffer of `problem`, each once.
    pub ids: Vec<String>,
    /// The buffers. An offset that the file gives is a fixed one.
    pub problem: Problem,
    /// Identifiers of rows of size 0 that were left out: values of no bytes that are made and never read.
    pub zero_size: Vec<String>,
    /// Columns of the file that were not looked at.
    pub ignored_columns: Vec<String>,
}

impl NamedProblem {
    /// The offsets, if every buffer has one: then the problem is also a complete solution of itself, which can be
    /// checked.
    pub fn solution(&self) -> Option<Vec<Offset>> {
        self.problem.buffers.iter().map(|buffer| buffer.fixed).collect()
    }

    /// How many buffers have a fixed offset.
    pub fn fixed_count(&self) -> usize {
        self.problem.buffers.iter().filter(|buffer| buffer.fixed.is_some()).count()
    }

    /// Forgets all fixed offsets, so that every buffer may be placed anew.
    pub fn release_offsets(&mut self) {
        for buffer in &mut self.problem.buffers {
            buffer.fixed = None;
        }
    }
}

impl From<&Plan> for NamedProblem {
    /// The problem that a plan solves, each buffer fixed where the plan puts it.
    fn from(plan: &Plan) -> Self {
        let buffers = plan.buffers.iter().map(|placed| Buffer {
            range: placed.range,
            size: placed.bytes,
            alignment: placed.alignment,
            fixed: Some(placed.offset),
            gaps: placed.gaps.clone(),
        });
        Self {
            name: plan.name.clone(),
            ids: plan.buffers.iter().map(|placed| placed.id.clone()).collect(),
            problem: Problem {
                buffers: buffers.collect(),
                separations: plan.separations.clone(),
                capacity: plan.capacity,
            },
            zero_size: Vec::new(),
            ignored_columns: Vec::new(),
        }
    }
}
