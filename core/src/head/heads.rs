//! The live table heads of a branch, as one checked value.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{TableHead, TableState};
use crate::error::Result;
use crate::ids::TableId;
use crate::json::{encode, sha256};
use crate::name::TableKey;

/// The live table heads: one per stable identity, each key once. Read and written with their count, their digest and the schema identity,
/// all of which are checked on every read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Heads {
    live: BTreeMap<TableId, TableHead>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    count: u64,
    digest: String,
    schema: String,
    heads: Vec<TableHead>,
}

impl Heads {
    /// The table of that name.
    pub fn by_key(&self, key: &TableKey) -> Option<&TableHead> {
        self.live.values().find(|head| head.key == *key)
    }

    /// The table of that identity.
    pub fn by_id(&self, id: TableId) -> Option<&TableHead> {
        self.live.get(&id)
    }

    /// All, in order of their identities.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &TableHead> {
        self.live.values()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Identifies the accepted schema of the branch: which tables exist, under which names, with which columns.
    pub fn schema_identity(&self) -> Result<String> {
        let parts: Vec<_> = self.live.values().map(|head| (head.table_id, head.incarnation_id, &head.key, &head.schema_hash)).collect();
        Ok(sha256(&encode(&parts)?))
    }

    pub(super) fn insert(&mut self, head: TableHead) {
        self.live.insert(head.table_id, head);
    }

    pub(super) fn remove(&mut self, id: TableId) -> Option<TableHead> {
        self.live.remove(&id)
    }
}

impl From<Heads> for Wire {
    fn from(heads: Heads) -> Self {
        let schema = heads.schema_identity().unwrap_or_default();
        let heads: Vec<TableHead> = heads.live.into_values().collect();
        // Heads are plain data: writing them as JSON does not fail, and an empty digest would be refused by every reader.
        let digest = encode(&heads).map(|bytes| sha256(&bytes)).unwrap_or_default();
        Self { count: heads.len() as u64, digest, schema, heads }
    }
}

impl TryFrom<Wire> for Heads {
    type Error = String;

    fn try_from(wire: Wire) -> Result<Self, String> {
        if wire.count != wire.heads.len() as u64 {
            return Err(format!("{} live table heads are announced and {} are there", wire.count, wire.heads.len()));
        }
        if encode(&wire.heads).map(|bytes| sha256(&bytes)).ok().as_deref() != Some(&wire.digest) {
            return Err("the digest of the live table heads does not match".to_owned());
        }
        let mut heads = Self::default();
        for head in wire.heads {
            if head.state != TableState::Live {
                return Err(format!("the table {} is among the live ones and is not live", head.table_id));
            }
            if heads.by_key(&head.key).is_some() {
                return Err(format!("two live tables are named {:?}", head.key.as_str()));
            }
            if heads.live.last_key_value().is_some_and(|(last, _)| *last >= head.table_id) {
                return Err(format!("the table {} stands twice or out of order", head.table_id));
            }
            heads.insert(head);
        }
        if heads.schema_identity().ok().as_deref() != Some(&wire.schema) {
            return Err("the schema identity does not match the live table heads".to_owned());
        }
        Ok(heads)
    }
}
