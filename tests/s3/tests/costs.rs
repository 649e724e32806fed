//! What operations cost on the wire of a real S3 server at growing depths: requests, round trips and bytes, counted by the proxy.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use futures::future::join_all;
use headwater_bench::proxy::{Proxy, Request, Verb};
use headwater_conformance::fixture::Fixture;
use headwater_conformance::rows::{numbered, schema};
use headwater_conformance::shape::Shape;
use headwater_conformance::tap::Tap;
use headwater_core::authority::HeadRead;
use headwater_core::head::Head;
use headwater_core::verify::Depth;
use headwater_core::{At, Branch, Catalog};
use headwater_suite_s3::wire::{measured, parts, proxied, tapped};
use headwater_suite_s3::{Buckets, registry};

const DEPTHS: [u64; 4] = [20, 80, 320, 1_280];
const WIDTH: usize = 10;
/// Entries of the tail where heads are compared.
const PHASE: usize = 12;
/// The limits of a head: its journal tail, and all besides (ten tables, names of one length).
const TAIL_BYTES: usize = 32 << 10;
const REST_BYTES: usize = 10 << 10;

/// One catalog behind a proxy that counts, and the handle of one warm process, whose tap knows what it has under way.
struct Wire {
    proxy: Proxy,
    tap: Arc<Tap>,
    buckets: Buckets,
    main: Branch,
}

impl Wire {
    async fn new() -> Self {
        let ((proxy, buckets), tap) = (proxied().await, Tap::new());
        let main = Catalog::open_or_create(tapped(&buckets, registry(), &tap).await, "parquet").await.unwrap().branch("main").unwrap();
        let created = main.transact(|tx| async move {
            for table in 0..WIDTH {
                tx.create_table(&key(table), schema()).await?;
            }
            Ok(())
        });
        created.await.unwrap();
        Self { proxy, tap, buckets, main }
    }

    async fn cold(&self) -> Branch {
        Catalog::open(tapped(&self.buckets, registry(), &self.tap).await).await.unwrap().branch("main").unwrap()
    }

    /// Does something, and returns its requests and in how many round trips they came. No operation here may list.
    async fn counted<T>(&self, work: impl Future<Output = T>) -> (T, Vec<Request>, usize) {
        let done = measured(&self.proxy, &self.tap, &[], work).await;
        let requests = self.proxy.requests();
        assert!(requests.iter().all(|request| request.verb != Verb::List), "a list:\n{}", self.proxy.render());
        (done, requests, self.proxy.stages())
    }

    /// Appends one row to each of some tables, in one commit.
    async fn append(&self, tables: &[usize]) -> u64 {
        append(&self.main, tables).await
    }

    async fn head(&self) -> Vec<u8> {
        let backend = self.buckets.reopen().await;
        match backend.authority.read_head(&"main".parse().unwrap(), None).await.unwrap() {
            HeadRead::Found(body, _) => body.to_vec(),
            other => panic!("no head: {other:?}"),
        }
    }

    /// Goes to this depth, ten commits at a time: they share swaps.
    async fn go_to(&self, depth: u64) {
        loop {
            let seq = self.main.snapshot().await.unwrap().seq();
            assert!(seq <= depth, "the measurements at the depth before went beyond {depth}");
            if seq == depth {
                return;
            }
            join_all((0..WIDTH.min((depth - seq) as usize)).map(|table| async move { append(&self.main, &[table]).await })).await;
        }
    }

    /// Commits to one table each until the tail has this many of them, and of nothing else.
    async fn at_phase(&self) -> Shape {
        let mut alike = 0;
        for step in 0..100 {
            self.proxy.clear();
            self.append(&[step % WIDTH]).await;
            let spilled = self.proxy.requests().iter().any(|request| request.key.contains("/segment/"));
            alike = if spilled { 1 } else { alike + usize::from(alike > 0) };
            if alike == PHASE {
                let bytes = self.head().await;
                assert_eq!(serde_json::from_slice::<Head>(&bytes).unwrap().tail.len(), PHASE);
                return Shape::of(&bytes);
            }
        }
        panic!("the tail never spills");
    }
}

async fn append(main: &Branch, tables: &[usize]) -> u64 {
    let appended = main.transact(|tx| async move {
        for table in tables {
            tx.append(&tx.table(&key(*table)).await?, numbered(0..1)).await?;
        }
        Ok(())
    });
    appended.await.unwrap().seq
}

fn key(table: usize) -> String {
    format!("t{table}")
}

/// What is current: warm 1 GET, answered 304 without a body where nothing changed and whole where something did; cold 2 GETs in 1 round trip.
async fn lookups(wire: &Wire, depth: u64) {
    let other = wire.cold().await;
    other.snapshot().await.unwrap();
    let (current, requests, stages) = wire.counted(async { wire.main.snapshot().await.unwrap() }).await;
    let [unchanged] = &requests[..] else { panic!("{}", wire.proxy.render()) };
    assert_eq!((current.seq(), unchanged.verb, unchanged.status, unchanged.received, stages), (depth, Verb::Get, Some(304), 0, 1));

    let (cold, requests, stages) = wire.counted(async { wire.cold().await.snapshot_at_open().await.unwrap() }).await;
    assert_eq!((cold.seq(), cold.commit(), cold.tables().len()), (depth, current.commit(), WIDTH));
    assert!(requests.len() <= 2 && stages == 1 && requests.iter().all(|request| request.verb == Verb::Get), "{}", wire.proxy.render());

    assert_eq!(wire.append(&[0]).await, depth + 1);
    let (later, requests, _) = wire.counted(async { other.snapshot().await.unwrap() }).await;
    assert_eq!(later.seq(), depth + 1);
    let [moved] = &requests[..] else { panic!("{}", wire.proxy.render()) };
    assert_eq!((moved.verb, moved.status, moved.received), (Verb::Get, Some(200), wire.head().await.len()));
}

/// A warm append to 3 tables: 7 PUTs in 2 round trips; 1 PUT more, in the same 2, where the tail spills.
async fn appends(wire: &Wire) {
    let (mut plain, mut spills) = (0, 0);
    while spills == 0 || plain < 2 {
        let (_, requests, stages) = wire.counted(wire.append(&[1, 4, 7])).await;
        let spilled = requests.iter().filter(|request| request.key.contains("/segment/")).count();
        assert!(spilled <= 1 && requests.len() == 7 + spilled && stages == 2, "{}", wire.proxy.render());
        assert!(requests.iter().all(|request| request.verb == Verb::Put), "{}", wire.proxy.render());
        (plain, spills) = (plain + 1 - spilled, spills + spilled);
        assert!(plain <= 32, "the tail never spills");
    }
}

/// One old seq, cold, the dearest of some; and the whole journal: the control, whose requests do grow.
async fn history(wire: &Wire) -> (usize, usize) {
    let last = wire.main.snapshot().await.unwrap().seq();
    let mut old = 0;
    for seq in [1, last / 4, last / 3, last / 2, last * 2 / 3, last * 3 / 4] {
        let there = async { wire.cold().await.snapshot_at_open().await.unwrap().at(At::Seq(seq)).await.unwrap() };
        let (then, requests, _) = wire.counted(there).await;
        assert_eq!(then.seq(), seq);
        old = old.max(requests.len());
    }
    let log = async { wire.cold().await.snapshot_at_open().await.unwrap().log(usize::MAX).await.unwrap() };
    let (log, requests, _) = wire.counted(log).await;
    assert_eq!(log.len() as u64, last);
    (old, requests.len())
}

#[tokio::test]
async fn costs_do_not_grow_with_depth() {
    let wire = Wire::new().await;
    let mut measured: Vec<(u64, Shape, usize)> = Vec::new();
    for depth in DEPTHS {
        wire.go_to(depth).await;
        lookups(&wire, depth).await;
        appends(&wire).await;
        let shape = wire.at_phase().await;
        let (old, whole) = history(&wire).await;
        headwater_conformance::report(format_args!(
            "on {}, depth {depth}: a lookup 1 GET (304 without a body), cold 2 in 1 round trip; an append to 3 tables 7 in 2, 8 in 2 with a spill; \
             no LIST; a head of {} B at equal phase ({} without its numbers); one old seq, cold, {old} GETs, the whole journal {whole}",
            wire.buckets.server.name(),
            shape.bytes,
            shape.without_numbers,
        ));
        assert!(shape.bytes <= TAIL_BYTES + REST_BYTES, "a head of {} bytes", shape.bytes);
        // 2 to open, 3 for each level of pointers to 40 segments, and the checkpoint before what is found.
        assert!(old <= 2 + 3 * 3 + 1, "one old seq takes {old} requests");
        measured.push((depth, shape, whole));
    }
    for two in measured.windows(2) {
        let ((less, before, _), (more, after, whole)) = (&two[0], &two[1]);
        assert_eq!(before.without_numbers, after.without_numbers, "a head knows whether it is {less} or {more} deep");
        for (path, digits) in &before.counters {
            assert!(after.counters[path].len().abs_diff(digits.len()) <= 8, "the counter {path} grows by more than digits");
        }
        assert!(*whole as u64 > *more / 40, "the meter sees what grows: {whole} requests at {more}");
    }
    headwater_conformance::report(format_args!("counters of a head: {}", measured[0].1.names()));
    let catalog = Catalog::open(parts(&wire.buckets, registry()).await).await.unwrap();
    assert!(catalog.verify(Depth::Metadata).await.unwrap().ok());
}
