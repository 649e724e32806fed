//! What the handles and tasks of one writer share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_schema::SchemaRef;
use headwater_core::ids::Token;
use headwater_core::limits::Limits;
use headwater_core::name::TableKey;
use headwater_core::{Branch, Error, ErrorKind, Result, Snapshot, StagedAppend};
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedMutexGuard};

use crate::buffer::Buffer;

/// A writer.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) branch: Branch,
    pub(crate) limits: Limits,
    state: Mutex<State>,
    /// Told whenever a flush ended or rows went, which may be what an append waits for.
    pub(crate) room: Notify,
    /// Held by the one publish there is at a time.
    pub(crate) publishing: tokio::sync::Mutex<()>,
    #[cfg(test)]
    pub(crate) bug: Option<crate::bug::Bug>,
}

/// Rows on their way into a commit, table by table.
pub(crate) type Parts = Arc<Vec<(TableKey, StagedAppend)>>;

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) tables: BTreeMap<TableKey, Buffer>,
    /// Each held by whoever stages or publishes the table's rows: one at a time. They outlive the rows, and what was discarded and begun anew.
    turns: BTreeMap<TableKey, Arc<tokio::sync::Mutex<()>>>,
    /// Tables that a task of its own flushes.
    pub(crate) flushing: BTreeSet<TableKey>,
    /// Whether the idle timer runs.
    pub(crate) ticking: bool,
    /// A flush nobody waited for failed, and nobody was told.
    failure: Option<Error>,
    /// A publish whose outcome is not known.
    pub(crate) unsettled: Option<Unsettled>,
    /// Whether a commit was begun and has not ended. Whoever holds [`Shared::publishing`] and finds it knows that one was cut off.
    pub(crate) underway: bool,
    pub(crate) closed: bool,
}

/// A publish that only its own token settles.
#[derive(Clone, Debug)]
pub(crate) struct Unsettled {
    pub(crate) token: Token,
    pub(crate) message: Option<String>,
    /// A seq at which it was not published yet.
    pub(crate) since: u64,
    pub(crate) parts: Parts,
}

impl Unsettled {
    /// Whether rows of this table are in it.
    pub(crate) fn names(&self, key: &TableKey) -> bool {
        self.parts.iter().any(|(part, _)| part == key)
    }
}

impl State {
    /// Bytes in memory over all tables.
    pub(crate) fn held(&self) -> u64 {
        self.tables.values().map(|buffer| buffer.bytes).sum()
    }

    /// Tells of a flush that failed, once.
    pub(crate) fn tell(&mut self) -> Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    pub(crate) fn note(&mut self, failure: Error) {
        self.failure.get_or_insert(failure);
    }

    /// The table to flush after an append to this one: itself where it is full, the biggest where all together are.
    pub(crate) fn due(&self, key: &TableKey, limits: &Limits) -> Option<TableKey> {
        if self.is_full(key, limits) {
            return Some(key.clone());
        }
        if self.held() < limits.total_bytes {
            return None;
        }
        let filled = self.tables.values().filter(|buffer| buffer.rows > 0);
        filled.max_by_key(|buffer| buffer.bytes).map(|buffer| buffer.key.clone())
    }

    /// Whether a table has as many rows in memory as it may.
    pub(crate) fn is_full(&self, key: &TableKey, limits: &Limits) -> bool {
        self.tables.get(key).is_some_and(|buffer| buffer.rows >= limits.rows || buffer.bytes >= limits.bytes)
    }
}

impl Shared {
    pub(crate) fn new(branch: Branch, limits: Limits) -> Self {
        Self {
            branch,
            limits,
            state: Mutex::default(),
            room: Notify::new(),
            publishing: tokio::sync::Mutex::default(),
            #[cfg(test)]
            bug: None,
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody else stages or publishes rows of a table. `None` for one this writer does not know.
    pub(crate) async fn turn(&self, key: &TableKey) -> Option<OwnedMutexGuard<()>> {
        let turn = {
            let mut state = self.state();
            state.tables.get(key)?;
            state.turns.entry(key.clone()).or_default().clone()
        };
        Some(turn.lock_owned().await)
    }

    /// Learns of a table, or of its newest state. At most 1 request for the head and 1 for the version; none for a table that this process
    /// has seen and this writer has not.
    pub(crate) async fn learn(&self, key: &TableKey) -> Result<()> {
        let known = self.state().tables.contains_key(key);
        let mut published = match known {
            true => self.branch.snapshot().await?,
            false => self.branch.snapshot_at_open().await?,
        };
        if !known && published.table(key.as_str()).is_err() {
            published = self.branch.snapshot().await?;
        }
        let schema = published.schema(key.as_str()).await?;
        self.keep(key, published, schema)
    }

    /// Takes in a published state of a table.
    pub(crate) fn keep(&self, key: &TableKey, published: Snapshot, schema: SchemaRef) -> Result<()> {
        let mut state = self.state();
        match state.tables.get_mut(key) {
            Some(buffer) => buffer.move_to(published, schema),
            None => {
                state.tables.insert(key.clone(), Buffer::new(key.clone(), published, schema)?);
                Ok(())
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn has(&self, bug: crate::bug::Bug) -> bool {
        self.bug == Some(bug)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for buffer in state.tables.values().filter(|buffer| !buffer.is_clean()) {
            let rows = buffer.rows + buffer.staged_rows();
            tracing::warn!(table = %buffer.key, rows, "a writer was dropped with rows that it had not published");
        }
    }
}

/// Runs work that must come to its end also where its caller does not wait for it. Where its task ends without an answer, with its runtime or
/// by a panic of a backend, the error is of this kind.
pub(crate) async fn detached<T: Send + 'static>(lost: ErrorKind, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let ended = |error| Error::new(lost, "the task that wrote for the memtable ended before it could answer").because(error);
    runtime()?.spawn(work).await.map_err(ended)?
}

/// The caller's runtime, for work that must go on when the caller does not.
pub(crate) fn runtime() -> Result<Handle> {
    Handle::try_current().map_err(|error| Error::invalid("a memtable needs a tokio runtime with time enabled").because(error))
}
