//! Names people choose, and the one place that encodes them into object keys.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The longest name, in bytes: its encoded form stays a legal file name where every byte becomes three.
pub const MAX_NAME_BYTES: usize = 80;

fn check(kind: &str, text: &str) -> Result<()> {
    let problem = if text.trim().is_empty() {
        "is empty or only spaces"
    } else if text.trim() != text {
        "starts or ends with a space"
    } else if text.len() > MAX_NAME_BYTES {
        "is longer than 80 bytes"
    } else if text.contains(['/', '\\']) {
        "contains a slash"
    } else if text.chars().any(char::is_control) {
        "contains a control character"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("the {kind} {text:?} {problem}; choose another name")))
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                check($kind, text)?;
                Ok(Self(text.to_owned()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;
            fn try_from(text: String) -> Result<Self> {
                check($kind, &text)?;
                Ok(Self(text))
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    };
}

name!(
    /// A branch's name: 1 to 80 bytes, no slash, no control character, no space at either end. Case counts.
    BranchName,
    "branch name"
);
name!(
    /// A table's public name, unique among a branch's live tables. Same rules as [`BranchName`]; no two spellings are the same name.
    TableKey,
    "table name"
);

/// Upper case is encoded too: on a file system that ignores case, `Main` and `main` must stay two objects.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// One path segment of an object key for any name: only lower-case letters, digits, `-`, `_`, `.` and `%XX`.
pub fn encode_segment(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for (i, part) in percent_encode(name.as_bytes(), PLAIN).to_string().split('%').enumerate() {
        // Behind a '%' stand two hexadecimal digits that must stay as they are.
        let (hex, rest) = part.split_at(if i == 0 { 0 } else { 2 });
        if i > 0 {
            out.push('%');
            out.push_str(hex);
        }
        for c in rest.chars() {
            if c.is_ascii_uppercase() { out.push_str(&format!("%{:02X}", c as u32)) } else { out.push(c) }
        }
    }
    // "." and ".." are names of directories, and a leading dot hides a file.
    if let Some(rest) = out.strip_prefix('.') { format!("%2E{rest}") } else { out }
}

/// The name behind an encoded segment; refuses what [`encode_segment`] cannot have made.
pub fn decode_segment(segment: &str) -> Result<String> {
    let name = percent_decode_str(segment).decode_utf8().map_err(|_| Error::corrupt(segment, "the object's name is not UTF-8"))?;
    if encode_segment(&name) == segment {
        Ok(name.into_owned())
    } else {
        Err(Error::corrupt(segment, "the object's name is not one this catalog makes"))
    }
}

/// What a control record is for. The first segment of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// The catalog record: format, identity, store kind.
    Catalog,
    /// A spilled piece of a journal.
    Segment,
    /// Tombstoned table heads.
    Tombstones,
    /// The body of a journal entry too large for the head.
    Entry,
}

impl RecordKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Catalog, Self::Segment, Self::Tombstones, Self::Entry];

    /// The kind's key segment.
    pub fn name(self) -> &'static str {
        match self {
            Self::Catalog => "catalog",
            Self::Segment => "segment",
            Self::Tombstones => "tombstones",
            Self::Entry => "entry",
        }
    }
}

/// The key of a control record: encoded segments joined by `/`, the first of them a [`RecordKind`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RecordKey(String);

impl RecordKey {
    /// The key of this kind with these parts, each any text.
    pub fn new<'a>(kind: RecordKind, parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut key = kind.name().to_owned();
        for part in parts {
            key.push('/');
            key.push_str(&encode_segment(part));
        }
        Self(key)
    }

    /// The encoded key, safe as a relative path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for RecordKey {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        let mut segments = text.split('/');
        let kind = segments.next().unwrap_or_default();
        if !RecordKind::ALL.iter().any(|known| known.name() == kind) {
            return Err(Error::corrupt(&text, "the record's kind is not known to this build"));
        }
        for segment in segments {
            if segment.is_empty() {
                return Err(Error::corrupt(&text, "the record's key has an empty part"));
            }
            decode_segment(segment)?;
        }
        Ok(Self(text))
    }
}

impl From<RecordKey> for String {
    fn from(key: RecordKey) -> String {
        key.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_stay_distinct_and_round_trip() {
        let names =
            ["main", "Main", "MAIN", "a b", "a%20b", "ä", "a\u{308}", "..", ".", "%2E", "quote\"", "it's", "日本", "a:b", "CON", "100%"];
        let mut seen = std::collections::BTreeSet::new();
        for name in names {
            let segment = encode_segment(name);
            assert_eq!(decode_segment(&segment).unwrap(), name);
            assert!(!segment.contains('/') && !segment.starts_with('.'), "{segment}");
            assert!(seen.insert(segment.to_ascii_lowercase()), "{name} collides on a file system that ignores case");
        }
    }

    #[test]
    fn bad_names_are_refused() {
        for name in ["", " ", "\t", "a/b", "a\\b", " a", "a ", "a\nb", &"x".repeat(81)] {
            let error = name.parse::<TableKey>().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::InvalidInput, "{name:?}");
        }
    }
}
