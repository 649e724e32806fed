//! The journal behind the head: finding an entry, a state, a token, in few reads. The hot path never comes here.

use std::sync::Arc;

use crate::authority::ControlAuthority;
use crate::cache::Cache;
use crate::error::{Error, ErrorKind, Result};
use crate::head::{
    Body, Checkpoint, Entry, Head, Heads, RecordRef, Segment, SegmentRef, StoredBody, Tombstones, check_format, search_pointer,
};
use crate::ids::{CommitId, Token};
use crate::json::{decode, sha256};
use crate::snapshot::{At, LogEntry, Past};

/// Segments in memory, by exactly the pointer that leads to them; each weighs 1.
pub(crate) type Segments = Cache<SegmentRef, Arc<Segment>>;

/// A branch's journal as of one head.
pub(crate) struct History<'a> {
    authority: &'a dyn ControlAuthority,
    head: &'a Head,
}

/// The piece of the journal that holds an entry: the head's tail, or a segment.
pub(crate) enum Piece<'a> {
    Tail(&'a Head),
    Segment(Box<Segment>),
}

impl Piece<'_> {
    pub(crate) fn entries(&self) -> &[Entry] {
        match self {
            Self::Tail(head) => &head.tail,
            Self::Segment(segment) => &segment.entries,
        }
    }

    /// The pointers to older segments.
    pub(crate) fn older(&self) -> &[SegmentRef] {
        match self {
            Self::Tail(head) => &head.segments,
            Self::Segment(segment) => &segment.segments,
        }
    }
}

impl<'a> History<'a> {
    pub(crate) fn new(authority: &'a dyn ControlAuthority, head: &'a Head) -> Self {
        Self { authority, head }
    }

    /// Reads a segment and checks it against its pointer. 1 request.
    pub(crate) async fn segment(&self, pointer: &SegmentRef) -> Result<Segment> {
        let key = pointer.key(&self.head.branch, self.head.incarnation);
        let Some((body, _)) = self.authority.read_record(&key).await? else {
            return Err(Error::corrupt(&key, "the journal segment is missing; nothing but Headwater may remove objects here"));
        };
        if sha256(&body) != pointer.digest {
            return Err(Error::corrupt(&key, "the journal segment's digest does not match its pointer; it was changed or damaged"));
        }
        check_format(key.as_str(), &body)?;
        let segment: Segment = decode(key.as_str(), &body)?;
        let first = segment.segments.first().map_or(0, |older| older.last).saturating_add(1);
        let contiguous = segment.entries.iter().zip(first..).all(|(entry, seq)| entry.seq == seq);
        let last = segment.entries.last().map(|entry| (entry.seq, entry.time));
        // Pointers lead back, so every walk ends.
        let back = segment.segments.iter().all(|older| older.number < pointer.number && older.last < pointer.last);
        let ours =
            segment.catalog == self.head.catalog && segment.branch == self.head.branch && segment.incarnation == self.head.incarnation;
        if !ours || !back || segment.number != pointer.number || !contiguous || last != Some((pointer.last, pointer.time)) {
            return Err(Error::corrupt(&key, "the journal segment is not the one its pointer names"));
        }
        Ok(segment)
    }

    /// The piece that ends at or behind the goal, and the first such. O(log n) requests.
    async fn find(&self, reaches: impl Fn(u64, u64) -> bool) -> Result<Piece<'a>> {
        let mut piece = Piece::Tail(self.head);
        while let Some(pointer) = search_pointer(piece.older(), |pointer| reaches(pointer.last, pointer.time)) {
            let segment = self.segment(pointer).await?;
            piece = Piece::Segment(Box::new(segment));
        }
        Ok(piece)
    }

    /// The piece that holds an entry, or comes right behind seq 0. The seq must not be above the head's.
    async fn piece_of(&self, seq: u64) -> Result<Piece<'a>> {
        self.find(|last, _| last >= seq).await
    }

    /// The state at a point. O(log n) requests. `None` where the point is the head itself.
    pub(crate) async fn state_at(&self, at: At) -> Result<Option<Past>> {
        match at {
            At::Seq(seq) if seq == self.head.seq => Ok(None),
            At::Commit(commit) if Some(commit) == self.head.commit => Ok(None),
            At::Time(time) if time >= self.head.time => Ok(None),
            At::Seq(seq) if seq > self.head.seq => {
                let problem = format!("branch {} has {} commits, there is no seq {seq}", self.head.branch, self.head.seq);
                Err(Error::new(ErrorKind::NotFound, problem))
            }
            At::Seq(seq) => self.state(seq, self.piece_of(seq).await?).await.map(Some),
            At::Commit(commit) => match self.find_commit(commit).await? {
                Some((seq, piece)) => self.state(seq, piece).await.map(Some),
                None => Err(Error::new(ErrorKind::NotFound, format!("branch {} has no commit {commit}", self.head.branch))),
            },
            At::Time(time) => {
                let piece = self.find(|_, last| last > time).await?;
                match piece.entries().iter().find(|entry| entry.time > time) {
                    Some(next) => self.state(next.seq - 1, piece).await.map(Some),
                    None => Err(Error::corrupt(&self.head.branch, "the journal's times are out of order")),
                }
            }
        }
    }

    /// The state after `seq` commits, from the piece that holds that entry, or the one right behind it. At most 1 request.
    async fn state(&self, seq: u64, piece: Piece<'_>) -> Result<Past> {
        if seq < self.head.floor {
            let floor = self.head.floor;
            return Err(Error::new(ErrorKind::SnapshotExpired, format!("seq {seq} is below the retention floor {floor}")));
        }
        let empty = Checkpoint { tables: Heads::default(), tombstones: Tombstones::default() };
        let mut past = Past { seq, commit: None, time: 0, state: empty };
        if let Some(before) = piece.older().first().filter(|before| before.last <= seq) {
            let segment = self.segment(before).await?;
            past.commit = segment.entries.last().map(|entry| entry.commit);
            past.time = before.time;
            past.state = segment.checkpoint;
        }
        for entry in piece.entries().iter().filter(|entry| entry.seq <= seq) {
            let body = self.body(entry).await?;
            self.apply(&mut past.state, entry, &body)?;
            (past.commit, past.time) = (Some(entry.commit), entry.time);
        }
        Ok(past)
    }

    /// Applies one entry to the state before it.
    pub(crate) fn apply(&self, state: &mut Checkpoint, entry: &Entry, body: &Body) -> Result<()> {
        for event in &body.events {
            state.tables.apply(event, entry.commit, &self.head.branch)?;
        }
        if let Some(tombstones) = &body.tombstones {
            state.tombstones = tombstones.clone();
        }
        Ok(())
    }

    /// An entry's body. 1 request where it has a record of its own.
    pub(crate) async fn body(&self, entry: &Entry) -> Result<Body> {
        match &entry.body {
            StoredBody::Inline(body) => Ok(body.clone()),
            StoredBody::Record(pointer) => self.record(pointer).await,
        }
    }

    async fn record(&self, pointer: &RecordRef) -> Result<Body> {
        crate::records::read_ref(self.authority, pointer).await
    }

    /// The seq of a commit, and the piece it is in. Commits are dated, so the place is searched by time.
    async fn find_commit(&self, commit: CommitId) -> Result<Option<(u64, Piece<'a>)>> {
        let time = commit.0.timestamp_ms();
        if time > self.head.time {
            return Ok(None);
        }
        let mut piece = self.find(|_, last| last >= time).await?;
        loop {
            if let Some(seq) = piece.entries().iter().find(|entry| entry.commit == commit).map(|entry| entry.seq) {
                return Ok(Some((seq, piece)));
            }
            // Several commits may share a millisecond, across the end of a segment.
            match piece.entries().last() {
                Some(last) if last.time == time && last.seq < self.head.seq => piece = self.find(|end, _| end > last.seq).await?,
                _ => return Ok(None),
            }
        }
    }

    /// The seq of a commit a head names. None or O(log n) requests.
    pub(crate) async fn seq_of(&self, commit: CommitId) -> Result<u64> {
        let tail = self.head.tail.iter().find(|entry| entry.commit == commit).map(|entry| entry.seq);
        match tail {
            Some(seq) => Ok(seq),
            None => match self.find_commit(commit).await? {
                Some((seq, _)) => Ok(seq),
                None => Err(Error::corrupt(&self.head.branch, format!("the journal has no commit {commit}, which a table's head names"))),
            },
        }
    }

    /// Up to `limit` entries before `seq`, newest first.
    pub(crate) async fn log(&self, seq: u64, limit: usize) -> Result<Vec<LogEntry>> {
        let mut found = Vec::new();
        if seq <= 1 || limit == 0 {
            return Ok(found);
        }
        let mut piece = self.piece_of(seq - 1).await?;
        loop {
            for entry in piece.entries().iter().rev().filter(|entry| entry.seq < seq && entry.seq >= self.head.floor) {
                if found.len() == limit {
                    return Ok(found);
                }
                found.push(LogEntry { entry: entry.clone(), body: self.body(entry).await? });
            }
            match piece.older().first() {
                Some(older) if found.len() < limit && older.last >= self.head.floor => {
                    piece = Piece::Segment(Box::new(self.segment(older).await?))
                }
                _ => return Ok(found),
            }
        }
    }

    /// The entry of a token among those after `since`. No request while the tail reaches back that far; then one for each segment that is
    /// not `known`.
    pub(crate) async fn find_token(&self, token: &Token, since: u64, known: &Segments) -> Result<Option<Entry>> {
        if let Some(entry) = self.head.tail.iter().find(|entry| entry.seq > since && entry.token == *token) {
            return Ok(Some(entry.clone()));
        }
        let mut next = self.head.segments.first().cloned();
        while let Some(pointer) = next.filter(|pointer| pointer.last > since) {
            if pointer.last < self.head.floor {
                let expired = "the history in which this token may stand was pruned; look whether the rows are there";
                return Err(Error::new(ErrorKind::TokenExpired, expired).with_token(token.clone()));
            }
            let segment = match known.get(&pointer) {
                Some(segment) => segment,
                None => {
                    let segment = Arc::new(self.segment(&pointer).await?);
                    known.put(pointer, segment.clone(), 1);
                    segment
                }
            };
            if let Some(entry) = segment.entries.iter().find(|entry| entry.seq > since && entry.token == *token) {
                return Ok(Some(entry.clone()));
            }
            next = segment.segments.first().cloned();
        }
        Ok(None)
    }
}
