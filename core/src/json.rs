//! How control objects are written: compact JSON that any tool can read, with a digest of its own.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The largest number that every JSON tool reads exactly.
pub const EXACT: u64 = 1 << 53;

/// SHA-256 in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        // Writing to a String does not fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Compact JSON.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|source| Error::invalid("the object cannot be written as JSON").because(source))
}

/// Reads JSON strictly; `object` names it in the error.
pub fn decode<T: DeserializeOwned>(object: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|source| Error::corrupt(object, "the object is not what it should be").because(source))
}

/// A control object that carries a digest over itself: SHA-256 of its compact JSON, fields in the order of docs/format.md, while the
/// digest field is empty. Any tool may re-indent or reorder the object; a changed value, a missing or a doubled field is found.
pub trait Sealed: Serialize + DeserializeOwned + Clone {
    /// The digest field.
    fn digest_mut(&mut self) -> &mut String;

    /// The object's bytes, with its digest set.
    fn seal(&mut self) -> Result<Vec<u8>> {
        self.digest_mut().clear();
        let digest = sha256(&encode(self)?);
        *self.digest_mut() = digest;
        encode(self)
    }

    /// Reads the object and checks its digest.
    fn open(object: &str, bytes: &[u8]) -> Result<Self> {
        let mut value: Self = decode(object, bytes)?;
        let claimed = std::mem::take(value.digest_mut());
        let actual = sha256(&encode(&value)?);
        if claimed != actual {
            return Err(Error::corrupt(object, "the object's digest does not match its content; it was changed or damaged"));
        }
        *value.digest_mut() = claimed;
        Ok(value)
    }
}

/// Counts as JSON numbers up to 2^53, which every tool reads exactly, and as decimal text above.
pub mod count {
    use serde::de::{Error, Unexpected, Visitor};
    use serde::{Deserializer, Serializer};

    use super::EXACT;

    /// Writes a count.
    pub fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        if *value <= EXACT { serializer.serialize_u64(*value) } else { serializer.collect_str(value) }
    }

    /// Reads a count.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        struct Count;
        impl Visitor<'_> for Count {
            type Value = u64;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a count: a number up to 2^53, or decimal text above")
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<u64, E> {
                if value <= EXACT { Ok(value) } else { Err(E::invalid_value(Unexpected::Unsigned(value), &self)) }
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
                match text.parse() {
                    Ok(value) if value > EXACT && u64::to_string(&value) == text => Ok(value),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(Count)
    }
}

/// A map whose keys may stand only once in the JSON object.
pub mod unique_map {
    use std::collections::BTreeMap;
    use std::fmt;

    use serde::de::{Error, MapAccess, Visitor};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes a map, keys in order.
    pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(map: &BTreeMap<K, V>, serializer: S) -> Result<S::Ok, S::Error> {
        map.serialize(serializer)
    }

    /// Reads a map; a doubled key is an error, not a silent replacement.
    pub fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        struct Unique<K, V>(std::marker::PhantomData<(K, V)>);
        impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>> Visitor<'de> for Unique<K, V> {
            type Value = BTreeMap<K, V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with distinct keys")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
                let mut map = BTreeMap::new();
                while let Some((key, value)) = access.next_entry()? {
                    if map.insert(key, value).is_some() {
                        return Err(A::Error::custom("a key stands twice in one object"));
                    }
                }
                Ok(map)
            }
        }
        deserializer.deserialize_map(Unique(std::marker::PhantomData))
    }
}
