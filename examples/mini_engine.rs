//! A database engine in miniature: customers, orders, and one rule across them that no two writers together can break.
//!
//!     cargo run --example mini_engine

#![allow(clippy::expect_used, reason = "an example says what it expects")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::{StreamExt, TryStreamExt};
use headwater::arrow_array::{Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
use headwater::arrow_schema::{DataType, Field, Schema, SchemaRef};
use headwater::store::{Partition, Rows, Scan};
use headwater::verify::Depth;
use headwater::{At, Branch, Error, ErrorKind, Result, Transaction};

fn schema(columns: &[&str]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|name| Field::new(*name, DataType::Int64, false)).collect::<Vec<_>>()))
}

fn rows(columns: &[&str], values: &[&[i64]]) -> RecordBatch {
    let arrays = values.iter().map(|column| Arc::new(Int64Array::from(column.to_vec())) as _).collect();
    RecordBatch::try_new(schema(columns), arrays).expect("as many values in each column")
}

async fn numbers(partitions: Vec<Partition>) -> Result<Vec<i64>> {
    let batches: Vec<RecordBatch> = futures::stream::iter(partitions).flat_map(|partition| (partition.open)()).try_collect().await?;
    Ok(batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect())
}

/// The rule: an order names a customer that exists. The scan enters the read set, so the order is published only against the very
/// customers that were looked at.
async fn place_order(tx: Transaction, order: i64, customer: i64) -> Result<()> {
    let customers = tx.table("customers").await?;
    if !numbers(tx.scan(&customers, &Scan::default()).await?).await?.contains(&customer) {
        return Err(Error::new(ErrorKind::InvalidInput, format!("order {order} names customer {customer}, who does not exist")));
    }
    let orders = tx.table("orders").await?;
    tx.append(&orders, rows(&["order", "customer"], &[&[order], &[customer]])).await
}

async fn remove_customers_but(main: &Branch, kept: &[i64]) -> Result<()> {
    main.transact(|tx| async move {
        let customers = tx.table("customers").await?;
        tx.overwrite(&customers, rows(&["customer"], &[kept])).await
    })
    .await
    .map(drop)
}

#[tokio::main]
async fn main() -> Result<()> {
    if let Some(lake) = std::env::args().nth(1) {
        return crash(&lake).await;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let lake = folder.path().join("lake").display().to_string();
    let main = headwater::create(&lake).await?.branch("main")?;

    // Two tables, one commit.
    let commit = main
        .transact(|tx| async move {
            let customers = tx.create_table("customers", schema(&["customer"])).await?;
            tx.create_table("orders", schema(&["order", "customer"])).await?;
            tx.append(&customers, rows(&["customer"], &[&[1, 2, 3]])).await
        })
        .await?;
    println!("seq {}: customers 1, 2, 3 and no orders", commit.seq);
    let commit = main.transact(|tx| place_order(tx, 100, 1)).await?;
    println!("seq {}: order 100 of customer 1", commit.seq);

    // A conflict: while order 101 is under way, another writer removes customer 3. The closure runs again and sees it.
    let runs = AtomicU32::new(0);
    let other = headwater::open(&lake).await?.branch("main")?;
    let refused = main
        .transact(|tx| {
            let (runs, other) = (&runs, &other);
            async move {
                place_order(tx, 101, 3).await?;
                if runs.fetch_add(1, Ordering::Relaxed) == 0 {
                    remove_customers_but(other, &[1, 2]).await?;
                }
                Ok(())
            }
        })
        .await
        .expect_err("customer 3 is gone");
    println!("seq {}: customer 3 removed; then: {refused}", main.snapshot().await?.seq());

    // A crash: another process dies while it commits to both tables. What it had written is in no snapshot.
    let program = std::env::current_exe().expect("this program");
    let died = std::process::Command::new(program).arg(&lake).status().expect("this program runs");
    assert!(!died.success());
    let catalog = headwater::open(&lake).await?;
    let report = catalog.verify(Depth::Data).await?;
    assert!(report.ok() && report.reclaimable_objects > 0, "{report:?}");
    let snapshot = catalog.branch("main")?.snapshot().await?;
    println!("seq {}: a writer died; {} unreferenced objects, nothing else", snapshot.seq(), report.reclaimable_objects);

    // Time travel: the lake as it was before customer 3 left.
    let before = snapshot.at(At::Seq(2)).await?;
    let (then, now) = (
        numbers(before.scan("customers", &Scan::default()).await?).await?,
        numbers(snapshot.scan("customers", &Scan::default()).await?).await?,
    );
    println!("customers at seq 2: {then:?}, at seq {}: {now:?}", snapshot.seq());
    assert_eq!((then, now), (vec![1, 2, 3], vec![1, 2]));
    Ok(())
}

/// Stages rows for both tables and dies before the swap: the rows of `orders` never end.
async fn crash(lake: &str) -> Result<()> {
    let main = headwater::open(lake).await?.branch("main")?;
    let data = std::path::Path::new(lake).join("data");
    main.transact(|tx| {
        let data = data.clone();
        async move {
            let (customers, orders) = (tx.table("customers").await?, tx.table("orders").await?);
            let count = files(&data);
            tx.append(&customers, rows(&["customer"], &[&[4]])).await?;
            let endless = futures::stream::once(async move {
                while files(&data) < count + 2 {
                    tokio::task::yield_now().await;
                }
                std::process::abort()
            });
            let first = futures::stream::iter([Ok(rows(&["order", "customer"], &[&[102], &[4]]))]);
            tx.append(&orders, Rows { schema: orders.schema().clone(), batches: first.chain(endless).boxed() }).await
        }
    })
    .await
    .map(drop)
}

fn files(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { 1 }).sum()
}
