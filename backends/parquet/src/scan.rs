//! Scans: partitions over data files, of which only what may be asked for is read.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use headwater_core::Result;
use headwater_core::filter::{Comparison, Filter};
use headwater_core::schema::project;
use headwater_core::store::{Partition, Scan};
use headwater_core::views::{viewed, viewed_filter};
use parquet::arrow::arrow_reader::{ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions, RowFilter};
use parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};
use parquet::file::metadata::PageIndexPolicy;

use crate::candidates::Candidates;
use crate::passing::{misfit, passing};
use crate::prune::may_match;
use crate::reader::{FileReader, from_parquet};
use crate::settings::Settings;
use crate::version::DataFile;
use headwater_core::objects::Objects;

/// Rows of a batch, at most: what DataFusion and Lance take for one, too.
pub(crate) const BATCH_ROWS: usize = 8_192;
/// A filter that asks for a value is evaluated before the other columns are read if they have so many times the bytes of its own: pages without
/// such a row are then not read, as with a limit those beyond it. Where many rows pass, or the others are small, that costs more than it saves.
const HEAVY: u64 = 4;

/// What every partition of one scan shares.
#[derive(Debug)]
pub(crate) struct Plan {
    objects: Objects,
    settings: Settings,
    table: SchemaRef,
    views: bool,
    /// The asked columns, in the asked order.
    output: SchemaRef,
    filter: Option<Filtered>,
    limit: Option<u64>,
}

/// A filter as it was asked, as it is evaluated, with
#[derive(Debug)]
struct Filtered {
    asked: Filter,
    filter: Filter,
    /// the columns it reads,
    own: SchemaRef,
    /// and the asked ones with those of its own that are not among them.
    all: SchemaRef,
}

impl Plan {
    /// Checks what is asked against the table's schema. No request.
    pub(crate) fn new(objects: Objects, settings: Settings, table: SchemaRef, scan: &Scan) -> Result<Self> {
        let decoded = if scan.views { viewed(&table) } else { table.clone() };
        let output = match &scan.columns {
            None => decoded.clone(),
            Some(columns) => Arc::new(project(&decoded, columns.iter().map(String::as_str))?),
        };
        let filter = match &scan.filter {
            None => None,
            Some(filter) => {
                filter.validate(&table)?;
                let own = filter.columns();
                let asked = output.fields().iter().map(|field| field.name().as_str());
                let besides = own.iter().copied().filter(|column| output.index_of(column).is_err());
                Some(Filtered {
                    asked: filter.clone(),
                    filter: if scan.views { viewed_filter(filter)? } else { filter.clone() },
                    all: Arc::new(project(&decoded, asked.chain(besides))?),
                    own: Arc::new(project(&decoded, own)?),
                })
            }
        };
        Ok(Self { objects, settings, table, views: scan.views, output, filter, limit: scan.limit })
    }

    /// The partitions over these files, in order. Files whose statistics rule out every row have none; without a filter, neither have files
    /// beyond the limit.
    pub(crate) fn partitions(self, files: Vec<DataFile>) -> Result<Vec<Partition>> {
        let plan = Arc::new(self);
        let mut partitions = Vec::new();
        let mut rows_before = 0u64;
        for file in files {
            if plan.limit.is_some_and(|limit| rows_before >= limit) {
                break;
            }
            if !plan.may_match(&file)? {
                continue;
            }
            if plan.filter.is_none() {
                rows_before = rows_before.saturating_add(file.rows);
            }
            // A damaged entry must not ask for a million partitions.
            let groups = u64::from(file.row_groups).clamp(1, 1024);
            let of = file.size.div_ceil(plan.settings.split_bytes).clamp(1, groups);
            let (all, file) = (u64::from(file.row_groups), Arc::new(file));
            for part in 0..of {
                let (plan, whole) = (plan.clone(), of == 1);
                let part = Part { file: file.clone(), groups: (part * all / of) as usize..((part + 1) * all / of) as usize };
                partitions.push(Partition {
                    schema: plan.output.clone(),
                    rows: whole.then_some(file.rows),
                    open: Box::new(move || guard(part.file.clone(), stream(plan.clone(), part.clone()))),
                });
            }
        }
        Ok(partitions)
    }

    pub(crate) fn may_match(&self, file: &DataFile) -> Result<bool> {
        let Some(filtered) = &self.filter else { return Ok(true) };
        may_match(&filtered.asked, &|column| {
            let field = self.table.field_with_name(column).ok();
            let statistics = file.statistics.iter().find(|statistics| statistics.column == column);
            let (Some(field), Some(statistics)) = (field, statistics) else { return Ok(None) };
            statistics.bounds(field.data_type(), file.rows).map(Some).map_err(|error| error.at("object", &file.path))
        })
    }
}

/// The rows of some partitions, in order.
pub(crate) fn rows_of(partitions: Vec<Partition>) -> BoxStream<'static, Result<RecordBatch>> {
    futures::stream::iter(partitions).flat_map(|partition| (partition.open)()).boxed()
}

/// Some row groups of a file.
#[derive(Clone, Debug)]
struct Part {
    file: Arc<DataFile>,
    groups: std::ops::Range<usize>,
}

/// The decoder may panic on bytes no writer wrote. For its caller that is a damaged file, like any other.
fn guard(file: Arc<DataFile>, stream: BoxStream<'static, Result<RecordBatch>>) -> BoxStream<'static, Result<RecordBatch>> {
    let caught = AssertUnwindSafe(stream).catch_unwind();
    caught.map(move |item| item.unwrap_or_else(|_| Err(file.named().corrupt("the data file cannot be decoded")))).boxed()
}

fn stream(plan: Arc<Plan>, part: Part) -> BoxStream<'static, Result<RecordBatch>> {
    futures::stream::once(open(plan, part)).try_flatten().boxed()
}

/// Requests: 1 for a file read whole; otherwise 1 for the footer, with a filter or a limit 1 more for the page index of a file that has more of it
/// than `footer_bytes`, and per row group one per stretch of near column chunks, or pages where some
/// are left out; one more such stretch for a filter that is evaluated first.
async fn open(plan: Arc<Plan>, part: Part) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let file = part.file;
    let failed = |error| from_parquet(&file, error);
    let mut reader = FileReader::open(plan.objects.clone(), file.clone(), &plan.settings).await?;
    // Where rows are skipped, the indices tell which pages need not be read.
    let index = |needed| if needed { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip };
    let options = ArrowReaderOptions::new()
        .with_column_index_policy(index(plan.filter.is_some()))
        .with_offset_index_policy(index(plan.filter.is_some() || plan.limit.is_some()));
    let mut metadata = ArrowReaderMetadata::load_async(&mut reader, options.clone()).await.map_err(failed)?;
    check(&plan.table, &file, &metadata)?;
    if plan.views {
        let options = options.with_schema(viewed(metadata.schema()));
        metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options).map_err(failed)?;
    }

    let candidates = match &plan.filter {
        None => Candidates::all(part.groups),
        Some(filtered) => Candidates::find(&filtered.filter, &file, &metadata, part.groups)?,
    };
    let mask = |schema: &Schema| {
        let present = schema.fields().iter().filter_map(|field| metadata.schema().index_of(field.name()).ok());
        ProjectionMask::roots(metadata.parquet_schema(), present)
    };
    let (first, then) = match &plan.filter {
        Some(filtered) if plan.limit.is_some() || filtered.is_first(&metadata, &candidates.groups) => (Some(filtered), None),
        other => (None, other.as_ref()),
    };
    let read = then.map_or(&plan.output, |filtered| &filtered.all).clone();
    let mut builder = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, metadata.clone())
        .with_row_groups(candidates.groups)
        .with_batch_size(BATCH_ROWS)
        .with_projection(mask(&read));
    if let Some(rows) = candidates.rows {
        builder = builder.with_row_selection(rows);
    }
    if let Some(Filtered { filter, own, .. }) = first {
        let (filter, own, file) = (filter.clone(), own.clone(), file.clone());
        let predicate = ArrowPredicateFn::new(mask(&own), move |batch| {
            let evaluated = fit(&batch, &own).and_then(|batch| filter.evaluate(&batch));
            evaluated.map_err(|source| ArrowError::ExternalError(Box::new(misfit(&file, source))))
        });
        builder = builder.with_row_filter(RowFilter::new(vec![Box::new(predicate)]));
    }
    if let Some(limit) = plan.limit {
        builder = builder.with_limit(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    let batches = builder.build().map_err(failed)?;
    let whole = file.clone();
    let batches = batches.map(move |batch| {
        let batch = batch.map_err(|error| from_parquet(&whole, error))?;
        fit(&batch, &read).map_err(|source| whole.named().corrupt("the data file's rows do not fit the table").because(source))
    });
    Ok(match then {
        Some(filtered) => passing(batches.boxed(), filtered.filter.clone(), &plan.output, file),
        None => batches.boxed(),
    })
}

impl Filtered {
    /// Whether it should be evaluated before the other columns are read.
    fn is_first(&self, metadata: &ArrowReaderMetadata, groups: &[usize]) -> bool {
        let (mut own, mut others) = (0u64, 0u64);
        for column in groups.iter().flat_map(|group| metadata.metadata().row_group(*group).columns()) {
            let root = column.column_path().parts().first().map_or("", String::as_str);
            // Text that repeats is small in the file and large in memory.
            let bytes = column.compressed_size().max(column.unencoded_byte_array_data_bytes().unwrap_or(0));
            let bytes = u64::try_from(bytes).unwrap_or(0);
            if self.own.index_of(root).is_ok() {
                own += bytes;
            } else if self.all.index_of(root).is_ok() {
                others += bytes;
            }
        }
        asks_for_a_value(&self.filter) && others / HEAVY >= own.max(1)
    }
}

/// Whether only rows with certain values pass: of most columns few have them.
fn asks_for_a_value(filter: &Filter) -> bool {
    match filter {
        Filter::Compare { op, .. } => *op == Comparison::Equal,
        Filter::And(all) => all.iter().any(asks_for_a_value),
        Filter::Or(all) => all.iter().all(asks_for_a_value),
        Filter::IsNull(_) | Filter::Not(_) => false,
    }
}

/// The file must be what its entry says: as many rows, and the table's first columns exactly (columns added later are not in it).
fn check(table: &SchemaRef, file: &DataFile, metadata: &ArrowReaderMetadata) -> Result<()> {
    let footer = metadata.metadata();
    let rows = footer.row_groups().iter().try_fold(0i64, |sum, group| sum.checked_add(group.num_rows()));
    let rows = rows.and_then(|rows| u64::try_from(rows).ok());
    if rows != Some(file.rows) || footer.num_row_groups() as u64 != u64::from(file.row_groups) {
        return Err(file.named().corrupt("the data file does not hold the rows its version says"));
    }
    let (own, whole) = (metadata.schema().fields(), table.fields());
    let younger = whole.iter().skip(own.len());
    let fits = own.len() <= whole.len() && own.iter().zip(whole).all(|(own, whole)| own == whole);
    if own.is_empty() || !fits || younger.into_iter().any(|field| !field.is_nullable()) {
        return Err(file.named().corrupt("the data file's columns are not the table's"));
    }
    Ok(())
}

/// A batch with exactly these columns; those the file does not have are null.
fn fit(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let column = |field: &arrow_schema::FieldRef| -> ArrayRef {
        let found = batch.column_by_name(field.name());
        found.cloned().unwrap_or_else(|| new_null_array(field.data_type(), batch.num_rows()))
    };
    let columns = schema.fields().iter().map(column).collect();
    RecordBatch::try_new_with_options(schema.clone(), columns, &RecordBatchOptions::new().with_row_count(Some(batch.num_rows())))
}
