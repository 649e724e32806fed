//! A control file in a folder of its own, and a look at it as any SQLite program takes one.
#![allow(dead_code, reason = "each test uses its part")]

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use headwater_core::authority::{Swap, Tag};
use headwater_core::name::BranchName;
use headwater_sqlite::SqliteAuthority;
use rusqlite::Connection;
use tempfile::TempDir;

pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder().join("control ü.db")
    }

    /// A handle as another process has it.
    pub(crate) fn authority(&self) -> SqliteAuthority {
        SqliteAuthority::new(self.path()).unwrap()
    }

    pub(crate) fn connection(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    /// What is in the folder.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Deletes the file, and its log.
    pub(crate) fn delete(&self) {
        for name in self.files() {
            fs::remove_file(self.folder().join(name)).unwrap();
        }
    }

    pub(crate) fn is_sound(&self) {
        let check: String = self.connection().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
    }
}

pub(crate) fn branch(name: &str) -> BranchName {
    name.parse().unwrap()
}

pub(crate) fn body(text: impl Into<String>) -> Bytes {
    Bytes::from(text.into())
}

pub(crate) fn swapped(swap: Swap) -> Tag {
    match swap {
        Swap::Swapped(tag) => tag,
        other => panic!("{other:?}"),
    }
}
