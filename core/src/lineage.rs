//! Lineage: whether a table's versions stand for themselves, or also on a chain that programs follow which know nothing of Headwater.
//!
//! The chain is derived from the journal: a version's number there is the seq of the commit that published it. Who repeats the work, or does
//! it late, so writes the same object or one with a smaller number, and never moves the chain back.

use futures::future::join_all;

use crate::branch::Branch;
use crate::commit::{Commit, CommittedTable};
use crate::error::{Error, ErrorKind, Result};
use crate::head::{Event, TableHead};
use crate::history::History;
use crate::name::TableKey;
use crate::snapshot::Snapshot;
use crate::store::{DataStore, Mirror};

/// The property of a table head that names its lineage.
pub(crate) const PROPERTY: &str = "lineage";
const MIRRORED: &str = "mirrored";

/// Where a table's versions stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lineage {
    /// Each by itself: only a branch's head says which one is current.
    #[default]
    Detached,
    /// Also on the chain of the store's own format, after they were published: a program that knows the format finds the latest by itself.
    Mirrored,
}

impl Lineage {
    /// The name, as `--lineage` and `table show` print it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Detached => "detached",
            Self::Mirrored => MIRRORED,
        }
    }

    /// The property that says so, where it is not the default.
    pub(crate) fn property(self) -> Option<(String, String)> {
        (self == Self::Mirrored).then(|| (PROPERTY.to_owned(), MIRRORED.to_owned()))
    }

    /// `Unsupported` where the store has no such lineage.
    pub fn check(self, store: &dyn DataStore) -> Result<()> {
        match self {
            Self::Mirrored if store.mirror().is_none() => Err(unsupported(store)),
            Self::Mirrored | Self::Detached => Ok(()),
        }
    }
}

impl TableHead {
    /// Where the table's versions stand. `Corrupt` for a property no build writes.
    pub fn lineage(&self) -> Result<Lineage> {
        match self.properties.get(PROPERTY).map(String::as_str) {
            None => Ok(Lineage::Detached),
            Some(MIRRORED) => Ok(Lineage::Mirrored),
            Some(other) => Err(Error::corrupt(&self.key, format!("the table's lineage is {other:?}, which no build writes"))),
        }
    }
}

fn unsupported(store: &dyn DataStore) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the {} store's tables have no chain of versions to be mirrored on", store.kind()))
}

fn chain(store: &dyn DataStore) -> Result<&dyn Mirror> {
    store.mirror().ok_or_else(|| unsupported(store))
}

/// The mirrored tables a commit changed, brought up to it; the names of those where that failed. 1 request for each, side by side.
pub(crate) async fn follow(branch: &Branch, commit: &Commit) -> Vec<TableKey> {
    let Some(view) = branch.line.known() else { return Vec::new() };
    let (head, store) = (&view.head, branch.catalog.store.as_ref());
    let named = |table: &CommittedTable| head.tables.by_key(&table.key);
    let mirrored = |table: &TableHead| matches!(table.lineage(), Ok(Lineage::Mirrored)) && table.owner == head.branch;
    let tables: Vec<TableHead> = commit.tables.iter().filter_map(named).filter(|table| mirrored(table)).cloned().collect();
    if tables.is_empty() {
        return Vec::new();
    }
    // The head may be of later commits already, which changed the tables again: the commit's own versions are in its entry.
    let versions = async {
        let entry = head.tail.iter().find(|entry| Some(entry.commit) == commit.commit)?;
        History::new(branch.catalog.authority(), head).body(entry).await.ok()
    };
    let body = versions.await;
    let put = tables.into_iter().map(|table| {
        let of_table = |event: &&Event| event.table_id() == table.table_id;
        let pin = body.iter().flat_map(|body| &body.events).filter(of_table).find_map(Event::pin).cloned();
        // What renames a table makes no version: it is the same one under another number.
        let pin = pin.or_else(|| (Some(table.commit) == commit.commit).then(|| table.pin.clone()));
        async move {
            let put = async {
                let pin = pin.ok_or_else(|| Error::new(ErrorKind::Unavailable, "the commit has left the head's tail"))?;
                chain(store)?.put(table.table(), &pin, commit.seq).await
            };
            let error = put.await.err()?;
            tracing::warn!(table = %table.key, seq = commit.seq, %error, "the table is committed, and its chain of versions is behind");
            Some(table.key)
        }
    });
    join_all(put).await.into_iter().flatten().collect()
}

impl Snapshot {
    /// Brings the chain of a mirrored table up to this snapshot's version of it: what a commit does by itself, where it failed or its process
    /// died. Idempotent. 1 request, and those that find the commit in the journal: none among the latest, O(log n) for an old one.
    ///
    /// `InvalidInput` for a table that is not mirrored; `AlreadyExists` where another program wrote the version of that number.
    pub async fn mirror(&self, key: &str) -> Result<()> {
        let head = self.table(key)?;
        let mirror = async {
            if head.lineage()? == Lineage::Detached {
                return Err(Error::invalid("the table is not mirrored; lineage is chosen when a table is created"));
            }
            if head.owner != *self.branch() {
                return Err(Error::invalid(format!("the table's versions are written by branch {}; mirror it there", head.owner)));
            }
            let seq = self.history().seq_of(head.commit).await?;
            chain(self.catalog.store.as_ref())?.put(head.table(), &head.pin, seq).await
        };
        mirror.await.map_err(|error| error.at("table", &head.key).during("mirror"))
    }
}
