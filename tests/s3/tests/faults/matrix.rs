//! One fault at one request of one operation, and what must be true afterwards.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use headwater_bench::proxy::{Fault, Proxy, Request, Rule, S3Error, Verb, render};
use headwater_bench::server::Server;
use headwater_conformance::crash::Scenario;
use headwater_core::{Commit, ErrorKind, Result, Retry, RetryPolicy};

use crate::place::{Copy, Place, RESOLVES, Reader, Rival, Seen, TOKEN, operate, parts, retry};
use crate::wire::{HEAD, Planned, Site, Wire};

/// Cells at once, each with a bucket and a proxy of its own.
const AT_ONCE: usize = 16;
/// The reads of the head by which a swap would be settled. The SDK repeats them, while its budget for that lasts.
const READS: usize = RESOLVES as usize + 1;

/// Who else commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum With {
    Nobody,
    Rival,
}

/// What is injected into one operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell {
    /// This happens at this request.
    At(Site, Wire),
    /// This becomes of the swap, and the read that would settle it is told that the clocks differ.
    SwapThenSkewedRead(Wire),
    /// This becomes of the swap, and the head cannot be reached until the caller gives up; then its token is settled, before or after what
    /// is held back has landed.
    Gone(Wire, bool),
    /// The swap lands, and the head answers 503 to this many requests.
    HeadStorm(usize),
}

impl Cell {
    /// What a table of cells calls it.
    fn name(self) -> String {
        match self {
            Self::At(_, wire) => format!("{wire:?}"),
            Self::SwapThenSkewedRead(wire) => format!("swap {wire:?}, read skewed"),
            Self::Gone(wire, early) => format!("swap {wire:?}, head gone, settled {}", if early { "early" } else { "late" }),
            Self::HeadStorm(n) => format!("swap lands, {n} times 503"),
        }
    }

    /// Whether the caller cannot learn what became of its commit: the read that would settle it is refused. `swap` is its first one.
    fn leaves_unknown(self, swap: &Site) -> bool {
        match self {
            Self::SwapThenSkewedRead(_) | Self::Gone(..) => true,
            Self::At(site, wire) => wire.is_skewed() && (site == *swap || site.is_after(swap)),
            Self::HeadStorm(_) => false,
        }
    }

    fn inject(self, proxy: &Proxy, swap: &Site) -> Planned {
        let reads = |fault| Rule::new(fault).verb(Verb::Get).key_ends_with(HEAD);
        match self {
            Self::At(site, wire) => Planned::at(proxy, &site, wire),
            Self::SwapThenSkewedRead(wire) => {
                let mut planned = Planned::default();
                let first = planned.add(proxy, swap.rule(wire.fault()), 1);
                planned.add(proxy, reads(Fault::Reject(S3Error::TIME_TOO_SKEWED)).after(&first).first(1), 1);
                planned
            }
            Self::Gone(wire, _) => {
                let mut planned = Planned::default();
                let first = planned.add(proxy, swap.rule(wire.fault()), 1);
                planned.add(proxy, reads(Fault::DropRequest).after(&first), READS);
                planned
            }
            Self::HeadStorm(n) => {
                let mut planned = Planned::default();
                let busy = Fault::Override(S3Error::SLOW_DOWN);
                let first = planned.add(proxy, swap.rule(busy.clone()), 1);
                planned.add(proxy, Rule::new(busy).key_ends_with(HEAD).after(&first).first(n - 1), n - 1);
                planned
            }
        }
    }
}

/// What was tried of one operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) cells: usize,
    /// Faults that happened; each cell has one or more.
    pub(crate) fired: usize,
    pub(crate) succeeded: usize,
    pub(crate) refused: usize,
    pub(crate) unknown: usize,
}

impl Counts {
    pub(crate) fn of<T>(told: &Result<T>, fired: usize) -> Self {
        let unknown = matches!(told, Err(error) if error.kind() == ErrorKind::PublishUnknown);
        let (succeeded, refused) = (usize::from(told.is_ok()), usize::from(told.is_err() && !unknown));
        Self { cells: 1, fired, succeeded, refused, unknown: usize::from(unknown) }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.cells += other.cells;
        self.fired += other.fired;
        self.succeeded += other.succeeded;
        self.refused += other.refused;
        self.unknown += other.unknown;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cells, fired, succeeded, refused, unknown } = self;
        write!(f, "{cells} cells, {fired} faults fired: {succeeded} succeeded, {refused} refused, {unknown} unknown")
    }
}

/// Runs all cells, many at once. One violation does not hide another.
pub(crate) async fn all<C>(name: &str, cells: Vec<(String, C)>, cell: impl AsyncFn(C) -> Counts) -> Counts {
    let planned = cells.len();
    let tried = cells.into_iter().map(|(kind, planned)| {
        let tried = AssertUnwindSafe(cell(planned)).catch_unwind();
        tried.map(|counts| (kind, counts))
    });
    let done: Vec<_> = futures::stream::iter(tried).buffer_unordered(AT_ONCE).collect().await;
    let (mut sum, mut kinds) = (Counts::default(), BTreeMap::<String, Counts>::new());
    for (kind, counts) in done {
        if let Ok(counts) = counts {
            sum.add(&counts);
            kinds.entry(kind).or_default().add(&counts);
        }
    }
    let kinds: String = kinds.iter().map(|(kind, counts)| format!("  {kind}: {counts}\n")).collect();
    headwater_conformance::report(format_args!(
        "on {}: {name}: {sum}; {} violations\n{kinds}",
        Server::shared().unwrap().name(),
        planned - sum.cells
    ));
    assert!(sum.cells == planned && sum.fired >= planned, "{} of {planned} cells: violations", planned - sum.cells);
    sum
}

/// An operation, its requests, and what is seen before and after it.
pub(crate) struct Bench {
    pub(crate) scenario: Scenario,
    with: With,
    copy: Copy,
    reader: Reader,
    pub(crate) requests: Vec<Request>,
    before: Vec<Seen>,
    after: Seen,
}

/// What a cell came to.
pub(crate) struct Tried {
    pub(crate) told: Result<Commit>,
    pub(crate) requests: Vec<Request>,
    fired: usize,
}

impl Bench {
    pub(crate) async fn new(scenario: Scenario, with: With) -> Self {
        let (copy, reader) = (Copy::before(&scenario).await, Reader::default());
        let place = Place::new(&copy).await;
        let mut before = vec![reader.read(&place).await];
        let rival = (with == With::Rival).then(|| Rival::new(&place));
        operate(place.proxied(), &scenario, rival.as_ref()).await.unwrap();
        let after = reader.read(&place).await;
        if with == With::Rival {
            let place = Place::new(&copy).await;
            Rival::new(&place).commit().await;
            before.push(reader.read(&place).await);
        }
        assert!(!before.contains(&after) && before.iter().all(|seen| seen.tokens.is_empty()) && after.tokens.len() == 1);
        Self { requests: place.proxy.requests(), scenario, with, copy, reader, before, after }
    }

    fn swaps(&self) -> Vec<Site> {
        Site::all(&self.requests).into_iter().filter(|site| site.is_head() && site.verb == Verb::Put).collect()
    }

    /// The swap that publishes.
    pub(crate) fn swap(&self) -> Site {
        *self.swaps().last().unwrap()
    }

    pub(crate) async fn place(&self) -> Place {
        Place::new(&self.copy).await
    }

    pub(crate) async fn seen(&self, place: &Place) -> Seen {
        self.reader.read(place).await
    }

    /// One cell: what the caller was told is true, stays true when all that is under way has landed, and the token settles the rest.
    pub(crate) async fn cell(&self, cell: Cell, retry: RetryPolicy) -> Tried {
        let place = self.place().await;
        let rival = (self.with == With::Rival).then(|| Rival::new(&place));
        let planned = cell.inject(&place.proxy, &self.swap());
        let mut parts = place.proxied();
        parts.retry = retry;
        let told = operate(parts, &self.scenario, rival.as_ref()).await;
        let what = format!("{}, {:?}, {cell:?}: {told:?}\n{}", self.scenario.name, self.with, place.proxy.render());
        assert!(planned.all_fired(), "a planned fault did not happen: {what}");
        honest(cell, &self.swaps()[0], &told, &what);

        self.compare(&place, &told, &what).await;
        let early = matches!(cell, Cell::Gone(_, early) if early);
        if early {
            self.settle(&place, rival.as_ref(), &what).await;
        }
        planned.release().await;
        if !early {
            self.compare(&place, &told, &what).await;
        }
        let requests = place.proxy.requests();
        place.proxy.heal();
        if told.is_err() {
            self.settle(&place, rival.as_ref(), &what).await;
        }
        assert_eq!(self.seen(&place).await, self.after, "not there exactly once: {what}");
        place.verify().await;
        Tried { told, requests, fired: planned.fired() }
    }

    async fn compare(&self, place: &Place, told: &Result<Commit>, what: &str) {
        let seen = self.seen(place).await;
        let there = seen == self.after;
        assert!(there || self.before.contains(&seen), "neither all nor nothing is there: {seen:?}: {what}");
        match told {
            Ok(commit) => assert!(there && seen.tokens == [commit.seq], "acknowledged, and not there: {what}"),
            Err(error) if error.kind() == ErrorKind::PublishUnknown => {}
            Err(_) => assert!(!there, "refused, and there: {what}"),
        }
    }

    /// Another process does the same under the same token.
    async fn settle(&self, place: &Place, rival: Option<&Arc<Rival>>, what: &str) {
        let settled = operate(parts(&place.direct), &self.scenario, rival).await;
        settled.unwrap_or_else(|error| panic!("the token settles nothing: {error:?}\n{what}"));
    }
}

/// What a caller may be told. A network that comes back costs a commit nothing, unless it refuses for good or for too long.
fn honest(cell: Cell, swap: &Site, told: &Result<Commit>, what: &str) {
    let unknown = cell.leaves_unknown(swap);
    let Err(error) = told else {
        return assert!(!unknown, "it cannot know: {what}");
    };
    // The token is the caller's: whatever became of this attempt, it is the one to try again.
    assert!(error.token().is_none_or(|token| token.as_str() == TOKEN), "{what}");
    if unknown {
        assert_eq!((error.kind(), error.retry()), (ErrorKind::PublishUnknown, Retry::ResolveFirst), "{what}");
        return assert!(error.token().is_some(), "{what}");
    }
    let Cell::At(site, wire) = cell else { panic!("no reason to fail: {what}") };
    let expected: &[ErrorKind] = match wire {
        // A refused signature is no passing failure.
        _ if wire.is_skewed() => &[ErrorKind::InvalidInput, ErrorKind::Unavailable],
        // Reads are repeated twice.
        Wire::Storm503 if site.verb != Verb::Put => &[ErrorKind::Unavailable],
        _ => panic!("no reason to fail: {what}"),
    };
    assert!(expected.contains(&error.kind()), "{what}");
}

/// Every fault at every request of an operation.
pub(crate) async fn run(scenario: Scenario, with: With) {
    let bench = Bench::new(scenario, with).await;
    let count = bench.requests.len();
    assert_eq!(bench.swaps().len(), if with == With::Rival { 2 } else { 1 }, "{}", render(&bench.requests));
    let mut cells = Vec::new();
    // A rival shows from the first swap on: what comes before it is the same without one.
    let sites = Site::all(&bench.requests);
    let from = sites.iter().position(|site| with == With::Nobody || *site == bench.swaps()[0]).unwrap();
    for site in &sites[from..] {
        cells.extend(site.faults().map(|wire| Cell::At(*site, wire)));
    }
    cells.extend([Cell::HeadStorm(2), Cell::HeadStorm(3)]);
    for swap in [Wire::ReplyLost, Wire::RequestLost, Wire::LandsAtTheEnd] {
        cells.extend([Cell::SwapThenSkewedRead(swap), Cell::Gone(swap, false), Cell::Gone(swap, true)]);
    }
    let cells = cells.into_iter().map(|cell| (cell.name(), cell)).collect();
    let name = format!("{}, {with:?} beside it, {count} requests", bench.scenario.name);
    let tried = async |cell| {
        let Tried { told, fired, .. } = bench.cell(cell, retry()).await;
        Counts::of(&told, fired)
    };
    let sum = all(&name, cells, tried).await;
    assert!(sites.len() - from >= 5 && sum.cells > 10 * (sites.len() - from) && sum.succeeded > sum.refused && sum.unknown >= 9, "{sum}");
}
