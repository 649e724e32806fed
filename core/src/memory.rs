//! The reference authority: a map behind a lock. For tests and simulation; it lives as long as the process.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use object_store::ObjectStore;
use object_store::memory::InMemory;

use crate::authority::{Capability, ControlAuthority, Create, Expected, Finding, HeadRead, Swap, Tag};
use crate::error::Result;
use crate::name::{BranchName, RecordKey};
use crate::registry::{Backend, Location, OpenedBackend, Part, Registration};

/// Heads and records in memory.
#[derive(Debug, Default)]
pub struct MemoryAuthority(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    heads: BTreeMap<BranchName, (Bytes, Tag)>,
    records: BTreeMap<RecordKey, (Bytes, Tag)>,
    writes: u64,
}

impl State {
    fn tag(&mut self) -> Tag {
        self.writes += 1;
        Tag::new(self.writes.to_string())
    }
}

impl MemoryAuthority {
    /// An empty authority.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, and every change is one insert.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ControlAuthority for MemoryAuthority {
    fn capability(&self) -> Capability {
        Capability { power_safe: false, multi_host: false, list_is_strong: true, writes_per_second_per_key: None }
    }

    /// Nothing: what this authority promises does not depend on where it runs.
    async fn probe(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    /// Nothing: there are no settings.
    async fn inspect(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    async fn read_head(&self, branch: &BranchName, known: Option<&Tag>) -> Result<HeadRead> {
        Ok(match self.state().heads.get(branch) {
            None => HeadRead::Absent,
            Some((_, tag)) if known == Some(tag) => HeadRead::Unchanged,
            Some((body, tag)) => HeadRead::Found(body.clone(), tag.clone()),
        })
    }

    async fn swap_head(&self, branch: &BranchName, expected: Expected<'_>, body: Bytes) -> Result<Swap> {
        let mut state = self.state();
        let matches = match (state.heads.get(branch), expected) {
            (None, Expected::Absent) => true,
            (Some((_, tag)), Expected::Tag(expected)) => tag == expected,
            _ => false,
        };
        if !matches {
            return Ok(Swap::Conflict);
        }
        let tag = state.tag();
        state.heads.insert(branch.clone(), (body, tag.clone()));
        Ok(Swap::Swapped(tag))
    }

    async fn list_branches(&self) -> Result<Vec<BranchName>> {
        Ok(self.state().heads.keys().cloned().collect())
    }

    async fn create_record(&self, key: &RecordKey, body: Bytes) -> Result<Create> {
        let mut state = self.state();
        if state.records.contains_key(key) {
            return Ok(Create::Exists);
        }
        let tag = state.tag();
        state.records.insert(key.clone(), (body, tag));
        Ok(Create::Created)
    }

    async fn read_record(&self, key: &RecordKey) -> Result<Option<(Bytes, Tag)>> {
        Ok(self.state().records.get(key).cloned())
    }

    async fn swap_record(&self, key: &RecordKey, expected: &Tag, body: Bytes) -> Result<Swap> {
        let mut state = self.state();
        if state.records.get(key).is_none_or(|(_, tag)| tag != expected) {
            return Ok(Swap::Conflict);
        }
        let tag = state.tag();
        state.records.insert(key.clone(), (body, tag.clone()));
        Ok(Swap::Swapped(tag))
    }

    async fn list_records(&self, prefix: &str) -> Result<Vec<RecordKey>> {
        let below = |key: &&RecordKey| prefix.is_empty() || key.as_str().strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
        Ok(self.state().records.keys().filter(below).cloned().collect())
    }

    async fn remove_record(&self, key: &RecordKey) -> Result<()> {
        self.state().records.remove(key);
        Ok(())
    }
}

/// Catalogs opened by `memory://NAME`: one name is one catalog for the life of the process; `memory://` alone is a new one each time.
fn open(location: &Location) -> Result<OpenedBackend> {
    static NAMED: OnceLock<Mutex<HashMap<String, OpenedBackend>>> = OnceLock::new();
    location.options.finish()?;
    let fresh =
        || OpenedBackend { authority: Arc::new(MemoryAuthority::new()), objects: Arc::new(InMemory::new()) as Arc<dyn ObjectStore> };
    let name = location.url.as_str().trim_start_matches("memory:").trim_matches('/').to_owned();
    if name.is_empty() {
        return Ok(fresh());
    }
    let mut named = NAMED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    Ok(named.entry(name).or_insert_with(fresh).clone())
}

/// This backend's entry in the registry.
pub static REGISTRATION: Registration = Registration {
    name: "memory",
    part: Part::Backend(Backend { schemes: &["memory"], open, summary: "in this process's memory; gone when it ends" }),
};
inventory::submit!(&REGISTRATION);
