//! Stages: what a change writes. Everything is built in memory first; then data files and manifest go out side by side.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion_common::DataFusionError;
use datafusion_physical_plan::SendableRecordBatchStream;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};
use headwater_core::json::sha256;
use headwater_core::store::{Pin, Rows};
use headwater_core::{Error, ErrorKind, Result};
use lance::Dataset;
use lance::dataset::transaction::{Operation, Transaction};
use lance::dataset::{CommitBuilder, InsertBuilder, WriteMode, WriteParams};
use lance::index::DatasetIndexExt;
use lance_table::format::{Fragment, IndexMetadata};
use object_store::path::Path;

use crate::content::Content;
use crate::digests;
use crate::engine::Engine;
use crate::handler::Pinned;
use crate::version::Version;
use crate::view::{File, View};

/// Rows of a data file, at most.
pub(crate) const FILE_ROWS: usize = 1 << 20;
/// Bytes of a data file, about.
pub(crate) const FILE_BYTES: usize = 1 << 30;
/// Lists of deleted rows read side by side.
const PARALLEL_READS: usize = 16;
/// Objects of one stage written side by side.
const PARALLEL_WRITES: usize = 64;

const UNWRITABLE: &str = "Lance cannot write this";

/// What a stage is built on.
pub(crate) struct Base {
    root: String,
    dataset: Dataset,
    schema: SchemaRef,
    /// The version it is, if it is one.
    version: Option<Arc<Version>>,
}

/// A stage under way. Versions it goes through are built in memory; the last one is written.
pub(crate) struct Stage<'a> {
    engine: &'a Engine,
    root: String,
    schema: SchemaRef,
    view: Arc<View>,
    dataset: Arc<Dataset>,
}

/// Rows as fragments that no version has yet.
#[derive(Clone, Debug, Default)]
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
        let reachable = base.version.as_ref().map(|version| version.reachable.clone()).unwrap_or_default();
        let view = Arc::new(View::staging(&engine.shared, reachable));
        base.version.iter().for_each(|version| version.lend(&view));
        let dataset = Arc::new(engine.through(&base.dataset, view.clone()));
        Self { engine, root: base.root, schema: base.schema, view, dataset }
    }

    /// The table's folder.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// What the stage has so far.
    pub(crate) fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The indices of what the stage has so far. No request.
    pub(crate) async fn indices(&self) -> Result<Arc<Vec<IndexMetadata>>> {
        self.dataset.load_indices().await.map_err(|error| self.failed("Lance cannot read its list of indices", error))
    }

    /// What Lance's error comes from: a request, or what Lance was asked for.
    pub(crate) fn failed(&self, what: &str, error: lance::Error) -> Error {
        self.view.failure().unwrap_or_else(|| Error::invalid(what).because(error).at("table", &self.root))
    }

    fn lost(&self, what: &str) -> Error {
        Error::new(ErrorKind::Unsupported, format!("Lance lost {what}; report this as a bug")).at("table", &self.root)
    }

    /// Encodes rows. What fits into memory is not written yet.
    pub(crate) async fn write(&self, rows: Rows) -> Result<Written> {
        let passing = Arc::new(Mutex::new(Passing { content: Content::new(&self.schema), failure: None }));
        let schema = self.schema.clone();
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
                Err(error) => failed = Some(self.failed(UNWRITABLE, error)),
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
            let location = Path::from(format!("{}/{}", self.root, digests::data(&file.path)));
            let held = self.view.file(&location).ok_or_else(|| self.lost("a data file"))?;
            held.name().clone_into(&mut file.path);
            files.push(held.without_bytes());
        }
        Ok(files)
    }

    /// Fragments without some of their rows, named by their places; and those of which nothing is left. 1 request for each fragment that
    /// lacks rows already.
    pub(crate) async fn without(&self, gone: BTreeMap<u32, Vec<u32>>) -> Result<(Vec<Fragment>, Vec<u64>)> {
        let deleted = gone.into_iter().map(|(id, rows)| async move {
            let fragment = self.dataset.get_fragment(id as usize).ok_or_else(|| self.lost("a fragment"))?;
            let left = Box::pin(fragment.extend_deletions(rows)).await.map_err(|error| self.failed(UNWRITABLE, error))?;
            Ok::<_, Error>((id, left.map(|fragment| fragment.metadata().clone())))
        });
        let (mut updated, mut removed) = (Vec::new(), Vec::new());
        let mut deleted = futures::stream::iter(deleted.collect::<Vec<_>>()).buffered(PARALLEL_READS);
        while let Some((id, left)) = deleted.try_next().await? {
            match left {
                Some(fragment) => updated.push(fragment),
                None => removed.push(u64::from(id)),
            }
        }
        Ok((updated, removed))
    }

    /// Builds the version that the operation makes of what the stage has so far. No request.
    pub(crate) async fn apply(&mut self, operation: Operation, files: &[File]) -> Result<()> {
        let below = |file: &File| {
            let key = file.path.as_ref().strip_prefix(&self.root)?.strip_prefix('/')?;
            Some((key.to_owned(), file.sealed.clone()))
        };
        let beside = self.view.beside();
        let new = files.iter().filter(|file| !file.is_sealed()).chain(&beside).filter_map(below).collect();
        let handler = Arc::new(Pinned { pin: None, new });
        let transaction = Transaction::new(self.dataset.manifest().version, operation, None);
        let builder = CommitBuilder::new(self.dataset.clone()).with_detached(true).with_skip_auto_cleanup(true).with_timeout(None);
        let committed = Box::pin(builder.with_commit_handler(handler).execute(transaction)).await;
        self.dataset = Arc::new(committed.map_err(|error| self.failed(UNWRITABLE, error))?);
        Ok(())
    }

    /// Writes the version, and what it reaches that is not written yet, side by side. 1 request each.
    pub(crate) async fn publish(self) -> Result<Version> {
        let key = self.dataset.manifest_location().path.clone();
        let manifest = self.view.held(&key).ok_or_else(|| self.lost("the manifest"))?;
        let pin = Pin { path: key.to_string(), size: manifest.len() as u64, id: format!("sha256:{}", sha256(&manifest)) };
        let version = Version::of(self.engine, pin, self.root.clone(), &self.dataset, manifest.clone()).await?;
        let waiting = version.reachable.keys().filter_map(|path| Some((path.to_string(), self.view.held(path)?)));
        let objects = std::iter::once((key.to_string(), manifest)).chain(waiting);
        let created = objects.map(|(path, bytes)| async move { self.engine.shared.objects.create(&path, bytes).await });
        futures::stream::iter(created.collect::<Vec<_>>()).buffer_unordered(PARALLEL_WRITES).try_collect::<Vec<()>>().await?;
        Ok(version)
    }

    /// One operation, written.
    pub(crate) async fn commit(mut self, operation: Operation, files: &[File]) -> Result<Version> {
        self.apply(operation, files).await?;
        self.publish().await
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
        Ok(Self { root, dataset, schema, version: None })
    }

    /// A version.
    pub(crate) fn of(version: &Arc<Version>) -> Self {
        let (root, dataset, schema) = (version.root.clone(), version.dataset.clone(), version.schema.clone());
        Self { root, dataset, schema, version: Some(version.clone()) }
    }

    /// A version's columns, without its rows.
    pub(crate) async fn emptied(engine: &Engine, version: &Version) -> Result<Self> {
        let before = version.dataset.manifest();
        let emptied = engine.empty(&version.root, before.schema.clone(), before.config.clone()).await;
        let dataset = emptied.map_err(|source| Error::corrupt(&version.pin.path, "the version's schema is damaged").because(source))?;
        Ok(Self { root: version.root.clone(), dataset, schema: version.schema.clone(), version: None })
    }
}
