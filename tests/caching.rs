//! A memtable through the front door: the option of any URL, and nothing of it in the catalog.
#![cfg(all(feature = "local", feature = "memtable", feature = "parquet"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use headwater::ErrorKind;
use headwater::arrow_array::{Int64Array, RecordBatch};
use headwater::arrow_schema::{DataType, Field, Schema, SchemaRef};
use headwater::memtable::{Limits, Writer};

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("km", DataType::Int64, false)]))
}

fn batch(rows: i64) -> RecordBatch {
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from_iter_values(0..rows))]).unwrap()
}

#[tokio::test]
async fn a_cached_catalog_is_a_catalog_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("lake").display().to_string();
    let catalog = headwater::create(&format!("{place}?cache=4KiB")).await.unwrap();
    let main = catalog.branch("main").unwrap();
    assert_eq!(main.cache(), Some(Limits::within(4 << 10)));
    main.transact(|tx| async move { tx.create_table("trips", schema()).await.map(drop) }).await.unwrap();
    let writer = Writer::new(&main);
    for _ in 0..100 {
        writer.append("trips", batch(10)).await.unwrap();
        assert!(writer.held_bytes() <= (4 << 10) + batch(10).get_array_memory_size() as u64);
    }
    assert_eq!(main.snapshot().await.unwrap().table("trips").unwrap().rows, 0);
    writer.publish(&["trips"]).await.unwrap();

    let plain = headwater::open(&place).await.unwrap();
    assert_eq!((plain.id(), plain.record().store.as_str()), (catalog.id(), "parquet"));
    let main = plain.branch("main").unwrap();
    assert_eq!((main.cache(), main.snapshot().await.unwrap().table("trips").unwrap().rows), (None, 1_000));
}

#[tokio::test]
async fn the_builder_stands_before_the_url_and_no_limit_is_taken_that_is_none() {
    let limits = Limits { rows: 7, ..Limits::default() };
    let catalog = headwater::builder("memory://?cache=1MiB").cache(limits).create(true).open().await.unwrap();
    assert_eq!(catalog.branch("main").unwrap().cache(), Some(limits));
    for wrong in ["memory://?cache=", "memory://?cache=64MB", "memory://?cache=0", "memory://?cache=1&cache=2", "memory://?cashe=1MiB"] {
        assert_eq!(headwater::create(wrong).await.unwrap_err().kind(), ErrorKind::InvalidInput, "{wrong}");
    }
    let none = Limits { total_bytes: 0, ..Limits::default() };
    let refused = headwater::builder("memory://").cache(none).create(true).open().await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
}
