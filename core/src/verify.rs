//! Verification: reads everything a catalog's heads reach and compares it with what should be there. Changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::catalog::{Catalog, Inner, catalog_key};
use crate::error::{Error, Result};
use crate::head::{Checkpoint, Entry, Event, Head, StoredBody};
use crate::history::History;
use crate::ids::{Incarnation, TableId, Token};
use crate::lineage::Lineage;
use crate::name::{BranchName, RecordKey};
use crate::store::{Object, Pin};
use crate::tombstones;

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Everything that is not as it should be.
    pub problems: Vec<Problem>,
    /// Objects and control records nothing refers to: what crashed or lost attempts left behind, or what a writer is just staging. Harmless.
    /// Not counted (0) while a branch has a problem, because what lies behind the damage is still referenced.
    pub reclaimable_objects: u64,
    /// Their bytes.
    pub reclaimable_bytes: u64,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub fn ok(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The branch, where it is about one.
    pub branch: Option<BranchName>,
    /// What is wrong, with the object's name.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.branch {
            Some(branch) => write!(f, "branch {branch}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// How far a verification looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Control objects and version objects are read; data files are checked to be there, with the right size.
    Metadata,
    /// Data files are read, too, and their digests compared.
    Data,
}

/// What heads reach.
#[derive(Default)]
struct Reachable {
    records: BTreeSet<RecordKey>,
    pins: BTreeMap<Pin, BranchName>,
    /// What mirrored tables' chains consist of: derived, so that nothing is wrong where one is missing.
    mirrored: BTreeSet<String>,
}

impl Catalog {
    /// Verifies every branch: the whole journal is folded and compared with every checkpoint and with the head (rules 2 to 4, 6, 8, 16), and
    /// everything any retained version reaches must be there. Writers may go on meanwhile. Reads O(history) objects.
    pub async fn verify(&self, depth: Depth) -> Result<VerifyReport> {
        let (catalog, mut problems) = (self.0.as_ref(), Vec::new());
        // Listed before any head is read: what is listed here and reached from no head is referenced by nobody. Listed again afterwards: what
        // a head reaches must be there by then.
        let before = catalog.store.list().await?;
        let records_before = catalog.authority().list_records("").await?;
        let mut reachable = Reachable::default();
        reachable.records.insert(catalog_key());
        for branch in catalog.authority().list_branches().await? {
            let found = |error: Error| Problem { branch: Some(branch.clone()), what: error.to_string() };
            match self.line(&branch).read(catalog).await {
                Ok(view) => problems.extend(journal(catalog, &view.head, &mut reachable).await.map_err(found).err()),
                Err(error) => problems.push(found(error)),
            }
        }
        let after: BTreeMap<String, u64> = catalog.store.list().await?.into_iter().map(|object| (object.path, object.size)).collect();
        let (reached, damaged) = reach(catalog, &reachable.pins).await;
        problems.extend(damaged);
        let mut referenced = std::mem::take(&mut reachable.mirrored);
        for reached in reached {
            problems.extend(check(catalog, &after, &reached, depth).await.map(|what| Problem { branch: None, what }));
            referenced.insert(reached.object.path);
        }
        let mut report = VerifyReport { problems, ..VerifyReport::default() };
        let whole = report.problems.iter().all(|problem| problem.branch.is_none());
        for object in before.iter().filter(|_| whole).filter(|object| !referenced.contains(&object.path)) {
            report.reclaimable_objects += 1;
            report.reclaimable_bytes += object.size;
        }
        for key in records_before.iter().filter(|_| whole).filter(|key| !reachable.records.contains(key)) {
            if let Some((body, _)) = catalog.authority().read_record(key).await? {
                report.reclaimable_objects += 1;
                report.reclaimable_bytes += body.len() as u64;
            }
        }
        report.problems.sort();
        report.problems.dedup();
        Ok(report)
    }
}

async fn check(catalog: &Inner, listed: &BTreeMap<String, u64>, reached: &crate::store::Reached, depth: Depth) -> Option<String> {
    let Object { path, size } = &reached.object;
    match listed.get(path) {
        None => return Some(format!("{path} is missing; restore it, nothing but Headwater may remove objects here")),
        Some(found) if found != size => return Some(format!("{path} has {found} bytes and should have {size}; restore it")),
        Some(_) => {}
    }
    let (Depth::Data, Some(digest)) = (depth, &reached.digest) else { return None };
    match read_digest(catalog, path).await {
        Ok(found) if found == *digest => None,
        Ok(_) => Some(format!("{path} was changed: its digest is another than recorded; restore it")),
        Err(error) => Some(format!("{path} cannot be read: {error}")),
    }
}

async fn read_digest(catalog: &Inner, path: &str) -> Result<String> {
    use futures::TryStreamExt;
    use object_store::ObjectStoreExt;
    use sha2::Digest;
    let mut hash = sha2::Sha256::new();
    let mut stream = catalog.parts.objects.get(&object_store::path::Path::from(path)).await?.into_stream();
    while let Some(bytes) = stream.try_next().await? {
        hash.update(&bytes);
    }
    Ok(crate::json::hex(&hash.finalize()))
}

/// Everything the pins reach. Where something is damaged, pin by pin, so that each damaged one is named.
async fn reach(catalog: &Inner, pins: &BTreeMap<Pin, BranchName>) -> (Vec<crate::store::Reached>, Vec<Problem>) {
    let all: Vec<Pin> = pins.keys().cloned().collect();
    if let Ok(reached) = catalog.store.reach(&all).await {
        return (reached, Vec::new());
    }
    let (mut reached, mut problems) = (Vec::new(), Vec::new());
    for (pin, branch) in pins {
        match catalog.store.reach(std::slice::from_ref(pin)).await {
            Ok(objects) => reached.extend(objects),
            Err(error) => problems.push(Problem { branch: Some(branch.clone()), what: error.to_string() }),
        }
    }
    (reached, problems)
}

/// Folds a branch's whole journal, checking every checkpoint and the head on the way.
async fn journal(catalog: &Inner, head: &Head, reachable: &mut Reachable) -> Result<()> {
    let history = History::new(catalog.authority(), head);
    // Back by the pointers, and then forward through the segments, one in memory at a time.
    let mut pointers = Vec::new();
    let mut next = head.segments.first().cloned();
    while let Some(pointer) = next {
        reachable.records.insert(pointer.key(&head.branch, head.incarnation));
        next = history.segment(&pointer).await?.segments.first().cloned();
        pointers.push(pointer);
    }
    let mut fold = Fold::default();
    for pointer in pointers.iter().rev() {
        let segment = history.segment(pointer).await?;
        for entry in &segment.entries {
            fold.add(catalog, &history, entry, reachable).await?;
        }
        if fold.state != segment.checkpoint {
            return Err(Error::corrupt(&head.branch, format!("the checkpoint of segment {} is not what the journal says", segment.number)));
        }
    }
    for entry in &head.tail {
        fold.add(catalog, &history, entry, reachable).await?;
    }
    if fold.state != head.checkpoint() {
        return Err(Error::corrupt(&head.branch, "the head's tables are not what the journal says"));
    }
    let (_, keys) = tombstones::read_all(catalog.authority(), &head.tombstones).await?;
    reachable.records.extend(keys);
    Ok(())
}

/// A journal up to some entry.
#[derive(Default)]
struct Fold {
    state: Checkpoint,
    tokens: BTreeSet<Token>,
    dead: Dead,
}

impl Fold {
    async fn add(&mut self, catalog: &Inner, history: &History<'_>, entry: &Entry, reachable: &mut Reachable) -> Result<()> {
        let at = |error: Error| error.at("seq", entry.seq);
        if !self.tokens.insert(entry.token.clone()) {
            return Err(at(Error::corrupt(&entry.token, "the token names two commits")));
        }
        if let StoredBody::Record(pointer) = &entry.body {
            reachable.records.insert(pointer.key.clone());
        }
        let body = history.body(entry).await.map_err(at)?;
        if !body.reads.hold(&self.state.tables, &self.state.tombstones)? {
            return Err(at(Error::corrupt(entry.commit, "the commit's read set is not the state before it")));
        }
        history.apply(&mut self.state, entry, &body).map_err(at)?;
        for event in &body.events {
            if !self.dead.allow(event) {
                return Err(at(Error::corrupt(event.table_id(), "the table's identity begins or ends a life it cannot")));
            }
            if let (Some(pin), Some(head)) = (event.pin(), self.state.tables.by_id(event.table_id())) {
                reachable.pins.entry(pin.clone()).or_insert_with(|| head.owner.clone());
            }
            if let Some(head) = self.state.tables.by_id(event.table_id())
                && let (Lineage::Mirrored, Some(chain)) = (head.lineage()?, catalog.store.mirror())
            {
                reachable.mirrored.insert(chain.path(head.table(), entry.seq));
            }
        }
        Ok(())
    }
}

/// Identities that are not live, each with its last life (rule 16). What is live, the heads themselves know.
#[derive(Default)]
struct Dead(BTreeMap<TableId, Incarnation>);

impl Dead {
    /// Whether an identity that was there before lives again only by a recreate of its last life.
    fn allow(&mut self, event: &Event) -> bool {
        match event {
            Event::Registered { table_id, .. } => !self.0.contains_key(table_id),
            Event::Recreated { table_id, previous, .. } => self.0.remove(table_id) == Some(*previous),
            Event::Dropped { table_id, incarnation_id, .. } => self.0.insert(*table_id, *incarnation_id).is_none(),
            Event::Written { .. } | Event::HandedOver { .. } | Event::Renamed { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Pin;

    #[test]
    fn an_identity_lives_again_only_by_a_recreate_of_its_last_life() {
        let (id, other) = (TableId(ulid::Ulid(1)), TableId(ulid::Ulid(2)));
        let [first, second] = [1, 2].map(|n| Incarnation(ulid::Ulid(n)));
        let pin = Pin { path: "data/x".to_owned(), size: 1, id: "x".to_owned() };
        let registered = |table_id, incarnation_id| Event::Registered {
            table_id,
            incarnation_id,
            key: "t".parse().unwrap(),
            pin: pin.clone(),
            rows: 0,
            schema_hash: String::new(),
            properties: BTreeMap::new(),
        };
        let recreated = |previous| Event::Recreated {
            table_id: id,
            incarnation_id: second,
            previous,
            key: "t".parse().unwrap(),
            pin: pin.clone(),
            rows: 0,
            schema_hash: String::new(),
            properties: BTreeMap::new(),
        };
        let dropped = |incarnation_id| Event::Dropped { table_id: id, incarnation_id, key: "t".parse().unwrap() };
        let allows = |events: &[Event]| {
            let mut dead = Dead::default();
            events.iter().all(|event| dead.allow(event))
        };
        assert!(allows(&[registered(id, first), dropped(first), registered(other, first), recreated(first), dropped(second)]));
        assert!(!allows(&[registered(id, first), dropped(first), registered(id, second)]), "registered again");
        assert!(!allows(&[registered(id, first), dropped(first), recreated(second)]), "another life than the last");
        assert!(!allows(&[registered(id, first), recreated(first)]), "never dropped");
        assert!(!allows(&[registered(id, first), dropped(first), dropped(first)]), "dropped twice");
    }
}
