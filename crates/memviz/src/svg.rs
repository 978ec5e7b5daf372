//! A scene as SVG.

use std::io::{self, Write};

use crate::{
    escape::markup,
    palette::Rgb,
    scene::{Anchor, HATCH_PERIOD, HATCH_WIDTH, Item, Rect, Scene, Span, Text, Weight},
};

/// Writes `scene` as one SVG file without script, fonts or references.
pub(crate) fn write(scene: &Scene, mut out: impl Write) -> io::Result<()> {
    let (width, height) = (scene.width, scene.height);
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-labelledby=\"title desc\" font-family=\"Inter, 'Segoe UI', system-ui, -apple-system, Roboto, \
         'Helvetica Neue', 'Noto Sans', 'Liberation Sans', Arial, sans-serif\">"
    )?;
    writeln!(out, "<title id=\"title\">{}</title>", markup(&scene.title))?;
    writeln!(out, "<desc id=\"desc\">{}</desc>", markup(&scene.description))?;
    writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>", scene.ground)?;
    let mut hatches: Vec<(Rgb, Rgb)> = Vec::new();
    for item in &scene.items {
        match item {
            Item::Rects { fill, alpha, rim, note, rects } => {
                write!(out, "<path shape-rendering=\"crispEdges\" fill=\"{fill}\"")?;
                if *alpha < 1.0 {
                    write!(out, " fill-opacity=\"{}\"", number(*alpha))?;
                }
                if let Some(rim) = rim {
                    write!(out, " stroke=\"{rim}\" stroke-width=\".6\"")?;
                }
                write_rects(&mut out, rects)?;
                match note {
                    Some(note) => writeln!(out, "><title>{}</title></path>", markup(note))?,
                    None => writeln!(out, "/>")?,
                }
            }
            Item::Hatch { ground, line, rects } => {
                let known = hatches.iter().position(|&pair| pair == (*ground, *line));
                let index = known.unwrap_or(hatches.len());
                if known.is_none() {
                    hatches.push((*ground, *line));
                    write_pattern(&mut out, index, *ground, *line)?;
                }
                write!(out, "<path shape-rendering=\"crispEdges\" fill=\"url(#hatch{index})\"")?;
                write_rects(&mut out, rects)?;
                writeln!(out, "/>")?;
            }
            Item::Line { from, to, color, width, dashes } => {
                write!(
                    out,
                    "<path d=\"M{} {}L{} {}\" stroke=\"{color}\" stroke-width=\"{}\"",
                    number(from.0),
                    number(from.1),
                    number(to.0),
                    number(to.1),
                    number(*width)
                )?;
                if !dashes.is_empty() {
                    let list: Vec<String> = dashes.iter().map(|d| number(*d)).collect();
                    write!(out, " stroke-dasharray=\"{}\"", list.join(" "))?;
                }
                writeln!(out, "/>")?;
            }
            Item::Text(text) => write_text(&mut out, text)?,
        }
    }
    writeln!(out, "</svg>")?;
    out.flush()
}

fn write_rects(out: &mut impl Write, rects: &[Rect]) -> io::Result<()> {
    write!(out, " d=\"")?;
    for place in rects {
        let (w, h) = (number(place.w), number(place.h));
        write!(out, "M{} {}h{w}v{h}h-{w}z", number(place.x), number(place.y))?;
    }
    write!(out, "\"")
}

fn write_pattern(out: &mut impl Write, index: usize, ground: Rgb, line: Rgb) -> io::Result<()> {
    let p = number(HATCH_PERIOD);
    writeln!(
        out,
        "<pattern id=\"hatch{index}\" width=\"{p}\" height=\"{p}\" patternUnits=\"userSpaceOnUse\"><rect width=\"{p}\" \
         height=\"{p}\" fill=\"{ground}\"/><path d=\"M-1 1L1 -1M0 {p}L{p} 0M{} {}L{} {}\" stroke=\"{line}\" \
         stroke-width=\"{HATCH_WIDTH}\"/></pattern>",
        number(HATCH_PERIOD - 1.0),
        number(HATCH_PERIOD + 1.0),
        number(HATCH_PERIOD + 1.0),
        number(HATCH_PERIOD - 1.0),
    )
}

fn write_text(out: &mut impl Write, text: &Text) -> io::Result<()> {
    let (x, y) = (number(text.x), number(text.y));
    write!(out, "<text ")?;
    if text.upwards {
        write!(out, "transform=\"translate({x} {y})rotate(-90)\"")?;
    } else {
        write!(out, "x=\"{x}\" y=\"{y}\"")?;
    }
    write!(out, " font-size=\"{}\"", number(text.size))?;
    match text.anchor {
        Anchor::Start => {}
        Anchor::Middle => write!(out, " text-anchor=\"middle\"")?,
        Anchor::End => write!(out, " text-anchor=\"end\"")?,
    }
    let look = |span: &Span| {
        let weight = if span.weight == Weight::Bold { " font-weight=\"600\"" } else { "" };
        format!(" fill=\"{}\"{weight}", span.color)
    };
    if let [only] = text.spans.as_slice() {
        return writeln!(out, "{}>{}</text>", look(only), markup(&only.text));
    }
    write!(out, ">")?;
    for span in &text.spans {
        write!(out, "<tspan{}>{}</tspan>", look(span), markup(&span.text))?;
    }
    writeln!(out, "</text>")
}

/// A coordinate with at most two decimals, none that are zero.
fn number(value: f64) -> String {
    let hundredths = (value * 100.0).round();
    if hundredths == 0.0 || !hundredths.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{:.2}", hundredths / 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn coordinates_are_short() {
        assert_eq!(number(12.0), "12");
        assert_eq!(number(0.126), "0.13");
        assert_eq!(number(-0.001), "0");
        assert_eq!(number(100.0), "100");
        assert_eq!(number(f64::NAN), "0");
    }
}
