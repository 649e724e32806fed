//! [`SqliteAuthority`]: the steps of `requests` behind the authority's trait.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use headwater_core::authority::{Capability, ControlAuthority, Create, Expected, Finding, HeadRead, Severity, Swap, Tag};
use headwater_core::blocking::{self, Failed};
use headwater_core::name::{BranchName, RecordKey};
use headwater_core::{Error, Result};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::failure::crowded;
use crate::file::{ControlFile, Turn};
use crate::requests::{self, Slot};
use crate::wait::Patience;

/// How long a request waits, if nothing else is set.
const PATIENCE: Duration = Duration::from_secs(30);

/// Heads and records as rows of one SQLite file.
///
/// Guarantees: linearizable among all processes of one host; an acknowledged write survives a loss of power, and so does whatever a read
/// has shown (write-ahead log, `synchronous = FULL`). A version's tag is the SHA-256 of its body. Writers take the file's one write lock
/// before they read, and wait for it up to a bound; readers wait for no writer. Reads create nothing; the first create makes the file.
///
/// One bound holds for all that a request waits for: its turn among those of this handle (one that writes and four that read run at once, so
/// that no number of them takes all threads of the blocking pool), a thread, and other processes. What has not begun by then never does.
///
/// Cost: each method is one request: one transaction. A write is one fsync of the log; every thousand pages or so SQLite also moves the log
/// into the file, which is two more.
///
/// Errors: `InvalidInput` where the path, its permissions or another program's file are at fault, `Unavailable` where other processes held
/// the file beyond the bound, and for a full or failing disk, `Unsupported` on a network file system, `FormatMismatch` for a schema of a
/// newer build, `Corrupt` for damage. All name the path and the object. They are definite; what COMMIT itself reports is `Unknown`, but
/// for [`ControlAuthority::remove_record`], which may be repeated freely.
///
/// Cancellation: dropping the future of a request that has begun does not stop it, and it is applied wholly. One that still waits for its
/// turn is not applied at all. A runtime must have time enabled; outside of one a request runs in place.
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

    /// The same file, by a handle with connections of its own whose requests wait this long, in all (30 seconds by default).
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

    async fn read<T: Send + 'static>(&self, request: impl FnOnce(&Turn<'_>) -> Result<T> + Send + 'static) -> Result<T, Failed> {
        self.run(&self.0.readers, request).await
    }

    async fn write<T: Send + 'static>(&self, request: impl FnOnce(&Turn<'_>) -> Result<T> + Send + 'static) -> Result<T, Failed> {
        self.run(&self.0.writer, request).await
    }

    /// Runs a whole request on the blocking pool, when it is its turn in the queue. What it waited there, it cannot wait for the file.
    async fn run<T, F>(&self, queue: &Arc<Semaphore>, request: F) -> Result<T, Failed>
    where
        T: Send + 'static,
        F: FnOnce(&Turn<'_>) -> Result<T> + Send + 'static,
    {
        let (file, patience) = (self.0.clone(), self.0.patience);
        if Handle::try_current().is_err() {
            return request(&Turn { file: &file, patience: Patience::new(patience) }).map_err(Failed::Definite);
        }
        let asked = Instant::now();
        let left = move || patience.saturating_sub(asked.elapsed());
        let Ok(Ok(place)) = timeout(patience, queue.clone().acquire_owned()).await else {
            return Err(Failed::Definite(crowded(&file.path)));
        };
        blocking::run_within(left(), move || {
            // Held until it has ended, whether anybody waits for it or not.
            let _place = place;
            request(&Turn { file: &file, patience: Patience::new(left()) })
        })
        .await
    }
}

fn of_read(failed: Failed, object: impl Display, operation: &'static str) -> Error {
    failed.of_read().at("object", object).during(operation)
}

fn of_write<T>(failed: Failed, object: &str, operation: &'static str, unknown: fn(Error) -> T) -> Result<T> {
    failed.map(|error| error.at("object", object).during(operation)).of_write(unknown)
}

/// Says what an uncertain swap is about.
fn swapped(outcome: Result<Swap, Failed>, object: &str, operation: &'static str) -> Result<Swap> {
    match outcome {
        Ok(Swap::Unknown(cause)) => Ok(Swap::Unknown(cause.at("object", object).during(operation))),
        outcome => outcome.or_else(|failed| of_write(failed, object, operation, Swap::Unknown)),
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
        let examined = self.read(requests::examine).await.map_err(|failed| of_read(failed, object, "inspect"))?;
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
        let read = self.read(move |turn| requests::read(turn, &slot)).await.map_err(|failed| of_read(failed, object, "read head"))?;
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
            Expected::Absent => self.write(move |turn| requests::create_head(turn, &slot, &body)).await,
            Expected::Tag(expected) => {
                let expected = expected.clone();
                self.write(move |turn| requests::swap(turn, &slot, &expected, &body)).await
            }
        };
        swapped(outcome, &object, "swap head")
    }

    async fn list_branches(&self) -> Result<Vec<BranchName>> {
        self.read(requests::branches).await.map_err(|failed| of_read(failed, "heads", "list branches"))
    }

    async fn create_record(&self, key: &RecordKey, body: Bytes) -> Result<Create> {
        let slot = Slot::Record(key.clone());
        let (object, operation) = (slot.object(), "create record");
        match self.write(move |turn| requests::create(turn, &slot, &body)).await {
            Ok(Create::Unknown(cause)) => Ok(Create::Unknown(cause.at("object", object).during(operation))),
            outcome => outcome.or_else(|failed| of_write(failed, &object, operation, Create::Unknown)),
        }
    }

    async fn read_record(&self, key: &RecordKey) -> Result<Option<(Bytes, Tag)>> {
        let slot = Slot::Record(key.clone());
        let object = slot.object();
        let read = self.read(move |turn| requests::read(turn, &slot)).await.map_err(|failed| of_read(failed, object, "read record"))?;
        Ok(read.map(|(body, tag)| (body.into(), tag)))
    }

    async fn swap_record(&self, key: &RecordKey, expected: &Tag, body: Bytes) -> Result<Swap> {
        let (slot, expected) = (Slot::Record(key.clone()), expected.clone());
        let object = slot.object();
        swapped(self.write(move |turn| requests::swap(turn, &slot, &expected, &body)).await, &object, "swap record")
    }

    async fn list_records(&self, prefix: &str) -> Result<Vec<RecordKey>> {
        let below = prefix.to_owned();
        let listed = self.read(move |turn| requests::records(turn, &below)).await;
        listed.map_err(|failed| of_read(failed, format_args!("records {prefix}"), "list records"))
    }

    async fn remove_record(&self, key: &RecordKey) -> Result<()> {
        let slot = Slot::Record(key.clone());
        let object = slot.object();
        self.write(move |turn| requests::remove(turn, &slot)).await.map_err(|failed| of_read(failed, object, "remove record"))
    }
}
