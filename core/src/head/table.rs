//! Table heads: the current state of one table, and the tombstones of dropped ones.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::RecordRef;
use crate::error::Result;
use crate::ids::{CommitId, Incarnation, TableId};
use crate::json::{encode, sha256};
use crate::name::{BranchName, TableKey};
use crate::store::{Pin, TableRef};

/// Whether a table can be read. Authoritative: no older version, however large its number, makes a tombstoned table live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableState {
    /// Readable and writable under its key.
    Live,
    /// Dropped. Its key is free; its identity stays taken.
    Tombstoned,
}

/// The current state of one stable table identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableHead {
    /// The stable identity.
    pub table_id: TableId,
    /// The table's present life.
    pub incarnation_id: Incarnation,
    /// The public name (a tombstone's last one).
    pub key: TableKey,
    /// Live or tombstoned.
    pub state: TableState,
    /// The current version (a tombstone's last one).
    pub pin: Pin,
    /// Rows in it.
    #[serde(with = "crate::json::count")]
    pub rows: u64,
    /// See [`crate::schema::schema_hash`].
    pub schema_hash: String,
    /// The commit that made this state.
    pub commit: CommitId,
    /// The branch whose commits wrote the pin.
    pub owner: BranchName,
    /// A few small properties, such as key columns.
    #[serde(with = "crate::json::unique_map", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

impl TableHead {
    /// The table as its store sees it.
    pub fn table(&self) -> TableRef {
        TableRef { id: self.table_id, incarnation: self.incarnation_id }
    }

    /// The columns whose values name a row, at most one each; none for a table without a key. `Corrupt` for a property no build writes.
    pub fn key_columns(&self) -> Result<Vec<String>> {
        match self.properties.get(crate::keys::PROPERTY) {
            None => Ok(Vec::new()),
            Some(names) => crate::json::decode(self.key.as_str(), names.as_bytes()),
        }
    }

    /// The token writers compare: it differs whenever anything of the head does.
    pub fn token(&self) -> Result<HeadToken> {
        // Half a SHA-256 still makes an accidental match impossible, and every entry carries one per table.
        Ok(HeadToken(sha256(&encode(self)?)[..32].to_owned()))
    }
}

/// The exact state of a table head, for read sets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HeadToken(String);

impl fmt::Display for HeadToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A branch's dropped tables: how many, and the newest record of the chain that holds them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tombstones {
    /// Identities that are tombstoned now.
    pub count: u64,
    /// What the last drop or recreate wrote; each record names the one before.
    pub record: Option<RecordRef>,
}

impl Tombstones {
    /// The digest of the newest record; empty where there is none.
    pub fn newest(&self) -> &str {
        self.record.as_ref().map_or("", |record| record.digest.as_str())
    }
}
