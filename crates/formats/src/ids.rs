//! References between the parts of a JSON file.

use hashbrown::HashMap;

use crate::Error;
use crate::error::{Fault, InvalidError};
use crate::json::{Id, Text};

/// Makes errors about the values of one file.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) file: &'a str,
}

impl At<'_> {
    /// `fault` at `place`, which belongs to `name` (empty if it has none).
    pub(crate) fn fault(self, place: impl Into<String>, name: impl Into<String>, fault: Fault) -> Error {
        let (place, name) = (place.into(), name.into());
        Error::Invalid(Box::new(InvalidError { file: self.file.to_owned(), place, name, fault }))
    }
}

/// From identifiers to positions in a list.
pub(crate) enum Positions<'a> {
    /// Every item's identifier is its position.
    Same(u32),
    Map(HashMap<&'a Id<'a>, u32>),
}

impl<'a> Positions<'a> {
    /// Learns the identifiers of a list, at most `u32::MAX` of them.
    ///
    /// `list` is the list's name in the file, `what` an item of it.
    pub(crate) fn new(
        ids: impl ExactSizeIterator<Item = &'a Id<'a>> + Clone,
        list: &str,
        what: &'static str,
        at: At<'_>,
    ) -> Result<Self, Error> {
        let limit = u64::from(u32::MAX);
        let Ok(count) = u32::try_from(ids.len()) else {
            return Err(at.fault(list, "", Fault::TooMany { what: "items", limit }));
        };
        if ids.clone().zip(0..).all(|(id, position)| *id == Id::Number(position)) {
            return Ok(Self::Same(count));
        }
        let mut map = HashMap::with_capacity(ids.len());
        for (id, position) in ids.zip(0..) {
            if let Some(first) = map.insert(id, position) {
                let fault = Fault::Duplicate { what, id: id.to_string(), first: format!("{list}[{first}]") };
                return Err(at.fault(format!("{list}[{position}].id"), "", fault));
            }
        }
        Ok(Self::Map(map))
    }

    /// The identifiers of the list these were learnt from, as texts; none where each is its position. `7` and `"7"` are the
    /// same text and so refused together.
    pub(crate) fn texts(
        &self,
        ids: impl ExactSizeIterator<Item = &'a Id<'a>>,
        list: &str,
        what: &'static str,
        at: At<'_>,
    ) -> Result<Vec<String>, Error> {
        if let Self::Same(_) = self {
            return Ok(Vec::new());
        }
        let texts: Vec<String> = ids.map(ToString::to_string).collect();
        let mut first_of: HashMap<&str, usize> = HashMap::with_capacity(texts.len());
        for (position, text) in texts.iter().enumerate() {
            if let Some(first) = first_of.insert(text.as_str(), position) {
                let fault = Fault::Duplicate { what, id: text.clone(), first: format!("{list}[{first}]") };
                return Err(at.fault(format!("{list}[{position}].id"), "", fault));
            }
        }
        drop(first_of);
        Ok(texts)
    }

    /// The position of the item called `id`.
    pub(crate) fn find(&self, id: &Id<'_>) -> Option<u32> {
        match (self, id) {
            (Self::Same(count), Id::Number(number)) => u32::try_from(*number).ok().filter(|number| number < count),
            (Self::Same(_), Id::Text(_)) => None,
            (Self::Map(map), id) => map.get(id).copied(),
        }
    }
}

/// From names to positions in a list of names.
pub(crate) fn name_positions<'a>(
    names: &'a [Text<'a>],
    list: &str,
    what: &'static str,
    at: At<'_>,
) -> Result<HashMap<&'a str, u32>, Error> {
    if u32::try_from(names.len()).is_err() {
        return Err(at.fault(list, "", Fault::TooMany { what: "names", limit: u64::from(u32::MAX) }));
    }
    let mut map = HashMap::with_capacity(names.len());
    for (name, position) in names.iter().zip(0..) {
        if let Some(first) = map.insert(&**name, position) {
            let fault = Fault::Duplicate { what, id: name.to_string(), first: format!("{list}[{first}]") };
            return Err(at.fault(format!("{list}[{position}]"), "", fault));
        }
    }
    Ok(map)
}
