//! The recorder: every successful write of a register, as the backend saw it, and what callers were told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use headwater_core::authority::{Capability, ControlAuthority, Create, Expected, Finding, HeadRead, Swap, Tag};
use headwater_core::ids::Token;
use headwater_core::json::sha256;
use headwater_core::name::{BranchName, RecordKey};
use headwater_core::{ErrorKind, Result, Snapshot};

use crate::rows;

/// Keeps what went on at one place. Every process that opens the place writes through it: see [`Recorder::record`].
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<Recorded>>);

#[derive(Clone, Debug, Default)]
pub(super) struct Recorded {
    /// Successful swaps of each head: the tag that was expected, the new one, the body. In the order in which they were answered.
    pub(super) swaps: BTreeMap<BranchName, Vec<(Option<Tag>, Tag, Bytes)>>,
    /// The body of every successful write of each record.
    pub(super) records: BTreeMap<RecordKey, Vec<Bytes>>,
    /// Heads that a read did not find though a write of them had succeeded before it began.
    pub(super) absences: BTreeSet<BranchName>,
    pub(super) acknowledged: BTreeSet<Token>,
    pub(super) refused: BTreeSet<Token>,
    /// Digests of all rows of a branch at a seq, when it was first read.
    pub(super) views: Vec<(BranchName, u64, String)>,
}

impl Recorder {
    /// A recorder that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records what goes through an authority. Put it right above the backend, below any tap.
    pub fn record(&self, inner: Arc<dyn ControlAuthority>) -> Arc<dyn ControlAuthority> {
        Arc::new(RecordingAuthority { inner, recorder: self.clone() })
    }

    fn state(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn recorded(&self) -> Recorded {
        self.state().clone()
    }

    /// Notes what the caller of a commit was told. An unknown outcome is no statement.
    pub fn told<T>(&self, token: &Token, outcome: &Result<T>) {
        match outcome {
            Ok(_) => self.state().acknowledged.insert(token.clone()),
            Err(error) if error.kind() == ErrorKind::PublishUnknown => false,
            Err(_) => self.state().refused.insert(token.clone()),
        };
    }

    /// Takes back a refusal: the same token was tried again.
    pub fn tried_again(&self, token: &Token) {
        self.state().refused.remove(token);
    }

    /// Notes what a snapshot's rows are now, to be compared when evidence is gathered.
    pub async fn see(&self, snapshot: &Snapshot) -> Result<()> {
        let digest = digest(snapshot).await?;
        self.state().views.push((snapshot.branch().clone(), snapshot.seq(), digest));
        Ok(())
    }
}

/// A digest over the rows, names and identities of all tables of a snapshot.
pub(super) async fn digest(snapshot: &Snapshot) -> Result<String> {
    let mut text = String::new();
    for head in snapshot.tables() {
        let rows = rows::read(snapshot, head.key.as_str()).await?;
        text.push_str(&format!("{} {} {:?} {rows:?}\n", head.table_id, head.incarnation_id, head.key.as_str()));
    }
    Ok(sha256(text.as_bytes()))
}

/// An authority whose writes are recorded.
#[derive(Debug)]
pub struct RecordingAuthority {
    inner: Arc<dyn ControlAuthority>,
    recorder: Recorder,
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl ControlAuthority for RecordingAuthority {
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
        let written = self.recorder.state().swaps.contains_key(branch);
        let read = self.inner.read_head(branch, known).await?;
        if written && matches!(read, HeadRead::Absent) {
            self.recorder.state().absences.insert(branch.clone());
        }
        Ok(read)
    }

    async fn swap_head(&self, branch: &BranchName, expected: Expected<'_>, body: Bytes) -> Result<Swap> {
        let outcome = self.inner.swap_head(branch, expected, body.clone()).await?;
        if let Swap::Swapped(tag) = &outcome {
            let before = match expected {
                Expected::Absent => None,
                Expected::Tag(tag) => Some(tag.clone()),
            };
            self.recorder.state().swaps.entry(branch.clone()).or_default().push((before, tag.clone(), body));
        }
        Ok(outcome)
    }

    async fn list_branches(&self) -> Result<Vec<BranchName>> {
        self.inner.list_branches().await
    }

    async fn create_record(&self, key: &RecordKey, body: Bytes) -> Result<Create> {
        let outcome = self.inner.create_record(key, body.clone()).await?;
        if matches!(outcome, Create::Created) {
            self.recorder.state().records.entry(key.clone()).or_default().push(body);
        }
        Ok(outcome)
    }

    async fn read_record(&self, key: &RecordKey) -> Result<Option<(Bytes, Tag)>> {
        self.inner.read_record(key).await
    }

    async fn swap_record(&self, key: &RecordKey, expected: &Tag, body: Bytes) -> Result<Swap> {
        let outcome = self.inner.swap_record(key, expected, body.clone()).await?;
        if matches!(outcome, Swap::Swapped(_)) {
            self.recorder.state().records.entry(key.clone()).or_default().push(body);
        }
        Ok(outcome)
    }

    async fn list_records(&self, prefix: &str) -> Result<Vec<RecordKey>> {
        self.inner.list_records(prefix).await
    }

    async fn remove_record(&self, key: &RecordKey) -> Result<()> {
        self.inner.remove_record(key).await
    }
}
