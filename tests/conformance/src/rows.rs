//! Rows to write, and rows read back in a form that compares.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::TryStreamExt;
use headwater_core::store::{Partition, Rows, Scan};
use headwater_core::{Result, RowChange, RowCounts, Snapshot, Table, TableChange, Transaction};

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

/// How often each row is among these.
pub fn bag(rows: &[String]) -> BTreeMap<String, usize> {
    let mut bag = BTreeMap::new();
    rows.iter().for_each(|row| *bag.entry(row.clone()).or_default() += 1);
    bag
}

/// Changed rows in the form of [`texts`], sorted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Rows that are new.
    pub added: Vec<String>,
    /// Rows as they were and as they are.
    pub updated: Vec<(String, String)>,
    /// Rows that are gone.
    pub deleted: Vec<String>,
}

impl Changed {
    /// As the rows of a table changed between two states. The counts must say the same.
    pub async fn read(table: &TableChange) -> Result<Self> {
        let mut changed = Self::default();
        let mut changes = table.rows().await?.batches;
        while let Some(change) = changes.try_next().await? {
            match change {
                RowChange::Added(rows) => changed.added.extend(texts(&[rows])),
                RowChange::Updated { before, after } => changed.updated.extend(texts(&[before]).into_iter().zip(texts(&[after]))),
                RowChange::Deleted(rows) => changed.deleted.extend(texts(&[rows])),
            }
        }
        let (added, updated, deleted) = (changed.added.len() as u64, changed.updated.len() as u64, changed.deleted.len() as u64);
        assert_eq!(table.count().await?, RowCounts { added, updated, deleted }, "{table:?}");
        changed.sort();
        Ok(changed)
    }

    /// What turns the one bag of rows into the other, if nothing names a row.
    pub fn between(before: &[String], after: &[String]) -> Self {
        let surplus = |rows: &[String], other: &[String]| {
            let other = bag(other);
            let left = |(row, count): (String, usize)| vec![row.clone(); count.saturating_sub(other.get(&row).copied().unwrap_or(0))];
            bag(rows).into_iter().flat_map(left).collect()
        };
        Self { added: surplus(after, before), updated: Vec::new(), deleted: surplus(before, after) }
    }

    /// Sorted, as all of these are.
    pub fn sort(&mut self) {
        self.added.sort_unstable();
        self.updated.sort_unstable();
        self.deleted.sort_unstable();
    }
}
