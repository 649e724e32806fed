//! What queries read, counted below everything.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::physical_plan::ExecutionPlanProperties;
use headwater_conformance::tap::{Request, Tap, render};
use headwater_sql::datafusion;

use super::fixture::{Place, answer, number};

/// What reads of a table's data went to, in requests since the tap was cleared.
struct Reads {
    /// All requests.
    requests: Vec<Request>,
    /// The data files among what was read.
    files: BTreeSet<String>,
    /// Bytes of them.
    bytes: usize,
}

impl Reads {
    /// Of these tables.
    async fn of(place: &Place, tap: &Tap, tables: &[&str]) -> Self {
        let requests = tap.requests();
        let snapshot = place.snapshot().await;
        let mut data = BTreeSet::new();
        for table in tables {
            let reached = snapshot.reach(table).await.unwrap();
            data.extend(reached.into_iter().filter(|reached| reached.data).map(|reached| reached.object.path));
        }
        let read = || requests.iter().filter(|request| data.contains(&request.key));
        let (files, bytes) = (read().map(|request| request.key.clone()).collect(), read().map(|request| request.received).sum());
        Self { files, bytes, requests }
    }

    fn shown(&self) -> String {
        render(&self.requests)
    }
}

fn numbers(range: std::ops::Range<i64>) -> RecordBatch {
    let wide = range.clone().map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64));
    let columns: [(&str, ArrayRef); 2] =
        [("id", Arc::new(Int64Array::from_iter_values(range))), ("noise", Arc::new(wide.map(Some).collect::<Int64Array>()))];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Files of ten rows each.
async fn small(files: i64) -> Place {
    let place = Place::new().await;
    let batches: Vec<RecordBatch> = (0..files).map(|file| numbers(file * 10..file * 10 + 10)).collect();
    place.table("t", &batches[0].schema(), &batches).await;
    place
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planning_reads_descriptions_and_nothing_else() {
    let place = small(3).await;
    let one = numbers(0..1);
    place.table("u", &one.schema(), std::slice::from_ref(&one)).await;
    place.table("v", &one.schema(), &[one]).await;
    let (snapshot, tap) = place.cold().await;
    let context = headwater_sql::context(&snapshot);
    answer(&snapshot, "SHOW TABLES").await.unwrap();
    assert_eq!(tap.requests().len(), 0);

    let query = context.sql("SELECT count(*) FROM t JOIN u ON t.id = u.id WHERE t.noise > 5").await.unwrap();
    let plan = query.create_physical_plan().await.unwrap();
    let reads = Reads::of(&place, &tap, &["t", "u", "v"]).await;
    assert_eq!(reads.requests.len(), 2, "{}", reads.shown());
    assert!(reads.files.is_empty(), "{}", reads.shown());
    drop(plan);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_counted_without_reading_any() {
    let place = small(3).await;
    let (snapshot, tap) = place.cold().await;
    assert_eq!(number(&snapshot, "SELECT count(*) FROM t").await, 30);
    assert_eq!(number(&snapshot, "SELECT count(id) FROM t").await, 30);
    let reads = Reads::of(&place, &tap, &["t"]).await;
    assert_eq!(reads.requests.len(), 1, "{}", reads.shown());
    assert!(reads.files.is_empty());
    // A filter makes it count rows, and then it must.
    assert_eq!(number(&snapshot, "SELECT count(*) FROM t WHERE id % 2 = 0").await, 15);
    assert_eq!(Reads::of(&place, &tap, &["t"]).await.files.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_condition_reads_the_files_that_may_match() {
    let place = small(10).await;
    for (condition, files) in [("id = 42", 1), ("id >= 85", 2), ("id BETWEEN 15 AND 34", 3), ("id IN (1, 99)", 2), ("id < 0", 0)] {
        let (snapshot, tap) = place.cold().await;
        answer(&snapshot, &format!("SELECT * FROM t WHERE {condition}")).await.unwrap();
        let reads = Reads::of(&place, &tap, &["t"]).await;
        assert_eq!(reads.files.len(), files, "{condition}: {}", reads.shown());
    }
    // Of a long list, the bounds.
    let (snapshot, tap) = place.cold().await;
    let list: Vec<String> = (12..55).map(|id| id.to_string()).collect();
    assert_eq!(number(&snapshot, &format!("SELECT count(*) FROM t WHERE id IN ({})", list.join(", "))).await, 43);
    assert_eq!(Reads::of(&place, &tap, &["t"]).await.files.len(), 5);
    // Half of a condition is better than none.
    let (snapshot, tap) = place.cold().await;
    let text = "SELECT count(*) FROM t WHERE (id < 20 AND noise % 2 = 0) OR (id = 31 AND noise % 2 = 1)";
    let counted = number(&snapshot, text).await;
    assert!((1..=20).contains(&counted));
    assert_eq!(Reads::of(&place, &tap, &["t"]).await.files.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fewer_columns_are_fewer_bytes() {
    let place = Place::new().await;
    let batch = numbers(0..400_000);
    place.table("t", &batch.schema(), &[batch]).await;
    let mut bytes = Vec::new();
    for text in ["SELECT max(id), max(noise) FROM t", "SELECT max(id) FROM t", "SELECT count(*) FROM t WHERE id + 1 > 5"] {
        let (snapshot, tap) = place.cold().await;
        answer(&snapshot, text).await.unwrap();
        bytes.push(Reads::of(&place, &tap, &["t"]).await.bytes);
    }
    assert!(bytes[0] > 3_000_000 && bytes[1] * 2 < bytes[0] && bytes[2] * 2 < bytes[0], "{bytes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_stops_early() {
    let place = small(10).await;
    for (limit, files) in [(5, 1), (10, 1), (11, 2), (0, 0)] {
        let (snapshot, tap) = place.cold().await;
        assert_eq!(answer(&snapshot, &format!("SELECT id FROM t LIMIT {limit}")).await.unwrap().num_rows(), limit);
        let reads = Reads::of(&place, &tap, &["t"]).await;
        assert_eq!(reads.files.len(), files, "{limit}: {}", reads.shown());
    }
    // Behind an offset, too; and where a condition is the store's.
    let (snapshot, tap) = place.cold().await;
    assert_eq!(answer(&snapshot, "SELECT id FROM t LIMIT 5 OFFSET 12").await.unwrap().num_rows(), 5);
    assert_eq!(Reads::of(&place, &tap, &["t"]).await.files.len(), 2);
    let (snapshot, tap) = place.cold().await;
    let context = headwater_sql::context(&snapshot);
    context.sql("SET datafusion.execution.target_partitions = 2").await.unwrap();
    let rows = context.sql("SELECT id FROM t WHERE id >= 0 LIMIT 5").await.unwrap().collect().await.unwrap();
    assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 5);
    let files = Reads::of(&place, &tap, &["t"]).await.files.len();
    assert!((1..=4).contains(&files), "{files}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_files_are_few_tasks_and_each_is_read_once() {
    let place = small(100).await;
    let (snapshot, tap) = place.cold().await;
    let context = headwater_sql::context(&snapshot);
    context.sql("SET datafusion.execution.target_partitions = 4").await.unwrap();
    let plan = context.sql("SELECT id FROM t").await.unwrap().create_physical_plan().await.unwrap();
    assert_eq!(plan.output_partitioning().partition_count(), 4);
    let streams = datafusion::physical_plan::collect_partitioned(plan, context.task_ctx()).await.unwrap();
    let rows: Vec<usize> = streams.iter().map(|batches| batches.iter().map(RecordBatch::num_rows).sum()).collect();
    assert_eq!(rows, [250; 4]);
    let ids: BTreeSet<i64> = streams.iter().flatten().flat_map(values).collect();
    assert_eq!(ids, (0..1000).collect());
    let reads = Reads::of(&place, &tap, &["t"]).await;
    assert_eq!(reads.files.len(), 100);
    let data = reads.requests.iter().filter(|request| reads.files.contains(&request.key)).count();
    assert_eq!(data, 100, "{}", reads.shown());
    // Files that wait for each other would be 25 round trips and more.
    assert!(tap.stages() < 20, "{} round trips", tap.stages());
}

fn values(batch: &RecordBatch) -> Vec<i64> {
    use arrow_array::cast::AsArray;
    batch.column(0).as_primitive::<arrow_array::types::Int64Type>().values().to_vec()
}
