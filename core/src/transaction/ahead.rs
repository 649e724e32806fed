//! Rows staged ahead of the transaction that publishes them: durable, and seen by nobody else.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::pending::{Pending, conform};
use super::{Table, TableOptions, Transaction};
use crate::catalog::Inner;
use crate::error::{Error, ErrorKind, Result};
use crate::head::TableHead;
use crate::ids::Incarnation;
use crate::json::sha256;
use crate::name::TableKey;
use crate::schema::Conform;
use crate::snapshot::{Snapshot, describe};
use crate::store::{Change, DataStore, Durability, Partition, Pin, Rows, Scan, Staged, TableRef};

/// Rows of one table that are in the store, durable, and in no commit: one append or several, each behind the one before. Nobody sees them
/// before [`Transaction::append_staged`] publishes them, and nothing finds them again once this value is dropped. Cheap to clone.
///
/// They are as unreferenced as any staged object: a vacuum that begins before they are published takes them away.
#[derive(Clone)]
pub struct StagedAppend {
    catalog: Arc<Inner>,
    key: TableKey,
    table: TableRef,
    schema: SchemaRef,
    /// The branch's life and the vacuum number, captured before the first object was written (rule 9).
    epoch: (Incarnation, u64),
    /// What the first append stands on.
    base: Pin,
    appends: Vec<Append>,
}

/// One append.
#[derive(Clone)]
struct Append {
    /// Rows of the version it stands on.
    before: u64,
    staged: Staged,
}

impl fmt::Debug for StagedAppend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedAppend").field("table", &self.key).field("rows", &self.rows()).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Writes rows behind a table's version of this snapshot, to be published by a later transaction. They are matched with the table's
    /// columns as by [`Transaction::append`]. Costs what staging an append costs the store (Parquet: 2 requests in 1 round trip).
    ///
    /// Errors: `Unsupported` for a table with key columns, whose appends depend on the rows that are there; else as an append.
    ///
    /// Cancellation: dropping the future leaves unreferenced objects at most.
    pub async fn stage_append(&self, key: &str, rows: impl Into<Rows>) -> Result<StagedAppend> {
        let head = self.table(key)?;
        if !head.key_columns()?.is_empty() {
            let problem =
                "the table has key columns, and whether a row may be added depends on those that are there; append in a transaction";
            return Err(Error::new(ErrorKind::Unsupported, problem).at("table", key).during("stage"));
        }
        let start = StagedAppend {
            catalog: self.catalog.clone(),
            key: head.key.clone(),
            table: head.table(),
            schema: describe(&self.catalog, head).await?.schema,
            epoch: epoch(self),
            base: head.pin.clone(),
            appends: Vec::new(),
        };
        start.add(head.rows, rows.into()).await
    }
}

/// See [`StagedAppend::epoch`].
fn epoch(snapshot: &Snapshot) -> (Incarnation, u64) {
    (snapshot.incarnation(), snapshot.view.head.gc_epoch)
}

impl StagedAppend {
    /// Writes more rows behind these; see [`Snapshot::stage_append`]. The value it is called on stays as it is.
    pub async fn stage_append(&self, rows: impl Into<Rows>) -> Result<Self> {
        let before = self.appends.last().map_or(0, |last| last.staged.rows);
        self.add(before, rows.into()).await
    }

    async fn add(&self, before: u64, rows: Rows) -> Result<Self> {
        let table = Table { key: self.key.clone(), schema: self.schema.clone(), options: TableOptions::default(), head: None };
        let rows = conform(&table, rows)?;
        let store = &self.catalog.store;
        let stage = async {
            let mut staged = store.stage(self.table, Some(self.pin()), Change::Append(rows)).await?;
            if staged.durability == Durability::Staged {
                store.flush().await?;
                staged.durability = Durability::Durable;
            }
            Ok(staged)
        };
        let staged = stage.await.map_err(|error: Error| error.at("table", &self.key).during("stage"))?;
        let mut more = self.clone();
        if staged.changed > 0 {
            more.appends.push(Append { before, staged });
        }
        Ok(more)
    }

    /// The version that holds the table's rows and these behind them.
    pub fn pin(&self) -> &Pin {
        self.appends.last().map_or(&self.base, |last| &last.staged.pin)
    }

    /// How many rows were staged.
    pub fn rows(&self) -> u64 {
        self.appends.iter().map(|append| append.staged.changed).sum()
    }

    /// The columns the rows were staged under.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The partitions of a scan of the table as it was, and of these rows behind it.
    pub async fn scan(&self, scan: &Scan) -> Result<Vec<Partition>> {
        let partitions = self.catalog.store.scan(self.pin(), scan).await.map_err(|error| error.at("table", &self.key).during("scan"))?;
        Ok(scan.converted(partitions))
    }

    /// Puts the rows on a version of their table: nothing is written where they stand on it already, version objects alone where the store can
    /// rebase, and the rows are read and written again otherwise, or where `reuse` is false. For adapters.
    pub async fn place(&self, store: &dyn DataStore, head: &TableHead, reuse: bool) -> Result<Staged> {
        let (mut base, mut on) = (&self.base, head.pin.clone());
        let (mut placed, mut contents) = (None, Vec::with_capacity(self.appends.len()));
        for append in &self.appends {
            let staged = match (reuse, on == *base) {
                (true, true) => append.staged.clone(),
                (true, false) => match store.rebase(self.table, &append.staged, &on).await? {
                    Some(staged) => staged,
                    None => append.again(store, self.table, &on).await?,
                },
                (false, _) => append.again(store, self.table, &on).await?,
            };
            (base, on) = (&append.staged.pin, staged.pin.clone());
            contents.push(append.staged.content.as_str());
            placed = Some(staged);
        }
        let Some(placed) = placed else { return Err(Error::invalid("no rows were staged").at("table", &self.key)) };
        match contents[..] {
            [content] => Ok(Staged { content: content.to_owned(), ..placed }),
            // What a rebase would take of the last one alone is not all of it.
            _ => Ok(Staged { changed: self.rows(), content: sha256(contents.join("\n").as_bytes()), carry: None, ..placed }),
        }
    }
}

impl Append {
    /// Reads the rows and stages them on another base, whose columns may be more.
    async fn again(&self, store: &dyn DataStore, table: TableRef, on: &Pin) -> Result<Staged> {
        let schema = store.describe(on).await?.schema;
        let conform = Conform::new(&self.staged.schema, &schema)?;
        let mut skip = self.before;
        let mut parts = store.scan(&self.staged.pin, &Scan::default()).await?;
        // Behind a partition whose rows are not known, none can be told to be skipped.
        let mut whole = 0;
        while let Some(rows) = parts.get(whole).and_then(|partition| partition.rows).filter(|rows| *rows <= skip) {
            skip -= rows;
            whole += 1;
        }
        parts.drain(..whole);
        let mut seen = 0;
        let own = move |batch: RecordBatch| {
            let others = usize::try_from(skip).map_or(batch.num_rows(), |skip| skip.min(batch.num_rows()));
            skip -= others as u64;
            let batch = batch.slice(others, batch.num_rows() - others);
            seen += batch.num_rows();
            std::future::ready(conform.apply(&batch, seen - batch.num_rows()))
        };
        let batches = stream::iter(parts).flat_map(|partition| (partition.open)()).and_then(own).boxed();
        store.stage(table, Some(on), Change::Append(Rows { schema, batches })).await
    }
}

impl Transaction {
    /// Publishes rows that were staged ahead. Where the table is still the version they stand on, nothing is written; where it has moved, they
    /// are put behind what is there now. The rows are in the store whatever becomes of the commit: it can be tried again with them.
    ///
    /// Errors: `NotFound` where they were staged for another table or an earlier life of it.
    pub async fn append_staged(&self, table: &Table, staged: &StagedAppend) -> Result<()> {
        let own = self.own(table)?.is_some_and(|head| head.table() == staged.table);
        if !own || self.base.catalog.record.catalog != staged.catalog.record.catalog {
            let problem = format!("the rows were staged for another table than {:?}, or for an earlier life of it", table.key.as_str());
            return Err(Error::new(ErrorKind::NotFound, problem));
        }
        if staged.appends.is_empty() {
            return Ok(());
        }
        let reuse = staged.epoch == epoch(&self.base);
        self.alter(table, |head| Pending::Staged(head, staged.clone(), reuse))
    }
}
