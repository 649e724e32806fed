//! The conformance kits, on every authority, store and backend of this workspace.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use headwater_conformance::fixture::{AuthorityOf, Memory, StoreOf};
use headwater_conformance::lab::Lab;
use headwater_conformance::rows::{numbered, read, schema};
use headwater_conformance::{authority, commit, store};
use headwater_core::filter::{Comparison, Filter};
use headwater_core::store::ByKey;
use headwater_local::LocalAuthority;
use headwater_local::sim::{Fault, SimDisk};
use headwater_suite::{Local, registry};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_authority_conforms() {
    assert_eq!(authority::run_all(&AuthorityOf(Memory::default())).await, authority::PROPERTIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_local_authority_conforms() {
    assert_eq!(authority::run_all(&AuthorityOf(Local::default())).await, authority::PROPERTIES.len());
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

/// A disk that fails every primitive is a backend that is out of reach.
#[tokio::test]
async fn the_errors_of_the_local_authority_name_the_object() {
    let disk = SimDisk::new();
    disk.plan(0, Fault::DieBefore);
    let authority = LocalAuthority::over(Arc::new(disk), "/lake").unwrap();
    assert!(authority::errors_name_the_object(&authority).await > 0);
}

/// The kit lets a store leave changes out. This one leaves out none.
#[tokio::test]
async fn the_parquet_store_does_every_change() {
    let catalog = Lab::new(Memory::default(), registry(), "parquet").create().await;
    let main = catalog.branch("main").unwrap();
    let made = main.transact(|tx| async move { tx.append(&tx.create_keyed_table("t", schema(), &["id"]).await?, numbered(0..4)).await });
    made.await.unwrap();
    let less = |id: i64| Filter::Compare { column: "id".to_owned(), op: Comparison::Less, value: Arc::new(Int64Array::from(vec![id])) };
    let name: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    main.transact(|tx| async move { tx.upsert(&tx.table("t").await?, numbered(3..6)).await }).await.unwrap();
    main.transact(|tx| async move { tx.delete(&tx.table("t").await?, less(1)).await }).await.unwrap();
    let updated = main.transact(|tx| {
        let name = name.clone();
        async move { tx.update(&tx.table("t").await?, less(2), vec![("name", name)]).await }
    });
    updated.await.unwrap();
    let by_key = [
        (ByKey::INSERT, 20..21),
        (ByKey::INSERT_MISSING, 20..22),
        (ByKey::UPDATE, 20..21),
        (ByKey::UPDATE_PRESENT, 20..30),
        (ByKey::DELETE, 20..21),
        (ByKey::DELETE_PRESENT, 20..30),
    ];
    for (action, ids) in by_key {
        let changed = main.transact(|tx| {
            let rows = numbered(ids.clone());
            async move { tx.by_key(&tx.table("t").await?, action, rows).await }
        });
        assert!(changed.await.unwrap().published, "{}", action.name());
    }
    main.transact(|tx| async move { tx.append(&tx.table("t").await?, numbered(30..31)).await }).await.unwrap();
    main.transact(|tx| async move { tx.by_key(&tx.table("t").await?, ByKey::DELETE, numbered(5..6)).await }).await.unwrap();
    assert!(main.transact(|tx| async move { tx.optimize(&tx.table("t").await?).await }).await.unwrap().published);
    let mut rows = read(&main.snapshot().await.unwrap(), "t").await.unwrap();
    rows.sort();
    assert_eq!(rows, ["1|x", "2|row 2", "30|∅", "3|∅", "4|row 4"]);
}
