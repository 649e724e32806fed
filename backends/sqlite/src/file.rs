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
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headwater_core::{Error, ErrorKind, Result};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use crate::failure::{crowded, failure, replaced, system};
use crate::network;
use crate::schema::{self, Found, VERSION};
use crate::wait::Patience;

/// Requests of one handle that read at once, each on a thread of its own.
const READERS: usize = 4;
/// Connections that are kept for later.
const KEPT: usize = READERS + 1;

/// The file of one catalog's control.
#[derive(Debug)]
pub(crate) struct ControlFile {
    pub(crate) path: PathBuf,
    /// How long a request waits, in all.
    pub(crate) patience: Duration,
    /// Pages the file may have; SQLite's own limit if `None`.
    pub(crate) max_pages: Option<u32>,
    idle: Mutex<Idle>,
    /// Where those that read queue, and those that write, so that they take few threads however many they are.
    pub(crate) readers: Arc<Semaphore>,
    pub(crate) writer: Arc<Semaphore>,
}

/// One request at the file, and what it may still wait.
pub(crate) struct Turn<'a> {
    pub(crate) file: &'a ControlFile,
    pub(crate) patience: Patience,
}

/// A connection, and the file it was opened to.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    identity: Identity,
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
        let [readers, writer] = [READERS, 1].map(|permits| Arc::new(Semaphore::new(permits)));
        Self { path, patience, max_pages: None, idle: Mutex::default(), readers, writer }
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

    /// The file itself, where the path leads to it by links: SQLite keeps the log beside that.
    fn target(&self) -> PathBuf {
        fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone())
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

impl Turn<'_> {
    /// Does something with a connection, which is kept unless that failed. `None` where there is no file.
    pub(crate) fn with<T>(&self, request: impl FnOnce(&Opened) -> Result<T>) -> Result<Option<T>> {
        self.take(false)?.map(|opened| self.used(opened, request)).transpose()
    }

    /// [`Turn::with`], creating the file where there is none.
    pub(crate) fn with_new<T>(&self, request: impl FnOnce(&Opened) -> Result<T>) -> Result<T> {
        match self.take(true)? {
            Some(opened) => self.used(opened, request),
            None => Err(replaced(&self.file.path)),
        }
    }

    fn used<T>(&self, opened: Opened, request: impl FnOnce(&Opened) -> Result<T>) -> Result<T> {
        let outcome = request(&opened);
        if outcome.is_ok()
            && opened.connection.is_autocommit()
            && let Some(mut idle) = self.patience.lock(&self.file.idle)
            && idle.identity == Some(opened.identity)
            && idle.connections.len() < KEPT
        {
            idle.connections.push(opened.connection);
        }
        outcome
    }

    /// Whether the file is still the one behind the path: what is written to another one is lost.
    pub(crate) fn still(&self, opened: &Opened) -> Result<()> {
        if self.file.identity()? == Some(opened.identity) { Ok(()) } else { Err(replaced(&self.file.path)) }
    }

    fn take(&self, create: bool) -> Result<Option<Opened>> {
        // Every change is one push, pop or clear.
        let Some(mut idle) = self.patience.lock(&self.file.idle) else { return Err(crowded(&self.file.path)) };
        let found = self.file.identity()?;
        if idle.identity != found {
            *idle = Idle::default();
        }
        if found.is_none() && !create {
            return Ok(None);
        }
        if let Some(identity) = found
            && let Some(connection) = idle.connections.pop()
        {
            return Ok(Some(Opened { connection, identity }));
        }
        // Others of this process wait here: nobody reads before what was there is synced.
        let connection = self.open(found.is_none())?;
        let Some(identity) = self.file.identity()? else { return Ok(None) };
        if found.is_some_and(|found| found != identity) {
            return Err(replaced(&self.file.path));
        }
        self.file.sync_found()?;
        idle.identity = Some(identity);
        Ok(Some(Opened { connection, identity }))
    }

    fn open(&self, create: bool) -> Result<Connection> {
        let target = self.file.target();
        network::refuse(target.parent().unwrap_or(&target))?;
        let create = if create { OpenFlags::SQLITE_OPEN_CREATE } else { OpenFlags::empty() };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | create;
        let failed = |error| failure(&self.file.path, error);
        let connection = self.patience.patiently(|| Connection::open_with_flags(&self.file.path, flags)).map_err(failed)?;
        // Waiting is done in `wait`.
        connection.busy_timeout(Duration::ZERO).map_err(failed)?;
        // Setting any of these reads the file, too.
        let settings = "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON; PRAGMA trusted_schema = OFF";
        self.patience.patiently(|| connection.execute_batch(settings)).map_err(failed)?;
        if let Some(pages) = self.file.max_pages {
            let limit = format!("PRAGMA max_page_count = {pages}");
            self.patience.patiently(|| connection.query_row(&limit, [], |_| Ok(()))).map_err(failed)?;
        }
        // The first read finds out what kind of file it is, and replays what a dead process left.
        let found = self.patience.patiently(|| schema::look(&connection)).map_err(failed)?;
        self.check(found)?;
        Ok(connection)
    }

    /// Refuses a file that is not ours, or of a schema this build does not know.
    pub(crate) fn check(&self, found: Found) -> Result<()> {
        let at = |error: Error| Err(error.at("path", self.file.path.display()));
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
        let mode = self.patience.patiently(mode).map_err(|error| failure(&self.file.path, error))?;
        if mode == "wal" {
            return Ok(());
        }
        let problem = "the file system lacks the shared memory that SQLite's write-ahead log needs; choose a path on a local disk";
        Err(Error::new(ErrorKind::Unsupported, problem).at("path", self.file.path.display()))
    }
}
