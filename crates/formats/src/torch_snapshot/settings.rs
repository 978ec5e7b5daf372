//! The allocator's settings, as names and texts.

use hashbrown::{HashMap, HashSet};

use super::store::Store;
use super::value::Value;

/// Settings of one file come to some twenty lines; a file in which one text stands in many places could claim any number.
const MAX_BYTES: usize = 1 << 20;

/// Names and values of a dict and of the dicts right in it, whose names are joined by a dot; a note if not all are there.
pub(super) fn read(store: &Store, value: Value) -> (Vec<(String, String)>, Option<String>) {
    let mut settings = Vec::new();
    let mut bytes = 0;
    for (name, value) in pairs(store, value) {
        match value {
            Value::Dict(_) => {
                for (inner, value) in pairs(store, value) {
                    if !add(&mut settings, &mut bytes, &[name, ".", inner], store, value) {
                        return (settings, Some("some of the allocator's settings were left out".to_owned()));
                    }
                }
            }
            _ if !add(&mut settings, &mut bytes, &[name], store, value) => {
                return (settings, Some("some of the allocator's settings were left out".to_owned()));
            }
            _ => {}
        }
    }
    (settings, None)
}

/// Texts and values of a dict.
fn pairs(store: &Store, dict: Value) -> impl Iterator<Item = (&str, Value)> {
    let items = match dict {
        Value::Dict(index) => store.plain[index as usize].items.as_slice(),
        _ => &[],
    };
    items.as_chunks::<2>().0.iter().filter_map(|[key, value]| match key {
        Value::Text(text) => Some((store.texts.get(*text), *value)),
        _ => None,
    })
}

/// Adds one; false if there is no more room.
fn add(settings: &mut Vec<(String, String)>, bytes: &mut usize, name: &[&str], store: &Store, value: Value) -> bool {
    let value = match value {
        Value::Text(text) if store.texts.get(text).len() > MAX_BYTES => return false,
        Value::Text(text) => store.texts.get(text).to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Negative(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::None => "None".to_owned(),
        other => other.found().to_owned(),
    };
    *bytes += name.iter().map(|part| part.len()).sum::<usize>() + value.len();
    if *bytes > MAX_BYTES {
        return false;
    }
    settings.push((name.concat(), value));
    true
}

/// A setting, or several whose names begin alike.
pub(super) enum Setting<'s> {
    One(&'s str),
    Several(Vec<(&'s str, &'s str)>),
}

/// Puts settings back into dicts in which names without a dot are, in order.
pub(super) fn groups(settings: &[(String, String)]) -> Vec<(&str, Setting<'_>)> {
    let plain: HashSet<&str> = settings.iter().map(|(name, _)| name.as_str()).collect();
    let mut groups: Vec<(&str, Setting<'_>)> = Vec::new();
    let mut of_name: HashMap<&str, usize> = HashMap::new();
    for (name, value) in settings {
        let Some((group, inner)) = name.split_once('.').filter(|(group, _)| !plain.contains(group)) else {
            groups.push((name, Setting::One(value)));
            continue;
        };
        let index = *of_name.entry(group).or_insert(groups.len());
        match groups.get_mut(index) {
            Some((_, Setting::Several(several))) => several.push((inner, value)),
            _ => groups.push((group, Setting::Several(vec![(inner, value)]))),
        }
    }
    groups
}
