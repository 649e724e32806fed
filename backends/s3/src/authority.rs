//! [`S3Authority`]: conditional writes behind the authority's trait.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use headwater_core::authority::{Capability, ControlAuthority, Create, Expected, Finding, HeadRead, Swap, Tag};
use headwater_core::name::{BranchName, RecordKey};
use headwater_core::{Error, ErrorKind, Result};
use object_store::ObjectStore;

use crate::connection::Connection;
use crate::objects::Objects;
use crate::settings::Settings;

/// Heads and records as JSON objects of one bucket.
///
/// Guarantees: linearizable among all hosts, as far as the server keeps its promises about `If-Match` and `If-None-Match`; [`probe`](crate::probe()) finds
/// out. A version's tag is its ETag, byte for byte. Every write is one PUT, never multipart, and is sent once.
///
/// Cost: each method is one request, a list one for each 1,000 objects. Reads, lists and removals are repeated a few times while the
/// server fails in passing (`AWS_MAX_ATTEMPTS`, 3 by default); the first request also resolves settings and credentials.
///
/// Errors: `InvalidInput` where settings, credentials, permissions or the bucket are at fault, `Unavailable` for a server that cannot be
/// reached or fails in passing, `Unsupported` for one that lacks a feature, `Corrupt` for an object no catalog makes. They name bucket and
/// object, and the server's request id. A write that was sent and got no reply, or a 5xx, is `Unknown`; so is a create whose reply says
/// only that another write of its key was under way (409).
///
/// Cancellation: a write whose future is dropped may still be applied, wholly.
///
/// Runtime: its connections belong to the tokio runtime that made them. Use one authority in one runtime.
#[derive(Clone, Debug)]
pub struct S3Authority(pub(crate) Arc<Connection>);

impl S3Authority {
    /// The authority of the catalog that these settings name. Takes what they leave open from the environment, once; no request.
    ///
    /// Errors with `InvalidInput` for variables that make no sense, and for plain HTTP to another host unless it is allowed.
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(Self(Arc::new(Connection::new(settings)?)))
    }

    /// The object store for data: its keys begin at the prefix. It shares this authority's settings, credentials and connections.
    pub fn objects(&self) -> Arc<dyn ObjectStore> {
        Arc::new(Objects(self.0.clone()))
    }
}

#[async_trait]
impl ControlAuthority for S3Authority {
    fn capability(&self) -> Capability {
        let writes_per_second_per_key = self.0.host().and_then(writes_per_second);
        Capability { power_safe: true, multi_host: true, list_is_strong: true, writes_per_second_per_key }
    }

    async fn probe(&self) -> Result<Vec<Finding>> {
        Ok(crate::probe::probe(self).await?.findings())
    }

    async fn inspect(&self) -> Result<Vec<Finding>> {
        Ok(crate::doctor::doctor(self).await)
    }

    async fn read_head(&self, branch: &BranchName, known: Option<&Tag>) -> Result<HeadRead> {
        self.0.get(&self.0.layout.head(branch), known).await.map_err(|error| error.during("read head"))
    }

    async fn swap_head(&self, branch: &BranchName, expected: Expected<'_>, body: Bytes) -> Result<Swap> {
        swapped(self.0.put(&self.0.layout.head(branch), expected, body).await, "swap head")
    }

    async fn list_branches(&self) -> Result<Vec<BranchName>> {
        let keys = self.0.list(&self.0.layout.heads()).await.map_err(|error| error.during("list branches"))?;
        keys.iter().map(|key| self.0.layout.branch(key).map_err(|error| error.during("list branches"))).collect()
    }

    async fn create_record(&self, key: &RecordKey, body: Bytes) -> Result<Create> {
        match self.0.create(&self.0.layout.record(key), body).await {
            Ok(Create::Unknown(cause)) => Ok(Create::Unknown(cause.during("create record"))),
            outcome => outcome.map_err(|error| error.during("create record")),
        }
    }

    async fn read_record(&self, key: &RecordKey) -> Result<Option<(Bytes, Tag)>> {
        match self.0.get(&self.0.layout.record(key), None).await.map_err(|error| error.during("read record"))? {
            HeadRead::Found(body, tag) => Ok(Some((body, tag))),
            HeadRead::Absent => Ok(None),
            HeadRead::Unchanged => {
                let answer = "the server answered 'not modified' to an unconditional read";
                Err(Error::new(ErrorKind::Unsupported, answer).at("object", key).during("read record"))
            }
        }
    }

    async fn swap_record(&self, key: &RecordKey, expected: &Tag, body: Bytes) -> Result<Swap> {
        swapped(self.0.put(&self.0.layout.record(key), Expected::Tag(expected), body).await, "swap record")
    }

    async fn list_records(&self, prefix: &str) -> Result<Vec<RecordKey>> {
        // Servers differ in what they say to such a prefix.
        let Some(below) = self.0.layout.records(prefix) else { return Ok(Vec::new()) };
        let keys = self.0.list(&below).await.map_err(|error| error.during("list records"))?;
        keys.iter().map(|key| self.0.layout.record_key(key).map_err(|error| error.during("list records"))).collect()
    }

    async fn remove_record(&self, key: &RecordKey) -> Result<()> {
        self.0.delete(&self.0.layout.record(key)).await.map_err(|error| error.during("remove record"))
    }
}

fn swapped(outcome: Result<Swap>, operation: &'static str) -> Result<Swap> {
    match outcome {
        Ok(Swap::Unknown(cause)) => Ok(Swap::Unknown(cause.during(operation))),
        outcome => outcome.map_err(|error| error.during(operation)),
    }
}

/// Writes to one key that a host's store sustains, where it documents a limit; AWS has none that a head would meet.
fn writes_per_second(host: &str) -> Option<u32> {
    let limited = ["storage.googleapis.com", ".r2.cloudflarestorage.com"];
    limited.iter().any(|suffix| host.ends_with(suffix)).then_some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_with_a_limit_say_so() {
        for (endpoint, limit) in [
            ("https://storage.googleapis.com", Some(1)),
            ("https://abc.r2.cloudflarestorage.com", Some(1)),
            ("https://s3.eu-west-1.amazonaws.com", None),
            ("http://127.0.0.1:9000", None),
        ] {
            let settings = Settings::new("lake", "").unwrap().endpoint(endpoint).unwrap();
            let capability = S3Authority::new(settings).unwrap().capability();
            assert_eq!(capability.writes_per_second_per_key, limit, "{endpoint}");
            assert!(capability.power_safe && capability.multi_host && capability.list_is_strong);
        }
    }
}
