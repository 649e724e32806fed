//! Rows from the store into a commit. Only rows that are durable can be named by one: a commit takes what was staged, and nothing else.
//!
//! What was staged is kept until the commit is known. A failed one leaves it for the next; one whose outcome is unknown is settled, by its own
//! token and with the very same rows, before anything else is published.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use headwater_core::name::TableKey;
use headwater_core::{Commit, Error, ErrorKind, Result, Retry, TransactOptions, Transaction};
use tokio::sync::OwnedMutexGuard;

use crate::state::{Parts, Shared, Unsettled};

impl Shared {
    /// Settles what is unsettled, flushes these tables and commits what they have.
    pub(crate) async fn publish(&self, keys: &BTreeSet<TableKey>, options: TransactOptions) -> Result<Commit> {
        let _one = self.publishing.lock().await;
        self.publish_alone(keys, options).await
    }

    /// Publishes everything, and takes in no rows meanwhile; none ever again where that succeeds.
    pub(crate) async fn close(&self) -> Result<Commit> {
        #[cfg(test)]
        if self.has(crate::bug::Bug::CloseBeforeTurn) {
            return self.close_early().await;
        }
        let _one = self.publishing.lock().await;
        let (keys, was) = self.shut();
        // Whoever waits for room is told now.
        self.room.notify_waiters();
        let published = self.publish_alone(&keys, TransactOptions::default()).await;
        self.state().closed = was || published.is_ok();
        published
    }

    /// Takes in no more rows. The tables that have some, in the same step; and whether the writer had ended before.
    fn shut(&self) -> (BTreeSet<TableKey>, bool) {
        let mut state = self.state();
        let was = std::mem::replace(&mut state.closed, true);
        let waiting = state.tables.iter().filter(|(_, buffer)| !buffer.is_clean());
        (waiting.map(|(key, _)| key.clone()).collect(), was)
    }

    /// [`Shared::publish`] by whoever holds `publishing`.
    async fn publish_alone(&self, keys: &BTreeSet<TableKey>, options: TransactOptions) -> Result<Commit> {
        let settled = self.settle().await?;
        if let Some(commit) = settled.as_ref().filter(|commit| options.token.as_ref() == Some(&commit.token)) {
            return Ok(commit.clone());
        }
        for key in keys {
            if !self.state().tables.contains_key(key) {
                self.learn(key).await?;
            }
        }
        let _turns = self.turns(keys.iter()).await;
        #[cfg(test)]
        if self.has(crate::bug::Bug::PublishBeforeFlush) {
            return self.publish_unflushed(keys, options).await;
        }
        self.flush_all(keys).await?;
        let parts = self.parts(keys);
        if let Some(commit) = settled.filter(|_| parts.is_empty()) {
            return Ok(commit);
        }
        // Of a caller's token, only the caller knows where it does not stand.
        let since = match &options.token {
            Some(_) => options.since,
            None => self.branch.snapshot_at_open().await?.seq(),
        };
        self.commit(parts, since, options).await
    }

    /// The turns of tables, in one order for all.
    async fn turns(&self, keys: impl Iterator<Item = &TableKey>) -> Vec<OwnedMutexGuard<()>> {
        let mut turns = Vec::new();
        for key in keys {
            turns.extend(self.turn(key).await);
        }
        turns
    }

    /// Flushes tables side by side. All of them come to their end before the first failure is told.
    async fn flush_all(&self, keys: &BTreeSet<TableKey>) -> Result<()> {
        join_all(keys.iter().map(|key| self.flush_in_turn(key))).await.into_iter().collect()
    }

    /// What is durable and unpublished.
    fn parts(&self, keys: &BTreeSet<TableKey>) -> Parts {
        let state = self.state();
        let staged = |key: &TableKey| Some((key.clone(), state.tables.get(key)?.staged()?.clone()));
        Arc::new(keys.iter().filter_map(staged).collect())
    }

    /// Commits rows whose turns the caller holds.
    async fn commit(&self, parts: Parts, since: u64, options: TransactOptions) -> Result<Commit> {
        if std::mem::replace(&mut self.state().underway, true) {
            let problem = "a publish of this writer was cut off, and whether it was published is not known; see what the branch has, and open another writer";
            return Err(Error::new(ErrorKind::PublishUnknown, problem).during("publish"));
        }
        let gone = AtomicBool::new(false);
        let (message, given) = (options.message.clone(), options.token.clone());
        let mut settled = self.branch.transact_with(options, |tx| append(tx, parts.clone(), &gone)).await;
        if let Ok(commit) = &settled {
            // The head that has the commit is the newest this process knows, or the one before a newer.
            match self.branch.snapshot_at_open().await {
                Ok(published) if published.seq() >= commit.seq => {
                    let mut state = self.state();
                    for (key, _) in parts.iter() {
                        if let Some(buffer) = state.tables.get_mut(key) {
                            buffer.published(published.clone());
                        }
                    }
                }
                other => settled = Err(unseen(commit, other.err())),
            }
        }
        let mut state = self.state();
        state.underway = false;
        state.unsettled = match &settled {
            Ok(_) => None,
            // On a state without the table, the journal up to there was searched, and no swap sent before can land on it any more.
            Err(error) if gone.load(Ordering::Relaxed) && error.kind() == ErrorKind::NotFound => None,
            // The token names a commit that is not this one: these rows are in none.
            Err(error) if error.kind() == ErrorKind::TokenReused => None,
            Err(error) => match error.token().cloned().or(given) {
                Some(token) if error.retry() == Retry::ResolveFirst || state.unsettled.is_some() => {
                    Some(Unsettled { token, message, since, parts })
                }
                _ => None,
            },
        };
        settled
    }

    /// Repeats a publish whose outcome is unknown, with its token and its rows: its commit. Nothing where there is none.
    pub(crate) async fn settle(&self) -> Result<Option<Commit>> {
        let Some(Unsettled { token, message, since, parts }) = self.state().unsettled.clone() else { return Ok(None) };
        let _turns = self.turns(parts.iter().map(|(key, _)| key)).await;
        self.commit(parts, since, TransactOptions { message, token: Some(token), since }).await.map(Some)
    }

    /// Gives up a table's unpublished rows.
    pub(crate) async fn discard(&self, key: &TableKey) -> Result<u64> {
        let _one = self.publishing.lock().await;
        let Some(_turn) = self.turn(key).await else { return Ok(0) };
        let mut state = self.state();
        if let Some(unsettled) = state.unsettled.as_ref().filter(|unsettled| unsettled.names(key)) {
            let problem = "whether these rows were published is not known yet; publish again to find out";
            return Err(Error::new(ErrorKind::PublishUnknown, problem)
                .at("table", key)
                .with_token(unsettled.token.clone())
                .during("discard"));
        }
        let rows = state.tables.remove(key).map_or(0, |mut buffer| buffer.discard());
        drop(state);
        self.room.notify_waiters();
        Ok(rows)
    }

    /// [`Bug::CloseBeforeTurn`](crate::bug::Bug): what is to be published is looked at before it is this close's turn.
    #[cfg(test)]
    async fn close_early(&self) -> Result<Commit> {
        let (keys, _) = self.shut();
        self.room.notify_waiters();
        let published = self.publish(&keys, TransactOptions::default()).await;
        self.state().closed = published.is_ok();
        published
    }

    /// [`Bug::PublishBeforeFlush`](crate::bug::Bug): what is in memory counts as published with what is on disk.
    #[cfg(test)]
    async fn publish_unflushed(&self, keys: &BTreeSet<TableKey>, options: TransactOptions) -> Result<Commit> {
        let counts: Vec<_> = keys.iter().map(|key| (key, self.state().tables.get(key).map_or(0, crate::buffer::Buffer::batches))).collect();
        let since = self.branch.snapshot_at_open().await?.seq();
        let commit = self.commit(self.parts(keys), since, options).await?;
        for (key, batches) in counts {
            if let Some(buffer) = self.state().tables.get_mut(key) {
                buffer.forget(batches);
            }
        }
        Ok(commit)
    }
}

/// The commit's closure. Notes where a table it needs is not there.
async fn append(tx: Transaction, parts: Parts, gone: &AtomicBool) -> Result<()> {
    gone.store(false, Ordering::Relaxed);
    for (key, rows) in parts.iter() {
        let appended = async {
            let table = tx.table(key.as_str()).await?;
            tx.append_staged(&table, rows).await
        };
        appended.await.map_err(|error| {
            gone.store(error.kind() == ErrorKind::NotFound, Ordering::Relaxed);
            error.at("table", key)
        })?;
    }
    Ok(())
}

/// The commit is there, and its head is not known here. Its token brings both together.
fn unseen(commit: &Commit, cause: Option<Error>) -> Error {
    let error = Error::new(ErrorKind::PublishUnknown, format!("the commit {} was made and cannot be read yet; publish again", commit.seq));
    let error = error.with_token(commit.token.clone());
    match cause {
        Some(cause) => error.because(cause),
        None => error,
    }
}
