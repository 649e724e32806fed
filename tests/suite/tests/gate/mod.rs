//! An authority that counts swaps and holds them up while its gate is shut, so that the commits behind one swap queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use headwater_core::Result;
use headwater_core::authority::{Capability, ControlAuthority, Create, Expected, Finding, HeadRead, Swap, Tag};
use headwater_core::name::{BranchName, RecordKey};
use tokio::sync::watch;

/// An authority behind a gate that only swaps of heads have to pass.
#[derive(Debug)]
pub(crate) struct Gate {
    inner: Arc<dyn ControlAuthority>,
    open: watch::Sender<bool>,
    begun: AtomicUsize,
    swaps: AtomicUsize,
}

impl Gate {
    /// An open gate.
    pub(crate) fn new(inner: Arc<dyn ControlAuthority>) -> Arc<Self> {
        Arc::new(Self { inner, open: watch::Sender::new(true), begun: AtomicUsize::new(0), swaps: AtomicUsize::new(0) })
    }

    pub(crate) fn shut(&self) {
        self.open.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }

    /// Swaps that came to the gate.
    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// Swaps that passed the gate and landed.
    pub(crate) fn swaps(&self) -> usize {
        self.swaps.load(Ordering::SeqCst)
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl ControlAuthority for Gate {
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
        self.begun.fetch_add(1, Ordering::SeqCst);
        // The sender lives as long as this authority.
        let _ = self.open.subscribe().wait_for(|open| *open).await;
        let swap = self.inner.swap_head(branch, expected, body).await?;
        if matches!(swap, Swap::Swapped(_)) {
            self.swaps.fetch_add(1, Ordering::SeqCst);
        }
        Ok(swap)
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
