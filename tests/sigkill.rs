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

#[cfg(feature = "s3")]
use headwater_bench::{
    proxy::{Proxy, Verb},
    server::Server,
};
#[cfg(feature = "s3")]
use loading::bucket::Bucket;
use loading::{Look, Place, document, rows};

const KILLS: usize = 200;
const KILLS_PER_PHASE: usize = 20;
/// Loads that may be tried for them; some end before the kill.
const TRIES: i64 = 600;
/// How loads go at a kind of place.
#[derive(Clone, Copy)]
struct Pace {
    /// Rows of the large table in each load: while they are encoded, or sent, the small tables are there already.
    large: i64,
    /// Kills at one place.
    kills: usize,
}

const FOLDER: Pace = Pace { large: 20_000, kills: KILLS };
/// What is looked at grows: a new bucket now and then keeps that short.
#[cfg(feature = "s3")]
const BUCKET: Pace = Pace { large: 2_000, kills: 40 };

/// A lake, and what can be seen of a load into it at little cost: in a folder the files, in a bucket what a proxy saw go by.
struct Site {
    place: Place,
    #[cfg(feature = "s3")]
    proxy: Option<Proxy>,
}

impl Site {
    async fn folder() -> Self {
        Self {
            place: Place::folder(),
            #[cfg(feature = "s3")]
            proxy: None,
        }
    }

    #[cfg(feature = "s3")]
    async fn bucket() -> Self {
        let proxy = Proxy::before(Server::shared().unwrap()).await.unwrap();
        Self { place: Place::in_bucket(Bucket::behind(proxy.addr())), proxy: Some(proxy) }
    }

    /// The same site, for a lake with its control in a SQLite file.
    #[cfg(feature = "sqlite")]
    fn with_sqlite(self) -> Self {
        Self { place: self.place.with_sqlite(), ..self }
    }

    /// The same site, for a lake of another store.
    #[cfg(feature = "lance")]
    fn of(self, store: &'static str) -> Self {
        Self { place: self.place.of(store), ..self }
    }

    /// A load begins.
    fn begin(&self) {
        #[cfg(feature = "s3")]
        if let Some(proxy) = &self.proxy {
            proxy.clear();
        }
    }

    /// What the dead process had sent is on its way still: waits until nothing more arrives.
    async fn settle(&self) {
        #[cfg(feature = "s3")]
        if let Some(proxy) = &self.proxy {
            let mut quiet = 0;
            while quiet < 10 {
                quiet = if proxy.is_quiet() { quiet + 1 } else { 0 };
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        }
    }

    /// How many objects the load has written, and whether it has swapped the head.
    async fn written(&self, before: &Look) -> (usize, bool) {
        #[cfg(feature = "s3")]
        if let Some(proxy) = &self.proxy {
            let puts = proxy.requests().into_iter().filter(|request| request.verb == Verb::Put && request.forwarded == [200]);
            let (heads, objects): (Vec<_>, Vec<_>) = puts.partition(|put| put.key.contains("/heads/"));
            return (objects.len(), !heads.is_empty());
        }
        (self.place.objects().await - before.objects, self.place.head().await != before.head)
    }
}

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
    async fn until(&mut self, what: &str, mut so: impl AsyncFnMut() -> bool) {
        for _ in 0..LOOKS {
            if so().await || self.ended() {
                return;
            }
            // The runtime's timer has no pause as short; nothing else runs here meanwhile.
            std::thread::sleep(Duration::from_micros(50));
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
async fn steer(running: &mut Running, site: &Site, before: &Look, phase: Phase, turn: usize) -> String {
    let mut said = String::new();
    match phase {
        // A different number of looks each time, as long as nothing is written.
        Phase::BeforeTheFirstWrite => {
            let mut looks = (turn * 37) % 500;
            let so = async || {
                looks = looks.saturating_sub(1);
                looks == 0 || site.written(before).await.0 > 0
            };
            running.until("a kill", so).await;
        }
        Phase::BetweenWriteAndSwap => {
            // At the first of six objects, or at a later one.
            let wanted = 1 + [0, 0, 1, 2, 3][turn % 5];
            let so = async || {
                let (objects, swapped) = site.written(before).await;
                objects >= wanted || swapped
            };
            running.until("an object", so).await;
        }
        Phase::AfterTheSwap if turn.is_multiple_of(2) => running.until("a new head", async || site.written(before).await.1).await,
        Phase::AfterTheSwap => {
            let mut first = [0];
            if running.0.stdout.as_mut().unwrap().read(&mut first).unwrap() == 1 {
                said.push(char::from(first[0]));
            }
        }
    }
    said
}

/// What was killed so far.
struct Tally {
    kills: BTreeMap<Phase, usize>,
    acknowledged: usize,
    unkilled: usize,
    tries: i64,
}

impl Tally {
    fn total(&self) -> usize {
        self.kills.values().sum()
    }

    fn enough_of_each(&self) -> bool {
        self.kills.values().all(|kills| *kills >= KILLS_PER_PHASE)
    }

    /// The phase to hit next.
    fn wanted(&self) -> Phase {
        match self.kills.iter().min_by_key(|(_, kills)| **kills) {
            Some((phase, _)) if !self.enough_of_each() => *phase,
            _ => PHASES[self.tries as usize % 3],
        }
    }
}

/// Kills loads at one place after the other until there are enough.
async fn kill(new: impl AsyncFn() -> Site, pace: Pace) {
    let mut tally = Tally { kills: BTreeMap::from(PHASES.map(|phase| (phase, 0))), acknowledged: 0, unkilled: 0, tries: 0 };
    let (mut places, mut name) = (0, String::new());
    while tally.total() < KILLS || !tally.enough_of_each() {
        let site = new().await;
        kill_at(&site, pace, &mut tally).await;
        name = site.place.describe();
        places += 1;
    }
    let Tally { kills, acknowledged, unkilled, tries } = tally;
    loading::report(format_args!(
        "{name}, {places} places: kills {kills:?}; {tries} loads, {acknowledged} acknowledged, {unkilled} ended before the kill"
    ));
}

/// Kills loads at one place, and looks at what is there.
async fn kill_at(site: &Site, pace: Pace, tally: &mut Tally) {
    let place = &site.place;
    let (large, until) = (pace.large, tally.total() + pace.kills);
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
    while tally.total() < until {
        tally.tries += 1;
        assert!(tally.tries <= TRIES, "{:?} in {TRIES} tries", tally.kills);
        let (load, phase) = (tally.tries, tally.wanted());
        let seq = place.snapshot().await.seq();
        let before = place.look().await;

        site.begin();
        let mut running = Running(command(load).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let said = steer(&mut running, site, &before, phase, tally.total()).await;
        let (status, out, err) = running.kill();
        site.settle().await;

        let answer = serde_json::from_str::<serde_json::Value>(&(said + &out)).ok();
        // It opens, whatever happened.
        let now = place.snapshot().await.seq();
        let landed = now == seq + 1;
        assert!(landed || now == seq, "seq {seq} became {now}");
        if let Some(answer) = answer {
            tally.acknowledged += 1;
            assert_eq!((landed, answer["seq"].as_u64()), (true, Some(now)), "acknowledged, and not there: {answer}");
        }
        there.insert(load, landed);
        if status.signal() != Some(9) {
            assert!(status.success() && landed, "a load that was not killed fails with {status}: {err}");
            tally.unkilled += 1;
            continue;
        }
        let after = place.look().await;
        let hit = match (landed, after.objects > before.objects) {
            (true, _) => Phase::AfterTheSwap,
            (false, true) => Phase::BetweenWriteAndSwap,
            (false, false) => Phase::BeforeTheFirstWrite,
        };
        assert_eq!(landed, after.head != before.head);
        *tally.kills.get_mut(&hit).unwrap() += 1;
    }

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
    kill(Site::folder, FOLDER).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_killed_load_is_there_wholly_or_not_at_all_with_control_in_a_sqlite_file() {
    kill(async || Site::folder().await.with_sqlite(), FOLDER).await;
}

#[cfg(feature = "s3")]
#[tokio::test]
async fn a_killed_load_is_there_wholly_or_not_at_all_on_s3() {
    kill(Site::bucket, BUCKET).await;
}

#[cfg(feature = "lance")]
#[tokio::test]
async fn a_killed_load_of_lance_tables_is_there_wholly_or_not_at_all() {
    kill(async || Site::folder().await.of("lance"), FOLDER).await;
}

#[cfg(all(feature = "lance", feature = "s3"))]
#[tokio::test]
async fn a_killed_load_of_lance_tables_is_there_wholly_or_not_at_all_on_s3() {
    kill(async || Site::bucket().await.of("lance"), BUCKET).await;
}
