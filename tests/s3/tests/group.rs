//! Commits of one process share swaps, counted on the wire of a real S3 server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use futures::future::join_all;
use headwater_bench::proxy::{Fault, Rule, Verb};
use headwater_conformance::rows::schema;
use headwater_core::Catalog;
use headwater_suite_s3::registry;
use headwater_suite_s3::wire::{batch, parts, proxied};

/// What a store in the same region may take.
const LATENCY: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_commits_of_one_process_share_at_most_eight_swaps() {
    let (proxy, buckets) = proxied().await;
    let main = Catalog::open_or_create(parts(&buckets, registry()).await, "parquet").await.unwrap().branch("main").unwrap();
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
    headwater_conformance::report(format_args!("on {}: 64 commits in {swaps} swaps", buckets.server.name()));
    assert!((1..=8).contains(&swaps), "{swaps} swaps");
    // What another process reads.
    let cold = Catalog::open(parts(&buckets, registry()).await).await.unwrap();
    assert!(cold.verify(headwater_core::verify::Depth::Data).await.unwrap().ok());
    let log = cold.branch("main").unwrap().snapshot().await.unwrap().log(100).await.unwrap();
    assert_eq!(log.len(), 65);
}

/// Writers of one process on disjoint tables.
const WRITERS: usize = 64;
/// Commits of each.
const COMMITS: usize = 4;

/// What a far-away store may take. At this latency round trips are what time goes into, so commits for each round trip are commits for each
/// second.
const FAR: Duration = Duration::from_millis(100);
/// How often it is tried, each time twice as far away: on a busy machine a request comes late for a round trip that it would share, unless what
/// the machine needs is small beside the way.
const TRIES: u32 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_writers_commit_at_least_twenty_times_as_much_in_each_round_trip_as_one() {
    let (proxy, buckets) = proxied().await;
    let main = Catalog::open_or_create(parts(&buckets, registry()).await, "parquet").await.unwrap().branch("main").unwrap();
    main.transact(|tx| async move {
        for number in 0..WRITERS {
            tx.append(&tx.create_table(&format!("t{number}"), schema()).await?, batch(0)).await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    let swaps = || proxy.requests().iter().filter(|request| request.verb == Verb::Put && request.key.contains("/heads/")).count();
    let write = |number: usize| {
        let main = main.clone();
        async move {
            for commit in 0..COMMITS {
                let written = main.transact(|tx| async move {
                    let table = tx.table(&format!("t{number}")).await?;
                    tx.append(&table, batch(commit as i64)).await
                });
                written.await.unwrap();
            }
        }
    };
    let mut commits = 1;
    for attempt in 0..TRIES {
        proxy.heal();
        proxy.inject(Rule::new(Fault::DelayRequest(FAR * 2u32.pow(attempt))));
        proxy.clear();
        write(0).await;
        let (alone, alone_trips) = (swaps(), proxy.stages());
        assert!(alone == COMMITS && alone_trips >= 2 * COMMITS, "{}", proxy.render());
        proxy.clear();
        join_all((0..WRITERS).map(|number| tokio::spawn(write(number)))).await.into_iter().for_each(|writer| writer.unwrap());
        commits += COMMITS + WRITERS * COMMITS;
        let (together, together_trips) = (swaps(), proxy.stages());
        let times = (WRITERS * COMMITS * alone_trips) as f64 / (COMMITS * together_trips) as f64;
        headwater_conformance::report(format_args!(
            "on {}: 1 writer {COMMITS} commits in {alone} swaps and {alone_trips} round trips, {WRITERS} writers {} in {together} and {together_trips}: {times:.0} times the commits",
            buckets.server.name(),
            WRITERS * COMMITS,
        ));
        assert!(together >= COMMITS);
        if alone_trips == 2 * COMMITS && times >= 20.0 {
            break;
        }
        assert!(attempt + 1 < TRIES, "{times} times the commits, {together} swaps in {together_trips} round trips, alone {alone_trips}");
    }
    assert_eq!(main.snapshot().await.unwrap().seq() as usize, commits);
}
