//! A tap on every request: counts them, finds disjoint stages, and kills at any of them. It sits below retries, right above the backend.
//!
//! A backend in memory answers without ever yielding, so that requests issued side by side would follow each other. Each request therefore
//! lets the others of its process go first between its begin and the backend: what nobody waits for overlaps, on every backend.
//! [`Tap::in_rounds`] makes that certain: it holds requests until nothing more can come.

mod authority;
mod objects;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use headwater_core::{Error, ErrorKind};
use tokio::sync::watch;

use crate::rounds::{self, Holds};

pub use authority::TapAuthority;
pub use objects::TapObjects;

/// How often a request lets others go first: enough for tasks that are woken through a few others.
const YIELDS: usize = 32;

/// One request, as the backend saw it.
#[derive(Clone, Debug)]
pub struct Request {
    /// What was asked: `GET head`, `SWAP head`, `CREATE record`, `PUT`, `GET`, `LIST` …
    pub verb: &'static str,
    /// About which object.
    pub key: String,
    /// Bytes sent.
    pub sent: usize,
    /// Bytes received (of a body read as a stream: its announced length).
    pub received: usize,
    /// When it began and ended, in ticks of the tap's own counter: two requests overlap if their intervals do.
    pub span: Range<u64>,
    /// The head or record that went over the wire, if the tap keeps them ([`Tap::keeping`]); else empty.
    pub control: Bytes,
}

/// Where to die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// At request number `0`-based, before it reaches the backend.
    Before(usize),
    /// At that request, after the backend applied it: the reply is lost.
    After(usize),
}

/// Records requests, and kills the process (as far as its I/O can tell) where planned: from then on every request fails.
#[derive(Debug, Default)]
pub struct Tap(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    requests: Vec<Request>,
    clock: u64,
    fault: Option<Fault>,
    dead: bool,
    fired: bool,
    /// Whether heads and records are kept.
    keeps: bool,
    /// What each request takes before it reaches the backend.
    delay: Duration,
    /// Requests wait for a release while there is one.
    releases: Option<watch::Sender<()>>,
    /// Requests that do.
    held: usize,
}

/// A tap while it holds, which may end early.
struct Holding<'a>(&'a Tap);

impl<'a> Holding<'a> {
    /// From now on each request waits for a release.
    fn of(tap: &'a Tap) -> Self {
        let holding = Self(tap);
        holding.renew();
        holding
    }

    /// Lets go of what is held, all together: its sender goes.
    fn renew(&self) {
        self.0.state().releases = Some(watch::Sender::new(()));
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.0.state().releases = None;
    }
}

/// Requests while they are held: a caller may lose its interest in them.
struct Held<'a> {
    tap: &'a Tap,
    requests: Range<usize>,
    released: bool,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut state = self.tap.state();
        state.held -= self.requests.len();
        if !self.released {
            state.clock += 1;
            let end = state.clock;
            state.requests.iter_mut().take(self.requests.end).skip(self.requests.start).for_each(|request| request.span.end = end);
        }
    }
}

/// The error of a process that is dead.
#[derive(Debug)]
struct Dead;

impl fmt::Display for Dead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the planned crash has happened")
    }
}

impl std::error::Error for Dead {}

impl From<Dead> for Error {
    fn from(dead: Dead) -> Self {
        Error::new(ErrorKind::Unavailable, "the backend cannot be reached").because(dead)
    }
}

impl From<Dead> for object_store::Error {
    fn from(dead: Dead) -> Self {
        Self::Generic { store: "tap", source: Box::new(dead) }
    }
}

impl Tap {
    /// A tap that only records.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A tap that dies where planned.
    pub fn with_fault(fault: Fault) -> Arc<Self> {
        let tap = Self::default();
        tap.state().fault = Some(fault);
        Arc::new(tap)
    }

    /// A tap that keeps the heads and records it sees.
    pub fn keeping() -> Arc<Self> {
        let tap = Self::default();
        tap.state().keeps = true;
        Arc::new(tap)
    }

    /// From now on each request takes so long, by tokio's clock, before it reaches the backend.
    pub fn delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    /// Does something whose requests are held before they reach the backend: see [`in_rounds`](rounds::in_rounds()). One at a time.
    pub async fn in_rounds<T>(&self, work: impl Future<Output = T>, threads: &[&str]) -> (T, usize) {
        let holding = Holding::of(self);
        let release = async || {
            holding.renew();
            Ok::<_, Infallible>(())
        };
        let Ok(done) = rounds::in_rounds(work, threads, || self.holds(), release).await;
        done
    }

    /// Requests that wait for a release, and all that have begun and not ended.
    pub fn holds(&self) -> Holds {
        let state = self.state();
        let under_way = state.requests.iter().filter(|request| request.span.end == u64::MAX).count();
        Holds { held: state.held, under_way }
    }

    /// Lets what this request does not wait for begin.
    async fn let_others_begin(&self, index: usize) {
        self.let_all_begin(index..index + 1).await;
    }

    /// The same for requests that are made together.
    async fn let_all_begin(&self, requests: Range<usize>) {
        let (delay, release) = {
            let mut state = self.state();
            let release = state.releases.as_ref().map(watch::Sender::subscribe);
            state.held += if release.is_some() { requests.len() } else { 0 };
            (state.delay, release)
        };
        if let Some(mut release) = release {
            let mut held = Held { tap: self, requests, released: false };
            // The sender goes with the release.
            let _gone = release.changed().await;
            held.released = true;
            return;
        }
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
            return;
        }
        for _ in 0..YIELDS {
            tokio::task::yield_now().await;
        }
    }

    /// Keeps a head or record with its request.
    fn keep(&self, index: usize, control: &Bytes) {
        let mut state = self.state();
        if state.keeps
            && let Some(request) = state.requests.get_mut(index)
        {
            request.control = control.clone();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what was recorded.
    pub fn clear(&self) {
        self.state().requests.clear();
    }

    /// Plans a fault counted from the next request on.
    pub fn plan(&self, fault: Fault) {
        let mut state = self.state();
        state.requests.clear();
        state.fault = Some(fault);
    }

    /// What was recorded so far.
    pub fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// Whether the planned fault has happened.
    pub fn fired(&self) -> bool {
        self.state().fired
    }

    /// The number of disjoint stages: requests in one stage overlap, or could have, because none waited for another. It is the number of
    /// sequential round trips.
    pub fn stages(&self) -> usize {
        stages(&self.state().requests)
    }

    fn begin(&self, verb: &'static str, key: &str, sent: usize) -> Result<usize, Dead> {
        let mut state = self.state();
        if state.dead {
            return Err(Dead);
        }
        let index = state.requests.len();
        state.clock += 1;
        let start = state.clock;
        state.requests.push(Request { verb, key: key.to_owned(), sent, received: 0, span: start..u64::MAX, control: Bytes::new() });
        if state.fault == Some(Fault::Before(index)) {
            (state.dead, state.fired) = (true, true);
            return Err(Dead);
        }
        Ok(index)
    }

    fn end(&self, index: usize, received: usize) -> Result<(), Dead> {
        let mut state = self.state();
        state.clock += 1;
        let end = state.clock;
        if let Some(request) = state.requests.get_mut(index) {
            request.span.end = end;
            request.received = received;
        }
        if state.fault == Some(Fault::After(index)) {
            (state.dead, state.fired) = (true, true);
        }
        // Whatever was under way when the process died, its reply is lost, too.
        if state.dead { Err(Dead) } else { Ok(()) }
    }
}

/// See [`Tap::stages`]: the longest chain of requests each of which began after the one before had ended.
pub fn stages(requests: &[Request]) -> usize {
    let mut by_end: Vec<&Request> = requests.iter().collect();
    by_end.sort_by_key(|request| request.span.end);
    let (mut count, mut last) = (0, 0);
    for request in by_end {
        if request.span.start > last {
            count += 1;
            last = request.span.end;
        }
    }
    count
}

/// Requests in a form fit for a failing assertion.
pub fn render(requests: &[Request]) -> String {
    let lines = requests
        .iter()
        .map(|r| format!("  {:>5}..{:<5} {:14} {} (sent {}, received {})", r.span.start, r.span.end, r.verb, r.key, r.sent, r.received));
    lines.collect::<Vec<_>>().join("\n")
}
