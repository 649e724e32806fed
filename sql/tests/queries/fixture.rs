//! Catalogs for the tests, and DataFusion's own tables over the same rows.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_row::{RowConverter, SortField};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use headwater_conformance::tap::Tap;
use headwater_core::{Branch, Result, Snapshot};
use headwater_sql::datafusion;
use headwater_suite::lake::Lake;

use super::KIND;

/// A catalog in memory, and a plain DataFusion session that has the same tables.
pub(crate) struct Place {
    pub(crate) lake: Lake,
    pub(crate) branch: Branch,
    pub(crate) tap: Arc<Tap>,
    plain: SessionContext,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let lake = Lake::memory(KIND);
        let (branch, tap) = lake.open().await;
        let plain = SessionContext::new_with_config(SessionConfig::new().with_information_schema(true));
        Self { lake, branch, tap, plain }
    }

    /// A table whose batches come in a commit each.
    pub(crate) async fn table(&self, key: &str, schema: &SchemaRef, batches: &[RecordBatch]) {
        self.try_table(key, schema, batches).await.unwrap();
    }

    /// The same, where a store may not keep such types.
    pub(crate) async fn try_table(&self, key: &str, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<()> {
        self.branch.transact(|tx| async move { tx.create_table(key, schema.clone()).await.map(drop) }).await?;
        for batch in batches {
            self.append(key, batch).await;
        }
        let table = MemTable::try_new(schema.clone(), vec![batches.to_vec()]).unwrap();
        self.plain.register_table(datafusion::sql::TableReference::bare(key), Arc::new(table)).unwrap();
        Ok(())
    }

    pub(crate) async fn append(&self, key: &str, batch: &RecordBatch) {
        let appended = self.branch.transact(|tx| async move { tx.append(&tx.table(key).await?, batch.clone()).await });
        appended.await.unwrap();
    }

    pub(crate) async fn snapshot(&self) -> Snapshot {
        self.branch.snapshot().await.unwrap()
    }

    /// The snapshot as a process sees it that has read nothing yet but the head, and its tap.
    pub(crate) async fn cold(&self) -> (Snapshot, Arc<Tap>) {
        let (branch, tap) = self.lake.open().await;
        let snapshot = branch.snapshot().await.unwrap();
        tap.clear();
        (snapshot, tap)
    }

    /// Both answer alike, to the bit: in order if there is one, as a bag of rows if not.
    #[track_caller]
    pub(crate) fn same(&self, snapshot: &Snapshot, text: &str) -> impl Future<Output = usize> {
        let at = std::panic::Location::caller();
        async move {
            let ours = answer(snapshot, text).await.unwrap_or_else(|error| panic!("{at}: {text}: {error}"));
            let frame = self.plain.sql(text).await.unwrap_or_else(|error| panic!("{at}: {text}: {error}"));
            let schema: SchemaRef = Arc::new(frame.schema().as_arrow().clone());
            let theirs = concat_batches(&schema, &frame.collect().await.unwrap()).unwrap();
            let types = |batch: &RecordBatch| batch.schema().fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
            assert_eq!(types(&ours), types(&theirs), "{at}: {text}");
            let ordered = text.contains("ORDER BY");
            assert!(keys(&ours, ordered) == keys(&theirs, ordered), "{at}: {text}: {ours:?} is not {theirs:?}");
            ours.num_rows()
        }
    }
}

/// The rows as bytes, in which everything differs that is different.
fn keys(batch: &RecordBatch, ordered: bool) -> Vec<Vec<u8>> {
    let fields = batch.schema().fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
    let rows = RowConverter::new(fields).unwrap().convert_columns(batch.columns()).unwrap();
    let mut keys: Vec<Vec<u8>> = rows.iter().map(|row| row.as_ref().to_vec()).collect();
    if !ordered {
        keys.sort();
    }
    keys
}

/// All rows of an answer.
pub(crate) async fn answer(snapshot: &Snapshot, text: &str) -> Result<RecordBatch> {
    let rows = headwater_sql::query(snapshot, text).await?;
    let batches: Vec<RecordBatch> = rows.batches.try_collect().await?;
    Ok(concat_batches(&rows.schema, &batches).unwrap())
}

/// The one number of an answer.
pub(crate) async fn number(snapshot: &Snapshot, text: &str) -> i64 {
    let batch = answer(snapshot, text).await.unwrap();
    assert_eq!((batch.num_rows(), batch.num_columns()), (1, 1), "{text}");
    batch.column(0).as_primitive::<Int64Type>().value(0)
}
