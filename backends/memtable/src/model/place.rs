//! One catalog, the process under test behind its own network, and another process.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::TryStreamExt;
use headwater_adapters as _;
use headwater_conformance::faults::{FaultyAuthority, FaultyObjects, Network, Random, SeededEnvironment};
use headwater_core::limits::Limits;
use headwater_core::memory::MemoryAuthority;
use headwater_core::registry::Registry;
use headwater_core::store::{Partition, Scan};
use headwater_core::{Branch, Catalog, Parts, RetryPolicy};
use headwater_parquet as _;
use object_store::memory::InMemory;

use super::store::REGISTRATION;
use crate::bug::Bug;
use crate::state::Shared;
use crate::writer::Writer;

/// The tables of every history.
pub(super) const TABLES: [&str; 3] = ["a", "b", "c"];

/// The rows of every table, in their order.
pub(super) type Rows = BTreeMap<&'static str, Vec<i64>>;

/// Small enough that every limit is met all the time.
pub(super) const LIMITS: Limits = Limits { rows: 60, bytes: 1_000, total_bytes: 1_200, idle: Some(Duration::from_secs(1)) };

pub(super) struct Place {
    authority: Arc<MemoryAuthority>,
    objects: Arc<InMemory>,
    store: &'static str,
    seed: u64,
    processes: Cell<u64>,
    /// Another process, with a network that does no harm.
    pub(super) other: Branch,
}

impl Place {
    pub(super) async fn new(store: &'static str, seed: u64) -> Self {
        let (authority, objects) = (Arc::new(MemoryAuthority::new()), Arc::new(InMemory::new()));
        let other = open(store, environment(seed, 0), &authority, &objects, &Network::calm()).await;
        let create = other.transact(|tx| async move {
            for table in TABLES {
                tx.create_table(table, schema()).await?;
            }
            Ok(())
        });
        create.await.unwrap();
        Self { authority, objects, store, seed, processes: Cell::new(0), other }
    }

    /// The process under test, started anew.
    pub(super) async fn start(&self, bug: Option<Bug>) -> (Writer, Arc<Network>) {
        let network = Network::calm();
        self.processes.set(self.processes.get() + 1);
        let environment = environment(self.seed, self.processes.get());
        let branch = open(self.store, environment, &self.authority, &self.objects, &network).await;
        let mut shared = Shared::new(branch, LIMITS);
        shared.bug = bug;
        (Writer::over(shared), network)
    }

    /// The rows that are published.
    pub(super) async fn published(&self) -> Rows {
        let (snapshot, mut rows) = (self.other.snapshot().await.unwrap(), Rows::new());
        for table in TABLES {
            rows.insert(table, read(snapshot.scan(table, &Scan::default()).await.unwrap()).await);
        }
        rows
    }

    /// Another process adds rows.
    pub(super) async fn append(&self, table: &str, numbers: &[i64]) {
        self.other.transact(|tx| async move { tx.append(&tx.table(table).await?, batch(numbers)).await }).await.unwrap();
    }
}

/// Time and randomness of one process.
fn environment(seed: u64, process: u64) -> Arc<SeededEnvironment> {
    Arc::new(SeededEnvironment::new(Random::fork(seed, process).draw()))
}

async fn open(
    store: &str,
    environment: Arc<SeededEnvironment>,
    authority: &Arc<MemoryAuthority>,
    objects: &Arc<InMemory>,
    network: &Arc<Network>,
) -> Branch {
    let mut expected = vec![("backend", "memory"), ("store", "parquet")];
    expected.extend(headwater_adapters::EXPECTED);
    let authority = Arc::new(FaultyAuthority::new(authority.clone(), network.clone()));
    let objects = Arc::new(FaultyObjects::new(objects.clone(), network.clone()));
    let mut parts = Parts::new(Registry::seal(&expected, &[&REGISTRATION]).unwrap(), authority, objects);
    parts.environment = environment;
    parts.retry = RetryPolicy { resolves: 2, pause: Duration::ZERO, longest_pause: Duration::ZERO, ..RetryPolicy::default() };
    Catalog::open_or_create(parts, store).await.unwrap().branch("main").unwrap()
}

pub(super) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("number", DataType::Int64, false)]))
}

pub(super) fn batch(numbers: &[i64]) -> RecordBatch {
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(numbers.to_vec()))]).unwrap()
}

pub(super) async fn read(partitions: Vec<Partition>) -> Vec<i64> {
    let mut numbers = Vec::new();
    for partition in partitions {
        let mut batches = (partition.open)();
        while let Some(batch) = batches.try_next().await.unwrap() {
            numbers.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
        }
    }
    numbers
}
