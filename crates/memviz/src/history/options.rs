//! What a caller may choose about the picture of a history.

use crate::PictureOptions;

/// What colours and bands of a history tell apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ColorBy {
    /// Stream a block was handed out on.
    Stream,
    /// Who asked for it.
    Tag,
    /// From where it was asked for.
    Stack,
    /// How many bytes were asked for.
    Size,
    /// How long it lived: for several steps, over a good part of one, or shortly.
    #[default]
    Life,
}

impl ColorBy {
    /// Every choice, in the order of the page's menu.
    pub const ALL: [Self; 5] = [Self::Life, Self::Stream, Self::Tag, Self::Stack, Self::Size];

    /// `stream`, `tag`, `stack`, `size` or `life`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Tag => "tag",
            Self::Stack => "stack",
            Self::Size => "size",
            Self::Life => "life",
        }
    }

    /// The choice with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }
}

/// Choices about the picture of a history; the default shows all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryOptions {
    /// Heading, theme, and the size of a still picture.
    pub picture: PictureOptions,
    /// Numbers of the devices shown; `None` shows all. A still picture shows the first one of them.
    pub devices: Option<Vec<u32>>,
    /// Number of the first event shown; the state before it is where the picture begins.
    pub from: Option<u64>,
    /// Number after the last event shown.
    pub to: Option<u64>,
    /// First and last step shown. Step 0 ends with the first step event, step 1 with the second. A device without step
    /// events has none and is left out. Together with `from` and `to`, what lies in both is shown.
    pub steps: Option<(u64, u64)>,
    /// What colours tell apart at first.
    pub color_by: ColorBy,
    /// Most events a picture takes, all devices together, once `from`, `to` and `steps` have been applied.
    pub max_events: u64,
    /// Most stacks of a device whose frames a page has, those with most bytes; the others are named by their tag only.
    pub max_stacks: usize,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self {
            picture: PictureOptions::default(),
            devices: None,
            from: None,
            to: None,
            steps: None,
            color_by: ColorBy::default(),
            max_events: 4_000_000,
            max_stacks: 20_000,
        }
    }
}
