//! An authority whose tags are digests of what a head holds, as the ETags of an object store are.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use headwater_core::Result;
use headwater_core::authority::{Capability, ControlAuthority, Create, Expected, Finding, HeadRead, Swap, Tag};
use headwater_core::head::Head;
use headwater_core::json::{Sealed, sha256};
use headwater_core::memory::MemoryAuthority;
use headwater_core::name::{BranchName, RecordKey};

/// What a tag is the digest of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Digested {
    /// The whole body.
    Everything,
    /// All but what makes every swap unlike any other: the nonce, and the count of swaps.
    WithoutNonce,
}

/// A memory authority with content tags. The memory authority never waits, so that on one thread a read and the swap behind it are one.
#[derive(Debug)]
pub(crate) struct ContentTags {
    inner: Arc<MemoryAuthority>,
    digested: Digested,
}

impl ContentTags {
    pub(crate) fn new(inner: Arc<MemoryAuthority>, digested: Digested) -> Self {
        Self { inner, digested }
    }

    fn tag(&self, body: &[u8]) -> Tag {
        match self.digested {
            Digested::Everything => Tag::new(sha256(body)),
            Digested::WithoutNonce => {
                let mut head: Head = serde_json::from_slice(body).unwrap();
                (head.rev, head.nonce) = (0, String::new());
                Tag::new(sha256(&head.seal().unwrap()))
            }
        }
    }
}

/// Swaps in the present head with something else in it, one swap later.
pub(crate) async fn swap_in(authority: &dyn ControlAuthority, edit: impl Fn(&mut Head)) -> bool {
    let main = "main".parse().unwrap();
    let Ok(HeadRead::Found(body, tag)) = authority.read_head(&main, None).await else { return false };
    let mut head: Head = serde_json::from_slice(&body).unwrap();
    edit(&mut head);
    head.rev += 1;
    let swap = authority.swap_head(&main, Expected::Tag(&tag), head.seal().unwrap().into()).await;
    matches!(swap, Ok(Swap::Swapped(_)))
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl ControlAuthority for ContentTags {
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
        Ok(match self.inner.read_head(branch, None).await? {
            HeadRead::Found(body, _) => {
                let tag = self.tag(&body);
                if known == Some(&tag) { HeadRead::Unchanged } else { HeadRead::Found(body, tag) }
            }
            other => other,
        })
    }

    async fn swap_head(&self, branch: &BranchName, expected: Expected<'_>, body: Bytes) -> Result<Swap> {
        let tag = self.tag(&body);
        let swap = match (self.inner.read_head(branch, None).await?, expected) {
            (HeadRead::Absent, Expected::Absent) => self.inner.swap_head(branch, Expected::Absent, body).await?,
            (HeadRead::Found(now, inner), Expected::Tag(expected)) if self.tag(&now) == *expected => {
                self.inner.swap_head(branch, Expected::Tag(&inner), body).await?
            }
            _ => Swap::Conflict,
        };
        Ok(if let Swap::Swapped(_) = swap { Swap::Swapped(tag) } else { swap })
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
