//! Crashes at every request, and every fault of a network at every request.

use headwater_conformance::crash;
use headwater_conformance::fixture::Memory;
use headwater_conformance::lab::Lab;
use headwater_suite::Local;
use headwater_suite::crash::every_adapter_in;
use headwater_suite::matrix::{NewPlace, cells};
use headwater_suite::place::Place;
use headwater_suite_s3::{Buckets, CRASHED, crashed};

use crate::{LANCE, registry};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_request_leaves_all_or_nothing_in_memory() {
    every_adapter_in(&Lab::new(Memory::default(), registry(), LANCE.store)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_request_leaves_all_or_nothing_on_a_local_disk() {
    every_one_of(|| Lab::new(Local::default(), registry(), LANCE.store)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_request_leaves_all_or_nothing_on_s3() {
    every_one_of(|| Lab::new(Buckets::direct(), registry(), LANCE.store)).await;
}

async fn every_one_of(lab: impl Fn() -> Lab) {
    let all = crashed(lab).await;
    assert_eq!(all.len(), CRASHED.len());
    headwater_conformance::report(crash::table(&all));
}

/// The network of these tests stands above the backend, so that one backend is all of them.
const MEMORY: NewPlace = || Box::pin(Place::memory(LANCE));

#[tokio::test]
async fn load_under_every_fault() {
    cells(MEMORY, Some("load"), &[false]).await;
}

#[tokio::test]
async fn schema_under_every_fault() {
    cells(MEMORY, Some("schema"), &[false]).await;
}

#[tokio::test]
async fn mutation_under_every_fault() {
    cells(MEMORY, Some("mutation"), &[false]).await;
}

#[tokio::test]
async fn index_under_every_fault() {
    cells(MEMORY, Some("index"), &[false]).await;
}

#[tokio::test]
async fn optimize_under_every_fault() {
    cells(MEMORY, Some("optimize"), &[false]).await;
}
