//! Effect adapters: one per kind of write. An adapter turns a plan into staged objects and journal events, and declares what recovery may assume.

use std::collections::BTreeMap;

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::filter::Filter;
use crate::head::{Event, TableHead};
use crate::ids::Mint;
use crate::name::TableKey;
use crate::store::{ByKey, DataStore, Rows, Staged};
use crate::transaction::StagedAppend;

/// The kinds of write. Closed: journals may name any of these, and a build makes those it has an adapter for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriterKind {
    /// Appends and overwrites whole tables, creating them where asked.
    Load,
    /// Changes rows by key or predicate, and what a load does beside it.
    Mutation,
    /// One step of a world.
    Tick,
    /// Brings another branch's changes in.
    Merge,
    /// Creates, renames, drops, recreates tables and adds columns.
    Schema,
    /// Rewrites a table's files, rows unchanged.
    Optimize,
    /// Builds or extends an index.
    Index,
    /// Moves streamed rows into a table.
    Fold,
    /// Repeats published versions on a table's own version chain.
    Mirror,
    /// Converts an older format.
    Migrate,
    /// Corrects damaged heads from the journal.
    Repair,
}

impl WriterKind {
    /// The kind's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Mutation => "mutation",
            Self::Tick => "tick",
            Self::Merge => "merge",
            Self::Schema => "schema",
            Self::Optimize => "optimize",
            Self::Index => "index",
            Self::Fold => "fold",
            Self::Mirror => "mirror",
            Self::Migrate => "migrate",
            Self::Repair => "repair",
        }
    }
}

/// What an adapter's effects are before the swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectClass {
    /// Objects nobody can see until the swap names them: a crash leaves garbage, and nothing needs recovery.
    Unreferenced,
    /// Nothing at all: the swap is the only effect.
    Zero,
}

impl EffectClass {
    /// The class's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreferenced => "unreferenced",
            Self::Zero => "zero",
        }
    }
}

/// One table's part of a transaction, planned on a base. Rows have the table's schema already.
#[derive(Debug)]
pub enum Plan {
    /// A new table.
    Create {
        /// Its name, known to be free on the base.
        key: TableKey,
        /// Its schema and first rows.
        rows: Rows,
        /// Its properties.
        properties: BTreeMap<String, String>,
    },
    /// More rows.
    Append(TableHead, Rows),
    /// More rows, which are in the store already.
    Staged {
        /// The table.
        head: TableHead,
        /// The rows.
        staged: StagedAppend,
        /// Whether their objects are safe from a vacuum, and so may be published as they are.
        reuse: bool,
    },
    /// Other rows.
    Overwrite(TableHead, Rows),
    /// Another name, known to be free on the base.
    Rename(TableHead, TableKey),
    /// No longer a table.
    Drop(TableHead),
    /// A new life for a dropped identity.
    Recreate {
        /// The tombstone.
        tombstone: TableHead,
        /// The name, known to be free on the base.
        key: TableKey,
        /// Its schema and first rows.
        rows: Rows,
    },
    /// The same rows under a schema with more nullable columns.
    AddColumns(TableHead, SchemaRef),
    /// No longer the rows that match.
    Delete(TableHead, Filter),
    /// Other values in the rows that match.
    Update(TableHead, Filter, Vec<(String, ArrayRef)>),
    /// Rows that add to, replace or remove the table's, by its key.
    ByKey(TableHead, ByKey, Rows),
    /// The same rows, laid out better.
    Optimize(TableHead),
    /// The same rows, and an index of this column over all of them.
    Index(TableHead, String),
}

impl Plan {
    /// The name of the table it is about, after it.
    pub fn key(&self) -> &TableKey {
        match self {
            Self::Create { key, .. } | Self::Recreate { key, .. } | Self::Rename(_, key) => key,
            Self::Append(head, _)
            | Self::Overwrite(head, _)
            | Self::Drop(head)
            | Self::AddColumns(head, _)
            | Self::Delete(head, _)
            | Self::Update(head, ..)
            | Self::ByKey(head, ..)
            | Self::Optimize(head)
            | Self::Index(head, _)
            | Self::Staged { head, .. } => &head.key,
        }
    }

    /// The plan's name, as errors print it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Append(..) | Self::Staged { .. } => "append",
            Self::Overwrite(..) => "overwrite",
            Self::Rename(..) => "rename",
            Self::Drop(..) => "drop",
            Self::Recreate { .. } => "recreate",
            Self::AddColumns(..) => "add columns",
            Self::Delete(..) => "delete",
            Self::Update(..) => "update",
            Self::ByKey(_, action, _) => action.name(),
            Self::Optimize(_) => "optimize",
            Self::Index(..) => "index",
        }
    }
}

/// What a plan became: an event to publish, and the staged version it names.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The transition.
    pub event: Event,
    /// What was staged.
    pub staged: Option<Staged>,
    /// The table the event changes, as it was on the base.
    pub base: Option<TableHead>,
    /// Whether it is a pure append, which keeps its meaning on another base of the same schema.
    pub append: bool,
    /// What was asked for, without anything minted here: the same for a retry of the same request.
    pub request: String,
}

/// Stages plans of one kind.
#[async_trait]
pub trait EffectAdapter: Send + Sync {
    /// The kind of write it makes.
    fn kind(&self) -> WriterKind;

    /// What its effects are before the swap. The protocol arms recovery by this.
    fn class(&self) -> EffectClass;

    /// One line for listings.
    fn summary(&self) -> &'static str;

    /// Stages one plan; `None` where it would change nothing. Drives the store only through [`DataStore`]; writes nothing anyone can see; may
    /// run again, on another base, at any time. Refuses plans of other kinds with [`refuse`].
    async fn prepare(&self, store: &dyn DataStore, mint: &Mint, plan: Plan) -> Result<Option<Effect>>;
}

/// The error for a plan of another kind.
pub fn refuse(kind: WriterKind, plan: &Plan) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the {} adapter does not {}", kind.name(), plan.name()))
}
