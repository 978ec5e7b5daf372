//! What a person sees while something takes long.

use std::time::Duration;

use coloring::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// A line on the terminal that says what is going on; gone when dropped. Nothing where there is no terminal.
pub(crate) struct Spinner(Option<ProgressBar>);

impl Spinner {
    /// A line, if wanted and standard error is a terminal.
    pub(crate) fn new(wanted: bool) -> Self {
        if !wanted || !std::io::IsTerminal::is_terminal(&std::io::stderr()) {
            return Self(None);
        }
        let bar = ProgressBar::new_spinner().with_message("reading");
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(Some(bar))
    }

    /// Says this.
    pub(crate) fn say(&self, text: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(text.to_owned());
        }
    }

    /// Prints a line of its own beside it.
    pub(crate) fn aside(&self, print: impl FnOnce()) {
        match &self.0 {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Says how good the best plan is so far.
    pub(crate) fn show(&self, progress: &Progress) {
        let over = progress.peak.0.saturating_sub(progress.lower_bound.0) as f64 / progress.lower_bound.0.max(1) as f64;
        self.say(&format!(
            "planning: peak {}, {:.3} % over the bound ({})",
            progress.peak,
            over * 100.0,
            progress.solver
        ));
    }
}

/// A bar on the terminal for work whose end is known; gone when dropped. Nothing where there is no terminal.
pub(crate) struct Bar(Option<ProgressBar>);

impl Bar {
    /// A bar over `total` pieces of work, if wanted and standard error is a terminal.
    pub(crate) fn new(wanted: bool, total: u64, what: &str) -> Self {
        if !wanted || !std::io::IsTerminal::is_terminal(&std::io::stderr()) {
            return Self(None);
        }
        let bar = ProgressBar::new(total).with_message(what.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:40}] {percent} % {eta} left") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(Some(bar))
    }

    /// So much is done.
    pub(crate) fn set(&self, done: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(done);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}
