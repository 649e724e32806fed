//! A catalog in memory that several processes open, each through a tap or a network of its own.

use std::sync::Arc;
use std::time::Duration;

use headwater_adapters as _;
use headwater_conformance::faults::{Fault, FaultyAuthority, FaultyObjects, Network, Planned};
use headwater_conformance::rows::{collect, ids, schema, texts};
use headwater_conformance::tap::{Tap, TapAuthority, TapObjects};
use headwater_core::memory::MemoryAuthority;
use headwater_core::registry::Registry;
use headwater_core::store::Scan;
use headwater_core::verify::Depth;
use headwater_core::{Branch, Catalog, Parts, RetryPolicy};
use headwater_memtable::{Limits, Writer};
use headwater_parquet as _;
use object_store::memory::InMemory;

/// Limits that no test meets by accident.
pub(crate) const WIDE: Limits = Limits { rows: u64::MAX, bytes: u64::MAX, total_bytes: u64::MAX, idle: None };

/// Where one catalog lives.
#[derive(Default)]
pub(crate) struct Place(Arc<MemoryAuthority>, Arc<InMemory>);

impl Place {
    /// A catalog with empty tables, of an id and a name.
    pub(crate) async fn with(tables: &[&str]) -> Self {
        let place = Self::default();
        let branch = place.calm().await;
        let created = branch.transact(|tx| async move {
            for table in tables {
                tx.create_table(table, schema()).await?;
            }
            Ok(())
        });
        created.await.unwrap();
        place
    }

    fn parts(&self) -> Parts {
        let mut expected = vec![("backend", "memory"), ("store", "parquet")];
        expected.extend(headwater_adapters::EXPECTED);
        let mut parts = Parts::new(Registry::seal(&expected, &[]).unwrap(), self.0.clone(), self.1.clone());
        parts.retry = RetryPolicy { resolves: 2, pause: Duration::ZERO, longest_pause: Duration::ZERO, ..RetryPolicy::default() };
        parts
    }

    async fn open(&self, parts: Parts) -> Branch {
        Catalog::open_or_create(parts, "parquet").await.unwrap().branch("main").unwrap()
    }

    /// A process to which nothing happens.
    pub(crate) async fn calm(&self) -> Branch {
        self.open(self.parts()).await
    }

    /// A process whose requests are counted.
    pub(crate) async fn tapped(&self, tap: &Arc<Tap>) -> Branch {
        let mut parts = self.parts();
        parts.authority = Arc::new(TapAuthority::new(parts.authority, tap.clone()));
        parts.objects = Arc::new(TapObjects::new(parts.objects, tap.clone()));
        self.open(parts).await
    }

    /// A process behind a network.
    pub(crate) async fn behind(&self, network: &Arc<Network>) -> Branch {
        let mut parts = self.parts();
        parts.authority = Arc::new(FaultyAuthority::new(parts.authority, network.clone()));
        parts.objects = Arc::new(FaultyObjects::new(parts.objects, network.clone()));
        self.open(parts).await
    }

    /// A writer behind a network.
    pub(crate) async fn writer(&self, limits: Limits) -> (Writer, Arc<Network>) {
        let network = Network::calm();
        (Writer::with_limits(&self.behind(&network).await, limits).unwrap(), network)
    }

    /// The ids of a table's published rows, in their order.
    pub(crate) async fn published(&self, table: &str) -> Vec<i64> {
        let partitions = self.calm().await.snapshot().await.unwrap().scan(table, &Scan::default()).await.unwrap();
        ids(&texts(&collect(&partitions).await.unwrap()))
    }

    /// Verifies everything that is there.
    pub(crate) async fn verify(&self) {
        let report = Catalog::open(self.parts()).await.unwrap().verify(Depth::Data).await.unwrap();
        assert!(report.ok(), "{:?}", report.problems);
    }
}

/// The ids a writer reads, in their order.
pub(crate) async fn seen(writer: &Writer, table: &str) -> Vec<i64> {
    ids(&texts(&collect(&writer.scan(table, &Scan::default()).await.unwrap()).await.unwrap()))
}

/// From the next request of this verb on, all are lost, or all replies.
pub(crate) fn cut(network: &Network, verb: &'static str, fault: fn(u32) -> Fault) {
    network.plan(&[Planned { verb, nth: 0, fault: fault(10_000) }]);
}

/// The next PUT is applied, and its answer waits for a release.
pub(crate) fn hold(network: &Network) {
    network.plan(&[Planned { verb: "PUT", nth: 0, fault: Fault::Held }]);
}

/// Lets every other task go on.
pub(crate) async fn turns() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
