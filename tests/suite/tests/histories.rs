//! Random histories of several processes over one authority, with faults, checked against a model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod history;
mod tags;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use headwater_conformance::faults::{Random, Weather};
use headwater_core::RetryPolicy;
use headwater_core::memory::MemoryAuthority;
use history::{Held, Lookup, POLICY, Setting, Shape, drawn, minimize, render, run};
use tags::{ContentTags, Digested};

const SEED: u64 = 20_251;
/// Steps of random histories in all.
const STEPS: usize = 100_000;
/// A known bug shows within so many.
const STEPS_TO_A_BUG: usize = 10_000;

/// The library as it is, on tags that count or on tags that are digests.
fn sound(seed: u64) -> Setting {
    let memory = Arc::new(MemoryAuthority::new());
    match seed % 2 {
        0 => Setting { authority: memory, toggled: None, retry: POLICY, lookup: None },
        _ => Setting { authority: Arc::new(ContentTags::new(memory, Digested::Everything)), toggled: None, retry: POLICY, lookup: None },
    }
}

/// Runs histories until there were so many steps, or an anomaly. The steps there were, and the anomaly, made small.
fn search(first: u64, limit: usize, shape: impl Fn(u64) -> Shape, setting: impl Fn(u64) -> Setting) -> (usize, Held, Option<String>) {
    let (mut ran_steps, mut sum) = (0, Held::default());
    for seed in first.. {
        if ran_steps >= limit {
            break;
        }
        let shape = shape(seed);
        let steps = drawn(&shape, seed);
        let ran = run(setting(seed), &shape, &steps, seed);
        ran_steps += ran.events.len();
        match &ran.verdict {
            Ok(held) => sum.join(held),
            Err(_) => {
                let few = minimize(|| setting(seed), &shape, &steps, seed);
                let again = run(setting(seed), &shape, &few, seed);
                return (ran_steps, sum, Some(format!("{} steps of {}:\n{}", few.len(), steps.len(), render(&again, &few, seed))));
            }
        }
    }
    (ran_steps, sum, None)
}

#[test]
fn random_histories_are_linearizable() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let next = AtomicU64::new(SEED);
    let parts: Vec<_> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    // Each takes the next few seeds, so that any number of threads runs the same ones.
                    let (mut steps, mut sum) = (0, Held::default());
                    while steps < STEPS / threads {
                        let first = next.fetch_add(1, Ordering::SeqCst);
                        let (ran, held, anomaly) = search(first, 1, |seed| Shape::draw(&mut Random::new(seed)), sound);
                        assert!(anomaly.is_none(), "{}", anomaly.unwrap_or_default());
                        steps += ran;
                        sum.join(&held);
                    }
                    (steps, sum)
                })
            })
            .collect();
        started.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let mut sum = Held::default();
    parts.iter().for_each(|(_, held)| sum.join(held));
    let steps: usize = parts.iter().map(|(steps, _)| steps).sum();
    headwater_conformance::report(format_args!("seeds {SEED} to {}, {steps} steps: {sum:?}", next.load(Ordering::SeqCst) - 1));
    assert!(steps >= STEPS && sum.faults > steps / 50 && sum.commits > steps / 4 && sum.reads > steps / 10, "{sum:?}");
    assert!(sum.unknown > sum.unknown_there && sum.unknown_there > 0 && sum.settled > 0 && sum.failed > 0 && sum.segments > 0, "{sum:?}");
}

#[test]
fn a_seed_is_one_history() {
    let mut differ = 0;
    for seed in SEED..SEED + 12 {
        let shape = Shape::draw(&mut Random::new(seed));
        let steps = drawn(&shape, seed);
        let (once, again) = (run(sound(seed), &shape, &steps, seed), run(sound(seed), &shape, &steps, seed));
        assert_eq!(once.events, again.events, "seed {seed}");
        assert_eq!(once.requests, again.requests, "seed {seed}");
        let other = run(sound(seed), &shape, &steps, seed + 1_000);
        differ += usize::from(once.events != other.events);
    }
    assert!(differ > 6, "the seed decides nothing");
}

/// Few writers and many requests that arrive late, while others make the head what it was.
fn toggled(_: u64) -> Shape {
    let weather = Weather { faults_per_mille: 250, cuts_per_mille: 0, turns: 12, timeout: 40 };
    Shape { writers: 1, readers: 1, togglers: 2, steps_each: 25, weather, names: 0 }
}

fn toggling(digested: Digested) -> impl Fn(u64) -> Setting {
    move |_| {
        let authority = Arc::new(ContentTags::new(Arc::new(MemoryAuthority::new()), digested));
        let retry = RetryPolicy { swaps: 0, ..POLICY };
        Setting { authority: authority.clone(), toggled: Some(authority), retry, lookup: None }
    }
}

/// A swap that counts as excluded lands where the head becomes what it was: model a2.
#[test]
fn a_dropped_nonce_is_found() {
    let (steps, _, anomaly) = search(SEED, STEPS_TO_A_BUG, toggled, toggling(Digested::WithoutNonce));
    headwater_conformance::report(format_args!("{steps} steps to the anomaly"));
    println!("{}", anomaly.expect("the bug was not found"));
    let (steps, held, anomaly) = search(SEED, STEPS_TO_A_BUG, toggled, toggling(Digested::Everything));
    assert!(anomaly.is_none(), "with a nonce: {}", anomaly.unwrap_or_default());
    headwater_conformance::report(format_args!("with a nonce, none in {steps}: {held:?}"));
}

/// Large entries, so that the tail spills every few commits.
fn spilling(_: u64) -> Shape {
    let weather = Weather { faults_per_mille: 120, cuts_per_mille: 0, turns: 4, timeout: 300 };
    Shape { writers: 3, readers: 1, togglers: 0, steps_each: 15, weather, names: 160 }
}

fn resolving(lookup: Lookup) -> impl Fn(u64) -> Setting {
    move |_| {
        let retry = RetryPolicy { resolves: 0, ..POLICY };
        Setting { authority: Arc::new(MemoryAuthority::new()), toggled: None, retry, lookup: Some(lookup) }
    }
}

/// A token that has moved into a segment counts as excluded where only the tail is looked at: model a3.
#[test]
fn a_lookup_in_the_tail_alone_is_found() {
    let (steps, _, anomaly) = search(SEED, STEPS_TO_A_BUG, spilling, resolving(Lookup::Tail));
    headwater_conformance::report(format_args!("{steps} steps to the anomaly"));
    println!("{}", anomaly.expect("the bug was not found"));
    let (steps, held, anomaly) = search(SEED, STEPS_TO_A_BUG / 4, spilling, resolving(Lookup::Journal));
    assert!(anomaly.is_none(), "with a lookup in the whole journal: {}", anomaly.unwrap_or_default());
    headwater_conformance::report(format_args!("with a lookup in the whole journal, none in {steps}: {held:?}"));
}
