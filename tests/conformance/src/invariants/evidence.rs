//! Evidence: everything the predicates look at, gathered once and then plain data.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use headwater_core::authority::{HeadRead, Tag};
use headwater_core::head::{Body, Entry, Head, RecordRef, Segment, SegmentRef, StoredBody, TableHead};
use headwater_core::ids::{SegmentId, Token};
use headwater_core::json::{decode, sha256};
use headwater_core::name::{BranchName, RecordKey};
use headwater_core::registry::{OpenedBackend, Registry};
use headwater_core::store::Reached;
use headwater_core::{At, Catalog, ErrorKind, Parts};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::recorder::{self, Recorder};

/// A head that was swapped in.
#[derive(Clone, Debug)]
pub struct Written {
    /// Its bytes.
    pub bytes: Bytes,
    /// The head.
    pub head: Head,
}

/// What stands under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its size in bytes.
    pub size: u64,
    /// SHA-256 (hex) of its bytes.
    pub digest: String,
}

/// A state that was read twice.
#[derive(Clone, Debug)]
pub struct View {
    /// The branch.
    pub branch: BranchName,
    /// The state's seq.
    pub seq: u64,
    /// What the first read saw.
    pub first: String,
    /// What the second saw; `None` where it said that the snapshot expired.
    pub again: Result<Option<String>, String>,
}

/// Everything the predicates look at.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Every head of each branch, in the order in which they replaced each other.
    pub history: BTreeMap<BranchName, Vec<Written>>,
    /// The bytes of each branch's head now.
    pub now: BTreeMap<BranchName, Option<Bytes>>,
    /// Heads that were looked for and not found after they had been written.
    pub absences: BTreeSet<BranchName>,
    /// The bodies that were written to each record.
    pub records: BTreeMap<RecordKey, Vec<Bytes>>,
    /// Every segment a head of the history leads to.
    pub segments: BTreeMap<SegmentId, Segment>,
    /// Bodies of entries that have a record of their own.
    pub bodies: BTreeMap<RecordKey, Body>,
    /// The tombstones of each branch now.
    pub tombstones: BTreeMap<BranchName, Vec<TableHead>>,
    /// Every control record a head leads to, and its digest as the pointer says.
    pub referenced: BTreeMap<RecordKey, String>,
    /// The control records that are there.
    pub control: BTreeMap<RecordKey, Found>,
    /// Every object that a version in any journal reaches.
    pub reached: Vec<Reached>,
    /// The objects that are there.
    pub objects: BTreeMap<String, Found>,
    /// Commits that were acknowledged.
    pub acknowledged: BTreeSet<Token>,
    /// Commits that were refused.
    pub refused: BTreeSet<Token>,
    /// States that were read twice.
    pub views: Vec<View>,
}

impl Evidence {
    /// Gathers everything. The backend's handles must be clean; panics where the place cannot be read at all.
    pub async fn gather(recorder: &Recorder, backend: &OpenedBackend, registry: &Registry) -> Self {
        Self::gather_from(recorder, Parts::new(registry.clone(), backend.authority.clone(), backend.objects.clone())).await
    }

    /// [`Evidence::gather`] of a catalog that takes more to open than its backend.
    pub async fn gather_from(recorder: &Recorder, parts: Parts) -> Self {
        let backend = &OpenedBackend { authority: parts.authority.clone(), objects: parts.objects.clone() };
        let recorded = recorder.recorded();
        let mut evidence = Self {
            absences: recorded.absences,
            records: recorded.records,
            acknowledged: recorded.acknowledged,
            refused: recorded.refused,
            ..Self::default()
        };
        let catalog = Catalog::open(parts).await.unwrap();
        for (branch, swaps) in recorded.swaps {
            let mut history = Vec::new();
            for bytes in chain(&branch, swaps) {
                let head = Head::decode(catalog.id(), &branch, &bytes).unwrap();
                history.push(Written { bytes, head });
            }
            evidence.history.insert(branch, history);
        }
        for key in backend.authority.list_records("").await.unwrap() {
            let (body, _) = backend.authority.read_record(&key).await.unwrap().unwrap();
            evidence.control.insert(key, Found { size: body.len() as u64, digest: sha256(&body) });
        }
        let branches: Vec<BranchName> = evidence.history.keys().cloned().collect();
        for branch in branches {
            evidence.branch(&branch, backend, &catalog).await;
        }
        for (branch, seq, first) in recorded.views {
            let again = match look(&catalog, &branch, seq).await {
                Err(error) if error.kind() == ErrorKind::SnapshotExpired => Ok(None),
                again => again.map(Some).map_err(|error| error.to_string()),
            };
            evidence.views.push(View { branch, seq, first, again });
        }
        evidence.data(backend, &catalog).await;
        evidence
    }

    async fn branch(&mut self, branch: &BranchName, backend: &OpenedBackend, catalog: &Catalog) {
        let now = match backend.authority.read_head(branch, None).await.unwrap() {
            HeadRead::Found(bytes, _) => Some(bytes),
            _ => None,
        };
        self.now.insert(branch.clone(), now);
        let heads: Vec<Head> = self.history[branch].iter().map(|written| written.head.clone()).collect();
        for head in &heads {
            self.records_of(&head.tail, &head.segments, head, backend).await;
        }
        let snapshot = catalog.branch(branch.as_str()).unwrap().snapshot().await.unwrap();
        self.tombstones.insert(branch.clone(), snapshot.tombstones().await.unwrap());
    }

    /// Takes in the records that entries and pointers lead to, and what those lead to.
    async fn records_of(&mut self, tail: &[Entry], pointers: &[SegmentRef], head: &Head, backend: &OpenedBackend) {
        self.bodies_of(tail, backend).await;
        let mut pending = pointers.to_vec();
        while let Some(pointer) = pending.pop() {
            let key = pointer.key(&head.branch, head.incarnation);
            if self.segments.contains_key(&pointer.id) {
                continue;
            }
            self.referenced.insert(key.clone(), pointer.digest.clone());
            let Some((body, _)) = backend.authority.read_record(&key).await.unwrap() else { continue };
            let segment: Segment = decode(key.as_str(), &body).unwrap();
            self.bodies_of(&segment.entries, backend).await;
            pending.extend(segment.segments.clone());
            self.segments.insert(pointer.id, segment);
        }
    }

    async fn bodies_of(&mut self, entries: &[Entry], backend: &OpenedBackend) {
        for entry in entries {
            if let StoredBody::Record(RecordRef { key, digest }) = &entry.body
                && self.referenced.insert(key.clone(), digest.clone()).is_none()
                && let Some((body, _)) = backend.authority.read_record(key).await.unwrap()
            {
                self.bodies.insert(key.clone(), decode(key.as_str(), &body).unwrap());
            }
            // Commits that shared a swap have a tombstone record each, and the head names the last one only.
            let tombstones = self.body(entry).ok().and_then(|body| body.tombstones.clone());
            if let Some(RecordRef { key, digest }) = tombstones.and_then(|tombstones| tombstones.record) {
                self.referenced.insert(key, digest);
            }
        }
    }

    async fn data(&mut self, backend: &OpenedBackend, catalog: &Catalog) {
        let mut pins = BTreeSet::new();
        let tails = self.history.values().flatten().flat_map(|written| &written.head.tail);
        for entry in tails.chain(self.segments.values().flat_map(|segment| &segment.entries)) {
            let events = self.body(entry).map(|body| body.events.as_slice()).unwrap_or_default();
            pins.extend(events.iter().filter_map(|event| event.pin().cloned()));
        }
        self.reached = catalog.store().reach(&pins.into_iter().collect::<Vec<_>>()).await.unwrap();
        for object in catalog.store().list().await.unwrap() {
            let bytes = backend.objects.get(&Path::from(object.path.as_str())).await.unwrap().bytes().await.unwrap();
            self.objects.insert(object.path, Found { size: bytes.len() as u64, digest: sha256(&bytes) });
        }
    }

    /// An entry's body.
    pub(super) fn body<'a>(&'a self, entry: &'a Entry) -> Result<&'a Body, String> {
        match &entry.body {
            StoredBody::Inline(body) => Ok(body),
            StoredBody::Record(pointer) => self.bodies.get(&pointer.key).ok_or_else(|| format!("the body of seq {} is missing", entry.seq)),
        }
    }

    /// The segments of a head's journal, oldest first.
    pub(super) fn segments_of(&self, head: &Head) -> Result<Vec<&Segment>, String> {
        let mut found = Vec::new();
        let mut next = head.segments.first();
        while let Some(pointer) = next {
            let segment = self.segments.get(&pointer.id).ok_or_else(|| format!("segment {} is missing", pointer.number))?;
            found.push(segment);
            next = segment.segments.first();
        }
        found.reverse();
        Ok(found)
    }

    /// A head's whole journal, oldest first.
    pub(super) fn journal<'a>(&'a self, head: &'a Head) -> Result<Vec<&'a Entry>, String> {
        let segments = self.segments_of(head)?;
        Ok(segments.into_iter().flat_map(|segment| &segment.entries).chain(&head.tail).collect())
    }

    /// The last head of each branch.
    pub(super) fn last_heads(&self) -> impl Iterator<Item = &Head> {
        self.history.values().filter_map(|history| history.last()).map(|written| &written.head)
    }

    /// Every head of each branch with the one that replaced it.
    pub(super) fn steps(&self) -> impl Iterator<Item = (&Head, &Head)> {
        self.history.values().flat_map(|history| history.windows(2).map(|pair| (&pair[0].head, &pair[1].head)))
    }
}

async fn look(catalog: &Catalog, branch: &BranchName, seq: u64) -> headwater_core::Result<String> {
    let snapshot = catalog.branch(branch.as_str())?.snapshot().await?.at(At::Seq(seq)).await?;
    recorder::digest(&snapshot).await
}

/// Puts the swaps in the order in which they replaced each other: they were recorded in the order of their answers.
fn chain(branch: &BranchName, mut swaps: Vec<(Option<Tag>, Tag, Bytes)>) -> Vec<Bytes> {
    let (mut bodies, mut at) = (Vec::new(), None);
    while !swaps.is_empty() {
        let next = swaps.iter().position(|(expected, ..)| *expected == at);
        let next = next
            .unwrap_or_else(|| panic!("no recorded swap of {branch} replaced {at:?}: a writer went past the recorder, or two swaps won"));
        let (_, tag, body) = swaps.remove(next);
        at = Some(tag);
        bodies.push(body);
    }
    bodies
}
