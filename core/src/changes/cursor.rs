//! A place in a branch's history, in a text that a program keeps.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::ids::{CatalogId, CommitId};
use crate::name::BranchName;

/// What every cursor's text begins with; another meaning of the rest would get another number.
const PREFIX: &str = "hw1";

/// Names one state of one branch of one catalog, for ever: keep its text, and ask for the changes since then with it later, from any
/// process. It holds nothing in place; where the state has been given up since, it says so ([`crate::ErrorKind::SnapshotExpired`]).
///
/// Its text is `hw1:CATALOG:SEQ:COMMIT:BRANCH`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cursor {
    /// The catalog.
    pub catalog: CatalogId,
    /// The branch.
    pub branch: BranchName,
    /// After this many commits.
    pub seq: u64,
    /// The last of them: a history that was replaced has others. `None` before the first.
    pub commit: Option<CommitId>,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}:{}:{}:", self.catalog, self.seq)?;
        match &self.commit {
            Some(commit) => write!(f, "{commit}:{}", self.branch),
            None => write!(f, "-:{}", self.branch),
        }
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = || {
            // A branch's name comes last: it may hold anything.
            let mut parts = text.splitn(5, ':');
            let (prefix, catalog, seq) = (parts.next()?, parts.next()?, parts.next()?);
            let (commit, branch) = (parts.next()?, parts.next()?);
            let commit = if commit == "-" { None } else { Some(commit.parse().ok()?) };
            let seq: u64 = seq.parse().ok()?;
            let fits = prefix == PREFIX && commit.is_none() == (seq == 0);
            fits.then_some(Self { catalog: catalog.parse().ok()?, branch: branch.parse().ok()?, seq, commit })
        };
        // One state has one text.
        parsed().filter(|cursor| cursor.to_string() == text).ok_or_else(|| {
            Error::invalid(format!("{text:?} is not a cursor ({PREFIX}:CATALOG:SEQ:COMMIT:BRANCH); give back the text as it was given out"))
        })
    }
}

impl TryFrom<String> for Cursor {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Cursor> for String {
    fn from(cursor: Cursor) -> Self {
        cursor.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_one_text() {
        let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        for text in [format!("hw1:{id}:12:{id}:main"), format!("hw1:{id}:0:-:a: b:"), format!("hw1:{id}:1:{id}:é")] {
            let cursor: Cursor = text.parse().unwrap();
            assert_eq!(cursor.to_string(), text);
            assert_eq!(serde_json::from_str::<Cursor>(&serde_json::to_string(&cursor).unwrap()).unwrap(), cursor);
        }
        for text in [
            String::new(),
            "12".to_owned(),
            format!("hw2:{id}:12:{id}:main"),
            format!("hw1:{id}:12:{id}"),
            format!("hw1:{id}:12:{id}:"),
            format!("hw1:{id}:012:{id}:main"),
            format!("hw1:{id}:+12:{id}:main"),
            format!("hw1:{id}:12:-:main"),
            format!("hw1:{id}:0:{id}:main"),
            format!("hw1:{}:12:{id}:main", id.to_lowercase()),
            format!(" hw1:{id}:12:{id}:main"),
        ] {
            let error = text.parse::<Cursor>().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::InvalidInput, "{text}");
        }
    }
}
