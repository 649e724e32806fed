//! The network: decides what becomes of each request, and keeps those that are still under way.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::future::BoxFuture;
use headwater_core::{Error, ErrorKind};
use tokio::sync::watch;

use super::{Fault, Planned, Random, When};

/// How bad a random network is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// Requests out of a thousand to which something happens.
    pub faults_per_mille: u32,
    /// Requests out of a thousand at which nothing arrives for longer than a client tries.
    pub cuts_per_mille: u32,
    /// Turns that other tasks get before a request arrives, and before its reply does: below this.
    pub turns: u32,
    /// Turns that other tasks get until a client gives up waiting for an answer: below this.
    pub timeout: u32,
}

/// A request that went through the network, and what happened to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// What was asked, as [`crate::tap`] names it.
    pub verb: &'static str,
    /// About which object.
    pub key: String,
    /// The body that was sent.
    pub sent: Bytes,
    /// What the network did.
    pub fault: Option<Fault>,
    /// Whether its sender has learned all it ever will.
    pub answered: bool,
}

/// What others do while a request to which something happened has not been answered yet.
pub type Meanwhile = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// The network between one client and its backend.
pub struct Network {
    state: Mutex<State>,
    releases: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    passed: Vec<Passed>,
    counts: BTreeMap<&'static str, usize>,
    plan: Vec<Planned>,
    fired: Vec<Planned>,
    /// A fault that goes on for so many more requests.
    spell: Option<(Fault, u32)>,
    random: Option<(Random, Weather)>,
    meanwhile: Option<Meanwhile>,
    late: VecDeque<Late>,
}

/// A request that has been sent and not been answered.
pub(super) struct Sending {
    number: usize,
    pub(super) fault: Option<Fault>,
    held: Option<watch::Receiver<u64>>,
}

struct Late {
    /// Requests of this client until it arrives.
    due: Option<u32>,
    request: BoxFuture<'static, ()>,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("passed", &self.state().passed.len()).finish_non_exhaustive()
    }
}

/// The error of a request without an answer.
pub(super) fn silence() -> Error {
    Error::new(ErrorKind::Unavailable, "the network gave no answer")
}

async fn let_others_go(turns: u32) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

impl Network {
    fn with(state: State) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(state), releases: watch::Sender::new(0) })
    }

    /// A network that does no harm.
    pub fn calm() -> Arc<Self> {
        Self::with(State::default())
    }

    /// A network with these faults.
    pub fn planned(plan: &[Planned]) -> Arc<Self> {
        Self::with(State { plan: plan.to_vec(), ..State::default() })
    }

    /// A network that draws its faults.
    pub fn random(random: Random, weather: Weather) -> Arc<Self> {
        Self::with(State { random: Some((random, weather)), ..State::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a plan, whose numbers count from here.
    pub fn plan(&self, plan: &[Planned]) {
        let mut state = self.state();
        state.counts.clear();
        state.spell = None;
        state.plan = plan.to_vec();
    }

    /// From here on faults are drawn from this sequence.
    pub fn draw_from(&self, random: Random, weather: Weather) {
        self.state().random = Some((random, weather));
    }

    /// What others do, once, while the next request to which a planned fault happens waits for its answer.
    pub fn meanwhile(&self, meanwhile: Meanwhile) {
        self.state().meanwhile = Some(meanwhile);
    }

    /// From here on nothing happens to requests. Those under way stay so.
    pub fn heal(&self) {
        let mut state = self.state();
        (state.plan, state.spell, state.random) = (Vec::new(), None, None);
    }

    /// The planned faults that have happened.
    pub fn fired(&self) -> Vec<Planned> {
        self.state().fired.clone()
    }

    /// Everything that went through.
    pub fn passed(&self) -> Vec<Passed> {
        self.state().passed.clone()
    }

    /// Requests that are still under way.
    pub fn under_way(&self) -> usize {
        self.state().late.len()
    }

    /// Lets every request that is under way arrive, oldest first, and every reply that is held.
    pub async fn release(&self) {
        loop {
            let Some(late) = self.state().late.pop_front() else { break };
            late.request.await;
        }
        self.releases.send_modify(|releases| *releases += 1);
    }

    /// A request is sent: what becomes of it. Requests that are due arrive before it.
    pub(super) async fn begin(&self, verb: &'static str, key: &str, sent: Bytes) -> Sending {
        let (sending, due, turns) = {
            let mut state = self.state();
            let due = state.due();
            let (fault, turns) = state.decide(verb);
            state.passed.push(Passed { verb, key: key.to_owned(), sent, fault, answered: false });
            // A reply is held from here on: a release that comes before the backend has answered counts.
            let held = (fault == Some(Fault::Held)).then(|| self.releases.subscribe());
            (Sending { number: state.passed.len() - 1, fault, held }, due, turns)
        };
        let_others_go(turns).await;
        for request in due {
            request.await;
        }
        sending
    }

    /// The request's reply arrives, or would.
    pub(super) async fn end(&self, Sending { number, fault, held }: Sending) {
        let (meanwhile, turns) = {
            let mut state = self.state();
            let meanwhile = fault.and_then(|_| state.meanwhile.take());
            let silent = matches!(fault, Some(Fault::RequestsLost(_) | Fault::RepliesLost(_) | Fault::Late(_)));
            (meanwhile, state.turns() + if silent { state.timeout() } else { 0 })
        };
        if let Some(meanwhile) = meanwhile {
            meanwhile().await;
        }
        let_others_go(turns + if let Some(Fault::Delayed(turns)) = fault { turns } else { 0 }).await;
        if let Some(mut held) = held {
            // The sender is this network's own.
            let _ = held.changed().await;
        }
        self.state().passed[number].answered = true;
    }

    pub(super) fn later(&self, when: When, request: BoxFuture<'static, ()>) {
        let due = match when {
            When::Requests(requests) => Some(requests),
            When::Released => None,
        };
        self.state().late.push_back(Late { due, request });
    }
}

impl State {
    fn turns(&mut self) -> u32 {
        match &mut self.random {
            Some((random, weather)) if weather.turns > 0 => random.below(weather.turns),
            _ => 0,
        }
    }

    fn timeout(&mut self) -> u32 {
        match &mut self.random {
            Some((random, weather)) if weather.timeout > 0 => random.below(weather.timeout),
            _ => 0,
        }
    }

    /// The requests that arrive before the one that is being sent.
    fn due(&mut self) -> Vec<BoxFuture<'static, ()>> {
        let (due, waiting): (VecDeque<_>, _) = std::mem::take(&mut self.late).into_iter().partition(|late| late.due == Some(0));
        self.late = waiting;
        for late in &mut self.late {
            late.due = late.due.map(|due| due - 1);
        }
        due.into_iter().map(|late| late.request).collect()
    }

    fn decide(&mut self, verb: &'static str) -> (Option<Fault>, u32) {
        let turns = self.turns();
        let count = self.counts.entry(verb).or_default();
        let nth = *count;
        *count += 1;
        if let Some(i) = self.plan.iter().position(|planned| (planned.verb, planned.nth) == (verb, nth)) {
            let planned = self.plan.remove(i);
            self.fired.push(planned);
            return (Some(self.begin_spell(planned.fault)), turns);
        }
        if let Some((fault, left)) = self.spell {
            self.spell = (left > 1).then_some((fault, left - 1));
            return (Some(fault), turns);
        }
        let drawn = self.random.as_mut().and_then(|(random, weather)| draw(random, *weather, verb));
        (drawn.map(|fault| self.begin_spell(fault)), turns)
    }

    fn begin_spell(&mut self, fault: Fault) -> Fault {
        if let Fault::RequestsLost(requests) | Fault::RepliesLost(requests) = fault {
            self.spell = (requests > 1).then_some((fault, requests - 1));
        }
        fault
    }
}

fn draw(random: &mut Random, weather: Weather, verb: &str) -> Option<Fault> {
    if random.chance(weather.cuts_per_mille) {
        // Longer than any client of a test tries.
        let (kind, requests) = (random.below(2), 8 + random.below(12));
        return Some(if kind == 0 { Fault::RequestsLost(requests) } else { Fault::RepliesLost(requests) });
    }
    if !random.chance(weather.faults_per_mille) {
        return None;
    }
    let (few, when) = (1 + random.below(3), When::Requests(random.below(10)));
    let kinds = [
        Fault::RequestsLost(few),
        Fault::RepliesLost(few),
        Fault::Late(when),
        Fault::Late(when),
        Fault::Repeated(when),
        Fault::Echoed,
        Fault::Refused,
        Fault::Rejected,
        Fault::Delayed(1 + random.below(100)),
    ];
    let fitting: Vec<Fault> = kinds.into_iter().filter(|fault| fault.fits(verb)).collect();
    Some(*random.pick(&fitting))
}
