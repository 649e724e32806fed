//! Where a writer stops taking rows into memory.

use std::time::Duration;

use headwater_conformance::faults::Fault;
use headwater_conformance::rows::numbered;
use headwater_core::ErrorKind;
use headwater_memtable::{Limits, Waiting, Writer};

use crate::fixture::{Place, WIDE, cut, hold, seen, turns};

fn waiting(writer: &Writer) -> Vec<(String, u64, u64)> {
    let each = |waiting: Waiting| (waiting.key.to_string(), waiting.rows, waiting.durable);
    writer.waiting().into_iter().map(each).collect()
}

fn bytes(rows: std::ops::Range<i64>) -> u64 {
    numbered(rows).get_array_memory_size() as u64
}

#[tokio::test]
async fn rows_and_bytes_of_a_table_bring_about_its_flush() {
    for limits in [Limits { rows: 10, ..WIDE }, Limits { bytes: bytes(0..5) + 1, ..WIDE }] {
        let place = Place::with(&["t", "u"]).await;
        let (writer, _) = place.writer(limits).await;
        writer.append("u", numbered(0..1)).await.unwrap();
        writer.append("t", numbered(0..5)).await.unwrap();
        turns().await;
        assert_eq!(waiting(&writer), [("t".to_owned(), 5, 0), ("u".to_owned(), 1, 0)]);
        writer.append("t", numbered(5..10)).await.unwrap();
        turns().await;
        assert_eq!(waiting(&writer), [("t".to_owned(), 0, 10), ("u".to_owned(), 1, 0)]);
        assert_eq!((place.published("t").await, seen(&writer, "t").await), (vec![], (0..10).collect()));
    }
}

#[tokio::test]
async fn over_all_tables_the_biggest_is_flushed_first() {
    let place = Place::with(&["a", "b", "c"]).await;
    let all = [bytes(0..3), bytes(0..900), bytes(0..60)];
    let (writer, _) = place.writer(Limits { total_bytes: all.iter().sum(), ..WIDE }).await;
    for (table, rows) in [("a", 3), ("b", 900), ("c", 60)] {
        writer.append(table, numbered(0..rows)).await.unwrap();
    }
    turns().await;
    assert_eq!(waiting(&writer), [("a".to_owned(), 3, 0), ("b".to_owned(), 0, 900), ("c".to_owned(), 60, 0)]);
    assert_eq!(writer.held_bytes(), all[0] + all[2]);
}

#[tokio::test]
async fn an_append_waits_where_the_bound_is_reached_and_takes_nothing_when_it_leaves() {
    let place = Place::with(&["t"]).await;
    let bound = bytes(0..5);
    let (writer, network) = place.writer(Limits { total_bytes: bound, ..WIDE }).await;
    hold(&network);
    writer.append("t", numbered(0..5)).await.unwrap();
    let append = |ids| {
        let writer = writer.clone();
        tokio::spawn(async move { writer.append("t", numbered(ids)).await })
    };
    let (stays, leaves) = (append(5..10), append(10..15));
    turns().await;
    assert!(!stays.is_finished() && !leaves.is_finished() && writer.held_bytes() == bound);
    assert_eq!(seen(&writer, "t").await, [0, 1, 2, 3, 4], "rows under way are read, once");
    leaves.abort();
    assert!(leaves.await.unwrap_err().is_cancelled());
    network.release().await;
    stays.await.unwrap().unwrap();
    turns().await;
    assert_eq!(seen(&writer, "t").await, (0..10).collect::<Vec<_>>());
    assert!(writer.held_bytes() <= bound);
}

#[tokio::test]
async fn a_flush_that_fails_is_told_to_the_append_that_waits_for_it() {
    let place = Place::with(&["t"]).await;
    let (writer, network) = place.writer(Limits { total_bytes: 1, ..WIDE }).await;
    cut(&network, "PUT", Fault::RequestsLost);
    writer.append("t", numbered(0..5)).await.unwrap();
    for _ in 0..3 {
        let error = writer.append("t", numbered(5..10)).await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Unavailable, Some("stage")), "{error:?}");
    }
    network.heal();
    assert_eq!(seen(&writer, "t").await, [0, 1, 2, 3, 4]);
    writer.append("t", numbered(5..10)).await.unwrap();
    writer.publish(&["t"]).await.unwrap();
    assert_eq!(place.published("t").await, (0..10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn an_idle_table_is_flushed_and_a_failure_is_told_once() {
    let idle = Duration::from_secs(5);
    let place = Place::with(&["t"]).await;
    let (writer, network) = place.writer(Limits { idle: Some(idle), ..WIDE }).await;
    writer.append("t", numbered(0..5)).await.unwrap();
    tokio::time::sleep(2 * idle + Duration::from_millis(1)).await;
    turns().await;
    assert_eq!(waiting(&writer), [("t".to_owned(), 0, 5)]);
    cut(&network, "PUT", Fault::RequestsLost);
    writer.append("t", numbered(5..10)).await.unwrap();
    tokio::time::sleep(2 * idle + Duration::from_millis(1)).await;
    turns().await;
    network.heal();
    assert_eq!(waiting(&writer), [("t".to_owned(), 5, 5)], "its rows are kept");
    assert_eq!(seen(&writer, "t").await, (0..10).collect::<Vec<_>>());
    assert_eq!(writer.append("t", numbered(10..15)).await.unwrap_err().kind(), ErrorKind::Unavailable);
    writer.append("t", numbered(10..15)).await.unwrap();
    // It goes on by itself.
    tokio::time::sleep(3 * idle).await;
    turns().await;
    assert_eq!(waiting(&writer), [("t".to_owned(), 0, 15)]);
    writer.publish(&["t"]).await.unwrap();
    assert_eq!(place.published("t").await, (0..15).collect::<Vec<_>>());
}

/// Who watches for idleness runs on the runtime of an append, which may go away before the writer does.
#[test]
fn an_idle_table_is_flushed_also_where_the_runtime_that_watched_it_is_gone() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let idle = Duration::from_secs(5);
    let (place, writer) = runtime().block_on(async {
        let place = Place::with(&["t"]).await;
        let (writer, _) = place.writer(Limits { idle: Some(idle), ..WIDE }).await;
        writer.append("t", numbered(0..5)).await.unwrap();
        (place, writer)
    });
    // That one's watch was never polled; these are cut off while they wait.
    for round in 1..3 {
        let rows = 5 * round..5 * (round + 1);
        runtime().block_on(async {
            writer.append("t", numbered(rows.clone())).await.unwrap();
            tokio::time::sleep(idle / 2).await;
        });
    }
    runtime().block_on(async {
        writer.append("t", numbered(15..20)).await.unwrap();
        tokio::time::sleep(2 * idle + Duration::from_millis(1)).await;
        turns().await;
        assert_eq!(waiting(&writer), [("t".to_owned(), 0, 20)]);
        writer.publish(&["t"]).await.unwrap();
        assert_eq!(place.published("t").await, (0..20).collect::<Vec<_>>());
    });
}

#[tokio::test]
async fn a_slice_counts_for_itself() {
    let place = Place::with(&["t"]).await;
    let (writer, _) = place.writer(WIDE).await;
    let large = numbered(0..100_000);
    for i in 0..10 {
        writer.append("t", large.slice(i * 10, 10)).await.unwrap();
    }
    assert!(writer.held_bytes() < 64 << 10, "{} of {} bytes", writer.held_bytes(), large.get_array_memory_size());
    assert_eq!(seen(&writer, "t").await, (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn limits_that_no_row_fits_are_refused() {
    let branch = Place::with(&[]).await.calm().await;
    for limits in [Limits { rows: 0, ..WIDE }, Limits { total_bytes: 0, ..WIDE }, Limits { idle: Some(Duration::ZERO), ..WIDE }] {
        assert_eq!(Writer::with_limits(&branch, limits).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
