//! `gpumem-graph/1`, our own graph; `docs/formats.md` and `docs/gpumem-graph-1.schema.json` describe it.

mod read;
mod write;

pub(crate) use read::read;
pub use write::write_graph;
pub(crate) use write::write_list;
