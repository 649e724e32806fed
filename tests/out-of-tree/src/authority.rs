//! The authority: every head and record in one file, replaced whole under a lock.
//!
//! A write takes the lock, reads the map, compares, writes a new map beside it and renames it into place. The rename is the commit point, and
//! it is atomic, so a read needs no lock. Each write writes the whole map: fit for a small catalog of one host.

use std::fs::{self, File};
use std::io::{ErrorKind::NotFound, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use headwater_core::authority::{Capability, ControlAuthority, Create, Expected, Finding, HeadRead, Severity, Swap, Tag};
use headwater_core::ids::{Mint, SystemEnvironment};
use headwater_core::name::{BranchName, RecordKey};
use headwater_core::{Error, ErrorKind, Result};

use crate::map::{Map, Version};

/// Heads and records in one file of a folder of this host, which its processes may share.
#[derive(Clone, Debug)]
pub struct OneFile(Arc<Path>);

impl OneFile {
    /// The authority in this folder, which need not exist. No request.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into().into())
    }

    fn read_map(&self) -> Result<Map> {
        match fs::read(self.0.join("map")) {
            Ok(file) => Map::parse(file.into()),
            Err(error) if error.kind() == NotFound => Ok(Map::default()),
            Err(error) => Err(unusable(error)),
        }
    }

    fn lock(&self) -> std::io::Result<File> {
        fs::create_dir_all(&self.0)?;
        // Nobody ever removes this file: a lock on a removed file keeps nobody out.
        let file = File::options().create(true).truncate(false).write(true).open(self.0.join("lock"))?;
        file.lock()?;
        Ok(file)
    }

    /// Replaces the map by what `edit` makes of it, or changes nothing where `edit` says no.
    fn replace(&self, edit: impl FnOnce(&mut Map) -> bool) -> Result<Swap> {
        let _lock = self.lock().map_err(unusable)?;
        let mut map = self.read_map()?;
        map.writes += 1;
        if !edit(&mut map) {
            return Ok(Swap::Conflict);
        }
        let (bytes, new) = (map.bytes()?, self.0.join("map.new"));
        File::create(&new).and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all())).map_err(unusable)?;
        // Up to here a failure is definite. From here on the new map may be in place, whatever is reported.
        match fs::rename(&new, self.0.join("map")).and_then(|()| File::open(&self.0)?.sync_all()) {
            Ok(()) => Ok(Swap::Swapped(Tag::new(map.writes.to_string()))),
            Err(error) => Ok(Swap::Unknown(unusable(error))),
        }
    }

    /// Runs a write where it may block. It runs to its end also when the caller goes away.
    async fn write(&self, what: &'static str, object: &str, edit: impl FnOnce(&mut Map) -> bool + Send + 'static) -> Result<Swap> {
        let (this, named) = (self.clone(), |error: Error| error.at("object", object).during(what));
        match tokio::task::spawn_blocking(move || this.replace(edit)).await {
            Ok(Ok(Swap::Unknown(error))) => Ok(Swap::Unknown(named(error))),
            Ok(outcome) => outcome.map_err(named),
            Err(lost) => Ok(Swap::Unknown(named(unusable(lost)))),
        }
    }

    /// The compare-and-swap under everything else: an object is replaced if its tag is the expected one, `None` being no object.
    async fn put(&self, what: &'static str, object: String, expected: Option<&Tag>, body: Bytes) -> Result<Swap> {
        let (key, expected) = (object.clone(), expected.map(|tag| tag.as_str().to_owned()));
        let edit = move |map: &mut Map| {
            let fits = map.objects.get(&key).map(|version| version.tag.to_string()) == expected;
            if fits {
                map.objects.insert(key, Version { tag: map.writes, size: body.len(), body });
            }
            fits
        };
        self.write(what, &object, edit).await
    }

    async fn map(&self, what: &'static str, object: &str) -> Result<Map> {
        let this = self.clone();
        let read = tokio::task::spawn_blocking(move || this.read_map()).await;
        read.unwrap_or_else(|lost| Err(unusable(lost))).map_err(|error| error.at("object", object).during(what))
    }

    async fn get(&self, what: &'static str, object: &str) -> Result<Option<(Bytes, Tag)>> {
        let found = self.map(what, object).await?.objects.remove(object);
        Ok(found.map(|version| (version.body, Tag::new(version.tag.to_string()))))
    }

    async fn list<T: TryFrom<String, Error = Error>>(&self, what: &'static str, prefix: &str) -> Result<Vec<T>> {
        let map = self.map(what, prefix).await?;
        let kind = prefix.split_inclusive('/').next().unwrap_or_default();
        let below = map.objects.keys().filter(|key| key.starts_with(prefix)).filter_map(|key| key.strip_prefix(kind));
        below.map(|name| T::try_from(name.to_owned())).collect()
    }
}

#[async_trait]
impl ControlAuthority for OneFile {
    fn capability(&self) -> Capability {
        // A read may show a map whose rename is not durable yet; so this is not safe from a loss of power, in spite of every fsync above.
        Capability { power_safe: false, multi_host: false, list_is_strong: true, writes_per_second_per_key: None }
    }

    /// The one promise that stands outside this code: some network file systems hand one lock to two.
    async fn probe(&self) -> Result<Vec<Finding>> {
        let path = self.0.join(format!("probe-{}", Mint::new(Arc::new(SystemEnvironment)).name()));
        let try_locks = move || {
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
            let first = File::create(&path)?;
            let excludes = first.lock().and_then(|()| Ok(matches!(File::create(&path)?.try_lock(), Err(fs::TryLockError::WouldBlock))));
            fs::remove_file(&path).and(excludes)
        };
        let failed = |error: Error| error.at("folder", self.0.display()).during("probe");
        let tried = tokio::task::spawn_blocking(try_locks).await.map_err(|lost| failed(unusable(lost)))?;
        let (severity, message) = match tried.map_err(|error| failed(unusable(error)))? {
            true => (Severity::Good, "a lock keeps others out"),
            false => (Severity::Broken, "two hold one lock at once; use a local file system"),
        };
        Ok(vec![Finding { subject: "locks".to_owned(), severity, message: message.to_owned() }])
    }

    /// Nothing: there are no settings.
    async fn inspect(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    async fn read_head(&self, branch: &BranchName, known: Option<&Tag>) -> Result<HeadRead> {
        Ok(match self.get("read head", &format!("head/{branch}")).await? {
            None => HeadRead::Absent,
            Some((_, tag)) if known == Some(&tag) => HeadRead::Unchanged,
            Some((body, tag)) => HeadRead::Found(body, tag),
        })
    }

    async fn swap_head(&self, branch: &BranchName, expected: Expected<'_>, body: Bytes) -> Result<Swap> {
        let expected = match expected {
            Expected::Absent => None,
            Expected::Tag(tag) => Some(tag),
        };
        self.put("swap head", format!("head/{branch}"), expected, body).await
    }

    async fn list_branches(&self) -> Result<Vec<BranchName>> {
        self.list("list branches", "head/").await
    }

    async fn create_record(&self, key: &RecordKey, body: Bytes) -> Result<Create> {
        Ok(match self.put("create record", format!("record/{key}"), None, body).await? {
            Swap::Swapped(_) => Create::Created,
            Swap::Conflict => Create::Exists,
            Swap::Unknown(error) => Create::Unknown(error),
        })
    }

    async fn read_record(&self, key: &RecordKey) -> Result<Option<(Bytes, Tag)>> {
        self.get("read record", &format!("record/{key}")).await
    }

    async fn swap_record(&self, key: &RecordKey, expected: &Tag, body: Bytes) -> Result<Swap> {
        self.put("swap record", format!("record/{key}"), Some(expected), body).await
    }

    async fn list_records(&self, prefix: &str) -> Result<Vec<RecordKey>> {
        let prefix = if prefix.is_empty() { "record/".to_owned() } else { format!("record/{prefix}/") };
        self.list("list records", &prefix).await
    }

    async fn remove_record(&self, key: &RecordKey) -> Result<()> {
        let object = format!("record/{key}");
        let removed = object.clone();
        match self.write("remove record", &object, move |map| map.objects.remove(&removed).is_some()).await? {
            Swap::Swapped(_) | Swap::Conflict => Ok(()),
            Swap::Unknown(error) => Err(error),
        }
    }
}

fn unusable(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::Unavailable, "the catalog's file cannot be used").because(source)
}
