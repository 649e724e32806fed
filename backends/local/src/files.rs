//! The steps of every request, blocking. One function is one request.
//!
//! A write is a temporary file, written and fsynced, that gets its final name in one atomic step, the commit point; then the directory is
//! fsynced. Before the commit point a failure is definite; from it on it is `Unknown`.
//!
//! A name is visible before it is durable, and the writer may die in between. So a read that finds a version this process has not seen
//! durable fsyncs its directory before it answers: what a read showed survives a loss of power, also what a reader concludes from it.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headwater_core::authority::{Create, Swap, Tag};
use headwater_core::name::{BranchName, RecordKey};
use headwater_core::{Error, Result, json};

use crate::disk::{Disk, Listed, Lock, Verb};
use crate::failure::{failure, nothing_to_sync, refused, unsettled};
use crate::folders::Folders;
use crate::layout::{self, Layout, Slot};

/// How many versions a process remembers as durable; forgetting one costs an fsync at its next read.
const REMEMBERED: usize = 4096;

/// One catalog's control files.
#[derive(Debug)]
pub(crate) struct Files {
    disk: Arc<dyn Disk>,
    pub(crate) layout: Layout,
    folders: Folders,
    /// The version of each file that this process knows to be durable.
    durable: Mutex<HashMap<PathBuf, Tag>>,
}

/// The tag of a version: bodies always differ (each has a fresh nonce), so the hash names one version and not only one content.
fn tag(bytes: &[u8]) -> Tag {
    Tag::new(json::sha256(bytes))
}

impl Files {
    pub(crate) fn new(disk: Arc<dyn Disk>, root: PathBuf) -> Self {
        let layout = Layout::new(&root);
        Self { folders: Folders::new(disk.clone(), root), disk, layout, durable: Mutex::default() }
    }

    /// Reads a file and its tag.
    pub(crate) fn read(&self, slot: &Slot) -> Result<Option<(Vec<u8>, Tag)>> {
        self.disk.request(Verb::Read, &slot.path);
        let Some(bytes) = self.disk.read(&slot.path).map_err(|error| failure(&slot.path, error))? else { return Ok(None) };
        let tag = tag(&bytes);
        if self.durable().get(&slot.path) != Some(&tag) {
            match self.disk.sync_dir(&slot.folder) {
                Err(error) if !nothing_to_sync(&error) => return Err(failure(&slot.folder, error)),
                _ => self.remember(slot, &tag),
            }
        }
        Ok(Some((bytes, tag)))
    }

    /// Replaces a file that has the expected tag.
    ///
    /// 1. Compare without a lock: a swap that has lost already, or of a file that is not there, creates nothing.
    /// 2. Take the file's lock and compare again.
    /// 3. Write and fsync a temporary file.
    /// 4. Rename it over the file: the commit point.
    /// 5. Fsync the directory. The lock goes when this returns or the process dies.
    pub(crate) fn swap(&self, slot: &Slot, expected: &Tag, body: &[u8]) -> Result<Swap> {
        self.disk.request(Verb::Swap, &slot.path);
        if !self.has(slot, expected)? {
            return Ok(Swap::Conflict);
        }
        let _lock = self.lock(slot)?;
        if !self.has(slot, expected)? {
            return Ok(Swap::Conflict);
        }
        self.folders.ensure(&slot.folder)?;
        let temp = self.stage(body)?;
        if let Err(error) = self.disk.rename(&temp, &slot.path) {
            self.discard(&temp);
            return if refused(&error) { Err(failure(&slot.path, error)) } else { Ok(Swap::Unknown(unsettled(&slot.path, error))) };
        }
        Ok(match self.disk.sync_dir(&slot.folder) {
            Ok(()) => {
                let tag = tag(body);
                self.remember(slot, &tag);
                Swap::Swapped(tag)
            }
            Err(error) => Swap::Unknown(unsettled(&slot.folder, error)),
        })
    }

    /// Creates a head; as [`Files::create`].
    pub(crate) fn create_head(&self, slot: &Slot, body: &[u8]) -> Result<Swap> {
        self.disk.request(Verb::Swap, &slot.path);
        Ok(match self.put_if_absent(slot, body)? {
            Create::Created => Swap::Swapped(tag(body)),
            Create::Exists => Swap::Conflict,
            Create::Unknown(error) => Swap::Unknown(error),
        })
    }

    /// Creates a file that must not exist. Needs no lock: the link does not replace.
    pub(crate) fn create(&self, slot: &Slot, body: &[u8]) -> Result<Create> {
        self.disk.request(Verb::Create, &slot.path);
        self.put_if_absent(slot, body)
    }

    /// 1. If the file is there, say so; create nothing.
    /// 2. Write and fsync a temporary file.
    /// 3. Link it to the final name, unless that is taken: the commit point.
    /// 4. Fsync the directory; remove the temporary name.
    fn put_if_absent(&self, slot: &Slot, body: &[u8]) -> Result<Create> {
        if self.current(slot)?.is_some() {
            return Ok(Create::Exists);
        }
        self.folders.ensure(&slot.folder)?;
        let temp = self.stage(body)?;
        let outcome = match self.disk.hard_link(&temp, &slot.path) {
            Ok(()) => match self.disk.sync_dir(&slot.folder) {
                Ok(()) => {
                    self.remember(slot, &tag(body));
                    Ok(Create::Created)
                }
                Err(error) => Ok(Create::Unknown(unsettled(&slot.folder, error))),
            },
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Create::Exists),
            Err(error) if refused(&error) => Err(failure(&slot.path, error)),
            Err(error) => Ok(Create::Unknown(unsettled(&slot.path, error))),
        };
        self.discard(&temp);
        outcome
    }

    /// Removes a file under its lock, so that a swap which has compared it cannot bring it back. The commit point is the removal; a
    /// repeated request syncs the directory again.
    pub(crate) fn remove(&self, slot: &Slot) -> Result<()> {
        self.disk.request(Verb::Remove, &slot.path);
        if self.current(slot)?.is_some() {
            let _lock = self.lock(slot)?;
            match self.disk.remove(&slot.path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(failure(&slot.path, error)),
                _ => self.durable().remove(&slot.path),
            };
        }
        match self.disk.sync_dir(&slot.folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failure(&slot.folder, error)),
            _ => Ok(()),
        }
    }

    /// The branches that have a head. Files of other kinds (`.DS_Store`, say) are passed over; a head nobody can name is an error.
    pub(crate) fn branches(&self) -> Result<Vec<BranchName>> {
        let folder = self.layout.heads();
        self.disk.request(Verb::List, &folder);
        let mut branches = Vec::new();
        for entry in self.entries(&folder)? {
            if let Some(stem) = layout::stem(&folder, &entry.name)? {
                let path = folder.join(&entry.name);
                if entry.directory {
                    return Err(Error::corrupt(path.display(), "a folder stands where a head must be; move it away"));
                }
                branches.push(layout::branch(&path, stem)?);
            }
        }
        Ok(branches)
    }

    /// The keys of the records below a prefix; one directory listing per folder.
    pub(crate) fn records(&self, prefix: &str) -> Result<Vec<RecordKey>> {
        let mut keys = Vec::new();
        let Some(folder) = self.layout.records(prefix) else {
            self.disk.request(Verb::List, &self.layout.records_root());
            return Ok(keys);
        };
        self.disk.request(Verb::List, &folder);
        let mut pending = vec![(folder, prefix.to_owned())];
        while let Some((folder, above)) = pending.pop() {
            let below = |segment: &str| if above.is_empty() { segment.to_owned() } else { format!("{above}/{segment}") };
            for entry in self.entries(&folder)? {
                let path = folder.join(&entry.name);
                if entry.directory {
                    let segment = layout::segment(&entry.name)
                        .ok_or_else(|| Error::corrupt(path.display(), "the folder's name is not part of any record's key; move it away"))?;
                    pending.push((path, below(&segment)));
                } else if let Some(stem) = layout::stem(&folder, &entry.name)? {
                    let corrupt = || Error::corrupt(path.display(), "the file's name is not that of any record; move it away");
                    keys.push(RecordKey::try_from(below(stem)).map_err(|source| corrupt().because(source))?);
                }
            }
        }
        Ok(keys)
    }

    fn entries(&self, folder: &Path) -> Result<Vec<Listed>> {
        match self.disk.list(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(|error| failure(folder, error)),
        }
    }

    fn current(&self, slot: &Slot) -> Result<Option<Tag>> {
        let bytes = self.disk.read(&slot.path).map_err(|error| failure(&slot.path, error))?;
        Ok(bytes.map(|bytes| tag(&bytes)))
    }

    fn has(&self, slot: &Slot, expected: &Tag) -> Result<bool> {
        Ok(self.current(slot)?.as_ref() == Some(expected))
    }

    fn lock(&self, slot: &Slot) -> Result<Lock> {
        self.folders.ensure(&self.layout.locks())?;
        let path = self.layout.lock(slot);
        self.disk.lock(&path).map_err(|error| self.before_commit(&path, error))
    }

    /// Writes and fsyncs a temporary file.
    fn stage(&self, body: &[u8]) -> Result<PathBuf> {
        self.folders.ensure(&self.layout.temps())?;
        let temp = self.layout.temp();
        match self.disk.write_new(&temp, body).and_then(|()| self.disk.sync_file(&temp)) {
            Ok(()) => Ok(temp),
            Err(error) => {
                self.discard(&temp);
                Err(self.before_commit(&temp, error))
            }
        }
    }

    fn before_commit(&self, path: &Path, error: io::Error) -> Error {
        if error.kind() == ErrorKind::NotFound {
            self.folders.forget();
        }
        failure(path, error)
    }

    fn discard(&self, temp: &Path) {
        match self.disk.remove(temp) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(path = %temp.display(), %error, "a temporary file stays behind; it may be deleted");
            }
            _ => {}
        }
    }

    fn durable(&self) -> MutexGuard<'_, HashMap<PathBuf, Tag>> {
        // Every change is one insert, removal or clear.
        self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, slot: &Slot, tag: &Tag) {
        let mut durable = self.durable();
        if durable.len() >= REMEMBERED && !durable.contains_key(&slot.path) {
            durable.clear();
        }
        durable.insert(slot.path.clone(), tag.clone());
    }
}
