//! What every JSON reader shares: records with a stated policy for fields they don't know, errors that say which
//! value they are about, and identifiers that are numbers or text.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::error::JsonError;
use crate::{Error, Result};

/// Opens and closes the place in an error's text on its way up; no parser's message starts with it.
const MARK: char = '\u{1}';

/// Puts a field's name in front of the place that `error` is about.
pub(crate) fn in_field<E: de::Error>(field: &str, error: &E) -> E {
    in_place(field, &error.to_string())
}

/// Puts an index in front of the place that `error` is about.
fn in_item<E: de::Error>(index: usize, error: &E) -> E {
    in_place(&format!("[{index}]"), &error.to_string())
}

/// The line and column at the end of `text`, where there are some, survive: `serde_json` takes them off again.
fn in_place<E: de::Error>(outer: &str, text: &str) -> E {
    let (inner, message) = split_place(text);
    let dot = if inner.is_empty() || inner.starts_with('[') { "" } else { "." };
    E::custom(format_args!("{MARK}{outer}{dot}{inner}{MARK}{message}"))
}

/// The place and the message of an error's text.
fn split_place(text: &str) -> (&str, &str) {
    text.strip_prefix(MARK).and_then(|rest| rest.split_once(MARK)).unwrap_or(("", text))
}

/// Parses `text`, the whole of `file`, as one value of type `T`.
pub(crate) fn parse<'de, T: Deserialize<'de>>(text: &'de [u8], file: &str) -> Result<T> {
    // Checking all of it at once is faster than string by string, which is only done to find the place of a fault.
    let result = match std::str::from_utf8(text) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(text),
    };
    result.map_err(|error| json_error(file, &error))
}

/// The error that `serde_json` reports, as ours.
fn json_error(file: &str, error: &serde_json::Error) -> Error {
    let text = error.to_string();
    let (place, message) = split_place(&text);
    let position = format!(" at line {} column {}", error.line(), error.column());
    Error::Json(Box::new(JsonError {
        file: file.to_owned(),
        line: error.line(),
        column: error.column(),
        place: place.to_owned(),
        problem: message.strip_suffix(&position).unwrap_or(message).to_owned(),
    }))
}

/// A list whose errors say which item they are about.
#[derive(Debug)]
pub(crate) struct Items<T>(pub(crate) Vec<T>);

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemsVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ItemsVisitor<T> {
            type Value = Items<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Items<T>, A::Error> {
                // Grows with what is there; no length is believed.
                let mut items = Vec::new();
                while let Some(item) = seq.next_element().map_err(|e| in_item(items.len(), &e))? {
                    items.push(item);
                }
                Ok(Items(items))
            }
        }

        deserializer.deserialize_seq(ItemsVisitor(PhantomData))
    }
}

/// Text, borrowed from the file where it has no escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Text<'de>(Cow<'de, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}

/// An identifier as a file writes it: a whole number or text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Id<'de> {
    Number(u64),
    Text(Text<'de>),
}

impl fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Id<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IdVisitor;

        impl<'de> Visitor<'de> for IdVisitor {
            type Value = Id<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an identifier (text, or a whole number from 0)")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Id<'de>, E> {
                Ok(Id::Number(number))
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Id<'de>, E> {
                Ok(Id::Text(Text(Cow::Borrowed(text))))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Id<'de>, E> {
                Ok(Id::Text(Text(Cow::Owned(text.to_owned()))))
            }
        }

        deserializer.deserialize_any(IdVisitor)
    }
}

/// What a record does with a field it doesn't know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// Steps over it: the file has more in it than we need.
    Skip,
    /// Refuses it, `meta` and `x-...` aside: a mistyped hint would silently cost memory.
    Refuse,
}

impl Unknown {
    fn accepts(self, key: &str) -> bool {
        self == Self::Skip || key == "meta" || key.starts_with("x-")
    }
}

/// Reads a key: the known field it names, or `None` if it may be stepped over.
pub(crate) struct Key<F: 'static> {
    pub(crate) find: fn(&str) -> Option<F>,
    pub(crate) names: &'static [&'static str],
    pub(crate) unknown: Unknown,
}

impl<'de, F> DeserializeSeed<'de> for &Key<F> {
    type Value = Option<F>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<F> Visitor<'_> for &Key<F> {
    type Value = Option<F>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<Self::Value, E> {
        match (self.find)(key) {
            None if !self.unknown.accepts(key) => Err(E::unknown_field(key, self.names)),
            field => Ok(field),
        }
    }
}

/// Takes a field's value, once.
pub(crate) fn fill<'de, T, A>(slot: &mut Option<T>, field: &'static str, map: &mut A) -> Result<(), A::Error>
where
    T: Deserialize<'de>,
    A: MapAccess<'de>,
{
    if slot.is_some() {
        return Err(de::Error::duplicate_field(field));
    }
    *slot = Some(map.next_value().map_err(|e| in_field(field, &e))?);
    Ok(())
}

/// Steps over a value.
pub(crate) fn skip<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>().map(|_| ())
}

/// Declares a struct that is read from a JSON object. `must` fields have to be there, `may` fields have a default.
macro_rules! record {
    ($name:ident<$life:lifetime>, $unknown:ident: $($must:ident $field:ident $key:literal: $type:ty),+ $(,)?) => {
        #[derive(Debug)]
        pub(crate) struct $name<$life> { $(pub(crate) $field: $type),+ }

        $crate::json::record!(@read $life, $name<$life>, $name, $unknown: $($must $field $key: $type),+);
    };
    ($name:ident, $unknown:ident: $($must:ident $field:ident $key:literal: $type:ty),+ $(,)?) => {
        #[derive(Debug)]
        pub(crate) struct $name { $(pub(crate) $field: $type),+ }

        $crate::json::record!(@read 'de, $name, $name, $unknown: $($must $field $key: $type),+);
    };
    (@read $life:lifetime, $self:ty, $name:ident, $unknown:ident:
        $($must:ident $field:ident $key:literal: $type:ty),+) => {
        impl<$life> serde::de::Deserialize<$life> for $self {
            fn deserialize<D: serde::de::Deserializer<$life>>(deserializer: D) -> Result<Self, D::Error> {
                #[allow(non_camel_case_types)]
                enum Field { $($field),+ }

                const KEY: $crate::json::Key<Field> = $crate::json::Key {
                    find: |key| match key { $($key => Some(Field::$field),)+ _ => None },
                    names: &[$($key),+],
                    unknown: $crate::json::Unknown::$unknown,
                };

                struct RecordVisitor;

                impl<$life> serde::de::Visitor<$life> for RecordVisitor {
                    type Value = $self;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: serde::de::MapAccess<$life>>(self, mut map: A) -> Result<$self, A::Error> {
                        $(let mut $field: Option<$type> = None;)+
                        while let Some(field) = map.next_key_seed(&KEY)? {
                            match field {
                                $(Some(Field::$field) => $crate::json::fill(&mut $field, $key, &mut map)?,)+
                                None => $crate::json::skip(&mut map)?,
                            }
                        }
                        Ok($name { $($field: $crate::json::record!(@end $must $field $key)),+ })
                    }
                }

                deserializer.deserialize_map(RecordVisitor)
            }
        }
    };
    (@end must $field:ident $key:literal) => {
        $field.ok_or_else(|| serde::de::Error::missing_field($key))?
    };
    (@end may $field:ident $key:literal) => { $field.unwrap_or_default() };
}
pub(crate) use record;
