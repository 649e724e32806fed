//! Step 2. The closure runs on the base, its probes are recorded, and its objects are staged, unreferenced. No gate is held.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::TransactOptions;
use super::barrier::{self, Base, Freshness};
use super::draft;
use super::finalize::Commit;
use super::resolve;
use crate::adapter::{Effect, EffectAdapter, Plan};
use crate::branch::Branch;
use crate::error::{Error, ErrorKind, Result};
use crate::head::{Entry, Event, HeadView, Reads, TableHead};
use crate::ids::{Incarnation, Token};
use crate::json::{encode, sha256};
use crate::snapshot::{At, Snapshot};
use crate::store::Durability;
use crate::transaction::{Observed, Transaction};

/// Tables staged at once: more of them wait, so that a commit to very many does not hold all their rows in memory.
const SIDE_BY_SIDE: usize = 128;

/// The longest message, in bytes: it stands in the head until the tail spills.
const MAX_MESSAGE: usize = 1_024;
/// The longest actor, in bytes.
const MAX_ACTOR: usize = 256;

/// What stays the same over all attempts of one commit.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) token: Token,
    /// The token is the caller's: it may have been used before.
    pub(super) given: bool,
    /// The token does not stand at or before this seq; known from the first base on.
    pub(super) searched: Option<u64>,
    pub(super) message: Option<String>,
    pub(super) actor: String,
}

impl Request {
    pub(super) fn new(branch: &Branch, options: TransactOptions) -> Result<Self> {
        let actor = branch.catalog.parts.actor.clone();
        let limits = [("message", options.message.as_deref().unwrap_or_default(), MAX_MESSAGE), ("actor", actor.as_str(), MAX_ACTOR)];
        for (what, text, limit) in limits {
            if text.len() > limit {
                return Err(Error::invalid(format!("the commit's {what} has {} bytes; at most {limit} fit the journal", text.len())));
            }
        }
        let given = options.token.is_some();
        let searched = given.then_some(options.since);
        let token = options.token.unwrap_or_else(|| Token::mint(&branch.catalog.mint));
        Ok(Self { token, given, searched, message: options.message, actor })
    }
}

/// A commit that is ready but for its place in history.
pub(super) struct Prepared {
    pub(super) request: Request,
    /// SHA-256 of what was asked for, without anything minted.
    pub(super) digest: String,
    pub(super) adapter: &'static dyn EffectAdapter,
    pub(super) effects: Vec<Effect>,
    pub(super) reads: Reads,
    pub(super) incarnation: Incarnation,
    pub(super) gc_epoch: u64,
    pub(super) epoch: u64,
    /// The token cannot stand at or before this seq (rule 4).
    pub(super) searched: u64,
    /// Swaps lost so far.
    pub(super) lost: u32,
    observed: Observed,
}

/// How a preparation ended.
pub(super) enum Outcome {
    Prepared(Box<Prepared>),
    /// Nothing to change, on a state that was current during the call.
    Nothing(Commit),
    /// The recalled base was outdated where it mattered: run again on this one.
    Moved(Base),
    Failed(Error),
}

/// Runs the closure and stages what it asks for: k appends in one round trip, together with the spill of a full tail.
#[tracing::instrument(name = "prepare", level = "debug", skip_all, fields(branch = %branch.name(), seq = base.snapshot.seq()))]
pub(super) async fn run<F, Fut>(branch: &Branch, base: Base, request: &Request, body: &F) -> Outcome
where
    F: Fn(Transaction) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    let result = attempt(branch, &base, request, body).await;
    // A result that rests on a recalled base alone is looked at again where the base has moved: a table another process created is not
    // missing, and a state that needs no change must be the current one.
    if !base.fresh && !matches!(result, Ok(Some(_))) {
        match barrier::pass(branch, Freshness::Read).await {
            Ok(newer) if newer.snapshot.seq() != base.snapshot.seq() => return Outcome::Moved(newer),
            Ok(_) => {}
            // What the closure made of an outdated base is no answer; it only explains.
            Err(error) => {
                return Outcome::Failed(match result {
                    Err(own) => error.because(own),
                    Ok(_) => error,
                });
            }
        }
    }
    match result {
        Ok(Some(prepared)) => Outcome::Prepared(prepared),
        Ok(None) => Outcome::Nothing(Commit::nothing(request.token.clone(), &base.snapshot.view.head)),
        Err(error) => Outcome::Failed(error),
    }
}

async fn attempt<F, Fut>(branch: &Branch, base: &Base, request: &Request, body: &F) -> Result<Option<Box<Prepared>>>
where
    F: Fn(Transaction) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    let transaction = Transaction::new(base.snapshot.clone());
    body(transaction.clone()).await?;
    let (kind, plans, observed) = transaction.finish().await?;
    if plans.is_empty() {
        return Ok(None);
    }
    let adapter = branch.catalog.parts.registry.adapter(kind)?;
    let spill = spill_early(branch, base, draft::estimate(request, &plans, &observed)?);
    let (effects, ()) = futures::try_join!(stage(branch, adapter, plans), spill)?;
    if effects.is_empty() {
        return Ok(None);
    }
    build(base, request, adapter, effects, observed).map(|prepared| Some(Box::new(prepared)))
}

/// Stages every plan, side by side. Afterwards everything the pins reach is durable.
async fn stage(branch: &Branch, adapter: &dyn EffectAdapter, plans: Vec<Plan>) -> Result<Vec<Effect>> {
    let (store, mint) = (branch.catalog.store.as_ref(), &branch.catalog.mint);
    let staging = plans.into_iter().map(|plan| adapter.prepare(store, mint, plan));
    let effects = stream::iter(staging).buffered(SIDE_BY_SIDE).try_filter_map(async |effect| Ok(effect));
    let effects: Vec<Effect> = effects.try_collect().await?;
    if effects.iter().filter_map(|effect| effect.staged.as_ref()).any(|staged| staged.durability == Durability::Staged) {
        store.flush().await?;
    }
    Ok(effects)
}

/// Writes the segment of a tail that is about to be too full, while the data is on its way.
async fn spill_early(branch: &Branch, base: &Base, entry_bytes: usize) -> Result<()> {
    let view = &base.snapshot.view;
    if base.snapshot.seq() == view.head.seq && draft::spills(&view.head.tail, entry_bytes)? {
        branch.line.spill.get(branch, &view.head).await?;
    }
    Ok(())
}

fn build(
    base: &Base,
    request: &Request,
    adapter: &'static dyn EffectAdapter,
    effects: Vec<Effect>,
    observed: Observed,
) -> Result<Prepared> {
    let asked: Vec<&str> = effects.iter().map(|effect| effect.request.as_str()).collect();
    let digest = sha256(&encode(&(adapter.kind(), asked))?)[..32].to_owned();
    let head = &base.snapshot.view.head;
    Ok(Prepared {
        digest,
        adapter,
        reads: reads(&base.snapshot, &observed, &effects)?,
        effects,
        incarnation: head.incarnation,
        gc_epoch: base.gc_epoch,
        epoch: head.fence.epoch,
        searched: request.searched.unwrap_or(base.snapshot.seq()),
        lost: 0,
        request: request.clone(),
        observed,
    })
}

/// The complete read set: what the closure probed, and the head of every table it changes.
fn reads(base: &Snapshot, observed: &Observed, effects: &[Effect]) -> Result<Reads> {
    let mut tables = BTreeMap::new();
    for head in observed.tables.values().chain(effects.iter().filter_map(|effect| effect.base.as_ref())) {
        tables.insert(head.table_id, head.token()?);
    }
    Ok(Reads {
        tables,
        absent: observed.absent.clone(),
        schema: observed.all.then(|| base.heads().schema_identity()).transpose()?,
        tombstones: observed.tombstones.then(|| base.tombstone_chain().newest().to_owned()),
    })
}

/// Puts pure appends on a newer base, reusing their staged files: sound where the closure saw nothing of the tables but that they are there
/// and what their columns are, and that is unchanged. `None` where the closure has to run again.
#[tracing::instrument(level = "debug", skip_all, fields(branch = %branch.name(), seq = base.snapshot.seq()))]
pub(super) async fn rebase(branch: &Branch, stale: Box<Prepared>, base: &Base) -> Result<Option<Box<Prepared>>> {
    let heads = base.snapshot.heads();
    let Observed { contents, all, tombstones, .. } = stale.observed;
    let blind = !contents && !all && !tombstones && stale.effects.iter().all(|effect| effect.append);
    let head = &base.snapshot.view.head;
    if !blind || head.gc_epoch != stale.gc_epoch || head.incarnation != stale.incarnation {
        return Ok(None);
    }
    let mut observed = stale.observed.clone();
    for (id, old) in &mut observed.tables {
        match heads.by_id(*id) {
            Some(new) if new.incarnation_id == old.incarnation_id && new.schema_hash == old.schema_hash && new.key == old.key => {
                *old = new.clone()
            }
            _ => return Ok(None),
        }
    }
    let moved = stale.effects.iter().map(|effect| {
        let target = effect.base.as_ref().and_then(|old| observed.tables.get(&old.table_id));
        rebase_append(branch, effect, target)
    });
    let Some(effects) = try_join_all(moved).await?.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
    let reads = reads(&base.snapshot, &observed, &effects)?;
    // A name that had to be free may be taken.
    if !reads.hold(heads, base.snapshot.tombstone_chain())? {
        return Ok(None);
    }
    Ok(Some(Box::new(Prepared { effects, reads, observed, epoch: head.fence.epoch, ..*stale })))
}

async fn rebase_append(branch: &Branch, effect: &Effect, target: Option<&TableHead>) -> Result<Option<Effect>> {
    let (Some(target), Some(base), Some(staged)) = (target, &effect.base, &effect.staged) else { return Ok(None) };
    if target.pin == base.pin {
        return Ok(Some(Effect { base: Some(target.clone()), ..effect.clone() }));
    }
    let Some(staged) = branch.catalog.store.rebase(target.table(), staged, &target.pin).await? else { return Ok(None) };
    let event = Event::Written {
        table_id: target.table_id,
        incarnation_id: target.incarnation_id,
        pin: staged.pin.clone(),
        rows: staged.rows,
        schema_hash: target.schema_hash.clone(),
    };
    Ok(Some(Effect { event, staged: Some(staged), base: Some(target.clone()), ..effect.clone() }))
}

/// Settles a token that stands in the journal already: the same request is a success that reports the first one's place; another one is a
/// mistake. What was asked for then is learned by running the closure on the state before that commit.
pub(super) async fn compare<F, Fut>(branch: &Branch, request: &Request, view: &Arc<HeadView>, earlier: Entry, body: &F) -> Result<Commit>
where
    F: Fn(Transaction) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    let before = Snapshot::current(branch.catalog.clone(), view.clone()).at(At::Seq(earlier.seq - 1)).await?;
    match attempt(branch, &barrier::past(before), request, body).await {
        Ok(Some(prepared)) if prepared.digest == earlier.request => Ok(Commit::of(&prepared, earlier.seq, earlier.commit)),
        Ok(_) => Err(resolve::reused(&request.token, earlier.seq)),
        // What the closure itself refuses is another request than the one it made then; a failure of the storage says nothing of it.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound | ErrorKind::AlreadyExists) => {
            Err(resolve::reused(&request.token, earlier.seq).because(error))
        }
        Err(error) => Err(error),
    }
}
