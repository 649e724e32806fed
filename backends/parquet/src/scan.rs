//! Scans: partitions over data files, with projection, filter and limit pushed into the Parquet reader.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use headwater_core::filter::Filter;
use headwater_core::schema::project;
use headwater_core::store::{Partition, Scan};
use headwater_core::{Error, Result};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions, RowFilter};
use parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};

use crate::prune::{Bounds, may_match};
use crate::reader::{FileReader, from_parquet};
use crate::settings::Settings;
use crate::types::{is_float, is_orderable};
use crate::version::DataFile;
use headwater_core::objects::Objects;

/// Rows of a batch, at most: what DataFusion and Lance take for one, too.
const BATCH_ROWS: usize = 8_192;

/// What every partition of one scan shares.
#[derive(Debug)]
pub(crate) struct Plan {
    objects: Objects,
    settings: Settings,
    table: SchemaRef,
    /// The asked columns, in the asked order.
    output: SchemaRef,
    /// The filter and the columns it reads.
    filter: Option<(Filter, SchemaRef)>,
    limit: Option<u64>,
}

impl Plan {
    /// Checks what is asked against the table's schema. No request.
    pub(crate) fn new(objects: Objects, settings: Settings, table: SchemaRef, scan: &Scan) -> Result<Self> {
        let output = match &scan.columns {
            None => table.clone(),
            Some(columns) => Arc::new(project(&table, columns.iter().map(String::as_str))?),
        };
        let filter = match &scan.filter {
            None => None,
            Some(filter) => {
                filter.validate(&table)?;
                Some((filter.clone(), Arc::new(project(&table, filter.columns())?)))
            }
        };
        Ok(Self { objects, settings, table, output, filter, limit: scan.limit })
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
        let Some((filter, _)) = &self.filter else { return Ok(true) };
        may_match(filter, &|column| {
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

/// Requests: 1 for a file read whole; otherwise 1 for the footer, and per row group one per stretch of near column chunks, filter columns
/// first.
async fn open(plan: Arc<Plan>, part: Part) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let file = part.file;
    let failed = |error| from_parquet(&file, error);
    let mut reader = FileReader::open(plan.objects.clone(), file.clone(), &plan.settings).await?;
    // Where rows are skipped, the index tells which pages need not be read.
    let index = if plan.filter.is_some() || plan.limit.is_some() { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip };
    let options = ArrowReaderOptions::new().with_offset_index_policy(index);
    let metadata = ArrowReaderMetadata::load_async(&mut reader, options).await.map_err(failed)?;
    check(&plan.table, &file, &metadata)?;

    let groups: Vec<usize> = match &plan.filter {
        None => part.groups.collect(),
        Some((filter, _)) => {
            let bounds = GroupBounds { file: &file, schema: metadata.schema(), metadata: metadata.metadata() };
            let keep = |group: &usize| may_match(filter, &|column| Ok(bounds.get(column, *group)));
            part.groups.filter_map(|group| keep(&group).map(|keep| keep.then_some(group)).transpose()).collect::<Result<_>>()?
        }
    };
    let mask = |schema: &Schema| {
        let present = schema.fields().iter().filter_map(|field| metadata.schema().index_of(field.name()).ok());
        ProjectionMask::roots(metadata.parquet_schema(), present)
    };
    let mut builder = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, metadata.clone())
        .with_row_groups(groups)
        .with_batch_size(BATCH_ROWS)
        .with_projection(mask(&plan.output));
    if let Some((filter, reads)) = &plan.filter {
        if reads.fields().iter().any(|field| metadata.schema().index_of(field.name()).is_ok()) {
            let (filter, reads, path) = (filter.clone(), reads.clone(), file.path.clone());
            let predicate = ArrowPredicateFn::new(mask(&reads), move |batch| {
                filter.evaluate(&fit(&batch, &reads)?).map_err(|source| {
                    let error = Error::invalid("the filter does not fit the rows").because(source).at("object", &path);
                    ArrowError::ExternalError(Box::new(error))
                })
            });
            builder = builder.with_row_filter(RowFilter::new(vec![Box::new(predicate)]));
        } else {
            // Every column it reads is younger than the file: it holds for all rows or for none.
            let nulls = reads.fields().iter().map(|field| new_null_array(field.data_type(), 1)).collect();
            let row = RecordBatch::try_new_with_options(reads.clone(), nulls, &RecordBatchOptions::new().with_row_count(Some(1)));
            let row = row.map_err(|source| file.named().corrupt("the data file lacks a column that may not be null").because(source))?;
            if filter.apply(&row)?.num_rows() == 0 {
                return Ok(futures::stream::empty().boxed());
            }
        }
    }
    if let Some(limit) = plan.limit {
        builder = builder.with_limit(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    let batches = builder.build().map_err(failed)?;
    let read = move |batch: Result<RecordBatch, _>| {
        let batch = batch.map_err(|error| from_parquet(&file, error))?;
        fit(&batch, &plan.output).map_err(|source| file.named().corrupt("the data file's rows do not fit the table").because(source))
    };
    Ok(batches.map(read).boxed())
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
    if own.is_empty() || own.len() > whole.len() || own.iter().zip(whole).any(|(own, whole)| own != whole) {
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

/// Statistics of row groups, from the footer.
struct GroupBounds<'a> {
    file: &'a DataFile,
    schema: &'a Schema,
    metadata: &'a ParquetMetaData,
}

impl GroupBounds<'_> {
    fn get(&self, column: &str, group: usize) -> Option<Bounds> {
        let field = self.schema.field_with_name(column).ok()?;
        let group = self.metadata.row_groups().get(group)?;
        // Only the version object knows that there is no NaN.
        let trusted = |statistics: &crate::stats::ColumnStatistics| statistics.column == column && statistics.min.is_some();
        if !is_orderable(field.data_type()) || (is_float(field.data_type()) && !self.file.statistics.iter().any(trusted)) {
            return None;
        }
        let converter = StatisticsConverter::try_new(column, self.schema, self.metadata.file_metadata().schema_descr()).ok()?;
        let converter = converter.with_missing_null_counts_as_zero(false);
        let known = |bound: ArrayRef| (bound.len() == 1 && bound.is_valid(0)).then_some(bound);
        let nulls = converter.row_group_null_counts([group]).ok()?;
        Some(Bounds {
            min: converter.row_group_mins([group]).ok().and_then(known),
            max: converter.row_group_maxes([group]).ok().and_then(known),
            nulls: nulls.iter().next().flatten(),
            rows: u64::try_from(group.num_rows()).ok()?,
        })
    }
}
