//! Which value each setting has, and who said so.

use std::collections::BTreeMap;
use std::fmt;

use crate::keys::nearest;
use crate::{Error, KEYS, Key, Kind, Result, file, values};

/// The variable that carries a whole configuration.
const VARIABLE: &str = "GPUMEM_CONF";

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The program said so.
    Call,
    /// This variable of the environment: `GPUMEM_CONF`, or the alias of one key.
    Variable(&'static str),
    /// This file.
    File(String),
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call => f.write_str("the call"),
            Self::Variable(name) => f.write_str(name),
            Self::File(path) => f.write_str(path),
            Self::Default => f.write_str("the default"),
        }
    }
}

/// One setting, its value and where that came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name; of a family the full one.
    pub name: String,
    /// Its value as written; empty for none.
    pub value: String,
    /// Who won.
    pub source: Source,
}

/// Every setting with its winner. All values are of their key's kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// In the order of [`KEYS`]; families, by name, in place of their key.
    settings: Vec<Setting>,
}

/// What one source says, by key.
type Said = BTreeMap<String, (String, Source)>;

impl Configuration {
    /// Works out all settings: those of the call win over `GPUMEM_CONF`, which wins over the variables of single keys,
    /// then come files, then defaults. `call` and `GPUMEM_CONF` are `key=value` with semicolons between; an item
    /// `@file.toml` names a file, and the call's file wins over that of the variable. `fields` are what the call says in
    /// another way, and win over its text. An empty variable counts as not set.
    ///
    /// # Errors
    /// The first key or value that is wrong, wherever it stands, whether it would have won or not.
    pub fn resolve(
        call: &str,
        fields: &[(&str, String)],
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let set = |name: &str| environment(name).filter(|text| !text.trim().is_empty());
        let mut files = Vec::new();
        let mut said = Said::new();
        for (key, value) in fields {
            say(&mut said, key, value, Source::Call)?;
        }
        let call = read_items(call, &Source::Call, &mut files)?;
        let variable = read_items(&set(VARIABLE).unwrap_or_default(), &Source::Variable(VARIABLE), &mut files)?;
        let mut aliases = Said::new();
        for key in KEYS {
            if let Some((alias, value)) = key.alias.and_then(|alias| Some((alias, set(alias)?))) {
                say(&mut aliases, key.name, value.trim(), Source::Variable(alias))?;
            }
        }
        let mut sources = vec![said, call, variable, aliases];
        for (path, named_by) in &files {
            let mut said = Said::new();
            let source = Source::File(path.clone());
            for (key, value) in file::read(path, named_by)? {
                say(&mut said, &key, &value, source.clone())?;
            }
            sources.push(said);
        }
        Ok(Self::choose(&sources))
    }

    /// The same with the environment of this process.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve). A variable that isn't UTF-8 is read as far as it can be, and then is no value.
    pub fn from_environment(call: &str, fields: &[(&str, String)]) -> Result<Self> {
        Self::resolve(call, fields, &|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    fn choose(sources: &[Said]) -> Self {
        let mut settings = Vec::new();
        let setting = |name: &str, (value, source): (String, Source)| Setting { name: name.to_owned(), value, source };
        for key in KEYS {
            if key.name.ends_with('.') {
                let mut members = Said::new();
                for (name, said) in sources.iter().flat_map(|said| said.range(key.name.to_owned()..)) {
                    if name.starts_with(key.name) && !members.contains_key(name) {
                        members.insert(name.clone(), said.clone());
                    }
                }
                settings.extend(members.into_iter().map(|(name, said)| setting(&name, said)));
            } else {
                let winner = sources.iter().find_map(|said| said.get(key.name)).cloned();
                settings.push(setting(key.name, winner.unwrap_or((key.default.to_owned(), Source::Default))));
            }
        }
        Self { settings }
    }

    /// Every setting there is, those at their default included.
    #[must_use]
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// The setting with this name; `None` if there is none, as for a member of a family that nobody set.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }

    /// All of them as a JSON list of objects: `name`, `value` (null for none), `source`, `help`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let rows = self.settings.iter().map(|setting| {
            let value = Some(setting.value.as_str()).filter(|value| !value.is_empty());
            serde_json::json!({
                "name": setting.name,
                "value": value,
                "source": setting.source.to_string(),
                "help": Key::find(&setting.name).map(|key| key.help),
            })
        });
        serde_json::Value::Array(rows.collect()).to_string()
    }

    /// A text; `None` if it has no value, or there is no such setting.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.setting(name).map(|setting| setting.value.as_str()).filter(|value| !value.is_empty())
    }

    /// A number of bytes; `None` as for [`text`](Self::text).
    #[must_use]
    pub fn size(&self, name: &str) -> Option<u64> {
        self.text(name).and_then(values::parse_size)
    }

    /// A share of a hundred; `None` as for [`text`](Self::text).
    #[must_use]
    pub fn percent(&self, name: &str) -> Option<u8> {
        self.text(name).and_then(values::parse_percent)
    }

    /// Whether a switch is on; one without a value is off.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        self.text(name).and_then(values::parse_switch).unwrap_or(false)
    }

    /// The sizes of the pools that operators have of their own, by operator.
    pub fn op_pools(&self) -> impl Iterator<Item = (&str, u64)> {
        self.settings
            .iter()
            .filter_map(|setting| Some((setting.name.strip_prefix("op_pool.")?, values::parse_size(&setting.value)?)))
    }
}

/// Takes `key=value;key=value`, and notes the files that are named.
fn read_items(text: &str, source: &Source, files: &mut Vec<(String, Source)>) -> Result<Said> {
    let mut said = Said::new();
    for item in text.split(';').map(str::trim).filter(|item| !item.is_empty()) {
        if let Some(path) = item.strip_prefix('@').filter(|path| !path.trim().is_empty()) {
            files.push((path.trim().to_owned(), source.clone()));
            continue;
        }
        let Some((key, value)) = item.split_once('=') else {
            return Err(Error::BadItem { item: item.to_owned(), source_: source.clone() });
        };
        say(&mut said, key.trim(), value.trim(), source.clone())?;
    }
    Ok(said)
}

/// Notes that a source gives this key this value, if it may.
fn say(said: &mut Said, name: &str, value: &str, source: Source) -> Result<()> {
    let Some(key) = Key::find(name) else {
        let nearest = nearest(name, KEYS.iter().map(|key| key.name))
            .map(|near| if near.ends_with('.') { format!("{near}NAME") } else { near });
        return Err(Error::UnknownKey { key: name.to_owned(), source_: source, nearest });
    };
    if let Err(misfit) = values::check(key.kind, value) {
        return Err(Error::BadValue {
            key: name.to_owned(),
            value: value.to_owned(),
            source_: source,
            expected: misfit.expected,
            nearest: misfit.nearest,
        });
    }
    // A simple normal form for lists and for who compares.
    let value = match key.kind {
        Kind::Switch => if values::parse_switch(value) == Some(true) { "on" } else { "off" }.to_owned(),
        _ => value.to_owned(),
    };
    match said.insert(name.to_owned(), (value, source)) {
        Some((_, source)) => Err(Error::Twice { key: name.to_owned(), source_: source }),
        None => Ok(()),
    }
}
