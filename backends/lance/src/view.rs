//! The object store Lance sees: every request of Lance passes here, on its way to the store the backend handed over.
//!
//! Nothing is listed, copied, renamed or overwritten, and only a stage may write. What a stage writes is held here, in memory, until the
//! whole version is known: then its objects go out side by side, each under a name that says what its bytes are. A file too large to hold
//! goes out while it is written.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use headwater_core::Error;
use headwater_core::cache::Cache;
use headwater_core::ids::Mint;
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Extensions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::sealed::Sealed;
use crate::upload::{Collected, Streamed};
use crate::version::Reachable;
use headwater_core::objects::{Named, Objects};

/// Data files up to this size are read whole, in one request, and checked against their digest.
const WHOLE_BYTES: u64 = 1 << 20;
/// Data of one stage held in memory before it is written.
const HELD_BYTES: usize = 32 << 20;

/// What every view of one store shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) objects: Objects,
    pub(crate) mint: Mint,
    /// Small data files, read whole.
    files: Cache<Path, Bytes>,
}

impl Shared {
    pub(crate) fn new(objects: Objects, mint: Mint, cache_bytes: u64) -> Self {
        Self { objects, mint, files: Cache::new(cache_bytes) }
    }
}

/// The object store of one read or one stage.
#[derive(Debug)]
pub(crate) struct View {
    shared: Arc<Shared>,
    /// Whether this is a stage.
    writable: bool,
    /// What is read must be so.
    reachable: Reachable,
    state: Arc<Mutex<State>>,
}

/// What has come through a view.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Manifests, and what else only Lance wants to have written.
    held: BTreeMap<Path, Bytes>,
    /// Objects of the new version, by the key Lance gave them.
    files: BTreeMap<Path, File>,
    failure: Option<Error>,
}

/// An object of a stage.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// The key it has, or will have.
    pub(crate) path: Path,
    pub(crate) sealed: Sealed,
    /// Its bytes, where it is not written yet.
    pub(crate) bytes: Option<Bytes>,
}

impl File {
    /// The name in its folder.
    pub(crate) fn name(&self) -> &str {
        self.path.filename().unwrap_or_default()
    }

    /// Whether its name says what its bytes are.
    pub(crate) fn is_sealed(&self) -> bool {
        Sealed::parse(self.name()).is_some()
    }

    /// The same file, once it is written.
    pub(crate) fn without_bytes(&self) -> Self {
        Self { path: self.path.clone(), sealed: self.sealed.clone(), bytes: None }
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lance's view of {}", self.shared.objects.0)
    }
}

impl State {
    pub(crate) fn hold(&mut self, location: Path, bytes: Bytes) {
        self.held.insert(location, bytes);
    }

    pub(crate) fn file(&mut self, location: Path, file: File) {
        self.files.insert(location, file);
    }

    fn forget(&mut self, location: &Path) {
        self.held.remove(location);
        self.files.remove(location);
    }

    /// Remembers the first failure: Lance wraps errors beyond recognition.
    pub(crate) fn fail(&mut self, error: Error) -> object_store::Error {
        let text = error.to_string();
        self.failure.get_or_insert(error);
        object_store::Error::Generic { store: "Headwater", source: text.into() }
    }
}

pub(crate) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of a data file, if this is the key of one. Lance's indices have files of that format, too.
fn data_name(location: &Path) -> Option<&str> {
    let (folder, name) = location.as_ref().rsplit_once('/')?;
    (folder.ends_with("/data") && name.ends_with(".lance")).then_some(name)
}

/// Whether a version reaches objects of such a key beside data files: deletions and indices. Lance gives them fresh names.
fn is_beside(location: &Path) -> bool {
    ["/_deletions/", "/_indices/"].iter().any(|folder| location.as_ref().contains(folder))
}

impl View {
    /// A view that reads what a version reaches.
    pub(crate) fn reading(shared: &Arc<Shared>, reachable: Reachable) -> Self {
        Self { shared: shared.clone(), writable: false, reachable, state: Arc::default() }
    }

    /// A view for one stage, which may read what its base reaches.
    pub(crate) fn staging(shared: &Arc<Shared>, reachable: Reachable) -> Self {
        Self { writable: true, ..Self::reading(shared, reachable) }
    }

    /// Holds an object that is known already: reading it costs nothing.
    pub(crate) fn hold(&self, location: Path, bytes: Bytes) {
        lock(&self.state).hold(location, bytes);
    }

    /// The object held for this key.
    pub(crate) fn held(&self, location: &Path) -> Option<Bytes> {
        let state = lock(&self.state);
        let own = || state.files.values().find(|file| file.path == *location)?.bytes.clone();
        state.held.get(location).cloned().or_else(own)
    }

    /// The stage's object that Lance gave this key.
    pub(crate) fn file(&self, location: &Path) -> Option<File> {
        lock(&self.state).files.get(location).cloned()
    }

    /// The stage's objects that are not data files.
    pub(crate) fn beside(&self) -> Vec<File> {
        lock(&self.state).files.values().filter(|file| is_beside(&file.path)).map(File::without_bytes).collect()
    }

    /// The first failure of a request, which explains whatever Lance says.
    pub(crate) fn failure(&self) -> Option<Error> {
        lock(&self.state).failure.take()
    }

    fn refused<T>(&self, what: &str) -> Result<T> {
        let error = Error::new(headwater_core::ErrorKind::Unsupported, format!("Lance may not {what}; report this as a bug"));
        Err(lock(&self.state).fail(error))
    }

    /// Size and digest of an object, as far as the version or the object's name say them.
    fn expected(&self, location: &Path) -> (Option<u64>, Option<String>) {
        match (self.reachable.get(location), data_name(location).and_then(Sealed::parse)) {
            (Some(expected), _) => (Some(expected.size), expected.digest.clone()),
            (None, Some(sealed)) => (Some(sealed.size), Some(sealed.digest)),
            (None, None) => (None, None),
        }
    }

    /// The whole object, where it is held or small.
    async fn whole(&self, location: &Path) -> Option<Result<Bytes>> {
        if let Some(bytes) = self.held(location) {
            return Some(Ok(bytes));
        }
        let (Some(size), Some(digest)) = self.expected(location) else { return None };
        if size > WHOLE_BYTES {
            return None;
        }
        if let Some(bytes) = self.shared.files.get(location) {
            return Some(Ok(bytes));
        }
        let read = self.shared.objects.verified(Named { path: location.as_ref(), size }, &digest).await;
        Some(read.map_err(|error| lock(&self.state).fail(error)).inspect(|bytes| {
            self.shared.files.put(location.clone(), bytes.clone(), size);
        }))
    }

    /// Checks an object's size beside whatever is read of it.
    async fn checked(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (size, _) = self.expected(location);
        let named = Named { path: location.as_ref(), size: size.unwrap_or_default() };
        match self.shared.objects.0.get_opts(location, options).await {
            Ok(result) => match size.map(|_| named.check_size(result.meta.size)) {
                Some(Err(error)) => Err(lock(&self.state).fail(error)),
                _ => Ok(watched(result, &self.state)),
            },
            Err(error) => {
                let error = if size.is_some() { self.shared.objects.explain(named, error).await } else { named.failed(error) };
                Err(lock(&self.state).fail(error))
            }
        }
    }
}

/// The same result, whose body's failure is remembered, too: Lance reads it out of sight.
fn watched(result: GetResult, state: &Arc<Mutex<State>>) -> GetResult {
    let GetResult { payload, meta, range, attributes, extensions } = result;
    let payload = match payload {
        GetResultPayload::Stream(body) => {
            let (state, location) = (state.clone(), meta.location.clone());
            let body = body.map(move |part| part.map_err(|error| lock(&state).fail(Error::from(error).at("object", &location))));
            GetResultPayload::Stream(body.boxed())
        }
        file => file,
    };
    GetResult { payload, meta, range, attributes, extensions }
}

/// Part of an object that is in memory.
fn part(location: &Path, bytes: &Bytes, options: &GetOptions) -> Result<GetResult> {
    let size = bytes.len() as u64;
    let range = match &options.range {
        None => 0..size,
        Some(range) => {
            range.as_range(size).map_err(|source| object_store::Error::Generic { store: "Headwater", source: Box::new(source) })?
        }
    };
    let meta = ObjectMeta { location: location.clone(), last_modified: Default::default(), size, e_tag: None, version: None };
    let body = if options.head { Bytes::new() } else { bytes.slice(range.start as usize..range.end as usize) };
    let payload = GetResultPayload::Stream(futures::stream::iter([Ok(body)]).boxed());
    Ok(GetResult { payload, meta, range, attributes: Attributes::default(), extensions: Extensions::default() })
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for View {
    async fn put_opts(&self, location: &Path, payload: PutPayload, _: PutOptions) -> Result<PutResult> {
        if !self.writable {
            return self.refused("write outside of a stage");
        }
        let bytes = Bytes::from(payload);
        let sealed = Sealed::of(&bytes);
        let path = match data_name(location) {
            Some(_) => sibling(location, &sealed.name(&self.shared.mint.name())),
            None if is_beside(location) => location.clone(),
            None => {
                self.hold(location.clone(), bytes);
                return Ok(put_result());
            }
        };
        let held: usize = lock(&self.state).files.values().filter_map(|file| file.bytes.as_ref()).map(Bytes::len).sum();
        let mut file = File { path, sealed, bytes: Some(bytes.clone()) };
        if held + bytes.len() > HELD_BYTES {
            let created = self.shared.objects.create(file.path.as_ref(), bytes).await;
            created.map_err(|error| lock(&self.state).fail(error))?;
            file.bytes = None;
        }
        lock(&self.state).file(location.clone(), file);
        Ok(put_result())
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        if !self.writable {
            return self.refused("write outside of a stage");
        }
        if data_name(location).is_none() && !is_beside(location) {
            return Ok(Box::new(Collected::new(location.clone(), self.state.clone())));
        }
        match self.shared.objects.0.put_multipart_opts(location, options).await {
            Ok(upload) => Ok(Box::new(Streamed::new(location.clone(), upload, self.state.clone()))),
            Err(error) => Err(lock(&self.state).fail(Error::from(error).at("object", location))),
        }
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match self.whole(location).await {
            Some(bytes) => part(location, &bytes?, &options),
            None => self.checked(location, options).await,
        }
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let read = ranges.iter().map(|range| {
            let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
            async move { self.get_opts(location, options).await?.bytes().await }.boxed()
        });
        futures::future::try_join_all(read).await
    }

    /// Lance tidies up after a stage that failed. What was held is forgotten; what was written stays, unreferenced.
    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let state = self.state.clone();
        let forget = move |location: &Result<Path>| {
            if let Ok(location) = location {
                lock(&state).forget(location);
            }
        };
        locations.inspect(forget).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        futures::stream::iter([self.refused("list objects")]).boxed()
    }

    fn list_with_offset(&self, _: Option<&Path>, _: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        futures::stream::iter([self.refused("list objects")]).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        self.refused("list objects")
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        self.refused("copy objects")
    }

    async fn rename_opts(&self, _: &Path, _: &Path, _: object_store::RenameOptions) -> Result<()> {
        self.refused("rename objects")
    }
}

pub(crate) fn put_result() -> PutResult {
    PutResult { e_tag: None, version: None, extensions: Extensions::default() }
}

/// The key of another object in the same folder.
fn sibling(location: &Path, name: &str) -> Path {
    match location.as_ref().rsplit_once('/') {
        Some((folder, _)) => Path::from(format!("{folder}/{name}")),
        None => Path::from(name),
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::ids::SystemEnvironment;
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;

    fn shared(objects: &Arc<InMemory>) -> Arc<Shared> {
        Arc::new(Shared::new(Objects(objects.clone()), Mint::new(Arc::new(SystemEnvironment)), 1 << 20))
    }

    async fn stored(objects: &InMemory) -> Vec<Path> {
        objects.list(None).map(|meta| meta.unwrap().location).collect().await
    }

    /// What a stage holds is bounded: beyond, files go out at once, already under their final names.
    #[tokio::test]
    async fn a_stage_holds_no_more_than_it_may() {
        let objects = Arc::new(InMemory::new());
        let view = View::staging(&shared(&objects), Reachable::default());
        for i in 0..3u8 {
            let location = Path::from(format!("data/t/i/data/{i}.lance"));
            view.put(&location, vec![i; HELD_BYTES / 2 - 1].into()).await.unwrap();
        }
        let files: Vec<File> = (0..3).map(|i| view.file(&Path::from(format!("data/t/i/data/{i}.lance"))).unwrap()).collect();
        assert!(files[0].bytes.is_some() && files[1].bytes.is_some() && files[2].bytes.is_none());
        assert_eq!(stored(&objects).await, [files[2].path.clone()]);
        assert_eq!(Sealed::parse(files[2].name()), Some(files[2].sealed.clone()));
        // Metadata is held whatever its size.
        let manifest = Path::from("data/t/i/_versions/d1.manifest");
        view.put(&manifest, Bytes::from_static(b"manifest").into()).await.unwrap();
        assert_eq!(view.get(&manifest).await.unwrap().bytes().await.unwrap(), "manifest");
        assert_eq!(stored(&objects).await.len(), 1);
    }

    #[tokio::test]
    async fn lance_lists_copies_and_overwrites_nothing() {
        let objects = Arc::new(InMemory::new());
        let (a, b) = (Path::from("data/a"), Path::from("data/b"));
        objects.put(&a, Bytes::from_static(b"a").into()).await.unwrap();
        let view = View::reading(&shared(&objects), Reachable::default());
        assert!(view.put(&a, Bytes::from_static(b"other").into()).await.is_err());
        assert!(view.put_multipart(&a).await.is_err());
        assert!(view.copy(&a, &b).await.is_err() && view.rename(&a, &b).await.is_err());
        assert!(view.list(None).next().await.unwrap().is_err() && view.list_with_delimiter(None).await.is_err());
        view.delete(&a).await.unwrap();
        assert_eq!(objects.get(&a).await.unwrap().bytes().await.unwrap(), "a");
        assert_eq!(view.failure().map(|error| error.kind()), Some(headwater_core::ErrorKind::Unsupported));
    }

    /// A connection that breaks in the middle is no damage.
    #[tokio::test]
    async fn a_body_that_breaks_off_is_remembered() {
        let location = Path::from("data/t/i/data/large.lance");
        let view = View::reading(&shared(&Arc::new(InMemory::new())), Reachable::default());
        let broken = object_store::Error::Generic { store: "S3", source: "the connection was reset".into() };
        let body = futures::stream::iter([Ok(Bytes::from_static(b"begin")), Err(broken)]).boxed();
        let whole = part(&location, &Bytes::from_static(b"beginning"), &GetOptions::default()).unwrap();
        let result = GetResult { payload: GetResultPayload::Stream(body), ..whole };
        assert!(watched(result, &view.state).bytes().await.is_err());
        let failure = view.failure().unwrap();
        assert_eq!(failure.kind(), headwater_core::ErrorKind::Unavailable);
        assert!(failure.to_string().contains("large.lance"), "{failure}");
    }

    #[tokio::test]
    async fn a_small_file_is_read_once_and_checked() {
        let objects = Arc::new(InMemory::new());
        let bytes = Bytes::from_static(b"0123456789");
        let path = Path::from(format!("data/t/i/data/{}", Sealed::of(&bytes).name("fresh")));
        objects.put(&path, bytes.into()).await.unwrap();
        let shared = shared(&objects);
        let view = View::reading(&shared, Reachable::default());
        assert_eq!(view.get_range(&path, 2..5).await.unwrap(), "234");
        objects.put(&path, Bytes::from_static(b"012345678X").into()).await.unwrap();
        assert_eq!(view.get_ranges(&path, &[0..1, 8..10]).await.unwrap(), ["0", "89"]);
        let cold = View::reading(&self::shared(&objects), Reachable::default());
        assert!(cold.get_range(&path, 2..5).await.is_err());
        assert_eq!(cold.failure().map(|error| error.kind()), Some(headwater_core::ErrorKind::Corrupt));
    }
}
