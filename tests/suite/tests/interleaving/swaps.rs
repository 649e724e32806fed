//! What becomes of the swap.

use std::sync::Arc;

use headwater_conformance::faults::{Fault, When};
use headwater_conformance::rows::numbered;
use headwater_core::authority::{ControlAuthority, Expected, HeadRead};
use headwater_core::head::Head;
use headwater_core::ids::{Incarnation, Mint, SystemEnvironment};
use headwater_core::json::Sealed;
use headwater_core::{ErrorKind, Retry, RetryPolicy};
use tokio::sync::Semaphore;

use super::process::append;
use super::{meanwhile, swap, swaps};
use crate::place::{POLICY, Place, options};

/// Appends 1 to `t` under the token `ours` while one fault happens to the swap. The swaps sent, and how many entries there are.
async fn publish(place: &Place, fault: Fault) -> Vec<bytes::Bytes> {
    let ours = place.open_with(RetryPolicy { resolves: 12, ..POLICY }).await;
    ours.create(&["t"]).await;
    let before = swaps(&ours).len();
    ours.plan(&swap(fault));
    let outcome = ours.append("ours", "t", 1).await;
    place.told("ours", &outcome);
    let commit = outcome.unwrap();
    assert_eq!(ours.network.fired().len(), 1);
    ours.network.release().await;
    let journal = place.journal().await;
    assert_eq!((journal.len(), journal[1].entry.commit), (2, commit.commit.unwrap()), "{}", place.name);
    assert_eq!((commit.seq, place.ids("t").await), (2, vec![1]));
    place.check().await;
    swaps(&ours).split_off(before)
}

#[tokio::test]
async fn reply_lost_and_landed() {
    for place in Place::all().await {
        assert_eq!(publish(&place, Fault::RepliesLost(1)).await.len(), 1, "what has landed is not sent again");
    }
}

#[tokio::test]
async fn reply_lost_and_not_landed() {
    for place in Place::all().await {
        let sent = publish(&place, Fault::RequestsLost(1)).await;
        assert_eq!((sent.len(), &sent[0]), (2, &sent[1]), "it may still land: what is sent again is identical");
    }
}

#[tokio::test]
async fn reply_lost_and_landing_after_we_looked() {
    for place in Place::all().await {
        // Before the second copy arrives, so that the copy conflicts with it.
        let sent = publish(&place, Fault::Late(When::Requests(1))).await;
        assert_eq!((sent.len(), &sent[0]), (2, &sent[1]));
    }
    for place in Place::all().await {
        // After the second copy was applied.
        let sent = publish(&place, Fault::Late(When::Released)).await;
        assert_eq!((sent.len(), &sent[0]), (2, &sent[1]));
    }
}

#[tokio::test]
async fn duplicate_landing_after_success() {
    for place in Place::all().await {
        assert_eq!(publish(&place, Fault::Repeated(When::Released)).await.len(), 1);
    }
    for place in Place::all().await {
        assert_eq!(publish(&place, Fault::Repeated(When::Requests(0))).await.len(), 1);
    }
}

#[tokio::test]
async fn refused_with_409_then_success() {
    for place in Place::all().await {
        let sent = publish(&place, Fault::Refused).await;
        assert_eq!((sent.len(), &sent[0]), (2, &sent[1]), "nobody else was there");
    }
}

#[tokio::test]
async fn storms_of_503() {
    for length in [1, 2, 3, 5, 9] {
        for fault in [Fault::RequestsLost(length), Fault::RepliesLost(length)] {
            for place in Place::all().await {
                publish(&place, fault).await;
            }
        }
    }
}

/// Model a6: a bounded loop that ends on a conflict without another look reports a conflict of a commit that is there.
#[tokio::test]
async fn own_duplicates_conflict_on_the_last_attempt() {
    for place in Place::all().await {
        let ours = place.open_with(RetryPolicy { swaps: 0, prepares: 1, ..POLICY }).await;
        ours.create(&["t"]).await;
        ours.plan(&swap(Fault::Echoed));
        let outcome = ours.append("ours", "t", 1).await;
        place.told("ours", &outcome);
        outcome.unwrap();
        assert_eq!((ours.network.fired().len(), place.entries("ours").await), (1, 1));

        // Where it was somebody else, a conflict it is.
        let theirs = place.open().await.branch;
        ours.network.meanwhile(meanwhile(move || {
            let theirs = theirs.clone();
            async move { drop(append(&theirs, "theirs", "t", 2).await.unwrap()) }
        }));
        ours.plan(&swap(Fault::RequestsLost(1)));
        let outcome = ours.append("lost", "t", 3).await;
        place.told("lost", &outcome);
        let error = outcome.unwrap_err();
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Conflict, Retry::ResolveFirst), "{error:?}");
        assert_eq!((place.entries("lost").await, place.ids("t").await), (0, vec![1, 2]));
        place.check().await;
    }
}

/// Model a3: looked up in the bounded tail only, a token that has moved into a segment meanwhile counts as excluded, and is there.
#[tokio::test]
async fn token_already_in_a_spilled_segment() {
    for place in Place::all().await {
        for commits in [1, 35, 110] {
            let (ours, theirs) = (place.open().await, place.open().await.branch);
            let table = format!("t{commits}");
            ours.create(&[&table, &format!("u{commits}")]).await;
            let token = format!("ours{commits}");
            ours.network.meanwhile(meanwhile(move || {
                let theirs = theirs.clone();
                async move {
                    for i in 0..commits {
                        append(&theirs, &format!("theirs{commits}-{i}"), &format!("u{commits}"), i).await.unwrap();
                    }
                }
            }));
            ours.plan(&swap(Fault::RepliesLost(1)));
            let outcome = ours.append(&token, &table, 1).await;
            place.told(&token, &outcome);
            let commit = outcome.unwrap();
            let head = place.head().await;
            assert!(commits < 33 || head.segments[0].last >= commit.seq, "the token did not leave the tail");
            assert_eq!((place.entries(&token).await, place.ids(&table).await), (1, vec![1]));
        }
        place.check().await;
    }
}

/// The other half of model a3: the request is lost, the tail has spilled, and the token is in none of it.
#[tokio::test]
async fn a_lost_request_is_excluded_through_segments_too() {
    for place in Place::all().await {
        let (ours, theirs) = (place.open().await, place.open().await.branch);
        ours.create(&["t", "u"]).await;
        ours.network.meanwhile(meanwhile(move || {
            let theirs = theirs.clone();
            async move {
                for i in 0..40 {
                    append(&theirs, &format!("theirs{i}"), "u", i).await.unwrap();
                }
            }
        }));
        ours.plan(&swap(Fault::Late(When::Released)));
        let commit = ours.append("ours", "t", 1).await.unwrap();
        assert_eq!((commit.seq, commit.swaps_lost), (42, 1), "it is published behind the others");
        ours.network.release().await;
        assert_eq!((place.entries("ours").await, place.ids("t").await), (1, vec![1]));
        place.check().await;
    }
}

/// Model a4: in another incarnation the journal does not say whether the swap was in the one before.
#[tokio::test]
async fn another_incarnation_excludes_nothing() {
    for place in Place::all().await {
        let ours = place.open().await;
        ours.create(&["t"]).await;
        ours.plan(&swap(Fault::RepliesLost(1)));
        let backend = place.backend().await;
        ours.network.meanwhile(meanwhile(move || {
            let authority = backend.authority.clone();
            async move { recreate(authority.as_ref()).await }
        }));
        let error = ours.append("again", "t", 2).await.unwrap_err();
        assert_eq!((error.kind(), error.retry()), (ErrorKind::PublishUnknown, Retry::ResolveFirst), "{error:?}");
    }
}

/// Puts a new life of the branch in the place of the old one.
async fn recreate(authority: &dyn ControlAuthority) {
    let main = "main".parse().unwrap();
    let HeadRead::Found(body, tag) = authority.read_head(&main, None).await.unwrap() else { panic!("no head") };
    let old: Head = serde_json::from_slice(&body).unwrap();
    let mint = Mint::new(Arc::new(SystemEnvironment));
    let mut head = Head::new(old.catalog, old.branch, Incarnation(mint.ulid()));
    (head.rev, head.nonce) = (old.rev + 1, mint.name());
    authority.swap_head(&main, Expected::Tag(&tag), head.seal().unwrap().into()).await.unwrap();
}

/// A caller that is dropped after its swap was sent leaves its commit whole.
#[tokio::test]
async fn a_dropped_caller_leaves_its_commit_whole() {
    for fault in [Fault::Delayed(1), Fault::Late(When::Requests(1)), Fault::RepliesLost(1), Fault::RequestsLost(2), Fault::Echoed] {
        for place in Place::all().await {
            let ours = place.open().await;
            ours.create(&["t", "u"]).await;
            let answered = Arc::new(Semaphore::new(0));
            ours.network.meanwhile(meanwhile({
                let answered = answered.clone();
                move || {
                    let answered = answered.clone();
                    async move { drop(answered.acquire().await.unwrap()) }
                }
            }));
            ours.plan(&swap(fault));
            let branch = ours.branch.clone();
            let caller = tokio::spawn(async move {
                let commit = branch.transact_with(options("ours"), |tx| async move {
                    tx.append(&tx.table("t").await?, numbered(1..2)).await?;
                    tx.append(&tx.table("u").await?, numbered(1..2)).await
                });
                commit.await
            });
            while ours.network.fired().is_empty() {
                tokio::task::yield_now().await;
            }
            caller.abort();
            assert!(caller.await.unwrap_err().is_cancelled(), "{fault:?}");
            answered.add_permits(1);
            tokio::task::yield_now().await;
            ours.network.release().await;
            // A commit of the same process: once it is there, the one before it is settled.
            ours.append("after", "t", 2).await.unwrap();
            assert_eq!((place.ids("t").await, place.ids("u").await), (vec![1, 2], vec![1]), "{fault:?}");
            assert_eq!(place.entries("ours").await, 1);
            place.check().await;
        }
    }
}
