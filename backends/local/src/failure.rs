//! What an error of the disk means: its kind, its remedy, and whether the commit it struck is settled.

use std::io::{self, ErrorKind as Io};
use std::path::Path;

use headwater_core::{Error, ErrorKind};

/// The error of a primitive on this path, which applied nothing a reader can see.
pub(crate) fn failure(path: &Path, source: io::Error) -> Error {
    let (kind, message) = match source.kind() {
        Io::PermissionDenied => (ErrorKind::InvalidInput, "the disk refused access; check the owner and mode of the path"),
        Io::ReadOnlyFilesystem => (ErrorKind::InvalidInput, "the file system is read-only; mount it writable or choose another root"),
        Io::NotADirectory | Io::AlreadyExists => {
            (ErrorKind::InvalidInput, "a file stands where a folder of the catalog must be; move it away or choose another root")
        }
        Io::InvalidFilename => (ErrorKind::InvalidInput, "the file system does not take a name this long; choose a shorter root or name"),
        Io::IsADirectory => (ErrorKind::Corrupt, "a folder stands where a file of the catalog must be; move it away"),
        Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => {
            (ErrorKind::Unavailable, "the disk or its quota is full; free some space and try again")
        }
        Io::Unsupported | Io::CrossesDevices | Io::InvalidInput => {
            (ErrorKind::Unsupported, "the file system cannot do what a catalog needs (locks, hard links, rename, fsync of a folder)")
        }
        Io::NotFound => (ErrorKind::Unavailable, "a folder of the catalog vanished; if it was not deleted, try again"),
        _ => (ErrorKind::Unavailable, "the disk failed; check it and try again"),
    };
    Error::new(kind, message).at("path", path.display()).because(source)
}

/// The error of a write that may have been applied.
pub(crate) fn unsettled(path: &Path, source: io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "the disk failed after the write may have been applied; read it back to learn whether it was")
        .at("path", path.display())
        .because(source)
}

/// Whether a rename or link that failed like this changed nothing for sure: the operating system refuses in these ways before it acts.
/// `NotFound` is not one of them: a network file system that repeats an applied rename answers so.
pub(crate) fn refused(source: &io::Error) -> bool {
    matches!(
        source.kind(),
        Io::PermissionDenied
            | Io::ReadOnlyFilesystem
            | Io::StorageFull
            | Io::QuotaExceeded
            | Io::CrossesDevices
            | Io::Unsupported
            | Io::TooManyLinks
            | Io::NotADirectory
            | Io::IsADirectory
            | Io::InvalidFilename
    )
}

/// Whether a directory that cannot be synced like this holds no unsynced name of ours either: its file system takes no writes, or cannot
/// sync directories and so was refused at the first write.
pub(crate) fn nothing_to_sync(source: &io::Error) -> bool {
    matches!(source.kind(), Io::ReadOnlyFilesystem | Io::Unsupported | Io::InvalidInput)
}
