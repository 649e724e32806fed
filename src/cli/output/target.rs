//! Where output goes: standard output, or a file that appears whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use headwater::Error;

use crate::cli::failure::Failure;
use crate::cli::render::Style;

/// Set when the reader of standard output went away: whatever failed then failed because of that.
static UNREAD: AtomicBool = AtomicBool::new(false);

const BUFFER: usize = 64 * 1024;

/// A place for output.
#[derive(Debug)]
pub(crate) enum Target {
    /// Standard output.
    Stdout(BufWriter<io::Stdout>),
    /// A file.
    File(Pending),
}

/// A file being written beside its place.
#[derive(Debug)]
pub(crate) struct Pending {
    file: Option<BufWriter<File>>,
    written: PathBuf,
    place: PathBuf,
}

impl Target {
    /// Standard output, or a file. An existing file is replaced when the output is complete.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        match path {
            None => Ok(Self::Stdout(BufWriter::with_capacity(BUFFER, io::stdout()))),
            Some(path) => Ok(Self::File(Pending::create(path)?)),
        }
    }

    /// The failure of a write: silent if nobody reads any more.
    pub(super) fn failure(error: Error) -> Failure {
        if UNREAD.load(Ordering::Relaxed) { Failure::Unread } else { Failure::Error(error) }
    }

    /// Writes text.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.write_all(text.as_bytes()).map_err(|source| Self::failure(Error::invalid("the output cannot be written").because(source)))
    }

    /// Makes everything written so far final.
    pub(crate) fn complete(mut self) -> Result<(), Failure> {
        self.flush().map_err(|source| Self::failure(Error::invalid("the output cannot be written").because(source)))?;
        match self {
            Self::Stdout(_) => Ok(()),
            Self::File(pending) => pending.complete(),
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(out) => noticed(out.write(bytes)),
            Self::File(Pending { file: Some(file), .. }) => file.write(bytes),
            Self::File(_) => Err(io::Error::other("the file is complete")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(out) => noticed(out.flush()),
            Self::File(Pending { file: Some(file), .. }) => file.flush(),
            Self::File(_) => Ok(()),
        }
    }
}

fn noticed<T>(result: io::Result<T>) -> io::Result<T> {
    result.inspect_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            UNREAD.store(true, Ordering::Relaxed);
        }
    })
}

impl Pending {
    fn create(place: &Path) -> Result<Self, Failure> {
        let failed = |source: io::Error| {
            Failure::Error(Error::invalid("the output file cannot be written; check the path").at("file", place.display()).because(source))
        };
        let Some(name) = place.file_name().filter(|_| !place.is_dir()) else {
            return Err(Failure::Error(Error::invalid("the output is a directory; name a file in it").at("file", place.display())));
        };
        // Two commands that write one file each have their own; the last to finish wins.
        for attempt in 0_u32.. {
            let mut own = std::ffi::OsString::from(".");
            own.push(name);
            own.push(format!(".{}.{attempt}.part", std::process::id()));
            let written = place.with_file_name(own);
            match File::create_new(&written) {
                Ok(file) => {
                    return Ok(Self { file: Some(BufWriter::with_capacity(BUFFER, file)), written, place: place.to_owned() });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(io::ErrorKind::AlreadyExists.into()))
    }

    fn complete(mut self) -> Result<(), Failure> {
        let moved = || -> io::Result<()> {
            if let Some(file) = self.file.take() {
                file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
            }
            std::fs::rename(&self.written, &self.place)
        };
        let mut moved = moved;
        moved().map_err(|source| {
            Failure::Error(Error::invalid("the output file cannot be written").at("file", self.place.display()).because(source))
        })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // After a rename there is nothing to remove; after a failure half a file must not stay.
        let _ = std::fs::remove_file(&self.written);
    }
}

/// Writes text to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut target = Target::open(None)?;
    target.text(text)?;
    target.complete()
}

/// What standard output understands.
pub(crate) fn style() -> Style {
    let terminal = io::stdout().is_terminal();
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Style { color: terminal && !plain, cut: terminal }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        let names = || std::fs::read_dir(folder.path()).unwrap().count();

        let mut target = Target::open(Some(&path)).unwrap();
        target.text("half").unwrap();
        drop(target);
        assert_eq!(names(), 0);

        let mut target = Target::open(Some(&path)).unwrap();
        target.text("whole").unwrap();
        assert!(!path.exists());
        target.complete().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(names(), 1);

        assert!(Target::open(Some(folder.path())).is_err());
        assert!(Target::open(Some(&folder.path().join("no/such/folder"))).is_err());
    }
}
