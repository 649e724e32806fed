//! A second negative control: the state of all tables as rows of a Lance table of its own, `__manifest`. Each commit updates it by one
//! merge-insert; what is current is looked up through a BTREE over the rows' keys. Never compacted, and compacted and re-indexed before each
//! measurement.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{RecordBatch, RecordBatchIterator, StringArray, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use futures::TryStreamExt;
use headwater_conformance::tap::TapObjects;
use lance::Dataset;
use lance::dataset::builder::DatasetBuilder;
use lance::dataset::optimize::{CompactionOptions, compact_files};
use lance::dataset::{MergeInsertBuilder, WhenMatched, WhenNotMatched, WriteParams};
use lance::index::DatasetIndexExt;
use lance::session::Session;
use lance_index::IndexType;
use lance_index::optimize::OptimizeOptions;
use lance_index::scalar::ScalarIndexParams;
use lance_io::object_store::{ObjectStoreParams, ObjectStoreProvider, ObjectStoreRegistry};
use lance_table::io::commit::ConditionalPutCommitHandler;
use object_store::ObjectStore;
use url::Url;

use super::News;
use super::error::{Error, Result};
use super::operations::Point;
use super::place::Place;
use super::plan;

/// Tables that commits go to, one each, in turn.
const TABLES: u64 = super::fold::TABLES as u64;
/// The scheme under which Lance finds the place.
const SCHEME: &str = "control";
/// More than it ever asks for at once: what it waits for shall be its own doing.
const PARALLEL_REQUESTS: usize = 4_096;

/// How the table is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// Every commit's fragment lies where it left it, beyond the index.
    AsWritten,
    /// Compacted, and its index brought up to date, before each measurement.
    Compacted,
}

impl Kept {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AsWritten => "as written",
            Self::Compacted => "compacted",
        }
    }
}

/// The two curves of one table.
pub(super) struct Measured {
    /// What is current, found by a process that has just started.
    pub(super) lookup: Vec<Point>,
    /// One commit, by a process that made the one before.
    pub(super) publish: Vec<Point>,
}

/// Grows a manifest and measures it at each depth.
pub(super) async fn measure(place: &Place, kept: Kept, depths: &[u64], told: &(dyn Fn(News) + Sync)) -> Result<Measured> {
    let folder = format!("manifest-{}", if kept == Kept::AsWritten { "w" } else { "c" });
    let meter = place.meter(plan::threads("lance")).await?;
    let ordered = place.authority() == "s3";
    let plain = place.open(&folder)?.objects;
    let counted: Arc<dyn ObjectStore> = Arc::new(TapObjects::new(place.open_counted(&folder, &meter)?.objects, meter.tap.clone()));
    let mut grower = create(session(&plain, ordered)).await?;
    let mut measured = Measured { lookup: Vec::new(), publish: Vec::new() };
    for depth in depths {
        told(News::Begun(format!("the control: a manifest of {depth} commits, {}", kept.name())));
        let mut seq = current(&grower).await?.values().copied().max().unwrap_or_default();
        while seq < *depth {
            seq += 1;
            publish(&mut grower, seq).await?;
        }
        if kept == Kept::Compacted {
            compact_files(&mut grower, CompactionOptions::default(), None).await.map_err(failed("compacting the manifest"))?;
            grower.optimize_indices(&OptimizeOptions::default()).await.map_err(failed("indexing the manifest"))?;
        }
        let what = format!("the lookup in a manifest of {depth} commits");
        let lookup = async { current(&open(session(&counted, ordered)).await?).await };
        let (heads, sample) = meter.measure(&what, lookup).await?;
        expect(&what, &heads, seq)?;
        measured.lookup.push(Point { depth: *depth, seq, sample });
        let mut warm = open(session(&counted, ordered)).await?;
        // What it would know of the commit before.
        current(&warm).await?;
        seq += 1;
        let what = format!("a commit to a manifest of {depth} commits");
        let ((), sample) = meter.measure(&what, publish(&mut warm, seq)).await?;
        measured.publish.push(Point { depth: *depth, seq, sample });
        grower = open(session(&plain, ordered)).await?;
        expect(&what, &current(&grower).await?, seq)?;
        told(News::Done(format!("the control: {depth} commits, {}", kept.name())));
    }
    Ok(measured)
}

fn failed(what: &str) -> impl FnOnce(lance::Error) -> Error {
    let what = what.to_owned();
    move |error| Error::untrusted(&what, error.to_string())
}

#[derive(Debug)]
struct Provider {
    objects: Arc<dyn ObjectStore>,
    ordered: bool,
}

#[async_trait]
impl ObjectStoreProvider for Provider {
    async fn new_store(&self, base: Url, _: &ObjectStoreParams) -> lance_core::Result<lance_io::object_store::ObjectStore> {
        let objects = self.objects.clone();
        Ok(lance_io::object_store::ObjectStore::new(objects, base, None, None, false, self.ordered, PARALLEL_REQUESTS, 0, None))
    }
}

/// A process that knows nothing yet.
fn session(objects: &Arc<dyn ObjectStore>, ordered: bool) -> Arc<Session> {
    let registry = ObjectStoreRegistry::empty();
    registry.insert(SCHEME, Arc::new(Provider { objects: objects.clone(), ordered }));
    Arc::new(Session::new(64 << 20, 64 << 20, Arc::new(registry)))
}

fn uri() -> String {
    format!("{SCHEME}:///__manifest")
}

fn schema() -> SchemaRef {
    let field = |name, kind| Field::new(name, kind, false);
    let fields = vec![
        field("object_id", DataType::Utf8),
        field("seq", DataType::UInt64),
        field("location", DataType::Utf8),
        field("digest", DataType::Utf8),
    ];
    Arc::new(Schema::new(fields))
}

fn head_of(table: u64) -> String {
    format!("head:t{table:03}")
}

/// The rows of one commit: the table's new state, and its entry in the journal.
fn rows(seq: u64) -> Result<RecordBatch> {
    let table = seq % TABLES;
    let keys: StringArray = [head_of(table), format!("journal:{seq:020}")].into_iter().map(Some).collect();
    let location = format!("tables/{table:026}/{seq:026}.json");
    let locations: StringArray = [location.clone(), location].into_iter().map(Some).collect();
    let digests: StringArray = (0..2).map(|_| Some(format!("{seq:064x}"))).collect();
    let columns: Vec<arrow_array::ArrayRef> =
        vec![Arc::new(keys), Arc::new(UInt64Array::from(vec![seq, seq])), Arc::new(locations), Arc::new(digests)];
    RecordBatch::try_new(schema(), columns).map_err(|error| Error::untrusted("a manifest's rows", error.to_string()))
}

fn reader(batch: RecordBatch) -> RecordBatchIterator<std::iter::Once<Result<RecordBatch, ArrowError>>> {
    RecordBatchIterator::new(std::iter::once(Ok(batch)), schema())
}

/// The first commit, and the index.
async fn create(session: Arc<Session>) -> Result<Dataset> {
    let params =
        WriteParams { session: Some(session), commit_handler: Some(Arc::new(ConditionalPutCommitHandler)), ..WriteParams::default() };
    let mut manifest = Dataset::write(reader(rows(1)?), &uri(), Some(params)).await.map_err(failed("creating the manifest"))?;
    let exact = ScalarIndexParams::default();
    let built = manifest.create_index(&["object_id"], IndexType::BTree, None, &exact, true);
    built.await.map_err(failed("indexing the manifest"))?;
    Ok(manifest)
}

async fn open(session: Arc<Session>) -> Result<Dataset> {
    let builder = DatasetBuilder::from_uri(uri()).with_session(session).with_commit_handler(Arc::new(ConditionalPutCommitHandler));
    builder.load().await.map_err(failed("opening the manifest"))
}

/// The newest commit of each table.
async fn current(manifest: &Dataset) -> Result<BTreeMap<u64, u64>> {
    let failed = || failed("looking into the manifest");
    let names: Vec<String> = (0..TABLES).map(|table| format!("'{}'", head_of(table))).collect();
    let mut scan = manifest.scan();
    scan.project(&["object_id", "seq"]).map_err(failed())?.filter(&format!("object_id IN ({})", names.join(", "))).map_err(failed())?;
    let batches: Vec<RecordBatch> = scan.try_into_stream().await.map_err(failed())?.try_collect().await.map_err(failed())?;
    let tables: HashMap<String, u64> = (0..TABLES).map(|table| (head_of(table), table)).collect();
    let mut heads = BTreeMap::new();
    for batch in &batches {
        let (keys, seqs) = (batch["object_id"].as_string::<i32>(), batch["seq"].as_primitive::<UInt64Type>());
        heads.extend(keys.iter().zip(seqs.values()).filter_map(|(key, seq)| Some((*tables.get(key?)?, *seq))));
    }
    Ok(heads)
}

async fn publish(manifest: &mut Dataset, seq: u64) -> Result<()> {
    let failed = || failed("a commit to the manifest");
    let mut merge = MergeInsertBuilder::try_new(Arc::new(manifest.clone()), vec!["object_id".to_owned()]).map_err(failed())?;
    merge.when_matched(WhenMatched::UpdateAll).when_not_matched(WhenNotMatched::InsertAll);
    let job = merge.try_build().map_err(failed())?;
    let (merged, _) = job.execute_reader(reader(rows(seq)?)).await.map_err(failed())?;
    *manifest = Arc::unwrap_or_clone(merged);
    Ok(())
}

fn expect(what: &str, heads: &BTreeMap<u64, u64>, seq: u64) -> Result<()> {
    let expected: BTreeMap<u64, u64> = (seq.saturating_sub(TABLES - 1).max(1)..=seq).map(|seq| (seq % TABLES, seq)).collect();
    if *heads == expected {
        return Ok(());
    }
    Err(Error::untrusted(what, format!("it found {heads:?}, not {expected:?}")))
}
