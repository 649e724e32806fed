//! The object store for data: object_store's S3 client, set up at its first request with what the authority resolved.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, RenameOptions, Result,
};

use crate::connection::Connection;

type Store = PrefixStore<AmazonS3>;

/// The object store whose keys begin at the catalog's prefix.
#[derive(Clone, Debug)]
pub(crate) struct Objects(pub(crate) Arc<Connection>);

impl fmt::Display for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S3Objects({}/{})", self.0.settings.bucket, self.0.settings.prefix)
    }
}

impl Objects {
    async fn store(&self) -> Result<&Store> {
        match self.0.resolved().await {
            Ok(resolved) => Ok(&resolved.objects),
            Err(error) => Err(Error::Generic { store: "S3Objects", source: Box::new(error) }),
        }
    }

    fn later<T: 'static>(
        &self,
        begin: impl FnOnce(&Store) -> BoxStream<'static, Result<T>> + Send + 'static,
    ) -> BoxStream<'static, Result<T>> {
        let objects = self.clone();
        stream::once(async move { objects.store().await.map(begin) }).try_flatten().boxed()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Objects {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.store().await?.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.store().await?.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.store().await?.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store().await?.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.later(|store| store.delete_stream(locations))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let prefix = prefix.cloned();
        self.later(move |store| store.list(prefix.as_ref()))
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        let (prefix, offset) = (prefix.cloned(), offset.clone());
        self.later(move |store| store.list_with_offset(prefix.as_ref(), &offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store().await?.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store().await?.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.store().await?.rename_opts(from, to, options).await
    }
}
