//! The report, as `--json` prints it. docs/cost.md describes every field.

use std::collections::BTreeMap;

use serde::Serialize;

use super::budget::Law;
use super::meter::Cost;
use super::operations::Confirmation;

/// The version of the fields below.
pub const SCHEMA: &str = "headwater-gate/1";

/// All that was measured, and what it is worth.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The gate's own version.
    pub version: &'static str,
    /// The command that made it.
    pub command: String,
    /// `short`, `long`, …
    pub form: String,
    /// When it began, ms since 1970.
    pub started: u64,
    /// How long it took, in seconds.
    pub seconds: u64,
    /// Where it was measured.
    pub places: Vec<PlaceReport>,
    /// Whether every verdict is good.
    pub ok: bool,
    /// What is wrong, in words; empty if `ok`.
    pub problems: Vec<String>,
    /// One for each curve.
    pub cells: Vec<CellReport>,
    /// A cold lookup of what is current, ours beside each negative control.
    pub comparisons: Vec<Comparison>,
    /// Round trips that the clock has confirmed, with every request delayed.
    pub confirmed: Vec<Confirmation>,
}

/// Where something was measured.
#[derive(Clone, Debug, Serialize)]
pub struct PlaceReport {
    /// The authority.
    pub authority: &'static str,
    /// Which server, in which version.
    pub name: String,
    /// Who counted.
    pub counted: &'static str,
}

/// One curve: one operation over all depths.
#[derive(Clone, Debug, Serialize)]
pub struct CellReport {
    /// All that names it, joined by slashes.
    pub id: String,
    /// `local` or `s3`.
    pub authority: &'static str,
    /// `parquet`, `lance`, or a negative control's: `journal`, `manifest`.
    pub store: String,
    /// Tables of the catalog.
    pub width: usize,
    /// What was done.
    pub operation: String,
    /// By a process that knows how much.
    pub access: String,
    /// `equal` or `full`: the head's tail.
    pub phase: String,
    /// `as written` or `maintained`, where a table is read or written.
    pub layout: Option<&'static str>,
    /// What the budget is made of.
    pub why: String,
    /// The verdict.
    pub verdict: Verdict,
    /// What is wrong with it, in words.
    pub problems: Vec<String>,
    /// What was judged.
    pub metrics: Vec<Metric>,
    /// What was counted, from the lowest depth to the highest.
    pub points: Vec<PointReport>,
    /// Every request of the worst point, where something is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

/// What a curve is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Control and data do not grow, and keep their budgets.
    Flat,
    /// It keeps its budget, which allows for what grows with the logarithm of depth or with a table's own files.
    Within,
    /// A negative control grows, as it must.
    Grows,
    /// It fails.
    Failed,
}

/// One cost over all depths.
#[derive(Clone, Debug, Serialize)]
pub struct Metric {
    /// `control`, `data`, or `both`.
    pub plane: &'static str,
    /// `requests`, `bytes`, `entries` or `round_trips`.
    pub name: &'static str,
    /// How it may change.
    pub law: Law,
    /// One for each point. Bytes are without the digits of counters, which may grow by 8 each.
    pub values: Vec<f64>,
    /// The greatest of them.
    pub max: f64,
    /// The ceiling at the deepest point.
    pub budget: Option<f64>,
    /// The robust slope, per commit; none for a single point.
    pub slope: Option<f64>,
    /// The interval of the slope, each end sure at 95 %; none where fewer than 4 points allow any slope.
    pub interval: Option<[f64; 2]>,
}

/// One operation at one depth.
#[derive(Clone, Debug, Serialize)]
pub struct PointReport {
    /// The depth asked for.
    pub depth: u64,
    /// Commits there were.
    pub seq: u64,
    /// For heads and records.
    pub control: Cost,
    /// For the tables' objects.
    pub data: Cost,
    /// Sequential round trips.
    pub round_trips: usize,
    /// Requests among them that repeat one which failed, below everything but the wire.
    pub retries: usize,
    /// Requests of each kind, as the tap names them.
    pub verbs: BTreeMap<String, usize>,
}

/// A cold lookup, ours and a negative control's.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The authority.
    pub authority: &'static str,
    /// Which negative control: `fold`, `manifest, as written` or `manifest, compacted`.
    pub control: String,
    /// Commits.
    pub depth: u64,
    /// Our requests.
    pub requests: usize,
    /// Our bytes.
    pub bytes: usize,
    /// The control's requests.
    pub control_requests: usize,
    /// The control's bytes.
    pub control_bytes: usize,
    /// How many times more requests the control needs.
    pub ratio: f64,
}
