use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use headwater_core::ErrorKind;
use headwater_core::authority::{ControlAuthority, Create, Expected, HeadRead, Swap};
use headwater_core::memory::MemoryAuthority;
use headwater_core::name::{BranchName, RecordKey, RecordKind};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::{Fault, Tap, TapAuthority, TapObjects, YIELDS, render};
use crate::rounds::Holds;

fn tapped(tap: &Arc<Tap>) -> (TapAuthority, TapObjects) {
    (TapAuthority::new(Arc::new(MemoryAuthority::new()), tap.clone()), TapObjects::new(Arc::new(InMemory::new()), tap.clone()))
}

fn main() -> BranchName {
    "main".parse().unwrap()
}

#[tokio::test]
async fn what_is_joined_is_one_stage_and_what_waits_is_another() {
    let tap = Tap::new();
    let (authority, objects) = tapped(&tap);
    let (a, b) = (Path::from("a"), Path::from("b"));
    let record = RecordKey::new(RecordKind::Entry, ["x"]);
    let (first, second, third) =
        futures::join!(objects.put(&a, "1".into()), objects.put(&b, "2".into()), authority.create_record(&record, "3".into()));
    assert!(first.is_ok() && second.is_ok() && matches!(third, Ok(Create::Created)));
    assert_eq!((tap.requests().len(), tap.stages()), (3, 1), "{}", render(&tap.requests()));
    authority.swap_head(&main(), Expected::Absent, "{}".into()).await.unwrap();
    assert_eq!((tap.requests().len(), tap.stages()), (4, 2), "{}", render(&tap.requests()));
    objects.list(None).try_collect::<Vec<_>>().await.unwrap();
    authority.read_head(&main(), None).await.unwrap();
    assert_eq!((tap.requests().len(), tap.stages()), (6, 4), "{}", render(&tap.requests()));
}

#[tokio::test]
async fn requests_of_several_tasks_overlap() {
    let tap = Tap::new();
    let objects = Arc::new(tapped(&tap).1);
    let tasks = (0..8).map(|i| {
        let objects = objects.clone();
        tokio::spawn(async move { objects.put(&Path::from(format!("{i}")), "1".into()).await.map(drop) })
    });
    for task in futures::future::join_all(tasks).await {
        task.unwrap().unwrap();
    }
    assert_eq!((tap.requests().len(), tap.stages()), (8, 1), "{}", render(&tap.requests()));
}

#[tokio::test]
async fn a_chain_beside_a_single_request_counts_as_the_chain() {
    let tap = Tap::new();
    let (_, objects) = tapped(&tap);
    let (a, b, c) = (Path::from("a"), Path::from("b"), Path::from("c"));
    let chain = async {
        objects.put(&a, "1".into()).await?;
        objects.put(&b, "2".into()).await
    };
    let (chain, single) = futures::join!(chain, objects.put(&c, "3".into()));
    assert!(chain.is_ok() && single.is_ok());
    assert_eq!((tap.requests().len(), tap.stages()), (3, 2), "{}", render(&tap.requests()));
}

#[tokio::test]
async fn a_death_before_a_request_leaves_no_trace_of_it() {
    let tap = Tap::with_fault(Fault::Before(1));
    let (authority, objects) = tapped(&tap);
    objects.put(&Path::from("a"), "1".into()).await.unwrap();
    assert!(!tap.fired());
    assert_eq!(authority.swap_head(&main(), Expected::Absent, "{}".into()).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(tap.fired());
    assert!(authority.read_head(&main(), None).await.is_err() && objects.list(None).next().await.is_some_and(|listed| listed.is_err()));
    assert_eq!(tap.requests().len(), 2, "a dead process sends nothing");
    assert!(matches!(authority.inner().read_head(&main(), None).await.unwrap(), HeadRead::Absent));
}

#[tokio::test]
async fn a_death_after_a_request_loses_the_reply_and_nothing_else() {
    let tap = Tap::new();
    let (authority, objects) = tapped(&tap);
    tap.plan(Fault::After(0));
    assert!(matches!(authority.swap_head(&main(), Expected::Absent, "{}".into()).await.unwrap(), Swap::Unknown(_)));
    assert!(tap.fired());
    assert!(objects.put(&Path::from("a"), "1".into()).await.is_err());
    assert!(matches!(authority.inner().read_head(&main(), None).await.unwrap(), HeadRead::Found(..)));
}

#[tokio::test]
async fn who_was_under_way_at_the_death_learns_nothing() {
    let tap = Tap::with_fault(Fault::After(0));
    let (_, objects) = tapped(&tap);
    let (a, b) = (Path::from("a"), Path::from("b"));
    let (first, second) = futures::join!(objects.put(&a, "1".into()), objects.put(&b, "2".into()));
    assert!(first.is_err() && second.is_err());
    assert!(objects.inner().head(&a).await.is_ok() && objects.inner().head(&b).await.is_ok());
}

/// Three requests in two round trips: `a` and, later, `b`, and then `c`.
async fn two_round_trips(tap: &Arc<Tap>, threads: &[&str], later: impl Future<Output = ()>) {
    let objects = tapped(tap).1;
    let put = async |name: &str| objects.put(&Path::from(name), "1".into()).await.map(drop).unwrap();
    let late = async {
        later.await;
        put("b").await;
    };
    let work = async {
        futures::join!(put("a"), late);
        put("c").await;
    };
    let ((), rounds) = tap.in_rounds(work, threads).await;
    assert_eq!((rounds, tap.requests().len(), tap.stages()), (2, 3, 2), "{}", render(&tap.requests()));
    // Nobody waits for a release any more.
    put("d").await;
    assert_eq!(tap.holds(), Holds { held: 0, under_way: 0 });
}

#[tokio::test]
async fn a_request_that_waits_for_none_is_in_the_round_however_late_it_comes() {
    let later = async {
        for _ in 0..4 * YIELDS {
            tokio::task::yield_now().await;
        }
    };
    two_round_trips(&Tap::new(), &[], later).await;
}

#[cfg(target_os = "linux")]
#[test]
fn so_is_one_that_another_thread_computes_for() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().thread_name("computing").build().unwrap();
    let compute = || {
        (0..100_000_000u64).for_each(|number| {
            std::hint::black_box(number);
        });
    };
    runtime.block_on(async {
        // A thread has its name once it runs.
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        let later = async { tokio::task::spawn_blocking(compute).await.unwrap() };
        two_round_trips(&Tap::new(), &["computing"], later).await;
    });
}

#[tokio::test]
async fn ranges_are_held_one_by_one_and_what_nobody_waits_for_is_over() {
    let tap = Tap::new();
    let objects = tapped(&tap).1;
    let path = Path::from("a");
    objects.put(&path, "0123456789".into()).await.unwrap();
    tap.clear();
    let given_up = async {
        let mut ranges = std::pin::pin!(objects.get_ranges(&path, &[0..2, 4..6, 8..10]));
        tokio::select! {
            biased;
            _ = &mut ranges => panic!("it is held"),
            () = tokio::task::yield_now() => {}
        }
        assert_eq!(tap.holds(), Holds { held: 3, under_way: 3 });
    };
    let ((), rounds) = tap.in_rounds(given_up, &[]).await;
    assert_eq!((rounds, tap.requests().len(), tap.holds()), (0, 3, Holds { held: 0, under_way: 0 }));
}
