//! The next head: the present one with the entries of one or more commits applied.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};

use super::apply::Applied;
use super::prepare::Request;
use super::publish::runtime;
use crate::adapter::Plan;
use crate::branch::Branch;
use crate::error::{Error, ErrorKind, Result};
use crate::head::{
    Body, Entry, Event, FEATURES, FORMAT, Head, HeadView, Segment, SegmentRef, StoredBody, TAIL_BYTES, TAIL_ENTRIES, push_pointer,
    segment_key,
};
use crate::ids::{CommitId, Incarnation, SegmentId};
use crate::json::{Sealed, encode};
use crate::name::{RecordKey, RecordKind};
use crate::records::put_unique;
use crate::tombstones;
use crate::transaction::Observed;

/// Whether an entry of this size makes the tail spill first.
pub(super) fn spills(tail: &[Entry], entry_bytes: usize) -> Result<bool> {
    Ok(!tail.is_empty() && (tail.len() >= TAIL_ENTRIES || encode(&tail)?.len() + entry_bytes > TAIL_BYTES))
}

/// An upper bound of the size an entry will have, known before its objects are, and only a few bytes above it.
pub(super) fn estimate(request: &Request, plans: &[Plan], observed: &Observed) -> Result<usize> {
    /// Identifiers, token, digests and field names of an entry with no event.
    const ENTRY: usize = 480;
    /// An event with its pin, and the read-set token of its table.
    const EVENT: usize = 560;
    /// A read-set token.
    const READ: usize = 64;
    let text = encode(&(&request.actor, &request.message))?.len();
    let names: usize = encode(&observed.absent)?.len() + plans.iter().map(|plan| 2 * plan.key().as_str().len()).sum::<usize>();
    Ok((ENTRY + text + names + plans.len() * EVENT + observed.tables.len() * READ).min(TAIL_BYTES))
}

/// A head under construction.
pub(super) struct Draft {
    pub(super) head: Head,
    /// Commits placed in it.
    pub(super) members: usize,
    /// A commit found no room in it.
    pub(super) full: bool,
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
        Self { head: view.head.clone(), members: 0, full: false }
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
        // A segment that was written early is used, even where the entry turned out to fit.
        let early = self.members == 0 && branch.line.spill.is_ready(&view.head);
        if early || spills(&head.tail, encode(&entry)?.len())? {
            if self.members > 0 {
                self.full = true;
                return Ok(Placed::NoRoom);
            }
            let segment = branch.line.spill.get(branch, &view.head).await?;
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

/// What a segment was written for: the journal up to a commit, and the vacuum number its writer had seen.
type SpillKey = (Incarnation, Option<CommitId>, u64);
pub(super) type Spill = Shared<BoxFuture<'static, Result<SegmentRef, Arc<Error>>>>;

/// The segment written for the present tail, so that several commits of this process that find it full write it once.
#[derive(Default)]
pub(crate) struct SpillMemo(Mutex<Option<(SpillKey, Spill)>>);

impl SpillMemo {
    fn lock(&self) -> MutexGuard<'_, Option<(SpillKey, Spill)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(head: &Head) -> SpillKey {
        (head.incarnation, head.commit, head.gc_epoch)
    }

    /// Whether the segment of the head's tail is written.
    fn is_ready(&self, head: &Head) -> bool {
        self.lock().as_ref().is_some_and(|(key, spill)| *key == Self::key(head) && matches!(spill.peek(), Some(Ok(_))))
    }

    /// The segment that holds the head's tail. 1 request the first time.
    pub(super) async fn get(&self, branch: &Branch, head: &Head) -> Result<SegmentRef> {
        self.begin(branch, head)?.await.map_err(|error| error.duplicate())
    }

    /// Begins to write the segment that holds the head's tail, which need not be published yet. It is written in a task of its own: whoever
    /// waits for it does not depend on the first caller's going on.
    pub(super) fn begin(&self, branch: &Branch, head: &Head) -> Result<Spill> {
        let key = Self::key(head);
        let mut memo = self.lock();
        if let Some((known, spill)) = &*memo
            && *known == key
            && !matches!(spill.peek(), Some(Err(_)))
        {
            return Ok(spill.clone());
        }
        let (branch, head) = (branch.clone(), head.clone());
        let task = runtime()?.spawn(async move {
            let written = write_segment(&branch, head).await;
            // Whoever comes later tries again, and does not inherit a failure nobody waited for.
            if written.is_err() {
                branch.line.spill.lock().take_if(|(known, _)| *known == key);
            }
            written
        });
        let ended = |error| Error::new(ErrorKind::Unavailable, "the task that writes a journal segment ended").because(error);
        let spill = async move { task.await.map_err(ended).flatten().map_err(Arc::new) }.boxed().shared();
        *memo = Some((key, spill.clone()));
        Ok(spill)
    }
}

async fn write_segment(branch: &Branch, head: Head) -> Result<SegmentRef> {
    let id = SegmentId(branch.catalog.mint.ulid());
    let number = head.segments.first().map_or(0, |last| last.number + 1);
    let checkpoint = head.checkpoint();
    let key = segment_key(&head.branch, head.incarnation, id);
    let segment = Segment {
        format: FORMAT,
        features: FEATURES.iter().map(ToString::to_string).collect(),
        catalog: head.catalog,
        branch: head.branch,
        incarnation: head.incarnation,
        number,
        entries: head.tail,
        segments: head.segments,
        checkpoint,
    };
    let record = put_unique(branch.catalog.authority(), key, encode(&segment)?).await?;
    let pointer = SegmentRef { number, last: head.seq, time: head.time, id, digest: record.digest };
    branch.line.segments.put(pointer.clone(), Arc::new(segment), 1);
    Ok(pointer)
}
