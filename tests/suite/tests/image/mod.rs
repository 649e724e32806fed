//! Everything one catalog keeps, as bytes: captured once, and mounted as often as needed, with some of it replaced.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::TryStreamExt;
use headwater_core::authority::{ControlAuthority, Expected, HeadRead};
use headwater_core::head::TableHead;
use headwater_core::ids::Environment;
use headwater_core::memory::MemoryAuthority;
use headwater_core::name::{BranchName, RecordKey};
use headwater_core::{Branch, Catalog, LogEntry, Parts};
use headwater_suite::registry;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::mutation::Dice;
use headwater_suite::rows::read;

/// One stored thing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Head(BranchName),
    Record(RecordKey),
    Object(String),
}

impl Place {
    /// What is kept there.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Head(_) => "head",
            Self::Record(key) => match key.as_str().split('/').next() {
                Some("catalog") => "catalog record",
                Some("segment") => "segment",
                Some("tombstones") => "tombstone link",
                _ => "entry body",
            },
            Self::Object(path) if path.ends_with(".version.json") => "version object",
            Self::Object(_) => "data file",
        }
    }
}

/// All a catalog keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image(pub(crate) BTreeMap<Place, Bytes>);

impl Image {
    pub(crate) async fn capture(authority: &dyn ControlAuthority, objects: &dyn ObjectStore) -> Self {
        let mut image = BTreeMap::new();
        for branch in authority.list_branches().await.unwrap() {
            let HeadRead::Found(bytes, _) = authority.read_head(&branch, None).await.unwrap() else { panic!("{branch} has no head") };
            image.insert(Place::Head(branch), bytes);
        }
        for key in authority.list_records("").await.unwrap() {
            let (bytes, _) = authority.read_record(&key).await.unwrap().unwrap();
            image.insert(Place::Record(key), bytes);
        }
        for meta in objects.list(None).try_collect::<Vec<_>>().await.unwrap() {
            let bytes = objects.get(&meta.location).await.unwrap().bytes().await.unwrap();
            image.insert(Place::Object(meta.location.to_string()), bytes);
        }
        Self(image)
    }

    /// A backend in memory that holds this image, but for what `changed` has.
    pub(crate) async fn mount(&self, changed: &BTreeMap<Place, Bytes>) -> (Arc<MemoryAuthority>, Arc<InMemory>) {
        let authority = Arc::new(MemoryAuthority::new());
        let objects = self.mount_on(authority.as_ref(), changed).await;
        (authority, objects)
    }

    /// Puts the heads and records of this image, but for what `changed` has, into an empty authority, and its objects into memory.
    pub(crate) async fn mount_on(&self, authority: &dyn ControlAuthority, changed: &BTreeMap<Place, Bytes>) -> Arc<InMemory> {
        let objects = Arc::new(InMemory::new());
        for (place, bytes) in &self.0 {
            let bytes = changed.get(place).unwrap_or(bytes).clone();
            match place {
                Place::Head(branch) => drop(authority.swap_head(branch, Expected::Absent, bytes).await.unwrap()),
                Place::Record(key) => drop(authority.create_record(key, bytes).await.unwrap()),
                Place::Object(path) => drop(objects.put(&Path::from(path.as_str()), bytes.into()).await.unwrap()),
            }
        }
        objects
    }
}

/// Time and identifiers that a seed determines, so that the same seed builds the same image.
#[derive(Debug)]
pub(crate) struct Replay {
    seed: u64,
    calls: AtomicU64,
}

impl Replay {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self { seed, calls: AtomicU64::new(0) })
    }

    fn call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::SeqCst)
    }
}

impl Environment for Replay {
    fn now_ms(&self) -> u64 {
        1_700_000_000_000 + self.call()
    }

    fn random(&self) -> u128 {
        let mut dice = Dice::new(self.seed, self.call());
        (u128::from(dice.next()) << 64) | u128::from(dice.next())
    }
}

/// What a reader of one state must see: the table heads, and their rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) heads: Vec<TableHead>,
    pub(crate) rows: BTreeMap<String, Vec<(i64, i64)>>,
}

/// A catalog whose history and rows are known.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) image: Image,
    /// By seq.
    pub(crate) states: Vec<Seen>,
    /// Newest first.
    pub(crate) log: Vec<LogEntry>,
}

impl Known {
    /// Builds a catalog with `script`, and records its state after every commit.
    pub(crate) async fn build(seed: u64, script: impl AsyncFnOnce(&Branch, &mut Recorder)) -> Self {
        let (authority, objects) = (Arc::new(MemoryAuthority::new()), Arc::new(InMemory::new()));
        let mut parts = Parts::new(registry(), authority.clone(), objects.clone());
        parts.environment = Replay::new(seed);
        let branch = Catalog::open_or_create(parts, "parquet").await.unwrap().branch("main").unwrap();
        let mut recorder = Recorder(Vec::new());
        recorder.look(&branch).await;
        script(&branch, &mut recorder).await;
        let log = branch.snapshot().await.unwrap().log(usize::MAX).await.unwrap();
        assert_eq!(recorder.0.len(), log.len() + 1, "the script did not look at each of its commits");
        Self { image: Image::capture(authority.as_ref(), objects.as_ref()).await, states: recorder.0, log }
    }
}

/// The states of a catalog while it is built.
#[derive(Debug)]
pub(crate) struct Recorder(Vec<Seen>);

impl Recorder {
    pub(crate) async fn look(&mut self, branch: &Branch) {
        let snapshot = branch.snapshot().await.unwrap();
        let mut rows = BTreeMap::new();
        for head in snapshot.tables() {
            rows.insert(head.key.to_string(), read(&snapshot, head.key.as_str()).await.unwrap());
        }
        self.0.push(Seen { heads: snapshot.tables().cloned().collect(), rows });
    }
}
