//! One catalog that several processes use, each behind a network of its own, and everything they did on record.

use std::sync::Arc;
use std::time::Duration;

use headwater_conformance::faults::{FaultyAuthority, FaultyObjects, Network};
use headwater_conformance::fixture::{Fixture, Memory};
use headwater_conformance::invariants::{Evidence, Recorder, assert_all};
use headwater_core::authority::ControlAuthority;
use headwater_core::locator::DataRoot;
use headwater_core::memory::MemoryAuthority;
use headwater_core::registry::OpenedBackend;
use headwater_core::verify::Depth;
use headwater_core::{Catalog, Parts, Result, RetryPolicy, TransactOptions};

use crate::{Kind, Local, Sqlite};

/// No pauses, and few enough attempts that a test can use them up.
pub const POLICY: RetryPolicy = RetryPolicy { swaps: 8, prepares: 8, resolves: 3, pause: Duration::ZERO, longest_pause: Duration::ZERO };

/// Where a catalog lives.
#[allow(missing_debug_implementations, reason = "fixtures have none")]
pub struct Place {
    /// What it is called.
    pub name: &'static str,
    fixture: Box<dyn Fixture<OpenedBackend>>,
    /// The store of a catalog here.
    pub kind: Kind,
    /// Everything done to its registers.
    pub recorder: Recorder,
    /// The authority at the data root, where the control is elsewhere.
    root: Option<Arc<dyn ControlAuthority>>,
}

impl Place {
    /// An empty place in memory.
    pub async fn memory(kind: Kind) -> Self {
        Self::new("memory", kind, Box::new(Memory::default())).await
    }

    /// An empty place on a local disk.
    pub async fn local(kind: Kind) -> Self {
        Self::new("local", kind, Box::new(Local::default())).await
    }

    /// An empty place with its control in a SQLite file.
    pub async fn sqlite(kind: Kind) -> Self {
        Self::new("sqlite", kind, Box::new(Sqlite::default())).await
    }

    async fn new(name: &'static str, kind: Kind, fixture: Box<dyn Fixture<OpenedBackend>>) -> Self {
        fixture.open_fresh().await;
        Self { name, fixture, kind, recorder: Recorder::new(), root: None }
    }

    /// An empty place with its control in a SQLite file, and a locator at the data root once there is a catalog.
    pub async fn apart(kind: Kind) -> Self {
        Self { name: "apart", root: Some(Arc::new(MemoryAuthority::new())), ..Self::sqlite(kind).await }
    }

    /// Its backend, past every network and every record.
    pub async fn backend(&self) -> OpenedBackend {
        self.fixture.reopen().await
    }

    /// What a process opens the catalog from.
    pub async fn parts(&self, network: &Arc<Network>) -> Parts {
        let backend = self.backend().await;
        let authority = Arc::new(FaultyAuthority::new(self.recorder.record(backend.authority), network.clone()));
        let objects = Arc::new(FaultyObjects::new(backend.objects, network.clone()));
        let root = self.root.clone().map(|root| Arc::new(FaultyAuthority::new(root, network.clone())) as Arc<dyn ControlAuthority>);
        Parts { retry: POLICY, data_root: root.map(data_root), ..Parts::new((self.kind.registry)(), authority, objects) }
    }

    /// Opens the catalog; creates it where it is not there.
    pub async fn create(&self, network: &Arc<Network>) -> Result<Catalog> {
        Catalog::open_or_create(self.parts(network).await, self.kind.store).await
    }

    /// Verifies everything and checks every rule.
    pub async fn check(&self) {
        let catalog = Catalog::open(self.parts(&Network::calm()).await).await.unwrap();
        let report = catalog.verify(Depth::Data).await.unwrap();
        assert!(report.ok(), "{}: {:?}", self.name, report.problems);
        let OpenedBackend { authority, objects } = self.backend().await;
        let parts = Parts::new((self.kind.registry)(), authority, objects);
        let parts = Parts { data_root: self.root.clone().map(data_root), ..parts };
        assert_all(&Evidence::gather_from(&self.recorder, parts).await);
    }
}

fn data_root(authority: Arc<dyn ControlAuthority>) -> DataRoot {
    DataRoot { authority, url: "memory://lake".to_owned(), control: "sqlite:///control.db".to_owned() }
}

/// A commit under this token.
pub fn options(token: &str) -> TransactOptions {
    TransactOptions { token: Some(token.parse().unwrap()), ..TransactOptions::default() }
}
