//! The commit protocol. One commit walks through these steps, each a value that the next one consumes:
//!
//! ```text
//! barrier     read or recall the head; refuse a branch nobody may write            -> Base
//! prepare     run the closure, stage unreferenced objects, record what was read    -> Prepared
//! revalidate  the complete read set equals the very head the swap expects          -> Revalidated
//! arm         durable intent before effects others could see (none so far)         -> Armed
//! apply       those effects; unreferenced ones are complete already                -> Applied
//! publish     ONE compare-and-swap of the head: the commit point                   -> Published
//! finalize    remember the new head, report                                        -> Commit
//! ```
//!
//! Only the barrier makes a `Base`, and each step takes the value of the step before, so a skipped step does not compile. Before the
//! swap, every failure leaves unreferenced objects at most. The swap has three outcomes; an unknown one is resolved in `resolve`.

mod apply;
mod arm;
mod barrier;
mod draft;
mod finalize;
mod prepare;
mod publish;
mod resolve;
mod revalidate;

use std::future::Future;
use std::sync::Arc;

pub(crate) use draft::SpillMemo;
pub use finalize::{Commit, CommittedTable};
pub(crate) use publish::Queue;

use crate::branch::Branch;
use crate::error::{Error, ErrorKind, Result};
use crate::head::{Entry, HeadView};
use crate::ids::Token;
use crate::lineage;
use crate::transaction::Transaction;
use barrier::{Base, Freshness};
use prepare::{Outcome, Prepared, Request};
use publish::Verdict;

/// What a commit is called, and how it is recognized.
#[derive(Clone, Debug, Default)]
pub struct TransactOptions {
    /// Why, for the log.
    pub message: Option<String>,
    /// Names this commit, also across processes: a retry with the same token and the same request finds the first one's result instead of
    /// committing twice. Until a retry succeeds or is refused, only the same token may be tried again. The closure must ask for the same
    /// whenever it runs on the same state. Finding the token costs a read of the journal back to `since`.
    pub token: Option<Token>,
    /// With a token: a seq at which it was certainly not committed yet.
    pub since: u64,
}

/// Runs a closure as one commit.
pub(crate) async fn transact<F, Fut>(branch: &Branch, options: TransactOptions, body: F) -> Result<Commit>
where
    F: Fn(Transaction) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    let request = Request::new(branch, options)?;
    let (token, given) = (request.token.clone(), request.given);
    let committed = run(branch, request, body).await.map_err(|error| if given { error.settled_by(&token) } else { error });
    let mut commit = committed?;
    // Derived from what is published: no failure here is one of the commit.
    commit.behind = if commit.published { lineage::follow(branch, &commit).await } else { Vec::new() };
    Ok(commit)
}

async fn run<F, Fut>(branch: &Branch, mut request: Request, body: F) -> Result<Commit>
where
    F: Fn(Transaction) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    let policy = branch.catalog.parts.retry;
    let mut base = if request.given {
        // The token comes before everything else: a commit that is in the journal is a success, whoever holds the branch now, and the closure
        // must not run on what came after it.
        let view = branch.line.read(&branch.catalog).await.map_err(|error| error.during("barrier"))?;
        if let Some(earlier) = resolve::find(branch, &request, &view.head).await? {
            return prepare::compare(branch, &request, &view, earlier, &body).await;
        }
        barrier::on(branch, view)?
    } else {
        barrier::pass(branch, Freshness::Known).await?
    };
    request.searched = Some(base.snapshot.seq());
    let mut lost = 0;
    for attempt in 1..=policy.prepares {
        let prepared = match prepare::run(branch, base, &request, &body).await {
            Outcome::Prepared(prepared) => prepared,
            Outcome::Nothing(commit) => return Ok(commit),
            Outcome::Moved(newer) => {
                // The closure may have failed because its own commit is there: another process made it, under the caller's token.
                let view = newer.snapshot.view.clone();
                if request.given
                    && let Some(earlier) = resolve::find(branch, &request, &view.head).await?
                {
                    return prepare::compare(branch, &request, &view, earlier, &body).await;
                }
                request.searched = Some(newer.snapshot.seq());
                base = newer;
                continue;
            }
            Outcome::Failed(error) => return Err(error),
        };
        base = match settle(branch, prepared, &mut lost).await? {
            Settled::Done(commit) => return Ok(commit.attempts(attempt, lost)),
            Settled::Stale(newer) => newer,
            Settled::Earlier(entry, view) => return prepare::compare(branch, &request, &view, *entry, &body).await,
        };
        policy.wait(&branch.catalog.mint, attempt).await;
    }
    let problem = format!("what the transaction read kept changing, {} times; nothing was published, try again", policy.prepares);
    Err(Error::new(ErrorKind::ReadSetChanged, problem).with_token(request.token))
}

enum Settled {
    Done(Commit),
    Stale(Base),
    /// The token stands in the journal already.
    Earlier(Box<Entry>, Arc<HeadView>),
}

/// Publishes; a pure append that finds its table moved is put on the newer version without running the closure again.
async fn settle(branch: &Branch, mut prepared: Box<Prepared>, lost: &mut u32) -> Result<Settled> {
    let policy = branch.catalog.parts.retry;
    for attempt in 1..=policy.prepares {
        match publish::submit(branch, prepared).await {
            Verdict::Published(published) => return Ok(Settled::Done(finalize::finish(published))),
            Verdict::Failed(error) => return Err(error),
            Verdict::Earlier(entry, view) => return Ok(Settled::Earlier(entry, view)),
            Verdict::Stale(stale, current) => {
                let (swaps, base) = (stale.lost, barrier::on(branch, current)?);
                match prepare::rebase(branch, stale, &base).await? {
                    Some(rebased) => prepared = rebased,
                    None => {
                        *lost += swaps;
                        return Ok(Settled::Stale(base));
                    }
                }
            }
        }
        policy.wait(&branch.catalog.mint, attempt).await;
    }
    let problem = format!("the appended tables kept changing, {} times; nothing was published, try again", policy.prepares);
    Err(Error::new(ErrorKind::Conflict, problem))
}
