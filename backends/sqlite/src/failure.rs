//! What an error of SQLite means: its kind and its remedy.

use std::path::Path;

use headwater_core::{Error, ErrorKind};
use rusqlite::ErrorCode;

use crate::wait::is_busy;

/// The error of a request on this file that applied nothing.
pub(crate) fn failure(path: &Path, source: rusqlite::Error) -> Error {
    let (kind, message) = match source.sqlite_error_code() {
        _ if is_busy(&source) => {
            (ErrorKind::Unavailable, "other processes kept the file locked for as long as this one waits; try again, or find who holds it")
        }
        Some(ErrorCode::DiskFull) => {
            (ErrorKind::Unavailable, "the disk, its quota or the file's page limit is full; free some space and try again")
        }
        Some(ErrorCode::ReadOnly) => {
            (ErrorKind::InvalidInput, "the file cannot be written; check the owner and mode of the file and its folder")
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
            (ErrorKind::InvalidInput, "the file cannot be opened; check that its folder is there, and the owner and mode of both")
        }
        Some(ErrorCode::NotADatabase) => (ErrorKind::InvalidInput, "the file is no SQLite database; name another path, or restore it"),
        Some(ErrorCode::DatabaseCorrupt) => (ErrorKind::Corrupt, "SQLite finds the file damaged; restore it from a backup"),
        // Every statement here is fixed: one that does not fit means that somebody changed the tables.
        Some(ErrorCode::Unknown | ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::SchemaChanged) => {
            (ErrorKind::Corrupt, "the file's tables are not as Headwater made them; restore it from a backup")
        }
        Some(ErrorCode::TooBig) => (ErrorKind::InvalidInput, "the object is larger than SQLite takes"),
        Some(ErrorCode::NoLargeFileSupport) => (ErrorKind::Unsupported, "the file system cannot do what SQLite needs"),
        _ => (ErrorKind::Unavailable, "SQLite or the disk failed; check the disk and try again"),
    };
    Error::new(kind, message).at("path", path.display()).because(source)
}

/// The error of a write that may have been applied.
pub(crate) fn unsettled(path: &Path, source: rusqlite::Error) -> Error {
    let message = "the commit failed after the write may have reached the disk; read it back to learn whether it did";
    Error::new(ErrorKind::Unavailable, message).at("path", path.display()).because(source)
}

/// The error of a request whose file is no longer behind the path.
pub(crate) fn replaced(path: &Path) -> Error {
    let message = "the file was deleted or replaced while the request was under way; try again";
    Error::new(ErrorKind::Unavailable, message).at("path", path.display())
}

/// The error of a write that was committed, perhaps to a file that nobody will read.
pub(crate) fn astray(path: &Path, cause: Error) -> Error {
    let message = "the file was replaced, or cannot be found, after the write was committed to it; read back whether what is there has it";
    Error::new(ErrorKind::Unavailable, message).at("path", path.display()).because(cause)
}

/// The error of a request that waited for its patience and did not get to the file.
pub(crate) fn crowded(path: &Path) -> Error {
    let message = "other requests of this process kept this one from the file for as long as it waits; try again";
    Error::new(ErrorKind::Unavailable, message).at("path", path.display())
}

/// The error of the operating system about the file or its folder.
pub(crate) fn system(path: &Path, source: std::io::Error) -> Error {
    use std::io::ErrorKind as Io;
    let (kind, message) = match source.kind() {
        Io::PermissionDenied => (ErrorKind::InvalidInput, "access is refused; check the owner and mode of the path"),
        Io::NotADirectory => (ErrorKind::InvalidInput, "a file stands where a folder must be; choose another path"),
        Io::InvalidFilename | Io::InvalidInput => (ErrorKind::InvalidInput, "the file system does not take this name; choose another path"),
        _ => (ErrorKind::Unavailable, "the disk failed; check it and try again"),
    };
    Error::new(kind, message).at("path", path.display()).because(source)
}
