//! The head: a branch's whole current state and the tail of its journal, in one object behind one compare-and-swap. Format 5.

mod entry;
mod heads;
mod segment;
mod table;
mod transition;

pub use entry::{Body, Entry, Event, Reads, StoredBody};
pub use heads::Heads;
pub use segment::{Checkpoint, SKIP_BASE, SKIP_LEVELS, Segment, SegmentRef};
pub(crate) use segment::{push_pointer, search_pointer, segment_key};
pub use table::{HeadToken, TableHead, TableState, Tombstones};

use serde::{Deserialize, Serialize};

use crate::authority::Tag;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{CatalogId, CommitId, Incarnation, TableId};
use crate::json::{EXACT, Sealed};
use crate::name::{BranchName, RecordKey};

/// The format this build reads and writes.
pub const FORMAT: u32 = 5;
/// Required features this build knows. A head or catalog that names another is refused, never half understood.
pub const FEATURES: &[&str] = &[];
/// The journal tail spills into a segment when an entry would make it longer than this.
pub const TAIL_ENTRIES: usize = 32;
/// The journal tail spills into a segment when an entry would make it larger than this. An entry that is larger by itself keeps its body in a record.
pub const TAIL_BYTES: usize = 32 * 1024;
/// Live tables of one branch in this build: their heads stand inline.
pub const INLINE_TABLES: usize = 256;
/// Intents in flight on one branch.
pub const MAX_INTENTS: usize = 64;

/// A pointer to a record that never changes: its digest is checked at every read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordRef {
    /// The record.
    pub key: RecordKey,
    /// SHA-256 (hex) of its bytes.
    pub digest: String,
}

/// What a branch is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BranchState {
    /// Being forked; not readable yet.
    Creating,
    /// Readable and writable.
    Live,
    /// Readable; the holder of this claim alone writes.
    Frozen {
        /// The claim.
        claim: String,
    },
    /// Gone, but its name keeps its history.
    Deleted,
}

/// Who may write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fence {
    /// Shared by all writers, or held by one.
    pub mode: FenceMode,
    /// Counts the times the fence was acquired.
    pub epoch: u64,
    /// Who holds it.
    pub holder: Option<String>,
}

/// The mode of a [`Fence`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FenceMode {
    /// Any writer may publish.
    Shared,
    /// Only the holder of the current epoch may.
    Fenced,
}

/// Unfinished work whose effects others can see before it is published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// Single-use.
    pub id: String,
    /// Its record.
    pub record: RecordRef,
    /// The tables no other entry may touch meanwhile.
    pub tables: Vec<TableId>,
    /// Who may go on with it.
    pub owner: String,
}

/// The head object. docs/format.md describes every field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// [`FORMAT`].
    pub format: u32,
    /// Features a reader must know.
    pub features: Vec<String>,
    /// The catalog this head belongs to.
    pub catalog: CatalogId,
    /// The branch.
    pub branch: BranchName,
    /// Its present life.
    pub incarnation: Incarnation,
    /// What it is.
    pub state: BranchState,
    /// Commits so far.
    pub seq: u64,
    /// Swaps so far.
    pub rev: u64,
    /// The last commit.
    pub commit: Option<CommitId>,
    /// The last commit's time, ms since 1970. Never goes back.
    pub time: u64,
    /// Who may write.
    pub fence: Fence,
    /// The live tables, their count, digest and schema identity.
    pub tables: Heads,
    /// The dropped tables.
    pub tombstones: Tombstones,
    /// Unfinished work.
    pub intents: Vec<Intent>,
    /// The newest journal entries, oldest first.
    pub tail: Vec<Entry>,
    /// Pointers to older ones: empty before the first spill, then one per level (see [`SegmentRef`]).
    pub segments: Vec<SegmentRef>,
    /// The vacuum number this branch has seen.
    pub gc_epoch: u64,
    /// The oldest seq that can still be read.
    pub floor: u64,
    /// Different in every swap, so that no two heads have equal bytes (rule 1).
    pub nonce: String,
    /// Digest over all of the above.
    pub digest: String,
}

impl Sealed for Head {
    fn digest_mut(&mut self) -> &mut String {
        &mut self.digest
    }
}

impl Head {
    /// The head of a new, empty branch.
    pub fn new(catalog: CatalogId, branch: BranchName, incarnation: Incarnation) -> Self {
        Self {
            format: FORMAT,
            features: Vec::new(),
            catalog,
            branch,
            incarnation,
            state: BranchState::Live,
            seq: 0,
            rev: 0,
            commit: None,
            time: 0,
            fence: Fence { mode: FenceMode::Shared, epoch: 0, holder: None },
            tables: Heads::default(),
            tombstones: Tombstones::default(),
            intents: Vec::new(),
            tail: Vec::new(),
            segments: Vec::new(),
            gc_epoch: 0,
            floor: 0,
            nonce: String::new(),
            digest: String::new(),
        }
    }

    /// Reads a head and checks everything that can be checked in it alone: format, digest, count, digest and schema identity of the live
    /// tables, contiguity of the journal. Damage is an error; nothing is ever rebuilt from history here.
    pub fn decode(catalog: CatalogId, branch: &BranchName, bytes: &[u8]) -> Result<Self> {
        let object = format!("head of branch {branch}");
        check_format(&object, bytes)?;
        let head = Self::open(&object, bytes)?;
        head.check(catalog, branch).map_err(|problem| Error::corrupt(object, problem))?;
        Ok(head)
    }

    fn check(&self, catalog: CatalogId, branch: &BranchName) -> Result<(), String> {
        let require = |holds: bool, problem: &str| if holds { Ok(()) } else { Err(problem.to_owned()) };
        require(self.catalog == catalog, "the head belongs to another catalog")?;
        require(self.branch == *branch, "the head belongs to another branch")?;
        require(self.intents.len() <= MAX_INTENTS, "the head has too many intents")?;
        let counters = [self.seq, self.rev, self.time, self.fence.epoch, self.gc_epoch, self.tombstones.count];
        let pointers = self.segments.iter().flat_map(|pointer| [pointer.number, pointer.last, pointer.time]);
        require(counters.into_iter().chain(pointers).all(|count| count <= EXACT), "the head has a number beyond 2^53")?;
        require(self.floor <= self.seq, "the retention floor is above the last commit")?;
        require(self.segments.is_empty() || self.segments.len() == SKIP_LEVELS, "the head has a wrong number of segment pointers")?;
        let spilled = self.segments.first().map_or(0, |segment| segment.last);
        require(
            spilled.checked_add(self.tail.len() as u64) == Some(self.seq),
            "the journal tail does not reach from the last segment to the last commit",
        )?;
        require(self.tail.iter().zip(spilled + 1..).all(|(entry, seq)| entry.seq == seq), "the journal tail has a gap")?;
        require(self.tail.is_sorted_by_key(|entry| entry.time), "the journal tail's times go back")?;
        match self.tail.last() {
            Some(last) => {
                require(self.commit == Some(last.commit) && self.time == last.time, "the head's last commit is not the tail's last entry")
            }
            None => require(self.seq == 0 && self.commit.is_none(), "the head has commits and no journal tail"),
        }
    }

    /// The checkpoint at the end of the tail.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { tables: self.tables.clone(), tombstones: self.tombstones.clone() }
    }
}

/// A head as it was read: with the tag a swap must expect.
#[derive(Clone, Debug)]
pub struct HeadView {
    /// The head.
    pub head: Head,
    /// Its tag.
    pub tag: Tag,
    /// Its size on the wire.
    pub bytes: usize,
}

/// Refuses a format or feature this build does not know, before anything else of the object is looked at.
pub fn check_format(object: &str, bytes: &[u8]) -> Result<()> {
    check_features(object, bytes, &[])
}

/// [`check_format`] of an object that may need these features besides.
pub(crate) fn check_features(object: &str, bytes: &[u8], besides: &[&str]) -> Result<()> {
    #[derive(Deserialize)]
    struct Probe {
        format: u32,
        features: Vec<String>,
    }
    let probe: Probe = crate::json::decode(object, bytes)?;
    let mismatch = |what: String| Err(Error::new(ErrorKind::FormatMismatch, what).at("object", object));
    if probe.format != FORMAT {
        return mismatch(format!(
            "the catalog has format {}, this build reads format {FORMAT}; use the build that wrote it, or migrate",
            probe.format
        ));
    }
    match probe.features.iter().find(|feature| !FEATURES.iter().chain(besides).any(|known| known == feature)) {
        Some(feature) => mismatch(format!("the catalog needs the feature {feature:?}, which this build does not have; use a newer build")),
        None => Ok(()),
    }
}
