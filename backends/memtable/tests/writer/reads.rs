//! What a writer reads, and which rows it takes.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use headwater_conformance::rows::{collect, ids, numbered, schema, texts};
use headwater_core::ErrorKind;
use headwater_core::filter::{Comparison, Filter};
use headwater_core::store::Scan;
use headwater_memtable::Writer;

use crate::fixture::{Place, WIDE, seen};

/// Rows 0..10 published, 10..20 durable, 20..30 in memory.
async fn in_three_places() -> (Place, Writer) {
    let place = Place::with(&["t"]).await;
    let (writer, _) = place.writer(WIDE).await;
    writer.append("t", numbered(0..10)).await.unwrap();
    writer.publish(&["t"]).await.unwrap();
    writer.append("t", numbered(10..20)).await.unwrap();
    writer.flush("t").await.unwrap();
    writer.append("t", numbered(20..30)).await.unwrap();
    (place, writer)
}

#[tokio::test]
async fn rows_are_read_wherever_they_are() {
    let (place, writer) = in_three_places().await;
    assert_eq!(seen(&writer, "t").await, (0..30).collect::<Vec<_>>());
    assert_eq!(place.published("t").await, (0..10).collect::<Vec<_>>(), "others see what is published");
    let from = |id: i64| Filter::Compare { column: "id".into(), op: Comparison::GreaterEqual, value: Arc::new(Int64Array::from(vec![id])) };
    let scan = Scan { columns: Some(vec!["name".into(), "id".into()]), filter: Some(from(8)), limit: Some(4), ..Scan::default() };
    let partitions = writer.scan("t", &scan).await.unwrap();
    let rows = texts(&collect(&partitions).await.unwrap());
    assert_eq!(partitions.last().unwrap().schema.field(0).name(), "name");
    assert_eq!(rows, ["row 8|8", "∅|9", "row 10|10", "row 11|11", "∅|12", "row 13|13", "row 20|20", "∅|21", "row 22|22", "row 23|23"]);
    for scan in [
        Scan { columns: Some(vec!["none".into()]), ..Scan::default() },
        Scan { filter: Some(Filter::IsNull("none".into())), ..Scan::default() },
    ] {
        assert_eq!(writer.scan("t", &scan).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    // A partition opens again.
    let memory = writer.scan("t", &Scan::default()).await.unwrap().pop().unwrap();
    for _ in 0..2 {
        assert_eq!(ids(&texts(&collect(std::slice::from_ref(&memory)).await.unwrap())), (20..30).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn rows_of_others_are_read_when_no_own_ones_wait_in_the_store() {
    let (place, writer) = in_three_places().await;
    let other = place.calm().await;
    other.transact(|tx| async move { tx.append(&tx.table("t").await?, numbered(90..92)).await }).await.unwrap();
    assert_eq!(seen(&writer, "t").await, (0..30).collect::<Vec<_>>());
    writer.publish(&["t"]).await.unwrap();
    let all: Vec<i64> = (0..10).chain(90..92).chain(10..30).collect();
    assert_eq!((seen(&writer, "t").await, place.published("t").await), (all.clone(), all));
    writer.append("t", numbered(30..31)).await.unwrap();
    other.transact(|tx| async move { tx.append(&tx.table("t").await?, numbered(92..93)).await }).await.unwrap();
    assert!(seen(&writer, "t").await.ends_with(&[92, 30]));
}

#[tokio::test]
async fn columns_that_others_add_are_taken_up() {
    let (place, writer) = in_three_places().await;
    let widen = place.calm().await;
    let column = || vec![Field::new("size", DataType::Int64, true)];
    widen.transact(|tx| async move { tx.add_columns(&tx.table("t").await?, column()).await }).await.unwrap();
    let wide = |id: i64| {
        let schema = Schema::new(vec![Field::new("size", DataType::Int64, true), Field::new("id", DataType::Int64, false)]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from(vec![7])), Arc::new(Int64Array::from(vec![id]))]).unwrap()
    };
    // Rows that wait in the store were put behind a state without the column.
    assert_eq!(writer.append("t", wide(30)).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    writer.publish(&["t"]).await.unwrap();
    writer.append("t", numbered(31..32)).await.unwrap();
    writer.append("t", wide(32)).await.unwrap();
    let rows = texts(&collect(&writer.scan("t", &Scan::default()).await.unwrap()).await.unwrap());
    assert_eq!(rows[29..], ["29|row 29|∅", "31|row 31|∅", "32|∅|7"]);
    writer.publish(&["t"]).await.unwrap();
    assert_eq!(place.published("t").await, (0..30).chain(31..33).collect::<Vec<_>>());
}

#[tokio::test]
async fn rows_that_do_not_fit_are_refused_and_nothing_is_taken() {
    let place = Place::with(&["t"]).await;
    let keyed = place.calm().await;
    keyed.transact(|tx| async move { tx.create_keyed_table("keyed", schema(), &["id"]).await.map(drop) }).await.unwrap();
    let (writer, _) = place.writer(WIDE).await;
    let refused = async |table: &str, rows: RecordBatch| writer.append(table, rows).await.unwrap_err().kind();
    assert_eq!(refused("keyed", numbered(0..1)).await, ErrorKind::Unsupported);
    assert_eq!(refused("none", numbered(0..1)).await, ErrorKind::NotFound);
    assert_eq!(refused("", numbered(0..1)).await, ErrorKind::InvalidInput);
    let other = Schema::new(vec![Field::new("other", DataType::Int64, false)]);
    let other = RecordBatch::try_new(Arc::new(other), vec![Arc::new(Int64Array::from(vec![1]))]).unwrap();
    assert_eq!(refused("t", other).await, ErrorKind::InvalidInput);
    writer.append("t", numbered(0..0)).await.unwrap();
    assert!(writer.waiting().is_empty());
    assert_eq!(writer.publish(&["none"]).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!writer.publish(&["t"]).await.unwrap().published);
}
