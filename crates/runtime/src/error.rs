//! What can be wrong with a configuration, or keep an instance from being made.

use crate::Source;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an instance can't be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A key that doesn't exist.
    #[error("`{key}` in {source_} is no setting{}", did_you_mean(.nearest))]
    UnknownKey {
        /// As written.
        key: String,
        /// Where.
        source_: Source,
        /// The nearest key there is, if one is near.
        nearest: Option<String>,
    },
    /// A value that the key can't have.
    #[error("`{value}` in {source_} is no value for `{key}`: {expected}{}", did_you_mean(.nearest))]
    BadValue {
        /// The key.
        key: String,
        /// As written.
        value: String,
        /// Where.
        source_: Source,
        /// What it could be, in words.
        expected: String,
        /// The nearest word there is, if one is near.
        nearest: Option<String>,
    },
    /// Something between two semicolons that isn't `key=value`.
    #[error("`{item}` in {source_} is not `key=value` and not `@file.toml`")]
    BadItem {
        /// As written.
        item: String,
        /// Where.
        source_: Source,
    },
    /// One text sets a key twice.
    #[error("{source_} sets `{key}` twice")]
    Twice {
        /// The key.
        key: String,
        /// Where.
        source_: Source,
    },
    /// The file can't be read.
    #[error("the configuration file {file}, named by {named_by}, can't be read: {source}")]
    File {
        /// The file.
        file: String,
        /// Who names it.
        named_by: Source,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file isn't TOML.
    #[error("the configuration file {file}: {problem}")]
    Toml {
        /// The file.
        file: String,
        /// What is wrong and where.
        problem: String,
    },
    /// A device that isn't registered.
    #[error("there is no device `{name}`{}; there are {known}", did_you_mean(.nearest))]
    UnknownDevice {
        /// As asked for.
        name: String,
        /// The nearest name there is, if one is near.
        nearest: Option<String>,
        /// All names.
        known: String,
    },
    /// The trace file can't be written.
    #[error("the trace {file} can't be {action}: {source}")]
    Trace {
        /// The file.
        file: String,
        /// What was tried: `created`, `written`.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The allocator refused.
    #[error(transparent)]
    Pools(Box<pools::Error>),
    /// The device refused.
    #[error(transparent)]
    Device(#[from] device::Error),
}

impl From<pools::Error> for Error {
    fn from(error: pools::Error) -> Self {
        Self::Pools(Box::new(error))
    }
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default()
}
