//! A lab: catalogs over a backend under test, opened as separate processes would, everything they write recorded.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headwater_core::registry::{OpenedBackend, Registry};
use headwater_core::verify::Depth;
use headwater_core::{Branch, Catalog, Parts, RetryPolicy};

use crate::fixture::Fixture;
use crate::invariants::{Evidence, Recorder, assert_all};
use crate::tap::{Tap, TapAuthority, TapObjects};

/// A backend, what catalogs on it are opened with, and what went on at the present place.
pub struct Lab {
    fixture: Box<dyn Fixture<OpenedBackend>>,
    registry: Registry,
    store: String,
    recorder: Mutex<Recorder>,
}

impl fmt::Debug for Lab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lab").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Lab {
    /// A lab for catalogs of this kind of store.
    pub fn new(fixture: impl Fixture<OpenedBackend> + 'static, registry: Registry, store: &str) -> Self {
        Self { fixture: Box::new(fixture), registry, store: store.to_owned(), recorder: Mutex::default() }
    }

    /// What is linked.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The recorder of the present place.
    pub fn recorder(&self) -> Recorder {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Moves to a fresh place, where there is no catalog yet.
    pub async fn move_on(&self) {
        self.fixture.open_fresh().await;
        *self.recorder.lock().unwrap_or_else(PoisonError::into_inner) = Recorder::new();
    }

    /// What another process opens the place from, behind a tap of its own.
    pub async fn parts(&self, tap: &Arc<Tap>) -> Parts {
        let backend = self.fixture.reopen().await;
        let authority = Arc::new(TapAuthority::new(self.recorder().record(backend.authority), tap.clone()));
        let mut parts = Parts::new(self.registry.clone(), authority, Arc::new(TapObjects::new(backend.objects, tap.clone())));
        // A pause is no part of what is tested here.
        parts.retry = RetryPolicy { resolves: 3, pause: Duration::ZERO, longest_pause: Duration::ZERO, ..RetryPolicy::default() };
        parts
    }

    /// An empty catalog in a fresh place.
    pub async fn create(&self) -> Catalog {
        self.move_on().await;
        self.open().await
    }

    /// The catalog as another process opens it. It is created where it is not there.
    pub async fn open(&self) -> Catalog {
        Catalog::open_or_create(self.parts(&Tap::new()).await, &self.store).await.unwrap()
    }

    /// `main` as another process opens it.
    pub async fn main(&self) -> Branch {
        main(&self.open().await)
    }

    /// The store kind of new catalogs.
    pub fn store(&self) -> &str {
        &self.store
    }

    /// Verifies the catalog, data and all.
    pub async fn verify(&self) {
        let report = self.open().await.verify(Depth::Data).await.unwrap();
        assert!(report.ok(), "{:?}", report.problems);
    }

    /// Everything that was written at this place.
    pub async fn evidence(&self) -> Evidence {
        Evidence::gather(&self.recorder(), &self.fixture.reopen().await, &self.registry).await
    }

    /// Verifies the catalog and checks every rule.
    pub async fn check(&self) {
        self.verify().await;
        assert_all(&self.evidence().await);
    }
}

/// The branch every catalog has.
pub fn main(catalog: &Catalog) -> Branch {
    catalog.branch("main").unwrap()
}
