//! What a reader sees of a catalog, but for what the rival did.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use headwater_conformance::rows;
use headwater_core::adapter::WriterKind;
use headwater_core::store::Pin;
use headwater_core::{Catalog, Snapshot};

/// The table of the rival that commits meanwhile.
pub(crate) const RIVAL: &str = "rival";

/// Every table's columns and rows, the names of the dropped ones, and the commits that show in neither.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    tables: BTreeMap<String, (String, Vec<String>)>,
    dropped: Vec<String>,
    derived: usize,
}

/// Reads catalogs. The rows of a pin never change, so each is decoded once, however many cells share it.
#[derive(Debug, Default)]
pub(crate) struct Reader(Mutex<BTreeMap<Pin, Vec<String>>>);

impl Reader {
    pub(crate) async fn read(&self, catalog: &Catalog) -> Seen {
        let snapshot = catalog.branch("main").unwrap().snapshot().await.unwrap();
        let mut seen = Seen::default();
        for head in snapshot.tables().filter(|head| head.key.as_str() != RIVAL) {
            seen.tables.insert(head.key.to_string(), (head.schema_hash.clone(), self.rows(&snapshot, head.key.as_str(), &head.pin).await));
        }
        seen.dropped.extend(snapshot.tombstones().await.unwrap().iter().map(|head| head.key.to_string()));
        seen.dropped.sort();
        let log = snapshot.log(usize::MAX).await.unwrap();
        seen.derived = log.iter().filter(|logged| matches!(logged.entry.kind, WriterKind::Optimize | WriterKind::Index)).count();
        seen
    }

    async fn rows(&self, snapshot: &Snapshot, key: &str, pin: &Pin) -> Vec<String> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known().get(pin).cloned();
        if let Some(rows) = found {
            return rows;
        }
        let mut rows = rows::read(snapshot, key).await.unwrap();
        // Commits side by side have no order among them.
        rows.sort();
        known().insert(pin.clone(), rows.clone());
        rows
    }
}
