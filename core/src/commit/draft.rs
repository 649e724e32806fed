//! The next head: the present one with the entries of one or more commits applied.

use tokio::sync::Mutex;

use super::apply::Applied;
use super::prepare::Request;
use crate::adapter::Plan;
use crate::branch::Branch;
use crate::error::Result;
use crate::head::{
    Body, Entry, Event, FEATURES, FORMAT, Head, HeadView, Segment, SegmentRef, StoredBody, TAIL_BYTES, TAIL_ENTRIES, push_pointer,
    segment_key,
};
use crate::ids::{CommitId, Incarnation};
use crate::json::{Sealed, encode};
use crate::name::{RecordKey, RecordKind};
use crate::records::put_unique;
use crate::tombstones;

/// Whether an entry of this size makes the tail spill first.
pub(super) fn spills(tail: &[Entry], entry_bytes: usize) -> Result<bool> {
    Ok(!tail.is_empty() && (tail.len() >= TAIL_ENTRIES || encode(&tail)?.len() + entry_bytes > TAIL_BYTES))
}

/// An upper bound of the size an entry will have, known before its objects are.
pub(super) fn estimate(request: &Request, plans: &[Plan]) -> usize {
    // Quotes and control characters are escaped, so text may take six times its bytes.
    let text = 6 * (request.actor.len() + request.message.as_ref().map_or(0, String::len));
    (600 + text + plans.len() * 1_100).min(TAIL_BYTES)
}

/// A head under construction.
pub(super) struct Draft {
    pub(super) head: Head,
    /// Commits placed in it.
    pub(super) members: usize,
}

/// Where a commit went.
pub(super) enum Placed {
    /// Into the draft.
    In(u64, CommitId),
    /// The tail is full of this swap's own commits: the commit must wait for the next swap.
    NoRoom,
}

impl Draft {
    pub(super) fn new(view: &HeadView) -> Self {
        Self { head: view.head.clone(), members: 0 }
    }

    /// Places a commit behind those already in the draft. Requests: none; 1 for a spill nobody wrote yet, a large body, a drop or recreate.
    /// An error leaves the draft as it was.
    pub(super) async fn place(&mut self, branch: &Branch, view: &HeadView, applied: &Applied) -> Result<Placed> {
        let (head, prepared) = (&mut self.head, &applied.prepared);
        let mint = &branch.catalog.mint;
        let time = mint.now_ms().max(head.time);
        let commit = CommitId(mint.ulid_at(time));
        let mut tables = head.tables.clone();
        let (mut dropped, mut recreated) = (Vec::new(), Vec::new());
        for effect in &prepared.effects {
            dropped.extend(tables.apply(&effect.event, commit, &head.branch)?);
            if let Event::Recreated { table_id, .. } = &effect.event {
                recreated.push(*table_id);
            }
        }
        let authority = branch.catalog.authority();
        let tombstones = if dropped.is_empty() && recreated.is_empty() {
            None
        } else {
            Some(tombstones::extend(authority, mint, &head.branch, &head.tombstones, dropped, recreated).await?)
        };
        let body = Body {
            events: prepared.effects.iter().map(|effect| effect.event.clone()).collect(),
            reads: prepared.reads.clone(),
            tombstones: tombstones.clone(),
        };
        let mut entry = Entry {
            seq: head.seq + 1,
            commit,
            token: prepared.request.token.clone(),
            request: prepared.digest.clone(),
            kind: prepared.adapter.kind(),
            time,
            actor: prepared.request.actor.clone(),
            message: prepared.request.message.clone(),
            epoch: head.fence.epoch,
            body: StoredBody::Inline(body),
        };
        if let (true, StoredBody::Inline(body)) = (encode(&entry)?.len() > TAIL_BYTES - 2, &entry.body) {
            let key = RecordKey::new(RecordKind::Entry, [head.branch.as_str(), &mint.name()]);
            entry.body = StoredBody::Record(put_unique(authority, key, encode(body)?).await?);
        }
        if spills(&head.tail, encode(&entry)?.len())? {
            if self.members > 0 {
                return Ok(Placed::NoRoom);
            }
            let segment = branch.line.spill.get(branch, view).await?;
            head.segments = push_pointer(&head.segments, &segment);
            head.tail.clear();
        }
        head.seq = entry.seq;
        head.commit = Some(commit);
        head.time = time;
        head.tables = tables;
        if let Some(tombstones) = tombstones {
            head.tombstones = tombstones;
        }
        head.tail.push(entry);
        self.members += 1;
        Ok(Placed::In(head.seq, commit))
    }

    /// The finished head and its bytes, unlike any other's (rule 1).
    pub(super) fn seal(mut self, branch: &Branch) -> Result<(Head, Vec<u8>)> {
        self.head.rev += 1;
        self.head.nonce = branch.catalog.mint.ulid().to_string();
        let bytes = self.head.seal()?;
        Ok((self.head, bytes))
    }
}

/// The segment written for the present tail, so that several commits of this process that find it full write it once.
#[derive(Default)]
pub(crate) struct SpillMemo(Mutex<Option<(Incarnation, u64, u64, SegmentRef)>>);

impl SpillMemo {
    /// The segment that holds the view's tail. 1 request the first time.
    pub(super) async fn get(&self, branch: &Branch, view: &HeadView) -> Result<SegmentRef> {
        let head = &view.head;
        let mut memo = self.0.lock().await;
        if let Some((incarnation, seq, gc_epoch, segment)) = &*memo
            && (*incarnation, *seq, *gc_epoch) == (head.incarnation, head.seq, head.gc_epoch)
        {
            return Ok(segment.clone());
        }
        let id = Incarnation(branch.catalog.mint.ulid());
        let number = head.segments.first().map_or(0, |last| last.number + 1);
        let segment = Segment {
            format: FORMAT,
            features: FEATURES.iter().map(ToString::to_string).collect(),
            catalog: head.catalog,
            branch: head.branch.clone(),
            incarnation: head.incarnation,
            number,
            entries: head.tail.clone(),
            segments: head.segments.clone(),
            checkpoint: head.checkpoint(),
        };
        let key = segment_key(&head.branch, head.incarnation, id);
        let record = put_unique(branch.catalog.authority(), key, encode(&segment)?).await?;
        let pointer = SegmentRef { number, last: head.seq, time: head.time, id, digest: record.digest };
        *memo = Some((head.incarnation, head.seq, head.gc_epoch, pointer.clone()));
        Ok(pointer)
    }
}
