//! A still picture as a list of shapes, so that SVG and PNG show the same.

use crate::palette::Rgb;

/// A rectangle in pixels of the layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rect {
    /// Left edge.
    pub(crate) x: f64,
    /// Upper edge.
    pub(crate) y: f64,
    /// Width.
    pub(crate) w: f64,
    /// Height.
    pub(crate) h: f64,
}

impl Rect {
    /// From edges.
    pub(crate) fn new(left: f64, top: f64, right: f64, bottom: f64) -> Self {
        Self { x: left, y: top, w: right - left, h: bottom - top }
    }

    /// Right edge.
    pub(crate) fn right(&self) -> f64 {
        self.x + self.w
    }

    /// Lower edge.
    pub(crate) fn bottom(&self) -> f64 {
        self.y + self.h
    }
}

/// How heavy letters are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Running text.
    Regular,
    /// Headings and values.
    Bold,
}

/// Which point of a text its place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// Its left end.
    Start,
    /// Its middle.
    Middle,
    /// Its right end.
    End,
}

/// One line of text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Text {
    /// Horizontal place of the anchor.
    pub(crate) x: f64,
    /// Baseline.
    pub(crate) y: f64,
    /// Size of the letters in pixels.
    pub(crate) size: f64,
    /// Anchor.
    pub(crate) anchor: Anchor,
    /// Whether it runs upwards, turned about its place.
    pub(crate) upwards: bool,
    /// What it says, part after part.
    pub(crate) spans: Vec<Span>,
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    /// What it says.
    pub(crate) text: String,
    /// Weight.
    pub(crate) weight: Weight,
    /// Colour.
    pub(crate) color: Rgb,
}

/// A shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    /// Rectangles of one colour that lie apart from each other.
    Rects {
        /// Colour.
        fill: Rgb,
        /// Opacity, 0 to 1.
        alpha: f64,
        /// Colour of a thin line along the upper and right edges, if any.
        rim: Option<Rgb>,
        /// What a reader who points at them is told, if anything.
        note: Option<String>,
        /// The rectangles.
        rects: Vec<Rect>,
    },
    /// Rectangles filled with diagonal lines.
    Hatch {
        /// Colour between the lines.
        ground: Rgb,
        /// Colour of the lines.
        line: Rgb,
        /// The rectangles.
        rects: Vec<Rect>,
    },
    /// A straight line along an axis.
    Line {
        /// From here.
        from: (f64, f64),
        /// To here.
        to: (f64, f64),
        /// Colour.
        color: Rgb,
        /// Width.
        width: f64,
        /// Lengths of dashes and spaces in turn; empty for an unbroken line.
        dashes: &'static [f64],
    },
    /// A text.
    Text(Text),
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scene {
    /// Width in pixels.
    pub(crate) width: u32,
    /// Height in pixels.
    pub(crate) height: u32,
    /// Colour behind everything.
    pub(crate) ground: Rgb,
    /// What the picture is called.
    pub(crate) title: String,
    /// What it shows, in a sentence.
    pub(crate) description: String,
    /// Shapes, later ones over earlier ones.
    pub(crate) items: Vec<Item>,
}

/// Distance between hatch lines, along an axis.
pub(crate) const HATCH_PERIOD: f64 = 8.0;
/// Width of a hatch line.
pub(crate) const HATCH_WIDTH: f64 = 1.1;
