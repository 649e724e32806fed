//! The tap on a control authority.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use headwater_core::authority::{Capability, ControlAuthority, Create, Expected, Finding, HeadRead, Swap, Tag};
use headwater_core::name::{BranchName, RecordKey};
use headwater_core::{Error, Result};

use super::{Dead, Tap};

/// An authority behind a tap.
#[derive(Debug)]
pub struct TapAuthority {
    inner: Arc<dyn ControlAuthority>,
    tap: Arc<Tap>,
}

impl TapAuthority {
    /// Puts a tap on an authority.
    pub fn new(inner: Arc<dyn ControlAuthority>, tap: Arc<Tap>) -> Self {
        Self { inner, tap }
    }

    /// What is behind the tap: requests to it are not counted.
    pub fn inner(&self) -> &Arc<dyn ControlAuthority> {
        &self.inner
    }
}

/// The outcome of a write, or what is left of it when the reply is lost.
fn lost<T>(ended: Result<(), Dead>, outcome: Result<T>, unknown: impl FnOnce(Error) -> T) -> Result<T> {
    match ended {
        Ok(()) => outcome,
        Err(dead) => Ok(unknown(dead.into())),
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl ControlAuthority for TapAuthority {
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
        let index = self.tap.begin("GET head", branch.as_str(), 0)?;
        self.tap.let_others_begin(index).await;
        let result = self.inner.read_head(branch, known).await;
        let received = match &result {
            Ok(HeadRead::Found(body, _)) => {
                self.tap.keep(index, body);
                body.len()
            }
            _ => 0,
        };
        self.tap.end(index, received)?;
        result
    }

    async fn swap_head(&self, branch: &BranchName, expected: Expected<'_>, body: Bytes) -> Result<Swap> {
        let index = self.tap.begin("SWAP head", branch.as_str(), body.len())?;
        self.tap.keep(index, &body);
        self.tap.let_others_begin(index).await;
        let outcome = self.inner.swap_head(branch, expected, body).await;
        lost(self.tap.end(index, 0), outcome, Swap::Unknown)
    }

    async fn list_branches(&self) -> Result<Vec<BranchName>> {
        let index = self.tap.begin("LIST heads", "", 0)?;
        self.tap.let_others_begin(index).await;
        let result = self.inner.list_branches().await;
        self.tap.end(index, 0)?;
        result
    }

    async fn create_record(&self, key: &RecordKey, body: Bytes) -> Result<Create> {
        let index = self.tap.begin("CREATE record", key.as_str(), body.len())?;
        self.tap.keep(index, &body);
        self.tap.let_others_begin(index).await;
        let outcome = self.inner.create_record(key, body).await;
        lost(self.tap.end(index, 0), outcome, Create::Unknown)
    }

    async fn read_record(&self, key: &RecordKey) -> Result<Option<(Bytes, Tag)>> {
        let index = self.tap.begin("GET record", key.as_str(), 0)?;
        self.tap.let_others_begin(index).await;
        let result = self.inner.read_record(key).await;
        let received = match &result {
            Ok(Some((body, _))) => {
                self.tap.keep(index, body);
                body.len()
            }
            _ => 0,
        };
        self.tap.end(index, received)?;
        result
    }

    async fn swap_record(&self, key: &RecordKey, expected: &Tag, body: Bytes) -> Result<Swap> {
        let index = self.tap.begin("SWAP record", key.as_str(), body.len())?;
        self.tap.keep(index, &body);
        self.tap.let_others_begin(index).await;
        let outcome = self.inner.swap_record(key, expected, body).await;
        lost(self.tap.end(index, 0), outcome, Swap::Unknown)
    }

    async fn list_records(&self, prefix: &str) -> Result<Vec<RecordKey>> {
        let index = self.tap.begin("LIST records", prefix, 0)?;
        self.tap.let_others_begin(index).await;
        let result = self.inner.list_records(prefix).await;
        self.tap.end(index, 0)?;
        result
    }

    async fn remove_record(&self, key: &RecordKey) -> Result<()> {
        let index = self.tap.begin("DELETE record", key.as_str(), 0)?;
        self.tap.let_others_begin(index).await;
        let result = self.inner.remove_record(key).await;
        self.tap.end(index, 0)?;
        result
    }
}
