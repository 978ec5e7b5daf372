//! The words that snapshots are made of. They come first in the table of texts, so that a text's id tells the word.

use records::{Action, NameId, Names};

macro_rules! words {
    ($($word:ident $text:literal,)*) => {
        /// A word with a meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Word { $($word,)* }

        const ALL: &[(Word, &str)] = &[$((Word::$word, $text),)*];
    };
}

words! {
    Action "action",
    Active "active_allocated",
    ActiveSize "active_size",
    ActiveAwaitingFree "active_awaiting_free",
    ActivePendingFree "active_pending_free",
    Addr "addr",
    Address "address",
    AllocatedSize "allocated_size",
    Allocator "allocator",
    AllocatorSettings "allocator_settings",
    Annotations "external_annotations",
    Blocks "blocks",
    Capacity "capacity_bytes",
    Category "category",
    CompileContext "compile_context",
    Device "device",
    DeviceFree "device_free",
    DeviceTraces "device_traces",
    End "END",
    Filename "filename",
    Frames "frames",
    Granule "granule_bytes",
    Gpumem "gpumem",
    History "history",
    Inactive "inactive",
    IsExpandable "is_expandable",
    Large "large",
    Line "line",
    Name "name",
    NotCompiled "N/A",
    PoolId "segment_pool_id",
    RealSize "real_size",
    RequestedSize "requested_size",
    SegmentType "segment_type",
    Segments "segments",
    Size "size",
    Small "small",
    Stage "stage",
    Start "START",
    State "state",
    Stream "stream",
    TimeNs "time_ns",
    TimeUs "time_us",
    TotalSize "total_size",
    UserMetadata "user_metadata",
}

impl Word {
    /// How many there are.
    pub(super) const COUNT: usize = ALL.len();

    /// How it is written.
    pub(super) fn text(self) -> &'static str {
        ALL[self as usize].1
    }

    /// The word that the text with this id is.
    pub(super) fn of(text: NameId) -> Option<Self> {
        ALL.get((text.0 as usize).checked_sub(1)?).map(|(word, _)| *word)
    }
}

/// A table of texts that begins with the words and the actions.
pub(super) fn texts() -> Names {
    let mut texts = Names::default();
    for (_, text) in ALL {
        texts.intern(text);
    }
    for action in Action::ALL {
        texts.intern(action.name());
    }
    texts
}

/// The action that the text with this id names.
pub(super) fn action(text: NameId) -> Option<Action> {
    Action::ALL.get((text.0 as usize).checked_sub(1 + ALL.len())?).copied()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn texts_lead_to_their_words_and_actions() {
        let mut texts = texts();
        for (word, text) in ALL {
            assert_eq!(Word::of(texts.intern(text)), Some(*word));
            assert_eq!(word.text(), *text);
        }
        for known in Action::ALL {
            assert_eq!(action(texts.intern(known.name())), Some(known));
        }
        let other = texts.intern("else");
        assert_eq!((Word::of(other), action(other), Word::of(NameId::EMPTY)), (None, None, None));
    }
}
