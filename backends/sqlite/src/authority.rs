//! [`SqliteAuthority`]: the steps of `requests` behind the authority's trait.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use headwater_core::authority::{Capability, ControlAuthority, Create, Expected, Finding, HeadRead, Severity, Swap, Tag};
use headwater_core::name::{BranchName, RecordKey};
use headwater_core::{Error, ErrorKind, Result};
use tokio::runtime::Handle;

use crate::file::ControlFile;
use crate::requests::{self, Slot};

/// How long a request waits for other processes, if nothing else is set.
const PATIENCE: Duration = Duration::from_secs(30);

/// Heads and records as rows of one SQLite file.
///
/// Guarantees: linearizable among all processes of one host; an acknowledged write survives a loss of power, and so does whatever a read
/// has shown (write-ahead log, `synchronous = FULL`). A version's tag is the SHA-256 of its body. Writers take the file's one write lock
/// before they read, and wait for it up to a bound; readers wait for nobody. Reads create nothing; the first create makes the file.
///
/// Cost: each method is one request: one transaction. A write is one fsync of the log; every thousand pages or so SQLite also moves the log
/// into the file, which is two more.
///
/// Errors: `InvalidInput` where the path, its permissions or another program's file are at fault, `Unavailable` where other processes held
/// the file beyond the bound, and for a full or failing disk, `Unsupported` on a network file system, `FormatMismatch` for a schema of a
/// newer build, `Corrupt` for damage. All name the path and the object. They are definite; what COMMIT itself reports is `Unknown`, but
/// for [`ControlAuthority::remove_record`], which may be repeated freely.
///
/// Cancellation: a request runs as one task on tokio's blocking pool, which dropping its future does not stop: it is applied wholly, or, if
/// the runtime shuts down before the task starts, not at all. Outside a runtime it runs in place.
#[derive(Clone, Debug)]
pub struct SqliteAuthority(Arc<ControlFile>);

impl SqliteAuthority {
    /// The authority of the catalog with this control file, which need not exist; its folder must, when it is first written. Errors with
    /// `InvalidInput` for a path that is not absolute or names no file. No request.
    pub fn new(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if !path.is_absolute() || path.file_name().is_none() || path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(Error::invalid(format!("{:?} is not the absolute path of a file", path.display().to_string())));
        }
        Ok(Self(Arc::new(ControlFile::new(path.to_owned(), PATIENCE))))
    }

    /// The same file, by a handle with connections of its own that waits this long for other processes, in all, at each request (30 seconds
    /// by default).
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        let mut file = ControlFile::new(self.0.path.clone(), patience);
        file.max_pages = self.0.max_pages;
        Self(Arc::new(file))
    }

    /// The same file, by a handle with connections of its own under which it grows to this many pages (of 4 KiB) at most: a write that needs
    /// more is `Unavailable`. Other handles have limits of their own.
    #[must_use]
    pub fn max_pages(self, pages: u32) -> Self {
        let mut file = ControlFile::new(self.0.path.clone(), self.0.patience);
        file.max_pages = Some(pages);
        Self(Arc::new(file))
    }

    /// Runs a whole request on the blocking pool.
    async fn run<T: Send + 'static>(&self, request: impl FnOnce(&ControlFile) -> Result<T> + Send + 'static) -> Result<T, Failed> {
        let file = self.0.clone();
        let Ok(runtime) = Handle::try_current() else { return request(&file).map_err(Failed::Definite) };
        match runtime.spawn_blocking(move || request(&file)).await {
            Ok(outcome) => outcome.map_err(Failed::Definite),
            Err(never_ran) if never_ran.is_cancelled() => {
                Err(Failed::Definite(Error::new(ErrorKind::Unavailable, "the runtime shut down before the request ran").because(never_ran)))
            }
            Err(midway) => Err(Failed::Midway(Error::new(ErrorKind::Unavailable, "the request broke off midway").because(midway))),
        }
    }
}

/// How a request came to no outcome.
enum Failed {
    /// With an error that settles it.
    Definite(Error),
    /// By a panic: whether it was applied is not known.
    Midway(Error),
}

impl Failed {
    fn of_read(self, object: impl std::fmt::Display, operation: &'static str) -> Error {
        let (Self::Definite(error) | Self::Midway(error)) = self;
        error.at("object", object).during(operation)
    }

    fn of_write<T>(self, object: &str, operation: &'static str, unknown: fn(Error) -> T) -> Result<T> {
        match self {
            Self::Definite(error) => Err(error.at("object", object).during(operation)),
            Self::Midway(error) => Ok(unknown(error.at("object", object).during(operation))),
        }
    }
}

/// Says what an uncertain swap is about.
fn swapped(outcome: Result<Swap, Failed>, object: &str, operation: &'static str) -> Result<Swap> {
    match outcome {
        Ok(Swap::Unknown(cause)) => Ok(Swap::Unknown(cause.at("object", object).during(operation))),
        outcome => outcome.or_else(|failed| failed.of_write(object, operation, Swap::Unknown)),
    }
}

#[async_trait]
impl ControlAuthority for SqliteAuthority {
    fn capability(&self) -> Capability {
        // Only Unix syncs directories.
        Capability { power_safe: cfg!(unix), multi_host: false, list_is_strong: true, writes_per_second_per_key: None }
    }

    /// Nothing: the one promise that depends on where the file is, that of its locks, is looked at whenever the file is opened.
    async fn probe(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    /// SQLite's own check of the file, which reads all of it, and how it commits.
    async fn inspect(&self) -> Result<Vec<Finding>> {
        let object = "control file";
        let examined = self.run(requests::examine).await.map_err(|failed| failed.of_read(object, "inspect"))?;
        let finding = |subject: &str, severity, message: String| Finding { subject: subject.to_owned(), severity, message };
        let Some((check, journal)) = examined else {
            return Ok(vec![finding("file", Severity::Good, "there is none yet; the first load makes it".to_owned())]);
        };
        let sound = check == "ok";
        let log = journal == "wal";
        Ok(vec![
            match sound {
                true => finding("file", Severity::Good, "SQLite finds it sound".to_owned()),
                false => finding("file", Severity::Broken, format!("SQLite finds it damaged: {check}; restore it from a backup")),
            },
            match log {
                true => finding("journal", Severity::Good, "write-ahead log: readers and the writer do not wait for each other".to_owned()),
                false => finding(
                    "journal",
                    Severity::Warning,
                    format!(
                        "{journal}: readers and the writer wait for each other; set it back with sqlite3 FILE 'PRAGMA journal_mode = WAL'"
                    ),
                ),
            },
        ])
    }

    async fn read_head(&self, branch: &BranchName, known: Option<&Tag>) -> Result<HeadRead> {
        let slot = Slot::Head(branch.clone());
        let object = slot.object();
        let read = self.run(move |file| requests::read(file, &slot)).await.map_err(|failed| failed.of_read(object, "read head"))?;
        Ok(match read {
            None => HeadRead::Absent,
            Some((_, tag)) if known == Some(&tag) => HeadRead::Unchanged,
            Some((body, tag)) => HeadRead::Found(body.into(), tag),
        })
    }

    async fn swap_head(&self, branch: &BranchName, expected: Expected<'_>, body: Bytes) -> Result<Swap> {
        let slot = Slot::Head(branch.clone());
        let object = slot.object();
        let outcome = match expected {
            Expected::Absent => self.run(move |file| requests::create_head(file, &slot, &body)).await,
            Expected::Tag(expected) => {
                let expected = expected.clone();
                self.run(move |file| requests::swap(file, &slot, &expected, &body)).await
            }
        };
        swapped(outcome, &object, "swap head")
    }

    async fn list_branches(&self) -> Result<Vec<BranchName>> {
        self.run(requests::branches).await.map_err(|failed| failed.of_read("heads", "list branches"))
    }

    async fn create_record(&self, key: &RecordKey, body: Bytes) -> Result<Create> {
        let slot = Slot::Record(key.clone());
        let (object, operation) = (slot.object(), "create record");
        match self.run(move |file| requests::create(file, &slot, &body)).await {
            Ok(Create::Unknown(cause)) => Ok(Create::Unknown(cause.at("object", object).during(operation))),
            outcome => outcome.or_else(|failed| failed.of_write(&object, operation, Create::Unknown)),
        }
    }

    async fn read_record(&self, key: &RecordKey) -> Result<Option<(Bytes, Tag)>> {
        let slot = Slot::Record(key.clone());
        let object = slot.object();
        let read = self.run(move |file| requests::read(file, &slot)).await.map_err(|failed| failed.of_read(object, "read record"))?;
        Ok(read.map(|(body, tag)| (body.into(), tag)))
    }

    async fn swap_record(&self, key: &RecordKey, expected: &Tag, body: Bytes) -> Result<Swap> {
        let (slot, expected) = (Slot::Record(key.clone()), expected.clone());
        let object = slot.object();
        swapped(self.run(move |file| requests::swap(file, &slot, &expected, &body)).await, &object, "swap record")
    }

    async fn list_records(&self, prefix: &str) -> Result<Vec<RecordKey>> {
        let below = prefix.to_owned();
        let listed = self.run(move |file| requests::records(file, &below)).await;
        listed.map_err(|failed| failed.of_read(format_args!("records {prefix}"), "list records"))
    }

    async fn remove_record(&self, key: &RecordKey) -> Result<()> {
        let slot = Slot::Record(key.clone());
        let object = slot.object();
        self.run(move |file| requests::remove(file, &slot)).await.map_err(|failed| failed.of_read(object, "remove record"))
    }
}
