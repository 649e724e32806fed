//! What commits cost on the wire of a real S3 server, and what a server that breaks its promises gets: counted and injected by the proxy.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use futures::future::join_all;
use headwater_bench::proxy::{Fault, Proxy, Rule, Verb};
use headwater_conformance::fixture::Fixture;
use headwater_conformance::rows::{numbered, schema};
use headwater_core::{Catalog, ErrorKind, Parts};
use headwater_suite_s3::{Buckets, registry};

/// Enough that requests which do not wait for each other overlap.
const LATENCY: Duration = Duration::from_millis(20);

async fn proxied() -> (Proxy, Buckets) {
    let proxy = Proxy::before(Buckets::direct().server).await.unwrap();
    let buckets = Buckets::behind(proxy.addr());
    buckets.open_fresh().await;
    (proxy, buckets)
}

async fn parts(buckets: &Buckets) -> Parts {
    let backend = buckets.reopen().await;
    Parts::new(registry(), backend.authority, backend.objects)
}

fn batch(number: i64) -> RecordBatch {
    numbered(number..number + 2)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_to_three_tables_is_seven_requests_in_two_round_trips_at_any_depth() {
    let (proxy, buckets) = proxied().await;
    let main = Catalog::open_or_create(parts(&buckets).await, "parquet").await.unwrap().branch("main").unwrap();
    main.transact(|tx| async move {
        for number in 0..10 {
            tx.create_table(&format!("t{number}"), schema()).await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    proxy.inject(Rule::new(Fault::DelayRequest(LATENCY)));
    let (mut warm, mut spills) = (0, 0);
    for depth in 0..80 {
        proxy.clear();
        main.transact(|tx| async move {
            for number in 0..3 {
                let table = tx.table(&format!("t{number}")).await?;
                tx.append(&table, batch(depth)).await?;
            }
            Ok(())
        })
        .await
        .unwrap();
        let requests = proxy.requests();
        let spilled = requests.iter().filter(|request| request.key.contains("/segment/")).count();
        assert!(spilled <= 1 && requests.len() == 7 + spilled && proxy.stages() == 2, "{}", proxy.render());
        assert!(requests.iter().all(|request| request.verb == Verb::Put), "{}", proxy.render());
        (warm, spills) = (warm + 1, spills + spilled);

        proxy.clear();
        assert_eq!(main.snapshot().await.unwrap().seq(), depth as u64 + 2);
        let [unchanged] = &proxy.requests()[..] else { panic!("{}", proxy.render()) };
        assert_eq!((unchanged.verb, unchanged.status, unchanged.received), (Verb::Get, Some(304), 0), "{}", proxy.render());
    }
    println!("on {}: {warm} commits of 7 requests in 2 round trips, {spills} of them with 1 more for a spill", buckets.server.name());
    assert!(spills >= 3);

    proxy.clear();
    let cold = Catalog::open(parts(&buckets).await).await.unwrap().branch("main").unwrap().snapshot_at_open().await.unwrap();
    assert_eq!((cold.seq(), proxy.requests().len(), proxy.stages()), (81, 2, 1), "{}", proxy.render());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_commits_of_one_process_share_at_most_eight_swaps() {
    let (proxy, buckets) = proxied().await;
    let main = Catalog::open_or_create(parts(&buckets).await, "parquet").await.unwrap().branch("main").unwrap();
    main.transact(|tx| async move {
        for number in 0..64 {
            tx.create_table(&format!("t{number}"), schema()).await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    proxy.inject(Rule::new(Fault::DelayRequest(LATENCY)));
    proxy.clear();
    let commits = (0..64).map(|number| {
        let main = main.clone();
        tokio::spawn(async move {
            main.transact(|tx| async move {
                let table = tx.table(&format!("t{number}")).await?;
                tx.append(&table, batch(number)).await
            })
            .await
        })
    });
    let mut seqs: Vec<u64> = join_all(commits).await.into_iter().map(|commit| commit.unwrap().unwrap().seq).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (2..=65).collect::<Vec<_>>());
    let swaps = proxy.requests().iter().filter(|request| request.verb == Verb::Put && request.key.contains("/heads/")).count();
    println!("on {}: 64 commits in {swaps} swaps", buckets.server.name());
    assert!((1..=8).contains(&swaps), "{swaps} swaps");
    // What another process reads.
    let cold = Catalog::open(parts(&buckets).await).await.unwrap();
    assert!(cold.verify(headwater_core::verify::Depth::Data).await.unwrap().ok());
    let log = cold.branch("main").unwrap().snapshot().await.unwrap().log(100).await.unwrap();
    assert_eq!(log.len(), 65);
}

/// A server that breaks a promise is refused by name before a catalog is made, and nothing is left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_breaks_a_promise_is_refused() {
    let broken = [
        ("If-None-Match", Fault::StripRequestHeader("if-none-match")),
        ("If-Match", Fault::StripRequestHeader("if-match")),
        ("weak", Fault::WeakETag),
    ];
    for (name, fault) in broken {
        let (proxy, buckets) = proxied().await;
        proxy.inject(Rule::new(fault));
        let refused = Catalog::open_or_create(parts(&buckets).await, "parquet").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PreconditionIgnored, "{name}: {refused:?}");
        assert!(proxy.fired() > 0);
        println!("{name}: {refused}");
        let left = Arc::clone(&buckets.reopen().await.objects);
        let objects: Vec<_> = futures::StreamExt::collect(left.list(None)).await;
        assert!(objects.is_empty(), "{name}: {objects:?}");
    }
}
