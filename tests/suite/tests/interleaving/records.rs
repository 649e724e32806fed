//! Unknown outcomes of the records a commit writes before its swap: segments, tombstones, entry bodies.

use headwater_conformance::faults::{Fault, Planned, When};
use headwater_conformance::rows::numbered;
use headwater_core::head::{TAIL_BYTES, TAIL_ENTRIES};
use headwater_core::{Commit, ErrorKind, Result, Retry};

use super::SWAP;
use super::process::Process;
use crate::place::{Place, options};

const CREATE: &str = "CREATE record";

/// What writes a record, and its kind.
const KINDS: [&str; 3] = ["segment", "tombstones", "entry"];

async fn prepared(place: &Place, kind: &str) -> Process {
    let ours = place.open().await;
    ours.create(&["t", "u"]).await;
    if kind == "segment" {
        ours.fill("u", TAIL_ENTRIES - 1).await;
        assert_eq!(place.head().await.tail.len(), TAIL_ENTRIES);
    }
    ours
}

async fn commit(process: &Process, kind: &str) -> Result<Commit> {
    process
        .branch
        .transact_with(options("ours"), |tx| async move {
            let table = tx.table("t").await?;
            if kind == "entry" {
                // Each name that has to be absent is part of the entry.
                for i in 0..TAIL_BYTES / 80 {
                    assert!(tx.find(&format!("{i:080}")).await?.is_none());
                }
            }
            if kind == "tombstones" { tx.drop_table(&table).await } else { tx.append(&table, numbered(1..2)).await }
        })
        .await
}

/// Which of the commit's creates is the one in question: a large entry makes the tail spill first.
fn first(kind: &str) -> usize {
    usize::from(kind == "entry")
}

/// How many commits there are once `ours` is.
fn commits(kind: &str) -> usize {
    if kind == "segment" { TAIL_ENTRIES + 1 } else { 2 }
}

#[tokio::test]
async fn uncertain_creates_of_records_are_settled() {
    // What happens, and to how many creates in a row.
    let faults = [
        (Fault::RepliesLost(1), 1),
        (Fault::RequestsLost(1), 1),
        (Fault::RepliesLost(1), 4),
        (Fault::RequestsLost(1), 4),
        (Fault::Late(When::Requests(0)), 1),
        (Fault::Late(When::Requests(1)), 1),
        (Fault::Late(When::Released), 1),
        (Fault::Repeated(When::Requests(0)), 1),
        (Fault::Repeated(When::Released), 1),
        (Fault::Echoed, 1),
    ];
    let mut settled = 0;
    for kind in KINDS {
        for (fault, times) in faults {
            for place in Place::all().await {
                let ours = prepared(&place, kind).await;
                let plan: Vec<_> = (0..times).map(|i| Planned { verb: CREATE, nth: first(kind) + i, fault }).collect();
                ours.plan(&plan);
                let outcome = commit(&ours, kind).await;
                place.told("ours", &outcome);
                assert_eq!(outcome.unwrap_or_else(|error| panic!("{kind} {fault:?}: {error:?}")).seq as usize, commits(kind));
                let fired = ours.network.passed().into_iter().filter(|passed| passed.fault == Some(fault)).map(|passed| passed.key);
                assert!(fired.clone().all(|key| key.starts_with(kind)) && fired.count() > 0, "{kind} {fault:?}");
                ours.network.release().await;
                assert_eq!((place.entries("ours").await, place.journal().await.len()), (1, commits(kind)));
                place.check().await;
                settled += 1;
            }
        }
    }
    assert_eq!(settled, KINDS.len() * faults.len() * 3);
}

/// A record that cannot be written fails its commit before the swap: nothing of it is there, and it may be repeated.
#[tokio::test]
async fn a_record_that_stays_uncertain_fails_its_commit_honestly() {
    for kind in KINDS {
        for fault in [Fault::RequestsLost(u32::MAX), Fault::RepliesLost(u32::MAX), Fault::Rejected] {
            for place in Place::all().await {
                let ours = prepared(&place, kind).await;
                ours.plan(&[Planned { verb: CREATE, nth: first(kind), fault }]);
                let outcome = commit(&ours, kind).await;
                place.told("ours", &outcome);
                let error = outcome.unwrap_err();
                assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::ResolveFirst), "{kind} {fault:?}: {error:?}");
                assert_eq!((place.entries("ours").await, place.journal().await.len()), (0, commits(kind) - 1));
                place.check().await;
                ours.network.heal();
                place.recorder.tried_again(&"ours".parse().unwrap());
                let outcome = commit(&ours, kind).await;
                place.told("ours", &outcome);
                assert_eq!(outcome.unwrap().seq as usize, commits(kind));
                place.check().await;
            }
        }
    }
}

/// Model e: two writers that spill one tail, and one that dies between its segment and its swap. Each has a segment of its own name, so that
/// no pointer ever leads to what another one wrote, or a vacuum took.
#[tokio::test]
async fn spillers_of_one_tail_write_segments_of_their_own() {
    for place in Place::all().await {
        let dying = prepared(&place, "segment").await;
        dying.plan(&[Planned { verb: SWAP, nth: 0, fault: Fault::RequestsLost(u32::MAX) }]);
        assert_eq!(commit(&dying, "segment").await.unwrap_err().kind(), ErrorKind::PublishUnknown);

        let (first, second) = (place.open().await, place.open().await);
        let (first_done, second_done) = tokio::join!(first.append("first", "u", 50), async { second.append("second", "t", 51).await });
        let seqs = [first_done.unwrap().seq, second_done.unwrap().seq];
        assert_eq!(seqs.iter().sum::<u64>() as usize, 2 * TAIL_ENTRIES + 3, "{seqs:?}");

        let written = |process: &Process| {
            let passed = process.network.passed().into_iter();
            passed.filter(|passed| passed.verb == CREATE && passed.key.starts_with("segment")).map(|passed| passed.key).collect::<Vec<_>>()
        };
        let mut names: Vec<String> = [&dying, &first, &second].into_iter().flat_map(written).collect();
        assert!(names.len() >= 2, "{names:?}");
        names.sort();
        names.dedup();
        assert!(names.len() >= 2, "two processes wrote one segment: {names:?}");
        assert_eq!(place.head().await.segments[0].number, 0, "the tail was spilled once");
        place.check().await;
    }
}
