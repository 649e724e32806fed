//! The primitive file operations of this backend, so that a test can count them, fail them, and cut the power between any two.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// What an authority request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Reads one head or record.
    Read,
    /// Replaces one head or record, or creates a head.
    Swap,
    /// Creates one record.
    Create,
    /// Lists heads or records.
    List,
    /// Removes one record.
    Remove,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Its name, not decoded.
    pub name: OsString,
    /// Whether it is a directory. A symbolic link is not.
    pub directory: bool,
}

/// An advisory lock, held while this lives.
pub type Lock = Box<dyn Send>;

/// A disk, one blocking primitive per method.
///
/// No method has a default: one that a wrapper forgot would go uncounted. Errors are the operating system's; what the authority decides by
/// is their [`ErrorKind`]. Methods may be called from many threads at once.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Marks the start of one authority request on this file (or directory, for [`Verb::List`]). Called exactly once per request, before
    /// any primitive of it.
    fn request(&self, verb: Verb, path: &Path);

    /// Reads a whole file; `None` if there is none.
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>>;

    /// Writes a new file, which is not durable yet; fails with `AlreadyExists` if the name is taken.
    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Makes a file's bytes durable, but not its name.
    fn sync_file(&self, path: &Path) -> io::Result<()>;

    /// Gives a file another name on the same file system, atomically replacing the file of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name; fails with `AlreadyExists` if that name is taken.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Creates one directory; fails with `AlreadyExists` if the name is taken and with `NotFound` if its parent is missing.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes a directory's names durable: what was created, linked, renamed into and removed from it.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// The entries of a directory, in no order; fails with `NotFound` if it is missing.
    fn list(&self, path: &Path) -> io::Result<Vec<Listed>>;

    /// Removes a file; fails with `NotFound` if there is none.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Waits for the exclusive advisory lock on a lock file, creating the file where it is missing. Excludes other threads and other
    /// processes of this host; the lock of a process that dies is released.
    fn lock(&self, path: &Path) -> io::Result<Lock>;
}

/// The operating system's disk.
///
/// On Unix, syncing a directory is an fsync of it. Elsewhere directories cannot be synced: `sync_dir` does nothing, and the authority does
/// not claim to survive a loss of power.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdDisk;

impl Disk for StdDisk {
    fn request(&self, _verb: Verb, _path: &Path) {}

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        OpenOptions::new().write(true).create_new(true).open(path)?.write_all(bytes)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        // Windows flushes only through a handle that may write.
        OpenOptions::new().write(true).open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    #[cfg(unix)]
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    #[cfg(not(unix))]
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        fs::metadata(path).map(drop)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Listed>> {
        let listed = |entry: io::Result<fs::DirEntry>| {
            let entry = entry?;
            Ok(Listed { directory: entry.file_type()?.is_dir(), name: entry.file_name() })
        };
        fs::read_dir(path)?.map(listed).collect()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        loop {
            match File::lock(&file) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                locked => return locked.map(|()| Box::new(file) as Lock),
            }
        }
    }
}
