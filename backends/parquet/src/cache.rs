//! A bounded cache of parsed version objects: least recently used first out.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use headwater_core::store::Pin;

use crate::version::Version;

/// Parsed version objects by whole pin: an entry is found only for exactly the path, size and digest it was read under.
#[derive(Debug)]
pub(crate) struct Cache {
    capacity: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Pin, (Arc<Version>, u64)>,
    by_use: BTreeMap<u64, Pin>,
    bytes: u64,
    clock: u64,
}

impl Cache {
    /// A cache of objects whose sizes add up to at most `capacity` bytes.
    pub(crate) fn new(capacity: u64) -> Self {
        Self { capacity, state: Mutex::default() }
    }

    pub(crate) fn get(&self, pin: &Pin) -> Option<Arc<Version>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = state.tick();
        let (version, used) = state.entries.get_mut(pin)?;
        let (version, before) = (version.clone(), std::mem::replace(used, now));
        state.by_use.remove(&before);
        state.by_use.insert(now, pin.clone());
        Some(version)
    }

    pub(crate) fn put(&self, pin: Pin, version: Arc<Version>) {
        if pin.size > self.capacity {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = state.tick();
        state.bytes += pin.size;
        if let Some((_, before)) = state.entries.insert(pin.clone(), (version, now)) {
            state.by_use.remove(&before);
            state.bytes -= pin.size;
        }
        state.by_use.insert(now, pin);
        while state.bytes > self.capacity {
            let Some((_, oldest)) = state.by_use.pop_first() else { break };
            state.entries.remove(&oldest);
            state.bytes -= oldest.size;
        }
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    fn pin(name: &str, size: u64) -> Pin {
        Pin { path: name.into(), size, id: "sha256:0".into() }
    }

    #[test]
    fn the_least_recently_used_goes_first_and_a_pin_must_match_whole() {
        let version = Arc::new(Version::empty(Arc::new(Schema::new(vec![Field::new("a", DataType::Int8, true)]))));
        let cache = Cache::new(100);
        for name in ["a", "b"] {
            cache.put(pin(name, 50), version.clone());
        }
        assert!(cache.get(&pin("a", 50)).is_some());
        cache.put(pin("c", 40), version.clone());
        assert!(cache.get(&pin("a", 50)).is_some());
        assert!(cache.get(&pin("b", 50)).is_none());
        assert!(cache.get(&pin("c", 41)).is_none());
        cache.put(pin("huge", 101), version.clone());
        assert!(cache.get(&pin("huge", 101)).is_none());
        for _ in 0..10 {
            cache.put(pin("c", 40), version.clone());
        }
        assert!(cache.get(&pin("a", 50)).is_some());
    }
}
