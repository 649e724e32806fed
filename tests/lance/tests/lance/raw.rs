//! Lance by itself, as its own documentation uses it, with a tap on its requests: what stands beside our figures.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchIterator};
use headwater_conformance::rows::numbered;
use headwater_conformance::tap::{Request, Tap, TapObjects};
use lance::dataset::builder::DatasetBuilder;
use lance::dataset::{MergeInsertBuilder, WhenMatched, WhenNotMatched, WriteParams};
use lance::index::DatasetIndexExt;
use lance_index::IndexType;
use lance_index::scalar::ScalarIndexParams;
use lance_io::object_store::{ObjectStoreParams, WrappingObjectStore};
use object_store::ObjectStore;
use object_store::list::PaginatedListStore;

#[derive(Debug)]
struct Tapped(Arc<Tap>);

impl WrappingObjectStore for Tapped {
    fn wrap(&self, _: &str, original: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::new(TapObjects::new(original, self.0.clone()))
    }

    // Without it, pages of a list come through the store that is wrapped.
    fn wrap_paginated(&self, _: &str, _: Arc<dyn PaginatedListStore>) -> Option<Arc<dyn PaginatedListStore>> {
        None
    }
}

fn reader(batch: RecordBatch) -> RecordBatchIterator<std::iter::Once<Result<RecordBatch, arrow_schema::ArrowError>>> {
    let schema = batch.schema();
    RecordBatchIterator::new(std::iter::once(Ok(batch)), schema)
}

/// What a merge-insert of these rows asks for in an indexed dataset of so many, by a process that knows nothing yet.
pub(crate) async fn upsert(rows: i64, changed: std::ops::Range<i64>) -> Vec<Request> {
    let folder = tempfile::TempDir::new().unwrap();
    // The scheme whose requests can be tapped.
    let uri = format!("file-object-store://{}", folder.path().display());
    let mut dataset = lance::Dataset::write(reader(numbered(0..rows)), &uri, Some(WriteParams::default())).await.unwrap();
    dataset.create_index(&["id"], IndexType::BTree, None, &ScalarIndexParams::default(), true).await.unwrap();
    let tap = Tap::new();
    let params = ObjectStoreParams { object_store_wrapper: Some(Arc::new(Tapped(tap.clone()))), ..ObjectStoreParams::default() };
    let dataset = Arc::new(DatasetBuilder::from_uri(&uri).with_store_params(params).load().await.unwrap());
    let mut merge = MergeInsertBuilder::try_new(dataset, vec!["id".to_owned()]).unwrap();
    merge.when_matched(WhenMatched::UpdateAll).when_not_matched(WhenNotMatched::InsertAll);
    let count = (changed.end - changed.start) as u64;
    let (dataset, stats) = merge.try_build().unwrap().execute_reader(reader(numbered(changed))).await.unwrap();
    let requests = tap.requests();
    assert_eq!((stats.num_updated_rows, stats.num_inserted_rows), (count, 0));
    assert_eq!(dataset.count_rows(None).await.unwrap() as i64, rows);
    requests
}
