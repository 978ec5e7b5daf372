//! Why the command ends without the answer hoped for, and with which exit code.

use std::io;
use std::path::Path;
use std::process::ExitCode;

/// An error on its way to the person.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// The question was understood and the answer is no (1). Empty text prints nothing further.
    pub(crate) fn no(text: String) -> Self {
        Self { code: 1, text }
    }

    /// The input is bad (2).
    pub(crate) fn input(text: String) -> Self {
        Self { code: 2, text }
    }

    /// gpumem is at fault (3).
    pub(crate) fn internal(text: String) -> Self {
        Self { code: 3, text: format!("internal error: {text}") }
    }

    /// The same, naming the file it is about.
    pub(crate) fn in_file(self, path: &Path) -> Self {
        Self { text: format!("{}: {}", path.display(), self.text), ..self }
    }

    /// Prints the text and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        if !self.text.is_empty() {
            eprintln!("gpumem: {}", self.text);
        }
        ExitCode::from(self.code)
    }
}

impl From<formats::Error> for Failure {
    fn from(error: formats::Error) -> Self {
        Self::input(error.to_string())
    }
}

impl From<coloring::Error> for Failure {
    fn from(error: coloring::Error) -> Self {
        match error {
            coloring::Error::Internal { what } => Self::internal(what),
            error => Self::input(error.to_string()),
        }
    }
}

impl From<memviz::Error> for Failure {
    fn from(error: memviz::Error) -> Self {
        Self::input(error.to_string())
    }
}

impl From<io::Error> for Failure {
    /// For standard output: whoever closed it has read enough.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { code: 0, text: String::new() };
        }
        Self::input(format!("standard output: {error}"))
    }
}
