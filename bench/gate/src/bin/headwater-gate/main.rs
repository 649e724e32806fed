//! The cost gate: measures what operations cost while history grows, and ends with 1 where a curve grows or exceeds its budget.

mod progress;
mod stop;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, ValueEnum};
use headwater_gate::plan::{Plan, STORES};
use headwater_gate::report::Report;
use headwater_gate::{Error, Gate, Place, Result, page, table};

use self::progress::Progress;
use self::stop::{INTERRUPTED, interrupted};

/// Measures what Headwater's operations cost while history grows: requests, round trips, bytes, decoded entries. Ends with 1 where a curve
/// grows or exceeds its budget, or something cannot be measured. Writes only below a prefix of its own, and removes it.
#[derive(Debug, Parser)]
#[command(name = "headwater-gate", version)]
struct Arguments {
    /// A folder, or s3://bucket/prefix?options as the `headwater` command takes it. Without one: a temporary folder, and a real S3 server on loopback.
    url: Option<String>,
    /// The whole matrix instead of a part of it.
    #[arg(long)]
    long: bool,
    /// The whole matrix, to 10,000 commits.
    #[arg(long)]
    deep: bool,
    /// Without a URL: only this place.
    #[arg(long, conflicts_with = "url")]
    only: Option<Only>,
    /// Only this data store; may be said several times. Else all of this build.
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(STORES), hide_default_value = true, default_values_t = STORES.iter().map(ToString::to_string))]
    store: Vec<String>,
    /// Only catalogs of so many tables (1, 10, 100); may be said several times.
    #[arg(long)]
    width: Vec<usize>,
    /// Not beyond this depth: at 80, what is measured first is over in seconds.
    #[arg(long, value_name = "DEPTH")]
    to: Option<u64>,
    /// Prints the report as one JSON document instead of a table. docs/cost.md describes it.
    #[arg(long)]
    json: bool,
    /// Writes the report as JSON into this file, too.
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
    /// Writes the report as one HTML page into this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Only {
    Local,
    S3,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(Some(report)) if report.ok => ExitCode::SUCCESS,
        Ok(Some(_)) => ExitCode::FAILURE,
        Ok(None) => {
            eprintln!("headwater-gate: stopped; what it wrote is removed");
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => {
            eprintln!("headwater-gate: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<Option<Report>> {
    let places = places(arguments)?;
    let mut plan = match (arguments.long, arguments.deep) {
        (false, false) => Plan::short(&arguments.store),
        (_, deep) => Plan::long(&arguments.store, deep),
    };
    if !arguments.width.is_empty() {
        plan.narrow(&arguments.width);
        if plan.subjects.is_empty() {
            return Err(Error::Invalid(format!("no catalog of the plan has {:?} tables; it has some of 1, 10 and 100", arguments.width)));
        }
    }
    if let Some(deepest) = arguments.to {
        plan.shallow(deepest);
    }
    let estimate = plan.estimate();
    for place in &places {
        eprintln!(
            "{} ({}): about {} writes, {} reads and {} lists, counted {}",
            place.authority(),
            place.name(),
            thousands(estimate.puts),
            thousands(estimate.gets),
            thousands(estimate.lists),
            place.counted(),
        );
    }
    let mut gate = Gate::new(plan);
    let progress = Progress::start(&places);
    gate.told = progress.told();
    let stop = interrupted(&places)?;
    let report = gate.report(&places, &command(), &stop);
    progress.end();
    let Some(report) = report? else { return Ok(None) };
    let json = serde_json::to_string_pretty(&report).map_err(|error| Error::Invalid(format!("the report has no JSON form: {error}")))?;
    if let Some(file) = &arguments.json_file {
        write(file, &json)?;
    }
    if let Some(file) = &arguments.html {
        write(file, &page::html(&report)?)?;
    }
    let text = if arguments.json { json } else { table::text(&report) };
    writeln!(std::io::stdout(), "{}", text.trim_end()).map_err(Error::io("printing the report"))?;
    Ok(Some(report))
}

fn places(arguments: &Arguments) -> Result<Vec<Place>> {
    if let Some(url) = &arguments.url {
        return Ok(vec![Place::at(url, &ulid())?]);
    }
    let mut places = Vec::new();
    if arguments.only != Some(Only::S3) {
        places.push(Place::temporary()?);
    }
    if arguments.only != Some(Only::Local) {
        places.push(Place::loopback()?);
    }
    Ok(places)
}

fn ulid() -> String {
    headwater::ids::Mint::new(Arc::new(headwater::ids::SystemEnvironment)).ulid().to_string().to_lowercase()
}

/// The command, as a reader would type it to measure the same: without where the report goes.
fn command() -> String {
    let mut words = vec!["headwater-gate".to_owned()];
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => {}
            "--html" | "--json-file" => drop(arguments.next()),
            argument if argument.starts_with("--html=") || argument.starts_with("--json-file=") => {}
            argument if argument.contains([' ', '?', '&']) => words.push(format!("'{argument}'")),
            argument => words.push(argument.to_owned()),
        }
    }
    words.join(" ")
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).map_err(Error::io(format!("writing {}", file.display())))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or_default()).collect();
    groups.join(",")
}
