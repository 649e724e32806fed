//! An input file: what it is, and that it stays what it was when it was checked.

use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use headwater::{Error, ErrorKind, Result};

use super::Format;
use crate::cli::progress::{Counted, Progress};

const BUFFER: usize = 256 * 1024;
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// A regular file that is read more than once.
#[derive(Clone, Debug)]
pub(super) struct InputFile {
    path: PathBuf,
    size: u64,
    modified: Option<std::time::SystemTime>,
}

/// A text file behind its byte order mark.
pub(super) type Text = BufReader<Counted<File>>;

impl InputFile {
    /// Looks at the file; refuses what cannot be read twice, and what is empty.
    pub(super) fn find(path: &Path) -> Result<Self> {
        let shown = path.display();
        let metadata = std::fs::metadata(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => {
                Error::new(ErrorKind::NotFound, "there is no such file; check the path").at("file", shown.to_string())
            }
            _ => Error::invalid("the file cannot be read").at("file", shown.to_string()).because(source),
        })?;
        if metadata.is_dir() {
            return Err(Error::invalid("this is a directory; name a file in it").at("file", shown));
        }
        if !metadata.is_file() {
            return Err(Error::invalid("this is not a regular file, and it is read twice; write it to a file first").at("file", shown));
        }
        if metadata.len() == 0 {
            return Err(Error::invalid("the file is empty; a file without rows still needs its header or schema").at("file", shown));
        }
        Ok(Self { path: path.to_owned(), size: metadata.len(), modified: metadata.modified().ok() })
    }

    /// Its size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Its path, for messages.
    pub(super) fn shown(&self) -> impl std::fmt::Display {
        self.path.display()
    }

    /// An error about the file.
    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        Error::invalid(message).at("file", self.path.display())
    }

    /// An error of reading it.
    pub(super) fn failed(&self, source: io::Error) -> Error {
        self.error("the file cannot be read").because(source)
    }

    /// Opens it. A file that is not the one that was checked is refused.
    pub(super) fn open(&self) -> Result<File> {
        let file = File::open(&self.path).map_err(|source| self.failed(source))?;
        let same = |metadata: &Metadata| metadata.len() == self.size && metadata.modified().ok() == self.modified;
        if file.metadata().is_ok_and(|metadata| same(&metadata)) {
            Ok(file)
        } else {
            Err(self.error("the file changed while it was being loaded; load it again"))
        }
    }

    /// Opens it as UTF-8 text.
    pub(super) fn open_text(&self, format: Format, progress: &Progress) -> Result<Text> {
        let mut text = BufReader::with_capacity(BUFFER, Counted { inner: self.open()?, progress: progress.clone() });
        let start = text.fill_buf().map_err(|source| self.failed(source))?;
        let other = match start {
            [0x1F, 0x8B, ..] => Some("compressed with gzip; decompress it first"),
            [0x28, 0xB5, 0x2F, 0xFD, ..] => Some("compressed with zstd; decompress it first"),
            [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => Some("UTF-16; convert it to UTF-8 first"),
            [b'P', b'A', b'R', b'1', ..] => Some("Parquet; load it with --format parquet"),
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] => Some("Arrow; load it with --format arrow"),
            _ => None,
        };
        if let Some(other) = other {
            return Err(self.error(format!("the file is not {}: it is {other}", format.title())));
        }
        if start.starts_with(BOM) {
            text.consume(BOM.len());
        }
        Ok(text)
    }

    /// The error for text that is not UTF-8: where the first bad byte is.
    pub(super) fn not_utf8(&self) -> Error {
        const REMEDY: &str = "the file is not UTF-8; convert it, e.g. with iconv -f ISO-8859-1 -t UTF-8";
        match self.open().and_then(|file| first_bad_byte(file).map_err(|source| self.failed(source))) {
            Ok(Some((line, byte, value))) => self.error(REMEDY).at("line", line).at("byte", format!("{byte}, 0x{value:02X}")),
            Ok(None) => self.error(REMEDY),
            Err(error) => error,
        }
    }
}

/// The line, the place in the file (counted from 1) and the value of the first byte that is not UTF-8.
fn first_bad_byte(file: impl Read) -> io::Result<Option<(u64, u64, u8)>> {
    let mut reader = BufReader::with_capacity(BUFFER, file);
    let (mut line, mut offset, mut bytes) = (1, 0_u64, Vec::new());
    loop {
        bytes.clear();
        let read = reader.read_until(b'\n', &mut bytes)?;
        if read == 0 {
            return Ok(None);
        }
        if let Err(error) = std::str::from_utf8(&bytes) {
            let bad = error.valid_up_to();
            return Ok(Some((line, offset + bad as u64 + 1, bytes.get(bad).copied().unwrap_or_default())));
        }
        line += 1;
        offset += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bad_byte_is_found() {
        assert_eq!(first_bad_byte(&b"a\n\xC3\xA4\nx\xE9y"[..]).unwrap(), Some((3, 7, 0xE9)));
        assert_eq!(first_bad_byte("größe".as_bytes()).unwrap(), None);
    }
}
