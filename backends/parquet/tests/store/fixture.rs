//! Tables and rows for the tests.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use futures::TryStreamExt;
use headwater_core::Result;
use headwater_core::filter::{Comparison, Filter};
use headwater_core::ids::{Incarnation, Mint, SystemEnvironment, TableId};
use headwater_core::store::{Change, DataStore, Pin, Rows, Scan, Staged, TableRef};
use headwater_parquet::{ParquetStore, Settings};

use crate::counting::Counting;

pub(crate) struct Fixture {
    pub(crate) objects: Arc<Counting>,
    pub(crate) store: ParquetStore,
    pub(crate) table: TableRef,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let objects = Counting::new();
        let mint = mint();
        let table = TableRef { id: TableId(mint.ulid()), incarnation: Incarnation(mint.ulid()) };
        Self { store: open(&objects, settings), objects, table }
    }

    /// Another process: the same objects, nothing cached.
    pub(crate) fn cold(&self) -> ParquetStore {
        open(&self.objects, Settings::default())
    }

    pub(crate) async fn create(&self, batch: RecordBatch) -> Staged {
        self.store.stage(self.table, None, Change::Create(rows(batch))).await.unwrap()
    }

    pub(crate) async fn append(&self, base: &Pin, batch: RecordBatch) -> Staged {
        self.store.stage(self.table, Some(base), Change::Append(rows(batch))).await.unwrap()
    }
}

pub(crate) fn mint() -> Mint {
    Mint::new(Arc::new(SystemEnvironment))
}

pub(crate) fn open(objects: &Arc<Counting>, settings: Settings) -> ParquetStore {
    ParquetStore::new(objects.clone(), &mint()).with_settings(settings).unwrap()
}

pub(crate) fn rows(batch: RecordBatch) -> Rows {
    Rows::new(batch.schema(), vec![batch])
}

/// `id` counts up and is never null, `name` is sometimes null, `value` is sometimes NaN.
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("value", DataType::Float64, true),
    ]))
}

pub(crate) fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
    let names = ids.clone().map(|id| (id % 5 != 0).then(|| format!("name {id}")));
    let values = ids.clone().map(|id| if id % 100 == 7 { f64::NAN } else { id as f64 / 3.0 });
    let columns: Vec<ArrayRef> = vec![
        Arc::new(ids.clone().collect::<Int64Array>()),
        Arc::new(names.collect::<StringArray>()),
        Arc::new(values.map(Some).collect::<Float64Array>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// Reads a scan's partitions one after the other.
pub(crate) async fn read(store: &ParquetStore, pin: &Pin, scan: &Scan) -> Result<RecordBatch> {
    let schema = store.describe(pin).await?.schema;
    let mut batches = Vec::new();
    let mut output = match &scan.columns {
        None => schema,
        Some(columns) => {
            let field = |name: &String| schema.field_with_name(name).cloned();
            match columns.iter().map(field).collect::<Result<Vec<_>, _>>() {
                Ok(fields) => Arc::new(Schema::new(fields)),
                // The scan itself must refuse.
                Err(_) => schema,
            }
        }
    };
    for partition in store.scan(pin, scan).await? {
        output = partition.schema.clone();
        let read: Vec<RecordBatch> = (partition.open)().try_collect().await?;
        assert!(read.iter().all(|batch| batch.schema() == output));
        batches.extend(read);
    }
    Ok(concat_batches(&output, &batches).unwrap())
}

pub(crate) async fn all(store: &ParquetStore, pin: &Pin) -> RecordBatch {
    read(store, pin, &Scan::default()).await.unwrap()
}

pub(crate) fn compare(column: &str, op: Comparison, value: impl arrow_array::Array + 'static) -> Filter {
    Filter::Compare { column: column.into(), op, value: Arc::new(value) }
}

pub(crate) fn id(op: Comparison, value: i64) -> Filter {
    compare("id", op, Int64Array::from(vec![value]))
}

/// Numbers that do not compress, the same in every run.
pub(crate) fn noise(seed: u64, count: usize) -> Int64Array {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as i64
    };
    std::iter::repeat_with(next).take(count).map(Some).collect()
}
