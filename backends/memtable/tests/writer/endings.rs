//! How writers end: callers that leave, closes, tables that are gone.

use headwater_conformance::faults::{Fault, Planned};
use headwater_conformance::rows::numbered;
use headwater_core::{Commit, ErrorKind};
use headwater_memtable::{Closed, Writer};

use crate::fixture::{Place, WIDE, cut, hold, seen, turns};

fn drained(closed: Closed) -> Commit {
    match closed {
        Closed::Drained(commit) => commit,
        Closed::Left { tables, error } => panic!("{tables:?} are left: {error:?}"),
    }
}

fn left(closed: Closed) -> (Vec<String>, ErrorKind) {
    match closed {
        Closed::Left { tables, error } => (tables.iter().map(ToString::to_string).collect(), error.kind()),
        Closed::Drained(commit) => panic!("{commit:?}"),
    }
}

async fn append(writer: &Writer, table: &str, ids: std::ops::Range<i64>) {
    writer.append(table, numbered(ids)).await.unwrap();
}

#[tokio::test]
async fn a_flush_goes_on_without_its_caller() {
    let place = Place::with(&["t"]).await;
    let (writer, network) = place.writer(WIDE).await;
    append(&writer, "t", 0..5).await;
    hold(&network);
    let flush = {
        let writer = writer.clone();
        tokio::spawn(async move { writer.flush("t").await })
    };
    turns().await;
    flush.abort();
    assert!(flush.await.unwrap_err().is_cancelled());
    append(&writer, "t", 5..10).await;
    assert_eq!(seen(&writer, "t").await, (0..10).collect::<Vec<_>>());
    network.release().await;
    writer.publish(&["t"]).await.unwrap();
    assert_eq!((seen(&writer, "t").await, place.published("t").await), ((0..10).collect(), (0..10).collect()));
    place.verify().await;
}

#[tokio::test]
async fn a_publish_goes_on_without_its_caller() {
    let place = Place::with(&["t"]).await;
    let (writer, network) = place.writer(WIDE).await;
    append(&writer, "t", 0..5).await;
    hold(&network);
    let publish = {
        let writer = writer.clone();
        tokio::spawn(async move { writer.publish(&["t"]).await })
    };
    turns().await;
    publish.abort();
    assert!(publish.await.unwrap_err().is_cancelled());
    append(&writer, "t", 5..10).await;
    network.release().await;
    // Behind the one that goes on: it has what was appended after it.
    assert_eq!(writer.publish(&["t"]).await.unwrap().tables[0].changed, 5);
    assert_eq!(place.published("t").await, (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_close_publishes_everything_and_ends_the_writer() {
    let place = Place::with(&["a", "b", "c"]).await;
    let (writer, _) = place.writer(WIDE).await;
    append(&writer, "a", 0..5).await;
    append(&writer, "b", 0..3).await;
    writer.flush("b").await.unwrap();
    let commit = drained(writer.close().await);
    assert_eq!(commit.tables.iter().map(|table| (table.key.as_str(), table.changed)).collect::<Vec<_>>(), [("a", 5), ("b", 3)]);
    assert_eq!((place.published("a").await.len(), place.published("b").await.len()), (5, 3));
    assert_eq!(writer.append("a", numbered(5..6)).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    let again = drained(writer.close().await);
    assert_eq!((again.published, again.seq), (false, commit.seq));
}

#[tokio::test]
async fn a_close_that_fails_names_the_tables_and_can_be_tried_again() {
    let place = Place::with(&["a", "b", "c"]).await;
    let (writer, network) = place.writer(WIDE).await;
    append(&writer, "a", 0..5).await;
    append(&writer, "c", 0..3).await;
    cut(&network, "PUT", Fault::RequestsLost);
    assert_eq!(left(writer.close().await), (vec!["a".to_owned(), "c".to_owned()], ErrorKind::Unavailable));
    network.heal();
    assert_eq!((seen(&writer, "a").await, place.published("a").await), ((0..5).collect(), vec![]));
    append(&writer, "a", 5..10).await;
    assert_eq!(drained(writer.close().await).tables.len(), 2);
    assert_eq!(place.published("a").await, (0..10).collect::<Vec<_>>());
}

/// The first one fails, and while the second flushes what was there, a row is offered to another table.
#[tokio::test]
async fn of_two_closes_at_once_none_ends_the_writer_over_a_row() {
    let lost = {
        let (writer, network) = Place::with(&["a", "b"]).await.writer(WIDE).await;
        append(&writer, "a", 0..5).await;
        cut(&network, "PUT", Fault::RequestsLost);
        left(writer.close().await);
        network.passed().iter().filter(|passed| passed.verb == "PUT" && passed.fault.is_some()).count()
    };
    let place = Place::with(&["a", "b"]).await;
    let (writer, network) = place.writer(WIDE).await;
    append(&writer, "a", 0..5).await;
    network.plan(&[
        Planned { verb: "PUT", nth: 0, fault: Fault::RequestsLost(lost as u32) },
        Planned { verb: "PUT", nth: lost, fault: Fault::Held },
    ]);
    let [first, second] = [writer.clone(), writer.clone()].map(|writer| tokio::spawn(async move { writer.close().await }));
    turns().await;
    assert!(first.is_finished() && !second.is_finished() && network.fired().len() == 2);
    let appended = writer.append("b", numbered(0..1)).await;
    network.release().await;
    assert_eq!(left(first.await.unwrap()).1, ErrorKind::Unavailable);
    drained(second.await.unwrap());
    assert_eq!(place.published("a").await, [0, 1, 2, 3, 4]);
    assert_eq!(place.published("b").await.len(), usize::from(appended.is_ok()), "a row that was taken in is published");
    assert!(writer.waiting().is_empty());
}

#[tokio::test]
async fn rows_of_a_table_that_is_gone_are_kept_until_they_are_given_up() {
    for flushed in [false, true] {
        let place = Place::with(&["a", "b"]).await;
        let (writer, _) = place.writer(WIDE).await;
        append(&writer, "a", 0..5).await;
        append(&writer, "b", 0..3).await;
        if flushed {
            writer.flush("a").await.unwrap();
        }
        place.calm().await.transact(|tx| async move { tx.drop_table(&tx.table("a").await?).await }).await.unwrap();
        assert_eq!(left(writer.close().await), (vec!["a".to_owned(), "b".to_owned()], ErrorKind::NotFound));
        assert!(place.published("b").await.is_empty(), "one commit has all of it, or nothing");
        assert_eq!(seen(&writer, "a").await, [0, 1, 2, 3, 4], "they are read all the same");
        // Another table of that name is another table.
        place.calm().await.transact(|tx| async move { tx.recreate_table("a", None).await.map(drop) }).await.unwrap();
        assert_eq!(writer.publish(&["a", "b"]).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(writer.discard("a").await.unwrap(), 5);
        append(&writer, "a", 7..8).await;
        assert_eq!(drained(writer.close().await).tables.len(), 2);
        assert_eq!((place.published("a").await, place.published("b").await), (vec![7], vec![0, 1, 2]));
    }
}
