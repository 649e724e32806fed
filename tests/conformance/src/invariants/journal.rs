//! The rules about the journal: what it says, folded from its beginning.

use std::collections::{BTreeMap, BTreeSet};

use headwater_core::head::{Checkpoint, Entry, Event, Head, Heads, TableHead, Tombstones};
use headwater_core::ids::{Incarnation, TableId};

use super::Evidence;

/// Rule 2.
pub(super) fn grows(evidence: &Evidence) -> Result<(), String> {
    for history in evidence.history.values() {
        let mut before: Vec<&Entry> = Vec::new();
        for written in history {
            let head = &written.head;
            let spilled = evidence.segments_of(head)?.last().and_then(|segment| segment.entries.last()).map_or(0, |entry| entry.seq);
            if let Some(first) = head.tail.first().filter(|first| first.seq != spilled + 1) {
                return Err(format!("the tail at rev {} begins at seq {}, the last segment ends at {spilled}", head.rev, first.seq));
            }
            let journal = evidence.journal(head)?;
            if let Some((entry, seq)) = journal.iter().zip(1..).find(|(entry, seq)| entry.seq != *seq) {
                return Err(format!("at rev {}, seq {} stands in the place of {seq}", head.rev, entry.seq));
            }
            if journal.len() as u64 != head.seq {
                return Err(format!("at rev {}, the journal has {} entries and the head counts {}", head.rev, journal.len(), head.seq));
            }
            if journal.len() < before.len() || journal[..before.len()] != before[..] {
                return Err(format!("at rev {}, an entry that was there is gone or changed", head.rev));
            }
            before = journal;
        }
    }
    Ok(())
}

fn nothing() -> Checkpoint {
    Checkpoint { tables: Heads::default(), tombstones: Tombstones::default() }
}

/// Applies entries to the state before them.
fn fold<'a>(evidence: &Evidence, state: &mut Checkpoint, entries: impl IntoIterator<Item = &'a Entry>, head: &Head) -> Result<(), String> {
    for entry in entries {
        let body = evidence.body(entry)?;
        for event in &body.events {
            let applied = state.tables.apply(event, entry.commit, &head.branch);
            applied.map_err(|error| format!("seq {} cannot follow what was before it: {error}", entry.seq))?;
        }
        if let Some(tombstones) = &body.tombstones {
            state.tombstones = tombstones.clone();
        }
    }
    Ok(())
}

/// Rule 3.
pub(super) fn folds(evidence: &Evidence) -> Result<(), String> {
    for written in evidence.history.values().flatten() {
        let head = &written.head;
        let mut state = nothing();
        for segment in evidence.segments_of(head)? {
            fold(evidence, &mut state, &segment.entries, head)?;
            if state != segment.checkpoint {
                return Err(format!("the checkpoint of segment {} is not what the journal gives", segment.number));
            }
        }
        fold(evidence, &mut state, &head.tail, head)?;
        if state != head.checkpoint() {
            return Err(format!("the tables of the head at rev {} are not what the journal gives", head.rev));
        }
    }
    Ok(())
}

/// Rule 4.
pub(super) fn tokens_are_unique(evidence: &Evidence) -> Result<(), String> {
    for head in evidence.last_heads() {
        let mut seen = BTreeMap::new();
        for entry in evidence.journal(head)? {
            if let Some(first) = seen.insert(entry.token.clone(), entry.seq) {
                return Err(format!("the token {} stands at seq {first} and at seq {}", entry.token, entry.seq));
            }
        }
    }
    Ok(())
}

/// Rule 6.
pub(super) fn swaps_change_what_they_name(evidence: &Evidence) -> Result<(), String> {
    for (before, after) in evidence.steps() {
        let mut named = BTreeSet::new();
        for entry in evidence.journal(after)?.iter().filter(|entry| entry.seq > before.seq) {
            named.extend(evidence.body(entry)?.events.iter().map(Event::table_id));
        }
        let ids: BTreeSet<TableId> = before.tables.iter().chain(after.tables.iter()).map(|table| table.table_id).collect();
        for id in ids.difference(&named) {
            if before.tables.by_id(*id) != after.tables.by_id(*id) {
                return Err(format!("the swap to rev {} changed the table {id}, which none of its entries names", after.rev));
            }
        }
        if before.tombstones != after.tombstones && named.is_empty() {
            return Err(format!("the swap to rev {} changed the tombstones and has no entry", after.rev));
        }
    }
    Ok(())
}

/// Rule 7.
pub(super) fn read_sets_hold(evidence: &Evidence) -> Result<(), String> {
    for head in evidence.last_heads() {
        let mut state = nothing();
        for entry in evidence.journal(head)? {
            let body = evidence.body(entry)?;
            if !body.reads.hold(&state.tables, &state.tombstones).map_err(|error| error.to_string())? {
                return Err(format!("what seq {} had read was not so right before it", entry.seq));
            }
            for event in &body.events {
                let complete = match event {
                    Event::Registered { key, .. } | Event::Recreated { key, .. } => body.reads.absent.contains(key),
                    Event::Renamed { table_id, to, .. } => body.reads.tables.contains_key(table_id) && body.reads.absent.contains(to),
                    Event::Written { table_id, .. } | Event::HandedOver { table_id, .. } | Event::Dropped { table_id, .. } => {
                        body.reads.tables.contains_key(table_id)
                    }
                };
                let complete = complete && (!matches!(event, Event::Recreated { .. }) || body.reads.tombstones.is_some());
                if !complete {
                    return Err(format!("the read set of seq {} lacks what its change of {} rests on", entry.seq, event.table_id()));
                }
            }
            fold(evidence, &mut state, [entry], head)?;
        }
    }
    Ok(())
}

/// What became of an identity so far.
struct Life {
    live: bool,
    last: Incarnation,
    all: BTreeSet<Incarnation>,
}

/// Rule 16.
pub(super) fn identities_live_once(evidence: &Evidence) -> Result<(), String> {
    for head in evidence.last_heads() {
        let mut lives: BTreeMap<TableId, Life> = BTreeMap::new();
        for entry in evidence.journal(head)? {
            for event in &evidence.body(entry)?.events {
                if !lives_on(&mut lives, event) {
                    return Err(format!("seq {} makes a transition of {} that there is not: {event:?}", entry.seq, event.table_id()));
                }
            }
        }
        let live: BTreeSet<TableId> = head.tables.iter().map(|table| table.table_id).collect();
        let tombstones = evidence.tombstones.get(&head.branch).map(Vec::as_slice).unwrap_or_default();
        let dead: BTreeSet<TableId> = tombstones.iter().map(|table| table.table_id).collect();
        let (should_live, should_not): (Vec<_>, Vec<_>) = lives.iter().partition(|(_, life)| life.live);
        let ids = |lives: Vec<(&TableId, &Life)>| lives.into_iter().map(|(id, _)| *id).collect::<BTreeSet<_>>();
        if ids(should_live) != live {
            return Err("the live identities are not those the journal leaves alive".to_owned());
        }
        if ids(should_not) != dead || dead.len() != tombstones.len() || head.tombstones.count != dead.len() as u64 {
            return Err("the tombstoned identities are not those the journal leaves dead".to_owned());
        }
        let last_life = |table: &TableHead| lives.get(&table.table_id).is_some_and(|life| life.last == table.incarnation_id);
        if let Some(table) = head.tables.iter().chain(tombstones).find(|table| !last_life(table)) {
            return Err(format!("{} stands in another life than the journal's last", table.table_id));
        }
        let keys: BTreeSet<&str> = head.tables.iter().map(|table| table.key.as_str()).collect();
        if keys.len() != live.len() {
            return Err("two live identities have one name".to_owned());
        }
    }
    Ok(())
}

/// Whether the event is a transition from the identity's state, and makes it.
fn lives_on(lives: &mut BTreeMap<TableId, Life>, event: &Event) -> bool {
    match (event, lives.get_mut(&event.table_id())) {
        (Event::Registered { table_id, incarnation_id, .. }, None) => {
            let life = Life { live: true, last: *incarnation_id, all: BTreeSet::from([*incarnation_id]) };
            lives.insert(*table_id, life);
            true
        }
        (Event::Recreated { previous, incarnation_id, .. }, Some(life)) if !life.live && life.last == *previous => {
            life.live = true;
            life.last = *incarnation_id;
            life.all.insert(*incarnation_id)
        }
        (Event::Dropped { incarnation_id, .. }, Some(life)) if life.live && life.last == *incarnation_id => {
            life.live = false;
            true
        }
        (
            Event::Written { incarnation_id, .. } | Event::HandedOver { incarnation_id, .. } | Event::Renamed { incarnation_id, .. },
            Some(life),
        ) => life.live && life.last == *incarnation_id,
        _ => false,
    }
}
