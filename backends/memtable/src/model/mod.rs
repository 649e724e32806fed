//! The memtable against a model, in random histories: appends, scans, flushes that succeed, fail or hang, publishes that succeed, fail or are
//! unknown, closes at once, commits of others, crashes and time that passes. No row is hidden, doubled, out of its order, or claimed durable
//! when it was not. Mistakes are made on purpose, and each is found.

mod history;
mod place;
mod store;

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use headwater_conformance::report;

use crate::bug::Bug;
use history::{Counts, History};

/// Turns others get in a scan that makes [`Bug::DiskBeforeMemory`].
pub(crate) const TURNS: usize = 40;

const SEED: u64 = 0x6d65_6d74;
/// Steps in one catalog: enough for several crashes and hundreds of rows, few enough that its tables stay small.
const EPISODE: usize = 250;

async fn episode(store: &'static str, seed: u64, bug: Option<Bug>) -> Counts {
    let mut history = History::begin(store, seed, bug).await;
    for _ in 0..EPISODE {
        history.step().await;
    }
    history.end().await
}

async fn histories(store: &'static str, first: u64, steps: usize) {
    let mut counts = Counts::default();
    for seed in first..first + (steps / EPISODE) as u64 {
        match AssertUnwindSafe(episode(store, seed, None)).catch_unwind().await {
            Ok(counted) => counts.add(&counted),
            Err(_) => panic!("the history of seed {seed:#x} went wrong"),
        }
    }
    report(format!("{store}: {steps} steps, seeds {first:#x} and on: {counts:?}"));
    counts.assert_everything_happened(steps / 2_500);
}

/// 100,000 steps together with the next, which runs beside it.
#[tokio::test(start_paused = true)]
async fn no_history_hides_doubles_reorders_or_claims_a_row() {
    histories(store::KIND, SEED, 50_000).await;
}

#[tokio::test(start_paused = true)]
async fn nor_does_one_of_other_seeds() {
    histories(store::KIND, SEED << 16, 50_000).await;
}

#[tokio::test(start_paused = true)]
async fn nor_does_one_over_parquet() {
    histories("parquet", SEED, 2_500).await;
}

#[tokio::test(start_paused = true)]
async fn every_mistake_is_found() {
    for bug in [Bug::DiskBeforeMemory, Bug::DropOnFailedFlush, Bug::PublishBeforeFlush, Bug::CloseBeforeTurn] {
        let mut found = None;
        for number in 0..60 {
            if AssertUnwindSafe(episode(store::KIND, SEED + number, Some(bug))).catch_unwind().await.is_err() {
                found = Some(number);
                break;
            }
        }
        let found = found.unwrap_or_else(|| panic!("nothing came of {bug:?}"));
        report(format!("{bug:?}: found by the seed {:#x}", SEED + found));
    }
}
