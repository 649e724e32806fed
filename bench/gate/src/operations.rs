//! What is measured at each depth and phase, and what each operation must have done to count.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use futures::future::try_join_all;
use headwater::store::Scan;
use headwater::{At, Branch, Snapshot};
use serde::Serialize;

use super::News;
use super::error::{Error, Result};
use super::lake::{Lake, append, append_at_once, key};
use super::meter::Sample;
use super::plan::{AT_ONCE, Layout, Phase};

/// The most files of a table as written that are read whole, one by one: each costs as much as the one before.
const READ_FILES: u64 = 400;

/// Names one cell of a catalog's matrix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// What was done.
    pub operation: &'static str,
    /// By whom: a process that knows how much.
    pub access: &'static str,
    /// How full the tail was.
    pub phase: Phase,
    /// How the table was treated, where one is read or written.
    pub layout: Option<Layout>,
}

/// One operation at one depth.
#[derive(Clone, Debug)]
pub struct Point {
    /// The depth asked for.
    pub depth: u64,
    /// Commits there were.
    pub seq: u64,
    /// What it cost.
    pub sample: Sample,
}

/// The curves of one catalog.
pub type Curves = BTreeMap<Cell, Vec<Point>>;

/// Round trips that the clock has confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Confirmation {
    /// Where: `local` or `s3`.
    pub authority: &'static str,
    /// On tables of which data store.
    pub store: String,
    /// The operation.
    pub operation: &'static str,
    /// The access.
    pub access: &'static str,
    /// Round trips as counted.
    pub round_trips: usize,
    /// Time it took with every request delayed, by that delay, rounded down.
    pub times_the_delay: usize,
}

/// Grows one catalog and measures it on the way.
pub(super) async fn measure(lake: &Lake<'_>, told: &(dyn Fn(News) + Sync)) -> Result<(Curves, Vec<Confirmation>)> {
    let mut curves = Curves::new();
    for depth in &lake.subject.depths {
        told(News::Begun(format!("growing to {depth} commits")));
        lake.grow(*depth).await?;
        for phase in &lake.subject.phases {
            told(News::Begun(format!("{depth} commits, {} tail", phase.name())));
            lake.walk(*phase).await?;
            let stop = Stop { lake, depth: *depth, seq: lake.seq().await?, phase: *phase };
            stop.lookups(&mut curves).await?;
            stop.reads(&mut curves).await?;
            stop.travels(&mut curves).await?;
            stop.commits(&mut curves).await?;
        }
        let measured = curves.values().flatten().filter(|point| point.depth == *depth).count();
        told(News::Done(format!("{depth} commits: {measured} operations measured")));
    }
    let confirmed = confirm(lake).await?;
    Ok((curves, confirmed))
}

/// One depth and phase.
struct Stop<'a> {
    lake: &'a Lake<'a>,
    depth: u64,
    seq: u64,
    phase: Phase,
}

impl Stop<'_> {
    async fn take<T>(
        &self,
        curves: &mut Curves,
        (operation, access): (&'static str, &'static str),
        layout: Option<Layout>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        // In a catalog whose tables have all one layout, that is what everything is measured with.
        let only = if let [only] = self.lake.subject.layouts[..] { Some(only) } else { None };
        let cell = Cell { operation, access, phase: self.phase, layout: layout.or(only) };
        let what = format!("{operation} ({access}) of {} at {} commits", self.lake.subject.name(), self.seq);
        let (done, sample) = self.lake.meter.measure(&what, work).await?;
        curves.entry(cell).or_default().push(Point { depth: self.depth, seq: self.seq, sample });
        Ok(done)
    }

    /// What is current is what was committed, whoever asks.
    fn check(&self, what: &str, snapshot: &Snapshot) -> Result<()> {
        let (seq, tables) = (snapshot.seq(), snapshot.tables().len());
        if (seq, tables) == (self.seq, self.lake.subject.width) {
            return Ok(());
        }
        Err(Error::untrusted(what, format!("it found seq {seq} and {tables} tables, not {} and {}", self.seq, self.lake.subject.width)))
    }

    async fn lookups(&self, curves: &mut Curves) -> Result<()> {
        let lake = self.lake;
        let moved = self.take(curves, ("lookup", "warm"), None, current(&lake.reader)).await?;
        self.check("a lookup", &moved)?;
        let same = self.take(curves, ("lookup", "unchanged"), None, current(&lake.reader)).await?;
        self.check("a lookup", &same)?;
        let opened = async { at_open(&lake.process().await?).await };
        self.check("an open", &self.take(curves, ("open", "cold process"), None, opened).await?)?;
        let opened = async { at_open(&lake.handle().await?).await };
        self.check("an open", &self.take(curves, ("open", "shared session"), None, opened).await?)?;
        if self.phase == Phase::Equal {
            let processes = try_join_all((0..AT_ONCE).map(|_| lake.process())).await?;
            let all = self.take(curves, ("lookup", "8 at once"), None, try_join_all(processes.iter().map(current))).await?;
            all.iter().try_for_each(|snapshot| self.check("a lookup", snapshot))?;
            let all = try_join_all((0..AT_ONCE).map(|_| async { at_open(&lake.process().await?).await }));
            self.take(curves, ("open", "8 at once"), None, all).await?.iter().try_for_each(|snapshot| self.check("an open", snapshot))?;
        }
        Ok(())
    }

    async fn reads(&self, curves: &mut Curves) -> Result<()> {
        for layout in &self.lake.subject.layouts {
            let Some(table) = self.lake.subject.tables(*layout).first().copied() else { continue };
            if *layout == Layout::AsWritten && self.seq / self.lake.subject.width as u64 > READ_FILES {
                continue;
            }
            let cold = async { read(&at_open(&self.lake.process().await?).await?, table).await };
            let cold = self.take(curves, ("read", "cold process"), Some(*layout), cold).await?;
            let warm = async { read(&current(&self.lake.reader).await?, table).await };
            let warm = self.take(curves, ("read", "warm"), Some(*layout), warm).await?;
            if cold != warm || cold == 0 {
                return Err(Error::untrusted("a read", format!("{cold} rows came cold and {warm} warm")));
            }
        }
        Ok(())
    }

    /// To the middle of history, which is as far from the head's tail as from the first commit.
    async fn travels(&self, curves: &mut Curves) -> Result<()> {
        let goal = self.seq / 2;
        let back = async |snapshot: Snapshot| {
            let then = snapshot.at(At::Seq(goal)).await.map_err(Error::catalog("time travel"))?;
            if then.seq() == goal { Ok(()) } else { Err(Error::untrusted("time travel", format!("it came to {}, not {goal}", then.seq()))) }
        };
        let cold = async { back(at_open(&self.lake.process().await?).await?).await };
        self.take(curves, ("travel", "cold process"), None, cold).await?;
        let warm = async { back(at_open(&self.lake.reader).await?).await };
        self.take(curves, ("travel", "warm"), None, warm).await
    }

    /// The last, because they change what is measured. At a full tail the first one spills, and there is no second.
    async fn commits(&self, curves: &mut Curves) -> Result<()> {
        let lake = self.lake;
        for layout in &lake.subject.layouts {
            let Some(table) = lake.subject.tables(*layout).first().copied() else { continue };
            self.take(curves, ("commit", "warm"), Some(*layout), append(&lake.writer, vec![table])).await?;
            if self.phase == Phase::Full {
                return Ok(());
            }
        }
        for layout in &lake.subject.layouts {
            let tables = lake.subject.tables(*layout);
            if tables.len() > 1 {
                self.take(curves, ("commit to 3 tables", "warm"), Some(*layout), append(&lake.writer, tables)).await?;
            }
        }
        let (layout, table) = (lake.subject.layouts.last().copied(), lake.subject.width.min(6) - 1);
        let cold = async { append(&lake.process().await?, vec![table]).await };
        self.take(curves, ("commit", "cold process"), layout, cold).await?;
        if lake.subject.width >= AT_ONCE + 2 {
            // The writer has to see what the other process wrote.
            append(&lake.writer, vec![table]).await?;
            let tables = (2..2 + AT_ONCE).collect();
            self.take(curves, ("commit", "8 at once"), None, append_at_once(&lake.writer, tables)).await?;
        }
        Ok(())
    }
}

/// Has the clock confirm the round trips of one operation of each kind, when all is measured.
async fn confirm(lake: &Lake<'_>) -> Result<Vec<Confirmation>> {
    let goal = lake.seq().await? / 2;
    let mut confirmed = Vec::new();
    for (operation, access) in [("lookup", "unchanged"), ("open", "cold process"), ("travel", "cold process"), ("commit", "warm")] {
        let work = async || match operation {
            "lookup" => current(&lake.reader).await.map(drop),
            "open" => at_open(&lake.process().await?).await.map(drop),
            "travel" => {
                let then = at_open(&lake.process().await?).await?.at(At::Seq(goal)).await;
                then.map(drop).map_err(Error::catalog("time travel"))
            }
            _ => append(&lake.writer, vec![0]).await.map(drop),
        };
        // Done once before it is counted: what changed since the last time is known again.
        work().await?;
        let what = format!("{operation} ({access}) of {} with delayed requests", lake.subject.name());
        let round_trips = lake.meter.measure(&what, work()).await?.1.round_trips;
        let times_the_delay = lake.meter.confirm(&what, round_trips, work).await?;
        let (authority, store) = (lake.place.authority(), lake.subject.store.clone());
        confirmed.push(Confirmation { authority, store, operation, access, round_trips, times_the_delay });
    }
    Ok(confirmed)
}

async fn current(branch: &Branch) -> Result<Snapshot> {
    branch.snapshot().await.map_err(Error::catalog("a lookup"))
}

async fn at_open(branch: &Branch) -> Result<Snapshot> {
    branch.snapshot_at_open().await.map_err(Error::catalog("a lookup"))
}

/// Reads all rows of a table, and returns how many there are.
async fn read(snapshot: &Snapshot, table: usize) -> Result<usize> {
    let failed = || Error::catalog(format!("reading the table {}", key(table)));
    let mut rows = 0;
    for partition in snapshot.scan(&key(table), &Scan::default()).await.map_err(failed())? {
        let mut batches = (partition.open)();
        while let Some(batch) = batches.try_next().await.map_err(failed())? {
            rows += batch.num_rows();
        }
    }
    Ok(rows)
}
