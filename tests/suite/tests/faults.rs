//! The fault matrix: everything a network can do to a request, at every request, for every adapter.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use headwater_conformance::crash::scenarios::ALL;
use headwater_suite::PARQUET;
use headwater_suite::matrix::{NewPlace, cells};
use headwater_suite::place::Place;

const MEMORY: NewPlace = || Box::pin(Place::memory(PARQUET));
const LOCAL: NewPlace = || Box::pin(Place::local(PARQUET));
const APART: NewPlace = || Box::pin(Place::apart(PARQUET));
const SQLITE: NewPlace = || Box::pin(Place::sqlite(PARQUET));

#[test]
fn every_adapter_is_in_the_matrix() {
    let registry = headwater_suite::registry();
    let mut adapters: Vec<&str> = registry.adapters().map(|adapter| adapter.kind().name()).collect();
    adapters.sort_unstable();
    assert_eq!(adapters, ["index", "load", "mutation", "optimize", "schema"], "each has a test below, or with a store that has indices");
    assert!(adapters.iter().all(|adapter| ALL.iter().any(|scenario| scenario.adapter.name() == *adapter)));
}

#[tokio::test]
async fn creation_in_memory() {
    cells(MEMORY, None, &[]).await;
}

#[tokio::test]
async fn creation_on_a_local_disk() {
    cells(LOCAL, None, &[]).await;
}

#[tokio::test]
async fn creation_in_a_sqlite_file() {
    cells(SQLITE, None, &[]).await;
}

/// The locator's requests among them.
#[tokio::test]
async fn creation_with_control_apart_from_the_data() {
    cells(APART, None, &[]).await;
}

#[tokio::test]
async fn load_in_memory() {
    cells(MEMORY, Some("load"), &[false, true]).await;
}

#[tokio::test]
async fn load_on_a_local_disk() {
    cells(LOCAL, Some("load"), &[false]).await;
}

#[tokio::test]
async fn load_in_a_sqlite_file() {
    cells(SQLITE, Some("load"), &[false]).await;
}

#[tokio::test]
async fn mutation_in_memory() {
    cells(MEMORY, Some("mutation"), &[false, true]).await;
}

#[tokio::test]
async fn mutation_on_a_local_disk() {
    cells(LOCAL, Some("mutation"), &[false]).await;
}

#[tokio::test]
async fn mutation_in_a_sqlite_file() {
    cells(SQLITE, Some("mutation"), &[false]).await;
}

#[tokio::test]
async fn optimize_in_memory() {
    cells(MEMORY, Some("optimize"), &[false, true]).await;
}

#[tokio::test]
async fn optimize_on_a_local_disk() {
    cells(LOCAL, Some("optimize"), &[false]).await;
}

#[tokio::test]
async fn optimize_in_a_sqlite_file() {
    cells(SQLITE, Some("optimize"), &[false]).await;
}

#[tokio::test]
async fn schema_in_memory() {
    cells(MEMORY, Some("schema"), &[false, true]).await;
}

#[tokio::test]
async fn schema_on_a_local_disk() {
    cells(LOCAL, Some("schema"), &[false]).await;
}

#[tokio::test]
async fn schema_in_a_sqlite_file() {
    cells(SQLITE, Some("schema"), &[false]).await;
}
