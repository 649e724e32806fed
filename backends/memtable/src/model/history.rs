//! One random history, and what must be true after each step of it.

mod closing;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;

use headwater_conformance::faults::{Fault, Network, Planned, Random};
use headwater_core::store::Scan;
use headwater_core::{Error, ErrorKind, Result};
use tokio::task::JoinHandle;

use verdict::Limbo;

use super::place::{LIMITS, Place, Rows, TABLES, batch, read};
use crate::bug::Bug;
use crate::writer::{Closed, Writer};

/// More requests than one operation sends.
const CUT: u32 = 10_000;

/// What a table must look like.
#[derive(Default)]
struct Table {
    /// The published rows after each commit; the last is now.
    states: Vec<Vec<i64>>,
    /// The oldest state this writer may still show: it never goes back.
    shown: usize,
    /// Rows of this writer that are not known to be published, in their order.
    own: Vec<i64>,
}

impl Table {
    fn now(&self) -> &Vec<i64> {
        self.states.last().unwrap()
    }
}

/// How often things happened.
#[derive(Debug, Default)]
pub(super) struct Counts(BTreeMap<&'static str, usize>);

impl Counts {
    fn note(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            *self.0.entry(what).or_default() += times;
        }
    }

    /// Each at least so many times.
    pub(super) fn assert_everything_happened(&self, least: usize) {
        for what in [
            "append",
            "append waited",
            "append cancelled while it waited",
            "append told of a failed flush",
            "scan",
            "scan while a flush ends",
            "flush",
            "flush failed",
            "flush held",
            "flush cancelled",
            "publish",
            "publish failed",
            "publish unknown, and it happened",
            "publish unknown, and it did not",
            "publish cancelled",
            "unknown publish settled",
            "others' commit",
            "crash",
            "time passed",
            "closed while rows came",
            "close failed while rows came",
            "closed",
        ] {
            assert!(self.0.get(what).is_some_and(|times| *times >= least), "{what:?} hardly happened: {self:?}");
        }
    }
}

pub(super) struct History {
    random: Random,
    bug: Option<Bug>,
    place: Place,
    writer: Writer,
    network: Arc<Network>,
    tables: BTreeMap<&'static str, Table>,
    limbo: Option<Limbo>,
    next: i64,
    largest: u64,
    held: Vec<JoinHandle<Result<()>>>,
    counts: Counts,
}

impl History {
    pub(super) async fn begin(store: &'static str, seed: u64, bug: Option<Bug>) -> Self {
        let place = Place::new(store, seed).await;
        let (writer, network) = place.start(bug).await;
        let empty = || Table { states: vec![Vec::new()], ..Table::default() };
        let tables = TABLES.into_iter().map(|table| (table, empty())).collect();
        Self {
            random: Random::new(seed),
            bug,
            place,
            writer,
            network,
            tables,
            limbo: None,
            next: 0,
            largest: 0,
            held: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn table(&mut self) -> &'static str {
        self.random.pick::<&'static str>(&TABLES)
    }

    fn fresh(&mut self, most: u32) -> Vec<i64> {
        let first = self.next;
        self.next += i64::from(1 + self.random.below(most));
        (first..self.next).collect()
    }

    pub(super) async fn step(&mut self) {
        self.settled_aside().await;
        match self.random.below(400) {
            0..220 => self.append().await,
            220..295 => self.scan().await,
            295..320 => self.flush().await,
            320..335 => self.flush_fails().await,
            335..355 => self.hold_a_flush().await,
            355..365 => self.publish().await,
            365..369 => self.publish_fails().await,
            369..376 => self.publish_unknown().await,
            376..378 => self.publish_cancelled().await,
            378..384 => self.others_commit().await,
            384..387 => self.release().await,
            387..395 => self.time_passes().await,
            395..398 => self.two_close().await,
            _ => self.crash().await,
        }
        let held = self.writer.held_bytes();
        assert!(held <= LIMITS.total_bytes + self.largest, "{held} bytes in memory");
    }

    async fn append(&mut self) {
        let (key, numbers) = (self.table(), self.fresh(12));
        let rows = batch(&numbers);
        self.largest = self.largest.max(rows.get_array_memory_size() as u64);
        let cancel = self.random.chance(300);
        let appended = {
            let mut append = std::pin::pin!(self.writer.append(key, rows));
            let mut appended = None;
            for _ in 0..20 {
                tokio::select! { biased; done = &mut append => appended = Some(done), () = tokio::task::yield_now() => {} }
                if appended.is_some() {
                    break;
                }
            }
            match appended {
                Some(done) => done,
                None if cancel => {
                    self.counts.note("append cancelled while it waited");
                    return;
                }
                // It waits for room, and so for the flush that hangs.
                None => {
                    self.counts.note("append waited");
                    self.network.heal();
                    self.network.release().await;
                    append.await
                }
            }
        };
        match appended {
            Ok(()) => {
                self.counts.note("append");
                self.tables.get_mut(key).unwrap().own.extend(numbers);
            }
            // Nothing of it was taken in.
            Err(error) => {
                told(&error);
                self.counts.note("append told of a failed flush");
            }
        }
    }

    async fn scan(&mut self) {
        let key = self.table();
        if self.random.chance(500) {
            self.let_go().await;
            self.counts.note("scan while a flush ends");
        }
        self.counts.note("scan");
        let found = read(self.writer.scan(key, &Scan::default()).await.unwrap()).await;
        let shown = match self.shows(key, &found) {
            Some(shown) => Some(shown),
            // What was unknown was settled meanwhile.
            None => {
                self.settled_aside().await;
                self.shows(key, &found)
            }
        };
        let table = self.tables.get_mut(key).unwrap();
        let Some(shown) = shown else {
            panic!("the table {key} is read as {found:?}; published {:?}, own {:?}", table.now(), table.own);
        };
        table.shown = shown;
    }

    /// The published state that was read with this writer's rows behind it.
    fn shows(&self, key: &str, found: &[i64]) -> Option<usize> {
        let table = &self.tables[key];
        // Rows in limbo are shown as this writer's own, whatever became of them.
        let without = self.limbo.as_ref().and_then(|limbo| limbo.happened.as_ref()?.get(key).copied());
        let last = without.unwrap_or(table.states.len() - 1);
        (table.shown..=last).rev().find(|&i| *found == [&table.states[i][..], &table.own].concat())
    }

    async fn flush(&mut self) {
        let key = self.table();
        self.let_go().await;
        // It may be told of an earlier one.
        match self.writer.flush(key).await {
            Ok(()) => self.counts.note("flush"),
            Err(error) => told(&error),
        }
    }

    async fn flush_fails(&mut self) {
        let key = self.table();
        self.let_go().await;
        self.cut("PUT", Fault::RequestsLost(CUT));
        if self.writer.flush(key).await.is_err() {
            self.counts.note("flush failed");
        }
        self.network.heal();
    }

    /// A flush whose requests are applied and not answered: it goes on while other things happen.
    async fn hold_a_flush(&mut self) {
        let (key, writer) = (self.table(), self.writer.clone());
        self.network.plan(&[Planned { verb: "PUT", nth: 0, fault: Fault::Held }]);
        let flush = tokio::spawn(async move { writer.flush(key).await });
        turns(20).await;
        self.counts.note("flush held");
        if self.random.chance(300) {
            flush.abort();
            self.counts.note("flush cancelled");
        } else {
            self.held.push(flush);
        }
    }

    /// What hangs goes on, and nothing hangs any more.
    async fn let_go(&self) {
        self.network.heal();
        self.network.release().await;
    }

    async fn release(&mut self) {
        self.let_go().await;
        for flush in std::mem::take(&mut self.held) {
            if let Err(error) = flush.await.unwrap() {
                told(&error);
            }
        }
    }

    /// Some tables, and never none.
    fn some(&mut self) -> Vec<&'static str> {
        let (some, sure) = (self.random.below(8), self.table());
        TABLES.into_iter().enumerate().filter(|(i, table)| some & 1 << i != 0 || *table == sure).map(|(_, table)| table).collect()
    }

    async fn publish(&mut self) {
        let tables = self.some();
        self.let_go().await;
        let published = self.writer.publish(&tables).await;
        self.after_publish(&tables, published).await;
    }

    async fn publish_fails(&mut self) {
        let tables = self.some();
        self.let_go().await;
        self.cut("PUT", Fault::RequestsLost(CUT));
        let published = self.writer.publish(&tables).await;
        self.network.heal();
        if published.is_err() {
            self.counts.note("publish failed");
        }
        self.after_publish(&tables, published).await;
    }

    async fn publish_unknown(&mut self) {
        let tables = self.some();
        self.let_go().await;
        let fault = *self.random.pick(&[Fault::RequestsLost(CUT), Fault::RepliesLost(CUT)]);
        self.cut("SWAP head", fault);
        let published = self.writer.publish(&tables).await;
        self.network.heal();
        self.after_publish(&tables, published).await;
    }

    /// The caller leaves; the publish goes on.
    async fn publish_cancelled(&mut self) {
        let tables = self.some();
        self.let_go().await;
        let publish = {
            let (writer, tables) = (self.writer.clone(), tables.clone());
            tokio::spawn(async move { writer.publish(&tables).await })
        };
        turns(self.random.below(12) as usize).await;
        publish.abort();
        let _ = publish.await;
        self.counts.note("publish cancelled");
        // Behind it, and so after its end. It may be told of a flush that failed.
        loop {
            if let Ok(commit) = self.writer.publish(&tables).await {
                return self.after_publish(&tables, Ok(commit)).await;
            }
        }
    }

    async fn others_commit(&mut self) {
        let (key, numbers) = (self.table(), self.fresh(4));
        // Whatever goes on in tasks comes to its end first: it is either before these rows, or behind them.
        self.let_go().await;
        turns(200).await;
        self.settled_aside().await;
        self.place.append(key, &numbers).await;
        self.counts.note("others' commit");
        let table = self.tables.get_mut(key).unwrap();
        table.states.push([&table.now()[..], &numbers].concat());
    }

    async fn time_passes(&mut self) {
        let fails = self.random.chance(200);
        if fails {
            self.cut("PUT", Fault::RequestsLost(CUT));
        }
        tokio::time::sleep(LIMITS.idle.unwrap()).await;
        turns(60).await;
        self.network.heal();
        self.counts.note("time passed");
    }

    /// The process dies, with whatever it had under way, and another one starts.
    async fn crash(&mut self) {
        self.cut_off();
        self.network.release().await;
        for flush in std::mem::take(&mut self.held) {
            let _ = flush.await.unwrap();
        }
        turns(60).await;
        let (writer, network) = self.place.start(self.bug).await;
        (self.writer, self.network) = (writer, network);
        let now = self.place.published().await;
        for (key, table) in &mut self.tables {
            assert_eq!(&now[key], table.now(), "the table {key} after a crash");
            table.shown = table.states.len() - 1;
            table.own.clear();
        }
        self.limbo = None;
        self.counts.note("crash");
    }

    /// Everything is published in the end, once and in order.
    pub(super) async fn end(mut self) -> Counts {
        self.release().await;
        match self.writer.close().await {
            Closed::Drained(commit) => self.after_publish(&TABLES, Ok(commit)).await,
            Closed::Left { tables, error } => panic!("{tables:?} are left: {error:?}"),
        }
        assert!(self.writer.waiting().is_empty() && self.writer.held_bytes() == 0);
        assert_eq!(self.writer.append("a", batch(&[0])).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        self.counts.note("closed");
        self.counts
    }

    fn cut(&self, verb: &'static str, fault: Fault) {
        self.network.plan(&[Planned { verb, nth: 0, fault }]);
    }

    /// Nothing arrives any more.
    fn cut_off(&self) {
        let verbs = ["PUT", "GET", "HEAD", "SWAP head", "GET head", "GET record", "CREATE record"];
        let plan = verbs.map(|verb| Planned { verb, nth: 0, fault: Fault::RequestsLost(CUT) });
        self.network.plan(&plan);
    }
}

/// A call was told of a flush that failed, or could not settle what was to be settled first.
fn told(error: &Error) {
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::PublishUnknown), "{error:?}");
}

async fn turns(turns: usize) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}
