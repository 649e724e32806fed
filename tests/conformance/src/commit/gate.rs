//! A gate around the swaps of one process: each waits there until it is let through, and its reply until it is let back, or is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use headwater_core::authority::{Capability, ControlAuthority, Create, Expected, Finding, HeadRead, Swap, Tag};
use headwater_core::name::{BranchName, RecordKey};
use headwater_core::{Error, ErrorKind, Result};
use tokio::sync::Semaphore;

/// An authority whose swaps of heads wait at a gate.
#[derive(Debug)]
pub(super) struct Gated {
    inner: Arc<dyn ControlAuthority>,
    /// A permit for every swap that has arrived.
    pub(super) arrived: Semaphore,
    /// A permit for every swap that may go on.
    pub(super) open: Semaphore,
    /// A permit for every swap that was applied, or lost.
    pub(super) answered: Semaphore,
    /// A permit for every reply that may go back.
    pub(super) back: Semaphore,
    /// Whether the next reply is lost.
    pub(super) loses: AtomicBool,
}

impl Gated {
    /// A closed gate.
    pub(super) fn new(inner: Arc<dyn ControlAuthority>) -> Self {
        let closed = || Semaphore::new(0);
        Self { inner, arrived: closed(), open: closed(), answered: closed(), back: closed(), loses: AtomicBool::new(false) }
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl ControlAuthority for Gated {
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
        self.inner.read_head(branch, known).await
    }

    async fn swap_head(&self, branch: &BranchName, expected: Expected<'_>, body: Bytes) -> Result<Swap> {
        self.arrived.add_permits(1);
        self.open.acquire().await.unwrap().forget();
        let outcome = self.inner.swap_head(branch, expected, body).await;
        self.answered.add_permits(1);
        self.back.acquire().await.unwrap().forget();
        if self.loses.swap(false, Ordering::SeqCst) {
            return Ok(Swap::Unknown(Error::new(ErrorKind::Unavailable, "the reply was lost")));
        }
        outcome
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
