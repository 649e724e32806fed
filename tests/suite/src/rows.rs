//! Small rows that say who wrote them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::TryStreamExt;
use headwater_core::store::Scan;
use headwater_core::{Branch, Result, Snapshot};

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("writer", DataType::Int64, false), Field::new("number", DataType::Int64, false)]))
}

/// One row.
pub fn row(writer: i64, number: i64) -> RecordBatch {
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(vec![writer])), Arc::new(Int64Array::from(vec![number]))]).unwrap()
}

/// Creates empty tables in one commit.
pub async fn create(branch: &Branch, keys: &[String]) {
    let creating = branch.transact(|tx| async move {
        for key in keys {
            tx.create_table(key, schema()).await?;
        }
        Ok(())
    });
    creating.await.unwrap();
}

/// Every row of a table, in the order of the scan. The description is read, too: it compares schema and count with the table's head.
pub async fn read(snapshot: &Snapshot, key: &str) -> Result<Vec<(i64, i64)>> {
    let described = snapshot.describe(key).await?;
    let mut found = Vec::new();
    for partition in snapshot.scan(key, &Scan::default()).await? {
        let mut batches = (partition.open)();
        while let Some(batch) = batches.try_next().await? {
            let column = |i: usize| batch.column(i).as_primitive::<Int64Type>().values().to_vec();
            found.extend(column(0).into_iter().zip(column(1)));
        }
    }
    assert_eq!(found.len() as u64, described.rows, "the scan yields another number of rows than the table has");
    Ok(found)
}
