//! Many processes that load into one lake at once: none fails, none loses a row, none sees a conflict.
#![cfg(all(feature = "cli", feature = "local", feature = "parquet"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod loading;

use std::collections::BTreeMap;
use std::thread;

use headwater::Snapshot;
use headwater::head::Event;
use headwater::ids::TableId;
use headwater::store::Pin;
use loading::{Place, document, rows};

const WRITERS: i64 = 8;

/// How often each process loads: into a table of its own, or into the one that all share.
#[derive(Clone, Copy)]
struct Loads {
    own: i64,
    shared: i64,
}

/// One load of two rows, in a process of its own.
fn load(place: &Place, table: &str, writer: i64, number: i64) {
    let file = place.file(&format!("{table}-{writer}-{number}.csv"), [(writer, 2 * number), (writer, 2 * number + 1)]);
    let loaded = document(&place.load(&[(table, &file)]).output().unwrap());
    assert_eq!(loaded["tables"][0]["rows"], 2, "{loaded}");
    assert!(loaded["seq"].as_u64() > Some(0), "{loaded}");
}

/// Each row of these writers and numbers, once.
fn once(writers: impl IntoIterator<Item = i64>, loads: i64) -> BTreeMap<(i64, i64), usize> {
    writers.into_iter().flat_map(|writer| (0..2 * loads).map(move |number| ((writer, number), 1))).collect()
}

/// Each live table's version and rows, as the head has them.
fn current(snapshot: &Snapshot) -> BTreeMap<TableId, (Pin, u64)> {
    snapshot.tables().map(|head| (head.table_id, (head.pin.clone(), head.rows))).collect()
}

/// The same, as the journal tells it.
async fn folded(snapshot: &Snapshot) -> BTreeMap<TableId, (Pin, u64)> {
    let mut tables = BTreeMap::new();
    for event in snapshot.log(usize::MAX).await.unwrap().iter().rev().flat_map(|logged| &logged.body.events) {
        match event {
            Event::Registered { table_id, pin, rows, .. } | Event::Written { table_id, pin, rows, .. } => {
                tables.insert(*table_id, (pin.clone(), *rows));
            }
            other => panic!("no load does this: {other:?}"),
        }
    }
    tables
}

async fn sixteen_processes_at_once(place: Place, loads: Loads) {
    load(&place, "shared", -1, 0);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let place = &place;
            scope.spawn(move || (0..loads.own).for_each(|number| load(place, &format!("own {writer}"), writer, number)));
            scope.spawn(move || (0..loads.shared).for_each(|number| load(place, "shared", writer, number)));
        }
    });
    let commits = (1 + WRITERS * (loads.own + loads.shared)) as u64;
    assert_eq!(place.seqs(), (1..=commits).collect::<Vec<_>>());
    let snapshot = place.snapshot().await;
    assert_eq!(snapshot.tables().len() as i64, WRITERS + 1);
    for writer in 0..WRITERS {
        assert_eq!(rows(&snapshot, &format!("own {writer}")).await, once([writer], loads.own));
    }
    let mut shared = once(0..WRITERS, loads.shared);
    shared.extend(once([-1], 1));
    assert_eq!(rows(&snapshot, "shared").await, shared);
    assert_eq!(folded(&snapshot).await, current(&snapshot), "the head is the fold of the journal");
    place.verify();
    loading::report(format_args!("{}: {commits} loads by 16 processes at once", place.describe()));
}

#[tokio::test]
async fn sixteen_processes_at_once_all_succeed_and_every_row_is_there_once() {
    sixteen_processes_at_once(Place::folder(), Loads { own: 25, shared: 10 }).await;
}

#[cfg(feature = "s3")]
#[tokio::test]
async fn sixteen_processes_at_once_all_succeed_and_every_row_is_there_once_on_s3() {
    sixteen_processes_at_once(Place::bucket(), Loads { own: 25, shared: 10 }).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn sixteen_processes_at_once_all_succeed_with_control_in_a_sqlite_file() {
    sixteen_processes_at_once(Place::folder().with_sqlite(), Loads { own: 25, shared: 10 }).await;
}

#[cfg(all(feature = "sqlite", feature = "s3"))]
#[tokio::test]
async fn sixteen_processes_at_once_all_succeed_with_control_in_a_sqlite_file_and_data_on_s3() {
    sixteen_processes_at_once(Place::bucket().with_sqlite(), Loads { own: 10, shared: 5 }).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn processes_that_all_begin_where_no_lake_is_share_one_sqlite_file() {
    all_begin_where_no_lake_is(|| Place::folder().with_sqlite(), 6).await;
}

/// Nobody made the lake before: one of them does, the others find it.
async fn all_begin_where_no_lake_is(new: fn() -> Place, rounds: usize) {
    for _ in 0..rounds {
        let place = new();
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let place = &place;
                scope.spawn(move || load(place, if writer % 2 == 0 { "same" } else { "other" }, writer, 0));
            }
        });
        assert_eq!(place.seqs(), (1..=WRITERS as u64).collect::<Vec<_>>());
        let snapshot = place.snapshot().await;
        assert_eq!(rows(&snapshot, "same").await, once((0..WRITERS).step_by(2), 1));
        assert_eq!(rows(&snapshot, "other").await, once((1..WRITERS).step_by(2), 1));
        place.verify();
    }
}

#[tokio::test]
async fn processes_that_all_begin_where_no_lake_is_share_the_one_that_is_made() {
    all_begin_where_no_lake_is(Place::folder, 6).await;
}

#[cfg(feature = "s3")]
#[tokio::test]
async fn processes_that_all_begin_where_no_lake_is_share_the_one_that_is_made_on_s3() {
    all_begin_where_no_lake_is(Place::bucket, 3).await;
}

#[cfg(feature = "lance")]
#[tokio::test]
async fn sixteen_processes_at_once_all_succeed_on_lance_tables() {
    sixteen_processes_at_once(Place::folder().of("lance"), Loads { own: 10, shared: 5 }).await;
}

#[cfg(all(feature = "lance", feature = "s3"))]
#[tokio::test]
async fn sixteen_processes_at_once_all_succeed_on_lance_tables_on_s3() {
    sixteen_processes_at_once(Place::bucket().of("lance"), Loads { own: 4, shared: 2 }).await;
}

#[cfg(feature = "lance")]
#[tokio::test]
async fn processes_that_all_begin_where_no_lake_is_share_the_one_of_lance_tables_that_is_made() {
    all_begin_where_no_lake_is(|| Place::folder().of("lance"), 3).await;
}
