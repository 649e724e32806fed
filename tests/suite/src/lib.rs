//! The backends of this workspace under test, the registry of what is linked here, and suites for catalogs of any store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

pub mod changes;
pub mod costs;
pub mod crash;
pub mod lake;
pub mod matrix;
pub mod place;
pub mod rows;

use std::sync::{Arc, Mutex, PoisonError};

use headwater_adapters as _;
use headwater_conformance::fixture::Fixture;
use headwater_core::registry::{OpenedBackend, Registry};
use headwater_local::LocalAuthority;
use headwater_local::sim::SimDisk;
use headwater_parquet as _;
use headwater_sqlite::SqliteAuthority;
use object_store::memory::InMemory;
use tempfile::TempDir;

/// Everything this test links, sealed.
pub fn registry() -> Registry {
    let mut expected = vec![("backend", "memory"), ("backend", "local"), ("authority", "sqlite"), ("store", "parquet")];
    expected.extend(headwater_adapters::EXPECTED);
    Registry::seal(&expected, &[]).unwrap()
}

/// A store under test.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// What catalogs record.
    pub store: &'static str,
    /// Everything the test links, sealed.
    pub registry: fn() -> Registry,
    /// The names of the threads it computes on, if it does not where it is called.
    pub threads: &'static [&'static str],
}

/// The Parquet store.
pub const PARQUET: Kind = Kind { store: "parquet", registry, threads: &[] };

/// The local backend, each place a folder of its own.
#[derive(Debug, Default)]
pub struct Local(Mutex<Option<TempDir>>);

#[async_trait::async_trait]
impl Fixture<OpenedBackend> for Local {
    async fn open_fresh(&self) -> OpenedBackend {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(tempfile::tempdir().unwrap());
        self.reopen().await
    }

    async fn reopen(&self) -> OpenedBackend {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let root = guard.as_ref().unwrap().path().join("lake");
        OpenedBackend { authority: Arc::new(LocalAuthority::new(&root).unwrap()), objects: headwater_local::objects(&root).unwrap() }
    }
}

/// The SQLite authority, each place a file in a folder of its own, and data in memory.
#[derive(Debug, Default)]
pub struct Sqlite(Mutex<Option<(TempDir, Arc<InMemory>)>>);

#[async_trait::async_trait]
impl Fixture<OpenedBackend> for Sqlite {
    async fn open_fresh(&self) -> OpenedBackend {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((tempfile::tempdir().unwrap(), Arc::default()));
        self.reopen().await
    }

    async fn reopen(&self) -> OpenedBackend {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (folder, objects) = guard.as_ref().unwrap();
        let authority = SqliteAuthority::new(folder.path().join("control.db")).unwrap();
        OpenedBackend { authority: Arc::new(authority), objects: objects.clone() }
    }
}

/// The local authority over a simulated disk, and data in memory: a PUT that returned counts as durable.
#[derive(Clone, Debug, Default)]
pub struct Simulated(Arc<Mutex<(SimDisk, Arc<InMemory>)>>);

impl Simulated {
    /// The disk of the present place.
    pub fn disk(&self) -> SimDisk {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Puts another disk in the place of the present one, which is what is left after a loss of power.
    pub fn replace(&self, disk: SimDisk) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 = disk;
    }
}

#[async_trait::async_trait]
impl Fixture<OpenedBackend> for Simulated {
    async fn open_fresh(&self) -> OpenedBackend {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Default::default();
        self.reopen().await
    }

    async fn reopen(&self) -> OpenedBackend {
        let (disk, objects) = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        OpenedBackend { authority: Arc::new(LocalAuthority::over(Arc::new(disk), "/deep/lake").unwrap()), objects }
    }
}
