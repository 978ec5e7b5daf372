//! What a caller may choose about a picture.

use crate::Error;

/// Colours of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Theme {
    /// A page follows the reader's system; a static picture is light.
    #[default]
    Auto,
    /// Dark marks on a light ground.
    Light,
    /// Light marks on a dark ground.
    Dark,
}

impl Theme {
    /// `auto`, `light` or `dark`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// The theme with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Auto, Self::Light, Self::Dark].into_iter().find(|theme| theme.name() == name)
    }
}

/// Choices about a picture; the default suits a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureOptions {
    /// Heading; `None` takes the plan's name.
    pub title: Option<String>,
    /// Colours.
    pub theme: Theme,
    /// Width of a static picture in pixels, [`MIN_WIDTH`](Self::MIN_WIDTH) to [`MAX_SIDE`](Self::MAX_SIDE).
    /// A page fills its window and ignores it.
    pub width: u32,
    /// Height of a static picture in pixels, [`MIN_HEIGHT`](Self::MIN_HEIGHT) to [`MAX_SIDE`](Self::MAX_SIDE).
    /// A page fills its window and ignores it.
    pub height: u32,
    /// Pixels of a PNG for one pixel of the layout, 1 to [`MAX_SCALE`](Self::MAX_SCALE): 2 makes text twice as
    /// sharp in a file of twice the width and height. SVG and HTML ignore it.
    pub scale: u32,
}

impl Default for PictureOptions {
    fn default() -> Self {
        Self { title: None, theme: Theme::Auto, width: 1600, height: 900, scale: 1 }
    }
}

impl PictureOptions {
    /// Smallest width at which axes and legend fit.
    pub const MIN_WIDTH: u32 = 480;
    /// Smallest height at which axes and legend fit.
    pub const MIN_HEIGHT: u32 = 320;
    /// Largest width and height: 64 Mi pixels of four bytes are what a PNG may take in memory at scale 1.
    pub const MAX_SIDE: u32 = 8192;
    /// Largest scale.
    pub const MAX_SCALE: u32 = 4;

    /// These options with a theme.
    #[must_use]
    pub fn with_theme(mut self, theme: Theme) -> Self {
        self.theme = theme;
        self
    }

    /// These options with a heading.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// These options with a width and height in pixels.
    #[must_use]
    pub fn with_size(mut self, width: u32, height: u32) -> Self {
        (self.width, self.height) = (width, height);
        self
    }

    /// These options with a scale.
    #[must_use]
    pub fn with_scale(mut self, scale: u32) -> Self {
        self.scale = scale;
        self
    }

    /// Refuses sizes that can't be drawn, or whose pixels at `scale` would take over 256 MiB.
    pub(crate) fn check_size(&self, scale: u32) -> Result<(), Error> {
        let side = |value: u32, least: u32| (least..=Self::MAX_SIDE).contains(&value);
        let most_pixels = u64::from(Self::MAX_SIDE) * u64::from(Self::MAX_SIDE);
        let pixels = u64::from(self.width) * u64::from(self.height) * u64::from(scale) * u64::from(scale);
        let fits = side(self.width, Self::MIN_WIDTH)
            && side(self.height, Self::MIN_HEIGHT)
            && (1..=Self::MAX_SCALE).contains(&scale)
            && pixels <= most_pixels;
        if fits {
            return Ok(());
        }
        Err(Error::Size {
            width: self.width,
            height: self.height,
            scale,
            min_width: Self::MIN_WIDTH,
            min_height: Self::MIN_HEIGHT,
            max_side: Self::MAX_SIDE,
            max_scale: Self::MAX_SCALE,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_cannot_be_drawn_are_refused() {
        let base = PictureOptions::default();
        assert!(base.check_size(1).is_ok());
        assert!(base.clone().with_size(8192, 8192).check_size(1).is_ok());
        for (width, height, scale) in
            [(0, 900, 1), (1600, 0, 1), (8193, 900, 1), (1600, 900, 0), (1600, 900, 5), (8192, 8192, 2)]
        {
            assert!(base.clone().with_size(width, height).check_size(scale).is_err(), "{width}x{height}@{scale}");
        }
    }
}
