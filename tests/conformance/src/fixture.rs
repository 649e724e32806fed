//! What a backend brings to the kit, and how a kit's properties are listed and run.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use headwater_core::authority::ControlAuthority;
use headwater_core::ids::{Mint, SystemEnvironment};
use headwater_core::memory::MemoryAuthority;
use headwater_core::registry::{OpenedBackend, Registry};
use headwater_core::store::DataStore;
use object_store::ObjectStore;
use object_store::memory::InMemory;

/// Makes places for the kit to work in, and opens them. `T` is what the kit is to test: an `Arc<dyn ControlAuthority>`, an
/// [`OpenedBackend`], or an [`OpenedStore`].
#[async_trait]
pub trait Fixture<T>: Send + Sync {
    /// Opens a fresh, empty place that shares nothing with any other.
    async fn open_fresh(&self) -> T;

    /// Opens the place of the last [`Fixture::open_fresh`] once more, as another process would: with nothing cached.
    async fn reopen(&self) -> T;
}

/// A data store, and the objects below it for the kit to look at and to damage.
#[derive(Clone, Debug)]
pub struct OpenedStore {
    /// The store.
    pub store: Arc<dyn DataStore>,
    /// What it writes to.
    pub objects: Arc<dyn ObjectStore>,
}

/// The reference backend of `headwater-core`.
#[derive(Debug, Default)]
pub struct Memory(Mutex<Option<OpenedBackend>>);

#[async_trait]
impl Fixture<OpenedBackend> for Memory {
    async fn open_fresh(&self) -> OpenedBackend {
        let opened = OpenedBackend { authority: Arc::new(MemoryAuthority::new()), objects: Arc::new(InMemory::new()) };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened.clone());
        opened
    }

    async fn reopen(&self) -> OpenedBackend {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone().expect("open_fresh comes first")
    }
}

/// The authority alone of a fixture for whole backends.
#[derive(Debug)]
pub struct AuthorityOf<F>(pub F);

#[async_trait]
impl<F: Fixture<OpenedBackend>> Fixture<Arc<dyn ControlAuthority>> for AuthorityOf<F> {
    async fn open_fresh(&self) -> Arc<dyn ControlAuthority> {
        self.0.open_fresh().await.authority
    }

    async fn reopen(&self) -> Arc<dyn ControlAuthority> {
        self.0.reopen().await.authority
    }
}

/// A registered store over the objects of a fixture for whole backends.
#[derive(Debug)]
pub struct StoreOf<F> {
    /// Where its objects go.
    pub backend: F,
    /// What knows the store.
    pub registry: Registry,
    /// The store's kind.
    pub kind: String,
}

impl<F> StoreOf<F> {
    fn open(&self, objects: Arc<dyn ObjectStore>) -> OpenedStore {
        let part = self.registry.store(&self.kind).unwrap();
        let store = (part.open)(objects.clone(), &Mint::new(Arc::new(SystemEnvironment))).unwrap();
        OpenedStore { store, objects }
    }
}

#[async_trait]
impl<F: Fixture<OpenedBackend>> Fixture<OpenedStore> for StoreOf<F> {
    async fn open_fresh(&self) -> OpenedStore {
        self.open(self.backend.open_fresh().await.objects)
    }

    async fn reopen(&self) -> OpenedStore {
        self.open(self.backend.reopen().await.objects)
    }
}

/// One thing a part must do, as a test that panics where it does not.
pub struct Property<F: ?Sized + 'static> {
    /// What holds, in words with underscores.
    pub name: &'static str,
    /// Tests it.
    pub run: for<'a> fn(&'a F) -> LocalBoxFuture<'a, ()>,
}

impl<F: ?Sized> fmt::Debug for Property<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Lists async functions of one argument as [`Property`] values.
macro_rules! properties {
    ($($name:path),+ $(,)?) => {
        &[$($crate::fixture::Property { name: stringify!($name), run: |fixture| Box::pin($name(fixture)) }),+]
    };
}
pub(crate) use properties;

/// Tests every property and what `after` says of what it left behind, and returns how many properties there were. Panics at the end with the
/// names of those that failed, so that one fault does not hide another.
pub(crate) async fn run_all<F: ?Sized>(
    properties: &[Property<F>],
    fixture: &F,
    after: for<'a> fn(&'a F) -> LocalBoxFuture<'a, ()>,
) -> usize {
    let mut failed = Vec::new();
    for property in properties {
        println!("{}", property.name);
        let tested = async {
            (property.run)(fixture).await;
            after(fixture).await;
        };
        // A failed property leaves a place that the next one does not enter.
        if AssertUnwindSafe(tested).catch_unwind().await.is_err() {
            failed.push(property.name);
        }
    }
    assert!(failed.is_empty(), "{} of {} properties failed: {}", failed.len(), properties.len(), failed.join(", "));
    properties.len()
}
