//! Headwater beside the libraries it stands on, reading the same files: how long each takes for all rows, and for an aggregate of some.
//!
//!     cargo run --release --manifest-path bench/beside/Cargo.toml [ROWS] [ROUNDS]
//!
//! Both sides of a pair run in turn, so that what slows the machine slows both; what is printed is the median of the rounds' ratios, theirs
//! to ours: 1.00 is as fast, more is faster. A measurement, and no gate.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a measurement that cannot go on fails")]

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
#[cfg(feature = "lance")]
use futures::StreamExt;
use futures::TryStreamExt;
use headwater::store::{Partition, Scan};
use headwater::{Catalog, Snapshot};
#[cfg(feature = "lance")]
use lance::dataset::builder::DatasetBuilder;
use parquet::arrow::ParquetRecordBatchStreamBuilder;
use tempfile::TempDir;
use tokio::task::JoinSet;

const FILES: i64 = 8;
const QUERIES: &[(&str, &str)] = &[
    ("sql: filtered aggregate", "SELECT kind, count(*), sum(amount) FROM t WHERE amount > 25.0 GROUP BY kind"),
    ("sql: selective filter", "SELECT count(*), sum(amount) FROM t WHERE id BETWEEN 1000000 AND 1000100"),
    ("sql: filter on text", "SELECT sum(amount) FROM t WHERE kind = 'kind 7'"),
    ("sql: aggregate", "SELECT kind, avg(amount), max(id) FROM t GROUP BY kind"),
];

/// Numbers that do not compress, the same in every run.
fn noise(i: i64) -> u64 {
    let mixed = (i as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32
}

fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
    let ids = || ids.clone();
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(Int64Array::from_iter_values(ids()))),
        ("kind", Arc::new(StringArray::from_iter_values(ids().map(|i| format!("kind {}", noise(i) % 100))))),
        ("amount", Arc::new(Float64Array::from_iter_values(ids().map(|i| (noise(i) % 10_000) as f64 / 100.0)))),
        ("note", Arc::new(StringArray::from_iter_values(ids().map(|i| format!("{:016x}", noise(i)))))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// A catalog of this kind of store, with one table of as many files.
async fn place(folder: &TempDir, store: &str, rows: i64) -> (Catalog, Snapshot) {
    let root = folder.path().join(store);
    let catalog = headwater::builder(root.to_str().unwrap()).create(true).store(store).open().await.unwrap();
    let main = catalog.branch("main").unwrap();
    for file in 0..FILES {
        let batches: Vec<RecordBatch> = {
            let (first, end) = (rows * file / FILES, rows * (file + 1) / FILES);
            (first..end).step_by(65_536).map(|at| batch(at..(at + 65_536).min(end))).collect()
        };
        let committed = main.transact(|tx| {
            let batches = batches.clone();
            async move {
                let table = match tx.find("t").await? {
                    Some(table) => table,
                    None => tx.create_table("t", batches[0].schema()).await?,
                };
                tx.append(&table, batches).await
            }
        });
        committed.await.unwrap();
    }
    let snapshot = main.snapshot().await.unwrap();
    (catalog, snapshot)
}

async fn ours(snapshot: &Snapshot) -> usize {
    let mut tasks = JoinSet::new();
    for partition in snapshot.scan("t", &Scan::default()).await.unwrap() {
        tasks.spawn(count_in(partition));
    }
    tasks.join_all().await.into_iter().sum()
}

async fn count_in(partition: Partition) -> usize {
    (partition.open)().try_fold(0, |rows, batch| async move { Ok(rows + batch.num_rows()) }).await.unwrap()
}

async fn raw_parquet(files: &[String]) -> usize {
    let mut tasks = JoinSet::new();
    for file in files.iter().cloned() {
        tasks.spawn(async move {
            let file = tokio::fs::File::open(file).await.unwrap();
            let stream = ParquetRecordBatchStreamBuilder::new(file).await.unwrap().with_batch_size(8_192).build().unwrap();
            stream.try_fold(0, |rows, batch| async move { Ok(rows + batch.num_rows()) }).await.unwrap()
        });
    }
    tasks.join_all().await.into_iter().sum()
}

#[cfg(feature = "lance")]
async fn raw_lance(folder: &str, version: u64) -> usize {
    let dataset = DatasetBuilder::from_uri(folder).with_version(version).load().await.unwrap();
    let mut scanner = dataset.scan();
    scanner.scan_in_order(false);
    scanner.try_into_stream().await.unwrap().map(|batch| batch.unwrap().num_rows()).fold(0, |sum, rows| async move { sum + rows }).await
}

async fn timed<T>(future: impl Future<Output = T>) -> (Duration, T) {
    let start = Instant::now();
    let result = future.await;
    (start.elapsed(), result)
}

/// Runs both in turn, and prints the medians.
async fn pair<A: Future<Output = usize>, B: Future<Output = usize>>(
    what: &str,
    rounds: usize,
    ours: impl Fn() -> A,
    theirs: impl Fn() -> B,
) {
    let wanted = ours().await;
    assert!(wanted > 0 && theirs().await == wanted, "{what}: both must find the same rows");
    let (mut own, mut other, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let (a, b) = if round % 2 == 0 {
            let a = timed(ours()).await.0;
            (a, timed(theirs()).await.0)
        } else {
            let b = timed(theirs()).await.0;
            (timed(ours()).await.0, b)
        };
        own.push(a);
        other.push(b);
        ratios.push(b.as_secs_f64() / a.as_secs_f64());
    }
    own.sort();
    other.sort();
    ratios.sort_by(f64::total_cmp);
    let middle = rounds / 2;
    let (low, high) = (ratios[0], ratios[rounds - 1]);
    println!("{what:<28} {:>9.0?} {:>9.0?}   {:.2}   ({low:.2} to {high:.2})", own[middle], other[middle], ratios[middle]);
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let rows: i64 = arguments.next().map_or(10_000_000, |text| text.parse().unwrap());
    let rounds: usize = arguments.next().map_or(7, |text| text.parse().unwrap());
    let folder = TempDir::new().unwrap();
    println!("{rows} rows, {rounds} rounds\n{:<28} {:>9} {:>9}   ratio", "", "ours", "theirs");

    let (_, snapshot) = place(&folder, "parquet", rows).await;
    let root = folder.path().join("parquet");
    let reached = snapshot.reach("t").await.unwrap();
    let files: Vec<String> = reached.iter().filter(|one| one.data).map(|one| root.join(&one.object.path).display().to_string()).collect();
    assert_eq!(files.len() as i64, FILES);
    pair("scan: parquet", rounds, || ours(&snapshot), || raw_parquet(&files)).await;

    for pushed in [false, true] {
        let mut config = SessionConfig::new();
        config.options_mut().execution.parquet.pushdown_filters = pushed;
        let plain = SessionContext::new_with_config(config);
        let table = plain.read_parquet(files.clone(), ParquetReadOptions::default()).await.unwrap();
        plain.register_table("t", table.into_view()).unwrap();
        println!("DataFusion {} filters to its reader", if pushed { "pushes" } else { "does not push" });
        for (name, text) in QUERIES {
            let ours = || async {
                let batches: Vec<RecordBatch> = headwater::sql::query(&snapshot, text).await.unwrap().batches.try_collect().await.unwrap();
                batches.iter().map(RecordBatch::num_rows).sum()
            };
            let theirs = || async { plain.sql(text).await.unwrap().collect().await.unwrap().iter().map(RecordBatch::num_rows).sum() };
            pair(name, rounds, ours, theirs).await;
        }
    }

    #[cfg(feature = "lance")]
    beside_lance(&folder, rows, rounds).await;
}

#[cfg(feature = "lance")]
async fn beside_lance(folder: &TempDir, rows: i64, rounds: usize) {
    let (catalog, snapshot) = place(folder, "lance", rows).await;
    let address = catalog.store().address(&snapshot.table("t").unwrap().pin).unwrap();
    let dataset = folder.path().join("lance").join(&address.path).display().to_string();
    pair("scan: lance", rounds, || ours(&snapshot), || raw_lance(&dataset, address.version)).await;
}
