//! Folders that survive a loss of power.
//!
//! That a folder exists does not mean that its name is durable: whoever made it may have died before syncing its parent, or may be about to
//! sync it. So the first use of a folder in a process syncs the whole chain of names that leads to it, whoever made them; later uses cost
//! nothing.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headwater_core::Result;

use crate::disk::Disk;
use crate::failure::{failure, nothing_to_sync};

/// The folders this process knows to be durable.
#[derive(Debug)]
pub(crate) struct Folders {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    known: Mutex<HashSet<PathBuf>>,
}

impl Folders {
    pub(crate) fn new(disk: Arc<dyn Disk>, root: PathBuf) -> Self {
        Self { disk, root, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        // Every change is one insert or a clear.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_known(&self, folder: &Path) -> bool {
        self.known().contains(folder)
    }

    /// Forgets everything: a folder that was there is gone.
    pub(crate) fn forget(&self) {
        self.known().clear();
    }

    /// Makes the folder and whatever is missing above it, durably.
    pub(crate) fn ensure(&self, folder: &Path) -> Result<()> {
        if self.is_known(folder) {
            return Ok(());
        }
        let created = match (self.create(folder), folder.parent()) {
            (Err(error), Some(parent)) if error.kind() == ErrorKind::NotFound => {
                self.ensure(parent)?;
                self.create(folder)
            }
            (created, _) => created,
        };
        let created = created.map_err(|error| failure(folder, error))?;
        self.confirm(folder, created)
    }

    /// Whether this call made the folder, and did not find it.
    fn create(&self, folder: &Path) -> io::Result<bool> {
        match self.disk.create_dir(folder) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Syncs the names that lead to a folder which exists.
    fn confirm(&self, folder: &Path, created: bool) -> Result<()> {
        let Some(parent) = folder.parent() else { return Ok(()) };
        if self.is_known(folder) {
            return Ok(());
        }
        self.confirm(parent, false)?;
        match self.disk.sync_dir(parent) {
            Ok(()) => {}
            // The root may be found in a folder its user may not read, such as /home, or one that cannot be synced.
            Err(error) if !created && self.above_root(parent) && may_stay_unsynced(&error) => {}
            Err(error) => return Err(failure(parent, error)),
        }
        self.known().insert(folder.to_owned());
        Ok(())
    }

    fn above_root(&self, folder: &Path) -> bool {
        self.root.parent().is_some_and(|parent| parent.starts_with(folder))
    }
}

/// Whether a folder above the root that cannot be synced like this was made by someone else, who answers for it.
fn may_stay_unsynced(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied || nothing_to_sync(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Cut, Fault, SimDisk};

    fn folders(disk: &SimDisk) -> Folders {
        Folders::new(Arc::new(disk.clone()), "/home/lake".into())
    }

    /// The number of the sync of a folder, in a run on such a disk.
    fn sync_of(disk: &SimDisk, folder: &str) -> usize {
        folders(disk).ensure(Path::new("/home/lake/data/t")).unwrap();
        let is_it = |(name, path): &(&str, PathBuf)| *name == "sync_dir" && path == Path::new(folder);
        disk.primitives().iter().position(is_it).unwrap()
    }

    #[test]
    fn a_folder_others_left_unsynced_is_durable_after_its_first_use() {
        let disk = SimDisk::new();
        for folder in ["/home", "/home/lake", "/home/lake/data", "/home/lake/data/t"] {
            disk.create_dir(Path::new(folder)).unwrap();
        }
        assert!(disk.cut(Cut::Synced).paths().is_empty());
        let folders = folders(&disk);
        folders.ensure(Path::new("/home/lake/data/t")).unwrap();
        assert_eq!(disk.cut(Cut::Synced).paths(), disk.paths());
        disk.revive();
        folders.ensure(Path::new("/home/lake/data/t")).unwrap();
        assert!(disk.primitives().is_empty(), "a later use costs nothing");
    }

    #[test]
    fn a_folder_above_the_root_may_be_unreadable_unless_the_root_was_made_in_it() {
        for (found, tolerated) in [(true, true), (false, false)] {
            let prepared = || {
                let disk = SimDisk::new();
                disk.create_dir(Path::new("/home")).unwrap();
                if found {
                    disk.create_dir(Path::new("/home/lake")).unwrap();
                }
                disk.revive();
                disk
            };
            let number = sync_of(&prepared(), "/home");
            let disk = prepared();
            disk.plan(number, Fault::FailBefore(ErrorKind::PermissionDenied));
            assert_eq!(folders(&disk).ensure(Path::new("/home/lake/data/t")).is_ok(), tolerated, "root found: {found}");
        }
    }

    #[test]
    fn a_folder_below_the_root_that_cannot_be_synced_stops_the_write() {
        let number = sync_of(&SimDisk::new(), "/home/lake");
        let disk = SimDisk::new();
        disk.plan(number, Fault::FailBefore(ErrorKind::PermissionDenied));
        let error = folders(&disk).ensure(Path::new("/home/lake/data/t")).unwrap_err();
        assert_eq!((error.kind(), error.context("path")), (headwater_core::ErrorKind::InvalidInput, Some("/home/lake")));
    }
}
