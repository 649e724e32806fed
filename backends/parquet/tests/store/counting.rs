//! An object store that counts.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart, coalesce_ranges,
};

/// One request as it would be on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) verb: &'static str,
    pub(crate) path: String,
    pub(crate) bytes: u64,
}

/// Says which request fails, and how.
type Fault = Box<dyn FnMut(&Request) -> Option<object_store::Error> + Send>;

#[derive(Default)]
pub(crate) struct State {
    pub(crate) requests: Vec<Request>,
    /// Times the store went from idle to busy: round trips in sequence.
    pub(crate) stages: usize,
    active: usize,
    part_bytes: u64,
    /// The most bytes of parts handed over and not yet taken.
    pub(crate) peak_part_bytes: u64,
    fault: Option<Fault>,
    lands: Lands,
}

/// What a PUT told to fail leaves behind.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Lands {
    #[default]
    Nothing,
    /// The object: only the reply is lost.
    Itself,
    /// Another one, of the same name.
    Another,
}

pub(crate) struct Counting {
    pub(crate) inner: InMemory,
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counting")
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counting")
    }
}

impl Counting {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { inner: InMemory::new(), state: Arc::default() })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// What happened since the last call.
    pub(crate) fn take(&self) -> State {
        std::mem::take(&mut *self.state())
    }

    pub(crate) fn fail(&self, fault: impl FnMut(&Request) -> Option<object_store::Error> + Send + 'static) {
        self.state().fault = Some(Box::new(fault));
    }

    /// [`Counting::fail`] of PUTs that leave something behind.
    pub(crate) fn fail_and(&self, lands: Lands, fault: impl FnMut(&Request) -> Option<object_store::Error> + Send + 'static) {
        self.fail(fault);
        self.state().lands = lands;
    }

    pub(crate) async fn bytes(&self, path: &str) -> Bytes {
        self.inner.get(&Path::from(path)).await.unwrap().bytes().await.unwrap()
    }

    pub(crate) async fn replace(&self, path: &str, bytes: impl Into<Bytes>) {
        self.inner.put(&Path::from(path), PutPayload::from(bytes.into())).await.unwrap();
    }

    pub(crate) async fn remove(&self, path: &str) {
        self.inner.delete(&Path::from(path)).await.unwrap();
    }
}

impl State {
    pub(crate) fn count(&self, verb: &str, path: &str) -> usize {
        self.requests.iter().filter(|request| request.verb == verb && request.path.contains(path)).count()
    }

    pub(crate) fn total(&self, verb: &str, path: &str) -> u64 {
        self.requests.iter().filter(|request| request.verb == verb && request.path.contains(path)).map(|request| request.bytes).sum()
    }
}

/// A request under way.
struct Active(Arc<Mutex<State>>);

impl Active {
    async fn begin(state: &Arc<Mutex<State>>, verb: &'static str, path: &Path, bytes: u64) -> Result<Self> {
        let failed = {
            let mut state = state.lock().unwrap();
            let request = Request { verb, path: path.to_string(), bytes };
            state.stages += usize::from(state.active == 0);
            state.active += 1;
            let failed = state.fault.as_mut().and_then(|fault| fault(&request));
            state.requests.push(request);
            failed
        };
        let active = Self(state.clone());
        // Requests sent together must overlap to be seen as one round trip.
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        failed.map_or(Ok(active), Err)
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let mut state = self.0.lock().unwrap();
        state.active = state.active.saturating_sub(1);
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Counting {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        assert_eq!(options.mode, object_store::PutMode::Create, "{location} would be overwritten");
        let active = Active::begin(&self.state, "PUT", location, payload.content_length() as u64).await;
        let lands = self.state().lands;
        if active.is_err() && lands != Lands::Nothing {
            let payload = if lands == Lands::Itself { payload.clone() } else { PutPayload::from("another") };
            self.inner.put_opts(location, payload, options.clone()).await?;
        }
        let _active = active?;
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let _active = Active::begin(&self.state, "START", location, 0).await?;
        let inner = self.inner.put_multipart_opts(location, options).await?;
        Ok(Box::new(CountingUpload { inner, location: location.clone(), state: self.state.clone() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let verb = if options.head { "HEAD" } else { "GET" };
        let _active = Active::begin(&self.state, verb, location, 0).await?;
        let result = self.inner.get_opts(location, options).await?;
        let mut state = self.state();
        if let Some(request) = state.requests.iter_mut().rev().find(|request| request.verb == verb && request.path == location.as_ref()) {
            request.bytes += result.range.end - result.range.start;
        }
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        coalesce_ranges(ranges, |range| self.get_range(location, range), OBJECT_STORE_COALESCE_DEFAULT).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct CountingUpload {
    inner: Box<dyn MultipartUpload>,
    location: Path,
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("requests", &self.requests).field("stages", &self.stages).finish_non_exhaustive()
    }
}

#[async_trait]
impl MultipartUpload for CountingUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let bytes = data.content_length() as u64;
        let (inner, state, location) = (self.inner.put_part(data), self.state.clone(), self.location.clone());
        {
            let mut state = state.lock().unwrap();
            state.part_bytes += bytes;
            state.peak_part_bytes = state.peak_part_bytes.max(state.part_bytes);
        }
        async move {
            let _active = Active::begin(&state, "PART", &location, bytes).await?;
            let result = inner.await;
            let mut state = state.lock().unwrap();
            state.part_bytes = state.part_bytes.saturating_sub(bytes);
            result
        }
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let _active = Active::begin(&self.state, "COMPLETE", &self.location, 0).await?;
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        let _active = Active::begin(&self.state, "ABORT", &self.location, 0).await?;
        self.inner.abort().await
    }
}

/// A failure of the passing kind.
pub(crate) fn outage() -> object_store::Error {
    object_store::Error::Generic { store: "test", source: "no connection".into() }
}

/// Every key in the store.
pub(crate) async fn keys(store: &Counting) -> Vec<String> {
    store.inner.list(None).map(|meta| meta.unwrap().location.to_string()).collect().await
}
