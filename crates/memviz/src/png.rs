//! A scene as PNG.

use std::io::Write;

use tiny_skia::{
    Color, FillRule, IntSize, LineCap, Paint, PathBuilder, Pixmap, PremultipliedColorU8, Stroke, StrokeDash, Transform,
};

use crate::{
    Error,
    font::{Font, stroke},
    palette::Rgb,
    scene::{Anchor, HATCH_PERIOD, HATCH_WIDTH, Item, Rect, Scene, Text},
};

/// Writes `scene` with `scale` pixels for each of its own.
pub(crate) fn write(scene: &Scene, scale: u32, mut out: impl Write) -> Result<(), Error> {
    let (width, height) = (scene.width * scale, scene.height * scale);
    let mut canvas =
        Canvas { pixels: blank(width, height, scene.ground)?, scale: f64::from(scale), font: Font::new()? };
    for item in &scene.items {
        match item {
            Item::Rects { fill, alpha, rim, rects, .. } => canvas.rects(rects, *fill, *alpha, *rim),
            Item::Hatch { ground, line, rects } => canvas.hatch(rects, *ground, *line),
            Item::Line { from, to, color, width, dashes } => canvas.line(*from, *to, *color, *width, dashes),
            Item::Text(text) => canvas.text(text),
        }
    }
    let file = canvas.pixels.encode_png().map_err(|_| Error::Internal { what: "pixels cannot be packed as PNG" })?;
    out.write_all(&file)?;
    out.flush()?;
    Ok(())
}

/// Pixels of one colour; lack of memory is an error, not an abort.
fn blank(width: u32, height: u32, ground: Rgb) -> Result<Pixmap, Error> {
    let refused = Error::Pixels { width, height };
    let bytes = width as usize * height as usize * 4;
    let mut data = Vec::new();
    if data.try_reserve_exact(bytes).is_err() {
        return Err(refused);
    }
    data.resize(bytes, 0);
    let Some(mut pixels) = IntSize::from_wh(width, height).and_then(|size| Pixmap::from_vec(data, size)) else {
        return Err(refused);
    };
    pixels.fill(Color::from_rgba8(ground.0, ground.1, ground.2, 255));
    Ok(pixels)
}

struct Canvas {
    pixels: Pixmap,
    scale: f64,
    font: Font,
}

impl Canvas {
    /// Edges of a rectangle in whole pixels, cut to the canvas: left, top, right, bottom.
    fn snapped(&self, place: &Rect) -> [usize; 4] {
        let cut = |value: f64, most: u32| (value * self.scale).round().clamp(0.0, f64::from(most)) as usize;
        let (width, height) = (self.pixels.width(), self.pixels.height());
        [cut(place.x, width), cut(place.y, height), cut(place.right(), width), cut(place.bottom(), height)]
    }

    /// The pixels of one row.
    fn row(&mut self, y: usize, left: usize, right: usize) -> &mut [PremultipliedColorU8] {
        let start = y * self.pixels.width() as usize;
        &mut self.pixels.pixels_mut()[start + left..start + right]
    }

    fn rects(&mut self, rects: &[Rect], fill: Rgb, alpha: f64, rim: Option<Rgb>) {
        let parts = (alpha * 256.0).round().clamp(0.0, 256.0) as u16;
        for place in rects {
            let [left, top, right, bottom] = self.snapped(place);
            for y in top..bottom {
                let row = self.row(y, left, right);
                if parts == 256 {
                    row.fill(opaque(if y == top { rim.unwrap_or(fill) } else { fill }));
                } else {
                    row.iter_mut().for_each(|under| *under = opaque(color(*under).mixed(fill, parts)));
                }
                if let (Some(rim), Some(last)) = (rim, row.last_mut()) {
                    *last = opaque(rim);
                }
            }
        }
    }

    fn hatch(&mut self, rects: &[Rect], ground: Rgb, line: Rgb) {
        let period = (HATCH_PERIOD * self.scale).round() as usize;
        // One row of the pattern; the next is the same, one pixel to the left.
        let shades: Vec<PremultipliedColorU8> = (0..period)
            .map(|along| {
                let distance = along.min(period - along) as f64 * std::f64::consts::FRAC_1_SQRT_2;
                let share = (HATCH_WIDTH / 2.0 * self.scale - distance + 0.5).clamp(0.0, 1.0);
                opaque(ground.mixed(line, (share * 256.0) as u16))
            })
            .collect();
        for place in rects {
            let [left, top, right, bottom] = self.snapped(place);
            for y in top..bottom {
                let pattern = shades.iter().copied().cycle().skip((left + y) % period);
                self.row(y, left, right).iter_mut().zip(pattern).for_each(|(pixel, shade)| *pixel = shade);
            }
        }
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), color: Rgb, width: f64, dashes: &[f64]) {
        let mut path = PathBuilder::new();
        path.move_to((from.0 * self.scale) as f32, (from.1 * self.scale) as f32);
        path.line_to((to.0 * self.scale) as f32, (to.1 * self.scale) as f32);
        let Some(path) = path.finish() else { return };
        let dashes: Vec<f32> = dashes.iter().map(|d| (d * self.scale) as f32).collect();
        let stroke = Stroke {
            width: (width * self.scale) as f32,
            line_cap: LineCap::Butt,
            dash: StrokeDash::new(dashes, 0.0),
            ..Stroke::default()
        };
        self.pixels.stroke_path(&path, &paint(color), &stroke, Transform::identity(), None);
    }

    fn text(&mut self, text: &Text) {
        let size = text.size * self.scale;
        let wide: f64 = text.spans.iter().map(|span| self.font.width(&span.text, size, span.weight)).sum();
        let start = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -wide / 2.0,
            Anchor::End => -wide,
        };
        let (x, y) = (text.x * self.scale, text.y * self.scale);
        // A baseline on a whole pixel makes letters sharper.
        let turn = if text.upwards {
            Transform::from_translate(x.round() as f32, y as f32).pre_rotate(-90.0)
        } else {
            Transform::from_translate(x as f32, y.round() as f32)
        };
        let mut at = start;
        for span in &text.spans {
            if let Some(path) = self.font.outline(&span.text, (at, 0.0), size, span.weight) {
                let paint = paint(span.color);
                self.pixels.fill_path(&path, &paint, FillRule::Winding, turn, None);
                let stroke = Stroke { width: stroke(size, span.weight) as f32, ..Stroke::default() };
                self.pixels.stroke_path(&path, &paint, &stroke, turn, None);
            }
            at += self.font.width(&span.text, size, span.weight);
        }
    }
}

fn paint(color: Rgb) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(color.0, color.1, color.2, 255);
    paint
}

fn opaque(color: Rgb) -> PremultipliedColorU8 {
    tiny_skia::ColorU8::from_rgba(color.0, color.1, color.2, 255).premultiply()
}

fn color(pixel: PremultipliedColorU8) -> Rgb {
    Rgb(pixel.red(), pixel.green(), pixel.blue())
}
