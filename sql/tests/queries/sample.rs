//! A table with columns of all common types, and every value that is easily taken for another.

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::types::Int32Type;
use arrow_array::*;
use arrow_schema::{Schema, SchemaRef};

/// A column's name, and values to compare it with, as SQL writes them.
pub(crate) const COLUMNS: &[(&str, &[&str])] = &[
    ("long", &["0", "1", "-5", "9223372036854775807", "NULL"]),
    ("small", &["CAST(0 AS SMALLINT)", "1", "-5", "40000"]),
    ("tiny", &["CAST(7 AS TINYINT UNSIGNED)", "300", "-1"]),
    ("double", &["0.0", "-0.0", "1.5", "-1.5", "CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)", "NULL"]),
    ("single", &["CAST(0.0 AS REAL)", "CAST(-0.0 AS REAL)", "CAST(1.5 AS REAL)", "CAST('NaN' AS REAL)", "0.1"]),
    ("\"Text\"", &["''", "'a'", "'ä'", "'b'", "'it''s'", "NULL"]),
    ("large", &["'a'", "'b'"]),
    ("bytes", &["X'00FF'", "X''"]),
    ("flag", &["true", "false", "NULL"]),
    ("day", &["DATE '1970-01-01'", "DATE '2024-02-29'", "'2024-02-29'"]),
    ("at", &["TIMESTAMP '1970-01-01 00:00:00'", "TIMESTAMP '2024-02-29 12:00:00.000001'"]),
    ("instant", &["TIMESTAMP '2024-02-29 12:00:00Z'", "'2024-02-29T12:00:00Z'"]),
    ("price", &["0", "1.25", "CAST(-3.10 AS DECIMAL(10,2))", "99999999.99"]),
    ("kind", &["'a'", "'b'"]),
];

fn cycle<T: Clone>(values: &[Option<T>], from: usize, rows: usize) -> Vec<Option<T>> {
    (from..from + rows).map(|i| values[i % values.len()].clone()).collect()
}

/// Some rows; of the first column, no two are equal.
fn batch(from: usize, rows: usize) -> RecordBatch {
    let floats: Vec<Option<f64>> =
        [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.5, -1.5, 0.1].into_iter().map(Some).chain([None]).collect();
    let singles: Vec<Option<f32>> = floats.iter().map(|value| value.map(|value| value as f32)).collect();
    let longs = [Some(0i64), Some(1), None, Some(-5), Some(i64::MAX), Some(i64::MIN), Some(100)];
    let texts = [Some("a"), None, Some(""), Some("ä"), Some("b"), Some("it's"), Some("a text longer than an inline view")];
    let days = [Some(0), Some(19_782), None, Some(-1)];
    let instants = [Some(0i64), None, Some(1_709_208_000_000_001), Some(1_709_208_000_000_000), Some(-1)];
    let mut lists = ListBuilder::new(Int32Builder::new());
    (from..from + rows).for_each(|i| if i % 3 == 0 { lists.append_null() } else { lists.append_value([Some(i as i32 % 2), None]) });
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values((from..from + rows).map(|i| i as i64)))),
        ("long", Arc::new(Int64Array::from(cycle(&longs, from, rows)))),
        ("small", Arc::new(Int16Array::from(cycle(&[Some(0), Some(1), Some(-5), None, Some(i16::MAX)], from, rows)))),
        ("tiny", Arc::new(UInt8Array::from(cycle(&[Some(7), Some(0), None, Some(255)], from, rows)))),
        ("double", Arc::new(Float64Array::from(cycle(&floats, from, rows)))),
        ("single", Arc::new(Float32Array::from(cycle(&singles, from, rows)))),
        ("Text", Arc::new(StringArray::from(cycle(&texts, from, rows)))),
        ("large", Arc::new(LargeStringArray::from(cycle(&texts, from + 1, rows)))),
        ("bytes", Arc::new(BinaryArray::from(cycle(&[Some(b"\x00\xff".as_slice()), None, Some(b""), Some(b"\xff")], from, rows)))),
        ("flag", Arc::new(BooleanArray::from(cycle(&[Some(true), None, Some(false)], from, rows)))),
        ("day", Arc::new(Date32Array::from(cycle(&days, from, rows)))),
        ("at", Arc::new(TimestampMicrosecondArray::from(cycle(&instants, from, rows)))),
        ("instant", Arc::new(TimestampMicrosecondArray::from(cycle(&instants, from, rows)).with_timezone("UTC"))),
        (
            "price",
            Arc::new(
                Decimal128Array::from(cycle(&[Some(125), None, Some(-310), Some(0), Some(9_999_999_999)], from, rows))
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
        ),
        ("kind", Arc::new(DictionaryArray::<Int32Type>::from_iter(cycle(&texts, from, rows)))),
        ("list", Arc::new(lists.finish())),
    ];
    let nullable = columns.into_iter().map(|(name, column)| (name, column, name != "id"));
    RecordBatch::try_from_iter_with_nullable(nullable).unwrap()
}

/// The table, in as many batches of as many rows each.
pub(crate) fn batches(count: usize, rows: usize) -> (SchemaRef, Vec<RecordBatch>) {
    let batches: Vec<_> = (0..count).map(|i| batch(i * rows, rows)).collect();
    let schema = Schema::new(batches[0].schema().fields().clone());
    (Arc::new(schema), batches)
}
