//! Rule 1: no two swaps have equal bytes, so that a tag that is a digest of the content still names one moment.

use std::collections::BTreeSet;
use std::sync::Arc;

use headwater_conformance::faults::{Fault, FaultyAuthority, Network, Planned, When};
use headwater_core::head::{Head, Intent, RecordRef};
use headwater_core::ids::{Environment, SystemEnvironment};
use headwater_core::memory::MemoryAuthority;
use headwater_core::name::{RecordKey, RecordKind};
use headwater_core::{Branch, Catalog, ErrorKind, Parts, RetryPolicy};
use headwater_suite::registry;
use object_store::memory::InMemory;

use super::process::{append, unknown};
use super::{meanwhile, swap, swaps};
use crate::place::{POLICY, Place};
use crate::tags::{ContentTags, Digested, swap_in};

#[tokio::test]
async fn no_two_swaps_have_equal_bytes() {
    for place in Place::all().await {
        let (ours, theirs) = (place.open().await, place.open().await);
        ours.create(&["t", "u"]).await;
        let mut sent = BTreeSet::new();
        // Each process loses a swap to the other by turns, and makes the next with the same commit in it.
        for i in 0..20 {
            ours.append(&format!("ours{i}"), "t", i).await.unwrap();
            assert_eq!(theirs.append(&format!("theirs{i}"), "u", i).await.unwrap().swaps_lost, 0);
        }
        for i in 20..40 {
            let branch = theirs.branch.clone();
            ours.network.meanwhile(meanwhile(move || {
                let branch = branch.clone();
                async move { drop(append(&branch, &format!("theirs{i}"), "u", i).await.unwrap()) }
            }));
            ours.plan(&swap(Fault::Refused));
            assert_eq!(ours.append(&format!("ours{i}"), "t", i).await.unwrap().swaps_lost, 1);
        }
        let all: Vec<_> = swaps(&ours).into_iter().chain(swaps(&theirs)).collect();
        for body in &all {
            let head: Head = serde_json::from_slice(body).unwrap();
            assert!(sent.insert(body.clone()) && !head.nonce.is_empty(), "rev {} was sent twice", head.rev);
        }
        assert!(all.len() > 100, "{}", all.len());
        place.check().await;
    }
}

/// Puts an intent that holds no table in the head, or takes it off again: what a head is for readers does not change.
async fn toggle(authority: &ContentTags) {
    swap_in(authority, |head| {
        head.nonce = format!("{:x}", SystemEnvironment.random());
        match head.intents.pop() {
            Some(_) => {}
            None => head.intents.push(Intent {
                id: "one".to_owned(),
                record: RecordRef { key: RecordKey::new(RecordKind::Entry, ["one"]), digest: String::new() },
                tables: Vec::new(),
                owner: "another".to_owned(),
            }),
        }
    })
    .await;
}

/// Model a2. A writer's swap is under way; the head becomes another one, by which the swap counts as excluded, and then what it was. What
/// the writer was told, and how often its row is there once the swap has arrived.
async fn the_head_becomes_what_it_was(digested: Digested) -> (ErrorKind, u64) {
    let authority = Arc::new(ContentTags::new(Arc::new(MemoryAuthority::new()), digested));
    let network = Network::calm();
    let faulty = Arc::new(FaultyAuthority::new(authority.clone(), network.clone()));
    let retry = RetryPolicy { swaps: 0, ..POLICY };
    let parts = Parts { retry, ..Parts::new(registry(), faulty, Arc::new(InMemory::new())) };
    let branch: Branch = Catalog::open_or_create(parts, "parquet").await.unwrap().branch("main").unwrap();
    branch.transact(|tx| async move { tx.create_table("t", headwater_conformance::rows::schema()).await.map(drop) }).await.unwrap();
    let toggled = authority.clone();
    network.meanwhile(meanwhile(move || {
        let toggled = toggled.clone();
        async move { toggle(&toggled).await }
    }));
    network.plan(&swap(Fault::Late(When::Released)));
    let error = append(&branch, "ours", "t", 1).await.unwrap_err();
    toggle(&authority).await;
    network.release().await;
    (error.kind(), branch.snapshot().await.unwrap().table("t").unwrap().rows)
}

#[tokio::test]
async fn a_head_that_becomes_what_it_was_is_another_head() {
    assert_eq!(the_head_becomes_what_it_was(Digested::Everything).await, (ErrorKind::Conflict, 0));
}

/// The control: where the tag does not see what is different in every swap, what was reported as not published is published.
#[tokio::test]
async fn without_a_nonce_an_excluded_swap_lands() {
    assert_eq!(the_head_becomes_what_it_was(Digested::WithoutNonce).await, (ErrorKind::Conflict, 1));
}

/// An authority with content tags, whatever happens to a swap.
#[tokio::test]
async fn digests_do_for_tags() {
    let faults =
        [Fault::RepliesLost(1), Fault::RequestsLost(1), Fault::Late(When::Requests(1)), Fault::Late(When::Released), Fault::Echoed];
    for fault in faults {
        let network = Network::calm();
        let authority = Arc::new(ContentTags::new(Arc::new(MemoryAuthority::new()), Digested::Everything));
        let faulty = Arc::new(FaultyAuthority::new(authority, network.clone()));
        let parts = Parts { retry: POLICY, ..Parts::new(registry(), faulty, Arc::new(InMemory::new())) };
        let branch = Catalog::open_or_create(parts, "parquet").await.unwrap().branch("main").unwrap();
        branch.transact(|tx| async move { tx.create_table("t", headwater_conformance::rows::schema()).await.map(drop) }).await.unwrap();
        network.plan(&swap(fault));
        append(&branch, "ours", "t", 1).await.unwrap();
        network.release().await;
        assert_eq!((network.fired().len(), branch.snapshot().await.unwrap().table("t").unwrap().rows), (1, 1), "{fault:?}");
        network.plan(&[Planned { verb: "SWAP head", nth: 0, fault: Fault::RepliesLost(u32::MAX) }]);
        unknown(append(&branch, "more", "t", 2).await, "more");
    }
}
