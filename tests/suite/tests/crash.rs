//! Crash at every I/O, for every adapter, and loss of power at every step of the disk.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;

use headwater_conformance::crash::{self, Scenario, State};
use headwater_conformance::fixture::Memory;
use headwater_conformance::lab::{Lab, main};
use headwater_conformance::rows::schema;
use headwater_conformance::tap::Tap;
use headwater_core::verify::Depth;
use headwater_core::{Catalog, Commit, Error, ErrorKind};
use headwater_local::sim::{Cut, Fault};
use headwater_suite::crash::every_adapter_in;
use headwater_suite::{Local, Simulated, Sqlite, registry};

type Result<T, E = Error> = std::result::Result<T, E>;

#[tokio::test]
async fn a_crash_at_any_request_leaves_all_or_nothing_in_memory() {
    every_adapter_in(&Lab::new(Memory::default(), registry(), "parquet")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_request_leaves_all_or_nothing_on_a_local_disk() {
    every_adapter_in(&Lab::new(Local::default(), registry(), "parquet")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_request_leaves_all_or_nothing_in_a_sqlite_file() {
    every_adapter_in(&Lab::new(Sqlite::default(), registry(), "parquet")).await;
}

/// Every way the power can fail that is tried.
const CUTS: [Cut; 7] = [Cut::Synced, Cut::Everything, Cut::Names, Cut::Mixed(1), Cut::Mixed(2), Cut::Mixed(3), Cut::Mixed(4)];

/// What a loss of power left, against what it may leave. Rule 21.
async fn after_a_cut(lab: &Lab, outcomes: &[(BTreeSet<usize>, State)], told: &[Result<Commit>]) -> Result<(), String> {
    let catalog = Catalog::open(lab.parts(&Tap::new()).await).await.map_err(|error| format!("the catalog does not open: {error:?}"))?;
    let report = catalog.verify(Depth::Data).await.map_err(|error| format!("it cannot be verified: {error:?}"))?;
    if !report.ok() {
        return Err(format!("it is damaged: {:?}", report.problems));
    }
    let found = State::read(&catalog).await;
    let Some((which, _)) = outcomes.iter().find(|(_, state)| *state == found) else {
        return Err(format!("neither all nor nothing of a commit is there: {found:?}"));
    };
    for (i, outcome) in told.iter().enumerate() {
        match outcome {
            Ok(_) if !which.contains(&i) => return Err(format!("commit {i} was acknowledged and is not there")),
            Err(error) if error.kind() != ErrorKind::PublishUnknown && which.contains(&i) => {
                return Err(format!("commit {i} was refused and is there: {error:?}"));
            }
            _ => {}
        }
    }
    let next = main(&catalog).transact(|tx| async move { tx.create_table("after the cut", schema()).await.map(drop) }).await;
    next.map(drop).map_err(|error| format!("nobody can write: {error:?}"))
}

/// Cuts the power at every primitive of the disk during one operation, and after it. Returns the primitives and the cuts.
async fn cut_everywhere(scenario: &Scenario, ignores_syncs: bool) -> Result<(usize, usize), String> {
    let disk = Simulated::default();
    let lab = Lab::new(disk.clone(), registry(), "parquet");
    let outcomes = crash::outcomes(&lab, scenario).await;
    let mut cuts = 0;
    for k in 0.. {
        (scenario.setup)(main(&lab.create().await)).await.map_err(|error| format!("the setup failed: {error:?}"))?;
        disk.disk().plan(k, Fault::DieBefore);
        if ignores_syncs {
            disk.disk().ignore_syncs();
        }
        let told = crash::operate(lab.parts(&Tap::new()).await, scenario).await;
        let dead = disk.disk();
        let primitives = dead.primitives();
        for cut in CUTS {
            disk.replace(dead.cut(cut));
            let at = || format!("{}: before primitive {k}, {:?}, {cut:?}", scenario.name, primitives.get(k));
            after_a_cut(&lab, &outcomes, &told).await.map_err(|problem| format!("{}: {problem}", at()))?;
            cuts += 1;
        }
        // Nothing failed in the last round: what was acknowledged must survive as well.
        if primitives.len() == k {
            assert!(told.iter().all(Result::is_ok), "{told:?}");
            return Ok((k, cuts));
        }
    }
    Err("the operation does not end".to_owned())
}

/// Commits of every shape a head and its records take.
const CUT: [&str; 6] = [
    "load: create three tables and append",
    "load: append that spills, tail full by bytes",
    "load: append whose entry has a body record",
    "load: two commits to one table",
    "schema: drop",
    "schema: all of it in one commit that spills",
];

#[tokio::test]
async fn a_loss_of_power_at_any_primitive_leaves_all_or_nothing() {
    let (mut primitives, mut cuts, mut scenarios) = (0, 0, 0);
    for scenario in crash::scenarios::ALL.iter().filter(|scenario| CUT.contains(&scenario.name)) {
        let (found, made) = cut_everywhere(scenario, false).await.unwrap();
        headwater_conformance::report(format_args!("{:<50} {found:>4} primitives {made:>6} cuts", scenario.name));
        assert!(found > 10, "a commit takes more steps than that");
        assert_eq!(made, (found + 1) * CUTS.len());
        (primitives, cuts, scenarios) = (primitives + found, cuts + made, scenarios + 1);
    }
    assert_eq!(scenarios, CUT.len());
    headwater_conformance::report(format_args!("{primitives} primitives, {cuts} cuts"));
}

/// The negative control: what a disk that does not sync loses is seen.
#[tokio::test]
async fn a_disk_that_ignores_syncs_is_found_out() {
    let problem = cut_everywhere(&crash::scenarios::ALL[1], true).await.unwrap_err();
    assert!(problem.contains("acknowledged") || problem.contains("does not open"), "{problem}");
}
