//! The swap and its three outcomes. An unknown one is settled by the journal: a swap that expected one tag can only be an entry right
//! behind that state.

use std::sync::Arc;

use super::draft::Draft;
use super::prepare::{Prepared, Request};
use super::publish::unknown;
use crate::authority::{Expected, Swap};
use crate::branch::Branch;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::head::{Entry, Head, HeadView};
use crate::history::History;
use crate::ids::{CommitId, Token};

/// What became of a swap.
pub(super) enum Sent {
    /// It is in history. The line knows the new head.
    Landed,
    /// It is not, and never will be: another head is there now.
    Lost(Arc<HeadView>),
}

/// Sends the swap; `token` and `commit` are of its first new entry. 1 request, and 1 more to see the winner of a lost one.
///
/// Errors: `PublishUnknown` where the outcome could not be learned; any other error means that nothing was published.
#[tracing::instrument(level = "debug", skip_all, fields(branch = %branch.name(), seq = draft.head.seq, commits = draft.members))]
pub(super) async fn swap(branch: &Branch, view: &Arc<HeadView>, draft: Draft, token: &Token, commit: CommitId) -> Result<Sent> {
    let (head, bytes) = draft.seal(branch)?;
    let body = bytes::Bytes::from(bytes);
    let send = || branch.catalog.authority().swap_head(&branch.line.branch, Expected::Tag(&view.tag), body.clone());
    let landed = |tag| {
        branch.line.learn(HeadView { head: head.clone(), tag, bytes: body.len() });
        Ok(Sent::Landed)
    };
    let mut cause = match send().await? {
        Swap::Swapped(tag) => return landed(tag),
        Swap::Conflict => None,
        Swap::Unknown(cause) => {
            tracing::debug!(%cause, "the swap's outcome is unknown");
            Some(cause)
        }
    };
    let policy = branch.catalog.parts.retry;
    for attempt in 1..=policy.resolves {
        let current = match branch.line.read(&branch.catalog).await {
            Ok(current) => current,
            // Damage does not pass by waiting.
            Err(error) if error.retry() == Retry::Permanent => return Err(unknown(token).because(error)),
            Err(error) => {
                cause = Some(error);
                policy.wait(&branch.catalog.mint, attempt).await;
                continue;
            }
        };
        if current.tag != view.tag {
            match moved(branch, view, &current, token, commit).await {
                Ok(sent) => return Ok(sent),
                Err(error) => cause = Some(error),
            }
        } else {
            // The request may still land, so its absence proves nothing. The identical one can land only once.
            match send().await {
                Ok(Swap::Swapped(tag)) => return landed(tag),
                Ok(Swap::Conflict) => continue,
                Ok(Swap::Unknown(error)) | Err(error) => cause = Some(error),
            }
        }
        policy.wait(&branch.catalog.mint, attempt).await;
    }
    // What the last attempt left open, a last look may settle: its conflict says that the tag has moved.
    if policy.resolves > 0
        && let Ok(current) = branch.line.read(&branch.catalog).await
        && current.tag != view.tag
    {
        match moved(branch, view, &current, token, commit).await {
            Ok(sent) => return Ok(sent),
            Err(error) => cause = Some(error),
        }
    }
    Err(match cause {
        Some(cause) => unknown(token).because(cause),
        None => unknown(token),
    })
}

/// The tag has moved: the swap is behind the state it expected, or excluded for ever. Its entry is known by its commit: under a token of the
/// caller's another process may have made another one, which is no proof for this swap and the commits that shared it.
async fn moved(branch: &Branch, view: &HeadView, current: &Arc<HeadView>, token: &Token, commit: CommitId) -> Result<Sent> {
    if current.head.incarnation != view.head.incarnation {
        return Err(unknown(token));
    }
    let history = History::new(branch.catalog.authority(), &current.head);
    Ok(match history.find_token(token, view.head.seq, &branch.line.segments).await? {
        Some(entry) if entry.commit == commit => Sent::Landed,
        _ => Sent::Lost(current.clone()),
    })
}

/// The entry of a token of the caller's, in the journal up to this head. Requests: at most 1 for each segment back to where the search begins.
pub(super) async fn find(branch: &Branch, request: &Request, head: &Head) -> Result<Option<Entry>> {
    let history = History::new(branch.catalog.authority(), head);
    history.find_token(&request.token, request.searched.unwrap_or_default(), &branch.line.segments).await
}

/// The error for a token that stands in the journal for another request.
pub(super) fn reused(token: &Token, seq: u64) -> Error {
    let problem = format!(
        "the token {token} committed already, as seq {seq}, and this request is another one; see what that commit did before anything is repeated"
    );
    Error::new(ErrorKind::TokenReused, problem).with_token(token.clone())
}

/// This commit's entry, where it is in the journal already, among those not searched so far. No request while the tail holds them all.
pub(super) async fn earlier(branch: &Branch, view: &HeadView, prepared: &mut Prepared) -> Result<Option<Entry>> {
    if prepared.searched >= view.head.seq {
        return Ok(None);
    }
    let history = History::new(branch.catalog.authority(), &view.head);
    let found = history.find_token(&prepared.request.token, prepared.searched, &branch.line.segments).await?;
    if found.is_none() {
        prepared.searched = view.head.seq;
    }
    Ok(found)
}
