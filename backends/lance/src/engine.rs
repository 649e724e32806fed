//! Lance, set up so that it reaches nothing but the object store it was given.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use headwater_core::ids::Mint;
use headwater_core::{Error, ErrorKind, Result};
use lance::Dataset;
use lance::dataset::builder::DatasetBuilder;
use lance::session::Session;
use lance_core::datatypes::Schema;
use lance_file::version::ConcreteFileVersion;
use lance_io::object_store::{ObjectStore, ObjectStoreParams, ObjectStoreProvider, ObjectStoreRegistry};
use lance_table::format::{DataStorageFormat, Manifest};
use object_store::path::Path;
use url::Url;

use crate::handler::Pinned;
use crate::version::Reachable;
use crate::view::{Shared, View};
use headwater_core::objects::Objects;

/// The scheme of tables as Lance sees them here. No other build of Lance knows it.
const SCHEME: &str = "headwater";
/// The file format of new tables, whatever a later Lance prefers.
const FORMAT: ConcreteFileVersion = ConcreteFileVersion::V2_2;
/// Bounds of what one store keeps in memory: Lance's file metadata, Lance's indices, small data files.
const METADATA_BYTES: usize = 128 << 20;
const INDEX_BYTES: usize = 256 << 20;
const FILES_BYTES: u64 = 64 << 20;

/// What all tables of one store share: one session with its caches.
pub(crate) struct Engine {
    pub(crate) shared: Arc<Shared>,
    session: Arc<Session>,
    /// Stands in for the object store of handles nobody reads through.
    idle: Arc<ObjectStore>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Engine {
    /// No request.
    pub(crate) fn new(objects: Objects, mint: &Mint) -> Result<Self> {
        let shared = Arc::new(Shared::new(objects, mint.clone(), FILES_BYTES));
        let location = Url::parse(&format!("{SCHEME}:///")).map_err(|source| unusable().because(source))?;
        let idle = lance_store(Arc::new(View::reading(&shared, Reachable::default())), location);
        let registry = ObjectStoreRegistry::empty();
        registry.insert(SCHEME, Arc::new(Provider(shared.clone())));
        let session = Arc::new(Session::new(INDEX_BYTES, METADATA_BYTES, Arc::new(registry)));
        Ok(Self { shared, session, idle: Arc::new(idle) })
    }

    /// A handle whose requests go through this view.
    pub(crate) fn through(&self, dataset: &Dataset, view: Arc<View>) -> Dataset {
        dataset.with_object_store(Arc::new(self.store(view)), None)
    }

    /// Lance's object store over a view.
    pub(crate) fn store(&self, view: Arc<View>) -> ObjectStore {
        let mut store = self.idle.as_ref().clone();
        store.inner = view;
        store
    }

    /// A handle to keep: it holds on to nothing but what it knows.
    pub(crate) fn at_rest(&self, dataset: &Dataset) -> Dataset {
        dataset.with_object_store(self.idle.clone(), None)
    }

    /// Opens a version whose manifest the view holds. No request.
    pub(crate) async fn open(&self, root: &str, version: u64, handler: Pinned, view: Arc<View>) -> lance::Result<Dataset> {
        self.load(root, None, Some(version), handler, view).await
    }

    /// An empty version of a table that has no manifest anywhere: what the first version, and one that replaces all rows, is built on.
    /// No request.
    pub(crate) async fn empty(&self, root: &str, schema: Schema, config: HashMap<String, String>) -> lance::Result<Dataset> {
        let mut manifest = Manifest::new(schema, Arc::default(), DataStorageFormat::new(FORMAT), HashMap::new());
        manifest.config = config;
        // A fragment keeps its place by its number, and zero is none to choose.
        manifest.max_fragment_id = Some(0);
        let view = View::reading(&self.shared, Reachable::default());
        self.load(root, Some(manifest), None, Pinned::default(), Arc::new(view)).await
    }

    async fn load(
        &self,
        root: &str,
        manifest: Option<Manifest>,
        version: Option<u64>,
        handler: Pinned,
        view: Arc<View>,
    ) -> lance::Result<Dataset> {
        let store = self.store(view);
        let (uri, base) = (format!("{SCHEME}:///{root}"), Path::from(root));
        let session = self.session.clone();
        let dataset =
            DatasetBuilder::load_by_uri(session, manifest, None, uri, version, Arc::new(store), base, Arc::new(handler), None, None);
        Ok(self.at_rest(&Box::pin(dataset).await?))
    }
}

fn unusable() -> Error {
    Error::new(ErrorKind::Unsupported, "Lance cannot be set up")
}

fn lance_store(view: Arc<View>, location: Url) -> ObjectStore {
    const PARALLEL_REQUESTS: usize = 64;
    // Lance sends a read that failed three more times; other retries are the business of the backend's own client, below.
    ObjectStore::new(view, location, None, None, false, true, PARALLEL_REQUESTS, 0, None)
}

/// Where Lance looks up the scheme by itself, it finds a view that only reads.
#[derive(Debug)]
struct Provider(Arc<Shared>);

#[async_trait]
impl ObjectStoreProvider for Provider {
    async fn new_store(&self, base_path: Url, _: &ObjectStoreParams) -> lance_core::Result<ObjectStore> {
        Ok(lance_store(Arc::new(View::reading(&self.0, Reachable::default())), base_path))
    }
}
