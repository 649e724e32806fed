//! A snapshot: an immutable view of one branch at one commit.

use std::fmt;
use std::sync::Arc;

use arrow_schema::SchemaRef;

use crate::catalog::Inner;
use crate::error::{Error, ErrorKind, Result};
use crate::head::{Body, Checkpoint, Entry, HeadView, Heads, TableHead, Tombstones};
use crate::history::History;
use crate::ids::{CommitId, Incarnation};
use crate::name::{BranchName, TableKey};
use crate::store::{Description, Partition, Reached, Scan};
use crate::tombstones;

/// A point in a branch's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// After this many commits.
    Seq(u64),
    /// After this commit.
    Commit(CommitId),
    /// After the last commit that is not later than this, ms since 1970.
    Time(u64),
}

/// One commit of the journal, with its body.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// The entry.
    pub entry: Entry,
    /// What it did and what it had read.
    pub body: Body,
}

/// An immutable view of a branch. Cheap to clone; it does not change, and reading it again gives the same rows (rule 22) or
/// `SnapshotExpired`.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) catalog: Arc<Inner>,
    /// The head this view was derived from: later than the view itself after [`Snapshot::at`].
    pub(crate) view: Arc<HeadView>,
    past: Option<Arc<Past>>,
}

/// A state that is no longer the head's.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) seq: u64,
    pub(crate) commit: Option<CommitId>,
    pub(crate) time: u64,
    pub(crate) state: Checkpoint,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("branch", self.branch()).field("seq", &self.seq()).finish_non_exhaustive()
    }
}

impl Snapshot {
    pub(crate) fn current(catalog: Arc<Inner>, view: Arc<HeadView>) -> Self {
        Self { catalog, view, past: None }
    }

    /// The branch.
    pub fn branch(&self) -> &BranchName {
        &self.view.head.branch
    }

    /// The branch's life.
    pub fn incarnation(&self) -> Incarnation {
        self.view.head.incarnation
    }

    /// Commits up to this view.
    pub fn seq(&self) -> u64 {
        self.past.as_ref().map_or(self.view.head.seq, |past| past.seq)
    }

    /// Swaps up to this view; unknown for a past one.
    pub fn rev(&self) -> Option<u64> {
        self.past.is_none().then_some(self.view.head.rev)
    }

    /// The last commit.
    pub fn commit(&self) -> Option<CommitId> {
        self.past.as_ref().map_or(self.view.head.commit, |past| past.commit)
    }

    /// The last commit's time, ms since 1970; 0 where there is none.
    pub fn time_ms(&self) -> u64 {
        self.past.as_ref().map_or(self.view.head.time, |past| past.time)
    }

    /// Bytes of the head this view was read from.
    pub fn head_bytes(&self) -> usize {
        self.view.bytes
    }

    pub(crate) fn heads(&self) -> &Heads {
        self.past.as_ref().map_or(&self.view.head.tables, |past| &past.state.tables)
    }

    pub(crate) fn tombstone_chain(&self) -> &Tombstones {
        self.past.as_ref().map_or(&self.view.head.tombstones, |past| &past.state.tombstones)
    }

    /// The live tables, in order of their identities.
    pub fn tables(&self) -> impl ExactSizeIterator<Item = &TableHead> {
        self.heads().iter()
    }

    /// A live table by name. No request. `NotFound` lists the names there are.
    pub fn table(&self, key: &str) -> Result<&TableHead> {
        let key: TableKey = key.parse()?;
        self.heads().by_key(&key).ok_or_else(|| {
            let mut known: Vec<&str> = self.tables().map(|head| head.key.as_str()).collect();
            known.sort_unstable();
            let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
            Error::new(
                ErrorKind::NotFound,
                format!("branch {} has no table {:?} at seq {}; {known}", self.branch(), key.as_str(), self.seq()),
            )
        })
    }

    /// The dropped tables, newest first. 1 request per drop or recreate ever made.
    pub async fn tombstones(&self) -> Result<Vec<TableHead>> {
        Ok(tombstones::read_all(self.catalog.authority(), self.tombstone_chain()).await?.0)
    }

    /// What a table holds. At most 1 request.
    pub async fn describe(&self, key: &str) -> Result<Description> {
        let head = self.table(key)?;
        describe(&self.catalog, head).await
    }

    /// A table's schema. At most 1 request.
    pub async fn schema(&self, key: &str) -> Result<SchemaRef> {
        Ok(self.describe(key).await?.schema)
    }

    /// The partitions of a scan of a table.
    pub async fn scan(&self, key: &str, scan: &Scan) -> Result<Vec<Partition>> {
        let head = self.table(key)?;
        let partitions = self.catalog.store.scan(&head.pin, scan).await.map_err(|error| error.at("table", &head.key).during("scan"))?;
        Ok(scan.converted(partitions))
    }

    /// Every object the table's version reaches.
    pub async fn reach(&self, key: &str) -> Result<Vec<Reached>> {
        let head = self.table(key)?;
        self.catalog.store.reach(std::slice::from_ref(&head.pin)).await.map_err(|error| error.at("table", &head.key).during("files"))
    }

    pub(crate) fn history(&self) -> History<'_> {
        History::new(self.catalog.authority(), &self.view.head)
    }

    /// The branch as it was at an earlier point, up to the head this view was derived from. O(log n) requests over n commits; none for the
    /// view's own state.
    ///
    /// Errors: `NotFound` for a point this branch never had (or has not reached yet), `SnapshotExpired` below the retention floor.
    pub async fn at(&self, at: At) -> Result<Self> {
        let past = self.history().state_at(at).await.map_err(|error| error.during("time travel"))?;
        Ok(Self { catalog: self.catalog.clone(), view: self.view.clone(), past: past.map(Arc::new) })
    }

    /// Up to `limit` commits, newest first, from this view back. 1 request for each segment the answer spans, none for the newest commits.
    pub async fn log(&self, limit: usize) -> Result<Vec<LogEntry>> {
        self.log_before(self.seq() + 1, limit).await
    }

    /// Up to `limit` commits with smaller numbers than `seq`, newest first. O(log n) requests to find the place, then as [`Snapshot::log`].
    pub async fn log_before(&self, seq: u64, limit: usize) -> Result<Vec<LogEntry>> {
        self.history().log(seq.min(self.seq() + 1), limit).await.map_err(|error| error.during("log"))
    }
}

/// A table's description, its schema checked against its head.
pub(crate) async fn describe(catalog: &Inner, head: &TableHead) -> Result<Description> {
    let description = catalog.store.describe(&head.pin).await.map_err(|error| error.at("table", &head.key))?;
    if crate::schema::schema_hash(&description.schema) != head.schema_hash || description.rows != head.rows {
        return Err(
            Error::corrupt(&head.pin.path, "the table version's schema or row count is not what its head says").at("table", &head.key)
        );
    }
    Ok(description)
}
