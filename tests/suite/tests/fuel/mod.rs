//! An authority that fails after so many requests, so that an endless loop of them ends and is seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use headwater_core::authority::{Capability, ControlAuthority, Create, Expected, Finding, HeadRead, Swap, Tag};
use headwater_core::name::{BranchName, RecordKey};
use headwater_core::{Error, ErrorKind, Result};

#[derive(Debug)]
pub(crate) struct Fuel {
    inner: Arc<dyn ControlAuthority>,
    left: AtomicUsize,
}

impl Fuel {
    pub(crate) fn new(inner: Arc<dyn ControlAuthority>, requests: usize) -> Arc<Self> {
        Arc::new(Self { inner, left: AtomicUsize::new(requests) })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }

    fn burn(&self) -> Result<()> {
        let spent = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        spent.map(drop).map_err(|_| Error::new(ErrorKind::Unavailable, "the requests of this test are used up"))
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl ControlAuthority for Fuel {
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
        self.burn()?;
        self.inner.read_head(branch, known).await
    }

    async fn swap_head(&self, branch: &BranchName, expected: Expected<'_>, body: Bytes) -> Result<Swap> {
        self.burn()?;
        self.inner.swap_head(branch, expected, body).await
    }

    async fn list_branches(&self) -> Result<Vec<BranchName>> {
        self.burn()?;
        self.inner.list_branches().await
    }

    async fn create_record(&self, key: &RecordKey, body: Bytes) -> Result<Create> {
        self.burn()?;
        self.inner.create_record(key, body).await
    }

    async fn read_record(&self, key: &RecordKey) -> Result<Option<(Bytes, Tag)>> {
        self.burn()?;
        self.inner.read_record(key).await
    }

    async fn swap_record(&self, key: &RecordKey, expected: &Tag, body: Bytes) -> Result<Swap> {
        self.burn()?;
        self.inner.swap_record(key, expected, body).await
    }

    async fn list_records(&self, prefix: &str) -> Result<Vec<RecordKey>> {
        self.burn()?;
        self.inner.list_records(prefix).await
    }

    async fn remove_record(&self, key: &RecordKey) -> Result<()> {
        self.burn()?;
        self.inner.remove_record(key).await
    }
}
