//! A scan of a table, as DataFusion runs it.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::{DataFusionError, Result as Planned};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::limit::LimitStream;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::stream::BoxStream;
use futures::{StreamExt, TryFutureExt, TryStreamExt};
use headwater_core::store::{Partition, Scan};
use headwater_core::{Error, Result};
use tokio::sync::OnceCell;

use crate::error::to_datafusion;
use crate::table::{SnapshotTable, count, statistics};

/// Fewer bytes than this are not worth a task of their own.
const TASK_BYTES: u64 = 16 << 20;

/// Store partitions that one task begins before it has read the one it is at, so that none waits for its first bytes: one, and of many small ones
/// at most so many, and so many bytes.
const AHEAD: u64 = 8;
const AHEAD_BYTES: u64 = 16 << 20;

/// A scan. Its tasks share out the store's partitions like cards: with many small files, each task reads many of them.
///
/// Nothing is read before it runs; the first of its tasks asks the store for the partitions. Dropping the streams stops reading.
#[derive(Debug)]
pub(crate) struct SnapshotScan {
    table: SnapshotTable,
    scan: Arc<Scan>,
    properties: Arc<PlanProperties>,
    partitions: Arc<OnceCell<Vec<Partition>>>,
    metrics: ExecutionPlanMetricsSet,
}

impl SnapshotScan {
    /// A scan that yields batches of this schema in at most so many tasks.
    pub(crate) fn new(table: SnapshotTable, scan: Scan, schema: SchemaRef, most: usize) -> Self {
        let description = table.description();
        let tasks = match (&scan.filter, scan.limit) {
            // One that stops at the limit reads least.
            (None, Some(_)) => 1,
            _ => count(description.files.max(description.bytes / TASK_BYTES)).clamp(1, most.max(1)),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(tasks),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            table,
            scan: Arc::new(scan),
            properties: Arc::new(properties),
            partitions: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn tasks(&self) -> usize {
        self.properties.partitioning.partition_count()
    }
}

impl DisplayAs for SnapshotScan {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if kind == DisplayFormatType::TreeRender {
            "\n"
        } else {
            f.write_str("SnapshotScan: ")?;
            ", "
        };
        f.write_str(&self.table.place())?;
        if let Some(columns) = &self.scan.columns {
            write!(f, "{separator}columns={columns:?}")?;
        }
        if let Some(filter) = &self.scan.filter {
            write!(f, "{separator}filter={filter}")?;
        }
        if let Some(limit) = self.scan.limit {
            write!(f, "{separator}limit={limit}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for SnapshotScan {
    fn name(&self) -> &str {
        "SnapshotScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Planned<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a scan of a table has no children") }
    }

    fn execute(&self, task: usize, _context: Arc<TaskContext>) -> Planned<SendableRecordBatchStream> {
        let (table, scan, partitions, tasks) = (self.table.clone(), self.scan.clone(), self.partitions.clone(), self.tasks());
        let limit = scan.limit.map(count);
        let description = table.description();
        let each = description.bytes / description.files.max(1);
        let ahead = match limit {
            Some(_) => 0,
            None => count((AHEAD_BYTES / each.max(1)).clamp(1, AHEAD)),
        };
        let begun = async move {
            let all = partitions.get_or_try_init(|| table.partitions(&scan)).await?;
            let mine: Vec<_> = all.iter().skip(task).step_by(tasks).map(|partition| (partition.open)()).collect();
            Ok::<_, Error>(in_turn(mine, ahead))
        };
        let batches = futures::stream::once(begun.map_err(to_datafusion)).try_flatten();
        let batches = RecordBatchStreamAdapter::new(self.schema(), batches);
        let metrics = BaselineMetrics::new(&self.metrics, task);
        Ok(Box::pin(LimitStream::new(Box::pin(batches), 0, limit, metrics)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn partition_statistics(&self, task: Option<usize>) -> Planned<Arc<Statistics>> {
        let schema = self.schema();
        if task.is_some() && self.tasks() > 1 {
            return Ok(Arc::new(Statistics::new_unknown(&schema)));
        }
        let all = statistics(self.table.description(), &schema);
        // A filter leaves nobody knows how many.
        let known = if self.scan.filter.is_some() { all.to_inexact() } else { all };
        let limit = self.scan.limit.map(count);
        Ok(Arc::new(if limit.is_some() { known.with_fetch(limit, 0, 1)? } else { known }))
    }
}

/// One stream after the other, with the first batches of so many fetched meanwhile.
fn in_turn(streams: Vec<BoxStream<'static, Result<RecordBatch>>>, ahead: usize) -> BoxStream<'static, Planned<RecordBatch>> {
    let begin = |mut stream: BoxStream<'static, Result<RecordBatch>>| async move {
        let first = stream.next().await;
        futures::stream::iter(first).chain(stream).map_err(to_datafusion)
    };
    // Tasks of their own: nobody asks them while the batches of the one before are taken.
    let begun = futures::stream::iter(streams).map(move |stream| SpawnedTask::spawn(begin(stream)).join_unwind());
    let begun = begun.buffered(ahead + 1).map(|begun| begun.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error))));
    begun.try_flatten().boxed()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array};
    use tokio::sync::Semaphore;

    use super::*;

    /// Streams of two batches each, which count those of them that have begun, and whose first batches wait for a permit each.
    fn streams(count: usize) -> (Vec<BoxStream<'static, Result<RecordBatch>>>, Arc<AtomicUsize>, Arc<Semaphore>) {
        let (begun, permits) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let one = |number: i64| {
            let (begun, permits) = (begun.clone(), permits.clone());
            let batch = move |second: i64| {
                let column: ArrayRef = Arc::new(Int64Array::from(vec![number * 2 + second]));
                RecordBatch::try_from_iter([("n", column)]).map_err(|source| Error::invalid("no batch").because(source))
            };
            let first = async move {
                begun.fetch_add(1, Ordering::SeqCst);
                permits.acquire().await.map_err(|_| Error::invalid("closed"))?.forget();
                batch(0)
            };
            futures::stream::once(first).chain(futures::stream::iter([batch(1)])).boxed()
        };
        ((0..count as i64).map(one).collect(), begun, permits)
    }

    async fn let_tasks_run() {
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn the_next_begins_while_one_is_read_and_all_stop_with_their_reader() {
        let (three, begun, permits) = streams(3);
        let mut batches = in_turn(three, 1);
        permits.add_permits(1);
        batches.next().await.unwrap().unwrap();
        let_tasks_run().await;
        assert_eq!((begun.load(Ordering::SeqCst), Arc::strong_count(&permits)), (2, 3));
        drop(batches);
        let_tasks_run().await;
        assert_eq!((begun.load(Ordering::SeqCst), Arc::strong_count(&permits)), (2, 1), "a task goes on without a reader");
    }

    #[tokio::test]
    async fn all_batches_come_in_order_and_none_begins_early_without_leave() {
        for ahead in [0, 1, 8] {
            let (five, begun, permits) = streams(5);
            permits.add_permits(5);
            let mut batches = in_turn(five, ahead);
            let mut numbers = Vec::new();
            while let Some(batch) = batches.next().await {
                numbers.push(batch.unwrap().column(0).as_primitive::<Int64Type>().value(0));
                assert!(begun.load(Ordering::SeqCst) <= numbers.len().div_ceil(2) + ahead);
            }
            assert_eq!(numbers, (0..10).collect::<Vec<_>>());
        }
    }

    #[tokio::test]
    #[should_panic(expected = "a store's own fault")]
    async fn a_panic_is_no_error_of_the_query() {
        let broken = futures::stream::poll_fn(|_| panic!("a store's own fault")).boxed();
        let _never = in_turn(vec![broken], 0).next().await;
    }
}
