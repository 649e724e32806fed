//! The report in a terminal: one line for each curve, and what is wrong in full.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::budget::Law;
use super::operations::Confirmation;
use super::report::{CellReport, Metric, Report, Verdict};

/// The report as text.
pub fn text(report: &Report) -> String {
    let mut lines = vec![
        ["place", "tables", "operation", "access", "tail", "layout", "requests", "trips", "bytes", "entries", "verdict"].map(str::to_owned),
    ];
    for cell in &report.cells {
        lines.push(line(cell));
    }
    let mut text = String::new();
    let widths: Vec<usize> = (0..lines[0].len()).map(|i| lines.iter().map(|line| line[i].chars().count()).max().unwrap_or(0)).collect();
    for (number, line) in lines.iter().enumerate() {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
        if number == 0 {
            let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            let _ = writeln!(text, "{}", rules.join("  "));
        }
    }
    if !report.comparisons.is_empty() {
        let _ = writeln!(text, "\nwhat is current, asked for cold: ours, and the negative controls'");
    }
    for ours in &report.comparisons {
        let _ = writeln!(
            text,
            "  {:5}  {:>6} commits  {} requests, {} bytes  against {:>5} requests, {:>8} bytes  {:>6.1} times  {}",
            ours.authority, ours.depth, ours.requests, ours.bytes, ours.control_requests, ours.control_bytes, ours.ratio, ours.control
        );
    }
    if !report.confirmed.is_empty() {
        let say = |one: &Confirmation| format!("{} ({}) {}", one.operation, one.access, one.times_the_delay);
        // Most catalogs need the same.
        let all: BTreeSet<String> = report.confirmed.iter().map(say).collect();
        let all: Vec<String> = all.into_iter().collect();
        let _ = writeln!(text, "\nround trips confirmed by the clock, every request delayed: {}", all.join(", "));
    }
    for cell in report.cells.iter().filter(|cell| cell.verdict == Verdict::Failed) {
        let _ = writeln!(text, "\nFAILED  {}", cell.id);
        for problem in &cell.problems {
            let _ = writeln!(text, "  {problem}");
        }
        if let Some(log) = &cell.log {
            let _ = writeln!(text, "  requests of the worst point:\n{log}");
        }
    }
    let failed = report.cells.iter().filter(|cell| cell.verdict == Verdict::Failed).count();
    let _ = match (report.ok, failed) {
        (true, _) => writeln!(text, "\n{} curves, all as they should be, in {} s", report.cells.len(), report.seconds),
        (false, 0) => writeln!(text, "\n{}", report.problems.join("\n")),
        (false, failed) => writeln!(text, "\n{failed} of {} curves fail, in {} s", report.cells.len(), report.seconds),
    };
    text
}

fn line(cell: &CellReport) -> [String; 11] {
    let both = |name: &str| {
        let of: Vec<&Metric> = cell.metrics.iter().filter(|metric| metric.name == name && metric.plane != "both").collect();
        of.iter().map(|metric| span(metric)).collect::<Vec<_>>().join(" + ")
    };
    let trips = cell.metrics.iter().find(|metric| metric.name == "round_trips").map_or_else(String::new, span);
    let verdict = match cell.verdict {
        Verdict::Flat => "flat",
        Verdict::Within => "within its budget",
        Verdict::Grows => "grows, as it must",
        Verdict::Failed => "FAILED",
    };
    [
        format!("{} {}", cell.authority, cell.store),
        cell.width.to_string(),
        cell.operation.clone(),
        cell.access.clone(),
        cell.phase.clone(),
        cell.layout.unwrap_or_default().to_owned(),
        both("requests"),
        trips,
        both("bytes"),
        both("entries"),
        verdict.to_owned(),
    ]
}

/// A cost over all depths: one number where it is flat, else from the first to the last.
fn span(metric: &Metric) -> String {
    let (first, last) = (metric.values.first().copied().unwrap_or(0.0), metric.values.last().copied().unwrap_or(0.0));
    let least = metric.values.iter().copied().fold(f64::INFINITY, f64::min);
    match metric.law {
        Law::Flat if least == metric.max => format!("{least}"),
        Law::Flat => format!("{least}–{}", metric.max),
        _ => format!("{first}→{last}"),
    }
}
