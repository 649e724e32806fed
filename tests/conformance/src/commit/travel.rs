//! Time travel: by seq, commit and time, across spilled segments.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use headwater_core::head::TAIL_ENTRIES;
use headwater_core::ids::{CommitId, Environment, Mint, SystemEnvironment};
use headwater_core::{At, Branch, Catalog, ErrorKind};

use super::{append, create, drop_table, ids, refused, rename};
use crate::lab::{Lab, main};
use crate::tap::Tap;

/// A clock that is set by hand.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl Environment for Clock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn random(&self) -> u128 {
        SystemEnvironment.random()
    }
}

const COMMITS: u64 = 3 * TAIL_ENTRIES as u64 + 5;

/// A branch of many commits, with a clock that stands still, jumps and goes back.
async fn history(lab: &Lab) -> Branch {
    lab.create().await;
    let (clock, mut parts) = (Arc::new(Clock::default()), lab.parts(&Tap::new()).await);
    parts.environment = clock.clone();
    let branch = main(&Catalog::open(parts).await.unwrap());
    for seq in 1..=COMMITS {
        let now = 1_000 + seq * 10;
        let set = match seq % 7 {
            0 => now - 500.min(now),
            1 | 2 => now - now % 100,
            _ => now,
        };
        clock.0.store(set, Ordering::SeqCst);
        match seq {
            1 => drop(create(&branch, "t", 1..2).await),
            40 => drop(rename(&branch, "t", "u").await.unwrap()),
            41 => drop(rename(&branch, "u", "t").await.unwrap()),
            _ => drop(append(&branch, "t", seq as i64..seq as i64 + 1).await.unwrap()),
        }
    }
    branch
}

fn expected(seq: u64) -> Vec<i64> {
    (1..=seq as i64).filter(|seq| ![40, 41].contains(seq)).collect()
}

pub(super) async fn every_state_comes_back_by_seq_commit_and_time(lab: &Lab) {
    history(lab).await;
    let now = lab.main().await.snapshot().await.unwrap();
    let mut log = now.log(usize::MAX).await.unwrap();
    log.reverse();
    assert_eq!(log.len() as u64, COMMITS);
    assert!(log.windows(2).all(|pair| pair[0].entry.time <= pair[1].entry.time), "times never go back");
    assert!(log.windows(2).any(|pair| pair[0].entry.time == pair[1].entry.time), "and some are equal");
    for (logged, seq) in log.iter().zip(1..) {
        let entry = &logged.entry;
        let key = if seq == 40 { "u" } else { "t" };
        let by_seq = now.at(At::Seq(seq)).await.unwrap();
        assert_eq!((by_seq.seq(), by_seq.commit(), by_seq.time_ms()), (seq, Some(entry.commit), entry.time));
        let by_commit = now.at(At::Commit(entry.commit)).await.unwrap();
        assert_eq!((by_commit.seq(), by_commit.table(key).unwrap()), (seq, by_seq.table(key).unwrap()));
        let last_of_that_time = log.iter().filter(|logged| logged.entry.time <= entry.time).count() as u64;
        assert_eq!(now.at(At::Time(entry.time)).await.unwrap().seq(), last_of_that_time);
        let last_before = log.iter().filter(|logged| logged.entry.time < entry.time).count() as u64;
        assert_eq!(now.at(At::Time(entry.time - 1)).await.unwrap().seq(), last_before);
        assert_eq!(by_seq.table(key).unwrap().rows, expected(seq).len() as u64);
        assert_eq!(by_seq.log(1).await.unwrap(), std::slice::from_ref(logged), "a past view's log ends with it");
        if seq % 9 == 0 || (39..=42).contains(&seq) {
            assert_eq!(ids(&by_seq, key).await, expected(seq));
        }
    }
    for (before, limit) in [(COMMITS + 1, 3), (TAIL_ENTRIES as u64 + 2, 5), (50, 40), (2, 10), (1, 10), (u64::MAX, 2)] {
        let got: Vec<u64> = now.log_before(before, limit).await.unwrap().iter().map(|logged| logged.entry.seq).collect();
        let wanted: Vec<u64> = (1..=COMMITS).rev().filter(|seq| *seq < before).take(limit).collect();
        assert_eq!(got, wanted, "log before {before}, at most {limit}");
    }
}

pub(super) async fn points_that_never_were_are_not_found(lab: &Lab) {
    let branch = history(lab).await;
    let now = branch.snapshot().await.unwrap();
    let empty = now.at(At::Seq(0)).await.unwrap();
    assert_eq!((empty.seq(), empty.commit(), empty.tables().len()), (0, None, 0));
    assert_eq!(now.at(At::Time(0)).await.unwrap().seq(), 0);
    assert_eq!(now.at(At::Time(u64::MAX)).await.unwrap().seq(), COMMITS);
    refused(now.at(At::Seq(COMMITS + 1)).await, ErrorKind::NotFound);
    refused(now.at(At::Seq(u64::MAX)).await, ErrorKind::NotFound);
    let mint = Mint::new(Arc::new(SystemEnvironment));
    for time in [0, 1_500, now.time_ms(), now.time_ms() + 1] {
        refused(now.at(At::Commit(CommitId(mint.ulid_at(time)))).await, ErrorKind::NotFound);
    }
    // A view does not see what came after it.
    let past = now.at(At::Seq(10)).await.unwrap();
    append(&branch, "t", 0..1).await.unwrap();
    assert_eq!((now.seq(), past.seq()), (COMMITS, 10));
    refused(now.at(At::Seq(COMMITS + 1)).await, ErrorKind::NotFound);
}

/// Rule 22.
pub(super) async fn old_states_never_change(lab: &Lab) {
    let branch = main(&lab.create().await);
    create(&branch, "t", 0..3).await;
    create(&branch, "u", 0..3).await;
    let snapshot = branch.snapshot().await.unwrap();
    lab.recorder().see(&snapshot).await.unwrap();
    for i in 0..50 {
        let other = lab.main().await;
        match i % 10 {
            3 => drop(drop_table(&other, "u").await.unwrap()),
            4 => drop(other.transact(|tx| async move { tx.recreate_table("u", None).await.map(drop) }).await.unwrap()),
            6 => drop(rename(&other, "t", "x").await.unwrap()),
            7 => drop(rename(&other, "x", "t").await.unwrap()),
            8 => {
                let over = other.transact(|tx| async move { tx.overwrite(&tx.table("u").await?, crate::rows::numbered(7..9)).await });
                over.await.unwrap();
            }
            _ => drop(append(&other, "t", 10 + i..11 + i).await.unwrap()),
        }
        lab.recorder().see(&lab.main().await.snapshot().await.unwrap()).await.unwrap();
    }
    assert_eq!(ids(&snapshot, "t").await, [0, 1, 2]);
    assert_eq!(ids(&snapshot, "u").await, [0, 1, 2]);
}
