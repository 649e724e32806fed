//! Counts what one operation asks of its backend, below every retry, and in how many round trips.
//!
//! A tap stands right above the backend everywhere. On S3 the client's HTTP connector counts as well, and on a loopback server a proxy on the
//! wire, too; they must agree, or no figure counts.
//!
//! Round trips are the longest chain of requests each of which began when the one before had ended, and exact where requests are held (see
//! [`headwater_conformance::rounds`]): by the tap on a local disk, by the proxy before a loopback server. On a server far away nothing is held.
//! No clock decides, and a clock confirms it.

#[cfg(test)]
mod tests;
mod totals;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headwater::head::{Head, Segment};
use headwater_bench::proxy::{Fault, Proxy, Request, Rule, render, stages};
use headwater_conformance::rounds::{Holds, in_rounds};
use headwater_conformance::shape::Shape;
use headwater_conformance::tap::{self, Tap};
use serde::Serialize;
use tokio::time::Instant;

use self::totals::{Totals, is_control_key, is_page, retried};
use crate::error::{Error, Result};
use crate::wire::Wire;

/// What every request is delayed by where round trips are confirmed by the clock.
const INJECTED: Duration = Duration::from_millis(200);
/// How often that is tried, each time with twice the delay: what the machine itself needs, however busy, becomes small beside it.
const TRIES: u32 = 7;

/// Requests of one operation that are kept for a person to read.
const LOGGED: usize = 60;

/// What one plane (control or data) of an operation cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Requests.
    pub requests: usize,
    /// Bytes of bodies sent.
    pub sent: usize,
    /// Bytes of bodies received.
    pub received: usize,
    /// Digits among them that a counter is written with (control only).
    pub digits: usize,
    /// Numbers among them (control only).
    pub numbers: usize,
    /// Journal entries and table heads in what was sent and received (control only): what has to be encoded or decoded.
    pub entries: usize,
}

/// What one operation cost.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// For heads and records.
    pub control: Cost,
    /// For the tables' own objects.
    pub data: Cost,
    /// Sequential round trips of both together.
    pub round_trips: usize,
    /// Requests among them that the client sent again because one had failed.
    pub retries: usize,
    /// Requests of each kind.
    pub verbs: BTreeMap<String, usize>,
    /// Every request.
    pub log: String,
}

/// Where requests are counted besides the tap.
#[derive(Debug)]
pub(super) enum Outside {
    /// Nowhere: the backend is the machine's own disk.
    Nowhere,
    /// At the client's connector and on the wire.
    Loopback(Arc<Wire>, Proxy),
    /// At the client's connector.
    Connector(Arc<Wire>),
}

/// The counters of one catalog's processes; one operation at a time.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) tap: Arc<Tap>,
    pub(super) outside: Outside,
    /// The names of the threads that its processes work on, beside the one that asks.
    threads: Vec<&'static str>,
}

impl Meter {
    pub(super) fn new(outside: Outside, threads: Vec<&'static str>) -> Self {
        Self { tap: Tap::keeping(), outside, threads }
    }

    /// Does something, and counts what it asks for.
    pub(super) async fn measure<T>(&self, what: &str, work: impl Future<Output = Result<T>>) -> Result<(T, Sample)> {
        self.tap.clear();
        let (done, rounds) = match &self.outside {
            Outside::Nowhere => {
                let (done, rounds) = self.tap.in_rounds(work, &self.threads).await;
                (done?, rounds)
            }
            Outside::Loopback(wire, proxy) => {
                wire.clear();
                proxy.clear();
                let held = proxy.inject(Rule::new(Fault::Hold));
                let holds = || Holds { held: held.held(), under_way: wire.under_way() };
                let done = in_rounds(work, &self.threads, holds, async || held.release().await.map(drop)).await;
                proxy.heal();
                let released = held.release().await;
                let (done, rounds) = done?;
                let done = done?;
                released?;
                (done, rounds)
            }
            Outside::Connector(wire) => {
                wire.clear();
                (work.await?, usize::MAX)
            }
        };
        let requests = self.tap.requests();
        let mut sample = sample(&requests)?;
        if let Outside::Loopback(wire, _) | Outside::Connector(wire) = &self.outside {
            let requests = wire.requests();
            count_hidden(&requests, &mut sample);
            sample.round_trips = stages(&requests);
        }
        self.compare(what, &requests, &sample, rounds)?;
        Ok((done, sample))
    }

    /// Confirms a number of round trips by the clock: with every request delayed by the same time, an operation takes that time once for each.
    /// Returns how often it took it.
    pub(super) async fn confirm<T>(&self, what: &str, round_trips: usize, work: impl AsyncFn() -> Result<T>) -> Result<usize> {
        let mut times = 0;
        for attempt in 0..TRIES {
            let delay = INJECTED * 2u32.pow(attempt);
            self.delay(delay);
            let begun = Instant::now();
            let done = work().await;
            let took = begun.elapsed();
            self.delay(Duration::ZERO);
            done?;
            times = (took.as_millis() / delay.as_millis()) as usize;
            if times <= round_trips {
                break;
            }
        }
        if times == round_trips {
            return Ok(times);
        }
        let problem = format!("{round_trips} round trips were counted, but with each request delayed it took {times} times the delay");
        Err(Error::untrusted(what, problem))
    }

    /// Delays every request from now on, as far from the client as it can be done.
    fn delay(&self, delay: Duration) {
        match &self.outside {
            Outside::Loopback(_, proxy) if delay.is_zero() => proxy.heal(),
            Outside::Loopback(_, proxy) => drop(proxy.inject(Rule::new(Fault::DelayRequest(delay)))),
            Outside::Nowhere | Outside::Connector(_) => self.tap.delay(delay),
        }
    }

    /// Whether all counters have seen the same requests, and the same round trips: not more than requests were let go.
    fn compare(&self, what: &str, tapped: &[tap::Request], sample: &Sample, rounds: usize) -> Result<()> {
        let by_tap = Totals::of_tap(tapped);
        let differ = |who: &str, theirs: &Totals, log: String| {
            let problem = format!("the tap counts {by_tap:?}\n{}\nand the {who} {theirs:?}\n{log}", sample.log);
            if by_tap == *theirs { Ok(()) } else { Err(Error::untrusted(what, problem)) }
        };
        let trips = |who: &str, stages: usize| {
            let counted = sample.round_trips;
            let problem =
                format!("{counted} round trips were counted, {stages} by the {who}; requests were let go {rounds} times\n{}", sample.log);
            if stages == counted && stages <= rounds { Ok(()) } else { Err(Error::untrusted(what, problem)) }
        };
        match &self.outside {
            Outside::Nowhere => trips("tap", tap::stages(tapped)),
            Outside::Loopback(wire, proxy) => {
                let (connector, on_the_wire) = (wire.requests(), proxy.requests());
                differ("connector", &Totals::of_wire(&connector), clipped(&render(&connector)))?;
                differ("proxy", &Totals::of_wire(&on_the_wire), clipped(&proxy.render()))?;
                if hidden(&connector) != hidden(&on_the_wire) {
                    let (ours, theirs) = (render(&connector), proxy.render());
                    return Err(Error::untrusted(what, format!("the connector sees\n{ours}\nand the proxy\n{theirs}")));
                }
                // A tap sees neither a list's pages, one after the other, nor what is sent again.
                if hidden(&connector) == 0 {
                    trips("tap", tap::stages(tapped))?;
                }
                trips("proxy", proxy.stages())
            }
            Outside::Connector(wire) => differ("connector", &Totals::of_wire(&wire.requests()), clipped(&render(&wire.requests()))),
        }
    }
}

/// Requests that no tap sees.
fn hidden(requests: &[Request]) -> usize {
    requests.iter().filter(|one| is_page(one)).count() + retried(requests).len()
}

/// Adds what a tap cannot see: a list's further pages, and what failed and was sent again.
fn count_hidden(wire: &[Request], sample: &mut Sample) {
    let retried = retried(wire);
    let again = |request: &&Request| retried.iter().any(|one| one.number == request.number);
    for request in wire.iter().filter(|request| is_page(request) || again(request)) {
        let cost = if is_control_key(&request.key) { &mut sample.control } else { &mut sample.data };
        cost.requests += 1;
        *sample.verbs.entry(request.verb.name().to_owned()).or_default() += 1;
    }
    for request in &retried {
        let cost = if is_control_key(&request.key) { &mut sample.control } else { &mut sample.data };
        cost.sent += request.sent;
        cost.received += request.received;
        sample.log.push_str(&format!("\n  sent again: {request}"));
    }
    sample.retries = retried.len();
}

/// Whether a request is for a head or a record.
fn is_control(request: &tap::Request) -> bool {
    request.verb.split_once(' ').is_some_and(|(_, of)| of.starts_with("head") || of.starts_with("record"))
}

fn sample(requests: &[tap::Request]) -> Result<Sample> {
    let mut sample = Sample { round_trips: tap::stages(requests), log: clipped(&tap::render(requests)), ..Sample::default() };
    for request in requests {
        *sample.verbs.entry(request.verb.to_owned()).or_default() += 1;
        let cost = if is_control(request) { &mut sample.control } else { &mut sample.data };
        cost.requests += 1;
        cost.sent += request.sent;
        cost.received += request.received;
        if !request.control.is_empty() {
            let unreadable = |error: serde_json::Error| Error::untrusted(&request.key, error.to_string());
            let shape = Shape::parse(&request.control).map_err(unreadable)?;
            cost.digits += shape.bytes - shape.without_numbers;
            cost.numbers += shape.counters.len();
            cost.entries += entries(&request.control);
        }
    }
    Ok(sample)
}

/// The first lines of a log, and how many more there are.
fn clipped(log: &str) -> String {
    let mut lines: Vec<&str> = log.lines().take(LOGGED).collect();
    let more = log.lines().count() - lines.len();
    let rest = format!("  and {more} more");
    lines.extend((more > 0).then_some(rest.as_str()));
    lines.join("\n")
}

/// Journal entries and table heads in a control object.
fn entries(bytes: &[u8]) -> usize {
    if let Ok(head) = serde_json::from_slice::<Head>(bytes) {
        head.tail.len() + head.tables.iter().len()
    } else if let Ok(segment) = serde_json::from_slice::<Segment>(bytes) {
        segment.entries.len() + segment.checkpoint.tables.iter().len()
    } else {
        // One of a kind: the catalog record, or an entry's body.
        1
    }
}
