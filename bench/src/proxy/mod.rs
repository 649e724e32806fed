//! One HTTP/1.1 proxy on loopback before an S3 server: it records every request, and injects the faults of a network and of a server.
//!
//! It sits below every retry of the client, so what it counts is what the wire carried. Requests are signed for the host the client
//! connects to, so the `Host` header goes through as it is; S3 servers check the signature against it, not against their own address.
//! Bodies are held whole, up to [`MAX_BODY`]. A request that has arrived is served to its end, whether or not its client waits for it.

mod forward;
mod plan;
mod request;
mod rule;
mod serve;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use hyper::http::request::Parts;
use tokio::sync::oneshot;

use self::forward::Stored;
use self::plan::Plan;
pub use self::request::{Request, Verb, counts, render, stages};
pub use self::rule::{Answer, Fault, Landing, Rule, S3Error};
use crate::server::Server;
use crate::{Error, Result};

/// The longest body that is let through; a longer one is answered with 413.
pub const MAX_BODY: usize = 64 << 20;

/// A running proxy. It stops, and requests it still holds are lost, when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    secret_key: Option<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    clock: u64,
    begun: u64,
    requests: Vec<Request>,
    rules: Vec<Arc<Active>>,
}

/// A rule in force.
#[derive(Debug)]
struct Active {
    rule: Rule,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    matched: usize,
    fired: usize,
    held: Vec<(u64, Stored)>,
    /// What lets requests that wait go on.
    waiting: Vec<oneshot::Sender<()>>,
}

/// A rule that was injected: how often it fired, and what it holds back.
#[derive(Clone, Debug)]
pub struct Injected {
    active: Arc<Active>,
    shared: Arc<Shared>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    /// A proxy before the server at this address. It has a thread and a runtime of its own, so it serves whatever its test blocks on.
    ///
    /// # Errors
    ///
    /// If it cannot listen.
    pub async fn start(upstream: SocketAddr) -> Result<Self> {
        Self::listen(upstream, None)
    }

    /// A proxy before this server that knows its keys, which [`Fault::StripRequestHeader`] needs.
    ///
    /// # Errors
    ///
    /// If it cannot listen.
    pub async fn before(server: &Server) -> Result<Self> {
        Self::listen(server.address(), Some(server.secret_key().to_owned()))
    }

    fn listen(upstream: SocketAddr, secret_key: Option<String>) -> Result<Self> {
        let listening = || Error::io("listening as a proxy");
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(listening())?;
        listener.set_nonblocking(true).map_err(listening())?;
        let address = listener.local_addr().map_err(listening())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(listening())?;
        let shared = Arc::new(Shared { upstream, secret_key, state: Mutex::default() });
        let (stop, stopped) = oneshot::channel();
        let serving = serve::accept(shared.clone(), listener, stopped);
        let thread = std::thread::Builder::new().name("proxy".to_owned()).spawn(move || runtime.block_on(serving)).map_err(listening())?;
        Ok(Self { address, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Its URL, path-style and plain HTTP.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was recorded so far, in the order in which the requests began.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.state).requests.clone()
    }

    /// Whether no request that has arrived is still under way, also one whose client is gone.
    pub fn is_quiet(&self) -> bool {
        lock(&self.shared.state).requests.iter().all(|request| request.span.end != u64::MAX)
    }

    /// Forgets what was recorded. Rules stay.
    pub fn clear(&self) {
        lock(&self.shared.state).requests.clear();
    }

    /// See [`stages()`].
    pub fn stages(&self) -> usize {
        stages(&lock(&self.shared.state).requests)
    }

    /// What was recorded so far, in a form fit for a failing assertion.
    pub fn render(&self) -> String {
        render(&lock(&self.shared.state).requests)
    }

    /// Puts a rule in force, until [`Proxy::heal`].
    pub fn inject(&self, rule: Rule) -> Injected {
        let active = Arc::new(Active { rule, progress: Mutex::default() });
        lock(&self.shared.state).rules.push(active.clone());
        Injected { active, shared: self.shared.clone() }
    }

    /// Ends all rules. Requests they hold back still land when they are released.
    pub fn heal(&self) {
        lock(&self.shared.state).rules.clear();
    }

    /// How often the rules in force fired, all in all.
    pub fn fired(&self) -> usize {
        lock(&self.shared.state).rules.iter().map(|active| lock(&active.progress).fired).sum()
    }

    /// The rules in force that never fired: a test asserts that there are none.
    pub fn unfired(&self) -> Vec<String> {
        let state = lock(&self.shared.state);
        let unfired = state.rules.iter().filter(|active| lock(&active.progress).fired == 0);
        unfired.map(|active| active.rule.to_string()).collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the proxy has shown itself at the clients; one more, while a test may be panicking, would hide it.
            let _ = thread.join();
        }
    }
}

impl Injected {
    /// How often the fault was injected.
    pub fn fired(&self) -> usize {
        lock(&self.active.progress).fired
    }

    /// How many requests it holds back.
    pub fn held(&self) -> usize {
        let progress = lock(&self.active.progress);
        progress.held.len() + progress.waiting.len()
    }

    /// Lets the requests it holds back land, in the order in which they came, and returns the statuses of the server's answers. Those that a
    /// client still waits for ([`Fault::Hold`]) go on, and their answers are the client's.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub async fn release(&self) -> Result<Vec<u16>> {
        self.shared.land(&self.active).await
    }
}

impl Shared {
    /// Records that a request has arrived.
    fn begin(&self, head: &Parts) -> u64 {
        let mut state = lock(&self.state);
        state.clock += 1;
        state.begun += 1;
        let request = Request::new(state.begun, state.clock, head);
        state.requests.push(request);
        state.begun
    }

    /// Changes a record, unless it has been cleared.
    fn record(&self, number: u64, change: impl FnOnce(&mut Request)) {
        let mut state = lock(&self.state);
        if let Some(request) = state.requests.iter_mut().rev().find(|request| request.number == number) {
            change(request);
        }
    }

    /// Records how a request ended.
    fn end(&self, number: u64, status: Option<u16>, received: usize) {
        let mut state = lock(&self.state);
        state.clock += 1;
        let end = state.clock;
        if let Some(request) = state.requests.iter_mut().rev().find(|request| request.number == number) {
            (request.status, request.received, request.span.end) = (status, received, end);
        }
    }

    /// Applies all rules to a request whose body has arrived.
    fn plan(&self, number: u64, head: &Parts, body: &[u8]) -> Plan {
        let mut state = lock(&self.state);
        let State { requests, rules, .. } = &mut *state;
        let mut cleared = Request::new(number, 0, head);
        let request = requests.iter_mut().rev().find(|request| request.number == number).unwrap_or(&mut cleared);
        request.take_body(body);
        let mut plan = Plan::default();
        // All are looked at before any fires: what comes after a rule comes after the request it fired at.
        let matching: Vec<_> = rules.iter().filter(|active| active.rule.matches(request)).collect();
        for active in matching {
            let mut progress = lock(&active.progress);
            progress.matched += 1;
            if active.rule.is_due(progress.matched) {
                if plan.add(active) {
                    progress.fired += 1;
                    request.faults.push(format!("{:?}", active.rule.fault));
                }
            } else if matches!(active.rule.fault, Fault::LandLate(Landing::AfterNext) | Fault::LandAgain(Landing::AfterNext)) {
                plan.lands.push(active.clone());
            }
        }
        plan
    }

    /// Lets what a rule holds back land.
    async fn land(&self, active: &Active) -> Result<Vec<u16>> {
        let (held, waiting) = {
            let mut progress = lock(&active.progress);
            (std::mem::take(&mut progress.held), std::mem::take(&mut progress.waiting))
        };
        for go in waiting {
            // Its client may have gone, and the request with it.
            let _ = go.send(());
        }
        let mut statuses = Vec::with_capacity(held.len());
        for (number, stored) in held {
            let answer = stored.send(self.upstream).await?;
            let status = answer.status().as_u16();
            self.record(number, |request| request.forwarded.push(status));
            statuses.push(status);
        }
        Ok(statuses)
    }
}
