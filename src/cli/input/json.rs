//! One JSON value at a time, its numbers still in their own digits.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// What a JSON value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Boolean,
    Number,
    Text,
    Array,
    Object,
}

/// What this value is. Its syntax was checked when it was read.
pub(super) fn kind(json: &RawValue) -> Kind {
    match json.get().as_bytes().first() {
        Some(b'n') => Kind::Null,
        Some(b't' | b'f') => Kind::Boolean,
        Some(b'"') => Kind::Text,
        Some(b'[') => Kind::Array,
        Some(b'{') => Kind::Object,
        _ => Kind::Number,
    }
}

/// A string's text, and a number's or boolean's own spelling.
pub(super) fn text_of(json: &RawValue) -> Option<Cow<'_, str>> {
    match kind(json) {
        Kind::Text => match json.get().strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(plain) if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
            _ => serde_json::from_str::<String>(json.get()).ok().map(Cow::Owned),
        },
        Kind::Number | Kind::Boolean => Some(Cow::Borrowed(json.get())),
        Kind::Null | Kind::Array | Kind::Object => None,
    }
}

/// The elements of an array.
pub(super) fn elements(json: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(json.get()).ok()
}

/// The members of an object, in their order. A key that stands twice is refused: one of the two values would be lost.
pub(super) fn members(json: &str) -> Result<Vec<(String, &RawValue)>, serde_json::Error> {
    serde_json::from_str::<Members<'_>>(json).map(|members| members.0)
}

struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(String, &'de RawValue)> = Vec::new();
                let mut names = HashSet::new();
                while let Some(name) = access.next_key::<String>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format!("the key {name:?} stands twice in one object")));
                    }
                    members.push((name, access.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}
