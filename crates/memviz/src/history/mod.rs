//! Pictures of what an allocator did.

mod groups;
mod model;
mod options;
mod overview;
mod page;
mod scene;
mod texts;
mod window;

pub use options::{ColorBy, HistoryOptions};
pub use page::write_history_html;
pub(crate) use scene::scene as history_scene;
