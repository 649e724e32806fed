//! The tap on an object store.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions, UploadPart,
};

use super::{Dead, Tap};

/// An object store behind a tap. Each part of an upload, its start and its end, each range of a read and each deleted key is a request.
#[derive(Debug)]
pub struct TapObjects {
    inner: Arc<dyn ObjectStore>,
    tap: Arc<Tap>,
}

impl TapObjects {
    /// Puts a tap on an object store.
    pub fn new(inner: Arc<dyn ObjectStore>, tap: Arc<Tap>) -> Self {
        Self { inner, tap }
    }

    /// What is behind the tap: requests to it are not counted.
    pub fn inner(&self) -> &Arc<dyn ObjectStore> {
        &self.inner
    }
}

impl fmt::Display for TapObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tap on {}", self.inner)
    }
}

impl Tap {
    /// A list begins when its stream is first polled.
    fn listing(self: Arc<Self>, key: String, listed: BoxStream<'static, Stored<ObjectMeta>>) -> BoxStream<'static, Stored<ObjectMeta>> {
        let begun = async move {
            let index = self.begin("LIST", &key, 0)?;
            self.let_others_begin(index).await;
            self.end(index, 0)?;
            Stored::Ok(listed)
        };
        futures::stream::once(begun).try_flatten().boxed()
    }
}

type Stored<T> = object_store::Result<T>;

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl ObjectStore for TapObjects {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Stored<PutResult> {
        let index = self.tap.begin("PUT", location.as_ref(), payload.content_length())?;
        self.tap.let_others_begin(index).await;
        let result = self.inner.put_opts(location, payload, opts).await;
        self.tap.end(index, 0)?;
        result
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Stored<Box<dyn MultipartUpload>> {
        let index = self.tap.begin("PUT begin", location.as_ref(), 0)?;
        self.tap.let_others_begin(index).await;
        let result = self.inner.put_multipart_opts(location, opts).await;
        self.tap.end(index, 0)?;
        Ok(Box::new(TapUpload { inner: result?, tap: self.tap.clone(), key: location.to_string() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Stored<GetResult> {
        let verb = if options.head { "HEAD" } else { "GET" };
        let index = self.tap.begin(verb, location.as_ref(), 0)?;
        self.tap.let_others_begin(index).await;
        let result = self.inner.get_opts(location, options).await;
        let received = result.as_ref().map_or(0, |found| if verb == "GET" { (found.range.end - found.range.start) as usize } else { 0 });
        self.tap.end(index, received)?;
        result
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Stored<Vec<Bytes>> {
        let wanted = ranges.iter().map(|range| self.tap.begin("GET", location.as_ref(), 0).map(|index| (index, range)));
        let wanted: Vec<_> = wanted.collect::<Result<_, Dead>>()?;
        let first = wanted.first().map_or(0, |(index, _)| *index);
        self.tap.let_all_begin(first..first + wanted.len()).await;
        let result = self.inner.get_ranges(location, ranges).await;
        for (index, range) in wanted {
            self.tap.end(index, (range.end - range.start) as usize)?;
        }
        result
    }

    fn delete_stream(&self, locations: BoxStream<'static, Stored<Path>>) -> BoxStream<'static, Stored<Path>> {
        let (inner, tap) = (self.inner.clone(), self.tap.clone());
        locations
            .then(move |location| {
                let (inner, tap) = (inner.clone(), tap.clone());
                async move {
                    let location = location?;
                    let index = tap.begin("DELETE", location.as_ref(), 0)?;
                    tap.let_others_begin(index).await;
                    let one = futures::stream::iter([Ok(location.clone())]).boxed();
                    let deleted = inner.delete_stream(one).next().await;
                    tap.end(index, 0)?;
                    deleted.unwrap_or(Ok(location))
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Stored<ObjectMeta>> {
        let listed = self.inner.list(prefix);
        self.tap.clone().listing(prefix.map_or_else(String::new, Path::to_string), listed)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Stored<ObjectMeta>> {
        let listed = self.inner.list_with_offset(prefix, offset);
        self.tap.clone().listing(offset.to_string(), listed)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Stored<ListResult> {
        let index = self.tap.begin("LIST", prefix.map_or("", |prefix| prefix.as_ref()), 0)?;
        self.tap.let_others_begin(index).await;
        let result = self.inner.list_with_delimiter(prefix).await;
        self.tap.end(index, 0)?;
        result
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Stored<()> {
        let index = self.tap.begin("COPY", to.as_ref(), 0)?;
        self.tap.let_others_begin(index).await;
        let result = self.inner.copy_opts(from, to, options).await;
        self.tap.end(index, 0)?;
        result
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Stored<()> {
        let index = self.tap.begin("RENAME", to.as_ref(), 0)?;
        self.tap.let_others_begin(index).await;
        let result = self.inner.rename_opts(from, to, options).await;
        self.tap.end(index, 0)?;
        result
    }
}

#[derive(Debug)]
struct TapUpload {
    inner: Box<dyn MultipartUpload>,
    tap: Arc<Tap>,
    key: String,
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl MultipartUpload for TapUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (tap, key, sent) = (self.tap.clone(), self.key.clone(), data.content_length());
        let part = self.inner.put_part(data);
        Box::pin(async move {
            let index = tap.begin("PUT part", &key, sent)?;
            tap.let_others_begin(index).await;
            let result = part.await;
            tap.end(index, 0)?;
            result
        })
    }

    async fn complete(&mut self) -> Stored<PutResult> {
        let index = self.tap.begin("PUT complete", &self.key, 0)?;
        self.tap.let_others_begin(index).await;
        let result = self.inner.complete().await;
        self.tap.end(index, 0)?;
        result
    }

    async fn abort(&mut self) -> Stored<()> {
        let index = self.tap.begin("PUT abort", &self.key, 0)?;
        self.tap.let_others_begin(index).await;
        let result = self.inner.abort().await;
        self.tap.end(index, 0)?;
        result
    }
}
