//! What of a large row group a filter makes a scan read: pages that may match, and heavy columns only where a value was found.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use headwater_core::filter::{Comparison, Filter};
use headwater_core::store::{DataStore, Scan};

use crate::fixture::{Fixture, compare, id, noise, read};

const ROWS: i64 = 100_000;

/// One row group: `id` ascends, `mixed` has each value once, in no order, `near` ascends but for nulls and NaN, `heavy` is 104 bytes a row that do not compress.
fn table() -> RecordBatch {
    let fields = vec![
        Field::new("id", DataType::Int64, false),
        Field::new("mixed", DataType::Int64, false),
        Field::new("near", DataType::Float64, true),
        Field::new("heavy", DataType::Binary, false),
    ];
    let noise = noise(3, 13 * ROWS as usize);
    let heavy = noise.values().chunks(13).map(|row| row.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>());
    let near = (0..ROWS).map(|row| match row {
        row if row % 1_000 == 13 => None,
        40_000 => Some(f64::NAN),
        row => Some(row as f64 / 2.0),
    });
    let columns: Vec<ArrayRef> = vec![
        Arc::new((0..ROWS).collect::<Int64Array>()),
        Arc::new((0..ROWS).map(|row| row * 7_919 % ROWS).collect::<Int64Array>()),
        Arc::new(near.collect::<Float64Array>()),
        Arc::new(heavy.map(Some).collect::<BinaryArray>()),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

#[tokio::test]
async fn filters_are_exact_over_pages_and_read_what_they_need() {
    use Comparison::*;
    let fixture = Fixture::new();
    let whole = table();
    let pin = fixture.create(whole.clone()).await.pin;
    let bytes = fixture.store.describe(&pin).await.unwrap().bytes;
    let mixed = |op, value: i64| compare("mixed", op, Int64Array::from(vec![value]));
    let near = |op, value: f64| compare("near", op, Float64Array::from(vec![value]));
    let and = |filters: &[Filter]| Filter::And(filters.to_vec());
    // What may be read at most, in thousandths of the file, and in how many requests: the end of the file, then columns or their pages that lie
    // near each other; those of a filter evaluated first before the others. A column's dictionary, here at most 1 MiB, comes with its pages.
    let cases = [
        ("pages", and(&[id(GreaterEqual, 50_000), id(Less, 50_010)]), 10, 400, 3),
        ("two stretches", Filter::Or(vec![id(Less, 5), id(GreaterEqual, ROWS - 5)]), 10, 450, 3),
        ("pages of two columns", and(&[id(Less, 30_000), id(GreaterEqual, 15_000), near(Equal, 14_999.0)]), 1, 350, 4),
        ("a value found in one page", and(&[mixed(Equal, 4_321)]), 1, 350, 4),
        ("a value that is not there", and(&[mixed(Equal, 55), id(Less, 10)]), 0, 60, 2),
        ("most rows", mixed(GreaterEqual, 1_000), ROWS as usize - 1_000, 1_010, 2),
        ("nulls", Filter::IsNull("near".into()), 100, 1_010, 2),
        ("a column with a NaN has no bounds", near(Greater, 49_990.0), 20, 1_010, 2),
        ("beyond every bound", id(Greater, ROWS), 0, 0, 0),
    ];
    for (what, filter, rows, thousandths, requests) in cases {
        let expected = filter.apply(&whole).unwrap();
        for columns in [None, Some(vec!["heavy".to_owned(), "id".to_owned()]), Some(Vec::new())] {
            fixture.objects.take();
            let scan = Scan { filter: Some(filter.clone()), columns: columns.clone(), ..Scan::default() };
            let found = read(&fixture.store, &pin, &scan).await.unwrap();
            let cost = fixture.objects.take();
            let total = cost.total("GET", "");
            println!("{what}: {} rows, {total} of {bytes} bytes in {} requests", found.num_rows(), cost.requests.len());
            assert!(total * 1_000 <= bytes * thousandths, "{what}: {total} of {bytes}");
            match &columns {
                None => {
                    assert_eq!((found.num_rows(), cost.requests.len()), (rows, requests), "{what}: {cost:?}");
                    assert_eq!(found, expected, "{what}");
                }
                Some(columns) if columns.is_empty() => assert_eq!(found.num_rows(), rows, "{what}"),
                Some(_) => assert_eq!(found, expected.project(&[3, 0]).unwrap(), "{what}"),
            }
        }
        for limit in [1, 7, 60_000] {
            let scan = Scan { filter: Some(filter.clone()), limit: Some(limit), ..Scan::default() };
            let found = read(&fixture.store, &pin, &scan).await.unwrap();
            assert_eq!(found, expected.slice(0, rows.min(limit as usize)), "{what}, {limit} of them");
        }
    }
}
