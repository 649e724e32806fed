//! What a reader sees of a catalog's `main`, without anything minted.

use std::collections::BTreeMap;

use headwater_core::Catalog;

use crate::rows;

/// Every table's columns and rows, the names of the dropped ones, and the number of commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    seq: u64,
    tables: BTreeMap<String, (String, Vec<String>)>,
    dropped: Vec<String>,
}

impl State {
    /// Reads it.
    pub async fn read(catalog: &Catalog) -> Self {
        let snapshot = catalog.branch("main").unwrap().snapshot().await.unwrap();
        let mut tables = BTreeMap::new();
        for head in snapshot.tables() {
            let mut rows = rows::read(&snapshot, head.key.as_str()).await.unwrap();
            assert_eq!(rows.len() as u64, head.rows, "the head of {} counts its rows", head.key);
            // Commits side by side have no order among them.
            rows.sort();
            tables.insert(head.key.to_string(), (head.schema_hash.clone(), rows));
        }
        let mut dropped: Vec<String> = snapshot.tombstones().await.unwrap().iter().map(|head| head.key.to_string()).collect();
        dropped.sort();
        Self { seq: snapshot.seq(), tables, dropped }
    }

    /// The number of commits.
    pub fn seq(&self) -> u64 {
        self.seq
    }
}
