//! Crash at every I/O: each operation is run once to count its requests; then, once per request, the process dies before it, and once more
//! dies after it with the reply lost. Each time another process opens the place and must find all of the operation or nothing of it.

pub mod scenarios;
mod state;

use std::collections::BTreeSet;
use std::fmt;

use futures::future::{LocalBoxFuture, join_all};
use headwater_core::adapter::WriterKind;
use headwater_core::ids::Token;
use headwater_core::{Branch, Catalog, Commit, ErrorKind, Parts, Result, TransactOptions, Transaction};

use crate::commit::lineage;
use crate::lab::{Lab, main};
use crate::rows;
use crate::tap::{Fault, Tap, render};

pub use state::State;

/// What a process does before the operation.
pub type Setup = fn(Branch) -> LocalBoxFuture<'static, Result<()>>;
/// What a commit asks for.
pub type Closure = fn(Transaction) -> LocalBoxFuture<'static, Result<()>>;

/// One operation and what comes before it.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// What it does.
    pub name: &'static str,
    /// The adapter it is of.
    pub adapter: WriterKind,
    /// The kinds of control records it writes, as prefixes of their keys: what makes it another case than its neighbours.
    pub records: &'static [&'static str],
    /// Makes the state before it.
    pub setup: Setup,
    /// The operation: commits that one process makes side by side, mostly one.
    pub commits: &'static [Closure],
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scenario").field(&self.name).finish()
    }
}

/// What was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells {
    /// The operation.
    pub scenario: &'static str,
    /// Its requests.
    pub requests: usize,
    /// Crashes tried: two per request.
    pub cells: usize,
    /// Crashes that happened where they were planned.
    pub fired: usize,
}

impl Lab {
    /// A place in the state before the operation.
    async fn prepared(&self, scenario: &Scenario) {
        (scenario.setup)(main(&self.create().await)).await.unwrap();
    }

    /// The state after some of the commits, in a world where nothing fails.
    async fn state_after(&self, scenario: &Scenario, which: &BTreeSet<usize>) -> State {
        self.prepared(scenario).await;
        let catalog = self.open().await;
        for i in which {
            main(&catalog).transact(scenario.commits[*i]).await.unwrap();
        }
        State::read(&catalog).await
    }
}

/// The token of a commit of the operation.
fn token(i: usize) -> Token {
    format!("operation-{i}").parse().unwrap()
}

async fn commit(branch: &Branch, scenario: &Scenario, i: usize) -> Result<Commit> {
    let options = TransactOptions { token: Some(token(i)), ..TransactOptions::default() };
    branch.transact_with(options, scenario.commits[i]).await
}

/// The operation, from the opening of the catalog on. What each commit was told.
pub async fn operate(parts: Parts, scenario: &Scenario) -> Vec<Result<Commit>> {
    let count = scenario.commits.len();
    match Catalog::open(parts).await {
        Ok(catalog) => {
            join_all((0..count).map(|i| {
                let branch = main(&catalog);
                async move { commit(&branch, scenario, i).await }
            }))
            .await
        }
        Err(error) => {
            let kind = error.kind();
            (0..count).map(|_| Err(headwater_core::Error::new(kind, "the catalog could not be opened"))).collect()
        }
    }
}

/// What may be found after a crash: for every subset of the commits, the state that it makes.
pub async fn outcomes(lab: &Lab, scenario: &Scenario) -> Vec<(BTreeSet<usize>, State)> {
    let mut outcomes = Vec::new();
    for which in subsets(scenario.commits.len()) {
        let state = lab.state_after(scenario, &which).await;
        assert!(outcomes.iter().all(|(_, other)| *other != state), "{}: it cannot be seen whether it happened", scenario.name);
        outcomes.push((which, state));
    }
    outcomes
}

/// Every subset of `0..count`.
fn subsets(count: usize) -> Vec<BTreeSet<usize>> {
    (0..1_usize << count).map(|bits| (0..count).filter(|i| bits >> i & 1 == 1).collect()).collect()
}

/// How often a crash is planned again that the run did not come to. One that never comes is missing among the fired ones.
const ATTEMPTS: usize = 20;

/// Crashes one operation at each of its requests, in both ways.
pub async fn run(lab: &Lab, scenario: &Scenario) -> Cells {
    let outcomes = outcomes(lab, scenario).await;
    lab.prepared(scenario).await;
    let tap = Tap::new();
    let told = operate(lab.parts(&tap).await, scenario).await;
    assert!(told.iter().all(Result::is_ok), "{}: {told:?}", scenario.name);
    let requests = tap.requests();
    for kind in scenario.records {
        let written = requests.iter().any(|request| request.verb == "CREATE record" && request.key.starts_with(kind));
        assert!(written, "{} writes no {kind} record:\n{}", scenario.name, render(&requests));
    }
    lab.check().await;
    let mut cells = Cells { scenario: scenario.name, requests: requests.len(), cells: 0, fired: 0 };
    for k in 0..requests.len() {
        for fault in [Fault::Before(k), Fault::After(k)] {
            println!("{}: {fault:?} of\n{}", scenario.name, render(&requests));
            cells.cells += 1;
            // Commits side by side may share a swap in one run and not in another: then the last requests are not there to die at.
            for _ in 0..ATTEMPTS {
                if cell(lab, scenario, &outcomes, fault).await {
                    cells.fired += 1;
                    break;
                }
            }
        }
    }
    cells
}

/// One crash. Whether it happened.
async fn cell(lab: &Lab, scenario: &Scenario, outcomes: &[(BTreeSet<usize>, State)], fault: Fault) -> bool {
    lab.prepared(scenario).await;
    let (recorder, tap) = (lab.recorder(), Tap::with_fault(fault));
    let told = operate(lab.parts(&tap).await, scenario).await;
    for (i, outcome) in told.iter().enumerate() {
        recorder.told(&token(i), outcome);
        if let Err(error) = outcome {
            let honest = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::PublishUnknown);
            assert!(honest, "the backend is out of reach, and the error is {error:?}");
        }
    }

    let found = State::read(&lab.open().await).await;
    let which = outcomes.iter().find(|(_, state)| *state == found);
    let (which, _) = which.unwrap_or_else(|| panic!("neither all nor nothing of a commit is there: {found:?}"));
    for (i, outcome) in told.iter().enumerate() {
        match outcome {
            Ok(_) => assert!(which.contains(&i), "commit {i} was acknowledged and is not there"),
            Err(error) if error.kind() == ErrorKind::PublishUnknown => {}
            Err(error) => assert!(!which.contains(&i), "commit {i} was refused and is there: {error:?}"),
        }
    }
    lab.verify().await;

    let retrying = lab.open().await;
    for i in 0..scenario.commits.len() {
        recorder.tried_again(&token(i));
        let again = commit(&main(&retrying), scenario, i).await;
        recorder.told(&token(i), &again);
        again.unwrap_or_else(|error| panic!("the same request with the same token must succeed: {error:?}"));
    }
    let full = &outcomes.last().unwrap().1;
    assert_eq!(State::read(&lab.open().await).await, *full, "each commit is there exactly once");
    lineage::assert_up(&lab.open().await).await;

    let fresh = lab.open().await;
    let branch = main(&fresh);
    let committed = branch.transact(|tx| async move {
        let table = tx.create_table("written after the crash", rows::schema()).await?;
        tx.append(&table, rows::numbered(0..3)).await
    });
    assert_eq!(committed.await.unwrap().seq, full.seq() + 1);
    lab.check().await;
    tap.fired()
}

/// Crashes the creation of a catalog at each of its requests, in both ways.
pub async fn creation(lab: &Lab) -> Cells {
    let scenario = "create a catalog";
    lab.move_on().await;
    let tap = Tap::new();
    Catalog::open_or_create(lab.parts(&tap).await, lab.store()).await.unwrap();
    let requests = tap.requests();
    let mut cells = Cells { scenario, requests: requests.len(), cells: 0, fired: 0 };
    for k in 0..requests.len() {
        for fault in [Fault::Before(k), Fault::After(k)] {
            println!("{scenario}: {fault:?} of\n{}", render(&requests));
            lab.move_on().await;
            let tap = Tap::with_fault(fault);
            let created = Catalog::open_or_create(lab.parts(&tap).await, lab.store()).await;
            let other = Catalog::open(lab.parts(&Tap::new()).await).await;
            match (&created, &other) {
                (_, Ok(there)) => assert_eq!(State::read(there).await, State::default(), "a new catalog is empty"),
                (Ok(_), Err(error)) => panic!("the catalog was created and is not there: {error:?}"),
                (Err(_), Err(error)) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}"),
            }
            let catalog = lab.open().await;
            for known in [&created, &other].into_iter().flatten() {
                assert_eq!(known.id(), catalog.id(), "there is one catalog, whoever created it");
            }
            main(&catalog).transact(|tx| async move { tx.create_table("t", rows::schema()).await.map(drop) }).await.unwrap();
            lab.check().await;
            cells.cells += 1;
            cells.fired += usize::from(tap.fired());
        }
    }
    cells
}

/// Whether the store does what the operation asks for. Where it does not, it says so, and nothing of it is there.
pub async fn does(lab: &Lab, scenario: &Scenario) -> bool {
    lab.prepared(scenario).await;
    let before = State::read(&lab.open().await).await;
    for body in scenario.commits {
        match main(&lab.open().await).transact(*body).await {
            Ok(_) => return true,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{}: {error:?}", scenario.name),
        }
    }
    assert_eq!(State::read(&lab.open().await).await, before, "{}", scenario.name);
    lab.check().await;
    false
}

/// The creation of a catalog and every scenario of [`scenarios::ALL`].
pub async fn run_all(lab: &Lab) -> Vec<Cells> {
    let mut all = vec![creation(lab).await];
    for scenario in scenarios::ALL {
        if does(lab, scenario).await {
            all.push(run(lab, scenario).await);
        }
    }
    for cells in &all {
        assert!(cells.requests > 0 && cells.cells == 2 * cells.requests && cells.fired == cells.cells, "{cells:?}");
    }
    all
}

/// The cells as a table.
pub fn table(all: &[Cells]) -> String {
    let line = |name: &str, requests, cells, fired| format!("{name:<44} {requests:>9} {cells:>6} {fired:>6}\n");
    let mut text = format!("{:<44} {:>9} {:>6} {:>6}\n", "operation", "requests", "cells", "fired");
    for Cells { scenario, requests, cells, fired } in all {
        text.push_str(&line(scenario, *requests, *cells, *fired));
    }
    let sum = |of: fn(&Cells) -> usize| all.iter().map(of).sum::<usize>();
    text + &line("all", sum(|cells| cells.requests), sum(|cells| cells.cells), sum(|cells| cells.fired))
}
