//! `gpumem-plan/1`, a finished plan; `docs/formats.md` and `docs/gpumem-plan-1.schema.json` describe it.

mod read;
mod write;

pub(crate) use read::read;
pub use write::write_plan;
