//! How long operations take on this machine, for whoever works on them. Never a gate: what must hold is counted, by `headwater-gate`.

#![allow(clippy::unwrap_used, missing_docs, reason = "a bench that cannot go on ends")]

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures::future::join_all;
use futures::{StreamExt, TryStreamExt};
use headwater::authority::HeadRead;
use headwater::head::Head;
use headwater::json::Sealed;
use headwater::store::{Rows, Scan};
use headwater::{Branch, Catalog, Parts};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Rows of one batch of the large load, and how many batches.
const BATCH: i64 = 8_192;
const BATCHES: i64 = 200;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("name", DataType::Utf8, false)]))
}

fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    let names: StringArray = ids.clone().map(|id| Some(format!("row {id:08}"))).collect();
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from_iter_values(ids)) as ArrayRef, Arc::new(names)]).unwrap()
}

fn key(table: usize) -> String {
    format!("t{table:03}")
}

/// A catalog of so many tables on this machine's disk.
struct Lake {
    runtime: Runtime,
    _folder: TempDir,
    parts: Parts,
    main: Branch,
}

impl Lake {
    fn new(width: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("lake");
        let authority = Arc::new(headwater_local::LocalAuthority::new(&root).unwrap());
        let parts = Parts::new(headwater::registry().unwrap(), authority, headwater_local::objects(&root).unwrap());
        let main = runtime.block_on(async {
            let main = Catalog::open_or_create(parts.clone(), "parquet").await.unwrap().branch("main").unwrap();
            let created = main.transact(|tx| async move {
                for table in 0..width {
                    tx.append(&tx.create_table(&key(table), schema()).await?, rows(0..1)).await?;
                }
                Ok(())
            });
            created.await.unwrap();
            main
        });
        Self { runtime, _folder: folder, parts, main }
    }

    fn head(&self) -> Vec<u8> {
        let main = "main".parse().unwrap();
        match self.runtime.block_on(self.parts.authority.read_head(&main, None)).unwrap() {
            HeadRead::Found(body, _) => body.to_vec(),
            _ => Vec::new(),
        }
    }
}

async fn append(main: &Branch, tables: &[usize]) {
    let appended = main.transact(|tx| async move {
        for table in tables {
            tx.append(&tx.table(&key(*table)).await?, rows(1..2)).await?;
        }
        Ok(())
    });
    appended.await.unwrap();
}

fn commits(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("commit");
    for tables in [1, 3] {
        let lake = Lake::new(10);
        let all: Vec<usize> = (0..tables).collect();
        group.bench_function(BenchmarkId::new("tables", tables), |bench| {
            bench.to_async(&lake.runtime).iter(|| append(&lake.main, &all));
        });
    }
    for writers in [1, 8, 64] {
        let lake = Lake::new(64);
        let main = &lake.main;
        group.throughput(Throughput::Elements(writers as u64));
        group.bench_function(BenchmarkId::new("writers at once", writers), |bench| {
            bench.to_async(&lake.runtime).iter(|| async {
                join_all((0..writers).map(|table| async move { append(main, &[table]).await })).await;
            });
        });
    }
}

fn lookups(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("lookup");
    for width in [1, 10, 100] {
        let lake = Lake::new(width);
        group.bench_function(BenchmarkId::new("unchanged, tables", width), |bench| {
            bench.to_async(&lake.runtime).iter(|| async { lake.main.snapshot().await.unwrap().seq() });
        });
        group.bench_function(BenchmarkId::new("cold open, tables", width), |bench| {
            bench.to_async(&lake.runtime).iter(|| async { Catalog::open(lake.parts.clone()).await.unwrap().id() });
        });
    }
}

fn heads(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("head");
    for width in [1, 10, 100, 256] {
        let bytes = Lake::new(width).head();
        let head: Head = serde_json::from_slice(&bytes).unwrap();
        let (catalog, branch) = (head.catalog, head.branch.clone());
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(BenchmarkId::new("decode, tables", width), |bench| {
            bench.iter(|| Head::decode(catalog, &branch, &bytes).unwrap().seq);
        });
        group.bench_function(BenchmarkId::new("encode, tables", width), |bench| {
            bench.iter(|| head.clone().seal().unwrap().len());
        });
    }
}

/// One large load, streamed, and a scan of what it wrote.
fn streams(bench: &mut Criterion) {
    let lake = Lake::new(1);
    let load = || async {
        let loaded = lake.main.transact(|tx| async move {
            let batches = (0..BATCHES).map(|batch| Ok(rows(batch * BATCH..(batch + 1) * BATCH)));
            let rows = Rows { schema: schema(), batches: futures::stream::iter(batches).boxed() };
            tx.overwrite(&tx.table(&key(0)).await?, rows).await
        });
        loaded.await.unwrap();
    };
    let mut group = bench.benchmark_group("rows");
    group.sample_size(10).throughput(Throughput::Elements((BATCHES * BATCH) as u64));
    group.bench_function("streamed load", |bench| bench.to_async(&lake.runtime).iter(load));
    eprintln!("peak memory of this process after loads of {} rows: {}", BATCHES * BATCH, peak());
    group.bench_function("scan", |bench| {
        bench.to_async(&lake.runtime).iter(|| async {
            let snapshot = lake.main.snapshot().await.unwrap();
            let mut rows = 0;
            for partition in snapshot.scan(&key(0), &Scan::default()).await.unwrap() {
                rows += (partition.open)().try_fold(0, |rows, batch| async move { Ok(rows + batch.num_rows()) }).await.unwrap();
            }
            rows
        });
    });
}

/// The most memory this process ever had, as Linux tells it.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or_else(|| "unknown here".to_owned(), |size| size.trim().to_owned())
}

criterion_group! {
    name = operations;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_secs(1));
    targets = commits, lookups, heads, streams
}
criterion_main!(operations);
