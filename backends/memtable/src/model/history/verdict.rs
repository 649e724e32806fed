//! What must be published after a publish, whether it succeeded, failed or is unknown.

use std::collections::BTreeMap;

use headwater_core::ids::Token;
use headwater_core::{Commit, ErrorKind, Result};

use super::{History, Rows, Table, told};

/// A publish whose outcome is unknown to the writer.
#[derive(Clone)]
pub(super) struct Limbo {
    token: Token,
    /// How many of a table's own rows are in it.
    rows: BTreeMap<&'static str, usize>,
    /// Where it happened: the last state of each table without it.
    pub(super) happened: Option<BTreeMap<&'static str, usize>>,
}

impl History {
    /// A flush settles the unknown publish that it would come behind.
    pub(super) async fn settled_aside(&mut self) {
        let Some(limbo) = self.limbo.clone().filter(|_| self.writer.unsettled().is_none()) else { return };
        let rows = |key| limbo.rows.get(key).copied().unwrap_or_default();
        let now = self.published().await;
        assert_eq!(now, self.with(|key, _| if limbo.happened.is_some() { 0 } else { rows(key) }), "after a settlement aside");
        self.counts.note("unknown publish settled");
        self.limbo = None;
        self.forget(|key, _| rows(key));
        self.push(now);
    }

    async fn published(&self) -> Rows {
        self.place.published().await
    }

    /// The published rows with the first so many of this writer's behind them.
    pub(super) fn with(&self, rows: impl Fn(&'static str, &Table) -> usize) -> Rows {
        self.tables.iter().map(|(key, table)| (*key, [&table.now()[..], &table.own[..rows(key, table)]].concat())).collect()
    }

    /// Compares what is published now with what may be.
    pub(super) async fn after_publish(&mut self, named: &[&'static str], published: Result<Commit>) {
        let now = self.published().await;
        let limbo = self.limbo.clone();
        let in_limbo = |key| limbo.as_ref().and_then(|limbo| limbo.rows.get(key).copied()).unwrap_or_default();
        let counts = |key| if limbo.as_ref().is_some_and(|limbo| limbo.happened.is_some()) { 0 } else { in_limbo(key) };
        // Before the call; what was unknown settled; and this publish behind it.
        let before = self.with(|_, _| 0);
        let settled = self.with(|key, _| counts(key));
        let mut done = settled.clone();
        for key in named {
            done.get_mut(key).unwrap().extend_from_slice(&self.tables[key].own[in_limbo(key)..]);
        }
        let unsettled = self.writer.unsettled();
        match &published {
            Ok(commit) => {
                assert_eq!(now, done, "{commit:?}");
                assert!(unsettled.is_none());
                for told in commit.tables.iter().filter(|_| commit.published) {
                    assert_eq!(told.rows, now[told.key.as_str()].len() as u64, "{commit:?}");
                }
                self.counts.note("publish");
                if limbo.is_some() {
                    self.counts.note("unknown publish settled");
                }
                self.limbo = None;
                self.forget(|key, table| if named.contains(&key) { table.own.len() } else { in_limbo(key) });
            }
            Err(error) => match unsettled {
                None => {
                    told(error);
                    assert_eq!(now, settled, "{error:?}");
                    self.limbo = None;
                    self.forget(|key, _| in_limbo(key));
                }
                Some(token) => {
                    if limbo.as_ref().is_some_and(|limbo| limbo.token == token) {
                        told(error);
                        assert!(now == before || now == settled, "{now:?} is neither {before:?} nor {settled:?}");
                    } else {
                        assert_eq!(error.kind(), ErrorKind::PublishUnknown, "{error:?}");
                        assert!(now == settled || now == done, "{now:?} is neither {settled:?} nor {done:?}");
                        self.forget(|key, _| in_limbo(key));
                        let rows = named.iter().map(|key| (*key, self.tables[key].own.len())).filter(|(_, rows)| *rows > 0).collect();
                        self.limbo = Some(Limbo { token, rows, happened: None });
                        self.counts.note(if now == done { "publish unknown, and it happened" } else { "publish unknown, and it did not" });
                    }
                    let limbo = self.limbo.as_mut().unwrap();
                    if limbo.happened.is_none() && limbo.rows.keys().all(|key| now[key].ends_with(&self.tables[key].own[..limbo.rows[key]]))
                    {
                        limbo.happened = Some(limbo.rows.keys().map(|key| (*key, self.tables[key].states.len() - 1)).collect());
                    }
                }
            },
        }
        self.push(now);
    }

    pub(super) fn push(&mut self, now: Rows) {
        for (key, rows) in now {
            let table = self.tables.get_mut(key).unwrap();
            if rows != *table.now() {
                table.states.push(rows);
            }
        }
    }

    /// The first so many rows of a table are known to be published.
    pub(super) fn forget(&mut self, rows: impl Fn(&'static str, &Table) -> usize) {
        for (key, table) in &mut self.tables {
            let rows = rows(key, table);
            table.own.drain(..rows);
        }
    }
}
