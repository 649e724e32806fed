//! A lake in a folder or a bucket, loads into it by the real command, and a look at what they left behind.
#![allow(dead_code, reason = "each test uses its part")]

#[cfg(feature = "s3")]
pub(crate) mod bucket;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use futures::TryStreamExt;
use headwater::store::Scan;
use headwater::{Catalog, Snapshot};
use serde_json::Value;
use tempfile::TempDir;

/// A lake (or where none is yet), and files to load beside.
#[derive(Debug)]
pub(crate) struct Place {
    files: TempDir,
    lake: Lake,
    /// The store of a lake that is made.
    store: &'static str,
    /// The lake's control, where it is in a SQLite file beside the files to load.
    #[cfg(feature = "sqlite")]
    control: Option<headwater_sqlite::SqliteAuthority>,
}

#[derive(Debug)]
enum Lake {
    Folder,
    #[cfg(feature = "s3")]
    Bucket(bucket::Bucket),
}

/// What there is of a lake, as one look shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) head: Vec<u8>,
    /// Data objects, unfinished files too.
    pub(crate) objects: usize,
}

impl Place {
    /// In a folder of its own.
    pub(crate) fn folder() -> Self {
        Self::of_lake(Lake::Folder)
    }

    fn of_lake(lake: Lake) -> Self {
        Self {
            files: tempfile::tempdir().unwrap(),
            lake,
            store: "parquet",
            #[cfg(feature = "sqlite")]
            control: None,
        }
    }

    /// The same place, for a lake with its control in a SQLite file.
    #[cfg(feature = "sqlite")]
    pub(crate) fn with_sqlite(self) -> Self {
        let control = headwater_sqlite::SqliteAuthority::new(self.control_file()).unwrap();
        Self { control: Some(control), ..self }
    }

    /// Where the control is, if it is in a SQLite file.
    pub(crate) fn control_file(&self) -> PathBuf {
        self.files.path().join("control.db")
    }

    /// In a bucket of its own on the shared server.
    #[cfg(feature = "s3")]
    pub(crate) fn bucket() -> Self {
        Self::in_bucket(bucket::Bucket::new())
    }

    #[cfg(feature = "s3")]
    pub(crate) fn in_bucket(bucket: bucket::Bucket) -> Self {
        Self::of_lake(Lake::Bucket(bucket))
    }

    /// The same place, for a lake of another store.
    pub(crate) fn of(self, store: &'static str) -> Self {
        Self { store, ..self }
    }

    fn path(&self) -> PathBuf {
        self.files.path().join("lake")
    }

    pub(crate) fn url(&self) -> String {
        match &self.lake {
            Lake::Folder => self.path().to_str().unwrap().to_owned(),
            #[cfg(feature = "s3")]
            Lake::Bucket(bucket) => bucket.url(),
        }
    }

    /// Where it lies, for a printed count.
    pub(crate) fn describe(&self) -> String {
        let place = match &self.lake {
            Lake::Folder => "in a folder".to_owned(),
            #[cfg(feature = "s3")]
            Lake::Bucket(bucket) => bucket.describe(),
        };
        #[cfg(feature = "sqlite")]
        if self.control.is_some() {
            return format!("{place}, control in a SQLite file");
        }
        place
    }

    /// The head of `main`, and how many data objects there are.
    pub(crate) async fn look(&self) -> Look {
        Look { head: self.head().await, objects: self.objects().await }
    }

    pub(crate) async fn head(&self) -> Vec<u8> {
        #[cfg(feature = "sqlite")]
        if let Some(control) = &self.control {
            use headwater::authority::{ControlAuthority, HeadRead};
            match control.read_head(&"main".parse().unwrap(), None).await.unwrap() {
                HeadRead::Found(body, _) => return body.to_vec(),
                other => panic!("no head: {other:?}"),
            }
        }
        match &self.lake {
            Lake::Folder => std::fs::read(self.path().join("_headwater/heads/main.json")).unwrap(),
            #[cfg(feature = "s3")]
            Lake::Bucket(bucket) => bucket.head().await,
        }
    }

    pub(crate) async fn objects(&self) -> usize {
        fn count(folder: &Path) -> usize {
            let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
            entries.map(|entry| if entry.file_type().unwrap().is_dir() { count(&entry.path()) } else { 1 }).sum()
        }
        match &self.lake {
            Lake::Folder => count(&self.path().join("data")),
            #[cfg(feature = "s3")]
            Lake::Bucket(bucket) => bucket.objects().await,
        }
    }

    /// Writes a file of rows, each of a writer and a number.
    pub(crate) fn file(&self, name: &str, rows: impl IntoIterator<Item = (i64, i64)>) -> PathBuf {
        let path = self.files.path().join(name);
        let lines = rows.into_iter().map(|(writer, number)| format!("{writer},{number}\n"));
        std::fs::write(&path, std::iter::once("writer,number\n".to_owned()).chain(lines).collect::<String>()).unwrap();
        path
    }

    /// A command on the lake, not started yet.
    pub(crate) fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        command.arg(verb).arg(self.url()).arg("--json").stdin(Stdio::null());
        #[cfg(feature = "sqlite")]
        if self.control.is_some() {
            command.arg("--control").arg(format!("sqlite:{}", self.control_file().display()));
        }
        #[cfg(feature = "s3")]
        if let Lake::Bucket(bucket) = &self.lake {
            bucket.prepare(&mut command);
        }
        command
    }

    /// A load of files into tables, not started yet.
    pub(crate) fn load(&self, tables: &[(&str, &Path)]) -> Command {
        let mut command = self.command("load");
        command.args(["--store", self.store]);
        for (table, file) in tables {
            command.arg("--table").arg(format!("{table}={}", file.display()));
        }
        command
    }

    /// `doctor`, not started yet.
    pub(crate) fn doctor(&self) -> Command {
        self.command("doctor")
    }

    /// The keys of everything in the bucket.
    #[cfg(feature = "s3")]
    pub(crate) async fn keys(&self) -> Vec<String> {
        match &self.lake {
            Lake::Folder => panic!("a folder has no keys"),
            Lake::Bucket(bucket) => bucket.keys("").await,
        }
    }

    /// `verify`, data files included, finds nothing.
    pub(crate) fn verify(&self) {
        let report = document(&self.command("verify").arg("--data").output().unwrap());
        assert_eq!((&report["ok"], &report["problems"]), (&Value::Bool(true), &Value::Array(Vec::new())), "{report}");
    }

    /// The seqs `log` shows, oldest first.
    pub(crate) fn seqs(&self) -> Vec<u64> {
        let log = document(&self.command("log").args(["--limit", "1000000"]).output().unwrap());
        let mut seqs: Vec<u64> = log["commits"].as_array().unwrap().iter().map(|commit| commit["seq"].as_u64().unwrap()).collect();
        seqs.reverse();
        seqs
    }

    /// Opens the lake as any process does.
    pub(crate) async fn open(&self) -> Catalog {
        match &self.lake {
            Lake::Folder => {
                let builder = headwater::builder(&self.url());
                #[cfg(feature = "sqlite")]
                if self.control.is_some() {
                    return builder.control(format!("sqlite:{}", self.control_file().display())).open().await.unwrap();
                }
                builder.open().await.unwrap()
            }
            #[cfg(feature = "s3")]
            Lake::Bucket(bucket) => {
                #[cfg(feature = "sqlite")]
                if let Some(control) = &self.control {
                    return bucket.open_with(control.clone()).await;
                }
                bucket.open().await
            }
        }
    }

    pub(crate) async fn snapshot(&self) -> Snapshot {
        self.open().await.branch("main").unwrap().snapshot().await.unwrap()
    }
}

/// Tells a figure, also where the harness keeps to itself what a passing test prints.
pub(crate) fn report(figure: impl std::fmt::Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{figure}");
}

/// The one document a successful command prints.
pub(crate) fn document(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// How often each row stands in a table.
pub(crate) async fn rows(snapshot: &Snapshot, table: &str) -> BTreeMap<(i64, i64), usize> {
    let mut found = BTreeMap::new();
    for partition in snapshot.scan(table, &Scan::default()).await.unwrap() {
        let mut batches = (partition.open)();
        while let Some(batch) = batches.try_next().await.unwrap() {
            let column = |name| batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().values();
            for row in column("writer").iter().copied().zip(column("number").iter().copied()) {
                *found.entry(row).or_default() += 1;
            }
        }
    }
    found
}
