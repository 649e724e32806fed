//! One fault at one request of one operation, and what must be true afterwards.

mod copy;
mod creation;
mod seen;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use futures::future::join_all;
use headwater_conformance::crash::Scenario;
use headwater_conformance::crash::scenarios::ALL;
use headwater_conformance::faults::{Fault, Meanwhile, Network, Planned, When};
use headwater_conformance::rows;
use headwater_core::{Catalog, Commit, Error, ErrorKind, Result, Retry};

use crate::place::{Place, options};
use copy::Copy;
pub use creation::creation;
use seen::{RIVAL, Reader, Seen};

/// Everything a network can do to one request, and to the ones behind it.
pub const FAULTS: [Fault; 16] = [
    Fault::RequestsLost(1),
    Fault::RequestsLost(2),
    Fault::RequestsLost(u32::MAX),
    Fault::RepliesLost(1),
    Fault::RepliesLost(2),
    Fault::RepliesLost(u32::MAX),
    Fault::Late(When::Requests(0)),
    Fault::Late(When::Requests(1)),
    Fault::Late(When::Requests(2)),
    Fault::Late(When::Released),
    Fault::Repeated(When::Requests(0)),
    Fault::Repeated(When::Released),
    Fault::Echoed,
    Fault::Refused,
    Fault::Rejected,
    Fault::Delayed(50),
];

/// The operation that fails where a commit was not even begun.
const OPEN: &str = "open";

/// Commits that go side by side through the threads of a disk share a swap or not. What is planned are the requests that this many runs have in
/// common; and a cell whose request a run did without is tried again, this often.
const RUNS: usize = 10;
const TRIES: usize = 40;

/// A constructor of places.
pub type NewPlace = fn() -> futures::future::LocalBoxFuture<'static, Place>;

/// What was tried of one operation.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    /// The operation.
    pub scenario: &'static str,
    /// Its requests.
    pub requests: usize,
    /// Planned faults, with and without a rival that commits meanwhile.
    pub cells: usize,
    /// Those that happened.
    pub fired: usize,
    /// Commits that succeeded.
    pub succeeded: usize,
    /// Commits that were refused.
    pub refused: usize,
    /// Commits that had to be settled.
    pub unknown: usize,
}

impl fmt::Display for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, requests, cells, fired, succeeded, refused, unknown } = self;
        write!(f, "{scenario:<48} {requests:>8} {cells:>6} {fired:>6} {succeeded:>9} {refused:>7} {unknown:>7}")
    }
}

impl Cells {
    /// Names the columns of a printed line.
    pub const HEADER: &'static str = "operation, requests, cells, fired, commits that succeeded, were refused, were unknown";

    fn count<T>(&mut self, told: &Result<T>) {
        match told {
            Ok(_) => self.succeeded += 1,
            Err(error) if error.kind() == ErrorKind::PublishUnknown => self.unknown += 1,
            Err(_) => self.refused += 1,
        }
    }

    /// Adds up.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.cells += other.cells;
        self.fired += other.fired;
        self.succeeded += other.succeeded;
        self.refused += other.refused;
        self.unknown += other.unknown;
    }
}

/// The requests that went through a network: each verb with its number.
fn requests(network: &Network) -> Vec<(&'static str, usize)> {
    let mut counts = BTreeMap::new();
    let number = |verb| {
        let count: &mut usize = counts.entry(verb).or_default();
        *count += 1;
        (verb, *count - 1)
    };
    network.passed().into_iter().map(|passed| passed.verb).map(number).collect()
}

/// The requests of an operation that nothing disturbs: those that it never does without.
async fn undisturbed(bench: &Bench<'_>) -> Vec<(&'static str, usize)> {
    let scenario = bench.scenario;
    let run = async || {
        let (place, network) = (bench.place().await, Network::calm());
        let told = operate(&place, &network, scenario).await;
        assert!(told.iter().all(Result::is_ok), "{}: {told:?}", scenario.name);
        requests(&network)
    };
    let mut common = run().await;
    let side_by_side = scenario.commits.len() > 1;
    for _ in 1..if side_by_side { RUNS } else { 1 } {
        let others = run().await;
        common.retain(|request| others.contains(request));
    }
    common
}

fn token(i: usize) -> String {
    format!("operation-{i}")
}

async fn commit(catalog: &Catalog, scenario: &Scenario, i: usize) -> Result<Commit> {
    catalog.branch("main")?.transact_with(options(&token(i)), scenario.commits[i]).await
}

/// The operation, from the opening of the catalog on: what each commit was told.
async fn operate(place: &Place, network: &Arc<Network>, scenario: &Scenario) -> Vec<Result<Commit>> {
    let commits = 0..scenario.commits.len();
    match Catalog::open(place.parts(network).await).await {
        Ok(catalog) => join_all(commits.map(|i| commit(&catalog, scenario, i))).await,
        Err(error) => {
            let kind = error.kind();
            commits.map(|_| Err(Error::new(kind, "the catalog could not be opened").because(format!("{error:?}")).during(OPEN))).collect()
        }
    }
}

/// A process whose network does nothing.
async fn calm(place: &Place) -> Catalog {
    Catalog::open(place.parts(&Network::calm()).await).await.unwrap()
}

/// Another process creates a table that nobody else knows.
async fn rival(place: &Place) -> Meanwhile {
    let parts = place.parts(&Network::calm()).await;
    Arc::new(move || {
        let parts = parts.clone();
        Box::pin(async move {
            let main = Catalog::open(parts).await.unwrap().branch("main").unwrap();
            main.transact(|tx| async move { tx.create_table(RIVAL, rows::schema()).await.map(drop) }).await.unwrap();
        })
    })
}

/// An operation, and all it can come to.
struct Bench<'a> {
    new: NewPlace,
    scenario: &'a Scenario,
    copy: Copy,
    reader: Reader,
    /// What a reader sees after each subset of the commits.
    outcomes: Vec<(BTreeSet<usize>, Seen)>,
}

impl<'a> Bench<'a> {
    async fn new(new: NewPlace, scenario: &'a Scenario) -> Self {
        let mut bench =
            Self { new, scenario, copy: Copy::before(scenario, new().await.kind).await, reader: Reader::default(), outcomes: Vec::new() };
        let count = scenario.commits.len();
        for bits in 0..1_usize << count {
            let (which, place): (BTreeSet<usize>, _) = ((0..count).filter(|i| bits >> i & 1 == 1).collect(), bench.place().await);
            for i in &which {
                commit(&calm(&place).await, scenario, *i).await.unwrap();
            }
            let seen = bench.reader.read(&calm(&place).await).await;
            assert!(bench.outcomes.iter().all(|(_, other)| *other != seen), "{}: it cannot be seen whether it happened", scenario.name);
            bench.outcomes.push((which, seen));
        }
        bench
    }

    async fn place(&self) -> Place {
        let place = (self.new)().await;
        self.copy.put_down(&place).await;
        place
    }

    /// Compares what is there with what callers were told. Which commits are there.
    async fn compare(&self, place: &Place, told: &[Result<Commit>], when: &str) -> BTreeSet<usize> {
        let seen = self.reader.read(&calm(place).await).await;
        let which = self.outcomes.iter().find(|(_, outcome)| *outcome == seen).map(|(which, _)| which.clone());
        let which = which.unwrap_or_else(|| panic!("{when}: neither all nor nothing of a commit is there: {seen:?}"));
        for (i, outcome) in told.iter().enumerate() {
            match outcome {
                Ok(_) => assert!(which.contains(&i), "{when}: commit {i} was acknowledged and is not there"),
                Err(error) if error.kind() == ErrorKind::PublishUnknown => {}
                Err(error) => assert!(!which.contains(&i), "{when}: commit {i} was refused and is there: {error:?}"),
            }
        }
        which
    }

    /// One fault. Afterwards everything that was told is true, stays true when all that is under way has arrived, and every token settles.
    /// Whether the fault happened, and what each commit was told.
    async fn cell(&self, planned: Planned, with_rival: bool) -> (bool, Vec<Result<Commit>>) {
        let place = self.place().await;
        let network = Network::planned(&[planned]);
        if with_rival {
            network.meanwhile(rival(&place).await);
        }
        let told = operate(&place, &network, self.scenario).await;
        for (i, outcome) in told.iter().enumerate() {
            place.recorder.told(&token(i).parse().unwrap(), outcome);
            honest(planned, outcome, told.len() > 1);
        }
        self.compare(&place, &told, "with requests under way").await;
        // What is unknown is settled before its request arrives, or afterwards.
        let early = !with_rival;
        if !early {
            network.release().await;
            self.compare(&place, &told, "with nothing under way").await;
        }
        let retrying = calm(&place).await;
        for (i, outcome) in told.iter().enumerate() {
            let unknown = matches!(outcome, Err(error) if error.kind() == ErrorKind::PublishUnknown);
            if outcome.is_err() && (unknown || !early) {
                self.again(&place, &retrying, i).await;
            }
        }
        network.release().await;
        if early {
            self.compare(&place, &told, "after all that was under way arrived").await;
            for i in (0..told.len()).filter(|i| told[*i].is_err()) {
                self.again(&place, &retrying, i).await;
            }
        }
        let full = &self.outcomes[self.outcomes.len() - 1].1;
        assert_eq!(self.reader.read(&calm(&place).await).await, *full, "each commit is there exactly once");
        place.check().await;
        (network.fired() == [planned], told)
    }

    async fn again(&self, place: &Place, retrying: &Catalog, i: usize) {
        let token = token(i).parse().unwrap();
        place.recorder.tried_again(&token);
        let outcome = commit(retrying, self.scenario, i).await;
        place.recorder.told(&token, &outcome);
        outcome.unwrap_or_else(|error| panic!("the same request with the same token must succeed: {error:?}"));
    }
}

/// What a caller may be told. A network that comes back costs a commit nothing once its objects are there, unless it refuses for good.
fn honest(planned: Planned, outcome: &Result<Commit>, side_by_side: bool) {
    let comes_back = !matches!(planned.fault, Fault::RequestsLost(u32::MAX) | Fault::RepliesLost(u32::MAX) | Fault::Rejected);
    match outcome {
        Ok(_) => {}
        Err(error) => {
            // Data that is on its way beside a record may be lost with it, and beside a swap another commit's.
            let alone = !matches!(planned.fault, Fault::RequestsLost(2) | Fault::RepliesLost(2));
            let control_write = match planned.verb {
                "SWAP head" => alone || !side_by_side,
                "CREATE record" => alone,
                _ => false,
            };
            assert!(!(control_write && comes_back), "{planned:?} is no reason to fail: {error:?}");
            assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::PublishUnknown), "{planned:?} is no reason for {error:?}");
            // The token is the caller's: whatever became of this attempt, it is the one to try again.
            let verdict = if error.token().is_some() { Retry::ResolveFirst } else { Retry::Retry };
            assert_eq!((error.retry(), error.token().is_some() || error.operation() == Some(OPEN)), (verdict, true), "{error:?}");
        }
    }
}

/// Every fault at every request of an operation, without and, where asked for, with a rival.
pub async fn run(new: NewPlace, scenario: &Scenario, rivals: &[bool]) -> Cells {
    let bench = Bench::new(new, scenario).await;
    let requests = undisturbed(&bench).await;
    let mut cells = Cells { scenario: scenario.name, requests: requests.len(), ..Cells::default() };
    for (verb, nth) in requests {
        for fault in FAULTS.into_iter().filter(|fault| fault.fits(verb)) {
            for with_rival in rivals.iter().copied() {
                let planned = Planned { verb, nth, fault };
                // Shown where a cell fails.
                println!("{}: {planned:?}, rival {with_rival}", scenario.name);
                let mut cell = bench.cell(planned, with_rival).await;
                for _ in 1..TRIES {
                    if cell.0 {
                        break;
                    }
                    cell = bench.cell(planned, with_rival).await;
                }
                cells.cells += 1;
                cells.fired += usize::from(cell.0);
                cell.1.iter().for_each(|outcome| cells.count(outcome));
            }
        }
    }
    cells
}

/// Whether the store does what the operation asks for.
async fn does(new: NewPlace, scenario: &Scenario) -> bool {
    let place = new().await;
    Copy::before(scenario, place.kind).await.put_down(&place).await;
    match commit(&calm(&place).await, scenario, 0).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => false,
        done => done.map(|_| true).unwrap(),
    }
}

/// The operations of one adapter that the store does, or the creation of a catalog. What a rival makes of a fault is tried in memory: it is the same code, and
/// every cell on a disk waits for the disk.
pub async fn cells(new: NewPlace, adapter: Option<&str>, rivals: &[bool]) {
    let mut all = Vec::new();
    match adapter {
        None => all.push(creation(new).await),
        Some(adapter) => {
            for scenario in ALL.iter().filter(|scenario| scenario.adapter.name() == adapter) {
                if does(new, scenario).await {
                    all.push(run(new, scenario, rivals).await);
                }
            }
        }
    }
    let mut sum = Cells { scenario: "all", ..Cells::default() };
    headwater_conformance::report(Cells::HEADER);
    for cells in &all {
        headwater_conformance::report(cells);
        assert!(cells.requests > 0 && cells.cells >= 3 * cells.requests && cells.fired == cells.cells, "{cells:?}");
        sum.add(cells);
    }
    headwater_conformance::report(&sum);
    assert!(sum.succeeded > 0 && sum.refused > 0 && (sum.unknown > 0) == adapter.is_some(), "a kind of outcome never happened: {sum:?}");
}
