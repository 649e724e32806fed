//! Connections to the file.
//!
//! A connection keeps the file it was opened to also where that was deleted or replaced since, and what it then writes is lost. So every
//! request compares the file behind the path with the one its connections belong to, and opens anew where they differ.
//!
//! A commit is visible once it has been fsynced; but where a process died between the two, whoever opens the file next finds what was
//! not synced. So whoever opens a connection syncs the log and the folder before it answers: what a read showed survives a loss of power,
//! also what a reader concludes from it.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headwater_core::{Error, ErrorKind, Result};
use rusqlite::{Connection, OpenFlags};

use crate::failure::{failure, system};
use crate::network;
use crate::schema::{self, Found, VERSION};
use crate::wait::patiently;

/// Connections that are kept for later.
const KEPT: usize = 4;

/// The file of one catalog's control.
#[derive(Debug)]
pub(crate) struct ControlFile {
    pub(crate) path: PathBuf,
    /// How long a request waits for other processes, in all.
    pub(crate) patience: Duration,
    /// Pages the file may have; SQLite's own limit if `None`.
    pub(crate) max_pages: Option<u32>,
    idle: Mutex<Idle>,
    /// Writers of one process queue here and not at the file.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Idle {
    /// The file these belong to.
    identity: Option<Identity>,
    connections: Vec<Connection>,
}

/// Which file stands behind a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity(u64, u64);

impl Identity {
    #[cfg(unix)]
    fn of(found: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(found.dev(), found.ino())
    }

    /// Elsewhere a file that is open cannot be replaced.
    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Self {
        Self(0, 0)
    }
}

impl ControlFile {
    pub(crate) fn new(path: PathBuf, patience: Duration) -> Self {
        Self { path, patience, max_pages: None, idle: Mutex::default(), writing: Mutex::default() }
    }

    /// Holds back the other writers of this process.
    pub(crate) fn writer(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with a connection, which is kept unless that failed. `None` where there is no file.
    pub(crate) fn with<T>(&self, request: impl FnOnce(&Connection) -> Result<T>) -> Result<Option<T>> {
        let Some((identity, connection)) = self.take(false)? else { return Ok(None) };
        Ok(Some(self.used(identity, connection, request)?))
    }

    /// [`ControlFile::with`], creating the file where there is none.
    pub(crate) fn with_new<T>(&self, request: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        match self.take(true)? {
            Some((identity, connection)) => self.used(identity, connection, request),
            None => {
                Err(Error::new(ErrorKind::Unavailable, "the file vanished; if it was not deleted, try again")
                    .at("path", self.path.display()))
            }
        }
    }

    fn used<T>(&self, identity: Identity, connection: Connection, request: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let outcome = request(&connection);
        if outcome.is_ok() && connection.is_autocommit() {
            let mut idle = self.idle();
            if idle.identity == Some(identity) && idle.connections.len() < KEPT {
                idle.connections.push(connection);
            }
        }
        outcome
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        // Every change is one push, pop or clear.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn identity(&self) -> Result<Option<Identity>> {
        match fs::metadata(&self.path) {
            Ok(found) if found.is_dir() => {
                Err(Error::invalid("a folder stands where the file must be; name a file in it").at("path", self.path.display()))
            }
            Ok(found) => Ok(Some(Identity::of(&found))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(system(&self.path, error)),
        }
    }

    fn take(&self, create: bool) -> Result<Option<(Identity, Connection)>> {
        let mut idle = self.idle();
        let found = self.identity()?;
        if idle.identity != found {
            *idle = Idle::default();
        }
        if found.is_none() && !create {
            return Ok(None);
        }
        if let Some(identity) = found
            && let Some(connection) = idle.connections.pop()
        {
            return Ok(Some((identity, connection)));
        }
        // Others of this process wait here: nobody reads before what was there is synced.
        let connection = self.open(found.is_none())?;
        let Some(identity) = self.identity()? else { return Ok(None) };
        if found.is_some_and(|found| found != identity) {
            return Err(
                Error::new(ErrorKind::Unavailable, "the file was replaced while it was opened; try again").at("path", self.path.display())
            );
        }
        self.sync_found()?;
        idle.identity = Some(identity);
        Ok(Some((identity, connection)))
    }

    /// The file itself, where the path leads to it by links: SQLite keeps the log beside that.
    fn target(&self) -> PathBuf {
        fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone())
    }

    fn open(&self, create: bool) -> Result<Connection> {
        let target = self.target();
        network::refuse(target.parent().unwrap_or(&target))?;
        let create = if create { OpenFlags::SQLITE_OPEN_CREATE } else { OpenFlags::empty() };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | create;
        let failed = |error| failure(&self.path, error);
        let connection = patiently(self.patience, || Connection::open_with_flags(&self.path, flags)).map_err(failed)?;
        // Waiting is done in `wait`.
        connection.busy_timeout(Duration::ZERO).map_err(failed)?;
        // Setting any of these reads the file, too.
        let settings = "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON; PRAGMA trusted_schema = OFF";
        patiently(self.patience, || connection.execute_batch(settings)).map_err(failed)?;
        if let Some(pages) = self.max_pages {
            let limit = format!("PRAGMA max_page_count = {pages}");
            patiently(self.patience, || connection.query_row(&limit, [], |_| Ok(()))).map_err(failed)?;
        }
        // The first read finds out what kind of file it is, and replays what a dead process left.
        let found = patiently(self.patience, || schema::look(&connection)).map_err(failed)?;
        self.check(found)?;
        Ok(connection)
    }

    /// Refuses a file that is not ours, or of a schema this build does not know.
    pub(crate) fn check(&self, found: Found) -> Result<()> {
        let at = |error: Error| Err(error.at("path", self.path.display()));
        match found {
            Found::Empty => Ok(()),
            Found::Ours(version) if (1..=VERSION).contains(&version) => Ok(()),
            Found::Ours(version) => at(Error::new(
                ErrorKind::FormatMismatch,
                format!("the control file has schema version {version}, this build knows {VERSION}; use a newer build"),
            )),
            Found::Foreign => at(Error::invalid("the file is a SQLite database of another program; name another path")),
        }
    }

    /// Makes the log that readers and writers share the way to commit. Idempotent; the file remembers.
    pub(crate) fn use_log(&self, connection: &Connection) -> Result<()> {
        let mode = || connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
        let mode = patiently(self.patience, mode).map_err(|error| failure(&self.path, error))?;
        if mode == "wal" {
            return Ok(());
        }
        let problem = "the file system lacks the shared memory that SQLite's write-ahead log needs; choose a path on a local disk";
        Err(Error::new(ErrorKind::Unsupported, problem).at("path", self.path.display()))
    }

    /// Syncs the log that was found, and its name. One without a byte was made just now, and SQLite syncs what it makes.
    fn sync_found(&self) -> Result<()> {
        let target = self.target();
        let folder = target.parent().unwrap_or(&target);
        let mut log = target.clone().into_os_string();
        log.push("-wal");
        let log = Path::new(&log);
        match fs::metadata(log) {
            Ok(found) if found.len() > 0 => {}
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(system(log, error)),
        }
        for path in [log, folder] {
            use io::ErrorKind as Io;
            match File::open(path).and_then(|file| file.sync_all()) {
                Ok(()) => {}
                // Nothing unsynced is on a file system that cannot be written, or was moved into the file meanwhile; only Unix opens folders.
                Err(error) if matches!(error.kind(), Io::NotFound | Io::ReadOnlyFilesystem | Io::InvalidInput) || cfg!(not(unix)) => {}
                Err(error) => return Err(system(path, error)),
            }
        }
        Ok(())
    }
}
