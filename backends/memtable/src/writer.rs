//! The writer: what a process does with a memtable.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use arrow_array::RecordBatch;
use headwater_core::name::TableKey;
use headwater_core::store::{Partition, Scan};
use headwater_core::{Branch, Commit, Error, ErrorKind, Result, TransactOptions};

use crate::flush::Watch;
use crate::state::{Shared, State, detached, runtime};
use headwater_core::limits::Limits;

/// Appends to tables of a branch, many and small, in few files and few commits. Cheap to clone: clones share their rows and their limits.
///
/// Rows come into a table in the order in which their appends returned. Nobody else sees one before a publish has returned, and this writer
/// sees each of them once from the moment its append returned, also while they are flushed and published.
///
/// A writer that is dropped, or dies, loses what it has not published. Nothing it had published is ever taken back.
///
/// Needs a tokio runtime with time enabled.
#[derive(Clone)]
pub struct Writer(Arc<Shared>);

/// A table's rows that are not published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The table.
    pub key: TableKey,
    /// Rows in memory.
    pub rows: u64,
    /// Bytes they take there.
    pub bytes: u64,
    /// Rows that are durable already.
    pub durable: u64,
}

/// How a [`Writer::close`] ended.
#[derive(Debug)]
#[must_use]
pub enum Closed {
    /// Everything is published: by this commit, which is a no-op where there was nothing left.
    Drained(Commit),
    /// Nothing was published by this call, or that is not known. All rows are kept and the writer goes on.
    Left {
        /// The tables with unpublished rows.
        tables: Vec<TableKey>,
        /// Why.
        error: Error,
    },
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("branch", self.0.branch.name()).field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}

impl Writer {
    /// A writer on a branch, with the limits its catalog was opened with, or the default ones. No request.
    pub fn new(branch: &Branch) -> Self {
        Self(Arc::new(Shared::new(branch.clone(), branch.cache().unwrap_or_default())))
    }

    /// A writer with limits of its own. `InvalidInput` for limits that no row fits.
    pub fn with_limits(branch: &Branch, limits: Limits) -> Result<Self> {
        limits.check()?;
        Ok(Self(Arc::new(Shared::new(branch.clone(), limits))))
    }

    #[cfg(test)]
    pub(crate) fn over(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }

    /// The token of the publish whose outcome is unknown.
    #[cfg(test)]
    pub(crate) fn unsettled(&self) -> Option<headwater_core::ids::Token> {
        self.0.state().unsettled.as_ref().map(|unsettled| unsettled.token.clone())
    }

    /// Adds rows to a table. They are matched with its columns by name; a table with key columns is `Unsupported`. No request, but for a table
    /// this process has not seen, and for columns the rows have and the table had not when it was looked at last.
    ///
    /// Waits where as many bytes as [`Limits::total_bytes`] are in memory, until a flush made room. A flush of this writer that failed, by a
    /// limit or for idleness, is told to the next call of `append`, [`Writer::flush`] or [`Writer::publish`], which does nothing else.
    ///
    /// Errors: none of the rows was taken in. Cancellation: dropping the future takes in all of the rows or none.
    pub async fn append(&self, table: &str, batch: RecordBatch) -> Result<()> {
        let key: TableKey = table.parse()?;
        let mut learned = false;
        loop {
            let mut room = pin!(self.0.room.notified());
            room.as_mut().enable();
            match self.offer(&key, &batch)? {
                Offered::Taken => return Ok(()),
                Offered::Full => room.await,
                Offered::Refused(Some(error)) if learned => return Err(error),
                Offered::Refused(_) => {
                    self.0.learn(&key).await?;
                    learned = true;
                }
            }
        }
    }

    fn offer(&self, key: &TableKey, batch: &RecordBatch) -> Result<Offered> {
        let runtime = runtime()?;
        let Self(shared) = self;
        let (offered, flush, tick) = {
            let mut state = open(shared.state())?;
            state.tell()?;
            let fitted = match state.tables.get(key).map(|buffer| buffer.fit(batch)) {
                None => return Ok(Offered::Refused(None)),
                Some(Err(error)) => return Ok(Offered::Refused(Some(error))),
                Some(Ok(fitted)) => fitted,
            };
            if fitted.num_rows() == 0 {
                return Ok(Offered::Taken);
            }
            let room = state.held() < shared.limits.total_bytes;
            if let (true, Some(buffer)) = (room, state.tables.get_mut(key)) {
                buffer.push(fitted);
            }
            let tick = shared.limits.idle.filter(|_| !std::mem::replace(&mut state.ticking, true)).map(|idle| (idle, Watch::over(shared)));
            let offered = if room { Offered::Taken } else { Offered::Full };
            (offered, state.due(key, &shared.limits), tick)
        };
        // Not while the state is locked: a runtime that is shutting down drops what it is given, and that looks at the state.
        if let Some((idle, watch)) = tick {
            runtime.spawn(crate::flush::tick(watch, runtime.clone(), idle));
        }
        if let Some(table) = flush {
            shared.flush_aside(&runtime, table);
        }
        Ok(offered)
    }

    /// The partitions of a scan of a table: the published rows, and behind them this writer's own, in their order. The published rows are those
    /// of now, unless rows of this writer wait in the store for their publish: then those of the state they were put behind.
    ///
    /// Costs the head (1 request) where no rows wait in the store, and then what the scan of a snapshot costs.
    pub async fn scan(&self, table: &str, scan: &Scan) -> Result<Vec<Partition>> {
        self.0.scan(&table.parse()?, scan).await
    }

    /// Writes a table's rows from memory into the store, where they are durable and in no commit. Nothing where there are none. A publish of the
    /// table whose outcome is unknown is settled first.
    ///
    /// Errors: the rows stay in memory, in their order. Cancellation: it goes on by itself.
    pub async fn flush(&self, table: &str) -> Result<()> {
        let key: TableKey = table.parse()?;
        self.0.state().tell()?;
        let shared = self.0.clone();
        detached(ErrorKind::Unavailable, async move { shared.flush(&key).await }).await
    }

    /// Publishes all rows of these tables that were appended before, in one commit: flushes what is in memory, and commits what is durable.
    /// Rows that are appended meanwhile are left for the next one.
    ///
    /// Errors: `PublishUnknown` where the outcome could not be learned; the next publish, whatever its tables, settles it before it does
    /// anything else. After any other error nothing was published, and all rows are kept for the next call. `NotFound` where a table was
    /// dropped or renamed: give its rows up with [`Writer::discard`].
    ///
    /// Cancellation: it goes on by itself.
    pub async fn publish(&self, tables: &[&str]) -> Result<Commit> {
        self.publish_with(TransactOptions::default(), tables).await
    }

    /// [`Writer::publish`] with a message or a token. The token names these rows as they were flushed: a repetition by another writer, whose
    /// flushes fell elsewhere, is told `TokenReused`. Repeated by this writer after `PublishUnknown`, it settles that publish and is its commit.
    pub async fn publish_with(&self, options: TransactOptions, tables: &[&str]) -> Result<Commit> {
        let keys = tables.iter().map(|table| table.parse()).collect::<Result<BTreeSet<TableKey>>>()?;
        self.0.state().tell()?;
        let shared = self.0.clone();
        detached(ErrorKind::PublishUnknown, async move { shared.publish(&keys, options).await }).await
    }

    /// Drops a table's unpublished rows, for good. Returns their number. Refused with `PublishUnknown` while a publish of them is unsettled.
    pub async fn discard(&self, table: &str) -> Result<u64> {
        self.0.discard(&table.parse()?).await
    }

    /// Ends the writer: takes no more rows, and publishes all it has in one commit. Where that fails, nothing of it is published, the tables
    /// that are left are named, and the writer goes on as before, so that it can be tried again. Idempotent; of several at once each waits for
    /// the one before, and publishes what that left and what came since.
    ///
    /// Cancellation: it goes on by itself.
    pub async fn close(&self) -> Closed {
        let shared = self.0.clone();
        let closing = detached(ErrorKind::PublishUnknown, async move { shared.close().await });
        match closing.await {
            Ok(commit) => Closed::Drained(commit),
            Err(error) => Closed::Left { tables: self.waiting().into_iter().map(|waiting| waiting.key).collect(), error },
        }
    }

    /// The tables with unpublished rows, by name.
    pub fn waiting(&self) -> Vec<Waiting> {
        let state = self.0.state();
        let waiting = state.tables.values().filter(|buffer| !buffer.is_clean());
        let waiting = waiting.map(|buffer| Waiting {
            key: buffer.key.clone(),
            rows: buffer.rows,
            bytes: buffer.bytes,
            durable: buffer.staged_rows(),
        });
        waiting.collect()
    }

    /// Bytes in memory over all tables, those under way to the store included.
    pub fn held_bytes(&self) -> u64 {
        self.0.state().held()
    }
}

/// What became of rows that were offered.
enum Offered {
    Taken,
    /// As many bytes are in memory as may be.
    Full,
    /// The table is not known, or its columns as they were last are others.
    Refused(Option<Error>),
}

/// Refuses once the writer is closed.
fn open(state: std::sync::MutexGuard<'_, State>) -> Result<std::sync::MutexGuard<'_, State>> {
    if state.closed {
        return Err(Error::invalid("the writer is closed and takes no more rows; open another one"));
    }
    Ok(state)
}
