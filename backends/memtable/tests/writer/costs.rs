//! What a writer costs, in requests and round trips. Nothing is timed.

use headwater_conformance::report;
use headwater_conformance::rows::numbered;
use headwater_conformance::tap::{Tap, render};
use headwater_memtable::Writer;

use crate::fixture::{Place, WIDE};

const APPENDS: i64 = 1_000;
const ROWS: i64 = 100;

#[tokio::test]
async fn a_thousand_small_appends_in_ten_commits_cost_a_hundredth() {
    let tap = Tap::new();
    let place = Place::with(&["t"]).await;
    let branch = place.tapped(&tap).await;
    tap.clear();
    for i in 0..APPENDS {
        let rows = || numbered(i * ROWS..(i + 1) * ROWS);
        branch.transact(|tx| async move { tx.append(&tx.table("t").await?, rows()).await }).await.unwrap();
    }
    let without = tap.requests().len();

    let cached = Place::with(&["t"]).await;
    let writer = Writer::new(&cached.tapped(&tap).await);
    tap.clear();
    for i in 0..APPENDS {
        writer.append("t", numbered(i * ROWS..(i + 1) * ROWS)).await.unwrap();
        if (i + 1) % 100 == 0 {
            assert!(writer.publish(&["t"]).await.unwrap().published);
        }
    }
    let with = tap.requests().len();

    assert_eq!(cached.published("t").await, place.published("t").await);
    report(format!("{APPENDS} appends of {ROWS} rows: {without} requests one by one, {with} in commits of 100"));
    // One by one: two objects and a swap each, and a segment for every 32; in commits: two objects and a swap ten times. And the first look
    // at the table's version.
    assert_eq!((without, with), (3_032, 31), "{}", render(&tap.requests()));
    assert!(with * 20 <= without);
}

#[tokio::test]
async fn a_flush_and_a_publish_cost_what_a_commit_does() {
    let (tap, tables) = (Tap::new(), ["a", "b", "c"]);
    let place = Place::with(&tables).await;
    let writer = Writer::with_limits(&place.tapped(&tap).await, WIDE).unwrap();
    let count = || (tap.requests().len(), tap.stages());
    for first in [0, 10] {
        tap.clear();
        for table in tables {
            writer.append(table, numbered(first..first + 5)).await.unwrap();
        }
        // The first append looks at the versions of tables that this process has not seen.
        assert_eq!(count().0, if first == 0 { 3 } else { 0 }, "{}", render(&tap.requests()));
        tap.clear();
        writer.publish(&tables).await.unwrap();
        assert_eq!(count(), (7, 2), "{}", render(&tap.requests()));
    }
    tap.clear();
    for table in tables {
        writer.append(table, numbered(20..25)).await.unwrap();
        writer.flush(table).await.unwrap();
    }
    assert_eq!(count(), (6, 3), "{}", render(&tap.requests()));
    tap.clear();
    writer.publish(&tables).await.unwrap();
    assert_eq!(count(), (1, 1), "{}", render(&tap.requests()));
    // Others changed a table meanwhile: its version object is written again.
    writer.append("a", numbered(30..35)).await.unwrap();
    writer.flush("a").await.unwrap();
    place.calm().await.transact(|tx| async move { tx.append(&tx.table("a").await?, numbered(90..91)).await }).await.unwrap();
    tap.clear();
    writer.publish(&["a"]).await.unwrap();
    let requests = tap.requests();
    let counted = |verb: &str| requests.iter().filter(|request| request.verb == verb).count();
    assert_eq!((counted("PUT"), counted("SWAP head"), counted("GET head"), counted("GET")), (1, 2, 1, 1), "{}", render(&requests));
    assert_eq!(place.published("a").await, [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24, 90, 30, 31, 32, 33, 34]);
}
