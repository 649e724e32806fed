//! What commits cost at growing depths: the suite of every store, with its numbers, and what Lance itself adds to them.

use std::sync::Arc;

use headwater_conformance::tap::{Request, Tap, TapObjects, render, stages};
use headwater_core::Catalog;
use headwater_core::ids::{Mint, SystemEnvironment};
use headwater_core::store::{DataStore, Pin, Scan};
use headwater_suite::costs::costs_do_not_grow_with_depth;
use headwater_suite::lake::Lake;
use headwater_suite::rows::{create, row};
use headwater_suite_s3::wire::three_tables_are_seven_requests;

use crate::LANCE;

#[tokio::test]
async fn costs_do_not_grow_with_depth_on_a_local_disk() {
    costs_do_not_grow_with_depth(&Lake::local(LANCE)).await;
}

#[tokio::test]
async fn a_commit_to_three_tables_is_seven_requests_in_two_round_trips_at_any_depth_on_s3() {
    three_tables_are_seven_requests(LANCE).await;
}

const DEPTHS: [u64; 3] = [1, 200, 1_000];

/// A store that knows nothing yet, with a tap on its requests.
fn cold(lake: &Lake) -> (Arc<dyn DataStore>, Arc<Tap>) {
    let tap = Tap::new();
    let part = *(lake.kind.registry)().store(lake.kind.store).unwrap();
    let objects = Arc::new(TapObjects::new(lake.objects.clone(), tap.clone()));
    ((part.open)(objects, &Mint::new(Arc::new(SystemEnvironment))).unwrap(), tap)
}

fn verbs(requests: &[Request]) -> Vec<&'static str> {
    let mut verbs: Vec<_> = requests.iter().map(|request| request.verb).collect();
    verbs.sort_unstable();
    verbs
}

/// A pinned version opens cold in one request, whose bytes are its manifest's, and reads in one more per data file.
async fn cold_open(lake: &Lake, pin: &Pin, files: usize) {
    let (store, tap) = cold(lake);
    assert_eq!(store.describe(pin).await.unwrap().rows, files as u64);
    let requests = tap.requests();
    assert_eq!((verbs(&requests), requests[0].received as u64), (vec!["GET"], pin.size), "{}", render(&requests));
    tap.clear();
    let partitions = store.scan(pin, &Scan::default()).await.unwrap();
    assert_eq!((partitions.len(), tap.requests().len()), (files, 0), "a scan asks for nothing before it is read");
    for (read, partition) in partitions.iter().enumerate().take(20) {
        headwater_conformance::rows::collect(std::slice::from_ref(partition)).await.unwrap();
        assert_eq!(verbs(&tap.requests()), vec!["GET"; read + 1], "{}", render(&tap.requests()));
    }
}

/// One table, one row a commit.
async fn one_table(lake: &Lake) {
    let (branch, tap) = lake.open().await;
    create(&branch, &["t".to_owned()]).await;
    let (mut depth, mut measured) = (0, Vec::new());
    for wanted in DEPTHS {
        let mut requests = Vec::new();
        while depth < wanted {
            tap.clear();
            let append = branch.transact(|tx| async move { tx.append(&tx.table("t").await?, row(1, depth as i64)).await });
            // Round trips at the last commits, one of which spills.
            let counted = wanted - depth <= 40;
            let appended = if counted { tap.in_rounds(append, LANCE.threads).await.0 } else { append.await };
            appended.unwrap();
            depth += 1;
            requests = tap.requests();
            let spilled = requests.iter().filter(|request| request.verb == "CREATE record").count();
            assert!(requests.len() == 3 + spilled && (!counted || stages(&requests) == 2), "at depth {depth}:\n{}", render(&requests));
            assert!(!requests.iter().any(|request| request.verb.starts_with("LIST") || request.verb == "GET"), "{}", render(&requests));
        }
        let pin = branch.snapshot().await.unwrap().table("t").unwrap().pin.clone();
        cold_open(lake, &pin, wanted as usize).await;
        let sent = requests.iter().map(|request| request.sent).sum::<usize>();
        println!("{} depth {wanted}: {} requests, {sent} B sent, manifest {} B", lake.name, requests.len(), pin.size);
        measured.push((wanted, pin.size));
    }
    // The manifest grows with its fragments, and with nothing else.
    let per_fragment = |a: (u64, u64), b: (u64, u64)| (b.1 - a.1) as f64 / (b.0 - a.0) as f64;
    let (early, late) = (per_fragment(measured[0], measured[1]), per_fragment(measured[1], measured[2]));
    println!("{} manifest bytes per fragment: {early:.1} and {late:.1}", lake.name);
    assert!(early > 50.0 && late > 50.0 && late < 220.0 && (early - late).abs() < 8.0, "{measured:?}");
    branch.transact(|tx| async move { tx.optimize(&tx.table("t").await?).await }).await.unwrap();
    let optimized = branch.snapshot().await.unwrap().table("t").unwrap().pin.clone();
    assert!(optimized.size <= measured[0].1 + 512, "{} bytes of manifest, and {measured:?} before", optimized.size);
    let (store, tap) = cold(lake);
    let partitions = store.scan(&optimized, &Scan::default()).await.unwrap();
    let batches = headwater_conformance::rows::collect(&partitions).await.unwrap();
    assert_eq!(batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>(), depth);
    assert_eq!(verbs(&tap.requests()), ["GET", "GET"], "{}", render(&tap.requests()));
    let verified = Catalog::open(lake.parts(&Tap::new())).await.unwrap().verify(headwater_core::verify::Depth::Data).await.unwrap();
    assert!(verified.ok() && verified.reclaimable_objects == 0, "{verified:?}");
}

#[tokio::test]
async fn one_table_costs_three_requests_in_two_round_trips_at_any_depth_on_a_local_disk() {
    one_table(&Lake::local(LANCE)).await;
}

/// Rows of an upsert, next to each other.
const UPSERTED: i64 = 1_000;

/// What one upsert reads and writes in a table of so many rows whose key is indexed, by a process that knows nothing yet.
async fn upsert(rows: i64) -> (usize, usize) {
    let lake = Lake::memory(LANCE);
    let numbered = headwater_conformance::rows::numbered;
    let (branch, _) = lake.open().await;
    let created = branch.transact(|tx| async move {
        let table = tx.create_keyed_table("t", headwater_conformance::rows::schema(), &["id"]).await?;
        tx.append(&table, numbered(0..rows)).await
    });
    created.await.unwrap();
    branch.transact(|tx| async move { tx.index(&tx.table("t").await?, "id").await }).await.unwrap();
    let (branch, tap) = lake.open().await;
    tap.clear();
    let middle = rows / 2..rows / 2 + UPSERTED;
    let changed = branch.transact(|tx| {
        let rows = numbered(middle.clone());
        async move { tx.upsert(&tx.table("t").await?, rows).await }
    });
    assert_eq!(changed.await.unwrap().tables[0].changed, UPSERTED as u64);
    let requests = tap.requests();
    assert!(!requests.iter().any(|request| request.verb.starts_with("LIST")), "{}", render(&requests));
    let (received, sent) = told("upsert", rows, &requests);
    told("raw Lance: merge-insert", rows, &crate::raw::upsert(rows, rows / 2..rows / 2 + UPSERTED).await);
    let snapshot = branch.snapshot().await.unwrap();
    assert_eq!(snapshot.table("t").unwrap().rows, rows as u64);
    (received, sent)
}

/// Bytes read and written, reported.
fn told(what: &str, rows: i64, requests: &[Request]) -> (usize, usize) {
    let (received, sent) = requests.iter().fold((0, 0), |(received, sent), one| (received + one.received, sent + one.sent));
    let count = requests.len();
    headwater_conformance::report(format!("{what} of {UPSERTED} of {rows} rows: {count} requests, {received} B read, {sent} B written"));
    (received, sent)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upsert_by_an_indexed_key_costs_the_same_in_a_table_ten_times_as_large() {
    let (small, large) = (upsert(100_000).await, upsert(1_000_000).await);
    assert!(small.0 > 0 && large.0 <= 2 * small.0 && large.1 <= 2 * small.1, "{small:?} and {large:?}");
}
