//! Step 1. The head a commit is computed from, and whether anyone may write to it at all.

use std::sync::Arc;

use crate::branch::Branch;
use crate::error::{Error, ErrorKind, Result};
use crate::head::{BranchState, FenceMode, Head, HeadView};
use crate::snapshot::Snapshot;

/// Whether the head must be read, or the last known one will do. The known one costs nothing, and what is computed from an outdated one
/// only loses the swap.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    Known,
    Read,
}

/// The state a commit is computed from. Only this module makes one.
pub(super) struct Base {
    pub(super) snapshot: Snapshot,
    /// Captured before the first object of the commit is written: a vacuum that begins later shows by it (rule 9).
    pub(super) gc_epoch: u64,
    /// Whether the head was read for this commit, and not recalled.
    pub(super) fresh: bool,
    _private: (),
}

/// Reads or recalls the head. At most 1 request.
#[tracing::instrument(level = "debug", skip_all, fields(branch = %branch.name()))]
pub(super) async fn pass(branch: &Branch, freshness: Freshness) -> Result<Base> {
    match branch.line.known() {
        Some(view) if freshness == Freshness::Known => writable(branch, view, false),
        _ => writable(branch, branch.line.read(&branch.catalog).await.map_err(|error| error.during("barrier"))?, true),
    }
}

/// The base on the head that made a commit stale: newer than the one before, but possibly recalled, too.
pub(super) fn on(branch: &Branch, view: Arc<HeadView>) -> Result<Base> {
    writable(branch, view, false)
}

fn writable(branch: &Branch, view: Arc<HeadView>, fresh: bool) -> Result<Base> {
    check_writable(&view.head)?;
    let gc_epoch = view.head.gc_epoch;
    Ok(Base { snapshot: Snapshot::current(branch.catalog.clone(), view), gc_epoch, fresh, _private: () })
}

/// The base on an earlier state, to learn what an earlier commit was asked for. It is only compared, never published.
pub(super) fn past(snapshot: Snapshot) -> Base {
    let gc_epoch = snapshot.view.head.gc_epoch;
    Base { snapshot, gc_epoch, fresh: true, _private: () }
}

/// Refuses a branch that is not live, or whose fence another writer holds (rule 14).
pub(super) fn check_writable(head: &Head) -> Result<()> {
    match &head.state {
        BranchState::Live => {}
        BranchState::Frozen { claim } => {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("the branch {:?} is frozen by {claim:?}; wait until that is done", head.branch.as_str()),
            ));
        }
        BranchState::Creating | BranchState::Deleted => {
            return Err(Error::new(ErrorKind::NotFound, format!("the branch {:?} is not live", head.branch.as_str())));
        }
    }
    match (head.fence.mode, &head.fence.holder) {
        (FenceMode::Shared, _) => Ok(()),
        (FenceMode::Fenced, holder) => {
            let holder = holder.as_deref().unwrap_or("another writer");
            Err(Error::new(
                ErrorKind::StaleWriter,
                format!("the branch {:?} is fenced by {holder:?}; only the holder may write", head.branch.as_str()),
            ))
        }
    }
}
