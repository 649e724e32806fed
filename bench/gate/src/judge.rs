//! Verdicts: each curve against its budget and its law, all of it and not two ends.

use super::budget::{Bound, Budget, Budgets, Law, Plane};
use super::fold::TABLES;
#[cfg(feature = "lance")]
use super::manifest::Kept;
use super::meter::{Cost, Sample};
use super::operations::{Cell, Point};
use super::plan::{Layout, Phase};
use super::report::{CellReport, Comparison, Metric, PointReport, Verdict};
use super::slope::Slope;

/// Bytes by which one counter may grow.
const DIGITS: f64 = 8.0;

/// Judges the curve of one cell.
pub(super) fn judge(authority: &'static str, store: &str, width: usize, cell: &Cell, points: &[Point], budgets: &Budgets) -> CellReport {
    let layout = cell.layout.map(Layout::name);
    let mut names =
        vec![authority.to_owned(), store.to_owned(), format!("{width} tables"), cell.operation.to_owned(), cell.access.to_owned()];
    names.push(format!("{} tail", cell.phase.name()));
    names.extend(layout.map(str::to_owned));
    let budget = budgets.find(width, cell);
    let mut bench = Bench { width, points, metrics: Vec::new(), problems: Vec::new(), worst: None };
    match budget {
        Some(budget) => bench.hold(budget),
        None => bench.problems.push("it has no budget".to_owned()),
    }
    let Bench { metrics, problems, worst, .. } = bench;
    let verdict = if !problems.is_empty() {
        Verdict::Failed
    } else if metrics.iter().all(|metric| metric.law == Law::Flat) {
        Verdict::Flat
    } else {
        Verdict::Within
    };
    CellReport {
        id: names.join("/"),
        authority,
        store: store.to_owned(),
        width,
        operation: cell.operation.to_owned(),
        access: cell.access.to_owned(),
        phase: cell.phase.name().to_owned(),
        layout,
        why: budget.map_or_else(String::new, |budget| budget.why.clone()),
        verdict,
        log: (verdict == Verdict::Failed).then(|| worst.or(points.len().checked_sub(1)).map(|at| points[at].sample.log.clone())).flatten(),
        problems,
        metrics,
        points: points.iter().map(reported).collect(),
    }
}

/// A negative control: something whose cost must grow, or the gate does not see growth.
pub(super) struct Control {
    store: &'static str,
    operation: &'static str,
    access: &'static str,
    layout: Option<&'static str>,
    why: &'static str,
    /// Whether its requests must grow, and not its bytes alone.
    requests: bool,
}

impl Control {
    pub(super) const FOLD: Self = Self {
        store: "journal",
        operation: "fold",
        access: "cold process",
        layout: None,
        why: "one object for each commit, all read to find what is current: it must grow",
        requests: true,
    };

    /// What is current, looked up through the index of a Lance table of heads. Compaction makes few requests of many, and not fewer bytes.
    #[cfg(feature = "lance")]
    pub(super) fn manifest_lookup(kept: Kept) -> Self {
        let why = "heads as rows of a Lance table, looked up through a BTREE: it must grow";
        let (layout, requests) = (Some(kept.name()), kept == Kept::AsWritten);
        Self { store: "manifest", operation: "manifest lookup", access: "cold process", layout, why, requests }
    }

    /// One commit to that table.
    #[cfg(feature = "lance")]
    pub(super) fn manifest_commit(kept: Kept) -> Self {
        let why = "heads as rows of a Lance table, updated by merge-insert: it must grow";
        let (layout, requests) = (Some(kept.name()), kept == Kept::AsWritten);
        Self { store: "manifest", operation: "manifest commit", access: "warm", layout, why, requests }
    }

    /// What it is called beside ours.
    fn name(&self) -> String {
        match self.layout {
            Some(layout) => format!("{}, {layout}", self.store),
            None => self.operation.to_owned(),
        }
    }
}

/// Judges a negative control.
pub(super) fn judge_control(authority: &'static str, control: &Control, points: &[Point]) -> CellReport {
    let mut bench = Bench { width: TABLES, points, metrics: Vec::new(), problems: Vec::new(), worst: None };
    let grows = Bound { law: Law::MustGrow, ..Bound::default() };
    let requests = Bound { law: if control.requests { Law::MustGrow } else { Law::Reported }, ..Bound::default() };
    bench.metric("control", "requests", requests, |sample| sample.data.requests as f64);
    bench.metric("control", "bytes", grows, |sample| (sample.data.sent + sample.data.received) as f64);
    let names = [Some(authority), Some(control.store), Some(control.operation), control.layout];
    CellReport {
        id: names.into_iter().flatten().collect::<Vec<_>>().join("/"),
        authority,
        store: control.store.to_owned(),
        width: TABLES,
        operation: control.operation.to_owned(),
        access: control.access.to_owned(),
        phase: Phase::Equal.name().to_owned(),
        layout: control.layout,
        why: control.why.to_owned(),
        verdict: if bench.problems.is_empty() { Verdict::Grows } else { Verdict::Failed },
        log: None,
        problems: bench.problems,
        metrics: bench.metrics,
        points: points.iter().map(reported).collect(),
    }
}

/// Our cold lookup beside a control's, at the depths both have.
pub(super) fn compare(authority: &'static str, control: &Control, ours: &[Point], theirs: &[Point]) -> Vec<Comparison> {
    let beside = |theirs: &Point| {
        let ours = ours.iter().find(|point| point.depth == theirs.depth)?;
        let bytes = |cost: &Cost| cost.sent + cost.received;
        let (requests, control_requests) = (ours.sample.control.requests + ours.sample.data.requests, theirs.sample.data.requests);
        Some(Comparison {
            authority,
            control: control.name(),
            depth: theirs.depth,
            requests,
            bytes: bytes(&ours.sample.control) + bytes(&ours.sample.data),
            control_requests,
            control_bytes: bytes(&theirs.sample.data),
            ratio: control_requests as f64 / requests.max(1) as f64,
        })
    };
    theirs.iter().filter_map(beside).collect()
}

fn reported(point: &Point) -> PointReport {
    let Sample { control, data, round_trips, retries, verbs, .. } = point.sample.clone();
    PointReport { depth: point.depth, seq: point.seq, control, data, round_trips, retries, verbs }
}

/// One curve under judgement.
struct Bench<'a> {
    width: usize,
    points: &'a [Point],
    metrics: Vec<Metric>,
    problems: Vec<String>,
    /// The point that is furthest beyond.
    worst: Option<usize>,
}

impl Bench<'_> {
    fn hold(&mut self, budget: &Budget) {
        self.plane("control", &budget.control, |sample| &sample.control);
        self.metric("control", "entries", budget.control.entries, |sample| sample.control.entries as f64);
        self.digits();
        match &budget.data {
            Some(plane) => self.plane("data", plane, |sample| &sample.data),
            None => {
                if let Some(at) = self.points.iter().position(|point| point.sample.data.requests > 0) {
                    self.fault(at, "it asks for data, which its budget does not know".to_owned());
                }
            }
        }
        self.metric("both", "round_trips", budget.round_trips, |sample| sample.round_trips as f64);
        if let (Some(at), false) = (self.points.iter().position(|point| point.sample.retries > 0), self.problems.is_empty()) {
            let Point { seq, sample, .. } = &self.points[at];
            self.problems.push(format!("{} requests at {seq} commits are retries of ones that failed: measure again", sample.retries));
        }
    }

    fn plane(&mut self, name: &'static str, plane: &Plane, of: fn(&Sample) -> &Cost) {
        self.metric(name, "requests", plane.requests, |sample| of(sample).requests as f64);
        self.metric(name, "bytes", plane.bytes, |sample| (of(sample).sent + of(sample).received - of(sample).digits) as f64);
    }

    /// Counters may grow by their digits.
    fn digits(&mut self) {
        let digits = |point: &Point| point.sample.control.digits as f64;
        let allowed = |point: &Point| point.sample.control.numbers as f64 * DIGITS;
        let least = self.points.iter().map(digits).fold(f64::INFINITY, f64::min);
        if let Some(at) = self.points.iter().position(|point| digits(point) - least > allowed(point)) {
            self.fault(at, format!("its counters take {} bytes more than at their shortest", digits(&self.points[at]) - least));
        }
    }

    fn metric(&mut self, plane: &'static str, name: &'static str, bound: Bound, of: impl Fn(&Sample) -> f64) {
        let values: Vec<f64> = self.points.iter().map(|point| of(&point.sample)).collect();
        let max = values.iter().copied().fold(0.0, f64::max);
        let place = |point: &Point| point.seq as f64;
        let line: Vec<(f64, f64)> = self.points.iter().map(place).zip(values.iter().copied()).collect();
        let slope = Slope::of(&line);
        let what = format!("{plane} {}", name.replace('_', " "));
        for (at, (point, value)) in self.points.iter().zip(&values).enumerate() {
            let ceiling = bound.ceiling(self.width, point.seq);
            if let Some(ceiling) = ceiling.filter(|ceiling| value > ceiling) {
                self.fault(at, format!("{what}: {value} at {} commits, its budget is {ceiling}", point.seq));
            }
            // A counter that sees nothing would pass every ceiling.
            if *value == 0.0 && ceiling != Some(0.0) {
                self.fault(at, format!("{what}: nothing was counted at {} commits, and its budget does not say 0", point.seq));
            }
        }
        let last = values.len().saturating_sub(1);
        match (bound.law, slope) {
            (Law::Flat, Some(slope)) => {
                let least = values.iter().copied().fold(f64::INFINITY, f64::min);
                let most = values.iter().position(|value| *value == max).unwrap_or(last);
                let (apart, allowed) = (max - least, bound.spread + bound.digits);
                if let (true, Some(low), Some(high)) = (slope.grows() && apart > bound.digits, slope.low, slope.high) {
                    self.fault(most, format!("{what}: it grows by {low} to {high} for each commit"));
                }
                if apart > allowed {
                    self.fault(most, format!("{what}: {least} to {max} over the depths, they may lie {allowed} apart"));
                }
            }
            (Law::Flat, None) => self.fault(last, format!("{what}: fewer than two depths show no slope")),
            (Law::MustGrow, _) if values.len() < 2 || !values.is_sorted_by(|one, next| one < next) => {
                self.fault(last, format!("{what}: the negative control does not grow: {values:?}"));
            }
            _ => {}
        }
        let deepest = self.points.last().map_or(0, |point| point.seq);
        self.metrics.push(Metric {
            plane,
            name,
            law: bound.law,
            values,
            max,
            budget: bound.ceiling(self.width, deepest),
            slope: slope.map(|slope| slope.slope),
            interval: slope.and_then(|slope| slope.low.zip(slope.high)).map(<[f64; 2]>::from),
        });
    }

    fn fault(&mut self, at: usize, problem: String) {
        self.worst.get_or_insert(at);
        self.problems.push(problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell() -> Cell {
        Cell { operation: "lookup", access: "warm", phase: Phase::Equal, layout: None }
    }

    /// One request of 100 bytes and 10 entries in one round trip at each of these depths, but for what is changed.
    fn points(depths: &[u64], change: impl Fn(usize, &mut Sample)) -> Vec<Point> {
        let point = |(at, depth): (usize, &u64)| {
            let control = Cost { requests: 1, received: 100, entries: 10, ..Cost::default() };
            let mut sample = Sample { control, round_trips: 1, log: format!("the log at {depth}"), ..Sample::default() };
            change(at, &mut sample);
            Point { depth: *depth, seq: *depth, sample }
        };
        depths.iter().enumerate().map(point).collect()
    }

    fn judged(control: &str, change: impl Fn(usize, &mut Sample)) -> CellReport {
        let budgets = format!(
            r#"{{"about": "a test", "budgets": [{{"operation": "lookup", "access": "warm", "why": "a test", "control": {control}, "round_trips": {{"fixed": 1}}}}]}}"#
        );
        judge("local", "parquet", 1, &cell(), &points(&[20, 80, 320, 1280], change), &Budgets::parse(&budgets).unwrap())
    }

    const EXACT: &str = r#"{"requests": {"fixed": 1}, "bytes": {"fixed": 100}, "entries": {"fixed": 10}}"#;
    const SPREAD: &str = r#"{"requests": {"fixed": 1}, "bytes": {"fixed": 100, "spread": 50}, "entries": {"fixed": 10}}"#;

    #[test]
    fn what_asks_for_the_same_at_every_depth_is_flat() {
        assert_eq!(judged(EXACT, |_, _| ()).verdict, Verdict::Flat);
    }

    #[test]
    fn a_count_of_zero_fails_whichever_it_is() {
        type Zero = fn(&mut Sample);
        let zeros: [(&str, Zero); 4] = [
            ("control requests", |sample| sample.control.requests = 0),
            ("control bytes", |sample| sample.control.received = 0),
            ("control entries", |sample| sample.control.entries = 0),
            ("both round trips", |sample| sample.round_trips = 0),
        ];
        for (what, zero) in zeros {
            // At every depth, so that the curve is as flat as it can be.
            let report = judged(EXACT, |_, sample| zero(sample));
            assert_eq!(report.verdict, Verdict::Failed, "{what}");
            assert!(
                report.problems.iter().any(|problem| problem.starts_with(what) && problem.contains("nothing was counted")),
                "{report:?}"
            );
        }
    }

    #[test]
    fn a_count_that_must_be_zero_may_be() {
        let none = r#"{"requests": {"fixed": 1}, "bytes": {"fixed": 0}, "entries": {"fixed": 0}}"#;
        let report = judged(none, |_, sample| sample.control = Cost { requests: 1, ..Cost::default() });
        assert_eq!(report.verdict, Verdict::Flat, "{report:?}");
    }

    #[test]
    fn a_negative_control_that_counts_nothing_fails() {
        let fold = points(&[20, 80, 320, 1280], |at, sample| sample.data.requests = at);
        assert_eq!(judge_control("local", &Control::FOLD, &fold).verdict, Verdict::Failed);
    }

    #[test]
    fn growth_within_the_spread_and_the_ceiling_is_seen_by_its_slope() {
        let report = judged(SPREAD, |at, sample| sample.control.received = 60 + 10 * at);
        assert_eq!(report.verdict, Verdict::Failed, "{report:?}");
        assert!(report.problems[0].contains("for each commit"), "{report:?}");
        assert_eq!(report.log.as_deref(), Some("the log at 1280"));
    }

    #[test]
    fn counters_may_rise_by_their_digits_and_by_no_more() {
        const COUNTERS: &str = r#"{"requests": {"fixed": 1}, "bytes": {"fixed": 100, "digits": 15}, "entries": {"fixed": 10}}"#;
        let rise = |last: usize| judged(COUNTERS, move |at, sample| sample.control.received = [76, 77, 90, last][at]);
        assert_eq!(rise(91).verdict, Verdict::Flat, "{:?}", rise(91));
        let report = rise(92);
        assert!(report.problems.len() == 2 && report.problems[0].contains("for each commit"), "{report:?}");
    }

    #[test]
    fn noise_within_the_spread_is_no_growth() {
        let report = judged(SPREAD, |at, sample| sample.control.received = [60, 90, 70, 80][at]);
        assert_eq!(report.verdict, Verdict::Flat, "{report:?}");
    }
}
