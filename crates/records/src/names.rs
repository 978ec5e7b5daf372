//! Strings, each kept once.

use std::borrow::Cow;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// A string in [`Names`]. The default is the empty string, which every table has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub u32);

impl NameId {
    /// The empty string.
    pub const EMPTY: Self = Self(0);

    /// Whether this is the empty string.
    pub fn is_empty(self) -> bool {
        self == Self::EMPTY
    }
}

/// A table of strings: equal strings get equal ids, in order of first appearance.
#[derive(Clone, Debug, Default)]
pub struct Names {
    text: String,
    /// End of each string but the empty one in `text`.
    ends: Vec<usize>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Names {
    /// The id of `name`. A table that is full (2^32 - 1 strings) gives the empty string.
    pub fn intern(&mut self, name: &str) -> NameId {
        if name.is_empty() {
            return NameId::EMPTY;
        }
        let hash = self.hasher.hash_one(name);
        let (text, ends) = (&self.text, &self.ends);
        if let Some(&index) = self.table.find(hash, |&index| string_at(text, ends, index) == name) {
            return NameId(index + 1);
        }
        let Ok(index) = u32::try_from(self.ends.len()) else { return NameId::EMPTY };
        if index == u32::MAX {
            return NameId::EMPTY;
        }
        self.text.push_str(name);
        self.ends.push(self.text.len());
        let (text, ends, hasher) = (&self.text, &self.ends, &self.hasher);
        self.table.insert_unique(hash, index, |&index| hasher.hash_one(string_at(text, ends, index)));
        NameId(index + 1)
    }

    /// The string with this id; empty where there is none.
    pub fn get(&self, id: NameId) -> &str {
        match id.0.checked_sub(1) {
            Some(index) if (index as usize) < self.ends.len() => string_at(&self.text, &self.ends, index),
            _ => "",
        }
    }

    /// How many strings there are, the empty one not counted.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether only the empty string is there.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of text held.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// All strings but the empty one, in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (NameId, &str)> {
        (0..self.ends.len() as u32).map(|index| (NameId(index + 1), string_at(&self.text, &self.ends, index)))
    }
}

/// Equal tables give the same strings the same ids.
impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        self.ends == other.ends && self.text == other.text
    }
}

impl Eq for Names {}

fn string_at<'a>(text: &'a str, ends: &[usize], index: u32) -> &'a str {
    let index = index as usize;
    let start = index.checked_sub(1).map_or(0, |before| ends[before]);
    &text[start..ends[index]]
}

/// The text, or its beginning with dots after it where it has more than `most` bytes. A file states a long name once,
/// however often it is used; whoever writes a name at each use has to cut it, or a small file makes an endless one.
pub fn clip(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}...", &text[..text.floor_char_boundary(most.saturating_sub(3))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(clip("ordinary", 8), "ordinary");
        assert_eq!(clip("too long", 7), "too ...");
        assert_eq!(clip("ääää", 6), "ä...");
        assert_eq!(clip("ä", 1), "...");
    }

    #[test]
    fn equal_strings_have_equal_ids_and_come_back() {
        let mut names = Names::default();
        let ids: Vec<NameId> = ["conv", "", "relu", "conv"].iter().map(|name| names.intern(name)).collect();
        assert_eq!(ids, [NameId(1), NameId::EMPTY, NameId(2), NameId(1)]);
        assert_eq!(names.get(ids[2]), "relu");
        assert_eq!(names.get(NameId(77)), "");
        assert_eq!(names.iter().map(|(_, name)| name).collect::<Vec<_>>(), ["conv", "relu"]);
        for index in 0..2000 {
            let name = format!("tensor {index}");
            let id = names.intern(&name);
            assert_eq!(names.get(id), name);
            assert_eq!(names.intern(&name), id);
        }
    }
}
