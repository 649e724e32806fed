//! Catalogs on a real S3 server, each place a bucket of its own, with or without the fault proxy in between.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot reach its server ends here")]

pub mod wire;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use aws_credential_types::Credentials;
use futures::future::join_all;
use headwater_adapters as _;
use headwater_bench::server::Server;
use headwater_conformance::crash::{self, Cells, scenarios};
use headwater_conformance::fixture::Fixture;
use headwater_conformance::lab::Lab;
use headwater_core::registry::{OpenedBackend, Registry};
use headwater_parquet as _;
use headwater_s3::{S3Authority, Settings};
// Links the local backend and the SQLite authority, in every test alike.
use headwater_suite as _;

/// Everything this test links, sealed.
pub fn registry() -> Registry {
    let mut expected = vec![("backend", "memory"), ("backend", "local"), ("backend", "s3"), ("authority", "sqlite"), ("store", "parquet")];
    expected.extend(headwater_adapters::EXPECTED);
    Registry::seal(&expected, &[]).unwrap()
}

/// The scenarios whose set-up is short: a full tail takes 32 commits for each cell, and is tried on faster backends.
pub const CRASHED: [&str; 14] = [
    "index: two tables",
    "load: create a mirrored table",
    "load: create three tables and append",
    "load: append to three tables",
    "load: overwrite",
    "load: two commits to two tables",
    "mutation: by key and by a condition, and a load beside it",
    "mutation: two upserts of one table",
    "optimize: two tables",
    "schema: create",
    "schema: rename",
    "schema: drop",
    "schema: recreate",
    "schema: add columns",
];

/// Kills those of [`CRASHED`] that the store does, at every request, side by side, each in a lab of its own.
pub async fn crashed(lab: impl Fn() -> Lab) -> Vec<Cells> {
    let scenarios = scenarios::ALL.iter().filter(|scenario| CRASHED.contains(&scenario.name));
    for adapter in lab().registry().adapters() {
        assert!(scenarios.clone().any(|scenario| scenario.adapter == adapter.kind()), "{} is not crashed", adapter.kind().name());
    }
    let run = scenarios.map(|scenario| async {
        let lab = lab();
        if crash::does(&lab, scenario).await { Some(crash::run(&lab, scenario).await) } else { None }
    });
    let all: Vec<Cells> = join_all(run).await.into_iter().flatten().collect();
    assert!(all.iter().all(|cells| cells.requests > 0 && cells.cells == 2 * cells.requests && cells.fired == cells.cells));
    all
}

/// The S3 backend of a bucket, as a process opens it that reaches the server at this address.
pub fn open(server: &Server, address: SocketAddr, bucket: &str) -> OpenedBackend {
    let settings = Settings::new(bucket, "lake")
        .and_then(|settings| settings.endpoint(&format!("http://{address}")))
        .unwrap()
        .region(server.region())
        .credentials(Credentials::from_keys(server.access_key(), server.secret_key(), None));
    let authority = S3Authority::new(settings).unwrap();
    let objects = authority.objects();
    OpenedBackend { authority: Arc::new(authority), objects }
}

/// Buckets on the shared server.
#[derive(Debug)]
pub struct Buckets {
    /// The server.
    pub server: &'static Server,
    address: SocketAddr,
    bucket: Mutex<String>,
}

impl Buckets {
    /// Buckets as the server has them.
    pub fn direct() -> Self {
        let server = Server::shared().unwrap();
        Self { server, address: server.address(), bucket: Mutex::default() }
    }

    /// Buckets behind a proxy.
    pub fn behind(address: SocketAddr) -> Self {
        Self { address, ..Self::direct() }
    }
}

#[async_trait::async_trait]
impl Fixture<OpenedBackend> for Buckets {
    async fn open_fresh(&self) -> OpenedBackend {
        *self.bucket.lock().unwrap_or_else(PoisonError::into_inner) = self.server.bucket().unwrap();
        self.reopen().await
    }

    async fn reopen(&self) -> OpenedBackend {
        open(self.server, self.address, &self.bucket.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
