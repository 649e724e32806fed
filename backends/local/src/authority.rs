//! [`LocalAuthority`]: the steps of `files` behind the authority's trait.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use headwater_core::authority::{Capability, ControlAuthority, Create, Expected, Finding, HeadRead, Swap, Tag};
use headwater_core::blocking::{self, Failed};
use headwater_core::name::{BranchName, RecordKey};
use headwater_core::{Error, Result};

use crate::disk::{Disk, StdDisk};
use crate::files::Files;

/// Heads and records as JSON files below a root folder.
///
/// Guarantees: linearizable among all processes of one host; an acknowledged write survives a loss of power, and so does whatever a read
/// has shown. A version's tag is the SHA-256 of its bytes. Writers of one file exclude each other by an advisory lock, which a process that
/// dies releases; readers take none. Reads create nothing; the root and its folders are made by the first write.
///
/// Cost: each method is one request ([`Disk::request`]). A read is one file read, and one fsync of its folder where this process has not
/// seen that version durable before. A write is two fsyncs, and a few more at the first write to each folder.
///
/// Errors: `InvalidInput` where the path or its permissions are at fault, `Unavailable` for a full or failing disk, `Unsupported` where
/// the file system lacks locks, hard links or folder syncs, `Corrupt` for a file no catalog makes. All name the path. They are definite;
/// what failed at or after its commit point is `Unknown`, but for [`ControlAuthority::remove_record`], which may be repeated freely.
///
/// Cancellation: a request runs as one task on tokio's blocking pool, which dropping its future does not stop: it is applied wholly, or,
/// if the runtime shuts down before the task starts, not at all. Outside a runtime it runs in place.
#[derive(Clone, Debug)]
pub struct LocalAuthority(Arc<Files>);

impl LocalAuthority {
    /// The authority of the catalog at this root, which need not exist. Errors with `InvalidInput` for a path that is not absolute. No
    /// request.
    pub fn new(root: impl AsRef<Path>) -> Result<Self> {
        Self::over(Arc::new(StdDisk), root)
    }

    /// [`LocalAuthority::new`] over this disk.
    pub fn over(disk: Arc<dyn Disk>, root: impl AsRef<Path>) -> Result<Self> {
        let root = root.as_ref();
        if !root.is_absolute() {
            return Err(Error::invalid(format!(
                "{:?} is not an absolute path; give the catalog's root as one",
                root.display().to_string()
            )));
        }
        // Collecting the components drops a trailing slash.
        Ok(Self(Arc::new(Files::new(disk, root.components().collect()))))
    }

    async fn run<T: Send + 'static>(&self, request: impl FnOnce(&Files) -> Result<T> + Send + 'static) -> Result<T, Failed> {
        let files = self.0.clone();
        blocking::run(move || request(&files)).await
    }
}

fn of_read(failed: Failed, operation: &'static str) -> Error {
    failed.of_read().during(operation)
}

fn of_write<T>(failed: Failed, operation: &'static str, unknown: fn(Error) -> T) -> Result<T> {
    failed.map(|error| error.during(operation)).of_write(unknown)
}

#[async_trait]
impl ControlAuthority for LocalAuthority {
    fn capability(&self) -> Capability {
        // Only Unix syncs directories.
        Capability { power_safe: cfg!(unix), multi_host: false, list_is_strong: true, writes_per_second_per_key: None }
    }

    /// Nothing: what this authority promises does not depend on where it runs.
    async fn probe(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    /// Nothing: there are no settings.
    async fn inspect(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    async fn read_head(&self, branch: &BranchName, known: Option<&Tag>) -> Result<HeadRead> {
        let slot = self.0.layout.head(branch);
        let read = self.run(move |files| files.read(&slot)).await.map_err(|failed| of_read(failed, "read head"))?;
        Ok(match read {
            None => HeadRead::Absent,
            Some((_, tag)) if known == Some(&tag) => HeadRead::Unchanged,
            Some((bytes, tag)) => HeadRead::Found(bytes.into(), tag),
        })
    }

    async fn swap_head(&self, branch: &BranchName, expected: Expected<'_>, body: Bytes) -> Result<Swap> {
        let slot = self.0.layout.head(branch);
        let outcome = match expected {
            Expected::Absent => self.run(move |files| files.create_head(&slot, &body)).await,
            Expected::Tag(expected) => {
                let expected = expected.clone();
                self.run(move |files| files.swap(&slot, &expected, &body)).await
            }
        };
        outcome.or_else(|failed| of_write(failed, "swap head", Swap::Unknown))
    }

    async fn list_branches(&self) -> Result<Vec<BranchName>> {
        self.run(Files::branches).await.map_err(|failed| of_read(failed, "list branches"))
    }

    async fn create_record(&self, key: &RecordKey, body: Bytes) -> Result<Create> {
        let slot = self.0.layout.record(key);
        let outcome = self.run(move |files| files.create(&slot, &body)).await;
        outcome.or_else(|failed| of_write(failed, "create record", Create::Unknown))
    }

    async fn read_record(&self, key: &RecordKey) -> Result<Option<(Bytes, Tag)>> {
        let slot = self.0.layout.record(key);
        let read = self.run(move |files| files.read(&slot)).await.map_err(|failed| of_read(failed, "read record"))?;
        Ok(read.map(|(bytes, tag)| (bytes.into(), tag)))
    }

    async fn swap_record(&self, key: &RecordKey, expected: &Tag, body: Bytes) -> Result<Swap> {
        let slot = self.0.layout.record(key);
        let expected = expected.clone();
        let outcome = self.run(move |files| files.swap(&slot, &expected, &body)).await;
        outcome.or_else(|failed| of_write(failed, "swap record", Swap::Unknown))
    }

    async fn list_records(&self, prefix: &str) -> Result<Vec<RecordKey>> {
        let prefix = prefix.to_owned();
        self.run(move |files| files.records(&prefix)).await.map_err(|failed| of_read(failed, "list records"))
    }

    async fn remove_record(&self, key: &RecordKey) -> Result<()> {
        let slot = self.0.layout.record(key);
        self.run(move |files| files.remove(&slot)).await.map_err(|failed| of_read(failed, "remove record"))
    }
}
