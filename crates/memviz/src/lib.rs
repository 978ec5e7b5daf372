//! Draws plans and histories, for people.
//!
//! A history (what an allocator did) becomes a page ([`write_history_html`]) with curves of bytes over time, the blocks
//! at their addresses, and the state at any moment. A plan becomes a page ([`write_html`]): one file without network that zooms, pans, searches and explains; or a
//! still picture for a report ([`write_svg`], [`write_png`]). The step is on x, the offset on y, and each buffer is a
//! rectangle: its width is its life, its height its bytes, its colour its tier. Free bytes below a live buffer are
//! hatched, so that the eye finds fragmentation. Above runs the curve of live bytes on the same x axis.
//!
//! **Promises.** Names do nothing but be shown, whatever they hold: they travel as base 64, and the page's content
//! security policy lets no script run but its own. Numbers are exact up to 64 bits. The same plan and options give
//! the same bytes. Sizes are bounded: see each function.
//!
//! **The idea.** Rectangles of a valid plan don't overlap, so a frame of the page costs about one write a pixel and a
//! few operations a rectangle; the page fills its pixels itself (`assets/plan-raster.js`) and needs no graphics card.
//! Rectangles thinner than a pixel are summed in cells by differences at their corners (a summed-area table run
//! backwards, after F. Crow, *Summed-Area Tables for Texture Mapping*, SIGGRAPH 1984), so that a million of them cost
//! no more than their number. Still pictures do the same (`cells`). The page of a history draws in tiles that lie fast
//! on its data, so that a moving view only fills what is new; what a few columns show of all events is worked out here
//! (`history/overview.rs`) and drawn before the page has read the rest.
//!
//! **Costs.** O(n log n) in the number of buffers or events; a page takes about 12 bytes a buffer or 4 to 20 an event,
//! plus deflated names.
//!
//! **Refuses** an empty live range, an end past 2^64, a picture too small to read or too large to hold: [`Error`].
//!
//! Imported by the command only; knows plans and histories, not how they came to be.
//!
//! ```
//! use coloring::{BoundKind, PlacedBuffer, Plan, Status};
//! use lifetime::{Bytes, HalfStep, LiveRange, Offset, Tier};
//!
//! let buffer = PlacedBuffer {
//!     id: "b0".to_owned(),
//!     name: "hidden".to_owned(),
//!     op: None,
//!     tier: Tier::Temporary,
//!     offset: Offset(0),
//!     bytes: Bytes(4096),
//!     alignment: 1,
//!     range: LiveRange::new(HalfStep(0), HalfStep(4)),
//!     fixed: false,
//!     gaps: Vec::new(),
//! };
//! let plan = Plan {
//!     name: "tiny".to_owned(),
//!     buffers: vec![buffer],
//!     separations: Vec::new(),
//!     end: HalfStep(4),
//!     peak: Bytes(4096),
//!     max_load: Bytes(4096),
//!     lower_bound: Bytes(4096),
//!     bound_kind: BoundKind::Load,
//!     status: Status::Optimal,
//!     capacity: None,
//!     order: None,
//!     solver: String::new(),
//! };
//! let mut page = Vec::new();
//! memviz::write_html(&plan, &memviz::PictureOptions::default(), &mut page)?;
//! assert!(page.starts_with(b"<!doctype html>"));
//! # Ok::<(), memviz::Error>(())
//! ```
#![forbid(unsafe_code)]

mod cells;
mod error;
mod escape;
mod font;
mod history;
mod model;
mod numbers;
mod options;
mod pack;
mod palette;
mod plan_page;
mod plan_rects;
mod plan_scene;
mod png;
#[cfg(test)]
mod samples;
mod scene;
mod shell;
mod sketch;
mod still;
mod svg;
mod ticks;

pub use error::Error;
pub use history::{ColorBy, HistoryOptions, write_history_html};
pub use options::{PictureOptions, Theme};
pub use plan_page::write_html;
pub use still::{write_history_png, write_history_svg, write_png, write_svg};
