//! Rows from memory into the store: durable, and in no commit. A flush takes a copy of the batches; they leave memory in the same step in
//! which what was staged takes their place, so that a reader finds each row once, whenever it looks.

use std::sync::{Arc, Weak};
use std::time::Duration;

use headwater_core::Result;
use headwater_core::name::TableKey;
use tokio::runtime::Handle;

use crate::buffer::{Base, Buffer, Work};
use crate::state::Shared;

impl Shared {
    /// Flushes what a table has in memory now.
    pub(crate) async fn flush(&self, key: &TableKey) -> Result<()> {
        loop {
            let Some(turn) = self.turn(key).await else { return Ok(()) };
            // Rows behind a publish whose outcome is unknown would stand on a version that may never have been.
            if !self.state().unsettled.as_ref().is_some_and(|unsettled| unsettled.names(key)) {
                return self.flush_in_turn(key).await;
            }
            drop(turn);
            let _one = self.publishing.lock().await;
            self.settle().await?;
        }
    }

    /// [`Shared::flush`] by whoever holds the table's turn, and has settled what was unknown.
    pub(crate) async fn flush_in_turn(&self, key: &TableKey) -> Result<()> {
        self.catch_up(key).await?;
        let work = match self.state().tables.get_mut(key) {
            Some(buffer) => buffer.begin()?,
            None => None,
        };
        let Some(Work { base, rows, batches }) = work else { return Ok(()) };
        let mut flight = Flight { shared: self, key, landed: None };
        let staged = match base {
            Base::Published(snapshot) => snapshot.stage_append(key.as_str(), rows).await,
            Base::Staged(staged) => staged.stage_append(rows).await,
        };
        match staged {
            Ok(staged) => {
                flight.landed = Some((batches, staged));
                Ok(())
            }
            Err(error) => {
                #[cfg(test)]
                if self.has(crate::bug::Bug::DropOnFailedFlush)
                    && let Some(buffer) = self.state().tables.get_mut(key)
                {
                    buffer.forget(batches);
                }
                Err(error.during("flush"))
            }
        }
    }

    /// Moves rows in memory onto the newest state this process knows, so that a publish need not. No request where that is the same version.
    async fn catch_up(&self, key: &TableKey) -> Result<()> {
        let known = self.branch.snapshot_at_open().await?;
        if self.state().tables.get(key).is_some_and(|buffer| buffer.is_behind(&known)) {
            let schema = known.schema(key.as_str()).await?;
            self.keep(key, known, schema)?;
        }
        Ok(())
    }

    /// Flushes a table in a task of its own; whoever calls next is told where that fails.
    pub(crate) fn flush_aside(self: &Arc<Self>, runtime: &Handle, key: TableKey) {
        if !self.state().flushing.insert(key.clone()) {
            return;
        }
        let task = Aside { shared: self.clone(), key };
        runtime.spawn(async move {
            loop {
                let flushed = task.shared.flush(&task.key).await;
                let mut state = task.shared.state();
                if let Err(error) = flushed {
                    tracing::debug!(table = %task.key, %error, "a flush failed; its rows are kept");
                    state.note(error);
                } else if state.is_full(&task.key, &task.shared.limits) {
                    // More came meanwhile.
                    continue;
                }
                state.flushing.remove(&task.key);
                return;
            }
        });
    }
}

/// Flushes each table that got no rows between two looks. Ends when nothing is in memory, or the writer is gone.
pub(crate) async fn tick(mut watch: Watch, runtime: Handle, idle: Duration) {
    loop {
        tokio::time::sleep(idle).await;
        let Some(shared) = watch.shared.upgrade() else { return };
        let untouched: Vec<TableKey> = {
            let mut state = shared.state();
            let waiting: Vec<_> = state.tables.values_mut().filter(|buffer| buffer.rows > 0).collect();
            if waiting.is_empty() {
                // In the same step as the look: an append that comes now begins another watch.
                (state.ticking, watch.ended) = (false, true);
                return;
            }
            let untouched = |buffer: &mut Buffer| (!std::mem::take(&mut buffer.touched)).then(|| buffer.key.clone());
            waiting.into_iter().filter_map(untouched).collect()
        };
        for key in untouched {
            shared.flush_aside(&runtime, key);
        }
    }
}

/// The one watch over idle tables. Where it ends with its runtime, the next append begins another one.
pub(crate) struct Watch {
    shared: Weak<Shared>,
    ended: bool,
}

impl Watch {
    pub(crate) fn over(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::downgrade(shared), ended: false }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade().filter(|_| !self.ended) {
            shared.state().ticking = false;
        }
    }
}

/// A flush under way. However it ends, the buffer is told, and so is who waits for room.
struct Flight<'a> {
    shared: &'a Shared,
    key: &'a TableKey,
    landed: Option<(usize, headwater_core::StagedAppend)>,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if let Some(buffer) = self.shared.state().tables.get_mut(self.key) {
            match self.landed.take() {
                Some((batches, staged)) => buffer.flushed(batches, staged),
                None => buffer.unflushed(),
            }
        }
        self.shared.room.notify_waiters();
    }
}

/// A flush nobody waits for. However it ends, the next one of its table may begin, and who waits for room looks again.
struct Aside {
    shared: Arc<Shared>,
    key: TableKey,
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.shared.state().flushing.remove(&self.key);
        self.shared.room.notify_waiters();
    }
}
