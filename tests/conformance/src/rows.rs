//! Rows to write, and rows read back in a form that compares.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::TryStreamExt;
use headwater_core::store::{Partition, Rows, Scan};
use headwater_core::{Result, Snapshot, Table, Transaction};

/// `id` (never null) and `name` (null in every third row).
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("name", DataType::Utf8, true)]))
}

/// One row for each number.
pub fn numbered(ids: Range<i64>) -> RecordBatch {
    let names: StringArray = ids.clone().map(|id| (id % 3 != 0).then(|| format!("row {id}"))).collect();
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from_iter_values(ids)) as ArrayRef, Arc::new(names)]).unwrap()
}

/// The rows of [`numbered`], for a store.
pub fn rows(ids: Range<i64>) -> Rows {
    numbered(ids).into()
}

/// Reads partitions one after the other.
pub async fn collect(partitions: &[Partition]) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    for partition in partitions {
        batches.extend((partition.open)().try_collect::<Vec<_>>().await?);
    }
    Ok(batches)
}

/// Each row as text: the values in their order, each with its type's own notation, and `∅` for null.
pub fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let cell = |column: &ArrayRef, row| match column.is_null(row) {
        true => "∅".to_owned(),
        // Time zones by name have no notation of their own here.
        false => array_value_to_string(column, row).unwrap_or_else(|_| format!("{:?}", column.slice(row, 1))),
    };
    let row = |batch: &RecordBatch, row| batch.columns().iter().map(|column| cell(column, row)).collect::<Vec<_>>().join("|");
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |i| row(batch, i))).collect()
}

/// All rows of a table of a snapshot, in the table's order.
pub async fn read(snapshot: &Snapshot, key: &str) -> Result<Vec<String>> {
    Ok(texts(&collect(&snapshot.scan(key, &Scan::default()).await?).await?))
}

/// All rows of a table, as a transaction's closure sees them.
pub async fn read_in(tx: &Transaction, table: &Table) -> Result<Vec<String>> {
    Ok(texts(&collect(&tx.scan(table, &Scan::default()).await?).await?))
}

/// The values of `id` among rows in the form of [`texts`], in their order.
pub fn ids(rows: &[String]) -> Vec<i64> {
    rows.iter().map(|row| row.split('|').next().unwrap().parse().unwrap()).collect()
}
