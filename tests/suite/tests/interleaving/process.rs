//! Processes that share a place, and what it then holds.

use std::ops::Deref;
use std::sync::Arc;

use headwater_conformance::faults::{Network, Planned};
use headwater_conformance::rows;
use headwater_core::authority::{Expected, HeadRead, Swap};
use headwater_core::head::Head;
use headwater_core::ids::{Environment, SystemEnvironment, Token};
use headwater_core::json::Sealed;
use headwater_core::{Branch, Catalog, Commit, Error, ErrorKind, LogEntry, Parts, Result, RetryPolicy};

use headwater_suite::{PARQUET, place};

use crate::place::{POLICY, options};

/// One process's handle on a catalog, and its network.
pub(crate) struct Process {
    pub(crate) catalog: Catalog,
    pub(crate) branch: Branch,
    pub(crate) network: Arc<Network>,
}

/// Where a catalog lives.
pub(crate) struct Place(place::Place);

impl Deref for Place {
    type Target = place::Place;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Place {
    /// An empty place on each authority.
    pub(crate) async fn all() -> [Self; 3] {
        let (memory, local) = (place::Place::memory(PARQUET).await, place::Place::local(PARQUET).await);
        [Self(memory), Self(local), Self(place::Place::sqlite(PARQUET).await)]
    }

    /// An empty place in memory.
    pub(crate) async fn memory() -> Self {
        Self(place::Place::memory(PARQUET).await)
    }

    /// An empty place with its control apart from its data.
    pub(crate) async fn apart() -> Self {
        Self(place::Place::apart(PARQUET).await)
    }

    /// A process that has the catalog open.
    pub(crate) async fn open(&self) -> Process {
        self.open_with(POLICY).await
    }

    pub(crate) async fn open_with(&self, retry: RetryPolicy) -> Process {
        let network = Network::calm();
        let catalog = Catalog::open_or_create(Parts { retry, ..self.parts(&network).await }, "parquet").await.unwrap();
        Process { branch: catalog.branch("main").unwrap(), catalog, network }
    }

    /// The head of `main`, past every network.
    pub(crate) async fn head(&self) -> Head {
        match self.backend().await.authority.read_head(&"main".parse().unwrap(), None).await.unwrap() {
            HeadRead::Found(body, _) => serde_json::from_slice(&body).unwrap(),
            other => panic!("no head: {other:?}"),
        }
    }

    /// Swaps in the head with something else in it.
    pub(crate) async fn edit(&self, edit: impl Fn(&mut Head)) {
        let (authority, main) = (self.recorder.record(self.backend().await.authority), "main".parse().unwrap());
        let HeadRead::Found(body, tag) = authority.read_head(&main, None).await.unwrap() else { panic!("no head") };
        let mut head: Head = serde_json::from_slice(&body).unwrap();
        edit(&mut head);
        head.rev += 1;
        head.nonce = format!("{:x}", SystemEnvironment.random());
        let swap = authority.swap_head(&main, Expected::Tag(&tag), head.seal().unwrap().into()).await.unwrap();
        assert!(matches!(swap, Swap::Swapped(_)));
    }

    /// The journal, oldest first.
    pub(crate) async fn journal(&self) -> Vec<LogEntry> {
        let mut log = self.open().await.branch.snapshot().await.unwrap().log(usize::MAX).await.unwrap();
        log.reverse();
        log
    }

    /// How many journal entries have this token.
    pub(crate) async fn entries(&self, token: &str) -> usize {
        self.journal().await.iter().filter(|entry| entry.entry.token.as_str() == token).count()
    }

    /// The numbers in a table.
    pub(crate) async fn ids(&self, table: &str) -> Vec<i64> {
        let snapshot = self.open().await.branch.snapshot().await.unwrap();
        let mut ids = rows::ids(&rows::read(&snapshot, table).await.unwrap());
        ids.sort_unstable();
        ids
    }

    /// Notes what a caller was told about a commit.
    pub(crate) fn told(&self, token: &str, outcome: &Result<Commit>) {
        self.recorder.told(&token.parse().unwrap(), outcome);
    }
}

impl Process {
    /// Plans faults for what this process sends from here on.
    pub(crate) fn plan(&self, plan: &[Planned]) {
        self.network.plan(plan);
    }

    /// Creates empty tables.
    pub(crate) async fn create(&self, keys: &[&str]) {
        let creating = self.branch.transact(|tx| async move {
            for key in keys {
                tx.create_table(key, rows::schema()).await?;
            }
            Ok(())
        });
        creating.await.unwrap();
    }

    /// Appends one number to a table, under a token.
    pub(crate) async fn append(&self, token: &str, table: &str, id: i64) -> Result<Commit> {
        append(&self.branch, token, table, id).await
    }

    /// Commits by others that have nothing to do with it.
    pub(crate) async fn fill(&self, table: &str, commits: usize) {
        for _ in 0..commits {
            self.branch.transact(|tx| async move { tx.append(&tx.table(table).await?, rows::numbered(0..1)).await }).await.unwrap();
        }
    }
}

/// Appends one number to a table, under a token.
pub(crate) async fn append(branch: &Branch, token: &str, table: &str, id: i64) -> Result<Commit> {
    branch.transact_with(options(token), |tx| async move { tx.append(&tx.table(table).await?, rows::numbered(id..id + 1)).await }).await
}

/// The error of a commit whose outcome is not known: it must name the token that settles it.
pub(crate) fn unknown(outcome: Result<Commit>, token: &str) -> Error {
    let error = outcome.expect_err("nobody can know this");
    assert_eq!((error.kind(), error.token().map(Token::as_str)), (ErrorKind::PublishUnknown, Some(token)), "{error:?}");
    error
}
