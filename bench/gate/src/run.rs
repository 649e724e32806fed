//! A whole run: all places side by side, and one report.

use headwater::ids::{Environment, SystemEnvironment};
use tokio::sync::watch;

use super::report::{PlaceReport, Report, SCHEMA, Verdict};
use super::{Error, Findings, Gate, Place, Result};

impl Gate {
    /// Measures all places at once, each on a thread of its own. `None` if it was stopped.
    ///
    /// # Errors
    ///
    /// The first of what [`Gate::run`] answers with; all places are cleaned up all the same.
    pub fn report(&self, places: &[Place], command: &str, stop: &watch::Receiver<bool>) -> Result<Option<Report>> {
        let clock = SystemEnvironment;
        let started = clock.now_ms();
        let measured: Vec<Result<Option<Findings>>> = std::thread::scope(|scope| {
            let running: Vec<_> = places.iter().map(|place| (place, scope.spawn(|| self.run(place, stop.clone())))).collect();
            let ended = running
                .into_iter()
                .map(|(place, thread)| thread.join().unwrap_or_else(|_| Err(Error::untrusted(place.name(), "its measurement broke off"))));
            ended.collect()
        });
        let mut found = Findings::default();
        for findings in measured {
            let Some(findings) = findings? else { return Ok(None) };
            found.cells.extend(findings.cells);
            found.comparisons.extend(findings.comparisons);
            found.confirmed.extend(findings.confirmed);
        }
        let failed = found.cells.iter().filter(|cell| cell.verdict == Verdict::Failed);
        let mut problems: Vec<String> = failed.map(|cell| format!("{}: {}", cell.id, cell.problems.join("; "))).collect();
        if found.cells.is_empty() {
            problems.push("nothing was measured".to_owned());
        }
        let report = |place: &Place| PlaceReport { authority: place.authority(), name: place.name().to_owned(), counted: place.counted() };
        Ok(Some(Report {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            command: command.to_owned(),
            form: self.plan.form.clone(),
            started,
            seconds: clock.now_ms().saturating_sub(started) / 1_000,
            places: places.iter().map(report).collect(),
            ok: problems.is_empty(),
            problems,
            cells: found.cells,
            comparisons: found.comparisons,
            confirmed: found.confirmed,
        }))
    }
}
