//! Journal entries: what one commit did, in events that carry stable identities, and what it had read.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{HeadToken, Heads, RecordRef, Tombstones};
use crate::adapter::WriterKind;
use crate::error::Result;
use crate::ids::{CommitId, Incarnation, TableId, Token};
use crate::name::{BranchName, TableKey};
use crate::store::Pin;

/// One commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its number; the first is 1.
    pub seq: u64,
    /// Its identity. Dated like `time`.
    pub commit: CommitId,
    /// The publish that made it.
    pub token: Token,
    /// SHA-256 (half, hex) of what was asked for: the same token with another request is a mistake.
    pub request: String,
    /// Which adapter made it.
    pub kind: WriterKind,
    /// When, ms since 1970: the writer's clock, or the previous entry's time where that is later.
    pub time: u64,
    /// Who, as the writer says.
    pub actor: String,
    /// Why, as the writer says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The fence epoch it was published under.
    pub epoch: u64,
    /// What it did.
    pub body: StoredBody,
}

/// An entry's body, here or in a record of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredBody {
    /// Here.
    Inline(Body),
    /// In a record, because it would not fit the tail.
    Record(RecordRef),
}

/// What a commit did and what it had read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Body {
    /// The transitions, in order.
    pub events: Vec<Event>,
    /// The read set, as it held just before.
    pub reads: Reads,
    /// The dropped tables after it, where it changed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tombstones: Option<Tombstones>,
}

/// The read set a commit was validated against.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reads {
    /// Tables whose state the result depends on.
    #[serde(with = "crate::json::unique_map", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<TableId, HeadToken>,
    /// Names that had to be free.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub absent: BTreeSet<TableKey>,
    /// The schema identity, where the result depends on the whole list of tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// The digest of the newest tombstone record, where the result depends on the dropped tables (empty: there was none).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tombstones: Option<String>,
}

impl Reads {
    /// Whether everything that was read is so in this state (rule 7).
    pub fn hold(&self, tables: &Heads, tombstones: &Tombstones) -> Result<bool> {
        for (id, token) in &self.tables {
            match tables.by_id(*id) {
                Some(table) if table.token()? == *token => {}
                _ => return Ok(false),
            }
        }
        if let Some(schema) = &self.schema
            && tables.schema_identity()? != *schema
        {
            return Ok(false);
        }
        let same_tombstones = self.tombstones.as_ref().is_none_or(|digest| digest == tombstones.newest());
        Ok(same_tombstones && !self.absent.iter().any(|key| tables.by_key(key).is_some()))
    }
}

/// One transition of one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// A new table.
    Registered {
        /// Its new identity.
        table_id: TableId,
        /// Its first life.
        incarnation_id: Incarnation,
        /// Its name.
        key: TableKey,
        /// Its first version.
        pin: Pin,
        /// Rows in it.
        #[serde(with = "crate::json::count")]
        rows: u64,
        /// Its schema.
        schema_hash: String,
        /// Its properties.
        #[serde(with = "crate::json::unique_map", default, skip_serializing_if = "BTreeMap::is_empty")]
        properties: BTreeMap<String, String>,
    },
    /// A new version of a live table.
    Written {
        /// Which table.
        table_id: TableId,
        /// Which life.
        incarnation_id: Incarnation,
        /// The new version.
        pin: Pin,
        /// Rows in it.
        #[serde(with = "crate::json::count")]
        rows: u64,
        /// Its schema.
        schema_hash: String,
    },
    /// Another branch owns the pin from now on.
    HandedOver {
        /// Which table.
        table_id: TableId,
        /// Which life.
        incarnation_id: Incarnation,
        /// The new owner.
        owner: BranchName,
    },
    /// Another name; same identity, same life.
    Renamed {
        /// Which table.
        table_id: TableId,
        /// Which life.
        incarnation_id: Incarnation,
        /// The name before.
        from: TableKey,
        /// The name after.
        to: TableKey,
    },
    /// Live no more.
    Dropped {
        /// Which table.
        table_id: TableId,
        /// Which life ended.
        incarnation_id: Incarnation,
        /// The name it had.
        key: TableKey,
    },
    /// A dropped identity begins a new life.
    Recreated {
        /// Which table.
        table_id: TableId,
        /// The life that had ended.
        previous: Incarnation,
        /// The new life.
        incarnation_id: Incarnation,
        /// Its name.
        key: TableKey,
        /// The new life's first version.
        pin: Pin,
        /// Rows in it.
        #[serde(with = "crate::json::count")]
        rows: u64,
        /// Its schema.
        schema_hash: String,
        /// Its properties.
        #[serde(with = "crate::json::unique_map", default, skip_serializing_if = "BTreeMap::is_empty")]
        properties: BTreeMap<String, String>,
    },
}

impl Event {
    /// The table it is about.
    pub fn table_id(&self) -> TableId {
        match self {
            Self::Registered { table_id, .. }
            | Self::Written { table_id, .. }
            | Self::HandedOver { table_id, .. }
            | Self::Renamed { table_id, .. }
            | Self::Dropped { table_id, .. }
            | Self::Recreated { table_id, .. } => *table_id,
        }
    }

    /// The version it makes current, where it makes one.
    pub fn pin(&self) -> Option<&Pin> {
        match self {
            Self::Registered { pin, .. } | Self::Written { pin, .. } | Self::Recreated { pin, .. } => Some(pin),
            Self::HandedOver { .. } | Self::Renamed { .. } | Self::Dropped { .. } => None,
        }
    }
}
