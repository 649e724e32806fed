//! A prepared catalog, put down in as many buckets as there are cells, and what is seen there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use headwater_bench::proxy::Proxy;
use headwater_bench::server::Server;
use headwater_conformance::crash::Scenario;
use headwater_conformance::fixture::{Fixture, Memory};
use headwater_conformance::rows;
use headwater_core::authority::{Create, Expected, HeadRead, Swap};
use headwater_core::name::{BranchName, RecordKey};
use headwater_core::registry::OpenedBackend;
use headwater_core::store::Pin;
use headwater_core::verify::Depth;
use headwater_core::{Catalog, Commit, Parts, Result, RetryPolicy, TransactOptions};
use headwater_suite_s3::{open, registry};
use object_store::ObjectStoreExt;
use object_store::path::Path;

/// The token of an operation's only commit.
pub(crate) const TOKEN: &str = "operation";

/// How often an uncertain swap is looked for and sent again.
pub(crate) const RESOLVES: u32 = 3;

/// No pauses: they are no part of what is tested.
pub(crate) fn retry() -> RetryPolicy {
    RetryPolicy { resolves: RESOLVES, pause: Duration::ZERO, longest_pause: Duration::ZERO, ..RetryPolicy::default() }
}

pub(crate) fn parts(backend: &OpenedBackend) -> Parts {
    Parts { retry: retry(), ..Parts::new(registry(), backend.authority.clone(), backend.objects.clone()) }
}

fn main_branch() -> BranchName {
    "main".parse().unwrap()
}

/// Everything a catalog keeps before an operation.
#[derive(Debug)]
pub(crate) struct Copy {
    head: Bytes,
    records: Vec<(RecordKey, Bytes)>,
    objects: Vec<(Path, Bytes)>,
}

impl Copy {
    pub(crate) async fn before(scenario: &Scenario) -> Self {
        let backend = Memory::default().open_fresh().await;
        let catalog = Catalog::open_or_create(parts(&backend), "parquet").await.unwrap();
        (scenario.setup)(catalog.branch("main").unwrap()).await.unwrap();
        let HeadRead::Found(head, _) = backend.authority.read_head(&main_branch(), None).await.unwrap() else { panic!("no head") };
        let (mut records, mut objects) = (Vec::new(), Vec::new());
        for key in backend.authority.list_records("").await.unwrap() {
            let (body, _) = backend.authority.read_record(&key).await.unwrap().unwrap();
            records.push((key, body));
        }
        for object in backend.objects.list(None).try_collect::<Vec<_>>().await.unwrap() {
            let body = backend.objects.get(&object.location).await.unwrap().bytes().await.unwrap();
            objects.push((object.location, body));
        }
        Self { head, records, objects }
    }

    /// Puts it down in an empty bucket.
    async fn put_down(&self, backend: &OpenedBackend) {
        futures::stream::iter(&self.objects)
            .for_each_concurrent(8, |(key, body)| async move {
                backend.objects.put(key, body.clone().into()).await.unwrap();
            })
            .await;
        for (key, body) in &self.records {
            assert!(matches!(backend.authority.create_record(key, body.clone()).await.unwrap(), Create::Created));
        }
        let swap = backend.authority.swap_head(&main_branch(), Expected::Absent, self.head.clone()).await.unwrap();
        assert!(matches!(swap, Swap::Swapped(_)));
    }
}

/// A bucket, the way past the proxy, and the proxy through which the operation reaches it.
#[derive(Debug)]
pub(crate) struct Place {
    server: &'static Server,
    bucket: String,
    pub(crate) direct: OpenedBackend,
    pub(crate) proxy: Proxy,
}

impl Place {
    pub(crate) async fn empty() -> Self {
        let server = Server::shared().unwrap();
        let bucket = server.bucket().unwrap();
        let direct = open(server, server.address(), &bucket);
        Self { server, direct, bucket, proxy: Proxy::before(server).await.unwrap() }
    }

    pub(crate) async fn new(copy: &Copy) -> Self {
        let place = Self::empty().await;
        copy.put_down(&place.direct).await;
        place
    }

    /// What a process opens it from that has the proxy before it.
    pub(crate) fn proxied(&self) -> Parts {
        parts(&open(self.server, self.proxy.addr(), &self.bucket))
    }

    pub(crate) async fn catalog(&self) -> Catalog {
        Catalog::open(parts(&self.direct)).await.unwrap()
    }

    pub(crate) async fn verify(&self) {
        let report = self.catalog().await.verify(Depth::Data).await.unwrap();
        assert!(report.ok(), "{:?}", report.problems);
    }
}

/// Another process, which commits once, when the operation has read the head: its first swap is lost.
#[derive(Debug)]
pub(crate) struct Rival {
    parts: Parts,
    done: AtomicBool,
}

impl Rival {
    pub(crate) fn new(place: &Place) -> Arc<Self> {
        Arc::new(Self { parts: parts(&place.direct), done: AtomicBool::new(false) })
    }

    pub(crate) async fn commit(&self) {
        if self.done.swap(true, Ordering::SeqCst) {
            return;
        }
        let main = Catalog::open(self.parts.clone()).await.unwrap().branch("main").unwrap();
        main.transact(|tx| async move { tx.append(&tx.table("a").await?, rows::numbered(900..901)).await }).await.unwrap();
    }
}

/// The operation, from the opening of the catalog on.
pub(crate) async fn operate(parts: Parts, scenario: &Scenario, rival: Option<&Arc<Rival>>) -> Result<Commit> {
    let [body] = scenario.commits else { panic!("{}: one commit is made", scenario.name) };
    let options = TransactOptions { token: Some(TOKEN.parse().unwrap()), ..TransactOptions::default() };
    let main = Catalog::open(parts).await?.branch("main")?;
    main.transact_with(options, |tx| async move {
        if let Some(rival) = rival {
            rival.commit().await;
        }
        body(tx).await
    })
    .await
}

/// What a reader sees: columns and rows of every table, the names of the dropped ones, and which seqs have the operation's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) seq: u64,
    pub(crate) tokens: Vec<u64>,
    tables: BTreeMap<String, (String, Vec<String>)>,
    dropped: Vec<String>,
}

/// Reads catalogs. The rows of a pin never change, so each is decoded once, however many cells share it.
#[derive(Debug, Default)]
pub(crate) struct Reader(Mutex<BTreeMap<Pin, Vec<String>>>);

impl Reader {
    /// What another process sees, past the proxy.
    pub(crate) async fn read(&self, place: &Place) -> Seen {
        let snapshot = place.catalog().await.branch("main").unwrap().snapshot_at_open().await.unwrap();
        let log = snapshot.log(usize::MAX).await.unwrap();
        let seqs: Vec<u64> = log.iter().rev().map(|logged| logged.entry.seq).collect();
        assert_eq!(seqs, (1..=snapshot.seq()).collect::<Vec<_>>(), "seqs are contiguous");
        let tokens = log.iter().filter(|logged| logged.entry.token.as_str() == TOKEN).map(|logged| logged.entry.seq).collect();
        let mut seen = Seen { seq: snapshot.seq(), tokens, tables: BTreeMap::new(), dropped: Vec::new() };
        for head in snapshot.tables() {
            let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let found = known().get(&head.pin).cloned();
            let rows = match found {
                Some(rows) => rows,
                None => {
                    let mut rows = rows::read(&snapshot, head.key.as_str()).await.unwrap();
                    rows.sort();
                    known().insert(head.pin.clone(), rows.clone());
                    rows
                }
            };
            assert_eq!(rows.len() as u64, head.rows, "the head of {} counts its rows", head.key);
            seen.tables.insert(head.key.to_string(), (head.schema_hash.clone(), rows));
        }
        seen.dropped.extend(snapshot.tombstones().await.unwrap().iter().map(|head| head.key.to_string()));
        seen.dropped.sort();
        seen
    }
}
