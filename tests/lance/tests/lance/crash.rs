//! Crashes at every request, and every fault of a network at every request.

use futures::future::join_all;
use headwater_conformance::crash;
use headwater_conformance::fixture::Memory;
use headwater_conformance::lab::Lab;
use headwater_suite::Local;
use headwater_suite::crash::every_adapter_in;
use headwater_suite::matrix::{NewPlace, cells};
use headwater_suite::place::Place;
use headwater_suite_s3::{Buckets, CRASHED};

use crate::{LANCE, registry};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_request_leaves_all_or_nothing_in_memory() {
    every_adapter_in(&Lab::new(Memory::default(), registry(), LANCE.store)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_request_leaves_all_or_nothing_on_a_local_disk() {
    every_adapter_in(&Lab::new(Local::default(), registry(), LANCE.store)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_request_leaves_all_or_nothing_on_s3() {
    let lab = || Lab::new(Buckets::direct(), registry(), LANCE.store);
    let scenarios = crash::scenarios::ALL.iter().filter(|scenario| CRASHED.contains(&scenario.name));
    let crashed = scenarios.map(|scenario| async move {
        let lab = lab();
        if crash::does(&lab, scenario).await { Some(crash::run(&lab, scenario).await) } else { None }
    });
    let all: Vec<_> = join_all(crashed).await.into_iter().flatten().collect();
    assert!(all.iter().any(|cells| cells.scenario.starts_with("load")) && all.iter().any(|cells| cells.scenario.starts_with("schema")));
    assert!(all.iter().all(|cells| cells.requests > 0 && cells.cells == 2 * cells.requests && cells.fired == cells.cells));
    println!("{}", crash::table(&all));
}

const MEMORY: NewPlace = || Box::pin(Place::memory(LANCE));
const LOCAL: NewPlace = || Box::pin(Place::local(LANCE));

#[tokio::test]
async fn load_under_every_fault_in_memory() {
    cells(MEMORY, Some("load"), &[false, true]).await;
}

#[tokio::test]
async fn load_under_every_fault_on_a_local_disk() {
    cells(LOCAL, Some("load"), &[false]).await;
}

#[tokio::test]
async fn schema_under_every_fault_in_memory() {
    cells(MEMORY, Some("schema"), &[false, true]).await;
}

#[tokio::test]
async fn schema_under_every_fault_on_a_local_disk() {
    cells(LOCAL, Some("schema"), &[false]).await;
}
