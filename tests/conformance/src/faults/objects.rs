//! The network in front of an object store. Whole PUTs and GETs go through it; everything else passes.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions,
};

use super::Fault;
use super::network::{Network, silence};

type Stored<T> = object_store::Result<T>;

/// An object store behind a bad network.
#[derive(Debug)]
pub struct FaultyObjects {
    inner: Arc<dyn ObjectStore>,
    network: Arc<Network>,
}

impl FaultyObjects {
    /// Puts a network in front of an object store.
    pub fn new(inner: Arc<dyn ObjectStore>, network: Arc<Network>) -> Self {
        Self { inner, network }
    }

    async fn read<T>(&self, verb: &'static str, key: &Path, answer: impl Future<Output = Stored<T>>) -> Stored<T> {
        let sending = self.network.begin(verb, key.as_ref(), Bytes::new()).await;
        let result = match sending.fault {
            Some(Fault::RequestsLost(_)) => Err(unanswered()),
            Some(Fault::RepliesLost(_)) => answer.await.and(Err(unanswered())),
            _ => answer.await,
        };
        self.network.end(sending).await;
        result
    }
}

fn unanswered() -> object_store::Error {
    object_store::Error::Generic { store: "network", source: Box::new(silence()) }
}

impl fmt::Display for FaultyObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "network in front of {}", self.inner)
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl ObjectStore for FaultyObjects {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Stored<PutResult> {
        let apply = || -> BoxFuture<'static, Stored<PutResult>> {
            let (inner, location, payload, opts) = (self.inner.clone(), location.clone(), payload.clone(), opts.clone());
            Box::pin(async move { inner.put_opts(&location, payload, opts).await })
        };
        let late = |when| {
            let request = apply();
            self.network.later(when, Box::pin(async move { drop(request.await) }));
        };
        let sending = self.network.begin("PUT", location.as_ref(), Bytes::new()).await;
        let outcome = match sending.fault {
            None | Some(Fault::Delayed(_) | Fault::Held) => apply().await,
            Some(Fault::RequestsLost(_) | Fault::Refused | Fault::Rejected) => Err(unanswered()),
            Some(Fault::RepliesLost(_)) => apply().await.and(Err(unanswered())),
            Some(Fault::Late(when)) => {
                late(when);
                Err(unanswered())
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
        };
        self.network.end(sending).await;
        outcome
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Stored<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Stored<GetResult> {
        let verb = if options.head { "HEAD" } else { "GET" };
        self.read(verb, location, self.inner.get_opts(location, options)).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Stored<Vec<Bytes>> {
        self.read("GET", location, self.inner.get_ranges(location, ranges)).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Stored<Path>>) -> BoxStream<'static, Stored<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Stored<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Stored<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Stored<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Stored<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Stored<()> {
        self.inner.rename_opts(from, to, options).await
    }
}
