//! A catalog under test: its backend, and handles that are opened through a tap.

use std::sync::Arc;

use headwater_conformance::tap::{Tap, TapAuthority, TapObjects};
use headwater_core::authority::{ControlAuthority, HeadRead};
use headwater_core::memory::MemoryAuthority;
use headwater_core::{Branch, Catalog, Parts};
use headwater_local::LocalAuthority;
use headwater_suite::registry;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use tempfile::TempDir;

/// Where one catalog lives. Handles on it share nothing else, as those of different processes.
#[derive(Clone, Debug)]
pub(crate) struct Lake {
    pub(crate) name: &'static str,
    pub(crate) authority: Arc<dyn ControlAuthority>,
    pub(crate) objects: Arc<dyn ObjectStore>,
    /// Kept as long as anyone uses it.
    pub(crate) _folder: Option<Arc<TempDir>>,
}

impl Lake {
    pub(crate) fn memory() -> Self {
        Self { name: "memory", authority: Arc::new(MemoryAuthority::new()), objects: Arc::new(InMemory::new()), _folder: None }
    }

    pub(crate) fn local() -> Self {
        let folder = TempDir::new().unwrap();
        let root = folder.path().join("lake");
        let (authority, objects) = (LocalAuthority::new(&root).unwrap(), headwater_local::objects(&root).unwrap());
        Self { name: "local", authority: Arc::new(authority), objects, _folder: Some(Arc::new(folder)) }
    }

    /// What one process opens the catalog from, with a tap on all its requests.
    pub(crate) fn parts(&self, tap: &Arc<Tap>) -> Parts {
        let authority = Arc::new(TapAuthority::new(self.authority.clone(), tap.clone()));
        Parts::new(registry(), authority, Arc::new(TapObjects::new(self.objects.clone(), tap.clone())))
    }

    /// Opens the catalog as another process would. It is created where it is not there yet.
    pub(crate) async fn open(&self) -> (Branch, Arc<Tap>) {
        let tap = Tap::new();
        let catalog = Catalog::open_or_create(self.parts(&tap), "parquet").await.unwrap();
        (catalog.branch("main").unwrap(), tap)
    }

    /// The bytes of the head of `main`, past every tap.
    pub(crate) async fn head(&self) -> Vec<u8> {
        match self.authority.read_head(&"main".parse().unwrap(), None).await.unwrap() {
            HeadRead::Found(bytes, _) => bytes.to_vec(),
            other => panic!("no head: {other:?}"),
        }
    }
}
