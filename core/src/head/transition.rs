//! The one function that turns events into heads. The publisher, history and verification all use it, so journal and heads cannot differ.

use super::{Event, Heads, TableHead, TableState};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::CommitId;
use crate::name::BranchName;

impl Heads {
    /// Applies one event of this commit on this branch. Returns the tombstone a drop leaves.
    ///
    /// | event | transition |
    /// |---|---|
    /// | registered | absent to live, new identity and life |
    /// | written | live to live, another version |
    /// | handed over | live to live, another owner, even at an equal version |
    /// | renamed | live to live, another key; identity and life unchanged |
    /// | dropped | live to tombstoned |
    /// | recreated | tombstoned to live, same identity, new life |
    ///
    /// Any other combination is an error and changes nothing. That a recreated identity is tombstoned is known from the tombstone chain,
    /// which the writer has read; here it can only be seen not to be live.
    pub fn apply(&mut self, event: &Event, commit: CommitId, branch: &BranchName) -> Result<Option<TableHead>> {
        let refuse = |kind, why: &str| Err(Error::new(kind, why).at("table", event.table_id()));
        let current = self.by_id(event.table_id());
        let next = match (current, event) {
            (
                None,
                Event::Registered { table_id, incarnation_id, key, pin, rows, schema_hash, properties }
                | Event::Recreated { table_id, incarnation_id, key, pin, rows, schema_hash, properties, .. },
            ) => {
                if let Event::Recreated { previous, .. } = event
                    && previous == incarnation_id
                {
                    return refuse(ErrorKind::Corrupt, "a recreated table must begin a new life");
                }
                TableHead {
                    table_id: *table_id,
                    incarnation_id: *incarnation_id,
                    key: key.clone(),
                    state: TableState::Live,
                    pin: pin.clone(),
                    rows: *rows,
                    schema_hash: schema_hash.clone(),
                    commit,
                    owner: branch.clone(),
                    properties: properties.clone(),
                }
            }
            (Some(head), Event::Written { incarnation_id, pin, rows, schema_hash, .. }) if head.incarnation_id == *incarnation_id => {
                TableHead { pin: pin.clone(), rows: *rows, schema_hash: schema_hash.clone(), commit, owner: branch.clone(), ..head.clone() }
            }
            (Some(head), Event::HandedOver { incarnation_id, owner, .. }) if head.incarnation_id == *incarnation_id => {
                TableHead { owner: owner.clone(), commit, ..head.clone() }
            }
            (Some(head), Event::Renamed { incarnation_id, from, to, .. })
                if head.incarnation_id == *incarnation_id && head.key == *from =>
            {
                TableHead { key: to.clone(), commit, ..head.clone() }
            }
            (Some(head), Event::Dropped { incarnation_id, key, .. }) if head.incarnation_id == *incarnation_id && head.key == *key => {
                let tombstone = TableHead { state: TableState::Tombstoned, commit, ..head.clone() };
                self.remove(tombstone.table_id);
                return Ok(Some(tombstone));
            }
            (Some(_), Event::Registered { .. } | Event::Recreated { .. }) => {
                return refuse(ErrorKind::AlreadyExists, "the table's identity is live already");
            }
            (Some(_), Event::Written { .. } | Event::HandedOver { .. } | Event::Renamed { .. } | Event::Dropped { .. }) => {
                return refuse(ErrorKind::Corrupt, "the event names another life or name of the table than the live one");
            }
            (None, Event::Written { .. } | Event::HandedOver { .. } | Event::Renamed { .. } | Event::Dropped { .. }) => {
                return refuse(ErrorKind::Corrupt, "the event changes a table that is not live");
            }
        };
        if self.by_key(&next.key).is_some_and(|other| other.table_id != next.table_id) {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("the table {:?} exists already", next.key.as_str())));
        }
        if current.is_none() && self.len() >= super::INLINE_TABLES {
            let limit = format!("a branch holds at most {} live tables in this build; drop some first", super::INLINE_TABLES);
            return Err(Error::new(ErrorKind::Unsupported, limit));
        }
        self.insert(next);
        Ok(None)
    }
}
