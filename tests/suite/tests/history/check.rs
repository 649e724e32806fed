//! Whether what clients were told could have happened one thing after the other, each between its invocation and its response.

use std::collections::{BTreeMap, BTreeSet};

use headwater_conformance::faults::Network;
use headwater_core::head::Event as Transition;
use headwater_core::ids::{CommitId, TableId};
use headwater_core::store::Pin;
use headwater_core::verify::Depth;
use headwater_core::{Catalog, ErrorKind, LogEntry};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::action::{Action, Step, Tables};
use super::client::{Event, Outcome, World};
use super::numbers::contents;

/// What a clean history held.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    pub(crate) commits: usize,
    pub(crate) unknown: usize,
    pub(crate) unknown_there: usize,
    pub(crate) settled: usize,
    pub(crate) failed: usize,
    pub(crate) reads: usize,
    pub(crate) segments: usize,
    pub(crate) requests: usize,
    pub(crate) faults: usize,
}

impl Held {
    /// Adds what another history held.
    pub(crate) fn join(&mut self, other: &Self) {
        let Self { commits, unknown, unknown_there, settled, failed, reads, segments, requests, faults } = other;
        self.commits += commits;
        self.unknown += unknown;
        self.unknown_there += unknown_there;
        self.settled += settled;
        self.failed += failed;
        self.reads += reads;
        self.segments += segments;
        self.requests += requests;
        self.faults += faults;
    }
}

/// The journal, and what was there after each of its commits.
struct Journal {
    /// The step that each commit was asked for by, from seq 1 on.
    steps: Vec<usize>,
    commits: Vec<CommitId>,
    /// The model's tables after so many commits.
    model: Vec<Tables>,
}

/// Checks a history that has come to its end. Everything that was under way must have arrived. An anomaly is an error that names it.
pub(crate) async fn check(world: &World, steps: &[Step]) -> Result<Held, String> {
    let steps: BTreeMap<usize, &Step> = steps.iter().map(|step| (step.number, step)).collect();
    let catalog = Catalog::open(world.parts(&Network::calm(), u64::MAX - 1)).await.map_err(|error| format!("{error:?}"))?;
    let snapshot = catalog.branch("main").unwrap().snapshot().await.map_err(|error| format!("{error:?}"))?;
    let mut log = snapshot.log(usize::MAX).await.map_err(|error| format!("the journal cannot be read: {error:?}"))?;
    log.reverse();
    let journal = replay(world, &log, &steps).await?;
    let mut events = world.events();
    events.sort_by_key(|event| event.returned);
    let mut held = Held { commits: journal.steps.len(), ..Held::default() };
    outcomes(&journal, &events, &mut held)?;
    order(&journal, &events)?;
    reads(&journal, &events, &steps, &mut held)?;
    failures(&journal, &events, &steps, &mut held)?;
    let report = catalog.verify(Depth::Metadata).await.map_err(|error| format!("{error:?}"))?;
    held.segments = world.setting.authority.list_records("segment").await.map_err(|error| format!("{error:?}"))?.len();
    if report.ok() { Ok(held) } else { Err(format!("verify: {:?}", report.problems)) }
}

/// The journal is a legal sequence of the model, and what is there after each commit is what the model says.
async fn replay(world: &World, log: &[LogEntry], steps: &BTreeMap<usize, &Step>) -> Result<Journal, String> {
    let mut journal = Journal { steps: Vec::new(), commits: Vec::new(), model: vec![Tables::new()] };
    let (mut live, mut model): (BTreeMap<TableId, (String, Pin)>, _) = (BTreeMap::new(), Tables::new());
    let mut known: BTreeMap<Pin, Vec<i64>> = BTreeMap::new();
    for (seq, LogEntry { entry, body }) in (1..).zip(log) {
        if entry.seq != seq {
            return Err(format!("seq {} stands where seq {seq} should", entry.seq));
        }
        let message = entry.message.as_deref().unwrap_or_default();
        let step: usize = message.parse().map_err(|_| "an entry of nobody's")?;
        for event in &body.events {
            match event {
                Transition::Registered { table_id, key, pin, .. } | Transition::Recreated { table_id, key, pin, .. } => {
                    live.insert(*table_id, (key.to_string(), pin.clone()));
                }
                Transition::Written { table_id, pin, .. } => {
                    live.entry(*table_id).and_modify(|table| table.1 = pin.clone());
                }
                Transition::Renamed { table_id, to, .. } => {
                    live.entry(*table_id).and_modify(|table| table.0 = to.to_string());
                }
                Transition::Dropped { table_id, .. } => drop(live.remove(table_id)),
                Transition::HandedOver { .. } => return Err(format!("seq {seq} hands a table over")),
            }
        }
        match steps.get(&step) {
            Some(asked) if asked.action.writes() => asked
                .action
                .apply(step, &mut model)
                .map_err(|why| format!("seq {seq} is step {step}, {:?}, which the model refuses there: {}", asked.action, why.name()))?,
            _ if step == 0 => model.extend(["a", "b", "c", "counter"].map(|table| (table.to_owned(), Vec::new()))),
            _ => return Err(format!("seq {seq} is step {step}, which writes nothing")),
        }
        let mut tables = Tables::new();
        for (key, pin) in live.values() {
            if !known.contains_key(pin) {
                let path = Path::from(pin.path.as_str());
                let get = async { world.objects.get(&path).await?.bytes().await };
                let bytes = get.await.map_err(|error| format!("seq {seq}: {error}"))?;
                known.insert(pin.clone(), contents(pin, &bytes).map_err(|error| format!("seq {seq}: {error:?}"))?);
            }
            tables.insert(key.clone(), known[pin].clone());
        }
        if tables != model {
            return Err(format!("after seq {seq}, step {step}, there is {tables:?}, and the model has {model:?}"));
        }
        journal.steps.push(step);
        journal.commits.push(entry.commit);
        journal.model.push(tables);
    }
    Ok(journal)
}

impl Journal {
    fn seq(&self, step: usize) -> Option<u64> {
        self.steps.iter().position(|other| *other == step).map(|at| at as u64 + 1)
    }
}

/// What was acknowledged is there, where it was said to be; what failed for good is not; nothing is there twice.
fn outcomes(journal: &Journal, events: &[Event], held: &mut Held) -> Result<(), String> {
    let distinct: BTreeSet<_> = journal.steps.iter().collect();
    if distinct.len() != journal.steps.len() {
        return Err(format!("a step was committed twice: {:?}", journal.steps));
    }
    for event in events {
        let (step, there) = (event.step, journal.seq(event.step));
        match &event.outcome {
            Outcome::Committed { seq, commit, published } => {
                if !published {
                    return Err(format!("step {step} was told that it changes nothing, and it always does"));
                }
                if there != Some(*seq) || *commit != Some(journal.commits[*seq as usize - 1]) {
                    return Err(format!("step {step} was acknowledged as seq {seq}, {commit:?}, and is at {there:?}"));
                }
                held.settled += usize::from(event.again);
            }
            Outcome::Unknown if !event.again => {
                held.unknown += 1;
                held.unknown_there += usize::from(there.is_some());
            }
            // What is tried again fails without a word on what became of the first attempt.
            Outcome::Failed(kind) if !event.again => {
                if let Some(seq) = there {
                    return Err(format!("step {step} failed for good ({}), and is there as seq {seq}", kind.name()));
                }
                held.failed += 1;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The seqs that a client could know of by that time, because somebody had been told.
fn known_before(events: &[Event], time: u64) -> u64 {
    let told = events.iter().take_while(|event| event.returned < time).map(|event| match event.outcome {
        Outcome::Committed { seq, .. } | Outcome::Read { seq, .. } => seq,
        _ => 0,
    });
    told.max().unwrap_or_default()
}

/// When each step was first invoked.
fn invocations(events: &[Event]) -> BTreeMap<usize, u64> {
    let mut invoked = BTreeMap::new();
    for event in events {
        let first = invoked.entry(event.step).or_insert(event.invoked);
        *first = event.invoked.min(*first);
    }
    invoked
}

/// A commit comes behind all that was known when it was asked for: nobody knew of it before.
fn order(journal: &Journal, events: &[Event]) -> Result<(), String> {
    let invoked = invocations(events);
    for (seq, step) in (1..).zip(&journal.steps).filter(|(_, step)| **step > 0) {
        let Some(time) = invoked.get(step) else { return Err(format!("seq {seq} is step {step}, which nobody asked for")) };
        let known = known_before(events, *time);
        if known >= seq {
            return Err(format!("step {step} is seq {seq}, and seq {known} was known before it was asked for"));
        }
    }
    Ok(())
}

/// A read is exactly one state of the model, and not an older one than was known when it was asked for.
fn reads(journal: &Journal, events: &[Event], steps: &BTreeMap<usize, &Step>, held: &mut Held) -> Result<(), String> {
    for event in events {
        let Outcome::Read { seq, commit, tables } = &event.outcome else { continue };
        let Some(model) = journal.model.get(*seq as usize) else { return Err(format!("step {} read seq {seq}", event.step)) };
        if tables != model {
            return Err(format!("step {} read {tables:?} at seq {seq}, and the model has {model:?}", event.step));
        }
        if *commit != seq.checked_sub(1).map(|at| journal.commits[at as usize]) {
            return Err(format!("step {} read seq {seq} under the name of {commit:?}", event.step));
        }
        let known = known_before(events, event.invoked);
        if *seq < known && steps.get(&event.step).is_some_and(|step| step.action == Action::Read) {
            return Err(format!("step {} read seq {seq}, and seq {known} was known before", event.step));
        }
        held.reads += 1;
    }
    Ok(())
}

/// What failed failed for a reason that there was, at some moment between its invocation and its response.
fn failures(journal: &Journal, events: &[Event], steps: &BTreeMap<usize, &Step>, held: &mut Held) -> Result<(), String> {
    let invoked = invocations(events);
    for event in events {
        let (Outcome::Failed(kind), Some(step)) = (&event.outcome, steps.get(&event.step)) else { continue };
        match kind {
            ErrorKind::Unavailable | ErrorKind::Conflict | ErrorKind::ReadSetChanged => {}
            ErrorKind::NotFound | ErrorKind::AlreadyExists if step.action.writes() => {
                let from = known_before(events, event.invoked) as usize;
                let to = (1..).zip(&journal.steps).filter(|(_, step)| invoked.get(step).is_none_or(|time| *time < event.returned));
                let to = to.map(|(seq, _): (usize, _)| seq).max().unwrap_or_default();
                let there = (from..=to).any(|seq| step.action.apply(step.number, &mut journal.model[seq].clone()) == Err(*kind));
                if !there {
                    return Err(format!(
                        "step {} failed ({:?}), for which there was no reason from seq {from} to {to}",
                        step.number, event.error
                    ));
                }
            }
            _ => return Err(format!("step {} failed: {:?}", step.number, event.error)),
        }
        held.failed += usize::from(event.again);
    }
    Ok(())
}
