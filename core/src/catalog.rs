//! A catalog: one root, one identity, one kind of store. Opening, and creating where asked.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use object_store::ObjectStore;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::authority::{ControlAuthority, HeadRead, Tag};
use crate::branch::{Branch, Line};
use crate::creation;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{CatalogId, Environment, Mint, SystemEnvironment};
use crate::json::Sealed;
use crate::limits::Limits;
use crate::locator::{DataRoot, NamedRoot, Owner, check_record};
use crate::name::{BranchName, RecordKey, RecordKind};
use crate::registry::Registry;
use crate::store::DataStore;

/// The branch every catalog has.
pub const MAIN: &str = "main";

/// The catalog record: what everything under one root shares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogRecord {
    /// The format.
    pub format: u32,
    /// Features a reader must know.
    pub features: Vec<String>,
    /// The catalog's identity.
    pub catalog: CatalogId,
    /// The kind of its data store.
    pub store: String,
    /// When it was created, ms since 1970.
    pub created: u64,
    /// Vacuums begun so far.
    pub vacuum: u64,
    /// Whether `main` is there yet.
    pub state: CatalogState,
    /// The data root, of a live catalog whose data is elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<NamedRoot>,
    /// Digest over all of the above.
    pub digest: String,
}

/// How far the creation of a catalog has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatalogState {
    /// The record is there, the head of `main` may not be.
    Creating,
    /// The head of `main` is there and never goes away.
    Live,
}

impl Sealed for CatalogRecord {
    fn digest_mut(&mut self) -> &mut String {
        &mut self.digest
    }
}

/// The key of the catalog record.
pub fn catalog_key() -> RecordKey {
    RecordKey::new(RecordKind::Catalog, ["catalog"])
}

/// Bounds of what a publish tries before it gives up, and how long it waits in between.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// Swaps that may be lost to other writers, each time the transaction is prepared.
    pub swaps: u32,
    /// Times the transaction may be prepared, per commit.
    pub prepares: u32,
    /// Reads and resends that settle one uncertain swap.
    pub resolves: u32,
    /// Half of the longest pause before the second attempt; doubles with each further one. The pause itself is random up to the longest.
    pub pause: Duration,
    /// No pause is longer than this.
    pub longest_pause: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { swaps: 512, prepares: 256, resolves: 12, pause: Duration::from_millis(2), longest_pause: Duration::from_millis(250) }
    }
}

impl RetryPolicy {
    /// Waits before attempt number `attempt` (from 1).
    pub(crate) async fn wait(&self, mint: &Mint, attempt: u32) {
        let bound = self.pause.saturating_mul(1 << attempt.min(16)).min(self.longest_pause);
        tokio::time::sleep(Duration::from_micros(mint.below(bound.as_micros() as u64))).await;
    }
}

/// What a catalog is opened from.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The sealed registry.
    pub registry: Registry,
    /// Where heads and records live.
    pub authority: Arc<dyn ControlAuthority>,
    /// Where data lives.
    pub objects: Arc<dyn ObjectStore>,
    /// Time and randomness.
    pub environment: Arc<dyn Environment>,
    /// Recorded in every commit.
    pub actor: String,
    /// Bounds of retries.
    pub retry: RetryPolicy,
    /// The catalog's root, where it has one that other programs understand.
    pub root: Option<Url>,
    /// The data root, where heads and records are not kept there but elsewhere.
    pub data_root: Option<DataRoot>,
    /// What a memtable on one of its branches keeps in memory, where its opener says so. Nothing in core reads it.
    pub cache: Option<Limits>,
}

impl Parts {
    /// Parts with the system's clock and default bounds.
    pub fn new(registry: Registry, authority: Arc<dyn ControlAuthority>, objects: Arc<dyn ObjectStore>) -> Self {
        let environment = Arc::new(SystemEnvironment);
        let (actor, retry) = ("unknown".to_owned(), RetryPolicy::default());
        Self { registry, authority, objects, environment, actor, retry, root: None, data_root: None, cache: None }
    }
}

/// An open catalog. Cheap to clone; clones share their view of the branches and commit together.
#[derive(Clone)]
pub struct Catalog(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) parts: Parts,
    pub(crate) mint: Mint,
    pub(crate) record: CatalogRecord,
    pub(crate) store: Arc<dyn DataStore>,
    lines: Mutex<HashMap<BranchName, Arc<Line>>>,
}

impl Inner {
    pub(crate) fn authority(&self) -> &dyn ControlAuthority {
        self.parts.authority.as_ref()
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("id", &self.0.record.catalog).field("store", &self.0.record.store).finish_non_exhaustive()
    }
}

impl Catalog {
    /// Opens a catalog: 2 requests in 1 round trip (the catalog record and the head of `main`; the latter is the first snapshot of `main`, see
    /// [`Branch::snapshot_at_open`]), and beside them 1 for the locator where the control is elsewhere.
    ///
    /// Errors: `NotFound` where there is none; `FormatMismatch` where this build does not know its format; `Unsupported` where this build
    /// lacks its store; `InvalidInput` where control and data root are not of one catalog, or the data root names a control that was not given
    /// (context `control`).
    pub async fn open(parts: Parts) -> Result<Self> {
        match Self::find(&parts).await? {
            Found::Live(record, head) => Self::assemble(parts, record, Some(head)),
            Found::None | Found::Headless(_) | Found::Creating(..) => {
                Err(Error::new(ErrorKind::NotFound, "there is no catalog here; a load creates one").during("open"))
            }
        }
    }

    /// Opens a catalog, or creates an empty one with this kind of store. Idempotent; of several callers at once one creates it and the
    /// others open that one. The kind counts at creation only. 8 requests to create, 2 more where the control is elsewhere, and
    /// what the backend's probe takes. Refuses a backend that breaks its promises (`PreconditionIgnored`), and a root that holds foreign
    /// objects or is that of another catalog.
    ///
    /// Where the control is elsewhere, several callers may name several data roots. One of them becomes the catalog's, for good, and the
    /// others are refused with `InvalidInput`, which names it (context `data`); in their roots is a locator and nothing else.
    pub async fn open_or_create(parts: Parts, store: &str) -> Result<Self> {
        let (found, fit) = match Self::find(&parts).await? {
            Found::Live(record, head) => return Self::assemble(parts, record, Some(head)),
            Found::Creating(record, tag) => (Found::Creating(record, tag), creation::refuse_unfit(&parts).await),
            _ => creation::put_record(&parts, store).await?,
        };
        match (found, fit) {
            (Found::Creating(record, tag), Ok(())) => {
                let record = creation::finish(&parts, record, &tag).await?;
                Self::assemble(parts, record, None)
            }
            // Another caller has completed it meanwhile, and what is here may be the catalog's data; or not.
            (_, fit) => match (Self::find(&parts).await?, fit) {
                (Found::Live(record, head), _) => Self::assemble(parts, record, Some(head)),
                (_, Err(unfit)) => Err(unfit),
                (_, Ok(())) => {
                    Err(Error::new(ErrorKind::Unavailable, "the catalog record is gone again; try again").during("create catalog"))
                }
            },
        }
    }

    async fn find(parts: &Parts) -> Result<Found> {
        let (main, key) = (main_branch()?, catalog_key());
        let (record, head, owner) = futures::join!(parts.authority.read_record(&key), parts.authority.read_head(&main, None), owner(parts));
        let found = Found::of(parts, record?, head);
        let owner = owner?;
        let agrees = match (&found, &parts.data_root, &owner) {
            (Ok(Found::Headless(_)), ..) => false,
            (Ok(found), Some(root), Some(owner)) => found.fits(root, owner).is_ok(),
            (Ok(_), ..) => true,
            (Err(_), root, _) => root.is_none(),
        };
        if agrees {
            return found;
        }
        // They were read side by side, perhaps while another process created the catalog: it writes the record, the locator, the head, and then
        // the record again. So a locator that was read before the record has one, and a record that is live has the other two.
        let mut owner = self::owner(parts).await?;
        let record = parts.authority.read_record(&key).await?;
        let found = Found::of(parts, record, parts.authority.read_head(&main, None).await)?;
        if matches!((&found, &owner), (Found::Live(..), Some(Owner::Nobody))) {
            owner = self::owner(parts).await?;
        }
        if let (Some(root), Some(owner)) = (&parts.data_root, &owner) {
            found.fits(root, owner)?;
        }
        match found {
            Found::Headless(_) => Err(crate::branch::missing_main()),
            found => Ok(found),
        }
    }

    fn assemble(parts: Parts, record: CatalogRecord, head: Option<(Bytes, Tag)>) -> Result<Self> {
        let mint = Mint::new(parts.environment.clone());
        let store = (parts.registry.store(&record.store)?.open)(parts.objects.clone(), &mint)?;
        let catalog = Self(Arc::new(Inner { parts, mint, record, store, lines: Mutex::default() }));
        if let Some((body, tag)) = head {
            catalog.line(&main_branch()?).accept(&body, tag)?;
        }
        Ok(catalog)
    }

    /// A branch by name. No request: whether it exists shows at its first use.
    pub fn branch(&self, name: &str) -> Result<Branch> {
        Ok(Branch { line: self.line(&name.parse()?), catalog: self.0.clone() })
    }

    pub(crate) fn line(&self, branch: &BranchName) -> Arc<Line> {
        let mut lines = self.0.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.entry(branch.clone()).or_insert_with(|| Arc::new(Line::new(self.0.record.catalog, branch.clone()))).clone()
    }

    /// The catalog's identity.
    pub fn id(&self) -> CatalogId {
        self.0.record.catalog
    }

    /// The catalog record as it was read at open.
    pub fn record(&self) -> &CatalogRecord {
        &self.0.record
    }

    /// An object below the data root as other programs name it: an absolute path on local disk, a URL elsewhere.
    pub fn object_url(&self, path: &str) -> String {
        let Some(root) = &self.0.parts.root else { return path.to_owned() };
        match root.to_file_path() {
            Ok(folder) => folder.join(path).display().to_string(),
            Err(()) => format!("{}/{path}", root.as_str().trim_end_matches('/')),
        }
    }

    /// The catalog's data store.
    pub fn store(&self) -> &Arc<dyn DataStore> {
        &self.0.store
    }

    /// The registry it was opened with.
    pub fn registry(&self) -> &Registry {
        &self.0.parts.registry
    }
}

/// What there is of a catalog.
pub(crate) enum Found {
    Live(CatalogRecord, (Bytes, Tag)),
    Creating(CatalogRecord, Tag),
    /// A live catalog's record, and no head of `main` beside it: read before it was there, or gone.
    Headless(CatalogRecord),
    None,
}

impl Found {
    fn of(parts: &Parts, record: Option<(Bytes, Tag)>, head: Result<HeadRead>) -> Result<Self> {
        let Some((bytes, tag)) = record else { return Ok(Self::None) };
        let record = check_record(&bytes, parts.data_root.is_some())?;
        match (record.state, head?) {
            // Only the record says which data root is the catalog's.
            (CatalogState::Creating, _) if parts.data_root.is_some() => Ok(Self::Creating(record, tag)),
            (CatalogState::Creating, HeadRead::Absent) => Ok(Self::Creating(record, tag)),
            (CatalogState::Live, HeadRead::Absent) => Ok(Self::Headless(record)),
            (_, HeadRead::Found(body, tag)) => Ok(Self::Live(record, (body, tag))),
            (_, HeadRead::Unchanged) => {
                Err(Error::corrupt("head of branch main", "the authority answered 'unchanged' to an unconditional read"))
            }
        }
    }

    fn fits(&self, root: &DataRoot, owner: &Owner) -> Result<()> {
        match self {
            Self::Live(record, _) | Self::Creating(record, _) | Self::Headless(record) => root.check(Some(record), owner),
            Self::None => root.check(None, owner),
        }
    }
}

async fn owner(parts: &Parts) -> Result<Option<Owner>> {
    match &parts.data_root {
        Some(root) => root.owner().await.map(Some),
        None => Ok(None),
    }
}

pub(crate) fn main_branch() -> Result<BranchName> {
    MAIN.parse()
}
