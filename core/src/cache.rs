//! What stores keep of what they read: bounded by weight, least recently used first out.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Immutable things by the exact identity they were read under.
pub struct Cache<K, V> {
    capacity: u64,
    state: Mutex<State<K, V>>,
}

struct State<K, V> {
    entries: HashMap<K, Entry<V>>,
    by_use: BTreeMap<u64, K>,
    weight: u64,
    clock: u64,
}

struct Entry<V> {
    value: V,
    weight: u64,
    used: u64,
}

impl<K, V> fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Cache<K, V> {
    /// A cache of things whose weights add up to at most `capacity`.
    pub fn new(capacity: u64) -> Self {
        let state = State { entries: HashMap::new(), by_use: BTreeMap::new(), weight: 0, clock: 0 };
        Self { capacity, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was put under exactly this key, if it is there still.
    pub fn get(&self, key: &K) -> Option<V> {
        let mut guard = self.state();
        let state = &mut *guard;
        state.clock += 1;
        let entry = state.entries.get_mut(key)?;
        state.by_use.remove(&entry.used);
        entry.used = state.clock;
        state.by_use.insert(state.clock, key.clone());
        Some(entry.value.clone())
    }

    /// Keeps a value of this weight; one heavier than the whole cache is not kept.
    pub fn put(&self, key: K, value: V, weight: u64) {
        if weight > self.capacity {
            return;
        }
        let mut guard = self.state();
        let state = &mut *guard;
        state.clock += 1;
        let entry = Entry { value, weight, used: state.clock };
        if let Some(before) = state.entries.insert(key.clone(), entry) {
            state.by_use.remove(&before.used);
            state.weight -= before.weight;
        }
        state.weight += weight;
        state.by_use.insert(state.clock, key);
        while state.weight > self.capacity {
            let Some((_, oldest)) = state.by_use.pop_first() else { break };
            if let Some(entry) = state.entries.remove(&oldest) {
                state.weight -= entry.weight;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let cache = Cache::new(100);
        cache.put("a", 1, 50);
        cache.put("b", 2, 50);
        assert_eq!(cache.get(&"a"), Some(1));
        cache.put("c", 3, 40);
        assert_eq!((cache.get(&"a"), cache.get(&"b"), cache.get(&"c")), (Some(1), None, Some(3)));
        cache.put("huge", 4, 101);
        assert_eq!(cache.get(&"huge"), None);
        for _ in 0..10 {
            cache.put("c", 5, 40);
        }
        assert_eq!((cache.get(&"a"), cache.get(&"c")), (Some(1), Some(5)));
    }
}
