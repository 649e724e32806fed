//! Clients that carry out steps, each in its own process as far as it can tell, interleaved on one thread by a seed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headwater_conformance::faults::{FaultyAuthority, FaultyObjects, Network, Random, SeededEnvironment, Weather};
use headwater_core::authority::ControlAuthority;
use headwater_core::head::{Intent, RecordRef};
use headwater_core::ids::{CommitId, Token};
use headwater_core::name::{RecordKey, RecordKind};
use headwater_core::registry::Registry;
use headwater_core::store::Scan;
use headwater_core::{At, Catalog, Commit, Error, ErrorKind, Parts, Result, RetryPolicy, Snapshot, TransactOptions, Transaction};
use object_store::memory::InMemory;

use super::action::{Action, Shape, Step, Tables};
use super::numbers::{self, collect};
use super::resolver::{self, Lookup};
use crate::tags::{ContentTags, swap_in};

/// What a history runs on.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) authority: Arc<dyn ControlAuthority>,
    /// The same authority, where heads can be toggled.
    pub(crate) toggled: Option<Arc<ContentTags>>,
    pub(crate) retry: RetryPolicy,
    /// Who finds out what became of an uncertain swap: the library, or a resolver of the test's own.
    pub(crate) lookup: Option<Lookup>,
}

/// Bounds that a bad network reaches now and then.
pub(crate) const POLICY: RetryPolicy =
    RetryPolicy { swaps: 6, prepares: 5, resolves: 5, pause: Duration::ZERO, longest_pause: Duration::ZERO };

/// What a step came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Committed {
        seq: u64,
        commit: Option<CommitId>,
        published: bool,
    },
    Unknown,
    Failed(ErrorKind),
    Read {
        seq: u64,
        commit: Option<CommitId>,
        tables: Tables,
    },
    /// Nothing that says anything of the catalog.
    Done,
}

/// A step, or a further attempt of one, between its invocation and its response in the order in which everything happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) step: usize,
    pub(crate) client: usize,
    /// Whether the step was tried before.
    pub(crate) again: bool,
    pub(crate) invoked: u64,
    pub(crate) returned: u64,
    pub(crate) outcome: Outcome,
    /// The error as its caller saw it.
    pub(crate) error: Option<String>,
}

/// A commit whose outcome is not known.
#[derive(Clone, Debug)]
struct Unsettled {
    step: Step,
    token: Token,
    since: u64,
}

/// What all clients share.
pub(crate) struct World {
    pub(crate) setting: Setting,
    pub(crate) objects: Arc<InMemory>,
    seed: u64,
    names: usize,
    clock: AtomicU64,
    events: Mutex<Vec<Event>>,
    unsettled: Mutex<Vec<Unsettled>>,
}

pub(crate) fn registry() -> Registry {
    let adapters = [&headwater_adapters::load::REGISTRATION, &headwater_adapters::schema::REGISTRATION];
    let expected = [("adapter", "load"), ("adapter", "schema"), ("store", numbers::REGISTRATION.name)];
    Registry::seal_parts(&expected, adapters.into_iter().chain([&numbers::REGISTRATION])).unwrap()
}

impl World {
    /// A new catalog with all tables but one.
    pub(crate) async fn new(setting: Setting, seed: u64, shape: &Shape) -> Arc<Self> {
        let world = Arc::new(Self {
            setting,
            objects: Arc::new(InMemory::new()),
            seed,
            names: shape.names,
            clock: AtomicU64::new(0),
            events: Mutex::default(),
            unsettled: Mutex::default(),
        });
        let catalog = Catalog::open_or_create(world.parts(&Network::calm(), u64::MAX), numbers::REGISTRATION.name).await.unwrap();
        let options = TransactOptions { message: Some("0".to_owned()), ..TransactOptions::default() };
        let main = catalog.branch("main").unwrap();
        let create = main.transact_with(options, |tx| async move {
            for table in ["a", "b", "c", "counter"] {
                tx.create_table(table, numbers::schema()).await?;
            }
            Ok(())
        });
        create.await.unwrap();
        world
    }

    /// What a process opens the catalog from.
    pub(crate) fn parts(&self, network: &Arc<Network>, process: u64) -> Parts {
        let authority = Arc::new(FaultyAuthority::new(self.setting.authority.clone(), network.clone()));
        let objects = Arc::new(FaultyObjects::new(self.objects.clone(), network.clone()));
        let environment = Arc::new(SeededEnvironment::new(Random::fork(self.seed, process).draw()));
        Parts { retry: self.setting.retry, environment, ..Parts::new(registry(), authority, objects) }
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One process.
pub(crate) struct Client {
    world: Arc<World>,
    number: usize,
    pub(crate) network: Arc<Network>,
    weather: Weather,
    catalog: Catalog,
    /// The seq it knows of.
    known: u64,
}

impl Client {
    /// A process that has the catalog open, on a day without faults.
    pub(crate) async fn new(world: Arc<World>, number: usize, weather: Weather) -> Self {
        let network = Network::calm();
        let catalog = Catalog::open(world.parts(&network, number as u64)).await.unwrap();
        Self { world, number, network, weather, catalog, known: 0 }
    }

    /// Carries out the steps that are this client's.
    pub(crate) async fn run(mut self, steps: Vec<Step>) {
        for step in steps {
            let mut random = Random::fork(self.world.seed, step.number as u64);
            self.network.draw_from(Random::new(random.draw()), self.weather);
            for _ in 0..random.below(20) {
                tokio::task::yield_now().await;
            }
            self.step(&step, &mut random).await;
        }
    }

    async fn step(&mut self, step: &Step, random: &mut Random) {
        let invoked = self.world.now();
        let (number, again, result) = match &step.action {
            Action::Settle => {
                let unsettled = self.world.unsettled.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if unsettled.is_empty() {
                    return;
                }
                let Unsettled { step, token, since } = random.pick(&unsettled);
                (step.number, true, self.write(step, Some(token.clone()), *since).await)
            }
            Action::Read => (step.number, false, self.read(None).await),
            Action::ReadPast(back) => (step.number, false, self.read(Some(*back)).await),
            Action::Reopen => (step.number, false, self.reopen().await),
            Action::Toggle => (step.number, false, self.toggle(random).await),
            _ => {
                let token = step.token.then(|| format!("step-{}", step.number).parse().unwrap());
                (step.number, false, self.write(step, token, self.known).await)
            }
        };
        let (outcome, error) = match result {
            Ok(outcome) => (outcome, None),
            Err(error) if error.kind() == ErrorKind::PublishUnknown => (Outcome::Unknown, Some(format!("{error:?}"))),
            Err(error) => (Outcome::Failed(error.kind()), Some(format!("{error:?}"))),
        };
        if let Outcome::Committed { seq, .. } | Outcome::Read { seq, .. } = outcome {
            self.known = self.known.max(seq);
        }
        let event = Event { step: number, client: self.number, again, invoked, returned: self.world.now(), outcome, error };
        self.world.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    async fn write(&self, step: &Step, token: Option<Token>, since: u64) -> Result<Outcome> {
        let options = TransactOptions { message: Some(step.number.to_string()), token, since };
        let names = self.world.names;
        let asked = |options: TransactOptions| async {
            let body = |tx: Transaction| async move {
                for i in 0..names {
                    tx.find(&format!("{i:080}")).await?;
                }
                step.action.ask(step.number, &tx).await
            };
            self.catalog.branch("main")?.transact_with(options, body).await
        };
        let mut told = asked(options.clone()).await;
        if let (Some(lookup), Err(error)) = (self.world.setting.lookup, &told)
            && let (ErrorKind::PublishUnknown, Some(token)) = (error.kind(), error.token().cloned())
        {
            let again = TransactOptions { token: Some(token.clone()), ..options };
            let authority = FaultyAuthority::new(self.world.setting.authority.clone(), self.network.clone());
            told = resolver::resolve(lookup, &authority, &self.catalog, &token, told, || asked(again.clone())).await;
        }
        match told {
            Ok(Commit { seq, commit, published, .. }) => Ok(Outcome::Committed { seq, commit, published }),
            Err(error) => {
                if let (ErrorKind::PublishUnknown, Some(token)) = (error.kind(), error.token()) {
                    let mut unsettled = self.world.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
                    if !unsettled.iter().any(|known| known.step.number == step.number) {
                        unsettled.push(Unsettled { step: step.clone(), token: token.clone(), since });
                    }
                }
                Err(error)
            }
        }
    }

    async fn read(&self, back: Option<u64>) -> Result<Outcome> {
        let mut snapshot: Snapshot = self.catalog.branch("main")?.snapshot().await?;
        if let Some(back) = back {
            snapshot = snapshot.at(At::Seq(snapshot.seq().saturating_sub(back))).await?;
        }
        let mut tables = Tables::new();
        for head in snapshot.tables() {
            tables.insert(head.key.to_string(), collect(&snapshot.scan(head.key.as_str(), &Scan::default()).await?).await?);
        }
        Ok(Outcome::Read { seq: snapshot.seq(), commit: snapshot.commit(), tables })
    }

    async fn reopen(&mut self) -> Result<Outcome> {
        self.catalog = Catalog::open(self.world.parts(&self.network, self.world.now() << 8 | self.number as u64)).await?;
        Ok(Outcome::Done)
    }

    async fn toggle(&self, random: &mut Random) -> Result<Outcome> {
        let Some(authority) = &self.world.setting.toggled else { return Err(Error::invalid("nothing toggles here")) };
        let nonce = format!("{:x}", random.draw());
        swap_in(authority.as_ref(), |head| {
            head.nonce.clone_from(&nonce);
            if head.intents.pop().is_none() {
                let record = RecordRef { key: RecordKey::new(RecordKind::Entry, ["one"]), digest: String::new() };
                head.intents.push(Intent { id: "one".to_owned(), record, tables: Vec::new(), owner: "another".to_owned() });
            }
        })
        .await;
        Ok(Outcome::Done)
    }
}
