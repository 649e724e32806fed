//! Scans: a partition per fragment, with projection, filter and limit pushed down into Lance.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion_expr::Expr;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use headwater_core::filter::Filter;
use headwater_core::schema::project;
use headwater_core::store::{Partition, Scan};
use headwater_core::{Error, Result};
use lance_core::datatypes::Schema as LanceSchema;
use lance_table::format::Fragment;

use crate::engine::Engine;
use crate::filter::expression;
use crate::version::Version;
use crate::view::View;
use headwater_core::objects::Named;

/// What every partition of one scan shares.
pub(crate) struct Plan {
    engine: Arc<Engine>,
    version: Arc<Version>,
    /// The asked columns, in the asked order.
    output: SchemaRef,
    /// What Lance reads: the asked columns and those of the filter, in the table's order.
    reads: LanceSchema,
    filter: Option<(Filter, Expr)>,
    limit: Option<u64>,
}

impl Plan {
    /// Checks what is asked against the table's schema. No request.
    pub(crate) fn new(engine: Arc<Engine>, version: Arc<Version>, scan: &Scan) -> Result<Self> {
        let table = version.schema.clone();
        let output = match &scan.columns {
            None => table.clone(),
            Some(columns) => Arc::new(project(&table, columns.iter().map(String::as_str))?),
        };
        let mut filter = None;
        let mut names: Vec<&str> = output.fields().iter().map(|field| field.name().as_str()).collect();
        if let Some(asked) = &scan.filter {
            asked.validate(&table)?;
            names.extend(asked.columns());
            filter = Some((asked.clone(), expression(asked)?));
        }
        let reads = reads(&version, &names);
        Ok(Self { engine, output, reads, filter, limit: scan.limit, version })
    }

    /// The partitions, in order: fragments that hold rows. Without a filter, those beyond the limit have none.
    pub(crate) fn partitions(self) -> Vec<Partition> {
        self.partitions_of(|_| true)
    }

    /// [`Plan::partitions`], those of some fragments alone.
    pub(crate) fn partitions_of(self, wanted: impl Fn(&Fragment) -> bool) -> Vec<Partition> {
        let plan = Arc::new(self);
        let mut partitions = Vec::new();
        let mut rows_before = 0u64;
        for fragment in plan.version.dataset.fragments().iter().filter(|fragment| wanted(fragment)) {
            if plan.limit.is_some_and(|limit| rows_before >= limit) {
                break;
            }
            let rows = fragment.num_rows().unwrap_or_default() as u64;
            if rows == 0 {
                continue;
            }
            if plan.filter.is_none() {
                rows_before = rows_before.saturating_add(rows);
            }
            let (plan, fragment) = (plan.clone(), fragment.clone());
            partitions.push(Partition {
                schema: plan.output.clone(),
                rows: Some(rows),
                open: Box::new(move || partition(plan.clone(), fragment.clone())),
            });
        }
        partitions
    }

    /// A batch with exactly the asked columns, in their order.
    pub(crate) fn fit(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        // Lance has filtered already; core decides what a filter means.
        let filtered = self.filter.as_ref().map(|(filter, _)| filter.apply(batch)).transpose()?;
        let batch = filtered.as_ref().unwrap_or(batch);
        let columns = self.output.fields().iter().map(|field| batch.column_by_name(field.name()).cloned());
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns: Option<Vec<_>> = columns.collect();
        let misfit = || Error::corrupt(&self.version.pin.path, "the rows do not fit the table; run `headwater verify --data`");
        let fitted = RecordBatch::try_new_with_options(self.output.clone(), columns.ok_or_else(misfit)?, &options);
        fitted.map_err(|source| misfit().because(source))
    }
}

/// The asked columns of a fragment, filtered, up to the limit.
fn partition(plan: Arc<Plan>, fragment: Fragment) -> BoxStream<'static, Result<RecordBatch>> {
    let limit = plan.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let read = Read {
        columns: plan.reads.clone(),
        fragments: Some(vec![fragment]),
        filter: plan.filter.as_ref().map(|(_, expression)| expression.clone()),
        limit: plan.limit,
        addresses: false,
    };
    let batches = read.start(&plan.engine, &plan.version).map(move |batch| plan.fit(&batch?));
    // The limit holds for what the filter passed; once it is reached, nothing more is read.
    let limited = futures::stream::try_unfold((batches.boxed(), limit), |(mut batches, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let Some(batch) = batches.try_next().await? else { return Ok(None) };
        let batch = batch.slice(0, batch.num_rows().min(left));
        let left = left - batch.num_rows();
        Ok(Some((batch, (batches, left))))
    });
    limited.boxed()
}

/// What Lance reads in one go, in the rows' order.
pub(crate) struct Read {
    pub(crate) columns: LanceSchema,
    /// All, if `None`.
    pub(crate) fragments: Option<Vec<Fragment>>,
    /// Lance may pass rows that do not match: see [`expression`].
    pub(crate) filter: Option<Expr>,
    pub(crate) limit: Option<u64>,
    /// Whether a last column says where each row is.
    pub(crate) addresses: bool,
}

impl Read {
    /// Nothing happens before the stream's first poll.
    ///
    /// Requests: 1 for a data file of up to 1 MiB; otherwise 1 for its footer, and then what Lance needs of it; 1 for each list of deleted
    /// rows; where an index is asked, its lookup table and the pages that may match. None for what is cached.
    pub(crate) fn start(self, engine: &Arc<Engine>, version: &Arc<Version>) -> BoxStream<'static, Result<RecordBatch>> {
        let first = self.fragments.as_ref().and_then(|fragments| fragments.first()?.files.first());
        let key = first.map_or_else(|| version.pin.path.clone(), |file| version.key(file));
        let undecodable = {
            let key = key.clone();
            move || Named { path: &key, size: 0 }.corrupt("the data file cannot be decoded")
        };
        let opened = {
            let (engine, version, undecodable) = (engine.clone(), version.clone(), undecodable.clone());
            futures::stream::once(async move { self.open(&engine, &version, undecodable).await }).try_flatten()
        };
        // The decoder may panic on bytes no writer wrote. For its caller that is a damaged file, like any other.
        let caught = AssertUnwindSafe(opened).catch_unwind();
        caught.map(move |item| item.unwrap_or_else(|_| Err(undecodable()))).boxed()
    }

    async fn open(
        self,
        engine: &Engine,
        version: &Version,
        undecodable: impl Fn() -> Error + Clone + Send + Sync + 'static,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let view = Arc::new(View::reading(&engine.shared, version.reachable.clone()));
        version.lend(&view);
        let failed = {
            let view = view.clone();
            // Without a failed request, the bytes were read, and make no sense.
            move |error: lance::Error| view.failure().unwrap_or_else(|| undecodable().because(error))
        };
        let dataset = engine.through(&version.dataset, view);
        let mut scanner = dataset.scan();
        scanner.project_with_schema(&self.columns).map_err(&failed)?;
        if self.addresses {
            scanner.with_row_address();
        }
        if let Some(fragments) = self.fragments {
            scanner.with_fragments(fragments);
        }
        scanner.scan_in_order(true);
        match (self.filter, self.limit) {
            (Some(filter), _) => drop(scanner.filter_expr(filter)),
            (None, Some(limit)) => drop(scanner.limit(Some(i64::try_from(limit).unwrap_or(i64::MAX)), None).map_err(&failed)?),
            (None, None) => {}
        }
        let batches = scanner.try_into_stream().await.map_err(&failed)?;
        Ok(batches.map(move |batch| batch.map_err(&failed)).boxed())
    }
}

/// Some of a version's columns, in the table's order.
pub(crate) fn reads(version: &Version, names: &[&str]) -> LanceSchema {
    let whole = version.dataset.schema();
    let fields = whole.fields.iter().filter(|field| names.contains(&field.name.as_str())).cloned().collect();
    LanceSchema { fields, metadata: whole.metadata.clone() }
}
