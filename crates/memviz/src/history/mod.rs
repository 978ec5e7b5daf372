//! Pictures of what an allocator did.

mod groups;
mod model;
mod options;
mod overview;
mod page;
mod texts;
mod window;

pub use options::{ColorBy, HistoryOptions};
pub use page::write_history_html;
