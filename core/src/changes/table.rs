//! One table between two states, and its rows.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::future::try_join;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use super::rows::{Terms, compare, whole};
use crate::catalog::Inner;
use crate::error::{Error, Result};
use crate::head::TableHead;
use crate::keys::Keys;
use crate::name::TableKey;
use crate::schema::Conform;
use crate::snapshot::describe;
use crate::store::{Difference, Partition, Scan};

/// What happened to one table: several things may have.
#[derive(Clone)]
pub struct TableChange {
    pub(super) catalog: Arc<Inner>,
    pub(super) key: TableKey,
    pub(super) before: Option<TableHead>,
    pub(super) after: Option<TableHead>,
}

impl fmt::Debug for TableChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableChange").field("before", &self.before).field("after", &self.after).finish_non_exhaustive()
    }
}

/// Some rows of a table, and what happened to them.
#[derive(Clone, Debug, PartialEq)]
pub enum RowChange {
    /// Rows that are new.
    Added(RecordBatch),
    /// Rows whose key was there with other values, as they were and as they are: the same keys, row by row.
    Updated {
        /// As they were.
        before: RecordBatch,
        /// As they are.
        after: RecordBatch,
    },
    /// Rows that are gone, as they were.
    Deleted(RecordBatch),
}

/// Changed rows, in batches.
pub struct RowChanges {
    /// The schema of every batch: the later one, in which columns that were added since are null for rows as they were. Rows of a life that
    /// ended have the schema of that life.
    pub schema: SchemaRef,
    /// The batches, none of them empty. After an error there is nothing more to come, and what came before is not all.
    pub batches: BoxStream<'static, Result<RowChange>>,
}

impl fmt::Debug for RowChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowChanges").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// How many rows changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// See [`RowChange::Added`].
    pub added: u64,
    /// See [`RowChange::Updated`].
    pub updated: u64,
    /// See [`RowChange::Deleted`].
    pub deleted: u64,
}

impl TableChange {
    /// The table's name in the later state; the last it had where it was dropped.
    pub fn key(&self) -> &TableKey {
        &self.key
    }

    /// The table in the earlier state.
    pub fn before(&self) -> Option<&TableHead> {
        self.before.as_ref()
    }

    /// The table in the later state.
    pub fn after(&self) -> Option<&TableHead> {
        self.after.as_ref()
    }

    fn both(&self) -> Option<(&TableHead, &TableHead)> {
        self.before.as_ref().zip(self.after.as_ref())
    }

    /// Both, where they are of one life.
    fn same_life(&self) -> Option<(&TableHead, &TableHead)> {
        self.both().filter(|(before, after)| before.table() == after.table())
    }

    /// Whether anything is not as it was, whoever committed last.
    pub(super) fn is_any(&self) -> bool {
        self.both().is_none_or(|(before, after)| {
            let as_now = TableHead { commit: after.commit, owner: after.owner.clone(), ..before.clone() };
            as_now != *after
        })
    }

    /// Whether the earlier state does not have it.
    pub fn is_created(&self) -> bool {
        self.before.is_none()
    }

    /// Whether the later state does not have it.
    pub fn is_dropped(&self) -> bool {
        self.after.is_none()
    }

    /// Whether it began another life between the two: no row of the one is a row of the other.
    pub fn is_recreated(&self) -> bool {
        self.both().is_some() && self.same_life().is_none()
    }

    /// The name it had, where it has another now.
    pub fn renamed_from(&self) -> Option<&TableKey> {
        self.both().filter(|(before, after)| before.key != after.key).map(|(before, _)| &before.key)
    }

    /// Whether its columns are others.
    pub fn has_other_columns(&self) -> bool {
        self.both().is_some_and(|(before, after)| before.schema_hash != after.schema_hash)
    }

    /// Whether it has another version. Its rows may be the same all the same: they were laid out anew, or written as they were.
    pub fn has_other_version(&self) -> bool {
        self.both().is_none_or(|(before, after)| before.pin != after.pin)
    }

    /// The rows that changed.
    ///
    /// Rows are a bag: equal rows of the two states cancel, in whatever file or order they stand, so that a table written again as it was has
    /// no changes. Equal means every bit: `0.0` is not `-0.0`. Columns added between the two are null in the rows from before. With key
    /// columns, two rows of one key that differ are one update; without, they are a deleted row and an added one. A table that was created,
    /// dropped or recreated has all its rows added, deleted, or the one and then the other.
    ///
    /// Only what differs is read: of a Parquet table, the files that one of the two versions has and the other has not, once each, and the
    /// lists that name them, at most 1 request per 32 data files and none for lists the versions share. From a store that cannot tell,
    /// both versions are read whole.
    ///
    /// Memory: the rows of the earlier version's differing files, uncompressed, and some 100 bytes for each of them; nothing where that
    /// version has no such file (rows were only appended) or the later one has none. The later version's rows stream.
    ///
    /// The call costs what [`crate::Snapshot::describe`] does for each of the two, and the lists; the data files are read while the stream is
    /// polled. Dropping it ends the reading.
    ///
    /// Errors: `Unsupported` for a column whose values cannot be compared exactly, `Corrupt`, and what the object store yields.
    pub async fn rows(&self) -> Result<RowChanges> {
        self.read().await.map_err(|error| error.at("table", &self.key).during("changes"))
    }

    async fn read(&self) -> Result<RowChanges> {
        if let Some((before, after)) = self.same_life() {
            let difference = self.difference(before, after).await?;
            return self.compared(before, after, difference).await;
        }
        let deleted = self.whole(self.before.as_ref()).await?;
        let added = self.whole(self.after.as_ref()).await?;
        let schema = added.as_ref().or(deleted.as_ref()).map(|(schema, _)| schema.clone());
        let parts = |side: Option<(SchemaRef, Vec<Partition>)>| side.map(|(_, parts)| parts).unwrap_or_default();
        let batches = whole(parts(deleted), RowChange::Deleted).chain(whole(parts(added), RowChange::Added)).boxed();
        let schema = schema.ok_or_else(|| Error::invalid("the table is in neither state"))?;
        Ok(RowChanges { schema, batches })
    }

    /// How many rows changed. No data is read where the heads tell: for a table that was created, dropped or recreated, and for one whose
    /// files were only added to, or only taken from. Otherwise as [`TableChange::rows`].
    pub async fn count(&self) -> Result<RowCounts> {
        self.counted().await.map_err(|error| error.at("table", &self.key).during("diff"))
    }

    async fn counted(&self) -> Result<RowCounts> {
        let rows = |head: Option<&TableHead>| head.map_or(0, |head| head.rows);
        let Some((before, after)) = self.same_life() else {
            return Ok(RowCounts { added: rows(self.after()), updated: 0, deleted: rows(self.before()) });
        };
        let difference = self.difference(before, after).await?;
        if difference.removed.is_empty() || difference.added.is_empty() {
            let (added, deleted) = (after.rows.saturating_sub(before.rows), before.rows.saturating_sub(after.rows));
            return Ok(RowCounts { added, updated: 0, deleted });
        }
        let mut changes = self.compared(before, after, difference).await?.batches;
        let mut counts = RowCounts::default();
        while let Some(change) = changes.try_next().await? {
            match change {
                RowChange::Added(rows) => counts.added += rows.num_rows() as u64,
                RowChange::Updated { after, .. } => counts.updated += after.num_rows() as u64,
                RowChange::Deleted(rows) => counts.deleted += rows.num_rows() as u64,
            }
        }
        Ok(counts)
    }

    async fn compared(&self, before: &TableHead, after: &TableHead, difference: Difference) -> Result<RowChanges> {
        let (earlier, later) = try_join(describe(&self.catalog, before), describe(&self.catalog, after)).await?;
        let names = after.key_columns()?;
        let keys = if names.is_empty() { None } else { Some(Keys::new(&later.schema, &names)?) };
        let terms = Terms { conform: Conform::new(&earlier.schema, &later.schema)?, schema: later.schema.clone(), keys };
        Ok(RowChanges { schema: later.schema, batches: compare(terms, difference) })
    }

    /// What two versions of one life do not share.
    async fn difference(&self, before: &TableHead, after: &TableHead) -> Result<Difference> {
        if before.pin == after.pin {
            return Ok(Difference::default());
        }
        if let Some(difference) = self.catalog.store.difference(&before.pin, &after.pin).await? {
            return Ok(difference);
        }
        let scan = Scan::default();
        let (removed, added) = try_join(self.catalog.store.scan(&before.pin, &scan), self.catalog.store.scan(&after.pin, &scan)).await?;
        Ok(Difference { removed, added })
    }

    /// All of a version, if there is one.
    async fn whole(&self, head: Option<&TableHead>) -> Result<Option<(SchemaRef, Vec<Partition>)>> {
        let Some(head) = head else { return Ok(None) };
        let schema = describe(&self.catalog, head).await?.schema;
        Ok(Some((schema, self.catalog.store.scan(&head.pin, &Scan::default()).await?)))
    }
}
