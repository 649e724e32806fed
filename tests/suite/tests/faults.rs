//! The fault matrix: everything a network can do to a request, at every request, for every adapter.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod matrix;
mod place;

use headwater_conformance::crash::scenarios::ALL;
use matrix::{Cells, NewPlace, creation, run};
use place::Place;

/// The operations of one adapter, or the creation of a catalog. What a rival makes of a fault is tried in memory: it is the same code, and
/// every cell on a disk waits for the disk.
async fn cells(new: NewPlace, adapter: Option<&str>, rivals: &[bool]) {
    let mut all = Vec::new();
    match adapter {
        None => all.push(creation(new).await),
        Some(adapter) => {
            for scenario in ALL.iter().filter(|scenario| scenario.adapter.name() == adapter) {
                all.push(run(new, scenario, rivals).await);
            }
        }
    }
    let mut sum = Cells { scenario: "all", ..Cells::default() };
    headwater_conformance::report(format_args!("{}", Cells::HEADER));
    for cells in &all {
        headwater_conformance::report(format_args!("{cells}"));
        assert!(cells.requests > 0 && cells.cells >= 3 * cells.requests && cells.fired == cells.cells, "{cells:?}");
        sum.add(cells);
    }
    headwater_conformance::report(format_args!("{sum}"));
    assert!(sum.succeeded > 0 && sum.refused > 0 && (sum.unknown > 0) == adapter.is_some(), "a kind of outcome never happened: {sum:?}");
}

const MEMORY: NewPlace = || Box::pin(Place::memory());
const LOCAL: NewPlace = || Box::pin(Place::local());

#[test]
fn every_adapter_is_in_the_matrix() {
    let registry = headwater_suite::registry();
    let mut adapters: Vec<&str> = registry.adapters().map(|adapter| adapter.kind().name()).collect();
    adapters.sort_unstable();
    assert_eq!(adapters, ["load", "mutation", "optimize", "schema"], "each has a test below");
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
async fn load_in_memory() {
    cells(MEMORY, Some("load"), &[false, true]).await;
}

#[tokio::test]
async fn load_on_a_local_disk() {
    cells(LOCAL, Some("load"), &[false]).await;
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
async fn optimize_in_memory() {
    cells(MEMORY, Some("optimize"), &[false, true]).await;
}

#[tokio::test]
async fn optimize_on_a_local_disk() {
    cells(LOCAL, Some("optimize"), &[false]).await;
}

#[tokio::test]
async fn schema_in_memory() {
    cells(MEMORY, Some("schema"), &[false, true]).await;
}

#[tokio::test]
async fn schema_on_a_local_disk() {
    cells(LOCAL, Some("schema"), &[false]).await;
}
