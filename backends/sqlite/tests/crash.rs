//! Crashes: of a process that does nothing but swap, killed at any moment, and of the log, cut anywhere.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "the whole file is a test")]

mod place;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use headwater_core::authority::{ControlAuthority, Create, Expected, HeadRead, Swap, Tag};
use headwater_core::ids::{Environment, SystemEnvironment};
use headwater_core::name::{RecordKey, RecordKind};
use headwater_sqlite::SqliteAuthority;
use place::{Place, body, branch, swapped};

const KILLS: usize = 100;
const FILE: &str = "HEADWATER_SQLITE_FILE";

async fn count(authority: &SqliteAuthority) -> (u64, Option<Tag>) {
    match authority.read_head(&branch("main"), None).await.unwrap() {
        HeadRead::Absent => (0, None),
        HeadRead::Found(bytes, tag) => (std::str::from_utf8(&bytes).unwrap().trim_end().parse().unwrap(), Some(tag)),
        HeadRead::Unchanged => panic!("no tag was given"),
    }
}

/// A body of several pages, different for each number.
fn numbered(number: u64) -> bytes::Bytes {
    body(format!("{number:<9000}"))
}

/// Swaps and creates for ever, and says what was acknowledged.
#[tokio::test]
#[ignore = "a part of another test, in a process of its own"]
async fn swapping_process() {
    let authority = SqliteAuthority::new(std::env::var_os(FILE).unwrap()).unwrap();
    let mut out = std::io::stdout();
    let (mut number, mut tag) = count(&authority).await;
    loop {
        number += 1;
        let key = RecordKey::new(RecordKind::Segment, [number.to_string().as_str()]);
        // The one killed may have left it.
        assert!(matches!(authority.create_record(&key, numbered(number)).await.unwrap(), Create::Created | Create::Exists));
        let expected = tag.as_ref().map_or(Expected::Absent, Expected::Tag);
        match authority.swap_head(&branch("main"), expected, numbered(number)).await.unwrap() {
            Swap::Swapped(new) => tag = Some(new),
            other => panic!("nobody else swaps: {other:?}"),
        }
        writeln!(out, "ack {number}").unwrap();
    }
}

#[tokio::test]
async fn a_process_killed_at_any_moment_loses_nothing_that_was_acknowledged() {
    let place = Place::new();
    let (mut last, mut unacknowledged) = (0, 0);
    for _ in 0..KILLS {
        let mut process = Command::new(std::env::current_exe().unwrap());
        process.args(["--ignored", "--exact", "--nocapture", "swapping_process"]).env(FILE, place.path()).stdout(Stdio::piped());
        let mut process = process.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        // After a random number of swaps, and at a random moment of the next one.
        let random = SystemEnvironment.random();
        let mut acks = 0;
        let mut acknowledged = last;
        while acks < 1 + random % 4 {
            if let Some(number) = lines.next().unwrap().unwrap().strip_prefix("ack ") {
                acknowledged = number.parse().unwrap();
                acks += 1;
            }
        }
        for turn in 0..(random >> 8) % 2_000_000 {
            std::hint::black_box(turn);
        }
        process.kill().unwrap();
        process.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            if let Some(number) = line.strip_prefix("ack ") {
                acknowledged = number.parse().unwrap();
            }
        }
        let (found, _) = count(&place.authority()).await;
        assert!(found == acknowledged || found == acknowledged + 1, "{acknowledged} was acknowledged, {found} is there");
        unacknowledged += u64::from(found > acknowledged);
        last = found;
        let keys = place.authority().list_records("segment").await.unwrap().len() as u64;
        assert!(keys == found || keys == found + 1, "{keys} records at {found}");
        place.is_sound();
    }
    let _ = writeln!(std::io::stderr(), "{KILLS} kills, {last} swaps, {unacknowledged} of them there without an acknowledgement");
    assert!(last > KILLS as u64);
}

/// What a loss of power leaves of a log that was not synced yet is a beginning of it, in whole sectors or with some of them torn.
#[tokio::test]
async fn a_log_cut_or_torn_anywhere_shows_a_state_that_was_committed() {
    const COMMITS: u64 = 6;
    let place = Place::new();
    let authority = place.authority();
    let mut tag = swapped(authority.swap_head(&branch("main"), Expected::Absent, numbered(1)).await.unwrap());
    for number in 2..=COMMITS {
        tag = swapped(authority.swap_head(&branch("main"), Expected::Tag(&tag), numbered(number)).await.unwrap());
    }
    // As long as the authority has the file open, nothing of the log goes into it by itself.
    let log = place.path().with_file_name("control ü.db-wal");
    let (file, log) = (fs::read(place.path()).unwrap(), fs::read(log).unwrap());
    assert!(log.len() > 30_000, "{}", log.len());
    let (mut before, mut seen) = (0, [0; COMMITS as usize + 1]);
    for cut in (0..=log.len()).step_by(512).chain([log.len()]) {
        let mut states = Vec::new();
        let mut torn = log.clone();
        torn[cut.saturating_sub(512)..cut].iter_mut().for_each(|byte| *byte ^= 0x5a);
        for left in [&log[..cut], &torn] {
            let other = Place::new();
            fs::write(other.path(), &file).unwrap();
            fs::write(other.path().with_file_name("control ü.db-wal"), left).unwrap();
            let (found, _) = count(&other.authority()).await;
            other.is_sound();
            states.push(found);
        }
        assert!(states[0] >= before && states[0] <= COMMITS, "a longer log shows an older state: {states:?} at {cut}");
        assert!(states[1] <= COMMITS && (cut == 0 || states[1] <= states[0]), "what follows a torn sector counts: {states:?} at {cut}");
        before = states[0];
        seen[states[0] as usize] += 1;
    }
    assert_eq!(before, COMMITS, "the whole log shows it all");
    assert!(seen.iter().all(|times| *times > 0), "{seen:?}");
}
