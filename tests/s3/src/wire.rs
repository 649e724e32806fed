//! What commits cost on the wire of a real S3 server, counted by the proxy.

use std::time::Duration;

use arrow_array::RecordBatch;
use headwater_bench::proxy::{Fault, Proxy, Rule, Verb};
use headwater_conformance::fixture::Fixture;
use headwater_conformance::rows::{numbered, schema};
use headwater_core::registry::Registry;
use headwater_core::{Catalog, Parts};

use crate::Buckets;

/// Enough that requests which do not wait for each other overlap.
pub const LATENCY: Duration = Duration::from_millis(60);

/// A bucket behind a proxy.
pub async fn proxied() -> (Proxy, Buckets) {
    let proxy = Proxy::before(Buckets::direct().server).await.unwrap();
    let buckets = Buckets::behind(proxy.addr());
    buckets.open_fresh().await;
    (proxy, buckets)
}

/// What a process opens the bucket from.
pub async fn parts(buckets: &Buckets, registry: Registry) -> Parts {
    let backend = buckets.reopen().await;
    Parts::new(registry, backend.authority, backend.objects)
}

/// Two rows.
pub fn batch(number: i64) -> RecordBatch {
    numbered(number..number + 2)
}

/// A commit to three tables is seven requests in two round trips, at any depth.
pub async fn three_tables_are_seven_requests(registry: fn() -> Registry, store: &str) {
    let (proxy, buckets) = proxied().await;
    let main = Catalog::open_or_create(parts(&buckets, registry()).await, store).await.unwrap().branch("main").unwrap();
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
    let cold = Catalog::open(parts(&buckets, registry()).await).await.unwrap().branch("main").unwrap().snapshot_at_open().await.unwrap();
    assert_eq!((cold.seq(), proxy.requests().len(), proxy.stages()), (81, 2, 1), "{}", proxy.render());
}
