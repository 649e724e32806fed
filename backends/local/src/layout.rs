//! Which file is which head or record, and back.
//!
//! Below the root: `_headwater/heads/<branch>.json`, `_headwater/records/<key>.json`, `_headwater/tmp/<unique>` (files being written, or
//! left by a process that died), `_headwater/locks/<00..ff>`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use headwater_core::ids::{Environment, SystemEnvironment};
use headwater_core::name::{BranchName, RecordKey, decode_segment, encode_segment};
use headwater_core::{Error, Result, json};

const SUFFIX: &str = ".json";
/// A folder `x.json` would take the name of the file of the key `x`. No encoded segment ends like this (unless it is all of it), because
/// only a leading dot is ever encoded.
const FOLDER_SUFFIX: &str = "%2Ejson";

/// A head's or record's file, and the lock file its writers hold.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// The file.
    pub(crate) path: PathBuf,
    /// The directory it stands in.
    pub(crate) folder: PathBuf,
    /// The name of its lock file: one of 256, none of which is ever deleted. Two files that share one only wait for each other.
    lock: String,
}

/// The paths below one root.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    control: PathBuf,
}

impl Layout {
    pub(crate) fn new(root: &Path) -> Self {
        Self { control: root.join("_headwater") }
    }

    pub(crate) fn heads(&self) -> PathBuf {
        self.control.join("heads")
    }

    pub(crate) fn head(&self, branch: &BranchName) -> Slot {
        self.slot(self.heads(), &encode_segment(branch.as_str()))
    }

    pub(crate) fn record(&self, key: &RecordKey) -> Slot {
        match key.as_str().rsplit_once('/') {
            None => self.slot(self.records_root(), key.as_str()),
            Some((folders, last)) => self.slot(self.below_records(folders), last),
        }
    }

    fn slot(&self, folder: PathBuf, name: &str) -> Slot {
        let path = folder.join(format!("{name}{SUFFIX}"));
        let below = path.strip_prefix(&self.control).unwrap_or(&path).to_string_lossy();
        let lock = json::sha256(below.as_bytes()).chars().take(2).collect();
        Slot { path, folder, lock }
    }

    pub(crate) fn records_root(&self) -> PathBuf {
        self.control.join("records")
    }

    /// The directory of the records below a prefix; `None` for a prefix no key can have.
    pub(crate) fn records(&self, prefix: &str) -> Option<PathBuf> {
        if prefix.is_empty() {
            return Some(self.records_root());
        }
        let possible = prefix.split('/').all(|segment| !segment.is_empty() && decode_segment(segment).is_ok());
        possible.then(|| self.below_records(prefix))
    }

    fn below_records(&self, folders: &str) -> PathBuf {
        let mut path = self.records_root();
        for segment in folders.split('/') {
            match segment.strip_suffix(SUFFIX) {
                Some(stem) => path.push(format!("{stem}{FOLDER_SUFFIX}")),
                None => path.push(segment),
            }
        }
        path
    }

    pub(crate) fn locks(&self) -> PathBuf {
        self.control.join("locks")
    }

    pub(crate) fn lock(&self, slot: &Slot) -> PathBuf {
        self.locks().join(&slot.lock)
    }

    pub(crate) fn temps(&self) -> PathBuf {
        self.control.join("tmp")
    }

    /// A path no other call, in any process, returns.
    pub(crate) fn temp(&self) -> PathBuf {
        static START: OnceLock<u128> = OnceLock::new();
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let start = START.get_or_init(|| SystemEnvironment.random());
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        self.temps().join(format!("{}-{start:032x}-{next}", process::id()))
    }
}

/// The encoded name of the head or record in a file of this name; `None` for a file that is neither.
pub(crate) fn stem<'a>(folder: &Path, name: &'a OsStr) -> Result<Option<&'a str>> {
    match name.to_str() {
        Some(name) => Ok(name.strip_suffix(SUFFIX)),
        None => Err(Error::corrupt(folder.join(name).display(), "a file in a control folder has a name that is not UTF-8; move it away")),
    }
}

/// The branch whose head has this encoded name.
pub(crate) fn branch(path: &Path, stem: &str) -> Result<BranchName> {
    let corrupt = || Error::corrupt(path.display(), "the file's name is not that of any branch's head; move it away");
    decode_segment(stem).and_then(|name| name.parse()).map_err(|source: Error| corrupt().because(source))
}

/// The key segment of a directory below the records; `None` for a directory no key makes.
pub(crate) fn segment(name: &OsStr) -> Option<String> {
    let name = name.to_str()?;
    match name.strip_suffix(FOLDER_SUFFIX) {
        Some(stem) if !stem.is_empty() => Some(format!("{stem}{SUFFIX}")),
        _ if name.ends_with(SUFFIX) => None,
        _ => Some(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::name::RecordKind;

    use super::*;

    #[test]
    fn a_key_and_a_folder_of_the_same_name_stay_two() {
        let layout = Layout::new(Path::new("/lake"));
        let file = layout.record(&RecordKey::new(RecordKind::Entry, ["a"]));
        let below = layout.record(&RecordKey::new(RecordKind::Entry, ["a.json", "b"]));
        assert_eq!(file.path, Path::new("/lake/_headwater/records/entry/a.json"));
        assert_ne!(file.path, below.folder);
        for name in ["a.json", ".json", "a", "%2Ejson", "a.json.json", "x%2Ejson", "..", "A.JSON"] {
            let encoded = encode_segment(name);
            let folder = layout.record(&RecordKey::new(RecordKind::Entry, [name, "b"])).folder;
            assert_eq!(segment(folder.file_name().unwrap()), Some(encoded), "{name}");
        }
    }

    #[test]
    fn temporary_names_differ() {
        let layout = Layout::new(Path::new("/lake"));
        assert_ne!(layout.temp(), layout.temp());
    }
}
