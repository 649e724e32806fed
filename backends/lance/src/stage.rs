//! Stages: what a change writes. Everything is built in memory first; then data files and manifest go out side by side.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use datafusion_common::DataFusionError;
use datafusion_physical_plan::SendableRecordBatchStream;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt};
use headwater_core::json::sha256;
use headwater_core::store::{Pin, Rows};
use headwater_core::{Error, ErrorKind, Result};
use lance::Dataset;
use lance::dataset::transaction::{Operation, Transaction};
use lance::dataset::{CommitBuilder, InsertBuilder, WriteMode, WriteParams};
use lance_table::format::Fragment;

use crate::content::Content;
use crate::engine::Engine;
use crate::handler::Pinned;
use crate::sealed::Sealed;
use crate::version::{Version, data_key};
use crate::view::{File, View};

/// Rows of a data file, at most.
const FILE_ROWS: usize = 1 << 20;
/// Bytes of a data file, about.
const FILE_BYTES: usize = 1 << 30;

/// What a stage is built on.
pub(crate) struct Base {
    pub(crate) root: String,
    pub(crate) dataset: Dataset,
    pub(crate) schema: SchemaRef,
}

/// A stage under way.
pub(crate) struct Stage<'a> {
    engine: &'a Engine,
    base: Base,
    view: Arc<View>,
    dataset: Arc<Dataset>,
}

/// Rows as fragments that no version has yet.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) fragments: Vec<Fragment>,
    pub(crate) rows: u64,
    pub(crate) content: String,
    pub(crate) files: Vec<File>,
}

/// What went by on the way to Lance, which hides the cause of a failure.
struct Passing {
    content: Content,
    failure: Option<Error>,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(engine: &'a Engine, base: Base) -> Self {
        let view = Arc::new(View::staging(&engine.shared));
        let dataset = Arc::new(engine.through(&base.dataset, view.clone()));
        Self { engine, base, view, dataset }
    }

    fn failed(&self, error: lance::Error) -> Error {
        self.view.failure().unwrap_or_else(|| Error::invalid("Lance cannot write this").because(error).at("table", &self.base.root))
    }

    /// Encodes rows. What fits into memory is not written yet.
    pub(crate) async fn write(&self, rows: Rows) -> Result<Written> {
        let passing = Arc::new(Mutex::new(Passing { content: Content::new(&self.base.schema), failure: None }));
        let schema = self.base.schema.clone();
        let mut batches = {
            let (passing, schema) = (passing.clone(), schema.clone());
            let batches = rows.batches.map(move |batch| pass(&passing, &schema, batch));
            batches.try_filter(|batch| futures::future::ready(batch.num_rows() > 0)).boxed()
        };
        // Lance makes an empty file of no rows.
        let mut fragments = Vec::new();
        let mut failed = None;
        if let Some(first) = batches.next().await {
            let all = futures::stream::iter([first]).chain(batches);
            let source: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema, all));
            let params = WriteParams {
                mode: WriteMode::Append,
                max_rows_per_file: FILE_ROWS,
                max_bytes_per_file: FILE_BYTES,
                skip_auto_cleanup: true,
                ..WriteParams::default()
            };
            let insert = InsertBuilder::new(self.dataset.clone()).with_params(&params);
            match Box::pin(insert.execute_uncommitted_stream(source)).await {
                Ok(Transaction { operation: Operation::Append { fragments: written }, .. }) => fragments = written,
                Ok(other) => failed = Some(Error::new(ErrorKind::Unsupported, format!("Lance made {} of an append", other.operation))),
                Err(error) => failed = Some(self.failed(error)),
            }
        }
        let mut passed = passing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = passed.failure.take().or(failed) {
            return Err(error);
        }
        let files = self.rename(&mut fragments)?;
        Ok(Written { fragments, rows: passed.content.rows, content: passed.content.digest(), files })
    }

    /// Gives the data files their final names.
    fn rename(&self, fragments: &mut [Fragment]) -> Result<Vec<File>> {
        let mut files = Vec::new();
        for file in fragments.iter_mut().flat_map(|fragment| &mut fragment.files) {
            let lost = || Error::new(ErrorKind::Unsupported, format!("Lance lost the data file {:?}; report this as a bug", file.path));
            let held = self.view.file(&file.path).ok_or_else(lost)?;
            file.path.clone_from(&held.name);
            files.push(held);
        }
        Ok(files)
    }

    /// Builds the version that the operation makes of the base, and writes it and those of the operation's new data files that are not
    /// written yet, side by side. 1 request each.
    pub(crate) async fn commit(self, operation: Operation, files: Vec<File>) -> Result<Version> {
        let streamed = files.iter().filter(|file| Sealed::parse(&file.name).is_none()).cloned().collect();
        let handler = Arc::new(Pinned { pin: None, streamed });
        let transaction = Transaction::new(self.dataset.manifest().version, operation, None);
        let builder = CommitBuilder::new(self.dataset.clone()).with_detached(true).with_skip_auto_cleanup(true).with_timeout(None);
        let committed = Box::pin(builder.with_commit_handler(handler).execute(transaction)).await;
        let dataset = committed.map_err(|error| self.failed(error))?;
        let key = dataset.manifest_location().path.clone();
        let lost = || Error::new(ErrorKind::Unsupported, "Lance lost the manifest; report this as a bug").at("object", &key);
        let manifest = self.view.held(&key).ok_or_else(lost)?;
        let pin = Pin { path: key.to_string(), size: manifest.len() as u64, id: format!("sha256:{}", sha256(&manifest)) };
        let version = Version::of(pin, self.base.root.clone(), self.engine.at_rest(&dataset))?;
        let mut objects: Vec<(String, Bytes)> = vec![(version.pin.path.clone(), manifest)];
        objects.extend(files.into_iter().filter_map(|file| Some((data_key(&self.base.root, &file.name), file.bytes?))));
        let store = &self.engine.shared.objects;
        try_join_all(objects.iter().map(|(path, bytes)| store.create(path, bytes.clone()))).await?;
        Ok(version)
    }
}

/// Brings a batch into the table's schema and adds it to the content.
fn pass(passing: &Mutex<Passing>, schema: &SchemaRef, batch: Result<RecordBatch>) -> Result<RecordBatch, DataFusionError> {
    let mut passing = passing.lock().unwrap_or_else(PoisonError::into_inner);
    let passed = batch.and_then(|batch| {
        let (_, columns, _) = batch.into_parts();
        let batch = RecordBatch::try_new(schema.clone(), columns);
        let added = batch.and_then(|batch| passing.content.add(&batch).map(|()| batch));
        added.map_err(|source| Error::invalid("the rows do not fit the table's schema").because(source))
    });
    passed.map_err(|error| {
        let text = error.to_string();
        passing.failure.get_or_insert(error);
        DataFusionError::External(text.into())
    })
}

impl Base {
    /// No version: what a table's first one is built on.
    pub(crate) async fn none(engine: &Engine, root: String, schema: &SchemaRef) -> Result<Self> {
        let unusable = |source| Error::invalid("Lance cannot hold this schema").because(source);
        let lance = lance_core::datatypes::Schema::try_from(schema.as_ref()).map_err(unusable)?;
        let dataset = engine.empty(&root, lance, HashMap::new()).await.map_err(unusable)?;
        let schema = Arc::new(arrow_schema::Schema::from(dataset.schema()));
        Ok(Self { root, dataset, schema })
    }

    /// A version.
    pub(crate) fn of(version: &Version) -> Self {
        Self { root: version.root.clone(), dataset: version.dataset.clone(), schema: version.schema.clone() }
    }

    /// A version's columns, without its rows.
    pub(crate) async fn emptied(engine: &Engine, version: &Version) -> Result<Self> {
        let before = version.dataset.manifest();
        let emptied = engine.empty(&version.root, before.schema.clone(), before.config.clone()).await;
        let dataset = emptied.map_err(|source| Error::corrupt(&version.pin.path, "the version's schema is damaged").because(source))?;
        Ok(Self { root: version.root.clone(), dataset, schema: version.schema.clone() })
    }
}
