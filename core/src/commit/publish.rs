//! Step 6. The commit point: one swap publishes every table, the journal entries, the read sets' arbitration and the fence check together.
//!
//! Commits of one process to one branch queue here and share swaps: while one swap is under way, those that arrive form the next group.
//! Each is validated on its own, in order, against the head that holds those before it, and has its own journal entry.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::apply::Applied;
use super::draft::{Draft, Placed};
use super::prepare::Prepared;
use super::resolve::{self, Sent};
use super::revalidate::{self, Checked};
use crate::branch::Branch;
use crate::error::{Error, ErrorKind, Result};
use crate::head::{Entry, HeadView};
use crate::ids::{CommitId, Token};

/// A commit that is in the journal.
pub(super) struct Published {
    pub(super) prepared: Box<Prepared>,
    pub(super) seq: u64,
    pub(super) commit: CommitId,
}

/// How a publish ended.
pub(super) enum Verdict {
    Published(Published),
    /// Its read set does not hold on this head.
    Stale(Box<Prepared>, Arc<HeadView>),
    /// Its token stands in the journal of this head, with something else than what this base made it ask for: another request, or the same
    /// one made of another state.
    Earlier(Box<Entry>, Arc<HeadView>),
    Failed(Error),
}

struct Ticket {
    prepared: Box<Prepared>,
    reply: oneshot::Sender<Verdict>,
}

/// A commit in the draft.
struct Member {
    applied: Applied,
    reply: oneshot::Sender<Verdict>,
    seq: u64,
    commit: CommitId,
}

/// A branch's commits of this process that wait for a swap.
#[derive(Default)]
pub(crate) struct Queue(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    tickets: VecDeque<Ticket>,
    running: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next group; `None` ends the run.
    fn take(&self) -> Option<Vec<Ticket>> {
        let mut waiting = self.lock();
        waiting.running = !waiting.tickets.is_empty();
        waiting.running.then(|| waiting.tickets.drain(..).collect())
    }

    fn put_back(&self, tickets: Vec<Ticket>) {
        let mut waiting = self.lock();
        for ticket in tickets.into_iter().rev() {
            waiting.tickets.push_front(ticket);
        }
    }
}

/// Queues a commit and waits for its verdict. The swap runs in a task of its own: a caller that stops waiting cancels neither its own
/// commit nor another's.
pub(super) async fn submit(branch: &Branch, prepared: Box<Prepared>) -> Verdict {
    let token = prepared.request.token.clone();
    let (reply, verdict) = oneshot::channel();
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return Verdict::Failed(error),
    };
    let start = {
        let mut waiting = branch.line.queue.lock();
        waiting.tickets.push_back(Ticket { prepared, reply });
        !std::mem::replace(&mut waiting.running, true)
    };
    if start {
        runtime.spawn(drain(branch.clone()));
    }
    // The task ends without an answer only when its runtime does.
    verdict.await.unwrap_or_else(|_| Verdict::Failed(unknown(&token)))
}

pub(super) fn unknown(token: &Token) -> Error {
    let problem = format!("whether the commit was published is not known; repeat it with the token {token} to find out");
    Error::new(ErrorKind::PublishUnknown, problem).with_token(token.clone())
}

/// The caller's runtime, for work that must go on when the caller does not.
pub(super) fn runtime() -> Result<Handle> {
    Handle::try_current().map_err(|error| Error::invalid("a commit needs a tokio runtime with time enabled").because(error))
}

async fn drain(branch: Branch) {
    let run = Run { queue: &branch.line.queue };
    while let Some(group) = branch.line.queue.take() {
        publish(&branch, group).await;
    }
    std::mem::forget(run);
}

/// Ends a run that did not come to its end: its runtime was shut down, or a backend panicked. The next commit starts another.
struct Run<'a> {
    queue: &'a Queue,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let tickets: Vec<Ticket> = {
            let mut waiting = self.queue.lock();
            waiting.running = false;
            waiting.tickets.drain(..).collect()
        };
        let error =
            Error::new(ErrorKind::Unavailable, "the task that publishes this branch's commits ended; nothing was published, try again");
        fail(tickets.into_iter().map(|ticket| ticket.reply), &error);
    }
}

/// Publishes what of a group can be published together, and answers or puts back the rest.
#[tracing::instrument(level = "debug", skip_all, fields(branch = %branch.name(), commits = group.len()))]
async fn publish(branch: &Branch, mut group: Vec<Ticket>) {
    let mut view = match branch.line.known() {
        Some(view) => view,
        None => match branch.line.read(&branch.catalog).await {
            Ok(view) => view,
            Err(error) => return fail(group.into_iter().map(|ticket| ticket.reply), &error),
        },
    };
    for attempt in 1.. {
        let mut draft = Draft::new(&view);
        let (mut members, mut later) = (Vec::new(), Vec::new());
        for ticket in group {
            match admit(branch, &view, &mut draft, &members, ticket).await {
                Admitted::In(member) => members.push(member),
                Admitted::Later(ticket) => later.push(ticket),
                Admitted::Answered => {}
            }
        }
        let Some(first) = members.first() else { return branch.line.queue.put_back(later) };
        let (token, commit) = (first.applied.prepared.request.token.clone(), first.commit);
        // Others wait for the tail to spill: its segment is written beside the swap, and theirs need not wait for it.
        if draft.full {
            let _ = branch.line.spill.begin(branch, &draft.head);
        }
        match resolve::swap(branch, &view, draft, &token, commit).await {
            Ok(Sent::Landed) => {
                for Member { applied, reply, seq, commit } in members {
                    // A caller that is gone does not change what was published.
                    let _ = reply.send(Verdict::Published(Published { prepared: applied.withdraw(), seq, commit }));
                }
                return branch.line.queue.put_back(later);
            }
            Ok(Sent::Lost(newer)) => {
                tracing::debug!(attempt, seq = newer.head.seq, "the swap was lost");
                view = newer;
                let back = members.into_iter().map(|member| {
                    let mut prepared = member.applied.withdraw();
                    prepared.lost += 1;
                    Ticket { prepared, reply: member.reply }
                });
                group = back.chain(later).collect();
                branch.catalog.parts.retry.wait(&branch.catalog.mint, attempt).await;
            }
            Err(error) if error.kind() == ErrorKind::PublishUnknown => {
                for member in members {
                    let _ = member.reply.send(Verdict::Failed(unknown(&member.applied.prepared.request.token)));
                }
                return branch.line.queue.put_back(later);
            }
            Err(error) => {
                fail(members.into_iter().map(|member| member.reply), &error);
                return branch.line.queue.put_back(later);
            }
        }
    }
}

fn fail(replies: impl Iterator<Item = oneshot::Sender<Verdict>>, error: &Error) {
    for reply in replies {
        let _ = reply.send(Verdict::Failed(error.duplicate()));
    }
}

enum Admitted {
    In(Member),
    Later(Ticket),
    Answered,
}

/// Validates one commit and places it in the draft. The token comes first: a commit that is in the journal already is a success, whatever
/// happened to its fence or its read set since.
async fn admit(branch: &Branch, view: &Arc<HeadView>, draft: &mut Draft, members: &[Member], ticket: Ticket) -> Admitted {
    let Ticket { mut prepared, reply } = ticket;
    let answer = |reply: oneshot::Sender<Verdict>, verdict| {
        let _ = reply.send(verdict);
        Admitted::Answered
    };
    match resolve::earlier(branch, view, &mut prepared).await {
        Ok(None) => {}
        Ok(Some(Entry { seq, commit, request, .. })) if request == prepared.digest => {
            return answer(reply, Verdict::Published(Published { prepared, seq, commit }));
        }
        Ok(Some(entry)) => return answer(reply, Verdict::Earlier(Box::new(entry), view.clone())),
        Err(error) => return answer(reply, Verdict::Failed(error)),
    }
    if members.iter().any(|member| member.applied.prepared.request.token == prepared.request.token) {
        return Admitted::Later(Ticket { prepared, reply });
    }
    let allowed = branch.catalog.parts.retry.swaps;
    if prepared.lost > allowed {
        let problem = format!("{allowed} swaps were lost to other writers; nothing was published, try again");
        return answer(reply, Verdict::Failed(Error::new(ErrorKind::Conflict, problem)));
    }
    let applied = match revalidate::check(prepared, &draft.head) {
        Checked::Valid(revalidated) => revalidated.arm().apply(),
        Checked::Refused(prepared, error) => return refuse(branch, view, members, Ticket { prepared, reply }, error).await,
        Checked::Stale(prepared) if members.is_empty() => return answer(reply, Verdict::Stale(prepared, view.clone())),
        // What made it stale is not published yet: it may never be.
        Checked::Stale(prepared) => return Admitted::Later(Ticket { prepared, reply }),
    };
    match draft.place(branch, view, &applied).await {
        Ok(Placed::In(seq, commit)) => Admitted::In(Member { applied, reply, seq, commit }),
        Ok(Placed::NoRoom) => Admitted::Later(Ticket { prepared: applied.withdraw(), reply }),
        Err(error) => refuse(branch, view, members, Ticket { prepared: applied.withdraw(), reply }, error).await,
    }
}

/// A refusal holds only on a head that is current: one that rests on a recalled head, or on commits that are not published yet, is looked at
/// again. Requests: 1, to see whether the head moved.
async fn refuse(branch: &Branch, view: &HeadView, members: &[Member], ticket: Ticket, error: Error) -> Admitted {
    let moved = async { branch.line.read(&branch.catalog).await.is_ok_and(|current| current.tag != view.tag) };
    if !members.is_empty() || moved.await {
        return Admitted::Later(ticket);
    }
    let _ = ticket.reply.send(Verdict::Failed(error));
    Admitted::Answered
}
