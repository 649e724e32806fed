//! Group commit: commits of one process to one branch that come while a swap is under way share the next ones, and nothing else.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod gate;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use futures::future::join_all;
use gate::Gate;
use headwater_conformance::tap::{Tap, render};
use headwater_core::head::Head;
use headwater_core::verify::Depth;
use headwater_core::{Branch, Catalog, Commit, Error, ErrorKind, Result, TransactOptions, Transaction};
use headwater_suite::PARQUET;
use headwater_suite::lake::Lake;
use headwater_suite::rows::{create, read, row};
use tokio::task::JoinHandle;

const MEMBERS: usize = 64;

/// One process whose swaps can be held up.
struct Process {
    lake: Lake,
    branch: Branch,
    gate: Arc<Gate>,
    tap: Arc<Tap>,
}

impl Process {
    /// A process on a catalog with these tables, all empty.
    async fn start(lake: Lake, tables: &[String]) -> Self {
        let (gate, tap) = (Gate::new(lake.authority.clone()), Tap::new());
        let gated = Lake { authority: gate.clone(), ..lake.clone() };
        let catalog = Catalog::open_or_create(gated.parts(&tap), "parquet").await.unwrap();
        let branch = catalog.branch("main").unwrap();
        create(&branch, tables).await;
        tap.clear();
        Self { lake, branch, gate, tap }
    }

    /// Commits in a task of its own.
    fn commit<F, Fut>(&self, options: TransactOptions, body: F) -> JoinHandle<Result<Commit>>
    where
        F: Fn(Transaction) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let branch = self.branch.clone();
        tokio::spawn(async move { branch.transact_with(options, body).await })
    }

    /// Appends a row to tables, in a task of its own.
    fn append(&self, options: TransactOptions, tables: Vec<String>, number: i64) -> JoinHandle<Result<Commit>> {
        self.commit(options, move |tx| {
            let tables = tables.clone();
            async move {
                for key in tables {
                    let table = tx.table(&key).await?;
                    tx.append(&table, row(0, number)).await?;
                }
                Ok(())
            }
        })
    }

    /// Shuts the gate and sends a first commit that stops at it.
    async fn hold_up(&self, table: &str) -> JoinHandle<Result<Commit>> {
        self.gate.shut();
        let before = self.gate.begun();
        let first = self.append(TransactOptions::default(), vec![table.to_owned()], 1_000);
        self.until("the first swap is at the gate", || self.gate.begun() > before).await;
        first
    }

    /// Lets everyone work until so many objects were put, and then until those who put them have queued.
    async fn queued(&self, puts: usize) {
        let put = || self.tap.requests().iter().filter(|r| r.verb == "PUT" && r.span.end != u64::MAX).count();
        self.until("all have staged", || put() >= puts).await;
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    }

    async fn until(&self, what: &str, done: impl Fn() -> bool) {
        for _ in 0..1_000_000 {
            if done() {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("never: {what}\n{}", render(&self.tap.requests()));
    }

    /// The journal is contiguous and as long as this, each token is there once, and everything is in its place.
    async fn check(&self, commits: u64) {
        // As another process sees it, and not by what this one remembers.
        let theirs = Catalog::open(self.lake.parts(&Tap::new())).await.unwrap();
        let snapshot = theirs.branch("main").unwrap().snapshot().await.unwrap();
        let log = snapshot.log(usize::MAX).await.unwrap();
        let seqs: Vec<u64> = log.iter().rev().map(|entry| entry.entry.seq).collect();
        assert_eq!(seqs, (1..=commits).collect::<Vec<_>>());
        let tokens: BTreeSet<_> = log.iter().map(|entry| entry.entry.token.clone()).collect();
        assert_eq!(tokens.len() as u64, commits);
        let report = theirs.verify(Depth::Data).await.unwrap();
        assert!(report.ok(), "{:?}", report.problems);
    }

    async fn rows(&self, table: &str) -> Vec<i64> {
        let (theirs, _) = self.lake.open().await;
        let snapshot = theirs.snapshot().await.unwrap();
        let mut numbers: Vec<i64> = read(&snapshot, table).await.unwrap().into_iter().map(|(_, number)| number).collect();
        numbers.sort_unstable();
        numbers
    }
}

fn key(i: usize) -> String {
    format!("t{i}")
}

fn keys(n: usize) -> Vec<String> {
    (0..n).map(key).collect()
}

fn token(text: &str) -> TransactOptions {
    TransactOptions { token: Some(text.parse().unwrap()), ..TransactOptions::default() }
}

async fn all(commits: Vec<JoinHandle<Result<Commit>>>) -> Vec<Result<Commit>> {
    join_all(commits).await.into_iter().map(|joined| joined.unwrap()).collect()
}

#[tokio::test]
async fn disjoint_commits_share_swaps_in_memory() {
    let swaps = disjoint_commits_share_swaps(Lake::memory(PARQUET)).await;
    // One that was held up, and groups that split where the journal's tail is full.
    assert!((3..=8).contains(&swaps), "{swaps} swaps");
}

#[tokio::test]
async fn disjoint_commits_share_swaps_on_a_local_disk() {
    let swaps = disjoint_commits_share_swaps(Lake::local(PARQUET)).await;
    assert!((3..=MEMBERS / 2).contains(&swaps), "{swaps} swaps");
}

#[tokio::test]
async fn disjoint_commits_share_swaps_in_a_sqlite_file() {
    let swaps = disjoint_commits_share_swaps(Lake::sqlite(PARQUET)).await;
    assert!((3..=MEMBERS / 2).contains(&swaps), "{swaps} swaps");
}

async fn disjoint_commits_share_swaps(lake: Lake) -> usize {
    let process = Process::start(lake, &keys(MEMBERS)).await;
    let swaps = process.gate.swaps();
    let first = process.hold_up(&key(0)).await;
    let mut commits = vec![first];
    commits.extend((1..MEMBERS).map(|i| process.append(TransactOptions::default(), vec![key(i)], i as i64)));
    process.queued(2 * MEMBERS).await;
    process.gate.open();
    let mut seqs = BTreeSet::new();
    for commit in all(commits).await {
        let commit = commit.unwrap();
        assert_eq!((commit.prepares, commit.swaps_lost, commit.tables.len()), (1, 0, 1));
        seqs.insert(commit.seq);
    }
    assert_eq!(seqs, (2..=MEMBERS as u64 + 1).collect());
    process.check(MEMBERS as u64 + 1).await;
    for i in 1..MEMBERS {
        assert_eq!(process.rows(&key(i)).await, [i as i64]);
    }
    let swaps = process.gate.swaps() - swaps;
    headwater_conformance::report(format_args!("{} on {}: {swaps} swaps", MEMBERS, process.lake.name));
    swaps
}

#[tokio::test]
async fn a_group_splits_where_the_tail_is_full() {
    let process = Process::start(Lake::memory(PARQUET), &keys(40)).await;
    let head = async || serde_json::from_slice::<Head>(&process.lake.head().await).unwrap();
    // Until the creation of the tables, a large entry, has left the tail: from here on its length counts, and not its bytes.
    while head().await.segments.is_empty() {
        process.append(TransactOptions::default(), vec![key(0)], 0).await.unwrap().unwrap();
    }
    assert_eq!(head().await.tail.len(), 1);
    let (before, swaps) = (head().await.seq, process.gate.swaps());
    process.tap.clear();
    let first = process.hold_up(&key(0)).await;
    let mut commits = vec![first];
    commits.extend((1..40).map(|i| process.append(TransactOptions::default(), vec![key(i)], i as i64)));
    process.queued(80).await;
    process.gate.open();
    assert!(all(commits).await.iter().all(Result::is_ok));
    // Behind the 1 in the tail go the one that was held up and 30 more; the other 9 follow a spill.
    assert_eq!(process.gate.swaps() - swaps, 3);
    let after = head().await;
    assert_eq!((after.seq - before, after.tail.len(), after.segments[0].last - before), (40, 9, 31));
    process.check(before + 40).await;
}

#[tokio::test]
async fn members_that_touch_one_table_are_all_right_afterwards() {
    for lake in Lake::all(PARQUET) {
        let process = Process::start(lake, &keys(3)).await;
        let first = process.hold_up(&key(0)).await;
        let mut commits = vec![first];
        // Blind appends, which go on another base as they are.
        commits.extend((0..6).map(|i| process.append(TransactOptions::default(), vec![key(1)], i)));
        // A counter: each commit reads how many rows there are and appends that number.
        commits.extend((0..6).map(|_| {
            process.commit(TransactOptions::default(), |tx| async move {
                let table = tx.table("t2").await?;
                let next = tx.rows(&table).await? as i64;
                tx.append(&table, row(0, next)).await
            })
        }));
        process.queued(2 + 2 * 12).await;
        process.gate.open();
        let commits = all(commits).await;
        assert!(commits.iter().all(Result::is_ok), "{commits:?}");
        assert!(commits.iter().flatten().any(|commit| commit.prepares > 1), "no counter ran again: {commits:?}");
        assert_eq!(process.rows("t1").await, [0, 1, 2, 3, 4, 5]);
        assert_eq!(process.rows("t2").await, [0, 1, 2, 3, 4, 5]);
        process.check(1 + 13).await;
    }
}

#[tokio::test]
async fn a_dropped_caller_cancels_nobody_and_commits_wholly_or_not_at_all() {
    for lake in Lake::all(PARQUET) {
        let process = Process::start(lake, &keys(12)).await;
        // One is dropped while its swap is at the gate, others while they queue, one before it has staged anything.
        let at_gate = process.hold_up(&key(0)).await;
        let queued: Vec<_> = (1..6).map(|i| process.append(TransactOptions::default(), vec![key(i), key(i + 5)], i as i64)).collect();
        process.queued(2 + 4 * 5).await;
        let early = process.append(TransactOptions::default(), vec![key(11)], 11);
        early.abort();
        at_gate.abort();
        let kept: Vec<_> = queued
            .into_iter()
            .enumerate()
            .filter_map(|(i, commit)| {
                if i % 2 == 0 {
                    Some(commit)
                } else {
                    commit.abort();
                    None
                }
            })
            .collect();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(at_gate.await.unwrap_err().is_cancelled() && early.await.unwrap_err().is_cancelled());
        process.gate.open();
        for commit in all(kept).await {
            assert_eq!(commit.unwrap().tables.len(), 2);
        }
        for i in [1, 3, 5] {
            assert_eq!((process.rows(&key(i)).await, process.rows(&key(i + 5)).await), (vec![i as i64], vec![i as i64]));
        }
        // One more commit of the same process: when it is done, whatever was queued before it is, too.
        process.append(TransactOptions::default(), vec![key(0)], 5).await.unwrap().unwrap();
        for i in [2, 4] {
            assert_eq!(process.rows(&key(i)).await, process.rows(&key(i + 5)).await, "half a commit");
            assert!(process.rows(&key(i)).await.len() <= 1);
        }
        assert!([vec![5, 1_000], vec![5]].contains(&process.rows("t0").await));
        assert!(process.rows("t11").await.is_empty(), "what was dropped before it was staged is there");
        process.check(process.branch.snapshot().await.unwrap().seq()).await;
    }
}

#[tokio::test]
async fn a_stale_member_fails_nobody_else() {
    for lake in Lake::all(PARQUET) {
        let process = Process::start(lake, &keys(6)).await;
        let first = process.hold_up(&key(0)).await;
        let puts = process.tap.requests().iter().filter(|request| request.verb == "PUT").count();
        let dropped = process.commit(TransactOptions::default(), |tx| async move {
            let table = tx.table("t1").await?;
            tx.drop_table(&table).await
        });
        // Wants the table to itself: fails when it runs again.
        let picky = process.commit(TransactOptions::default(), |tx| async move {
            let table = tx.table("t0").await?;
            if tx.rows(&table).await? > 0 {
                return Err(Error::invalid("somebody was here"));
            }
            tx.append(&table, row(0, 1)).await
        });
        let orphan = process.append(TransactOptions::default(), vec![key(1), key(2)], 7);
        let plain: Vec<_> = (2..6).map(|i| process.append(TransactOptions::default(), vec![key(i)], i as i64)).collect();
        process.queued(puts + 2 + 4 + 2 * 4).await;
        process.gate.open();
        assert!(first.await.unwrap().is_ok() && dropped.await.unwrap().is_ok());
        assert_eq!(picky.await.unwrap().unwrap_err().kind(), ErrorKind::InvalidInput);
        // It appends to the table that was dropped, before or after: whole or not at all.
        let orphan = orphan.await.unwrap();
        if let Err(error) = &orphan {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
        }
        assert!(all(plain).await.iter().all(Result::is_ok));
        assert_eq!(process.rows("t0").await, [1_000]);
        assert_eq!(process.rows("t2").await, if orphan.is_ok() { vec![2, 7] } else { vec![2] });
        process.check(1 + 2 + 4 + u64::from(orphan.is_ok())).await;
    }
}

#[tokio::test]
async fn equal_tokens_settle_as_one_commit() {
    for lake in Lake::all(PARQUET) {
        let process = Process::start(lake, &keys(4)).await;
        let first = process.hold_up(&key(0)).await;
        let twins: Vec<_> = (0..5).map(|_| process.append(token("twin"), vec![key(1), key(2)], 1)).collect();
        process.queued(2 + 4 * 5).await;
        let other = process.append(token("twin"), vec![key(3)], 9);
        process.queued(2 + 4 * 5 + 2).await;
        process.gate.open();
        first.await.unwrap().unwrap();
        let seqs: BTreeSet<u64> = all(twins).await.into_iter().map(|commit| commit.unwrap().seq).collect();
        assert_eq!(seqs.len(), 1, "one token, several commits: {seqs:?}");
        assert_eq!(other.await.unwrap().unwrap_err().kind(), ErrorKind::TokenReused);
        assert_eq!((process.rows("t1").await, process.rows("t2").await), (vec![1], vec![1]));
        assert!(process.rows("t3").await.is_empty());
        process.check(3).await;
    }
}

#[tokio::test]
async fn a_group_that_loses_its_swap_is_published_behind_the_winner() {
    for lake in Lake::all(PARQUET) {
        let process = Process::start(lake, &keys(10)).await;
        let first = process.hold_up(&key(0)).await;
        let mut commits = vec![first];
        commits.extend((1..9).map(|i| process.append(TransactOptions::default(), vec![key(i)], i as i64)));
        process.queued(2 * 9).await;
        let (theirs, _) = process.lake.open().await;
        theirs
            .transact(|tx| async move {
                let table = tx.table("t9").await?;
                tx.append(&table, row(9, 9)).await
            })
            .await
            .unwrap();
        process.gate.open();
        let commits = all(commits).await;
        assert_eq!(commits[0].as_ref().unwrap().swaps_lost, 1, "no swap was lost");
        assert!(commits.iter().all(Result::is_ok));
        assert_eq!(process.rows("t9").await, [9]);
        process.check(1 + 9 + 1).await;
    }
}
