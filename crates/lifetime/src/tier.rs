//! Tiers.

use std::fmt;

/// How a buffer lives relative to the step, which decides where it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Lives across steps: weights, constants, optimizer state.
    Persistent,
    /// Comes back every step: made before the turning point and read after it, or live over much of the step.
    Cyclic,
    /// The rest.
    Temporary,
}

impl Tier {
    /// All tiers, in this order.
    pub const ALL: [Self; 3] = [Self::Persistent, Self::Cyclic, Self::Temporary];

    /// `persistent`, `cyclic` or `temporary`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Persistent => "persistent",
            Self::Cyclic => "cyclic",
            Self::Temporary => "temporary",
        }
    }

    /// The tier with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.name() == name)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
