//! Regressions to be found: an authority that asks for more than it was asked for, as a change of the code above it would.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use headwater::Result;
use headwater::authority::{Capability, ControlAuthority, Create, Expected, Finding, HeadRead, Swap, Tag};
use headwater::head::{Head, Segment};
use headwater::name::{BranchName, RecordKey};
use headwater::registry::OpenedBackend;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A lookup folds the journal.
    Fold,
    /// A lookup reads the newest segment again.
    Reread,
    /// A commit lists the records.
    List,
}

#[derive(Debug)]
pub(crate) struct Seeded {
    inner: Arc<dyn ControlAuthority>,
    fault: Fault,
    known: Mutex<Option<Head>>,
}

impl Seeded {
    pub(crate) fn between(backend: OpenedBackend, fault: Fault) -> OpenedBackend {
        OpenedBackend { authority: Arc::new(Self { inner: backend.authority, fault, known: Mutex::default() }), ..backend }
    }

    async fn read_more(&self, read: &HeadRead) -> Result<()> {
        if let HeadRead::Found(body, _) = read {
            *self.known.lock().unwrap() = Some(serde_json::from_slice(body).unwrap());
        }
        let Some(head) = self.known.lock().unwrap().clone() else { return Ok(()) };
        let mut next = head.segments.first().cloned();
        while let Some(pointer) = next {
            let record = self.inner.read_record(&pointer.key(&head.branch, head.incarnation)).await?;
            let segment: Segment = serde_json::from_slice(&record.unwrap().0).unwrap();
            next = if self.fault == Fault::Fold { segment.segments.first().cloned() } else { None };
        }
        Ok(())
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl ControlAuthority for Seeded {
    fn capability(&self) -> Capability {
        self.inner.capability()
    }

    async fn probe(&self) -> Result<Vec<Finding>> {
        self.inner.probe().await
    }

    async fn inspect(&self) -> Result<Vec<Finding>> {
        self.inner.inspect().await
    }

    async fn read_head(&self, branch: &BranchName, known: Option<&Tag>) -> Result<HeadRead> {
        let read = self.inner.read_head(branch, known).await?;
        if self.fault != Fault::List {
            self.read_more(&read).await?;
        }
        Ok(read)
    }

    async fn swap_head(&self, branch: &BranchName, expected: Expected<'_>, body: Bytes) -> Result<Swap> {
        if self.fault == Fault::List {
            self.inner.list_records("").await?;
        }
        self.inner.swap_head(branch, expected, body).await
    }

    async fn list_branches(&self) -> Result<Vec<BranchName>> {
        self.inner.list_branches().await
    }

    async fn create_record(&self, key: &RecordKey, body: Bytes) -> Result<Create> {
        self.inner.create_record(key, body).await
    }

    async fn read_record(&self, key: &RecordKey) -> Result<Option<(Bytes, Tag)>> {
        self.inner.read_record(key).await
    }

    async fn swap_record(&self, key: &RecordKey, expected: &Tag, body: Bytes) -> Result<Swap> {
        self.inner.swap_record(key, expected, body).await
    }

    async fn list_records(&self, prefix: &str) -> Result<Vec<RecordKey>> {
        self.inner.list_records(prefix).await
    }

    async fn remove_record(&self, key: &RecordKey) -> Result<()> {
        self.inner.remove_record(key).await
    }
}
