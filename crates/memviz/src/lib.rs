//! Draws plans, for people.
//!
//! A plan becomes a page ([`write_html`]): one file without network that zooms, pans, searches and explains; or a
//! still picture for a report ([`write_svg`], [`write_png`]). The step is on x, the offset on y, and each buffer is a
//! rectangle: its width is its life, its height its bytes, its colour its tier. Free bytes below a live buffer are
//! hatched, so that the eye finds fragmentation. Above runs the curve of live bytes on the same x axis.
//!
//! Imported by the command only; knows plans, not how they came to be.
#![forbid(unsafe_code)]

mod cells;
mod error;
mod escape;
mod font;
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
mod still;
mod svg;
mod ticks;

pub use error::Error;
pub use options::{PictureOptions, Theme};
pub use plan_page::write_html;
pub use still::{write_png, write_svg};
