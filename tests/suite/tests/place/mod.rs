//! One catalog that several processes use, each behind a network of its own, and everything they did on record.

use std::sync::Arc;
use std::time::Duration;

use headwater_conformance::faults::{FaultyAuthority, FaultyObjects, Network};
use headwater_conformance::fixture::{Fixture, Memory};
use headwater_conformance::invariants::{Evidence, Recorder, assert_all};
use headwater_core::registry::OpenedBackend;
use headwater_core::verify::Depth;
use headwater_core::{Catalog, Parts, RetryPolicy, TransactOptions};
use headwater_suite::{Local, registry};

/// No pauses, and few enough attempts that a test can use them up.
pub(crate) const POLICY: RetryPolicy =
    RetryPolicy { swaps: 8, prepares: 8, resolves: 3, pause: Duration::ZERO, longest_pause: Duration::ZERO };

/// Where a catalog lives.
pub(crate) struct Place {
    pub(crate) name: &'static str,
    fixture: Box<dyn Fixture<OpenedBackend>>,
    pub(crate) recorder: Recorder,
}

impl Place {
    /// An empty place in memory.
    pub(crate) async fn memory() -> Self {
        Self::new("memory", Box::new(Memory::default())).await
    }

    /// An empty place on a local disk.
    pub(crate) async fn local() -> Self {
        Self::new("local", Box::new(Local::default())).await
    }

    async fn new(name: &'static str, fixture: Box<dyn Fixture<OpenedBackend>>) -> Self {
        fixture.open_fresh().await;
        Self { name, fixture, recorder: Recorder::new() }
    }

    /// Its backend, past every network and every record.
    pub(crate) async fn backend(&self) -> OpenedBackend {
        self.fixture.reopen().await
    }

    /// What a process opens the catalog from.
    pub(crate) async fn parts(&self, network: &Arc<Network>) -> Parts {
        let backend = self.backend().await;
        let authority = Arc::new(FaultyAuthority::new(self.recorder.record(backend.authority), network.clone()));
        let objects = Arc::new(FaultyObjects::new(backend.objects, network.clone()));
        Parts { retry: POLICY, ..Parts::new(registry(), authority, objects) }
    }

    /// Verifies everything and checks every rule.
    pub(crate) async fn check(&self) {
        let catalog = Catalog::open(self.parts(&Network::calm()).await).await.unwrap();
        let report = catalog.verify(Depth::Data).await.unwrap();
        assert!(report.ok(), "{}: {:?}", self.name, report.problems);
        assert_all(&Evidence::gather(&self.recorder, &self.backend().await, &registry()).await);
    }
}

/// A commit under this token.
pub(crate) fn options(token: &str) -> TransactOptions {
    TransactOptions { token: Some(token.parse().unwrap()), ..TransactOptions::default() }
}
