//! Counts what one operation asks of its backend, below every retry, and in how many round trips.
//!
//! A tap stands right above the backend everywhere. On S3 the client's HTTP connector counts as well, and on a loopback server a proxy on the
//! wire, too; they must agree, or no figure counts.
//!
//! Round trips are exact, and no clock of the machine decides: on a local disk every request takes one unit of a clock that only moves when
//! nothing else can (tokio's paused one), so the time an operation takes is its round trips. On a loopback server the proxy holds all that
//! arrives until everything the client has under way is there and the client does nothing more; then it lets all of it go at once, and the
//! number of times it does is the number of round trips. Where a store computes on threads of its own, whatever is counted on, requests are
//! held until these threads rest, too. On a server far away the disjoint stages are counted. A busy machine can only make a stage into two,
//! never two into one.

#[cfg(test)]
mod tests;
mod threads;
mod totals;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headwater::head::{Head, Segment};
use headwater_bench::proxy::{Fault, Injected, Proxy, Request, Rule, render, stages};
use headwater_conformance::shape::Shape;
use headwater_conformance::tap::{self, Tap};
use serde::Serialize;
use tokio::time::Instant;

use self::threads::resting;
use self::totals::{Totals, is_control_key, is_page, retried};
use crate::error::{Error, Result};
use crate::wire::Wire;

/// What one request takes on a local disk, by a clock that only moves when nobody has anything to do.
const LATENCY: Duration = Duration::from_millis(10);
/// How long nothing more may come before what is held is let go, in turns of the client's own runtime, a millisecond each.
const QUIET: usize = 4;
/// Turns after which whatever is held is let go: a client that goes on without its requests must not stand still.
const PATIENCE: usize = 5_000;

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
    /// The name of the threads its store computes on, beside the runtime's own.
    threads: Option<&'static str>,
}

impl Meter {
    pub(super) fn new(outside: Outside, threads: Option<&'static str>) -> Self {
        let by_the_clock = matches!(outside, Outside::Nowhere) && threads.is_none();
        let latency = if by_the_clock { LATENCY } else { Duration::ZERO };
        Self { tap: Tap::with_latency(latency), outside, threads }
    }

    /// Does something, and counts what it asks for.
    pub(super) async fn measure<T>(&self, what: &str, work: impl Future<Output = Result<T>>) -> Result<(T, Sample)> {
        self.tap.clear();
        let (done, round_trips) = match &self.outside {
            Outside::Nowhere if self.threads.is_some() => {
                // Turns take their millisecond: threads do not wait for a clock that waits for them.
                tokio::time::resume();
                self.tap.hold();
                let (done, rounds) = self.in_rounds(work, &Holding::Tap(&self.tap)).await;
                self.tap.let_go();
                tokio::time::pause();
                (done?, rounds)
            }
            Outside::Nowhere => {
                let begun = Instant::now();
                let done = work.await?;
                (done, (begun.elapsed().as_millis() / LATENCY.as_millis()) as usize)
            }
            Outside::Loopback(wire, proxy) => {
                wire.clear();
                proxy.clear();
                let held = proxy.inject(Rule::new(Fault::Hold));
                let (done, rounds) = self.in_rounds(work, &Holding::Proxy(&held, wire)).await;
                proxy.heal();
                held.release().await?;
                (done?, rounds)
            }
            Outside::Connector(wire) => {
                wire.clear();
                (work.await?, stages(&wire.requests()))
            }
        };
        let requests = self.tap.requests();
        let mut sample = sample(&requests, round_trips)?;
        if let Outside::Loopback(wire, _) | Outside::Connector(wire) = &self.outside {
            count_hidden(&wire.requests(), &mut sample);
        }
        self.compare(what, &requests, &sample)?;
        Ok((done, sample))
    }

    /// Confirms a number of round trips by the clock, on a loopback server: with every request delayed by the same time, an operation takes that
    /// time once for each. Returns how often it took it. `None` elsewhere: a disk's clock is the count itself.
    pub(super) async fn confirm<T>(&self, what: &str, round_trips: usize, work: impl AsyncFn() -> Result<T>) -> Result<Option<usize>> {
        let Outside::Loopback(_, proxy) = &self.outside else { return Ok(None) };
        let mut times = 0;
        for attempt in 0..TRIES {
            let delay = INJECTED * 2u32.pow(attempt);
            proxy.inject(Rule::new(Fault::DelayRequest(delay)));
            let begun = Instant::now();
            let done = work().await;
            let took = begun.elapsed();
            proxy.heal();
            done?;
            times = (took.as_millis() / delay.as_millis()) as usize;
            if times <= round_trips {
                break;
            }
        }
        if times == round_trips {
            return Ok(Some(times));
        }
        let problem = format!("{round_trips} round trips were counted, but with each request delayed it took {times} times the delay");
        Err(Error::untrusted(what, problem))
    }

    /// Runs work whose requests are held, letting go all of them whenever the client can do nothing but wait. Returns how often.
    async fn in_rounds<T>(&self, work: impl Future<Output = Result<T>>, holding: &Holding<'_>) -> (Result<T>, usize) {
        let mut work = std::pin::pin!(work);
        let (mut rounds, mut quiet, mut turns, mut before) = (0, 0, 0, 0);
        loop {
            tokio::select! {
                done = &mut work => return (done, rounds),
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
            let (holds, under_way) = holding.holds();
            let waits = holds > 0 && holds == under_way && holds == before && self.threads.is_none_or(resting);
            turns = if holds > 0 { turns + 1 } else { 0 };
            quiet = if waits { quiet + 1 } else { 0 };
            before = holds;
            if quiet >= QUIET || turns >= PATIENCE {
                rounds += 1;
                (quiet, turns, before) = (0, 0, 0);
                if let Err(error) = holding.release().await {
                    return (Err(error), rounds);
                }
            }
        }
    }

    /// Whether all counters have seen the same requests, and the same round trips.
    fn compare(&self, what: &str, tapped: &[tap::Request], sample: &Sample) -> Result<()> {
        let by_tap = Totals::of_tap(tapped);
        let differ = |who: &str, theirs: &Totals, log: String| {
            let problem = format!("the tap counts {by_tap:?}\n{}\nand the {who} {theirs:?}\n{log}", sample.log);
            if by_tap == *theirs { Ok(()) } else { Err(Error::untrusted(what, problem)) }
        };
        let stages_of_tap = tap::stages(tapped);
        let trips = |stages: usize| {
            let problem = format!("{} round trips were seen, but {stages} disjoint stages\n{}", sample.round_trips, sample.log);
            if stages == sample.round_trips { Ok(()) } else { Err(Error::untrusted(what, problem)) }
        };
        match &self.outside {
            Outside::Nowhere => trips(stages_of_tap),
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
                    trips(stages_of_tap)?;
                }
                trips(proxy.stages())
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

/// Who holds requests.
enum Holding<'a> {
    Proxy(&'a Injected, &'a Wire),
    Tap(&'a Tap),
}

impl Holding<'_> {
    /// Requests that are held, and those under way at the client.
    fn holds(&self) -> (usize, usize) {
        match self {
            Self::Proxy(held, wire) => (held.held(), wire.under_way()),
            Self::Tap(tap) => (tap.held(), tap.under_way()),
        }
    }

    async fn release(&self) -> Result<()> {
        match self {
            Self::Proxy(held, _) => drop(held.release().await?),
            Self::Tap(tap) => tap.release(),
        }
        Ok(())
    }
}

/// Whether a request is for a head or a record.
fn is_control(request: &tap::Request) -> bool {
    request.verb.split_once(' ').is_some_and(|(_, of)| of.starts_with("head") || of.starts_with("record"))
}

fn sample(requests: &[tap::Request], round_trips: usize) -> Result<Sample> {
    let mut sample = Sample { round_trips, log: clipped(&tap::render(requests)), ..Sample::default() };
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
