//! Processes that each commit many times to one SQLite file: no lock reaches any of them, and no number is missing.
#![cfg(all(feature = "local", feature = "parquet", feature = "sqlite"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::io::Write;
use std::process::Command;
use std::sync::Arc;

use headwater::arrow_array::{Int64Array, RecordBatch};
use headwater::arrow_schema::{DataType, Field, Schema};
use headwater::{Catalog, Result};

const PROCESSES: usize = 8;
/// Commits of each process, if `HEADWATER_COMMITS` does not say otherwise.
const COMMITS: usize = 100;
const FOLDER: &str = "HEADWATER_COMMITS_FOLDER";

fn commits() -> usize {
    std::env::var("HEADWATER_COMMITS").map_or(COMMITS, |commits| commits.parse().unwrap())
}

async fn open(folder: &str, create: bool) -> Result<Catalog> {
    headwater::builder(&format!("{folder}/lake")).control(format!("sqlite:{folder}/control.db")).create(create).open().await
}

fn row(number: usize) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![Field::new("number", DataType::Int64, false)]));
    RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![number as i64]))]).unwrap()
}

/// One process of the test below.
#[tokio::test]
#[ignore = "a part of another test, in a process of its own"]
async fn committing_process() {
    let main = open(&std::env::var(FOLDER).unwrap(), true).await.unwrap().branch("main").unwrap();
    let table = format!("of {}", std::process::id());
    for number in 0..commits() {
        let committed = main.transact(|tx| {
            let table = &table;
            async move {
                let rows = row(number);
                let found = match tx.find(table).await? {
                    Some(found) => found,
                    None => tx.create_table(table, rows.schema()).await?,
                };
                tx.append(&found, rows).await
            }
        });
        committed.await.unwrap();
    }
}

#[tokio::test]
async fn eight_processes_commit_without_meeting_a_lock() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let start = |_| {
        let mut process = Command::new(std::env::current_exe().unwrap());
        process.args(["--ignored", "--exact", "committing_process"]).env(FOLDER, folder).spawn().unwrap()
    };
    let processes: Vec<_> = (0..PROCESSES).map(start).collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    let snapshot = open(folder, false).await.unwrap().branch("main").unwrap().snapshot().await.unwrap();
    let mut seqs: Vec<u64> = snapshot.log(usize::MAX).await.unwrap().iter().map(|logged| logged.entry.seq).collect();
    seqs.reverse();
    let all = PROCESSES * commits();
    assert_eq!(seqs, (1..=all as u64).collect::<Vec<_>>());
    let rows: Vec<u64> = snapshot.tables().map(|table| table.rows).collect();
    assert_eq!(rows, [commits() as u64; PROCESSES]);
    let _ = writeln!(std::io::stderr(), "{all} commits by {PROCESSES} processes, {} swaps of the head", snapshot.rev().unwrap());
}
