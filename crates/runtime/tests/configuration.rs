//! Who wins, what is refused, and whether the page says it all.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use runtime::{Configuration, Error, KEYS, Kind, Source};

fn resolve(call: &str, environment: &[(&str, &str)]) -> Result<Configuration, Error> {
    let look = |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    Configuration::resolve(call, &[], &look)
}

fn refusal(call: &str, environment: &[(&str, &str)]) -> String {
    resolve(call, environment).unwrap_err().to_string()
}

struct TomlFile(std::path::PathBuf);

impl TomlFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gpumem-{name}-{}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TomlFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

#[test]
fn call_wins_over_variable_over_alias_over_file_over_default() {
    let file = TomlFile::new("order", "hard_budget = \"1G\"\ninitial = 1\nguard = true\n[op_pool]\nconv = \"2M\"\n");
    let conf = format!("@{}; hard_budget=3G; op_pool.gelu=5M", file.path());
    let environment =
        [("GPUMEM_CONF", conf.as_str()), ("GPUMEM_HARD_BUDGET", "2G"), ("GPUMEM_INITIAL", "7"), ("GPUMEM_DEVICE", " ")];
    let found = resolve("hard_budget = 4G", &environment).unwrap();
    assert_eq!(
        (found.size("hard_budget"), &found.setting("hard_budget").unwrap().source),
        (Some(4 << 30), &Source::Call)
    );
    let without = resolve("", &environment).unwrap();
    let source = |name: &str| without.setting(name).unwrap().source.clone();
    assert_eq!((without.size("hard_budget"), source("hard_budget")), (Some(3 << 30), Source::Variable("GPUMEM_CONF")));
    assert_eq!((without.size("initial"), source("initial")), (Some(7), Source::Variable("GPUMEM_INITIAL")));
    assert_eq!((without.is_on("guard"), source("guard")), (true, Source::File(file.path().to_owned())));
    // An empty variable isn't set.
    assert_eq!((without.text("device"), source("device")), (Some("host"), Source::Default));
    let pools: Vec<_> = without.op_pools().collect();
    assert_eq!(pools, [("conv", 2 << 20), ("gelu", 5 << 20)]);
    let fields = [("hard_budget", "5G".to_owned())];
    let in_fields = Configuration::resolve("hard_budget=4G", &fields, &|_| None).unwrap();
    assert_eq!(in_fields.size("hard_budget"), Some(5 << 30));
}

#[test]
fn the_files_of_the_call_win_over_those_of_the_variable() {
    let (first, second) =
        (TomlFile::new("first", "initial = 1\n"), TomlFile::new("second", "initial = 2\nguard = true\n"));
    let conf = format!("@{}", second.path());
    let found = resolve(&format!("@{}", first.path()), &[("GPUMEM_CONF", &conf)]).unwrap();
    assert_eq!((found.size("initial"), found.is_on("guard")), (Some(1), true));
}

#[test]
fn what_is_wrong_is_named_with_its_place_whether_it_would_have_won_or_not() {
    assert_eq!(refusal("op_pool.=1M", &[]), "`op_pool.` in the call is no setting; did you mean `op_pool.NAME`?");
    assert_eq!(refusal("@ ;guard=on", &[]), "`@` in the call is not `key=value` and not `@file.toml`");
    assert_eq!(
        refusal("", &[("GPUMEM_CONF", "gaurd=on")]),
        "`gaurd` in GPUMEM_CONF is no setting; did you mean `guard`?"
    );
    assert_eq!(
        refusal("initial=1", &[("GPUMEM_INITIAL", "lots")]),
        "`lots` in GPUMEM_INITIAL is no value for `initial`: a size is a number up to 2^62 with K, M, G or T (binary) \
         behind it, or nothing for bytes"
    );
    assert_eq!(
        refusal("hand_over=al", &[]),
        "`al` in the call is no value for `hand_over`: it is one of recorded, all, off; did you mean `all`?"
    );
    assert_eq!(refusal("guard", &[]), "`guard` in the call is not `key=value` and not `@file.toml`");
    assert_eq!(refusal("guard=on;guard=off", &[]), "the call sets `guard` twice");
    assert!(refusal("@no/such/file.toml", &[]).contains("no/such/file.toml, named by the call, can't be read"));
    let file = TomlFile::new("wrong", "guard = true\n\ninitial = [1]\n");
    assert!(refusal(&format!("@{}", file.path()), &[]).contains("`initial` is of type array"));
    let file = TomlFile::new("broken", "guard = true\ninitial =\n");
    assert!(refusal(&format!("@{}", file.path()), &[]).contains(": line 2: "));
    assert!(refusal("cached_limit=101", &[]).contains("from 0 to 100"));
}

/// The table of docs/configuration.md, made from the keys.
fn table() -> String {
    let mut table = String::from("| key | value | default | variable | what it does |\n|---|---|---|---|---|\n");
    for key in KEYS {
        let value = match key.kind {
            Kind::Size => "size".to_owned(),
            Kind::Percent => "0 to 100".to_owned(),
            Kind::Switch => "on, off".to_owned(),
            Kind::Word(words) => words.join(", "),
            _ => "text".to_owned(),
        };
        let name = key.name.replace("op_pool.", "op_pool.NAME");
        let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
        let alias = key.alias.map(|alias| format!("`{alias}`")).unwrap_or_default();
        table += &format!("| `{name}` | {value} | {default} | {alias} | {} |\n", key.help);
    }
    table
}

#[test]
fn the_page_lists_every_key_as_it_is() {
    let page = include_str!("../../../docs/configuration.md");
    assert!(page.contains(&table()), "docs/configuration.md needs this table:\n{}", table());
}
