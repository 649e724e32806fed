//! The cost gate: proof, on real object stores, that what an operation costs does not grow with history.
//!
//! Catalogs are grown commit by commit and measured on the way, at a few depths; each operation at each depth is counted below every retry, and
//! whole curves are judged against reviewed budgets. Beside them a negative control is measured, which must grow: a gate that cannot see growth
//! proves nothing. docs/cost.md says what is measured and how.
//!
//! - [`plan`]: the matrix, in a short and a long form, and an estimate of its requests.
//! - `place`: where catalogs live; everything the gate writes is below a prefix of its own, and removed at the end.
//! - `meter`, `wire`: what one operation asks for, counted at up to three places that must agree, and its round trips.
//! - `lake`, `operations`: a catalog that grows, and what is measured on it.
//! - `fold`, and in builds with Lance `manifest`: the negative controls.
//! - `run`: all places side by side.
//! - [`slope`], [`budget`], `judge`: curves, budgets, verdicts.
//! - [`report`], [`table`], [`page`]: what comes of it, for programs, in a terminal, and as one HTML page.

pub mod budget;
mod error;
mod fold;
mod judge;
mod lake;
#[cfg(feature = "lance")]
mod manifest;
mod meter;
mod operations;
pub mod page;
mod place;
pub mod plan;
pub mod report;
mod run;
pub mod slope;
pub mod table;
mod wire;

use std::sync::Arc;

use tokio::sync::watch;

pub use error::{Error, Result};
pub use lake::Between;
pub use meter::{Cost, Sample};
pub use operations::{Cell, Confirmation, Curves, Point};
pub use place::Place;

use self::budget::Budgets;
use self::judge::Control;
use self::lake::Lake;
use self::plan::{Phase, Plan};
use self::report::{CellReport, Comparison};

/// What one place had to show.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Every curve, judged.
    pub cells: Vec<CellReport>,
    /// Ours beside the negative control.
    pub comparisons: Vec<Comparison>,
    /// Round trips that the clock has confirmed.
    pub confirmed: Vec<Confirmation>,
}

/// What goes on at a place, whose name it begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Something begins that takes a while.
    Begun(String),
    /// A group of operations is measured.
    Done(String),
}

/// Measures one place, and removes what it wrote there, whatever happens. Runs on a thread and a runtime of its own.
#[derive(Clone)]
pub struct Gate {
    /// What is measured.
    pub plan: Plan,
    /// What stands between catalogs and counters: see [`Gate::new`].
    pub between: Between,
    /// Is told what goes on.
    pub told: Arc<dyn Fn(News) + Send + Sync>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate with nothing between the catalogs and the counters, which tells nobody.
    pub fn new(plan: Plan) -> Self {
        Self { plan, between: Arc::new(|backend| backend), told: Arc::new(|_| {}) }
    }

    /// Measures and judges. `None` if it was stopped, which happens when `stop` becomes true.
    ///
    /// # Errors
    ///
    /// If something could not be measured, or what was measured cannot be trusted. A cost that is too high is no error, but in the findings.
    pub fn run(&self, place: &Place, stop: watch::Receiver<bool>) -> Result<Option<Findings>> {
        let measured = self.block_on(place, async {
            let mut stop = stop;
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => Ok(None),
                findings = self.measure(place) => findings.map(Some),
            }
        });
        // In a fresh runtime: what the stopped one still had under way is over.
        let cleaned = self.block_on(place, place.clean());
        let findings = measured?;
        cleaned?;
        Ok(findings)
    }

    fn block_on<T>(&self, place: &Place, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().thread_name(place.threads()).build().map_err(Error::io("starting a runtime"))?;
        runtime.block_on(work)
    }

    /// Says where something is measured before what.
    fn teller(&self, place: String) -> impl Fn(News) + Sync {
        move |news| {
            (self.told)(match news {
                News::Begun(what) => News::Begun(format!("{place} · {what}")),
                News::Done(what) => News::Done(format!("{place} · {what}")),
            });
        }
    }

    async fn measure(&self, place: &Place) -> Result<Findings> {
        let authority = place.authority();
        let mut findings = Findings::default();
        let mut ours = Vec::new();
        for subject in &self.plan.subjects {
            let budgets = Budgets::of(&subject.store)?;
            let tables = if subject.width == 1 { "1 table".to_owned() } else { format!("{} tables", subject.width) };
            let tell = self.teller(format!("{authority} · {tables}, {}", subject.store));
            let lake = Lake::create(place, subject, &self.between).await?;
            let (curves, confirmed) = operations::measure(&lake, &tell).await?;
            findings.confirmed.extend(confirmed);
            for (cell, points) in &curves {
                findings.cells.push(judge::judge(authority, &subject.store, subject.width, cell, points, &budgets));
            }
            // The comparison is of a cold lookup, in the catalog that was measured at the most depths: of several, one with as many tables.
            let cold = |cell: &&Cell| (cell.operation, cell.access, cell.phase) == ("open", "cold process", Phase::Equal);
            if let Some(points) = curves.keys().find(cold).map(|cell| &curves[cell])
                && (points.len() > ours.len() || (points.len() == ours.len() && subject.width == fold::TABLES))
            {
                ours = points.clone();
            }
        }
        if !self.plan.fold.is_empty() {
            let tell = self.teller(authority.to_owned());
            let fold = fold::measure(place, &self.plan.fold, &tell).await?;
            findings.cells.push(judge::judge_control(authority, &Control::FOLD, &fold));
            findings.comparisons = judge::compare(authority, &Control::FOLD, &ours, &fold);
        }
        #[cfg(feature = "lance")]
        if !self.plan.manifest.is_empty() {
            let tell = self.teller(authority.to_owned());
            for kept in [manifest::Kept::AsWritten, manifest::Kept::Compacted] {
                let measured = manifest::measure(place, kept, &self.plan.manifest, &tell).await?;
                let (lookup, publish) = (Control::manifest_lookup(kept), Control::manifest_commit(kept));
                findings.cells.push(judge::judge_control(authority, &lookup, &measured.lookup));
                findings.cells.push(judge::judge_control(authority, &publish, &measured.publish));
                findings.comparisons.extend(judge::compare(authority, &lookup, &ours, &measured.lookup));
            }
        }
        Ok(findings)
    }
}
