//! Publishing: one swap, one entry, one chain, whoever waits for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use headwater_core::Catalog;
use headwater_core::head::{Entry, TAIL_ENTRIES};

use super::gate::Gated;
use super::{append, append_in, create, ids, spawn};
use crate::crash::{self, scenarios};
use crate::lab::{Lab, main};
use crate::rows::schema;
use crate::tap::{Tap, render};

/// Every entry of the journal, oldest first.
async fn journal(lab: &Lab) -> Vec<Entry> {
    let snapshot = lab.main().await.snapshot().await.unwrap();
    let mut log: Vec<Entry> = snapshot.log(usize::MAX).await.unwrap().into_iter().map(|logged| logged.entry).collect();
    log.reverse();
    assert!(log.iter().zip(1..).all(|(entry, seq)| entry.seq == seq), "the chain has a gap");
    assert_eq!(log.len() as u64, snapshot.seq());
    log
}

pub(super) async fn one_commit_is_one_swap_and_one_entry(lab: &Lab) {
    for scenario in scenarios::ALL.iter().filter(|scenario| scenario.commits.len() == 1) {
        if !crash::does(lab, scenario).await {
            continue;
        }
        let setup = main(&lab.create().await);
        (scenario.setup)(setup.clone()).await.unwrap();
        let (before, tap) = (setup.snapshot().await.unwrap(), Tap::new());
        let branch = main(&Catalog::open(lab.parts(&tap).await).await.unwrap());
        tap.clear();
        let commit = branch.transact(scenario.commits[0]).await.unwrap();
        let swaps = tap.requests().iter().filter(|request| request.verb.starts_with("SWAP")).count();
        assert_eq!(swaps, 1, "{}:\n{}", scenario.name, render(&tap.requests()));
        let after = lab.main().await.snapshot().await.unwrap();
        assert_eq!((after.seq(), after.rev()), (before.seq() + 1, before.rev().map(|rev| rev + 1)), "{}", scenario.name);
        let newest = &after.log(1).await.unwrap()[0].entry;
        assert_eq!((newest.seq, Some(newest.commit), &newest.token), (commit.seq, commit.commit, &commit.token), "{}", scenario.name);
        assert_eq!(newest.kind, scenario.adapter, "{}", scenario.name);
    }
}

pub(super) async fn commits_side_by_side_are_one_chain(lab: &Lab) {
    const TABLES: usize = TAIL_ENTRIES - 8;
    const EACH: i64 = 4;
    let branch = main(&lab.create().await);
    let keys: Vec<String> = (0..TABLES).map(|i| format!("t{i}")).collect();
    let create = branch.transact(|tx| {
        let keys = keys.clone();
        async move {
            for key in &keys {
                tx.create_table(key, schema()).await?;
            }
            Ok(())
        }
    });
    create.await.unwrap();
    // All at once from one process: they share swaps, and are more than a tail holds.
    let mut waiting = Vec::new();
    for i in 0..EACH {
        for key in &keys {
            let (branch, key) = (branch.clone(), key.clone());
            waiting.push(spawn(async move { append(&branch, &key, i..i + 1).await.unwrap() }));
        }
    }
    let (mut seqs, commits) = (BTreeSet::new(), waiting.len() as u64);
    for commit in waiting {
        assert!(seqs.insert(commit.await.unwrap().seq), "two commits have one seq");
    }
    assert_eq!(seqs, (2..2 + commits).collect());
    let log = journal(lab).await;
    assert_eq!(log.iter().map(|entry| &entry.token).collect::<BTreeSet<_>>().len(), log.len());
    let snapshot = lab.main().await.snapshot().await.unwrap();
    for key in &keys {
        assert_eq!(ids(&snapshot, key).await, (0..EACH).collect::<Vec<_>>());
    }
    assert!(snapshot.rev().unwrap() < snapshot.seq(), "commits of one process share swaps");
}

pub(super) async fn writers_of_different_tables_are_one_chain(lab: &Lab) {
    const WRITERS: i64 = 4;
    const COMMITS: i64 = 10;
    let branch = main(&lab.create().await);
    create(&branch, "shared", 0..0).await;
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let own = format!("own {writer}");
        create(&branch, &own, 0..0).await;
        let process = lab.main().await;
        tasks.push(spawn(async move {
            for i in 0..COMMITS {
                append(&process, &own, i..i + 1).await.unwrap();
                append(&process, "shared", writer * 100 + i..writer * 100 + i + 1).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(journal(lab).await.len() as i64, 1 + WRITERS + 2 * WRITERS * COMMITS);
    let snapshot = lab.main().await.snapshot().await.unwrap();
    for writer in 0..WRITERS {
        assert_eq!(ids(&snapshot, &format!("own {writer}")).await, (0..COMMITS).collect::<Vec<_>>());
    }
    let shared: Vec<i64> = (0..WRITERS).flat_map(|writer| writer * 100..writer * 100 + COMMITS).collect();
    assert_eq!(ids(&snapshot, "shared").await, shared);
}

pub(super) async fn a_commit_outlives_its_caller(lab: &Lab) {
    create(&main(&lab.create().await), "t", 0..1).await;
    let mut parts = lab.parts(&Tap::new()).await;
    let gate = Arc::new(Gated::new(parts.authority));
    parts.authority = gate.clone();
    let branch = main(&Catalog::open(parts).await.unwrap());
    let caller = |ids: std::ops::Range<i64>| {
        let branch = branch.clone();
        spawn(async move { branch.transact(|tx| append_in(tx, "t", ids.clone())).await })
    };
    let gone = caller(1..2);
    gate.arrived.acquire().await.unwrap().forget();
    // A second commit waits behind the first one's swap, and its caller stays.
    let stays = caller(2..3);
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    gate.open.add_permits(64);
    gate.back.add_permits(64);
    gate.answered.acquire().await.unwrap().forget();
    let commit = stays.await.unwrap().unwrap();
    assert_eq!(commit.seq, 3, "the swap of a caller that is gone holds nobody up");
    assert_eq!(ids(&lab.main().await.snapshot().await.unwrap(), "t").await, [0, 1, 2]);
    // Whoever leaves before the swap was sent abandons the commit: never half of it is there.
    let gone = caller(3..4);
    gone.abort();
    // It may have come to its end before.
    let _ = gone.await;
    let after = append(&branch, "t", 4..5).await.unwrap();
    let found = ids(&lab.main().await.snapshot().await.unwrap(), "t").await;
    assert!(found == [0, 1, 2, 4] && after.seq == 4 || found == [0, 1, 2, 3, 4] && after.seq == 5, "{found:?}");
}

pub(super) async fn a_lost_reply_is_settled_by_the_journal(lab: &Lab) {
    let first = main(&lab.create().await);
    create(&first, "t", 0..1).await;
    create(&first, "u", 0..1).await;
    // The head is still the one that was swapped in; another process went on from it; so many did that the entry left the tail.
    for (round, others) in [(1, 0), (2, 1), (3, 2 * TAIL_ENTRIES as i64)] {
        let mut parts = lab.parts(&Tap::new()).await;
        let gate = Arc::new(Gated::new(parts.authority));
        parts.authority = gate.clone();
        let branch = main(&Catalog::open(parts).await.unwrap());
        let before = branch.snapshot().await.unwrap().seq();
        let commit = spawn(async move { branch.transact(|tx| append_in(tx, "t", round..round + 1)).await });
        gate.arrived.acquire().await.unwrap().forget();
        gate.loses.store(true, Ordering::SeqCst);
        gate.open.add_permits(64);
        gate.answered.acquire().await.unwrap().forget();
        for i in 0..others {
            append(&lab.main().await, "u", 100 + i..101 + i).await.unwrap();
        }
        gate.back.add_permits(64);
        let commit = commit.await.unwrap().unwrap();
        assert_eq!((commit.seq, commit.published), (before + 1, true), "{others} commits came after it");
        let after = lab.main().await.snapshot().await.unwrap();
        assert_eq!(after.seq(), before + 1 + others as u64);
        assert_eq!(ids(&after, "t").await, (0..=round).collect::<Vec<_>>(), "its rows are there once");
    }
}
