//! Why the command ends without the answer hoped for, and with which exit code.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use crate::tame::tame;

/// Says something to the person on standard error, which may be closed: then nobody wants to know.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "gpumem: {}", tame(text));
}

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

    /// The system refuses to write a file.
    pub(crate) fn unwritten(path: &Path, source: &io::Error) -> Self {
        Self::input(format!("{}: can't write: {source}", path.display()))
    }

    /// What a writer of a format says, which doesn't know where its bytes go.
    pub(crate) fn writing(path: &Path) -> impl Fn(formats::Error) -> Self {
        move |error| match error {
            formats::Error::Io { source, .. } => Self::unwritten(path, &source),
            error => Self::from(error).in_file(path),
        }
    }

    /// What a picture says that can't be drawn or written.
    pub(crate) fn drawing(path: &Path) -> impl Fn(memviz::Error) -> Self {
        move |error| match error {
            memviz::Error::Write(source) => Self::unwritten(path, &source),
            error => Self::from(error).in_file(path),
        }
    }

    /// Prints the text and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        if !self.text.is_empty() {
            say(&self.text);
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

impl From<lifetime::Error> for Failure {
    fn from(error: lifetime::Error) -> Self {
        match error {
            lifetime::Error::Internal { .. } => Self { code: 3, text: error.to_string() },
            error => Self::input(error.to_string()),
        }
    }
}

impl From<memviz::Error> for Failure {
    fn from(error: memviz::Error) -> Self {
        match error {
            memviz::Error::Internal { .. } => Self { code: 3, text: error.to_string() },
            error => Self::input(error.to_string()),
        }
    }
}

impl From<replay::Error> for Failure {
    fn from(error: replay::Error) -> Self {
        match error {
            replay::Error::Device { .. } | replay::Error::Contents { .. } | replay::Error::Allocator { .. } => {
                Self::internal(error.to_string())
            }
            error => Self::input(error.to_string()),
        }
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
