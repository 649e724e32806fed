//! The network in front of a control authority.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use headwater_core::authority::{Capability, ControlAuthority, Create, Expected, Finding, HeadRead, Swap, Tag};
use headwater_core::name::{BranchName, RecordKey};
use headwater_core::{Error, Result};

use super::Fault;
use super::network::{Network, silence};

/// An authority behind a bad network.
#[derive(Debug)]
pub struct FaultyAuthority {
    inner: Arc<dyn ControlAuthority>,
    network: Arc<Network>,
}

impl FaultyAuthority {
    /// Puts a network in front of an authority.
    pub fn new(inner: Arc<dyn ControlAuthority>, network: Arc<Network>) -> Self {
        Self { inner, network }
    }

    /// What is behind the network.
    pub fn inner(&self) -> &Arc<dyn ControlAuthority> {
        &self.inner
    }

    async fn read<T>(&self, verb: &'static str, key: &str, answer: impl Future<Output = Result<T>>) -> Result<T> {
        let sending = self.network.begin(verb, key, Bytes::new()).await;
        let result = match sending.fault {
            Some(Fault::RequestsLost(_)) => Err(silence()),
            Some(Fault::RepliesLost(_)) => answer.await.and(Err(silence())),
            _ => answer.await,
        };
        self.network.end(sending).await;
        result
    }

    async fn write<T: Send + 'static>(&self, verb: &'static str, key: &str, write: Write<'_, T>) -> Result<T> {
        let Write { sent, apply, unknown, refused } = write;
        let late = |when| {
            let request = apply();
            self.network.later(when, Box::pin(async move { drop(request.await) }));
        };
        let sending = self.network.begin(verb, key, sent).await;
        let outcome = match sending.fault {
            None | Some(Fault::Delayed(_) | Fault::Held) => apply().await,
            Some(Fault::RequestsLost(_)) => Ok(unknown(silence())),
            Some(Fault::RepliesLost(_)) => apply().await.map(|_| unknown(silence())),
            Some(Fault::Late(when)) => {
                late(when);
                Ok(unknown(silence()))
            }
            Some(Fault::Repeated(when)) => {
                let outcome = apply().await;
                late(when);
                outcome
            }
            Some(Fault::Echoed) => {
                drop(apply().await);
                apply().await
            }
            Some(Fault::Refused) => Ok(refused.map_or_else(|| unknown(silence()), |refused| refused())),
            Some(Fault::Rejected) => Err(silence()),
        };
        self.network.end(sending).await;
        outcome
    }
}

/// A write that can be applied any number of times, each time as a new request.
struct Write<'a, T> {
    sent: Bytes,
    apply: Box<dyn Fn() -> BoxFuture<'static, Result<T>> + Send + Sync + 'a>,
    unknown: fn(Error) -> T,
    /// What a refusal that applied nothing looks like, where there is such an outcome.
    refused: Option<fn() -> T>,
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl ControlAuthority for FaultyAuthority {
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
        self.read("GET head", branch.as_str(), self.inner.read_head(branch, known)).await
    }

    async fn swap_head(&self, branch: &BranchName, expected: Expected<'_>, body: Bytes) -> Result<Swap> {
        let expected = match expected {
            Expected::Absent => None,
            Expected::Tag(tag) => Some(tag.clone()),
        };
        let apply = || -> BoxFuture<'static, Result<Swap>> {
            let (inner, branch, expected, body) = (self.inner.clone(), branch.clone(), expected.clone(), body.clone());
            Box::pin(async move { inner.swap_head(&branch, expected.as_ref().map_or(Expected::Absent, Expected::Tag), body).await })
        };
        let write = Write { sent: body.clone(), apply: Box::new(apply), unknown: Swap::Unknown, refused: Some(|| Swap::Conflict) };
        self.write("SWAP head", branch.as_str(), write).await
    }

    async fn list_branches(&self) -> Result<Vec<BranchName>> {
        self.read("LIST heads", "", self.inner.list_branches()).await
    }

    async fn create_record(&self, key: &RecordKey, body: Bytes) -> Result<Create> {
        let apply = || -> BoxFuture<'static, Result<Create>> {
            let (inner, key, body) = (self.inner.clone(), key.clone(), body.clone());
            Box::pin(async move { inner.create_record(&key, body).await })
        };
        self.write(
            "CREATE record",
            key.as_str(),
            Write { sent: body.clone(), apply: Box::new(apply), unknown: Create::Unknown, refused: None },
        )
        .await
    }

    async fn read_record(&self, key: &RecordKey) -> Result<Option<(Bytes, Tag)>> {
        self.read("GET record", key.as_str(), self.inner.read_record(key)).await
    }

    async fn swap_record(&self, key: &RecordKey, expected: &Tag, body: Bytes) -> Result<Swap> {
        let apply = || -> BoxFuture<'static, Result<Swap>> {
            let (inner, key, expected, body) = (self.inner.clone(), key.clone(), expected.clone(), body.clone());
            Box::pin(async move { inner.swap_record(&key, &expected, body).await })
        };
        let write = Write { sent: body.clone(), apply: Box::new(apply), unknown: Swap::Unknown, refused: Some(|| Swap::Conflict) };
        self.write("SWAP record", key.as_str(), write).await
    }

    async fn list_records(&self, prefix: &str) -> Result<Vec<RecordKey>> {
        self.read("LIST records", prefix, self.inner.list_records(prefix)).await
    }

    async fn remove_record(&self, key: &RecordKey) -> Result<()> {
        let apply = || -> BoxFuture<'static, Result<Result<()>>> {
            let (inner, key) = (self.inner.clone(), key.clone());
            Box::pin(async move { inner.remove_record(&key).await.map(Ok) })
        };
        self.write("DELETE record", key.as_str(), Write { sent: Bytes::new(), apply: Box::new(apply), unknown: Err, refused: None }).await?
    }
}
