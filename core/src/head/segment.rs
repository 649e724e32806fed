//! Segments: immutable pieces of the journal that left the head, linked so that any of them is found in few reads.

use serde::{Deserialize, Serialize};

use super::{Entry, Heads, Tombstones};
use crate::ids::{CatalogId, Incarnation, SegmentId};
use crate::name::{BranchName, RecordKey, RecordKind};

/// Pointers per head and segment.
pub const SKIP_LEVELS: usize = 8;
/// The pointer of level i leads to the newest segment whose number divides by this to the power i.
pub const SKIP_BASE: u64 = 4;

/// A pointer to a segment. Names are unique and the digest stands in the pointer, so two writers that spill the same entries, or a writer
/// that died after the write, can never make a pointer lead to something else.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentRef {
    /// Counts the segments of the branch, from 0.
    pub number: u64,
    /// The seq of its last entry.
    pub last: u64,
    /// The time of its last entry.
    pub time: u64,
    /// Its unique name.
    pub id: SegmentId,
    /// SHA-256 (hex) of its bytes.
    pub digest: String,
}

impl SegmentRef {
    /// The segment's record.
    pub fn key(&self, branch: &BranchName, incarnation: Incarnation) -> RecordKey {
        segment_key(branch, incarnation, self.id)
    }
}

/// The record of a segment of that name.
pub(crate) fn segment_key(branch: &BranchName, incarnation: Incarnation, id: SegmentId) -> RecordKey {
    RecordKey::new(RecordKind::Segment, [branch.as_str(), &incarnation.lower(), &id.lower()])
}

/// A branch's tables at the end of a segment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The live ones.
    pub tables: Heads,
    /// The dropped ones.
    pub tombstones: Tombstones,
}

/// A spilled piece of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// The format.
    pub format: u32,
    /// Features a reader must know.
    pub features: Vec<String>,
    /// The catalog.
    pub catalog: CatalogId,
    /// The branch.
    pub branch: BranchName,
    /// The branch's life.
    pub incarnation: Incarnation,
    /// Counts the segments of the branch, from 0.
    pub number: u64,
    /// Its entries, oldest first; never empty.
    pub entries: Vec<Entry>,
    /// Pointers to older segments, as in the head that was spilled.
    pub segments: Vec<SegmentRef>,
    /// The tables at its end.
    pub checkpoint: Checkpoint,
}

/// The pointers after `new` was added to `levels`.
pub(crate) fn push_pointer(levels: &[SegmentRef], new: &SegmentRef) -> Vec<SegmentRef> {
    (0..SKIP_LEVELS as u32)
        .map(|level| match levels.get(level as usize) {
            Some(old) if !new.number.is_multiple_of(SKIP_BASE.pow(level)) => old.clone(),
            _ => new.clone(),
        })
        .collect()
}

/// The pointer to follow towards the first segment that ends at or behind the goal: the one farthest back that still does. `reaches` says
/// whether a segment ends at or behind it.
pub(crate) fn search_pointer(levels: &[SegmentRef], reaches: impl Fn(&SegmentRef) -> bool) -> Option<&SegmentRef> {
    levels.iter().filter(|pointer| reaches(pointer)).min_by_key(|pointer| pointer.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(number: u64) -> SegmentRef {
        let id = SegmentId(ulid::Ulid::from(u128::from(number)));
        SegmentRef { number, last: (number + 1) * 10, time: number, id, digest: String::new() }
    }

    /// Every segment is found, in at most 1 + 3 log4(n) reads.
    #[test]
    fn any_segment_is_found_in_logarithmic_reads() {
        let mut heads = vec![Vec::new()];
        for number in 0..5_000 {
            let next = push_pointer(heads.last().unwrap(), &pointer(number));
            assert_eq!(next.len(), SKIP_LEVELS);
            heads.push(next);
        }
        let newest = heads.len() - 1;
        let mut worst = 0;
        for goal in 0..newest as u64 {
            let (mut at, mut reads) = (newest as u64, 0);
            while at != goal {
                at = search_pointer(&heads[at as usize], |pointer| pointer.number >= goal).unwrap().number;
                reads += 1;
            }
            worst = worst.max(reads);
        }
        let bound = 1.0 + 3.0 * (newest as f64).log(4.0).ceil();
        assert!(f64::from(worst) <= bound, "{worst} reads, bound {bound}");
    }
}
