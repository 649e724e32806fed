//! Step 3. The complete read set against the very head whose tag the swap expects: that is the arbitration (rule 7).

use super::barrier::check_writable;
use super::prepare::Prepared;
use crate::error::{Error, ErrorKind, Result};
use crate::head::{Event, Head};

/// A commit whose result is right on this head.
pub(super) struct Revalidated {
    pub(super) prepared: Box<Prepared>,
    _private: (),
}

/// Whether a prepared commit still holds.
pub(super) enum Checked {
    Valid(Revalidated),
    /// Something it had read is different here.
    Stale(Box<Prepared>),
    /// It must not be published here at all.
    Refused(Box<Prepared>, Error),
}

/// Compares. No request.
pub(super) fn check(prepared: Box<Prepared>, head: &Head) -> Checked {
    if let Err(error) = check_writable(head).and_then(|()| check_intents(&prepared, head)) {
        return Checked::Refused(prepared, error);
    }
    match holds(&prepared, head) {
        Ok(true) => Checked::Valid(Revalidated { prepared, _private: () }),
        Ok(false) => Checked::Stale(prepared),
        Err(error) => Checked::Refused(prepared, error),
    }
}

/// Tables an unfinished intent holds are nobody else's until it is finished (rule 12).
fn check_intents(prepared: &Prepared, head: &Head) -> Result<()> {
    let touched = |id| prepared.reads.tables.contains_key(id) || prepared.effects.iter().any(|effect| effect.event.table_id() == *id);
    match head.intents.iter().find(|intent| intent.tables.iter().any(touched)) {
        None => Ok(()),
        Some(intent) => {
            let problem = format!("unfinished work of {:?} holds a table of this commit; recover it first", intent.owner);
            Err(Error::new(ErrorKind::RecoveryPending, problem).at("intent", &intent.id))
        }
    }
}

fn holds(prepared: &Prepared, head: &Head) -> Result<bool> {
    // An epoch that moved means a vacuum may have counted the staged objects as garbage: they are staged again, under fresh names (rule 9).
    if prepared.incarnation != head.incarnation || prepared.gc_epoch != head.gc_epoch || prepared.epoch != head.fence.epoch {
        return Ok(false);
    }
    if !prepared.reads.hold(&head.tables, &head.tombstones)? {
        return Ok(false);
    }
    // A fresh identity is in no read set, and must not be live.
    let minted = |event: &Event| matches!(event, Event::Registered { .. } | Event::Recreated { .. });
    Ok(!prepared.effects.iter().any(|effect| minted(&effect.event) && head.tables.by_id(effect.event.table_id()).is_some()))
}
