//! Writers that die, and publishes whose outcome is unknown.

use headwater_conformance::faults::Fault;
use headwater_conformance::rows::numbered;
use headwater_conformance::tap::{self, Tap};
use headwater_core::ErrorKind;
use headwater_memtable::Writer;

use crate::fixture::{Place, WIDE, cut, seen};

const TABLES: [&str; 2] = ["a", "b"];

/// Two publishes, with flushes before and between.
async fn work(writer: &Writer) -> headwater_core::Result<()> {
    for round in 0..2 {
        let first = round * 10;
        for table in TABLES {
            writer.append(table, numbered(first..first + 4)).await?;
        }
        writer.flush("a").await?;
        writer.append("a", numbered(first + 4..first + 8)).await?;
        writer.publish(&TABLES).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_writer_that_dies_at_any_request_leaves_whole_publishes() {
    let mut requests = 0;
    for number in 0.. {
        let mut fired = false;
        for fault in [tap::Fault::Before(number), tap::Fault::After(number)] {
            let place = Place::with(&TABLES).await;
            let tap = Tap::new();
            let branch = place.tapped(&tap).await;
            tap.plan(fault);
            let outcome = work(&Writer::with_limits(&branch, WIDE).unwrap()).await;
            fired = tap.fired();
            assert!(outcome.is_err() || !fired, "request {number}");
            let (a, b) = (place.published("a").await, place.published("b").await);
            let round = |first: i64, count| (first..first + count).collect::<Vec<_>>();
            let states = [
                (vec![], vec![]),
                (round(0, 8), round(0, 4)),
                ([round(0, 8), round(10, 8)].concat(), [round(0, 4), round(10, 4)].concat()),
            ];
            assert!(states.contains(&(a.clone(), b.clone())), "request {number}: {a:?}, {b:?}");
            assert!(fired || states[2] == (a, b));
            place.verify().await;
        }
        requests = number;
        if !fired {
            break;
        }
    }
    // Flush, flush and publish, twice.
    assert!(requests >= 14, "only {requests} requests");
}

#[tokio::test]
async fn a_publish_of_unknown_outcome_is_settled_by_the_next_call_that_needs_it() {
    for happened in [false, true] {
        for others in [false, true] {
            let place = Place::with(&TABLES).await;
            let (writer, network) = place.writer(WIDE).await;
            for table in TABLES {
                writer.append(table, numbered(0..5)).await.unwrap();
            }
            cut(&network, "SWAP head", if happened { Fault::RepliesLost } else { Fault::RequestsLost });
            let error = writer.publish(&TABLES).await.unwrap_err();
            assert!(error.kind() == ErrorKind::PublishUnknown && error.token().is_some(), "{error:?}");
            // Until it can be settled nothing changes, and nothing else is published.
            network.heal();
            cut(&network, "GET head", Fault::RequestsLost);
            writer.append("a", numbered(5..10)).await.unwrap();
            assert!(writer.publish(&["b"]).await.is_err() && writer.flush("a").await.is_err());
            assert_eq!(writer.discard("a").await.unwrap_err().kind(), ErrorKind::PublishUnknown);
            network.heal();
            assert_eq!(seen(&writer, "a").await, (0..10).collect::<Vec<_>>(), "happened: {happened}");
            if others {
                let other = place.calm().await;
                other.transact(|tx| async move { tx.append(&tx.table("a").await?, numbered(90..91)).await }).await.unwrap();
            }
            // A flush settles what its rows would come behind.
            writer.flush("a").await.unwrap();
            assert_eq!(place.published("b").await, [0, 1, 2, 3, 4]);
            writer.publish(&["a"]).await.unwrap();
            let mut expected: Vec<i64> = (0..10).collect();
            if others {
                expected.insert(if happened { 5 } else { 0 }, 90);
            }
            assert_eq!((place.published("a").await, seen(&writer, "a").await), (expected.clone(), expected));
            let commits = place.calm().await.snapshot().await.unwrap().seq();
            assert_eq!(commits, 3 + u64::from(others), "the tables, the unknown one once, and the last");
            place.verify().await;
        }
    }
}

#[tokio::test]
async fn an_unknown_publish_of_a_table_that_is_gone_is_over() {
    let place = Place::with(&TABLES).await;
    let (writer, network) = place.writer(WIDE).await;
    writer.append("a", numbered(0..5)).await.unwrap();
    cut(&network, "SWAP head", Fault::RequestsLost);
    assert_eq!(writer.publish(&["a"]).await.unwrap_err().kind(), ErrorKind::PublishUnknown);
    network.heal();
    place.calm().await.transact(|tx| async move { tx.drop_table(&tx.table("a").await?).await }).await.unwrap();
    writer.append("b", numbered(0..5)).await.unwrap();
    assert_eq!(writer.publish(&["b"]).await.unwrap_err().kind(), ErrorKind::NotFound, "it was not published, and never will be");
    writer.publish(&["b"]).await.unwrap();
    assert_eq!((writer.discard("a").await.unwrap(), place.published("b").await.len()), (5, 5));
}
