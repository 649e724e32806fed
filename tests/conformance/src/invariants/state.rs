//! The rules about registers, objects, and what callers were told.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use headwater_core::head::TAIL_BYTES;
use headwater_core::json::encode;

use super::Evidence;

/// Rule 1.
pub(super) fn writes_differ(evidence: &Evidence) -> Result<(), String> {
    let heads =
        evidence.history.iter().map(|(branch, history)| (branch.to_string(), history.iter().map(|written| &written.bytes).collect()));
    let records = evidence.records.iter().map(|(key, bodies)| (key.to_string(), bodies.iter().collect()));
    for (register, bodies) in heads.chain(records) {
        let bodies: Vec<&Bytes> = bodies;
        if bodies.iter().collect::<BTreeSet<_>>().len() != bodies.len() {
            return Err(format!("{register} was written twice with the same bytes"));
        }
    }
    Ok(())
}

/// Rule 5.
pub(super) fn outcomes_are_true(evidence: &Evidence) -> Result<(), String> {
    let mut journal = BTreeSet::new();
    for head in evidence.last_heads() {
        journal.extend(evidence.journal(head)?.into_iter().map(|entry| &entry.token));
    }
    if let Some(token) = evidence.acknowledged.iter().find(|token| !journal.contains(token)) {
        return Err(format!("{token} was acknowledged and is not in the journal"));
    }
    match evidence.refused.iter().find(|token| journal.contains(token)) {
        Some(token) => Err(format!("{token} was refused and is in the journal")),
        None => Ok(()),
    }
}

/// Rule 8.
pub(super) fn everything_reached_is_there(evidence: &Evidence) -> Result<(), String> {
    for reached in &evidence.reached {
        let path = &reached.object.path;
        let Some(found) = evidence.objects.get(path) else { return Err(format!("{path} is reached and missing")) };
        if found.size != reached.object.size || reached.digest.as_ref().is_some_and(|digest| *digest != found.digest) {
            return Err(format!("{path} is not what its version names"));
        }
    }
    for (key, digest) in &evidence.referenced {
        match evidence.control.get(key) {
            None => return Err(format!("the record {key} is referenced and missing")),
            Some(found) if found.digest != *digest => return Err(format!("the record {key} is not what its pointer names")),
            Some(_) => {}
        }
    }
    Ok(())
}

/// Rule 11.
pub(super) fn counters_are_monotone(evidence: &Evidence) -> Result<(), String> {
    for (before, after) in evidence.steps() {
        if after.rev != before.rev + 1 {
            return Err(format!("rev {} followed rev {}", after.rev, before.rev));
        }
        let counters = [
            ("gc epoch", before.gc_epoch, after.gc_epoch),
            ("floor", before.floor, after.floor),
            ("fence epoch", before.fence.epoch, after.fence.epoch),
            ("seq", before.seq, after.seq),
            ("time", before.time, after.time),
        ];
        if let Some((counter, from, to)) = counters.into_iter().find(|(_, from, to)| to < from) {
            return Err(format!("the {counter} went from {from} back to {to} at rev {}", after.rev));
        }
    }
    Ok(())
}

/// Rule 14.
pub(super) fn epochs_match(evidence: &Evidence) -> Result<(), String> {
    for (before, after) in evidence.steps() {
        for entry in evidence.journal(after)?.iter().filter(|entry| entry.seq > before.seq) {
            if entry.epoch != after.fence.epoch {
                return Err(format!("seq {} carries epoch {}, the fence was at {}", entry.seq, entry.epoch, after.fence.epoch));
            }
        }
    }
    Ok(())
}

/// Rule 17.
pub(super) fn heads_stay(evidence: &Evidence) -> Result<(), String> {
    if let Some(branch) = evidence.absences.first() {
        return Err(format!("a read did not find the head of {branch} after it had been written"));
    }
    for (branch, history) in &evidence.history {
        let now = evidence.now.get(branch).and_then(Option::as_ref);
        match (now, history.last()) {
            (None, _) => return Err(format!("the head of {branch} was written and is absent")),
            (Some(now), Some(last)) if *now != last.bytes => return Err(format!("the head of {branch} is not the last one written")),
            _ => {}
        }
    }
    Ok(())
}

/// What a head holds besides its tables and its tail: pointers, counters, names.
const REST: usize = 6 * 1024;
/// One table head: names of 80 bytes, each of which JSON may escape, a pin, digests, a few properties.
const PER_TABLE: usize = 2 * 1024;

/// Rule 18.
pub(super) fn heads_are_bounded(evidence: &Evidence) -> Result<(), String> {
    for written in evidence.history.values().flatten() {
        let (head, width) = (&written.head, written.head.tables.len());
        let tables = encode(&head.tables).map_err(|error| error.to_string())?.len();
        if tables > REST + width * PER_TABLE {
            return Err(format!("at rev {}, {width} tables take {tables} bytes", head.rev));
        }
        let bytes = written.bytes.len();
        if bytes > tables + TAIL_BYTES + REST {
            return Err(format!("at rev {}, the head has {bytes} bytes, {tables} of them for its tables", head.rev));
        }
    }
    Ok(())
}

/// Rule 22.
pub(super) fn views_are_repeatable(evidence: &Evidence) -> Result<(), String> {
    let mut known: BTreeMap<_, &str> = BTreeMap::new();
    for view in &evidence.views {
        match &view.again {
            Err(error) => return Err(format!("seq {} cannot be read again: {error}", view.seq)),
            Ok(Some(again)) if *again != view.first => return Err(format!("seq {} has other rows than it had", view.seq)),
            Ok(_) => {}
        }
        if known.insert((&view.branch, view.seq), &view.first).is_some_and(|first| first != view.first) {
            return Err(format!("seq {} was read with different rows", view.seq));
        }
    }
    Ok(())
}
