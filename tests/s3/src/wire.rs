//! What commits cost on the wire of a real S3 server, counted by the proxy.

use std::sync::Arc;

use arrow_array::RecordBatch;
use headwater_bench::proxy::{Proxy, Verb};
use headwater_conformance::fixture::Fixture;
use headwater_conformance::rows::{numbered, schema};
use headwater_conformance::tap::{Tap, TapAuthority, TapObjects, render};
use headwater_core::registry::Registry;
use headwater_core::{Catalog, Parts};
use headwater_suite::Kind;

use crate::Buckets;

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

/// The same, behind a tap: round trips are counted there.
pub async fn tapped(buckets: &Buckets, registry: Registry, tap: &Arc<Tap>) -> Parts {
    let backend = buckets.reopen().await;
    let authority = Arc::new(TapAuthority::new(backend.authority, tap.clone()));
    Parts::new(registry, authority, Arc::new(TapObjects::new(backend.objects, tap.clone())))
}

/// Two rows.
pub fn batch(number: i64) -> RecordBatch {
    numbered(number..number + 2)
}

/// A commit to three tables is seven requests in two round trips, at any depth.
pub async fn three_tables_are_seven_requests(Kind { store, registry, threads }: Kind) {
    let ((proxy, buckets), tap) = (proxied().await, Tap::new());
    let main = Catalog::open_or_create(tapped(&buckets, registry(), &tap).await, store).await.unwrap().branch("main").unwrap();
    main.transact(|tx| async move {
        for number in 0..10 {
            tx.create_table(&format!("t{number}"), schema()).await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    let (mut warm, mut spills) = (0, 0);
    for depth in 0..80 {
        proxy.clear();
        tap.clear();
        let commit = main.transact(|tx| async move {
            for number in 0..3 {
                let table = tx.table(&format!("t{number}")).await?;
                tx.append(&table, batch(depth)).await?;
            }
            Ok(())
        });
        tap.in_rounds(commit, threads).await.0.unwrap();
        let requests = proxy.requests();
        let spilled = requests.iter().filter(|request| request.key.contains("/segment/")).count();
        assert!(spilled <= 1 && requests.len() == 7 + spilled, "{}", proxy.render());
        assert_eq!((tap.requests().len(), tap.stages()), (requests.len(), 2), "{}", render(&tap.requests()));
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
    tap.clear();
    let parts = tapped(&buckets, registry(), &tap).await;
    let open = async { Catalog::open(parts).await?.branch("main")?.snapshot_at_open().await };
    let cold = tap.in_rounds(open, threads).await.0.unwrap();
    assert_eq!((cold.seq(), proxy.requests().len(), tap.requests().len(), tap.stages()), (81, 2, 2, 1), "{}", proxy.render());
}
