//! What a token settles, and for whom.

use std::sync::{Arc, Mutex};

use headwater_conformance::faults::{Fault, Planned, When};
use headwater_conformance::rows::numbered;
use headwater_core::{Branch, Commit, ErrorKind, Result, Retry, TransactOptions};

use super::process::{Process, append, unknown};
use super::{READ, SWAP, meanwhile, swap};
use crate::place::{Place, options};

/// From the first swap on, the backend is out of reach of this process.
fn cut(process: &Process, first: Fault) {
    // The barrier reads first.
    let silence = Planned { verb: READ, nth: 1, fault: Fault::RequestsLost(u32::MAX) };
    process.plan(&[Planned { verb: SWAP, nth: 0, fault: first }, silence]);
}

/// A process whose swap under the token `ours` got this far when the backend went out of its reach.
async fn left_unknown(place: &Place, first: Fault) -> Process {
    let ours = place.open().await;
    ours.create(&["t", "u"]).await;
    cut(&ours, first);
    let outcome = ours.append("ours", "t", 1).await;
    place.told("ours", &outcome);
    assert_eq!(unknown(outcome, "ours").retry(), Retry::ResolveFirst);
    ours
}

/// The commit that the journal has under a token.
async fn settled(place: &Place, token: &str, told: &Commit) {
    let journal = place.journal().await;
    let entries: Vec<_> = journal.iter().filter(|entry| entry.entry.token.as_str() == token).collect();
    assert_eq!(entries.len(), 1, "{token} on {}", place.name);
    assert_eq!((told.seq, told.commit), (entries[0].entry.seq, Some(entries[0].entry.commit)), "{token} was told of another commit");
}

#[tokio::test]
async fn unreachable_and_landed_is_settled_by_the_token() {
    for place in Place::all().await {
        let ours = left_unknown(&place, Fault::RepliesLost(u32::MAX)).await;
        // Found where it is, however long ago, from another process and from the same one.
        place.open().await.fill("u", 40).await;
        for process in [&place.open().await, &ours] {
            process.network.heal();
            settled(&place, "ours", &process.append("ours", "t", 1).await.unwrap()).await;
        }
        assert_eq!(place.ids("t").await, [1]);
        place.check().await;
    }
}

#[tokio::test]
async fn unreachable_and_not_landed_is_settled_by_the_token() {
    for place in Place::all().await {
        let ours = left_unknown(&place, Fault::RequestsLost(u32::MAX)).await;
        assert_eq!(place.entries("ours").await, 0);
        for process in [&place.open().await, &ours] {
            process.network.heal();
            settled(&place, "ours", &process.append("ours", "t", 1).await.unwrap()).await;
        }
        assert_eq!(place.ids("t").await, [1]);
        place.check().await;
    }
}

/// The first swap arrives at every possible moment of the second attempt: the one that has not landed may land any time.
#[tokio::test]
async fn unreachable_and_landing_while_the_token_is_tried_again() {
    for moment in ["before", "after the search", "before the second swap is answered", "after"] {
        for place in Place::all().await {
            let ours = left_unknown(&place, Fault::Late(When::Released)).await;
            let again = place.open().await;
            let network = ours.network.clone();
            let arrive = meanwhile(move || {
                let network = network.clone();
                async move { network.release().await }
            });
            match moment {
                "before" => arrive().await,
                "after the search" => {
                    again.network.meanwhile(arrive);
                    again.plan(&[Planned { verb: READ, nth: 0, fault: Fault::Delayed(1) }]);
                }
                "before the second swap is answered" => {
                    again.network.meanwhile(arrive);
                    again.plan(&swap(Fault::RequestsLost(1)));
                }
                _ => {}
            }
            let outcome = again.append("ours", "t", 1).await;
            place.recorder.tried_again(&"ours".parse().unwrap());
            place.told("ours", &outcome);
            let commit = outcome.unwrap_or_else(|error| panic!("{moment}: {error:?}"));
            ours.network.release().await;
            assert_eq!(place.ids("t").await, [1], "{moment}");
            settled(&place, "ours", &commit).await;
            place.check().await;
        }
    }
}

async fn create_other(branch: &Branch, token: &str) -> Result<Commit> {
    branch.transact_with(options(token), |tx| async move { tx.append(&tx.table("u").await?, numbered(7..9)).await }).await
}

/// Another request under the token of one that lands meanwhile must not be taken for it.
#[tokio::test]
async fn another_request_under_a_token_is_refused_whenever_the_first_lands() {
    for moment in ["before", "after the search", "before the second swap is answered"] {
        for place in Place::all().await {
            let ours = left_unknown(&place, Fault::Late(When::Released)).await;
            let other = place.open().await;
            let network = ours.network.clone();
            let arrive = meanwhile(move || {
                let network = network.clone();
                async move { network.release().await }
            });
            match moment {
                "before" => arrive().await,
                "after the search" => {
                    other.network.meanwhile(arrive);
                    other.plan(&[Planned { verb: READ, nth: 0, fault: Fault::Delayed(1) }]);
                }
                _ => {
                    other.network.meanwhile(arrive);
                    other.plan(&swap(Fault::RequestsLost(1)));
                }
            }
            let error = create_other(&other.branch, "ours").await.expect_err(moment);
            assert_eq!((error.kind(), error.retry()), (ErrorKind::TokenReused, Retry::Permanent), "{moment}: {error:?}");
            assert_eq!((place.ids("t").await, place.ids("u").await), (vec![1], vec![]), "{moment}");
            place.check().await;
        }
    }
}

/// Appends to one table what another one holds.
async fn count(branch: &Branch, token: &str) -> Result<Commit> {
    let counting = branch.transact_with(options(token), |tx| async move {
        let rows = tx.rows(&tx.table("t").await?).await? as i64;
        tx.append(&tx.table("u").await?, numbered(rows..rows + 1)).await
    });
    counting.await
}

/// What one request asks for depends on the state it finds: a twin's, made of a later state, is the same request all the same.
#[tokio::test]
async fn a_twin_on_another_state_is_the_same_request() {
    for place in Place::all().await {
        let (ours, twin) = (place.open().await, Arc::new(place.open().await));
        ours.create(&["t", "u"]).await;
        let (branch, told) = (ours.branch.clone(), Arc::new(Mutex::new(None)));
        let twins = meanwhile({
            let told = told.clone();
            move || {
                let (twin, told) = (twin.clone(), told.clone());
                async move {
                    twin.fill("t", 3).await;
                    let commit = count(&twin.branch, "ours").await.unwrap();
                    *told.lock().unwrap() = Some(commit);
                }
            }
        });
        ours.network.meanwhile(twins);
        ours.plan(&swap(Fault::RequestsLost(1)));
        let commit = count(&branch, "ours").await.unwrap();
        assert_eq!(ours.network.fired().len(), 1);
        assert_eq!(Some(commit.commit), told.lock().unwrap().as_ref().map(|twins| twins.commit), "{}", place.name);
        settled(&place, "ours", &commit).await;
        assert_eq!(place.ids("u").await, [3]);
        place.check().await;
    }
}

/// Commits of one process, in a group of their own: they queue behind a swap whose reply is held. What is to happen to the group's swap is
/// arranged before that reply comes. What each was told, the first of all included.
async fn in_a_group(
    process: &Process,
    commits: &[(&'static str, &'static str, i64)],
    arrange: impl FnOnce(&Process),
) -> Vec<(&'static str, Result<Commit>)> {
    process.plan(&swap(Fault::Held));
    let start = |(token, table, id): (&'static str, &'static str, i64)| {
        let branch = process.branch.clone();
        (token, tokio::spawn(async move { append(&branch, token, table, id).await }))
    };
    let mut told = vec![start(commits[0])];
    while process.network.fired().is_empty() {
        tokio::task::yield_now().await;
    }
    let puts = || process.network.passed().iter().filter(|passed| passed.verb == "PUT" && passed.answered).count();
    let before = puts();
    told.extend(commits[1..].iter().copied().map(start));
    // Two objects each; then they queue.
    while puts() < before + 2 * (commits.len() - 1) {
        tokio::task::yield_now().await;
    }
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    arrange(process);
    process.network.release().await;
    let mut outcomes = Vec::new();
    for (token, outcome) in told {
        outcomes.push((token, outcome.await.unwrap()));
    }
    outcomes
}

/// Whoever shares a swap with a retried token is not published by the entry another process made under that token.
#[tokio::test]
async fn a_group_is_not_published_by_anothers_entry() {
    for place in Place::all().await {
        let (group, twin) = (place.open().await, place.open().await.branch);
        group.create(&["t", "u"]).await;
        let commits = [("leader", "u", 10), ("ours", "t", 1), ("member-1", "u", 11), ("member-2", "u", 12)];
        // The group's swap is lost, and the twin commits before anyone looks.
        let twins = meanwhile(move || {
            let twin = twin.clone();
            async move { drop(append(&twin, "ours", "t", 1).await.unwrap()) }
        });
        let told = in_a_group(&group, &commits, |group| {
            group.network.meanwhile(twins);
            group.plan(&swap(Fault::RequestsLost(1)));
        });
        let told = told.await;
        assert_eq!(group.network.fired().len(), 2);
        for (token, outcome) in told {
            let commit = outcome.unwrap_or_else(|error| panic!("{token}: {error:?}"));
            settled(&place, token, &commit).await;
        }
        assert_eq!((place.ids("t").await, place.ids("u").await), (vec![1], vec![10, 11, 12]));
        place.check().await;
    }
}

/// All members of a group whose outcome is unknown are told so, each with its own token, and each token settles its own.
#[tokio::test]
async fn every_member_of_an_unknown_group_is_unknown() {
    for (fault, landed) in [(Fault::RepliesLost(u32::MAX), true), (Fault::RequestsLost(u32::MAX), false)] {
        for place in Place::all().await {
            let group = place.open().await;
            group.create(&["t", "u", "v"]).await;
            let commits = [("leader", "t", 1), ("a", "u", 1), ("b", "v", 1)];
            let mut told = in_a_group(&group, &commits, |group| group.plan(&swap(fault))).await;
            assert_eq!(group.network.fired().len(), 2);
            told.remove(0).1.unwrap();
            for (token, outcome) in told {
                unknown(outcome, token);
                assert_eq!(place.entries(token).await, usize::from(landed));
            }
            let fresh = place.open().await;
            for (token, table, id) in commits {
                settled(&place, token, &fresh.append(token, table, id).await.unwrap()).await;
                assert_eq!(place.ids(table).await, [1]);
            }
            place.check().await;
        }
    }
}

#[tokio::test]
async fn a_token_names_one_request_for_ever() {
    for place in Place::all().await {
        let ours = place.open().await;
        ours.create(&["t", "u"]).await;
        let first = ours.append("ours", "t", 1).await.unwrap();
        ours.fill("u", 70).await;
        for process in [&ours, &place.open().await] {
            for (table, id) in [("t", 2), ("u", 1)] {
                let error = process.append("ours", table, id).await.unwrap_err();
                assert_eq!((error.kind(), error.retry()), (ErrorKind::TokenReused, Retry::Permanent), "{error:?}");
            }
            assert_eq!(process.append("ours", "t", 1).await.unwrap().commit, first.commit);
        }
        assert_eq!(place.ids("t").await, [1]);
        place.check().await;
    }
}

/// A network that fails while requests are compared says nothing about the request.
#[tokio::test]
async fn an_outage_while_requests_are_compared_is_an_outage() {
    for place in Place::all().await {
        let ours = place.open().await;
        ours.create(&["t", "u"]).await;
        ours.append("ours", "t", 1).await.unwrap();
        ours.fill("u", 40).await;
        let mut outages = 0;
        for verb in ["GET head", "GET record", "GET", "PUT"] {
            for nth in 0..4 {
                let again = place.open().await;
                // An object is written again where the first attempt has no answer.
                let lost = if verb == "PUT" { u32::MAX } else { 1 };
                again.plan(&[Planned { verb, nth, fault: Fault::RequestsLost(lost) }]);
                let outcome = again.append("ours", "t", 1).await;
                if again.network.fired().is_empty() {
                    outcome.unwrap();
                    continue;
                }
                outages += 1;
                let error = outcome.expect_err("the network failed");
                assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::ResolveFirst), "{verb} {nth}: {error:?}");
            }
        }
        assert!(outages >= 4, "{outages}");
        assert_eq!((place.entries("ours").await, place.ids("t").await), (1, vec![1]));
        place.check().await;
    }
}

/// Below the retention floor nobody can tell any more, and nobody claims to.
#[tokio::test]
async fn a_token_below_the_floor_has_expired() {
    for place in Place::all().await {
        let ours = left_unknown(&place, Fault::RepliesLost(u32::MAX)).await;
        ours.network.heal();
        place.open().await.fill("u", 50).await;
        let floor = place.head().await.seq - 5;
        place.edit(|head| head.floor = floor).await;
        for process in [&place.open().await, &ours] {
            let error = process.append("ours", "t", 1).await.unwrap_err();
            assert_eq!((error.kind(), error.retry()), (ErrorKind::TokenExpired, Retry::Permanent), "{error:?}");
            assert_eq!(error.token().map(|token| token.as_str()), Some("ours"));
        }
        // Who knows that it was not there at some later seq may still commit, and find it.
        let options = TransactOptions { since: floor, ..options("fresh") };
        for process in [&place.open().await, &place.open().await] {
            let commit =
                process.branch.transact_with(options.clone(), |tx| async move { tx.append(&tx.table("t").await?, numbered(2..3)).await });
            assert_eq!(commit.await.unwrap().seq, floor + 6);
        }
        assert_eq!(place.ids("t").await, [1, 2]);
    }
}

/// The floor passes the place of a swap while its outcome is being learned.
#[tokio::test]
async fn a_floor_that_passes_an_unknown_swap_excludes_nothing() {
    for place in Place::all().await {
        let (ours, others) = (place.open().await, place.open().await);
        ours.create(&["t", "u"]).await;
        ours.plan(&[Planned { verb: SWAP, nth: 0, fault: Fault::RepliesLost(1) }, Planned { verb: READ, nth: 1, fault: Fault::Held }]);
        let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
        ours.network.meanwhile(meanwhile({
            let gate = gate.clone();
            move || {
                let gate = gate.clone();
                async move { drop(gate.acquire().await.unwrap()) }
            }
        }));
        let branch = ours.branch.clone();
        let publishing = tokio::spawn(async move { append(&branch, "ours", "t", 1).await });
        while ours.network.fired().is_empty() {
            tokio::task::yield_now().await;
        }
        others.fill("u", 100).await;
        let floor = place.head().await.seq - 5;
        place.edit(|head| head.floor = floor).await;
        ours.network.heal();
        gate.add_permits(1);
        let error = unknown(publishing.await.unwrap(), "ours");
        assert_eq!(error.retry(), Retry::ResolveFirst);
        let error = place.open().await.append("ours", "t", 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TokenExpired, "{error:?}");
        assert_eq!(place.ids("t").await, [1], "it was there all the time");
    }
}
