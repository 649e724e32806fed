//! Lineage: whether a table's versions stand for themselves, or also on a chain that programs follow which know nothing of Headwater.
//!
//! The chain is derived from the journal: a version's number there is the seq of the commit that published it. Who repeats the work, or does
//! it late, so writes the same object or one with a smaller number, and never moves the chain back.

use futures::future::join_all;

use crate::branch::Branch;
use crate::commit::Commit;
use crate::error::{Error, ErrorKind, Result};
use crate::head::TableHead;
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
    // What a later commit of this process has replaced already is not worth a version.
    let heads = commit.tables.iter().filter_map(|table| view.head.tables.by_key(&table.key));
    let heads: Vec<TableHead> =
        heads.filter(|head| Some(head.commit) == commit.commit && head.owner == view.head.branch).cloned().collect();
    let store = branch.catalog.store.as_ref();
    let behind = heads.into_iter().map(|head| async move {
        let put = async {
            match head.lineage()? {
                Lineage::Detached => Ok(()),
                Lineage::Mirrored => chain(store)?.put(head.table(), &head.pin, commit.seq).await,
            }
        };
        let error = put.await.err()?;
        tracing::warn!(table = %head.key, seq = commit.seq, %error, "the table is committed, and its chain of versions is behind");
        Some(head.key)
    });
    join_all(behind).await.into_iter().flatten().collect()
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
            let seq = self.history().seq_of(head.commit).await?;
            chain(self.catalog.store.as_ref())?.put(head.table(), &head.pin, seq).await
        };
        mirror.await.map_err(|error| error.at("table", &head.key).during("mirror"))
    }
}
