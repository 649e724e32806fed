//! The conformance kits.

use headwater_conformance::fixture::{Memory, StoreOf};
use headwater_conformance::lab::Lab;
use headwater_conformance::{commit, store};
use headwater_suite::Local;
use headwater_suite::changes::every_change_in;
use headwater_suite_s3::Buckets;

use crate::{LANCE, registry};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_conforms_on_a_local_disk() {
    let fixture = StoreOf { backend: Local::default(), registry: registry(), kind: LANCE.store.to_owned() };
    assert_eq!(store::run_all(&fixture).await, store::PROPERTIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_conforms_on_s3() {
    let fixture = StoreOf { backend: Buckets::direct(), registry: registry(), kind: LANCE.store.to_owned() };
    assert_eq!(store::run_all(&fixture).await, store::PROPERTIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn catalogs_on_a_local_disk_conform() {
    assert_eq!(commit::run_all(&Lab::new(Local::default(), registry(), LANCE.store)).await, commit::PROPERTIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn catalogs_on_s3_conform() {
    assert_eq!(commit::run_all(&Lab::new(Buckets::direct(), registry(), LANCE.store)).await, commit::PROPERTIES.len());
}

#[tokio::test]
async fn the_store_does_every_change() {
    every_change_in(&Lab::new(Memory::default(), registry(), LANCE.store)).await;
}
