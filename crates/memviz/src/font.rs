//! Letters for pictures made of pixels: outlines and widths from an embedded font (Ubuntu Light, under the Ubuntu
//! Font Licence). It has one weight; others are drawn with a thin stroke around the outline.

use tiny_skia::{Path, PathBuilder};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

use crate::{Error, scene::Weight};

/// A font ready to measure and outline text.
pub(crate) struct Font {
    face: Face<'static>,
    /// Sizes of letters are this many units of the font.
    units: f64,
}

impl Font {
    /// The embedded font.
    pub(crate) fn new() -> Result<Self, Error> {
        let face = Face::parse(epaint_default_fonts::UBUNTU_LIGHT, 0)
            .map_err(|_| Error::Internal { what: "the embedded font cannot be read" })?;
        let units = f64::from(face.units_per_em().max(1));
        Ok(Self { face, units })
    }

    fn glyph(&self, character: char) -> GlyphId {
        let spoken = if character == '\u{a0}' { ' ' } else { character };
        self.face.glyph_index(spoken).unwrap_or(GlyphId(0))
    }

    fn advance(&self, glyph: GlyphId, size: f64, weight: Weight) -> f64 {
        f64::from(self.face.glyph_hor_advance(glyph).unwrap_or(0)) / self.units * size + stroke(size, weight) * 0.7
    }

    /// Width of a text in pixels.
    pub(crate) fn width(&self, text: &str, size: f64, weight: Weight) -> f64 {
        text.chars().map(|c| self.advance(self.glyph(c), size, weight)).sum()
    }

    /// As much of `text` as fits `room` pixels, with an ellipsis where something is missing; empty if hardly
    /// anything fits.
    pub(crate) fn fitted(&self, text: &str, size: f64, weight: Weight, room: f64) -> String {
        let dots = self.width("…", size, weight);
        let mut wide = 0.0;
        let mut fits = 0;
        for (at, character) in text.char_indices() {
            wide += self.advance(self.glyph(character), size, weight);
            if wide > room {
                return if text[..fits].chars().count() < 4 { String::new() } else { format!("{}…", &text[..fits]) };
            }
            if wide + dots <= room {
                fits = at + character.len_utf8();
            }
        }
        text.to_owned()
    }

    /// Outlines of a text whose baseline starts at `(x, y)`.
    pub(crate) fn outline(&self, text: &str, (x, y): (f64, f64), size: f64, weight: Weight) -> Option<Path> {
        let mut pen = Pen { path: PathBuilder::new(), scale: (size / self.units) as f32, x: x as f32, y: y as f32 };
        let mut at = x;
        for character in text.chars() {
            let glyph = self.glyph(character);
            pen.x = at as f32;
            self.face.outline_glyph(glyph, &mut pen);
            at += self.advance(glyph, size, weight);
        }
        pen.path.finish()
    }
}

/// Width of the line that makes letters of this weight.
pub(crate) fn stroke(size: f64, weight: Weight) -> f64 {
    match weight {
        Weight::Regular => size * 0.022,
        Weight::Bold => size * 0.075,
    }
}

/// Draws outlines where they belong; fonts count upwards, pictures downwards.
struct Pen {
    path: PathBuilder,
    scale: f32,
    x: f32,
    y: f32,
}

impl Pen {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, self.y - y * self.scale)
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_its_room() {
        let font = Font::new().unwrap();
        let text = "layer.12.attention.output";
        let whole = font.width(text, 12.0, Weight::Regular);
        assert_eq!(font.fitted(text, 12.0, Weight::Regular, whole + 0.01), text);
        let cut = font.fitted(text, 12.0, Weight::Regular, whole * 0.6);
        assert!(cut.ends_with('…') && font.width(&cut, 12.0, Weight::Regular) <= whole * 0.6, "{cut}");
        assert_eq!(font.fitted(text, 12.0, Weight::Regular, 5.0), "");
    }

    #[test]
    fn characters_the_font_lacks_take_room_too() {
        let font = Font::new().unwrap();
        assert!(font.width("数据", 12.0, Weight::Regular) > 0.0);
        assert!(font.outline("数据", (0.0, 0.0), 12.0, Weight::Regular).is_some());
    }
}
