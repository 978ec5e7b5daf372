//! The settings there are.

/// What kind of value a setting has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A number of bytes: `4096`, `16M`, `1.5G`.
    Size,
    /// A whole number from 0 to 100, with or without `%`.
    Percent,
    /// `on` or `off` (also `1`, `0`, `true`, `false`, `yes`, `no`).
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A name or a path.
    Text,
}

/// A setting there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// What it is called. A name that ends in `.` begins a family: `op_pool.NAME`.
    pub name: &'static str,
    /// What values it has.
    pub kind: Kind,
    /// Its default as it would be written; empty for none.
    pub default: &'static str,
    /// The variable of the environment that is an alias of it; families have none.
    pub alias: Option<&'static str>,
    /// What it does, in a sentence.
    pub help: &'static str,
}

const fn key(name: &'static str, kind: Kind, default: &'static str, alias: &'static str, help: &'static str) -> Key {
    Key { name, kind, default, alias: Some(alias), help }
}

/// Every setting, in the order in which they are listed.
pub const KEYS: &[Key] = &[
    key("device", Kind::Text, "host", "GPUMEM_DEVICE", "The device that instances are made on, by name."),
    key("capacity", Kind::Size, "", "GPUMEM_CAPACITY", "Bytes of a host or simulated device; its own default without."),
    key(
        "hard_budget",
        Kind::Size,
        "",
        "GPUMEM_HARD_BUDGET",
        "Most bytes held from the device; a request beyond fails. No limit but the device's without.",
    ),
    key(
        "soft_budget",
        Kind::Size,
        "",
        "GPUMEM_SOFT_BUDGET",
        "Bytes held from the device above which idle memory is given back first.",
    ),
    key("initial", Kind::Size, "0", "GPUMEM_INITIAL", "Bytes taken from the device at the start."),
    key("minimum_segment", Kind::Size, "2M", "GPUMEM_MINIMUM_SEGMENT", "Least bytes taken from the device at a time."),
    key(
        "cached_limit",
        Kind::Percent,
        "80",
        "GPUMEM_CACHED_LIMIT",
        "Most bytes held from the device and not active, as a share of the device.",
    ),
    key(
        "defragment",
        Kind::Percent,
        "30",
        "GPUMEM_DEFRAGMENT",
        "Fragmentation from which free memory is gathered, at the end of a step.",
    ),
    key("defragment_floor", Kind::Size, "256M", "GPUMEM_DEFRAGMENT_FLOOR", "Least free bytes worth gathering."),
    key(
        "guard",
        Kind::Switch,
        "off",
        "GPUMEM_GUARD",
        "Whether bytes around blocks and in freed blocks are watched: finds overruns, costs time and memory.",
    ),
    key(
        "separate_precisions",
        Kind::Switch,
        "off",
        "GPUMEM_SEPARATE_PRECISIONS",
        "Whether blocks of different precisions lie apart.",
    ),
    key(
        "hand_over",
        Kind::Word(&["recorded", "all", "off"]),
        "recorded",
        "GPUMEM_HAND_OVER",
        "Which blocks another stream may get in the program's own order: see docs/order.md.",
    ),
    key(
        "sees_all_work",
        Kind::Switch,
        "off",
        "GPUMEM_SEES_ALL_WORK",
        "Whether the program says of all work that it was queued, so that a use counts as of the last record.",
    ),
    key(
        "backing",
        Kind::Word(&["auto", "segments", "range"]),
        "auto",
        "GPUMEM_BACKING",
        "Where memory comes from: one range of addresses that grows, separate segments, or whichever the device has.",
    ),
    key(
        "magazines",
        Kind::Switch,
        "on",
        "GPUMEM_MAGAZINES",
        "Whether freed blocks of up to 1 MiB stay with the thread that freed them.",
    ),
    key(
        "stream_waits",
        Kind::Switch,
        "on",
        "GPUMEM_STREAM_WAITS",
        "Whether a request that would fail may make its stream wait for others.",
    ),
    key(
        "host_waits",
        Kind::Switch,
        "on",
        "GPUMEM_HOST_WAITS",
        "Whether a request that would fail may make the host wait, after the callback had its chance.",
    ),
    key(
        "trace",
        Kind::Text,
        "",
        "GPUMEM_TRACE",
        "File that a trace of all requests is written to, as gpumem-trace/1; %p stands for the process's number.",
    ),
    Key {
        name: "op_pool.",
        kind: Kind::Size,
        default: "",
        alias: None,
        help: "op_pool.NAME = SIZE gives the operator NAME a pool of its own with this many bytes.",
    },
];

impl Key {
    /// The key with this name; of a family, any name that continues its own.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| match key.name.strip_suffix('.') {
            Some(_) => name.strip_prefix(key.name).is_some_and(|rest| !rest.is_empty()),
            None => key.name == name,
        })
    }
}

/// The candidate that `text` is most likely a misspelling of; none if all are far from it.
pub(crate) fn nearest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    // Nothing so long is a misspelling, and the distance takes time that grows with the product of both lengths.
    const LONGEST: usize = 64;
    if text.len() > LONGEST {
        return None;
    }
    let text = text.to_ascii_lowercase();
    let near = candidates.into_iter().map(|candidate| (distance(&text, candidate), candidate)).min()?;
    (near.0 <= 1 + text.len() / 4).then(|| near.1.to_owned())
}

/// How many letters have to be changed, put in or taken out (Levenshtein 1966).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::values::check;

    #[test]
    fn names_and_aliases_are_given_once_and_defaults_are_values() {
        for (index, key) in KEYS.iter().enumerate() {
            let others = || KEYS.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, key)| key);
            assert!(
                others().all(|other| other.name != key.name && (other.alias.is_none() || other.alias != key.alias))
            );
            assert!(key.default.is_empty() || check(key.kind, key.default).is_ok(), "{}", key.name);
            assert!(key.help.ends_with('.'));
        }
    }

    #[test]
    fn a_family_has_members_and_is_none_itself() {
        assert_eq!(Key::find("op_pool.conv").unwrap().name, "op_pool.");
        assert!(Key::find("op_pool.").is_none());
        assert!(Key::find("op_pool").is_none());
    }

    #[test]
    fn a_misspelling_is_near_and_something_else_is_not() {
        let find = |text| nearest(text, KEYS.iter().map(|key| key.name));
        assert_eq!(find("gaurd").as_deref(), Some("guard"));
        assert_eq!(find("cache_limit").as_deref(), Some("cached_limit"));
        assert_eq!(find("max_split_size_mb"), None);
        assert_eq!(find(&"x".repeat(100_000)), None);
    }
}
