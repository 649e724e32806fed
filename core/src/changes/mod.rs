//! What happened between two states of a branch: table by table, and row by row.

mod cursor;
mod encode;
mod rows;
mod table;

pub use self::cursor::Cursor;
pub use self::table::{RowChange, RowChanges, RowCounts, TableChange};
use crate::error::{Error, ErrorKind, Result};
use crate::head::TableHead;
use crate::name::TableKey;
use crate::snapshot::{At, Snapshot};

/// The earlier of two states.
#[derive(Clone, Debug)]
pub enum Since {
    /// A point of the branch's history.
    At(At),
    /// What was kept earlier.
    Cursor(Cursor),
    /// A snapshot that is at hand.
    Snapshot(Snapshot),
}

impl From<u64> for Since {
    fn from(seq: u64) -> Self {
        Self::At(At::Seq(seq))
    }
}

impl From<At> for Since {
    fn from(at: At) -> Self {
        Self::At(at)
    }
}

impl From<Cursor> for Since {
    fn from(cursor: Cursor) -> Self {
        Self::Cursor(cursor)
    }
}

impl From<&Snapshot> for Since {
    fn from(snapshot: &Snapshot) -> Self {
        Self::Snapshot(snapshot.clone())
    }
}

impl Snapshot {
    /// This state, to be kept as text and given to [`Snapshot::changes`] later. No request.
    pub fn cursor(&self) -> Cursor {
        Cursor { catalog: self.catalog.record.catalog, branch: self.branch().clone(), seq: self.seq(), commit: self.commit() }
    }

    /// What happened from an earlier state of the branch to this one. Compares the table heads of the two: no data is read before
    /// [`TableChange::rows`] is asked for, and nothing of the commits between.
    ///
    /// Cost: none where the earlier state is a snapshot, or this very state; otherwise that of [`Snapshot::at`], O(log n) requests over n
    /// commits.
    ///
    /// Errors: `InvalidInput` for a cursor or snapshot of another catalog or branch, and for a state later than this one; `NotFound` for a
    /// point the branch never had, or a cursor to a history that was replaced; `SnapshotExpired` below the retention floor.
    pub async fn changes(&self, since: impl Into<Since>) -> Result<Changes> {
        let since = self.resolve(since.into()).await.map_err(|error| error.during("changes"))?;
        if since.seq() > self.seq() {
            let problem = format!(
                "seq {} is later than seq {}; changes go from an earlier state to a later one: exchange the two",
                since.seq(),
                self.seq()
            );
            return Err(Error::invalid(problem).during("changes"));
        }
        Ok(Changes { since, until: self.clone() })
    }

    async fn resolve(&self, since: Since) -> Result<Snapshot> {
        match since {
            Since::At(At::Seq(seq)) if seq == self.seq() => Ok(self.clone()),
            Since::At(at) => self.at(at).await,
            Since::Snapshot(snapshot) => {
                self.own(&snapshot.cursor())?;
                if snapshot.incarnation() == self.incarnation() {
                    return Ok(snapshot);
                }
                Err(replaced(&snapshot.cursor()))
            }
            Since::Cursor(cursor) => {
                self.own(&cursor)?;
                if cursor == self.cursor() {
                    return Ok(self.clone());
                }
                if cursor.seq > self.view.head.seq {
                    let problem = format!(
                        "the cursor is at seq {} and this state of branch {} at seq {}; take a newer snapshot, or, if an older state of the \
                         catalog was restored, read the tables whole and go on from a new cursor",
                        cursor.seq,
                        self.branch(),
                        self.view.head.seq
                    );
                    return Err(Error::new(ErrorKind::NotFound, problem));
                }
                let past = self.at(At::Seq(cursor.seq)).await?;
                if past.commit() == cursor.commit { Ok(past) } else { Err(replaced(&cursor)) }
            }
        }
    }

    /// Refuses a place in another catalog or branch.
    fn own(&self, other: &Cursor) -> Result<()> {
        let own = self.cursor();
        let (what, theirs, ours) = match (own.catalog == other.catalog, own.branch == other.branch) {
            (false, _) => ("catalog", other.catalog.to_string(), own.catalog.to_string()),
            (true, false) => ("branch", other.branch.to_string(), own.branch.to_string()),
            (true, true) => return Ok(()),
        };
        let problem = format!("it is a state of {what} {theirs}, and this is {what} {ours}; ask the {what} it was taken from");
        Err(Error::invalid(problem).at("cursor", other))
    }
}

fn replaced(cursor: &Cursor) -> Error {
    let problem = "the branch's history does not have this commit: the branch or an older state of the catalog came in its place; read the \
                   tables whole and go on from a new cursor";
    Error::new(ErrorKind::NotFound, problem).at("cursor", cursor)
}

/// What happened between two states of a branch.
#[derive(Clone, Debug)]
pub struct Changes {
    since: Snapshot,
    until: Snapshot,
}

impl Changes {
    /// The earlier state.
    pub fn since(&self) -> &Snapshot {
        &self.since
    }

    /// The later state. Its [`Snapshot::cursor`] is where the next changes begin.
    pub fn until(&self) -> &Snapshot {
        &self.until
    }

    /// Every table that is not as it was, by name. No request.
    pub fn tables(&self) -> Vec<TableChange> {
        let kept = self.until.tables().map(|after| self.pair(&after.key, self.since.heads().by_id(after.table_id), Some(after)));
        let gone = self.since.tables().filter(|before| self.until.heads().by_id(before.table_id).is_none());
        let all = kept.chain(gone.map(|before| self.pair(&before.key, Some(before), None)));
        let mut changed: Vec<TableChange> = all.filter(TableChange::is_any).collect();
        // A name may stand twice: a table was dropped and another created.
        changed.sort_by(|a, b| (&a.key, a.after.is_some()).cmp(&(&b.key, b.after.is_some())));
        changed
    }

    /// The table that has this name in the later state, or else had it in the earlier one, changed or not. A name that went from one table to
    /// another means the later one: [`Changes::tables`] has both. No request. `NotFound` lists the names there are.
    pub fn table(&self, key: &str) -> Result<TableChange> {
        let name: TableKey = key.parse()?;
        let (earlier, later) = (self.since.heads(), self.until.heads());
        if let (None, Some(before)) = (later.by_key(&name), earlier.by_key(&name)) {
            let after = later.by_id(before.table_id);
            return Ok(self.pair(after.map_or(&name, |after| &after.key), Some(before), after));
        }
        let after = self.until.table(key)?;
        Ok(self.pair(&name, earlier.by_id(after.table_id), Some(after)))
    }

    fn pair(&self, key: &TableKey, before: Option<&TableHead>, after: Option<&TableHead>) -> TableChange {
        TableChange { catalog: self.until.catalog.clone(), key: key.clone(), before: before.cloned(), after: after.cloned() }
    }
}
