//! A catalog under test: its backend, and handles that are opened through a tap.

use std::sync::Arc;

use headwater_conformance::tap::{Tap, TapAuthority, TapObjects};
use headwater_core::authority::{ControlAuthority, HeadRead};
use headwater_core::memory::MemoryAuthority;
use headwater_core::{Branch, Catalog, Parts};
use headwater_local::LocalAuthority;
use headwater_sqlite::SqliteAuthority;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use tempfile::TempDir;

use crate::Kind;

/// Where one catalog lives. Handles on it share nothing else, as those of different processes.
#[derive(Clone, Debug)]
pub struct Lake {
    /// What it is called.
    pub name: &'static str,
    /// The store of its catalog.
    pub kind: Kind,
    /// Where its heads and records are.
    pub authority: Arc<dyn ControlAuthority>,
    /// Where its data is.
    pub objects: Arc<dyn ObjectStore>,
    /// Kept as long as anyone uses it.
    pub _folder: Option<Arc<TempDir>>,
}

impl Lake {
    /// In memory.
    pub fn memory(kind: Kind) -> Self {
        Self { name: "memory", kind, authority: Arc::new(MemoryAuthority::new()), objects: Arc::new(InMemory::new()), _folder: None }
    }

    /// In a folder of its own.
    pub fn local(kind: Kind) -> Self {
        let folder = TempDir::new().unwrap();
        let root = folder.path().join("lake");
        let (authority, objects) = (LocalAuthority::new(&root).unwrap(), headwater_local::objects(&root).unwrap());
        Self { name: "local", kind, authority: Arc::new(authority), objects, _folder: Some(Arc::new(folder)) }
    }

    /// With its control in a SQLite file, and its data in memory.
    pub fn sqlite(kind: Kind) -> Self {
        let folder = TempDir::new().unwrap();
        let authority = Arc::new(SqliteAuthority::new(folder.path().join("control.db")).unwrap());
        Self { name: "sqlite", kind, authority, objects: Arc::new(InMemory::new()), _folder: Some(Arc::new(folder)) }
    }

    /// On each authority.
    pub fn all(kind: Kind) -> [Self; 3] {
        [Self::memory(kind), Self::local(kind), Self::sqlite(kind)]
    }

    /// What one process opens the catalog from, with a tap on all its requests.
    pub fn parts(&self, tap: &Arc<Tap>) -> Parts {
        let authority = Arc::new(TapAuthority::new(self.authority.clone(), tap.clone()));
        Parts::new((self.kind.registry)(), authority, Arc::new(TapObjects::new(self.objects.clone(), tap.clone())))
    }

    /// Opens the catalog as another process would. It is created where it is not there yet.
    pub async fn open(&self) -> (Branch, Arc<Tap>) {
        let tap = Tap::new();
        let catalog = Catalog::open_or_create(self.parts(&tap), self.kind.store).await.unwrap();
        (catalog.branch("main").unwrap(), tap)
    }

    /// The bytes of the head of `main`, past every tap.
    pub async fn head(&self) -> Vec<u8> {
        match self.authority.read_head(&"main".parse().unwrap(), None).await.unwrap() {
            HeadRead::Found(bytes, _) => bytes.to_vec(),
            other => panic!("no head: {other:?}"),
        }
    }
}
