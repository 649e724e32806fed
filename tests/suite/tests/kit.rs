//! The conformance kits, on every authority, store and backend of this workspace.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use headwater_conformance::fixture::{AuthorityOf, Memory, StoreOf};
use headwater_conformance::lab::Lab;
use headwater_conformance::{authority, commit, store};
use headwater_local::LocalAuthority;
use headwater_local::sim::{Fault, SimDisk};
use headwater_sqlite::SqliteAuthority;
use headwater_suite::changes::every_change_in;
use headwater_suite::{Local, Sqlite, registry};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_authority_conforms() {
    assert_eq!(authority::run_all(&AuthorityOf(Memory::default())).await, authority::PROPERTIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_local_authority_conforms() {
    assert_eq!(authority::run_all(&AuthorityOf(Local::default())).await, authority::PROPERTIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sqlite_authority_conforms() {
    assert_eq!(authority::run_all(&AuthorityOf(Sqlite::default())).await, authority::PROPERTIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parquet_store_conforms_in_memory() {
    let fixture = StoreOf { backend: Memory::default(), registry: registry(), kind: "parquet".to_owned() };
    assert_eq!(store::run_all(&fixture).await, store::PROPERTIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parquet_store_conforms_on_a_local_disk() {
    let fixture = StoreOf { backend: Local::default(), registry: registry(), kind: "parquet".to_owned() };
    assert_eq!(store::run_all(&fixture).await, store::PROPERTIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn catalogs_in_memory_conform() {
    assert_eq!(commit::run_all(&Lab::new(Memory::default(), registry(), "parquet")).await, commit::PROPERTIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn catalogs_on_a_local_disk_conform() {
    assert_eq!(commit::run_all(&Lab::new(Local::default(), registry(), "parquet")).await, commit::PROPERTIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn catalogs_with_their_control_in_a_sqlite_file_conform() {
    assert_eq!(commit::run_all(&Lab::new(Sqlite::default(), registry(), "parquet")).await, commit::PROPERTIES.len());
}

/// A disk that fails every primitive is a backend that is out of reach.
#[tokio::test]
async fn the_errors_of_the_local_authority_name_the_object() {
    let disk = SimDisk::new();
    disk.plan(0, Fault::DieBefore);
    let authority = LocalAuthority::over(Arc::new(disk), "/lake").unwrap();
    assert!(authority::errors_name_the_object(&authority).await > 0);
}

/// A folder in the place of the file fails every request.
#[tokio::test]
async fn the_errors_of_the_sqlite_authority_name_the_object() {
    let folder = tempfile::tempdir().unwrap();
    let authority = SqliteAuthority::new(folder.path()).unwrap();
    assert!(authority::errors_name_the_object(&authority).await > 0);
}

#[tokio::test]
async fn the_parquet_store_does_every_change() {
    every_change_in(&Lab::new(Memory::default(), registry(), "parquet")).await;
}
