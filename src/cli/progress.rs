//! Progress over bytes, on a terminal only.

use std::io::{self, IsTerminal, Read};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on standard error; nothing where nobody watches.
#[derive(Clone, Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar if standard error is a terminal and `quiet` is not asked for.
    pub(crate) fn new(quiet: bool) -> Self {
        if quiet || !io::stderr().is_terminal() {
            return Self::hidden();
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg:>8} [{bar:32}] {bytes}/{total_bytes} {bytes_per_sec}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(bar)
    }

    /// No bar.
    pub(crate) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Begins a pass over this many bytes.
    pub(crate) fn begin(&self, what: &'static str, bytes: u64) {
        self.0.set_length(bytes);
        self.0.set_position(0);
        self.0.set_message(what);
    }

    /// Counts bytes.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    /// Takes the bar off the screen.
    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}

/// A reader that counts what is read.
#[derive(Debug)]
pub(crate) struct Counted<R> {
    pub(crate) inner: R,
    pub(crate) progress: Progress,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.progress.add(read as u64);
        Ok(read)
    }
}

impl<R: io::Seek> io::Seek for Counted<R> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
