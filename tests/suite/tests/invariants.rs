//! Random histories against a model, and every rule over what they wrote.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::{DataType, Field};
use headwater_conformance::fixture::Memory;
use headwater_conformance::invariants::{Checked, RULES, assert_all, check_all};
use headwater_conformance::lab::{Lab, main};
use headwater_conformance::rows::{self, numbered, schema};
use headwater_conformance::tap::Tap;
use headwater_core::head::TAIL_ENTRIES;
use headwater_core::ids::{Environment, Token};
use headwater_core::{Branch, Catalog, Commit, Error, ErrorKind, Result, TransactOptions, Transaction};
use headwater_suite::{Local, Sqlite, registry};

/// Numbers that follow from a seed.
#[derive(Debug)]
struct Dice(AtomicU64);

impl Dice {
    fn roll(&self) -> u64 {
        let mut x = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::SeqCst);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    fn below(&self, bound: usize) -> usize {
        (self.roll() % bound as u64) as usize
    }
}

/// Time and randomness from a seed. The clock stands still, jumps and goes back.
#[derive(Debug)]
struct Seeded {
    dice: Dice,
    clock: Mutex<u64>,
}

impl Environment for Seeded {
    fn now_ms(&self) -> u64 {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        let jump = self.dice.roll() % 40;
        *clock = if jump < 10 { *clock - jump } else { *clock + jump / 4 };
        *clock
    }

    fn random(&self) -> u128 {
        u128::from(self.dice.roll()) << 64 | u128::from(self.dice.roll())
    }
}

const KEYS: [&str; 6] = ["a", "A", "b c", "d\"e", "\u{e4}", "100%"];

/// What the tables should hold: by name, the values of `id`, sorted; and the names of dropped tables, the last one at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    live: BTreeMap<String, Vec<i64>>,
    dropped: Vec<String>,
    columns: BTreeMap<String, usize>,
}

/// What a step asks for.
#[derive(Clone, Copy, Debug)]
enum Step {
    Create(&'static str),
    Append(&'static str, i64),
    Overwrite(&'static str, i64),
    Rename(&'static str, &'static str),
    Drop(&'static str),
    Recreate(&'static str),
    AddColumn(&'static str, usize),
    Copy(&'static str, &'static str),
    Fail(&'static str),
    Nothing,
}

impl Step {
    fn roll(dice: &Dice, number: usize) -> Self {
        let key = || KEYS[dice.below(KEYS.len())];
        match dice.below(22) {
            0..2 => Self::Create(key()),
            2..11 => Self::Append(key(), number as i64 * 10),
            11..13 => Self::Overwrite(key(), number as i64 * 10),
            13..15 => Self::Rename(key(), key()),
            15 => Self::Drop(key()),
            16 => Self::Recreate(key()),
            17 => Self::AddColumn(key(), number),
            18..20 => Self::Copy(key(), key()),
            20 => Self::Fail(key()),
            _ => Self::Nothing,
        }
    }

    async fn ask(self, tx: Transaction) -> Result<()> {
        match self {
            Self::Create(key) => tx.create_table(key, schema()).await.map(drop),
            Self::Append(key, id) => tx.append(&tx.table(key).await?, numbered(id..id + 3)).await,
            Self::Overwrite(key, id) => tx.overwrite(&tx.table(key).await?, numbered(id..id + 2)).await,
            Self::Rename(from, to) => tx.rename_table(&tx.table(from).await?, to).await,
            Self::Drop(key) => tx.drop_table(&tx.table(key).await?).await,
            Self::Recreate(key) => tx.recreate_table(key, Some(schema())).await.map(drop),
            Self::AddColumn(key, number) => {
                tx.add_columns(&tx.table(key).await?, vec![Field::new(format!("column {number}"), DataType::Int64, true)]).await
            }
            // Reads one table and writes another: the first is in the read set alone.
            Self::Copy(from, to) => {
                let ids = rows::ids(&rows::read_in(&tx, &tx.table(from).await?).await?);
                let rows: Vec<_> = ids.into_iter().map(|id| numbered(id..id + 1)).collect();
                tx.overwrite(&tx.table(to).await?, rows).await
            }
            Self::Fail(key) => {
                tx.append(&tx.table(key).await?, numbered(0..5)).await?;
                Err(Error::invalid("the closure changed its mind"))
            }
            Self::Nothing => Ok(()),
        }
    }
}

impl Model {
    /// What the step must do: change the model, or fail like this.
    fn step(&mut self, step: Step) -> Result<(), ErrorKind> {
        let known = |live: &BTreeMap<String, Vec<i64>>, key: &str| live.contains_key(key).then_some(()).ok_or(ErrorKind::NotFound);
        match step {
            Step::Create(key) => {
                known(&self.live, key).map_or(Ok(()), |()| Err(ErrorKind::AlreadyExists))?;
                self.live.insert(key.to_owned(), Vec::new());
                self.columns.insert(key.to_owned(), 2);
            }
            Step::Append(key, id) => self.live.get_mut(key).ok_or(ErrorKind::NotFound)?.extend(id..id + 3),
            Step::Overwrite(key, id) => *self.live.get_mut(key).ok_or(ErrorKind::NotFound)? = (id..id + 2).collect(),
            Step::Rename(from, to) => {
                known(&self.live, from)?;
                known(&self.live, to).map_or(Ok(()), |()| Err(ErrorKind::AlreadyExists))?;
                let (rows, columns) = (self.live.remove(from), self.columns.remove(from));
                self.live.insert(to.to_owned(), rows.unwrap_or_default());
                self.columns.insert(to.to_owned(), columns.unwrap_or_default());
            }
            Step::Drop(key) => {
                self.live.remove(key).ok_or(ErrorKind::NotFound)?;
                self.columns.remove(key);
                self.dropped.push(key.to_owned());
            }
            Step::Recreate(key) => {
                let last = self.dropped.iter().rposition(|dropped| dropped == key).ok_or(ErrorKind::NotFound)?;
                known(&self.live, key).map_or(Ok(()), |()| Err(ErrorKind::AlreadyExists))?;
                self.dropped.remove(last);
                self.live.insert(key.to_owned(), Vec::new());
                self.columns.insert(key.to_owned(), 2);
            }
            Step::AddColumn(key, _) => {
                known(&self.live, key)?;
                *self.columns.entry(key.to_owned()).or_default() += 1;
            }
            Step::Copy(from, to) => {
                let rows = self.live.get(from).ok_or(ErrorKind::NotFound)?.clone();
                *self.live.get_mut(to).ok_or(ErrorKind::NotFound)? = rows;
            }
            Step::Fail(key) => return known(&self.live, key).and(Err(ErrorKind::InvalidInput)),
            Step::Nothing => {}
        }
        Ok(())
    }

    /// What the catalog holds.
    async fn of(lab: &Lab) -> Self {
        let snapshot = lab.main().await.snapshot().await.unwrap();
        let mut model = Self::default();
        for head in snapshot.tables() {
            let key = head.key.to_string();
            let mut ids = rows::ids(&rows::read(&snapshot, &key).await.unwrap());
            ids.sort_unstable();
            model.columns.insert(key.clone(), snapshot.schema(&key).await.unwrap().fields().len());
            model.live.insert(key, ids);
        }
        let tombstones = snapshot.tombstones().await.unwrap();
        model.dropped = tombstones.iter().rev().map(|head| head.key.to_string()).collect();
        model
    }

    fn sorted(&self) -> Self {
        let mut sorted = self.clone();
        sorted.live.values_mut().for_each(|ids| ids.sort_unstable());
        sorted
    }
}

/// Takes one step on one handle and tells the recorder what came of it.
async fn take(lab: &Lab, branch: &Branch, step: Step, token: &Token, message: usize) -> Result<Commit> {
    let message = (message > 0).then(|| "m".repeat(message));
    let options = TransactOptions { message, token: Some(token.clone()), since: 0 };
    let outcome = branch.transact_with(options, |tx| step.ask(tx)).await;
    if outcome.as_ref().map_or(true, |commit| commit.published) {
        lab.recorder().told(token, &outcome);
    }
    outcome
}

/// One history. Returns the number of commits.
async fn history(lab: &Lab, seed: u64, steps: usize) -> u64 {
    println!("seed {seed}, {steps} steps");
    let environment = Arc::new(Seeded { dice: Dice(AtomicU64::new(!seed)), clock: Mutex::new(1_000_000) });
    let dice = Dice(AtomicU64::new(seed));
    lab.create().await;
    let open = || async {
        let mut parts = lab.parts(&Tap::new()).await;
        parts.environment = environment.clone();
        main(&Catalog::open(parts).await.unwrap())
    };
    let mut handles = [open().await, open().await, open().await];
    let (mut model, mut done) = (Model::default(), Vec::<(Token, Step, u64)>::new());
    for number in 0..steps {
        let handle = dice.below(handles.len());
        let token: Token = format!("step-{number}").parse().unwrap();
        match dice.below(24) {
            0 => handles[handle] = open().await,
            1 => lab.recorder().see(&handles[handle].snapshot().await.unwrap()).await.unwrap(),
            // The same request once more, from anywhere.
            2 if !done.is_empty() => {
                let (token, step, seq) = done[dice.below(done.len())].clone();
                let again = take(lab, &handles[handle], step, &token, 0).await.unwrap();
                assert_eq!(again.seq, seq, "step {number}: {step:?} once more");
            }
            // Several appends at once, from all handles, two of them from one.
            3 | 4 if !model.live.is_empty() => {
                let keys: Vec<&str> = KEYS.into_iter().filter(|key| model.live.contains_key(*key)).collect();
                let appends: Vec<(Step, Token, &Branch)> = (0..4)
                    .map(|i| {
                        let step = Step::Append(keys[dice.below(keys.len())], (number * 10 + i) as i64 * 10);
                        (step, format!("step-{number}-{i}").parse().unwrap(), &handles[i % handles.len()])
                    })
                    .collect();
                let taken = appends.iter().map(|(step, token, branch)| take(lab, branch, *step, token, 0));
                for (outcome, (step, token, _)) in futures::future::join_all(taken).await.into_iter().zip(&appends) {
                    model.step(*step).unwrap();
                    done.push((token.clone(), *step, outcome.unwrap().seq));
                }
            }
            big => {
                let step = Step::roll(&dice, number);
                let message = if big % 3 == 0 { 1_000 } else { 0 };
                let expected = model.step(step);
                match (take(lab, &handles[handle], step, &token, message).await, expected) {
                    (Ok(commit), Ok(())) if commit.published => done.push((token, step, commit.seq)),
                    (Ok(_), Ok(())) => {}
                    (Err(error), Err(kind)) => assert_eq!(error.kind(), kind, "step {number}: {step:?}: {error:?}"),
                    (outcome, expected) => panic!("step {number}: {step:?} should be {expected:?} and is {outcome:?}"),
                }
            }
        }
        if number % 25 == 24 {
            assert_eq!(Model::of(lab).await, model.sorted(), "after step {number}");
        }
    }
    assert_eq!(Model::of(lab).await, model.sorted());
    lab.verify().await;
    let evidence = lab.evidence().await;
    assert_all(&evidence);
    assert!(check_all(&evidence).is_empty());
    assert!(!evidence.views.is_empty() && !evidence.refused.is_empty() && evidence.acknowledged.len() > 50);
    let seq = lab.main().await.snapshot().await.unwrap().seq();
    assert!(seq > 2 * TAIL_ENTRIES as u64, "the journal should have spilled more than once");
    seq
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_rule_holds_over_random_histories_in_memory() {
    let lab = Lab::new(Memory::default(), registry(), "parquet");
    for seed in 1..=3 {
        println!("{} commits", history(&lab, seed, 300).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_rule_holds_over_a_random_history_on_a_local_disk() {
    println!("{} commits", history(&Lab::new(Local::default(), registry(), "parquet"), 4, 300).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_rule_holds_over_a_random_history_in_a_sqlite_file() {
    println!("{} commits", history(&Lab::new(Sqlite::default(), registry(), "parquet"), 5, 300).await);
}

/// The page people read and the rules that are checked say the same.
#[test]
fn the_documented_rules_are_the_checked_ones() {
    let page = include_str!("../../../docs/invariants.md");
    let rows: Vec<(u8, &str, &str)> = page
        .lines()
        .filter_map(|line| {
            let mut cells = line.split('|').map(str::trim).skip(1);
            Some((cells.next()?.parse().ok()?, cells.next()?, cells.next()?))
        })
        .collect();
    assert_eq!(rows.len(), RULES.len());
    for (rule, (number, holds, checked)) in RULES.iter().zip(rows) {
        assert_eq!((rule.number, rule.holds), (number, holds));
        match rule.checked {
            Checked::Here(_) => assert!(checked.starts_with("predicate"), "rule {number}"),
            Checked::Elsewhere(_) => assert_eq!(checked, "simulated disk", "rule {number}"),
            Checked::Later(feature) => assert_eq!(checked, format!("comes with {feature}")),
        }
    }
}
