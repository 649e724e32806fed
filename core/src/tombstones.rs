//! Dropped tables: a chain of records, newest first, so that a drop costs the same however many came before.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::authority::ControlAuthority;
use crate::error::{Error, Result};
use crate::head::{RecordRef, TableHead, TableState, Tombstones};
use crate::ids::{Mint, TableId};
use crate::json::encode;
use crate::name::{BranchName, RecordKey, RecordKind};
use crate::records::{put_unique, read_ref};

/// What one commit added to and took from the tombstones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    /// Tables dropped by the commit.
    dropped: Vec<TableHead>,
    /// Identities recreated by it.
    recreated: Vec<TableId>,
    /// Tombstones after it.
    count: u64,
    /// The link before.
    previous: Option<RecordRef>,
}

/// Writes the link for what a commit dropped and recreated. 1 request.
pub(crate) async fn extend(
    authority: &dyn ControlAuthority,
    mint: &Mint,
    branch: &BranchName,
    before: &Tombstones,
    dropped: Vec<TableHead>,
    recreated: Vec<TableId>,
) -> Result<Tombstones> {
    let after = before.count + dropped.len() as u64;
    let count =
        after.checked_sub(recreated.len() as u64).ok_or_else(|| Error::corrupt(branch, "more tables are recreated than were dropped"))?;
    let key = RecordKey::new(RecordKind::Tombstones, [branch.as_str(), &mint.name()]);
    let link = Link { dropped, recreated, count, previous: before.record.clone() };
    Ok(Tombstones { count, record: Some(put_unique(authority, key, encode(&link)?).await?) })
}

/// Every tombstone, newest first, and the records that hold them. 1 request per drop or recreate ever made; only explicit operations ask.
pub(crate) async fn read_all(authority: &dyn ControlAuthority, tombstones: &Tombstones) -> Result<(Vec<TableHead>, Vec<RecordKey>)> {
    let (mut heads, mut keys) = (Vec::new(), Vec::new());
    // An identity whose newest event was seen already: what older links say of it is history.
    let mut settled = BTreeSet::new();
    let (mut next, mut expected) = (tombstones.record.clone(), tombstones.count);
    while let Some(pointer) = next {
        let link: Link = read_ref(authority, &pointer).await?;
        let before = (expected + link.recreated.len() as u64).checked_sub(link.dropped.len() as u64);
        let (Some(before), true) = (before, link.count == expected) else {
            return Err(Error::corrupt(&pointer.key, "the tombstone record's count does not fit the chain"));
        };
        for head in link.dropped.iter().rev() {
            if head.state != TableState::Tombstoned {
                return Err(Error::corrupt(
                    &pointer.key,
                    format!("the table {} is among the tombstones and is not tombstoned", head.table_id),
                ));
            }
            if settled.insert(head.table_id) {
                heads.push(head.clone());
            }
        }
        settled.extend(link.recreated);
        keys.push(pointer.key);
        (next, expected) = (link.previous, before);
    }
    if expected != 0 || heads.len() as u64 != tombstones.count {
        return Err(Error::corrupt("tombstones", format!("{} tombstones are announced and {} are there", tombstones.count, heads.len())));
    }
    Ok((heads, keys))
}
