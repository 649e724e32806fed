//! Which object is which head or record, and back.
//!
//! Below the prefix: `_headwater/heads/<branch>.json`, `_headwater/records/<key>.json`, and `_headwater/probe/<unique>/` while a probe
//! runs. Names are encoded already (core), so a key needs no escaping here.

use headwater_core::name::{BranchName, RecordKey, decode_segment, encode_segment};
use headwater_core::{Error, Result};

const SUFFIX: &str = ".json";

/// The keys below one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    control: String,
}

impl Layout {
    /// The layout below this prefix, which has no slash at either end.
    pub(crate) fn new(prefix: &str) -> Self {
        let slash = if prefix.is_empty() { "" } else { "/" };
        Self { control: format!("{prefix}{slash}_headwater/") }
    }

    pub(crate) fn heads(&self) -> String {
        format!("{}heads/", self.control)
    }

    pub(crate) fn head(&self, branch: &BranchName) -> String {
        format!("{}{}{SUFFIX}", self.heads(), encode_segment(branch.as_str()))
    }

    /// The branch whose head has this key.
    pub(crate) fn branch(&self, key: &str) -> Result<BranchName> {
        let corrupt = || Error::corrupt(key, "the object's name is not that of any branch's head; move it away");
        let stem = key.strip_prefix(&self.heads()).and_then(|name| name.strip_suffix(SUFFIX)).ok_or_else(corrupt)?;
        decode_segment(stem).and_then(|name| name.parse()).map_err(|source: Error| corrupt().because(source))
    }

    fn records_root(&self) -> String {
        format!("{}records/", self.control)
    }

    pub(crate) fn record(&self, key: &RecordKey) -> String {
        format!("{}{key}{SUFFIX}", self.records_root())
    }

    /// The prefix of the keys of the records below `prefix`, a prefix of whole segments; `None` for one no key can have.
    pub(crate) fn records(&self, prefix: &str) -> Option<String> {
        if prefix.is_empty() {
            return Some(self.records_root());
        }
        let possible = prefix.split('/').all(|segment| !segment.is_empty() && decode_segment(segment).is_ok());
        possible.then(|| format!("{}{prefix}/", self.records_root()))
    }

    /// The record that has this key.
    pub(crate) fn record_key(&self, key: &str) -> Result<RecordKey> {
        let corrupt = || Error::corrupt(key, "the object's name is not that of any record; move it away");
        let stem = key.strip_prefix(&self.records_root()).and_then(|name| name.strip_suffix(SUFFIX)).ok_or_else(corrupt)?;
        RecordKey::try_from(stem.to_owned()).map_err(|source| corrupt().because(source))
    }

    pub(crate) fn probe(&self, unique: &str) -> String {
        format!("{}probe/{unique}/", self.control)
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::ErrorKind;
    use headwater_core::name::RecordKind;

    use super::*;

    #[test]
    fn names_go_round_below_any_prefix() {
        for prefix in ["", "lake", "a/b c/ü%"] {
            let layout = Layout::new(prefix);
            for name in ["main", "Main", "a b", "100%", "日本", "x.json", ".."] {
                let branch: BranchName = name.parse().unwrap();
                assert_eq!(layout.branch(&layout.head(&branch)).unwrap(), branch);
                let key = RecordKey::new(RecordKind::Segment, [name, "1"]);
                assert_eq!(layout.record_key(&layout.record(&key)).unwrap(), key);
                assert!(layout.record(&key).starts_with(&layout.records("segment").unwrap()));
                assert!(layout.record(&key).starts_with(&layout.records("").unwrap()));
            }
        }
        assert_eq!(Layout::new("lake").head(&"main".parse().unwrap()), "lake/_headwater/heads/main.json");
        for impossible in ["/", "a/", "/a", "a//b", "A", "..", "%zz"] {
            assert_eq!(Layout::new("lake").records(impossible), None, "{impossible}");
        }
        let catalog = RecordKey::new(RecordKind::Catalog, []);
        assert_eq!(Layout::new("").record(&catalog), "_headwater/records/catalog.json");
    }

    #[test]
    fn foreign_objects_are_named() {
        let layout = Layout::new("lake");
        for key in ["lake/_headwater/heads/a/b.json", "lake/_headwater/heads/Main.json", "lake/_headwater/heads/x", "x"] {
            let error = layout.branch(key).unwrap_err();
            assert_eq!((error.kind(), error.context("object")), (ErrorKind::Corrupt, Some(key)));
        }
        for key in
            ["lake/_headwater/records/unknown/a.json", "lake/_headwater/records/segment/a", "lake/_headwater/records/segment//a.json"]
        {
            assert_eq!(layout.record_key(key).unwrap_err().context("object"), Some(key));
        }
    }
}
