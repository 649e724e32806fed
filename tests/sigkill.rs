//! Loads that are killed at any moment: each is there wholly or not at all, an acknowledged one always, and the lake goes on.
//!
//! When to kill is decided by what can be observed of the lake and the process, never by a clock; in which phase a kill hit is decided by
//! what is there afterwards.
#![cfg(all(unix, feature = "cli", feature = "local", feature = "parquet"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod loading;

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use loading::{Look, Place, document, rows};

const KILLS: usize = 200;
const KILLS_PER_PHASE: usize = 20;
/// Loads that may be tried for them; some end before the kill.
const TRIES: i64 = 600;
/// Rows of the large table in each load in a folder: while they are encoded, the small tables are on disk already.
const LARGE: i64 = 20_000;
/// Looks at a lake in which nothing happens.
const LOOKS: usize = 200_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    BeforeTheFirstWrite,
    BetweenWriteAndSwap,
    AfterTheSwap,
}

const PHASES: [Phase; 3] = [Phase::BeforeTheFirstWrite, Phase::BetweenWriteAndSwap, Phase::AfterTheSwap];

/// A load under way. Killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Looks until this is so, or the process has ended.
    async fn until(&mut self, pause: Duration, what: &str, mut so: impl AsyncFnMut() -> bool) {
        for _ in 0..LOOKS {
            if so().await || self.ended() {
                return;
            }
            // The runtime's timer has no pause as short; nothing else runs here meanwhile.
            std::thread::sleep(pause);
        }
        panic!("never: {what}");
    }

    /// Kills it, if it has not ended. Its status, and what it had said.
    fn kill(mut self) -> (ExitStatus, String, String) {
        let _ = self.0.kill();
        let status = self.0.wait().unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (status, out, err)
    }
}

/// Waits for the moment to kill a load that is to be hit in this phase. `turn` varies the moment.
async fn steer(running: &mut Running, place: &Place, before: &Look, phase: Phase, turn: usize) -> String {
    let mut said = String::new();
    match phase {
        // A different number of looks each time, as long as nothing is written.
        Phase::BeforeTheFirstWrite => {
            let mut looks = (turn * 37) % 500;
            let mut so = async || {
                looks = looks.saturating_sub(1);
                looks == 0 || place.objects().await != before.objects
            };
            running.until(place.pause(), "a kill", &mut so).await;
        }
        Phase::BetweenWriteAndSwap => {
            // At the first of six objects, or at a later one.
            let wanted = before.objects + 1 + [0, 0, 1, 2, 3][turn % 5];
            running.until(place.pause(), "an object", async || place.objects().await >= wanted || place.head().await != before.head).await;
        }
        Phase::AfterTheSwap if turn.is_multiple_of(2) => {
            running.until(place.pause(), "a new head", async || place.head().await != before.head).await
        }
        Phase::AfterTheSwap => {
            let mut first = [0];
            if running.0.stdout.as_mut().unwrap().read(&mut first).unwrap() == 1 {
                said.push(char::from(first[0]));
            }
        }
    }
    said
}

async fn kill(place: Place, large: i64) {
    let files = |load: i64| {
        [("small", 1), ("large", large), ("tiny", 1)]
            .map(|(table, rows)| (table, place.file(&format!("{table}.csv"), (0..rows).map(|n| (load, n)))))
    };
    let command = |load: i64| {
        let files = files(load);
        place.load(&files.each_ref().map(|(table, file)| (*table, file.as_path())))
    };
    document(&command(0).output().unwrap());
    // Which loads are there.
    let mut there = BTreeMap::from([(0, true)]);
    let mut kills = BTreeMap::from(PHASES.map(|phase| (phase, 0)));
    let (mut acknowledged, mut unkilled) = (0, 0);
    for load in 1..=TRIES {
        let total: usize = kills.values().sum();
        let enough = kills.values().all(|kills| *kills >= KILLS_PER_PHASE);
        if total >= KILLS && enough {
            break;
        }
        let fewest = kills.iter().min_by_key(|(_, kills)| **kills).map(|(phase, _)| *phase).unwrap();
        let phase = if enough { PHASES[load as usize % 3] } else { fewest };
        let seq = place.snapshot().await.seq();
        let before = place.look().await;

        let mut running = Running(command(load).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let said = steer(&mut running, &place, &before, phase, total).await;
        let (status, out, err) = running.kill();

        let answer = serde_json::from_str::<serde_json::Value>(&(said + &out)).ok();
        // It opens, whatever happened.
        let now = place.snapshot().await.seq();
        let landed = now == seq + 1;
        assert!(landed || now == seq, "seq {seq} became {now}");
        if let Some(answer) = answer {
            acknowledged += 1;
            assert_eq!((landed, answer["seq"].as_u64()), (true, Some(now)), "acknowledged, and not there: {answer}");
        }
        there.insert(load, landed);
        if status.signal() != Some(9) {
            assert!(status.success() && landed, "a load that was not killed fails with {status}: {err}");
            unkilled += 1;
            continue;
        }
        let after = place.look().await;
        let hit = match (landed, after.objects > before.objects) {
            (true, _) => Phase::AfterTheSwap,
            (false, true) => Phase::BetweenWriteAndSwap,
            (false, false) => Phase::BeforeTheFirstWrite,
        };
        assert_eq!(landed, after.head != before.head);
        *kills.get_mut(&hit).unwrap() += 1;
    }
    println!("{}: kills {kills:?}; {acknowledged} acknowledged, {unkilled} ended before the kill", place.describe());
    assert!(kills.values().sum::<usize>() >= KILLS && kills.values().all(|kills| *kills >= KILLS_PER_PHASE), "{kills:?} in {TRIES} tries");

    let last = TRIES + 1;
    document(&command(last).output().unwrap());
    there.insert(last, true);
    let snapshot = place.snapshot().await;
    for (table, each) in [("small", 1), ("large", large), ("tiny", 1)] {
        let expected = there.iter().filter(|(_, there)| **there).flat_map(|(load, _)| (0..each).map(|n| ((*load, n), 1_usize)));
        assert!(rows(&snapshot, table).await.into_iter().eq(expected), "{table} has other rows than those of the loads that are there");
    }
    let landed = there.values().filter(|there| **there).count() as u64;
    assert_eq!(place.seqs(), (1..=landed).collect::<Vec<_>>());
    place.verify();
}

#[tokio::test]
async fn a_killed_load_is_there_wholly_or_not_at_all() {
    kill(Place::folder(), LARGE).await;
}
