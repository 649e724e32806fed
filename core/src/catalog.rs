//! A catalog: one root, one identity, one kind of store. Opening, and creating where asked.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use object_store::ObjectStore;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::authority::{ControlAuthority, Create, Expected, Finding, HeadRead, Severity, Swap, Tag};
use crate::branch::{Branch, Line};
use crate::error::{Error, ErrorKind, Result};
use crate::head::{FORMAT, Head};
use crate::ids::{CatalogId, Environment, Incarnation, Mint, SystemEnvironment};
use crate::json::Sealed;
use crate::limits::Limits;
use crate::locator::{DATA_ELSEWHERE, DataRoot, Owner, check_record};
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
            Found::None | Found::Creating(..) => {
                Err(Error::new(ErrorKind::NotFound, "there is no catalog here; a load creates one").during("open"))
            }
        }
    }

    /// Opens a catalog, or creates an empty one with this kind of store. Idempotent; of several callers at once one creates it and the
    /// others open that one. The kind counts at creation only. 8 requests to create, 2 more where the control is elsewhere, and
    /// what the backend's probe takes. Refuses a backend that breaks its promises (`PreconditionIgnored`), and a root that holds foreign
    /// objects or is that of another catalog.
    pub async fn open_or_create(parts: Parts, store: &str) -> Result<Self> {
        let (record, tag) = match Self::find(&parts).await? {
            Found::Live(record, head) => return Self::assemble(parts, record, Some(head)),
            Found::Creating(record, tag) => (record, tag),
            Found::None => Self::put_record(&parts, store).await?,
        };
        if record.state == CatalogState::Creating {
            Self::finish_creation(&parts, record.clone(), &tag).await?;
        }
        Self::assemble(parts, record, None)
    }

    async fn find(parts: &Parts) -> Result<Found> {
        let (main, key) = (main_branch()?, catalog_key());
        let (record, head, owner) = futures::join!(parts.authority.read_record(&key), parts.authority.read_head(&main, None), owner(parts));
        let found = Found::of(parts, record?, head);
        let (Some(root), Some(owner)) = (&parts.data_root, owner?) else { return found };
        if let Ok(found) = found
            && found.fits(root, &owner).is_ok()
        {
            return Ok(found);
        }
        // They were read side by side, perhaps while another process created the catalog: the record comes before the locator, and that
        // before the head.
        let owner = root.owner().await?;
        let record = parts.authority.read_record(&key).await?;
        let found = Found::of(parts, record, parts.authority.read_head(&main, None).await)?;
        found.fits(root, &owner)?;
        Ok(found)
    }

    async fn put_record(parts: &Parts, store: &str) -> Result<(CatalogRecord, Tag)> {
        parts.registry.store(store)?;
        let foreign = refuse_foreign(parts).await;
        if foreign.is_ok() {
            refuse_broken(parts).await?;
            let mint = Mint::new(parts.environment.clone());
            let mut record = CatalogRecord {
                format: FORMAT,
                features: parts.data_root.iter().map(|_| DATA_ELSEWHERE.to_owned()).collect(),
                catalog: CatalogId(mint.ulid()),
                store: store.to_owned(),
                created: mint.now_ms(),
                vacuum: 0,
                state: CatalogState::Creating,
                digest: String::new(),
            };
            if let Create::Unknown(cause) = parts.authority.create_record(&catalog_key(), record.seal()?.into()).await? {
                tracing::debug!(%cause, "the catalog record's create is uncertain");
            }
        }
        // Whatever the answer, the record that is there now is the catalog: ours, or that of a caller who came first, whose branch and data
        // are then not foreign.
        match (parts.authority.read_record(&catalog_key()).await?, foreign) {
            (Some((bytes, tag)), _) => Ok((check_record(&bytes, parts.data_root.is_some())?, tag)),
            (None, Err(foreign)) => Err(foreign),
            (None, Ok(())) => Err(Error::new(ErrorKind::Unavailable, "the catalog record could not be written").during("create catalog")),
        }
    }

    async fn finish_creation(parts: &Parts, mut record: CatalogRecord, tag: &Tag) -> Result<()> {
        let (mint, main) = (Mint::new(parts.environment.clone()), main_branch()?);
        if let Some(root) = &parts.data_root {
            root.claim(&record).await?;
        }
        let mut head = Head::new(record.catalog, main.clone(), Incarnation(mint.ulid()));
        head.rev = 1;
        head.nonce = mint.ulid().to_string();
        let swap = parts.authority.swap_head(&main, Expected::Absent, head.seal()?.into()).await?;
        // Unless this very swap made the head, it must be seen, and so be durable, before the record says that it is there.
        if !matches!(swap, Swap::Swapped(_)) && matches!(parts.authority.read_head(&main, None).await?, HeadRead::Absent) {
            return Err(Error::new(ErrorKind::Unavailable, "the head of main could not be written; try again").during("create catalog"));
        }
        // Whoever comes next repeats this where it was lost.
        record.state = CatalogState::Live;
        parts.authority.swap_record(&catalog_key(), tag, record.seal()?.into()).await?;
        Ok(())
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
enum Found {
    Live(CatalogRecord, (Bytes, Tag)),
    Creating(CatalogRecord, Tag),
    None,
}

impl Found {
    fn of(parts: &Parts, record: Option<(Bytes, Tag)>, head: Result<HeadRead>) -> Result<Self> {
        let Some((bytes, tag)) = record else { return Ok(Self::None) };
        let record = check_record(&bytes, parts.data_root.is_some())?;
        match (record.state, head?) {
            (CatalogState::Creating, HeadRead::Absent) => Ok(Self::Creating(record, tag)),
            (CatalogState::Live, HeadRead::Absent) => Err(crate::branch::missing_main()),
            (_, HeadRead::Found(body, tag)) => Ok(Self::Live(record, (body, tag))),
            (_, HeadRead::Unchanged) => {
                Err(Error::corrupt("head of branch main", "the authority answered 'unchanged' to an unconditional read"))
            }
        }
    }

    fn fits(&self, root: &DataRoot, owner: &Owner) -> Result<()> {
        match self {
            Self::Live(record, _) => root.check(Some(record), true, owner),
            Self::Creating(record, _) => root.check(Some(record), false, owner),
            Self::None => root.check(None, false, owner),
        }
    }
}

async fn owner(parts: &Parts) -> Result<Option<Owner>> {
    match &parts.data_root {
        Some(root) => root.owner().await.map(Some),
        None => Ok(None),
    }
}

fn main_branch() -> Result<BranchName> {
    MAIN.parse()
}

/// A backend that breaks its promises would lose commits, and nobody would notice.
async fn refuse_broken(parts: &Parts) -> Result<()> {
    let mut findings = parts.authority.probe().await.map_err(|error| error.during("create catalog"))?;
    if let Some(root) = &parts.data_root {
        findings.extend(root.authority.probe().await.map_err(|error| error.during("create catalog"))?);
    }
    match findings.into_iter().find(|finding| finding.severity == Severity::Broken) {
        None => Ok(()),
        Some(Finding { subject, message, .. }) => {
            let problem = format!("the backend breaks a promise that commits stand on: {subject}: {message}; use another store");
            Err(Error::new(ErrorKind::PreconditionIgnored, problem).during("create catalog"))
        }
    }
}

/// Objects of others under the root would be taken for ours by a later vacuum.
async fn refuse_foreign(parts: &Parts) -> Result<()> {
    if let Some(branch) = parts.authority.list_branches().await?.first() {
        return Err(Error::corrupt(
            "catalog record",
            format!("the branch {branch} is here and the catalog record is missing; restore the object"),
        ));
    }
    let listed = match parts.objects.list_with_delimiter(None).await {
        Ok(listed) => listed,
        Err(object_store::Error::NotFound { .. }) => return Ok(()),
        Err(error) => return Err(Error::from(error).during("create catalog")),
    };
    let names = listed.common_prefixes.iter().chain(listed.objects.iter().map(|object| &object.location));
    match names.filter_map(|path| path.parts().next()).find(|part| part.as_ref() != "_headwater") {
        None => Ok(()),
        Some(part) => {
            Err(Error::invalid(format!("{:?} is here already and is not part of a catalog; choose an empty place", part.as_ref())))
        }
    }
}
