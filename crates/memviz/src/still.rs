//! Still pictures of plans and histories.

use std::io::Write;

use coloring::Plan;
use records::History;

use crate::{
    Error, HistoryOptions, PictureOptions,
    history::history_scene,
    plan_scene::{Medium, scene},
    png, svg,
};

/// Edges lie on quarters of a pixel: fine enough to zoom in, coarse enough to be short. The reader's fonts are unknown.
const SVG: Medium = Medium { unit: 0.25, slack: 1.2 };

/// Writes `plan` as SVG of `options.width` by `options.height` pixels, without script, fonts or references.
///
/// The file stays below about 5 MB: at most 20 000 rectangles are drawn one by one, the largest ones; the rest is
/// summed up in squares of a pixel or more. Plans of up to 2 000 rectangles say what each is when pointed at.
///
/// # Errors
/// [`Error::Size`], and those of [`write_html`](crate::write_html).
pub fn write_svg(plan: &Plan, options: &PictureOptions, out: impl Write) -> Result<(), Error> {
    options.check_size(1)?;
    svg::write(&scene(plan, options, &SVG)?, out)?;
    Ok(())
}

/// Writes `plan` as PNG of `options.width` by `options.height` pixels, times `options.scale`.
///
/// Takes four bytes of memory a pixel, and about 0.1 s at 30 000 buffers and the default size. Letters that the
/// embedded font lacks (it has Latin, Greek and Cyrillic) are drawn as an empty box.
///
/// # Errors
/// [`Error::Size`], [`Error::Pixels`] when memory is short, and those of [`write_html`](crate::write_html).
pub fn write_png(plan: &Plan, options: &PictureOptions, out: impl Write) -> Result<(), Error> {
    options.check_size(options.scale)?;
    let medium = Medium { unit: 1.0 / f64::from(options.scale), slack: 1.0 };
    png::write(&scene(plan, options, &medium)?, options.scale, out)
}

/// Writes the first device shown of `history` as SVG of `options.picture.width` by `options.picture.height` pixels:
/// curves over time and addresses over time. The file stays below about 5 MB, as with [`write_svg`].
///
/// # Errors
/// [`Error::Size`], and those of [`write_history_html`](crate::write_history_html).
pub fn write_history_svg(history: &History, options: &HistoryOptions, out: impl Write) -> Result<(), Error> {
    options.picture.check_size(1)?;
    svg::write(&history_scene(history, options, &SVG)?, out)?;
    Ok(())
}

/// Writes the first device shown of `history` as PNG; size, memory and letters are as with [`write_png`].
///
/// # Errors
/// [`Error::Size`], [`Error::Pixels`] when memory is short, and those of
/// [`write_history_html`](crate::write_history_html).
pub fn write_history_png(history: &History, options: &HistoryOptions, out: impl Write) -> Result<(), Error> {
    let scale = options.picture.scale;
    options.picture.check_size(scale)?;
    let medium = Medium { unit: 1.0 / f64::from(scale), slack: 1.0 };
    png::write(&history_scene(history, options, &medium)?, scale, out)
}
