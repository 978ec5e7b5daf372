//! A configuration file: TOML, a key a line, families as tables.

use std::fs::File;
use std::io::{self, Read};

use toml::Value;

use crate::{Error, Result, Source};

/// Most bytes of a configuration file.
const MAX_BYTES: u64 = 1 << 20;

/// What the file at `path` says, as `key` and `value` in the form of `GPUMEM_CONF`.
pub(crate) fn read(path: &str, named_by: &Source) -> Result<Vec<(String, String)>> {
    let failed = |source| Error::File { file: path.to_owned(), named_by: named_by.clone(), source };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_BYTES {
        let message = format!("it has more than {MAX_BYTES} bytes");
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, message)));
    }
    parse(&text).map_err(|problem| Error::Toml { file: path.to_owned(), problem })
}

fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        format!("{place}{}", error.message())
    })?;
    let mut pairs = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(members) => {
                for (member, value) in members {
                    let key = format!("{key}.{member}");
                    let value = scalar(&key, value)?;
                    pairs.push((key, value));
                }
            }
            value => {
                let value = scalar(&key, value)?;
                pairs.push((key, value));
            }
        }
    }
    Ok(pairs)
}

/// A value as `GPUMEM_CONF` would have it.
fn scalar(key: &str, value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(is_on) => Ok(is_on.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
            Err(format!("`{key}` is of type {}; settings are texts, numbers, true or false", value.type_str()))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_a_family_and_other_shapes_are_refused() {
        let pairs = parse("guard = true\ninitial = 4096\n[op_pool]\nconv = \"1G\"\n").unwrap();
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("guard", "true"), ("initial", "4096"), ("op_pool.conv", "1G")]);
        assert_eq!(parse("a = [1]").unwrap_err(), "`a` is of type array; settings are texts, numbers, true or false");
        assert!(parse("guard = on\n").unwrap_err().starts_with("line 1: "));
    }
}
