//! The shape of a control object: its text without the digits of its counters, and those digits by place.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The shape of one control object.
#[derive(Debug)]
pub struct Shape {
    /// Its size.
    pub bytes: usize,
    /// Bytes that are no number's.
    pub without_numbers: usize,
    /// Every number, as it is written, by its path.
    pub counters: BTreeMap<String, String>,
}

impl Shape {
    /// Takes it from a JSON text. Panics where it is none.
    pub fn of(bytes: &[u8]) -> Self {
        Self::parse(bytes).unwrap()
    }

    /// Takes it from a JSON text.
    pub fn parse(bytes: &[u8]) -> serde_json::Result<Self> {
        let value: Value = serde_json::from_slice(bytes)?;
        let mut counters = BTreeMap::new();
        visit(&value, String::new(), &mut counters);
        let digits: usize = counters.values().map(String::len).sum();
        Ok(Self { bytes: bytes.len(), without_numbers: bytes.len() - digits, counters })
    }

    /// The counters there are, places in lists left out.
    pub fn names(&self) -> String {
        let plain = self.counters.keys().map(|path| path.split('/').filter(|part| part.parse::<u64>().is_err()).collect::<Vec<_>>());
        let names: BTreeSet<String> = plain.map(|parts| parts.join(".")).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    }
}

fn visit(value: &Value, path: String, counters: &mut BTreeMap<String, String>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
    match value {
        Value::Number(number) => {
            counters.insert(path, number.to_string());
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(i, item)| visit(item, below(&i.to_string()), counters)),
        Value::Object(fields) => fields.iter().for_each(|(name, field)| visit(field, below(name), counters)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}
