//! Step 7. After the swap nothing can fail the commit any more.

use super::prepare::Prepared;
use super::publish::Published;
use crate::head::{Event, Head};
use crate::ids::{CommitId, Token};
use crate::name::TableKey;

/// A commit's place in history.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Commit {
    /// Its number; for a no-op, that of the state that needed no change.
    pub seq: u64,
    /// Its identity; for a no-op, of the last commit of that state.
    pub commit: Option<CommitId>,
    /// Its token.
    pub token: Token,
    /// The tables it changed, in the order of the transaction; empty for a no-op.
    pub tables: Vec<CommittedTable>,
    /// Whether there is a journal entry: false for a no-op.
    pub published: bool,
    /// How often the closure ran.
    pub prepares: u32,
    /// Swaps lost to other writers.
    pub swaps_lost: u32,
    /// Mirrored tables (see [`crate::Lineage`]) that are committed, and whose chain could not be brought up to this commit: the next commit to
    /// them does it, or [`Snapshot::mirror`](crate::Snapshot::mirror).
    pub behind: Vec<TableKey>,
}

/// What a commit did to one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedTable {
    /// Its name after the commit (a dropped one's last name).
    pub key: TableKey,
    /// Rows in it after the commit (a dropped one's last count).
    pub rows: u64,
    /// Rows this commit brought.
    pub changed: u64,
}

impl Commit {
    pub(super) fn nothing(token: Token, head: &Head) -> Self {
        Self {
            seq: head.seq,
            commit: head.commit,
            token,
            tables: Vec::new(),
            published: false,
            prepares: 1,
            swaps_lost: 0,
            behind: Vec::new(),
        }
    }

    pub(super) fn of(prepared: &Prepared, seq: u64, commit: CommitId) -> Self {
        let tables = prepared.effects.iter().filter_map(|effect| {
            let old = effect.base.as_ref();
            let key = match &effect.event {
                Event::Registered { key, .. } | Event::Recreated { key, .. } | Event::Dropped { key, .. } => key,
                Event::Renamed { to, .. } => to,
                Event::Written { .. } | Event::HandedOver { .. } => &old?.key,
            };
            let staged = effect.staged.as_ref();
            let rows = staged.map(|staged| staged.rows).or(old.map(|head| head.rows)).unwrap_or_default();
            Some(CommittedTable { key: key.clone(), rows, changed: staged.map_or(0, |staged| staged.changed) })
        });
        Self {
            seq,
            commit: Some(commit),
            token: prepared.request.token.clone(),
            tables: tables.collect(),
            published: true,
            prepares: 1,
            swaps_lost: prepared.lost,
            behind: Vec::new(),
        }
    }

    pub(super) fn attempts(mut self, prepares: u32, lost: u32) -> Self {
        self.prepares = prepares;
        self.swaps_lost += lost;
        self
    }
}

/// Reports a published commit.
pub(super) fn finish(published: Published) -> Commit {
    Commit::of(&published.prepared, published.seq, published.commit)
}
