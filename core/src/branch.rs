//! A branch: reading its head, and the state its handles share.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::authority::{HeadRead, Tag};
use crate::catalog::{Inner, MAIN};
use crate::commit::{self, Commit, Queue, SpillMemo, TransactOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::head::{BranchState, Head, HeadView};
use crate::history::Segments;
use crate::ids::CatalogId;
use crate::limits::Limits;
use crate::name::BranchName;
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;

/// A named line of commits. Cheap to clone.
#[derive(Clone)]
pub struct Branch {
    pub(crate) catalog: Arc<Inner>,
    pub(crate) line: Arc<Line>,
}

impl fmt::Debug for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Branch").field("name", &self.line.branch).finish_non_exhaustive()
    }
}

impl Branch {
    /// The branch's name.
    pub fn name(&self) -> &BranchName {
        &self.line.branch
    }

    /// What a memtable on this branch may keep in memory, where the catalog was opened with that.
    pub fn cache(&self) -> Option<Limits> {
        self.catalog.parts.cache
    }

    /// What is current: an immutable view of the whole branch, as of some moment between the call and its return. 1 request, whose size is
    /// bounded by the number of tables; no body is transferred when nothing changed since this process last looked.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        let view = self.line.read(&self.catalog).await.map_err(|error| error.during("snapshot"))?;
        Ok(Snapshot::current(self.catalog.clone(), view))
    }

    /// The view this process has: of the catalog's opening (of `main`), or of the last commit or snapshot, whichever is newer. No request,
    /// and so possibly behind; reads the head where there is no view yet.
    pub async fn snapshot_at_open(&self) -> Result<Snapshot> {
        match self.line.known() {
            Some(view) => Ok(Snapshot::current(self.catalog.clone(), view)),
            None => self.snapshot().await,
        }
    }

    /// Commits what the closure asks for, atomically: everything of it becomes visible in one swap, or nothing.
    ///
    /// The closure runs on an immutable base and may run again, on a newer one, when a value it read changed; it must have no other effects.
    /// Its result is published only against exactly the state it was computed from.
    ///
    /// Cost (warm, Parquet, appends to k tables): 2k + 1 requests in 2 round trips; one more request when the journal's tail spills; two more
    /// for each swap lost to a writer of other tables.
    ///
    /// Errors: whatever the closure returns; `Conflict` or `ReadSetChanged` when others kept winning; `PublishUnknown` with the token when the
    /// outcome could not be learned. Except for the latter, an error means that nothing was published.
    ///
    /// Cancellation: dropping the future while the closure runs or its objects are staged abandons the commit. Once it is queued for the
    /// swap it runs to its end by itself: whoever may have to repeat it gives it a token of its own (see [`TransactOptions`]).
    ///
    /// Needs a tokio runtime with time enabled.
    pub async fn transact<F, Fut>(&self, body: F) -> Result<Commit>
    where
        F: Fn(Transaction) -> Fut,
        Fut: Future<Output = Result<()>>,
    {
        self.transact_with(TransactOptions::default(), body).await
    }

    /// [`Branch::transact`] with a message, or with a token that makes it idempotent across processes.
    pub async fn transact_with<F, Fut>(&self, options: TransactOptions, body: F) -> Result<Commit>
    where
        F: Fn(Transaction) -> Fut,
        Fut: Future<Output = Result<()>>,
    {
        commit::transact(self, options, body).await
    }
}

/// Segments a line keeps. Commits that wait for a swap look for their tokens in those that left the tail meanwhile, each for itself: a few are enough
/// to read none of them again.
const SEGMENTS: u64 = 8;

/// What the handles of one branch share: the newest head this process knows, and the queue of its commits.
pub(crate) struct Line {
    pub(crate) catalog: CatalogId,
    pub(crate) branch: BranchName,
    known: Mutex<Option<Arc<HeadView>>>,
    pub(crate) queue: Queue,
    pub(crate) spill: SpillMemo,
    pub(crate) segments: Segments,
}

impl Line {
    pub(crate) fn new(catalog: CatalogId, branch: BranchName) -> Self {
        let (known, queue, spill) = Default::default();
        Self { catalog, branch, known, queue, spill, segments: Segments::new(SEGMENTS) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<HeadView>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest head this process knows. A hint: whatever is computed from it is arbitrated by the swap.
    pub(crate) fn known(&self) -> Option<Arc<HeadView>> {
        self.lock().clone()
    }

    /// Takes in a head that was read. Returns the view of exactly this read, which another thread's newer one does not replace.
    pub(crate) fn accept(&self, body: &[u8], tag: Tag) -> Result<Arc<HeadView>> {
        let head = Head::decode(self.catalog, &self.branch, body)?;
        Ok(self.learn(HeadView { head, tag, bytes: body.len() }))
    }

    pub(crate) fn learn(&self, view: HeadView) -> Arc<HeadView> {
        let view = Arc::new(view);
        let mut known = self.lock();
        // Reads finish out of order; an older view would only cost a lost swap, but never let it replace a newer one.
        if known.as_ref().is_none_or(|old| old.head.incarnation != view.head.incarnation || old.head.rev < view.head.rev) {
            *known = Some(view.clone());
        }
        view
    }

    /// Reads the head. 1 request.
    pub(crate) async fn read(&self, catalog: &Inner) -> Result<Arc<HeadView>> {
        let known = self.known();
        let read = catalog.authority().read_head(&self.branch, known.as_ref().map(|view| &view.tag)).await?;
        let view = match (read, known) {
            (HeadRead::Found(body, tag), _) => self.accept(&body, tag)?,
            (HeadRead::Unchanged, Some(view)) => view,
            (HeadRead::Unchanged, None) => {
                return Err(Error::corrupt(
                    format!("head of branch {}", self.branch),
                    "the authority answered 'unchanged' to an unconditional read",
                ));
            }
            (HeadRead::Absent, _) if self.branch.as_str() == MAIN => {
                return Err(missing_main());
            }
            (HeadRead::Absent, Some(_)) => {
                return Err(Error::corrupt(
                    format!("head of branch {}", self.branch),
                    "the head was there and is missing; restore the object",
                ));
            }
            (HeadRead::Absent, None) => {
                return Err(Error::new(ErrorKind::NotFound, format!("there is no branch {:?}", self.branch.as_str())));
            }
        };
        match view.head.state {
            BranchState::Live | BranchState::Frozen { .. } => Ok(view),
            BranchState::Creating => {
                Err(Error::new(ErrorKind::Unavailable, format!("the branch {:?} is still being created", self.branch.as_str())))
            }
            BranchState::Deleted => Err(Error::new(ErrorKind::NotFound, format!("the branch {:?} was deleted", self.branch.as_str()))),
        }
    }
}

/// The error for a catalog whose main branch is gone.
pub(crate) fn missing_main() -> Error {
    Error::corrupt("head of branch main", "the catalog is there and its main branch is missing; restore the object")
}
