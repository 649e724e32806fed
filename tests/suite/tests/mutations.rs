//! Damaged objects: whatever is done to one, a reader gets typed errors or exactly the right answer.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod forge;
mod fuel;
mod image;
mod json;
mod mutation;
mod scripted;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fuel::Fuel;
use futures::FutureExt;
use headwater_core::authority::ControlAuthority;
use headwater_core::head::TableHead;
use headwater_core::memory::MemoryAuthority;
use headwater_core::verify::Depth;
use headwater_core::{At, Catalog, Error, ErrorKind, Parts, Result, RetryPolicy};
use headwater_sqlite::SqliteAuthority;
use headwater_suite::registry;
use headwater_suite::rows::{read, row};
use image::{Known, Place};
use json::Json;
use mutation::{Dice, mutate_bytes, mutate_json};
use scripted::{known, script};
use tempfile::TempDir;

const SEED: u64 = 0x6865_6164;
/// Every other one is a change to valid JSON.
const MUTATIONS: u64 = 10_000;
const FORGERIES: u64 = 2_000;
/// Cases of each kind on rows of a SQLite file.
const ROWS: u64 = 300;
/// Many more requests than any case needs.
const REQUESTS: usize = 20_000;

/// How often each kind of object is damaged, of 100.
const WEIGHTS: [(&str, usize); 7] = [
    ("head", 30),
    ("catalog record", 6),
    ("segment", 22),
    ("tombstone link", 8),
    ("entry body", 6),
    ("version object", 24),
    ("data file", 4),
];

fn pick<'a>(dice: &mut Dice, known: &'a Known, json: bool) -> (&'a Place, &'a Bytes) {
    loop {
        let mut roll = dice.below(100);
        let kind = WEIGHTS.iter().find(|(_, weight)| match roll.checked_sub(*weight) {
            Some(rest) => {
                roll = rest;
                false
            }
            None => true,
        });
        let kind = kind.unwrap().0;
        if json && kind == "data file" {
            continue;
        }
        let places: Vec<_> = known.image.0.iter().filter(|(place, _)| place.kind() == kind).collect();
        return *dice.pick(&places);
    }
}

/// What became of one case.
#[derive(Debug, Default)]
struct Outcome {
    /// Kinds of errors, and `verify` for problems it reports.
    errors: Vec<&'static str>,
    wrong: Vec<String>,
}

impl Outcome {
    fn error(&mut self, error: &Error) {
        self.errors.push(error.kind().name());
    }

    fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong.push(what());
        }
    }

    /// The answer, or a note of the error.
    fn answer<T>(&mut self, result: Result<T>) -> Option<T> {
        result.inspect_err(|error| self.error(error)).ok()
    }
}

/// Reads all there is and compares it with what should be there.
async fn compare(catalog: &Catalog, known: &Known, dice: &mut Dice, out: &mut Outcome) {
    let last = known.states.len() - 1;
    let branch = catalog.branch("main").unwrap();
    if let Some(snapshot) = out.answer(branch.snapshot().await) {
        let seen = &known.states[last];
        let heads: Vec<&TableHead> = snapshot.tables().collect();
        out.check(snapshot.seq() == last as u64 && heads.into_iter().eq(&seen.heads), || "wrong heads".to_owned());
        for (key, rows) in &seen.rows {
            if let Some(found) = out.answer(read(&snapshot, key).await) {
                out.check(found == *rows, || format!("wrong rows of {key}"));
            }
        }
        if let Some(log) = out.answer(snapshot.log(usize::MAX).await) {
            out.check(log == known.log, || "wrong log".to_owned());
        }
        out.answer(snapshot.tombstones().await);
        let seq = dice.below(last + 1);
        if let Some(past) = out.answer(snapshot.at(At::Seq(seq as u64)).await) {
            let seen = &known.states[seq];
            out.check(past.seq() == seq as u64 && past.tables().eq(&seen.heads), || format!("wrong heads at {seq}"));
            if let Some(head) = seen.heads.get(dice.below(3))
                && let Some(found) = out.answer(read(&past, head.key.as_str()).await)
            {
                out.check(found == seen.rows[head.key.as_str()], || format!("wrong rows of {} at {seq}", head.key));
            }
        }
    }
    if let Some(report) = out.answer(catalog.verify(Depth::Data).await)
        && !report.ok()
    {
        out.errors.push("verify");
    }
}

/// Reads all there is and looks whether it agrees with itself; then writes.
async fn consult(catalog: &Catalog, dice: &mut Dice, out: &mut Outcome) {
    let branch = catalog.branch("main").unwrap();
    if let Some(snapshot) = out.answer(branch.snapshot().await) {
        let heads: Vec<TableHead> = snapshot.tables().cloned().collect();
        for head in &heads {
            // Compares the number of rows with the table's head.
            let (first, again) = (read(&snapshot, head.key.as_str()).await, read(&snapshot, head.key.as_str()).await);
            if let (Some(first), Some(again)) = (out.answer(first), out.answer(again)) {
                out.check(first == again && first.len() as u64 == head.rows, || format!("two readings of {}", head.key));
            }
        }
        if let Some(log) = out.answer(snapshot.log(usize::MAX).await) {
            let seqs: Vec<u64> = log.iter().map(|entry| entry.entry.seq).collect();
            out.check(seqs.windows(2).all(|two| two[0] == two[1] + 1), || format!("the log has a gap: {seqs:?}"));
            let commit = log.get(dice.below(log.len().max(1))).map(|entry| entry.entry.commit);
            if let Some(commit) = commit
                && let Some(past) = out.answer(snapshot.at(At::Commit(commit)).await)
            {
                out.check(past.commit() == Some(commit), || "another commit".to_owned());
            }
        }
        out.answer(snapshot.tombstones().await);
        let seq = dice.next() % (snapshot.seq().saturating_add(2)).max(1);
        if let Some(past) = out.answer(snapshot.at(At::Seq(seq)).await) {
            out.check(past.seq() == seq, || format!("another state than {seq}"));
            let tables = out.answer(snapshot.changes(&past).await).map(|changes| changes.tables()).unwrap_or_default();
            for table in tables {
                let rows = |head: Option<&TableHead>| head.map_or(0, |head| head.rows);
                if let Some(counts) = out.answer(table.count().await) {
                    let fits = rows(table.before()) + counts.added == rows(table.after()) + counts.deleted;
                    out.check(fits, || format!("{counts:?} since {seq} of {table:?}"));
                }
            }
        }
        out.answer(snapshot.at(At::Time(snapshot.time_ms().saturating_sub(dice.next() % 400))).await);
        let before = snapshot.seq();
        let written = branch.transact(|tx| async move {
            let table = tx.table("a").await?;
            tx.append(&table, row(9, 9)).await
        });
        if let Some(commit) = out.answer(written.await) {
            out.check(Some(commit.seq) == before.checked_add(1), || format!("seq {} after {before}", commit.seq));
        }
        let dropped = branch.transact(|tx| async move {
            let table = tx.table("a").await?;
            tx.drop_table(&table).await
        });
        out.answer(dropped.await);
    }
    if let Some(report) = out.answer(catalog.verify(Depth::Data).await)
        && !report.ok()
    {
        out.errors.push("verify");
    }
}

thread_local! {
    /// Panics on this thread, in tasks too, whose callers only see a closed channel.
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Panics of threads that ask for it are noted and not printed.
fn note_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let noted = PANICS.with_borrow_mut(|panics| panics.as_mut().map(|panics| panics.push(info.to_string())));
        if noted.is_none() {
            before(info);
        }
    }));
}

/// What all cases came to.
#[derive(Debug, Default)]
struct Tally {
    ran: u64,
    /// By kind of object: cases, and those that were detected.
    detected: BTreeMap<&'static str, (u64, u64)>,
    errors: BTreeMap<&'static str, u64>,
    failures: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Mutated,
    Forged,
}

/// Where the control of a case is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    Memory,
    Sqlite,
}

impl Control {
    /// An empty authority, and the folder it is in.
    fn authority(self) -> (Option<TempDir>, Arc<dyn ControlAuthority>) {
        match self {
            Self::Memory => (None, Arc::new(MemoryAuthority::new())),
            Self::Sqlite => {
                let folder = tempfile::tempdir().unwrap();
                let authority = SqliteAuthority::new(folder.path().join("control.db")).unwrap();
                (Some(folder), Arc::new(authority))
            }
        }
    }
}

/// Runs cases on every core; each is determined by the seed and its number alone.
fn run(class: Class, control: Control, cases: u64, known: &Known, foreign: &Known) -> Tally {
    note_panics();
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(4) as u64;
    let share = |thread: u64| {
        let mut tally = Tally::default();
        PANICS.set(Some(Vec::new()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        for case in (thread..cases).step_by(threads as usize) {
            runtime.block_on(run_case(class, control, case, known, foreign, &mut tally));
        }
        tally
    };
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || share(thread))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut total = Tally::default();
    for tally in tallies {
        total.ran += tally.ran;
        total.failures.extend(tally.failures);
        tally.errors.into_iter().for_each(|(kind, count)| *total.errors.entry(kind).or_default() += count);
        for (kind, (ran, detected)) in tally.detected {
            let sum = total.detected.entry(kind).or_default();
            *sum = (sum.0 + ran, sum.1 + detected);
        }
    }
    total
}

async fn run_case(class: Class, control: Control, case: u64, known: &Known, foreign: &Known, tally: &mut Tally) {
    let mut dice = Dice::new(SEED, case);
    let (place, changed, what) = match class {
        Class::Mutated => mutated(&mut dice, case, known, foreign),
        Class::Forged => forged(&mut dice, known),
    };
    let (_folder, authority) = control.authority();
    let objects = known.image.mount_on(authority.as_ref(), &changed).await;
    let fuel = Fuel::new(authority, REQUESTS);
    let mut parts = Parts::new(registry(), fuel.clone(), objects);
    parts.retry = RetryPolicy { swaps: 4, prepares: 4, resolves: 4, ..RetryPolicy::default() };
    let mut out = Outcome::default();
    let reading = async {
        if let Some(catalog) = out.answer(Catalog::open(parts).await) {
            match class {
                Class::Mutated => compare(&catalog, known, &mut dice, &mut out).await,
                Class::Forged => consult(&catalog, &mut dice, &mut out).await,
            }
        }
    };
    // The clock only moves when every task waits: then this one ends at once.
    let ended = AssertUnwindSafe(tokio::time::timeout(Duration::from_secs(1 << 20), reading)).catch_unwind().await;
    let panics = PANICS.with_borrow_mut(|panics| panics.as_mut().map(std::mem::take)).unwrap_or_default();
    let mut wrong = std::mem::take(&mut out.wrong);
    wrong.extend(panics.into_iter().map(|panic| format!("panic: {panic}")));
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(_)) => wrong.push("it waits for ever".to_owned()),
        Err(_) => assert!(!wrong.is_empty(), "a panic nobody noted"),
    }
    if fuel.is_empty() {
        wrong.push("an endless loop of requests".to_owned());
    }
    let usual = [ErrorKind::Corrupt.name(), ErrorKind::FormatMismatch.name(), "verify"];
    if class == Class::Mutated {
        wrong.extend(out.errors.iter().filter(|kind| !usual.contains(kind)).map(|kind| format!("an error {kind}")));
    }
    tally.ran += 1;
    let counts = tally.detected.entry(place.kind()).or_default();
    *counts = (counts.0 + 1, counts.1 + u64::from(!out.errors.is_empty()));
    out.errors.sort_unstable();
    out.errors.dedup();
    out.errors.iter().for_each(|kind| *tally.errors.entry(kind).or_default() += 1);
    if !wrong.is_empty() {
        tally.failures.push(format!("case {case}, {} {place:?}, {what}: {wrong:?}", place.kind()));
    }
}

/// One object is damaged.
fn mutated<'a>(dice: &mut Dice, case: u64, known: &'a Known, foreign: &Known) -> (&'a Place, BTreeMap<Place, Bytes>, String) {
    loop {
        let json = case.is_multiple_of(2);
        let (place, bytes) = pick(dice, known, json);
        let (new, what) = if json {
            let mut json = Json::parse(bytes).unwrap();
            let what = mutate_json(dice, &mut json);
            (json.bytes(), what)
        } else {
            let others: Vec<&[u8]> = known.image.0.values().chain(foreign.image.0.values()).map(Bytes::as_ref).collect();
            mutate_bytes(dice, bytes, &others)
        };
        if *bytes != new {
            return (place, BTreeMap::from([(place.clone(), new.into())]), what);
        }
    }
}

/// One object is changed, and all digests fit again.
fn forged<'a>(dice: &mut Dice, known: &'a Known) -> (&'a Place, BTreeMap<Place, Bytes>, String) {
    loop {
        let (place, bytes) = pick(dice, known, true);
        let mut json = Json::parse(bytes).unwrap();
        let what = mutate_json(dice, &mut json);
        if *bytes != json.bytes() {
            return (place, forge::forge(&known.image, place, json), what);
        }
    }
}

fn report(name: &str, tally: &Tally) {
    headwater_conformance::report(format_args!(
        "{name}: {} cases; by object (cases, detected) {:?}; errors {:?}",
        tally.ran, tally.detected, tally.errors
    ));
    let some: Vec<&String> = tally.failures.iter().take(20).collect();
    assert!(some.is_empty(), "seed {SEED:#x}, {} of {} cases fail:\n{some:#?}", tally.failures.len(), tally.ran);
}

#[tokio::test]
async fn an_undamaged_catalog_reads_right() {
    let known = known(SEED).await;
    let (authority, objects) = known.image.mount(&BTreeMap::new()).await;
    let catalog = Catalog::open(Parts::new(registry(), authority, objects)).await.unwrap();
    let mut out = Outcome::default();
    compare(&catalog, &known, &mut Dice::new(SEED, 0), &mut out).await;
    assert!(out.errors.is_empty() && out.wrong.is_empty(), "{out:?}");
}

/// The forger's control: where what was changed means nothing, nobody finds anything.
#[tokio::test]
async fn a_forger_makes_every_digest_right() {
    let known = known(SEED).await;
    for (place, bytes) in known.image.0.iter().filter(|(place, _)| ["head", "segment", "version object"].contains(&place.kind())) {
        let mut json = Json::parse(bytes).unwrap();
        let harmless = |value: &mut Json| value.set("actor", Json::text("somebody")) | value.set("statistics", Json::List(Vec::new()));
        if !json.visit(&mut { harmless }) {
            continue;
        }
        let changed = forge::forge(&known.image, place, json);
        assert!(place.kind() == "head" || changed.len() > 1, "nothing leads to {place:?}");
        let (authority, objects) = known.image.mount(&changed).await;
        let branch = Catalog::open(Parts::new(registry(), authority, objects)).await.unwrap().branch("main").unwrap();
        let snapshot = branch.snapshot().await.unwrap();
        assert_eq!(snapshot.log(usize::MAX).await.unwrap().len(), known.log.len(), "{place:?}");
        for (key, rows) in &known.states.last().unwrap().rows {
            assert_eq!(read(&snapshot, key).await.unwrap(), *rows, "{place:?}");
        }
        let seq = Dice::new(SEED, changed.len() as u64).below(known.states.len()) as u64;
        let past = snapshot.at(At::Seq(seq)).await.unwrap();
        for (key, rows) in &known.states[seq as usize].rows {
            assert_eq!(read(&past, key).await.unwrap(), *rows, "{place:?}");
        }
    }
}

#[tokio::test]
async fn damaged_objects_give_typed_errors_or_the_right_rows() {
    let (known, foreign) = (known(SEED).await, Known::build(SEED + 1, script).await);
    let tally = std::thread::spawn(move || run(Class::Mutated, Control::Memory, MUTATIONS, &known, &foreign)).join().unwrap();
    report("mutated", &tally);
    assert_eq!(tally.ran, MUTATIONS);
    for (kind, (ran, detected)) in &tally.detected {
        // Only spaces behind a head or a catalog record, which any JSON tool may add, change nothing.
        let sealed = ["head", "catalog record"].contains(kind);
        assert!(*ran > 100 && (detected == ran || sealed && detected * 20 > ran * 19), "{kind}: {detected} of {ran}");
    }
}

/// The same code reads them, whatever kept them: fewer cases, because every one waits for the disk.
#[tokio::test]
async fn damaged_rows_of_a_sqlite_file_give_typed_errors_or_the_right_rows() {
    let (known, foreign) = (known(SEED).await, Known::build(SEED + 1, script).await);
    let run =
        move || (run(Class::Mutated, Control::Sqlite, ROWS, &known, &foreign), run(Class::Forged, Control::Sqlite, ROWS, &known, &known));
    let (mutated, forged) = std::thread::spawn(run).join().unwrap();
    report("mutated", &mutated);
    report("forged", &forged);
    assert_eq!((mutated.ran, forged.ran), (ROWS, ROWS));
    assert!(mutated.detected["head"].1 * 20 > mutated.detected["head"].0 * 19 && mutated.detected["segment"].1 > 0);
}

#[tokio::test]
async fn forged_objects_give_typed_errors_or_a_consistent_reading() {
    let known = known(SEED).await;
    let tally = std::thread::spawn(move || run(Class::Forged, Control::Memory, FORGERIES, &known, &known)).join().unwrap();
    report("forged", &tally);
    assert_eq!(tally.ran, FORGERIES);
}
