//! What commits cost on the wire of a real S3 server, counted by the proxy, while it holds requests until their client can only wait.

use std::sync::Arc;

use arrow_array::RecordBatch;
use headwater_bench::proxy::{Fault, Proxy, Rule, Verb};
use headwater_conformance::fixture::Fixture;
use headwater_conformance::rounds::{Holds, in_rounds};
use headwater_conformance::rows::{numbered, schema};
use headwater_conformance::tap::{Tap, TapAuthority, TapObjects};
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

/// The same, behind a tap, which knows what its process has under way.
pub async fn tapped(buckets: &Buckets, registry: Registry, tap: &Arc<Tap>) -> Parts {
    let backend = buckets.reopen().await;
    let authority = Arc::new(TapAuthority::new(backend.authority, tap.clone()));
    Parts::new(registry, authority, Arc::new(TapObjects::new(backend.objects, tap.clone())))
}

/// Does something by the process of this tap, and leaves its requests at the proxy, in as many stages as it has round trips.
pub async fn measured<T>(proxy: &Proxy, tap: &Tap, threads: &[&str], work: impl Future<Output = T>) -> T {
    proxy.clear();
    tap.clear();
    let held = proxy.inject(Rule::new(Fault::Hold));
    let holds = || Holds { held: held.held(), ..tap.holds() };
    let (done, rounds) = in_rounds(work, threads, holds, async || held.release().await.map(drop)).await.unwrap();
    proxy.heal();
    let (requests, stages) = (proxy.requests(), proxy.stages());
    assert!(!requests.is_empty() && requests.len() == tap.requests().len(), "{}", proxy.render());
    assert!(stages == tap.stages() && stages <= rounds, "let go {rounds} times:\n{}", proxy.render());
    done
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
        let commit = main.transact(|tx| async move {
            for number in 0..3 {
                let table = tx.table(&format!("t{number}")).await?;
                tx.append(&table, batch(depth)).await?;
            }
            Ok(())
        });
        measured(&proxy, &tap, threads, commit).await.unwrap();
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

    let parts = tapped(&buckets, registry(), &tap).await;
    let open = async { Catalog::open(parts).await?.branch("main")?.snapshot_at_open().await };
    let cold = measured(&proxy, &tap, threads, open).await.unwrap();
    assert_eq!((cold.seq(), proxy.requests().len(), proxy.stages()), (81, 2, 1), "{}", proxy.render());
}
