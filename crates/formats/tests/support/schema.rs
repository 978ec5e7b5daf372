//! Checks a value against the part of JSON Schema that our schemas use. A keyword that isn't known is an error, so
//! that nothing in a schema goes unchecked.

use serde_json::Value;

/// The first place where `value` departs from `schema`, and how.
pub fn validate(schema: &Value, value: &Value) -> Result<(), String> {
    check(schema, schema, value, "$")
}

fn check(root: &Value, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let Value::Object(keywords) = schema else {
        return if *schema == Value::Bool(true) { Ok(()) } else { Err(format!("{place}: nothing is allowed here")) };
    };
    for (keyword, wanted) in keywords {
        check_keyword(root, keywords, keyword, wanted, value, place)?;
    }
    Ok(())
}

fn check_keyword(
    root: &Value,
    keywords: &serde_json::Map<String, Value>,
    keyword: &str,
    wanted: &Value,
    value: &Value,
    place: &str,
) -> Result<(), String> {
    let wrong = |what: String| Err(format!("{place}: {what}"));
    match keyword {
        "$schema" | "$id" | "$defs" | "title" | "description" => {}
        "$ref" => {
            let pointer = wanted.as_str().and_then(|text| text.strip_prefix('#')).expect("a local reference");
            check(root, root.pointer(pointer).expect("a definition"), value, place)?;
        }
        "type" => {
            let types = wanted.as_array().cloned().unwrap_or_else(|| vec![wanted.clone()]);
            if !types.iter().any(|wanted| is_type(value, wanted.as_str().expect("a type"))) {
                return wrong(format!("not {wanted}: {value}"));
            }
        }
        "const" if value != wanted => return wrong(format!("not {wanted}: {value}")),
        "enum" if !wanted.as_array().expect("a list").contains(value) => {
            return wrong(format!("not one of {wanted}: {value}"));
        }
        "const" | "enum" => {}
        "oneOf" => {
            let fits = wanted.as_array().expect("a list").iter().filter(|s| check(root, s, value, place).is_ok());
            if fits.count() != 1 {
                return wrong(format!("{value} does not fit exactly one of {wanted}"));
            }
        }
        "minimum" | "maximum" => {
            let number = value.as_u64().map(i128::from).or(value.as_i64().map(i128::from));
            let limit = i128::from(wanted.as_u64().expect("a number"));
            if number.is_some_and(|number| if keyword == "minimum" { number < limit } else { number > limit }) {
                return wrong(format!("{value} is beyond {keyword} {limit}"));
            }
        }
        "required" => {
            for name in wanted.as_array().expect("a list") {
                let name = name.as_str().expect("a name");
                if value.as_object().is_some_and(|object| !object.contains_key(name)) {
                    return wrong(format!("no {name}"));
                }
            }
        }
        "properties" => {
            for (name, schema) in wanted.as_object().expect("an object") {
                if let Some(value) = value.get(name) {
                    check(root, schema, value, &format!("{place}.{name}"))?;
                }
            }
        }
        "patternProperties" => {
            assert_eq!(wanted.to_string(), r#"{"^(meta|x-.*)$":true}"#, "the one pattern that is known");
        }
        "additionalProperties" => {
            assert_eq!(*wanted, Value::Bool(false));
            for name in value.as_object().into_iter().flat_map(serde_json::Map::keys) {
                let is_known = keywords["properties"].get(name).is_some() || name == "meta" || name.starts_with("x-");
                if !is_known {
                    return wrong(format!("{name} is unknown"));
                }
            }
        }
        "items" => {
            for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                check(root, wanted, item, &format!("{place}[{index}]"))?;
            }
        }
        "minItems" | "maxItems" => {
            let (count, limit) = (value.as_array().map(Vec::len), wanted.as_u64().expect("a number") as usize);
            if count.is_some_and(|count| if keyword == "minItems" { count < limit } else { count > limit }) {
                return wrong(format!("{count:?} items against {keyword} {limit}"));
            }
        }
        "uniqueItems" => {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            if items.iter().enumerate().any(|(index, item)| items[..index].contains(item)) {
                return wrong("an item stands twice".to_owned());
            }
        }
        other => panic!("{place}: the keyword {other} is not known to this checker"),
    }
    Ok(())
}

fn is_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the type {other} is not known to this checker"),
    }
}
