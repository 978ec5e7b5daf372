//! Words that stand for values in JSON: types, kinds, tiers.

use std::fmt;
use std::marker::PhantomData;

use coloring::{BoundKind, Status};
use lifetime::{DType, TensorKind, Tier};
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A value written as one of a list of words.
pub(crate) trait Word: Copy + 'static {
    /// What the word says.
    const WHAT: &'static str;
    /// All values, in the order they are listed in messages.
    const ALL: &'static [Self];

    /// The word.
    fn word(self) -> &'static str;

    /// The value of `word`.
    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|value| value.word() == word)
    }
}

impl Word for DType {
    const WHAT: &'static str = "dtype";
    const ALL: &'static [Self] = Self::ALL;

    fn word(self) -> &'static str {
        self.name()
    }

    fn from_word(word: &str) -> Option<Self> {
        Self::from_name(word)
    }
}

impl Word for Tier {
    const WHAT: &'static str = "tier";
    const ALL: &'static [Self] = &Self::ALL;

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Word for TensorKind {
    const WHAT: &'static str = "kind";
    const ALL: &'static [Self] =
        &[Self::Parameter, Self::ModuleState, Self::OptimizerState, Self::Constant, Self::Input, Self::Intermediate];

    fn word(self) -> &'static str {
        match self {
            Self::Parameter => "parameter",
            Self::ModuleState => "module_state",
            Self::OptimizerState => "optimizer_state",
            Self::Constant => "constant",
            Self::Input => "input",
            Self::Intermediate => "intermediate",
        }
    }
}

impl Word for Status {
    const WHAT: &'static str = "status";
    const ALL: &'static [Self] = &[Self::Optimal, Self::Feasible, Self::Infeasible];

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Word for BoundKind {
    const WHAT: &'static str = "bound_kind";
    const ALL: &'static [Self] = &[Self::Load, Self::AlignedLoad, Self::Fixed, Self::Search];

    fn word(self) -> &'static str {
        self.name()
    }
}

/// Reads a [`Word`]; one that isn't on the list is an error that shows the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spelled<T>(pub(crate) T);

impl<'de, T: Word> Deserialize<'de> for Spelled<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordVisitor<T>(PhantomData<T>);

        impl<T: Word> Visitor<'_> for WordVisitor<T> {
            type Value = Spelled<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a {}", T::WHAT)
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Spelled<T>, E> {
                T::from_word(word).map(Spelled).ok_or_else(|| {
                    let known: Vec<&str> = T::ALL.iter().map(|value| value.word()).collect();
                    E::custom(format_args!("unknown {} `{word}`; known are {}", T::WHAT, known.join(", ")))
                })
            }
        }

        deserializer.deserialize_str(WordVisitor(PhantomData))
    }
}
