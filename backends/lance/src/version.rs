//! A table version: what its manifest, exactly as pinned, says of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use headwater_core::store::{Object, Pin, Reached};
use headwater_core::{Error, ErrorKind, Result};
use lance::Dataset;
use lance::index::DatasetIndexExt;
use lance_table::format::{DataFile, IndexMetadata, is_detached_version};
use lance_table::io::deletion::relative_deletion_file_path;
use object_store::path::Path;

use crate::digests;
use crate::engine::Engine;
use crate::handler::Pinned;
use crate::sealed::Sealed;
use crate::view::View;
use headwater_core::objects::Named;

/// What a pin's path says: the table's folder and the version's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) root: String,
    pub(crate) version: u64,
}

impl Place {
    /// The place a path names, if it names a detached version.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let (root, name) = path.rsplit_once("/_versions/")?;
        let version = name.strip_prefix('d')?.strip_suffix(".manifest")?.parse().ok()?;
        is_detached_version(version).then(|| Self { root: root.to_owned(), version })
    }
}

/// What an object must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) size: u64,
    /// SHA-256 in hex, where it is known.
    pub(crate) digest: Option<String>,
    /// Whether it is a data file.
    pub(crate) data: bool,
}

/// Objects a version reaches beside its manifest, by key.
pub(crate) type Reachable = Arc<BTreeMap<Path, Expected>>;

/// A version, opened.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) pin: Pin,
    pub(crate) root: String,
    /// At rest: it is read through a view.
    pub(crate) dataset: Dataset,
    pub(crate) schema: SchemaRef,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    pub(crate) reachable: Reachable,
    pub(crate) indices: Arc<Vec<IndexMetadata>>,
    /// The manifest, where Lance reads it again: its list of indices.
    manifest: Option<Bytes>,
}

impl Version {
    /// Opens the version a pin names: size and digest of the manifest are checked before Lance reads it. 1 request.
    pub(crate) async fn open(engine: &Engine, pin: &Pin) -> Result<Self> {
        let named = Named { path: &pin.path, size: pin.size };
        let Some(digest) = pin.id.strip_prefix("sha256:") else {
            return Err(named.corrupt(format!("the pin's id {:?} is not one of the lance store", pin.id)));
        };
        let key = named.key()?;
        let bytes = engine.shared.objects.verified(named, digest).await?;
        let place = Place::parse(&pin.path).ok_or_else(|| named.corrupt("the object's name is no name of a version"))?;
        let view = View::reading(&engine.shared, Reachable::default());
        view.hold(key, bytes.clone());
        let handler = Pinned { pin: Some((pin.size, pin.id.clone())), ..Pinned::default() };
        let view = Arc::new(view);
        match engine.open(&place.root, place.version, handler, view.clone()).await {
            Ok(dataset) => Self::of(engine, pin.clone(), place.root, &engine.through(&dataset, view), bytes).await,
            Err(error) => Err(named.corrupt("the manifest cannot be read").because(error)),
        }
    }

    /// A version whose handle is known, and whose manifest it can read. No request.
    pub(crate) async fn of(engine: &Engine, pin: Pin, root: String, dataset: &Dataset, manifest: Bytes) -> Result<Self> {
        let named = Named { path: &pin.path, size: pin.size };
        let listed = dataset.manifest().index_section.is_some();
        let indices = match listed {
            true => dataset.load_indices().await.map_err(|error| named.corrupt("the list of indices cannot be read").because(error))?,
            false => Arc::default(),
        };
        let schema = Arc::new(Schema::from(dataset.schema()));
        let dataset = engine.at_rest(dataset);
        let manifest = listed.then_some(manifest);
        let mut version =
            Self { pin, root, schema, rows: 0, bytes: 0, files: 0, reachable: Reachable::default(), indices, manifest, dataset };
        version.count()?;
        Ok(version)
    }

    /// Rows, files and everything else the manifest names.
    fn count(&mut self) -> Result<()> {
        let mut reachable = BTreeMap::new();
        let config = self.dataset.manifest().config.clone();
        let mut reach = |key: String, expected: Expected| drop(reachable.insert(Path::from(format!("{}/{key}", self.root)), expected));
        for fragment in self.dataset.fragments().iter() {
            if !fragment.overlays.is_empty() {
                return Err(self.newer());
            }
            let rows = fragment.num_rows().ok_or_else(|| self.unknown("how many rows a fragment has"))?;
            self.rows += rows as u64;
            for file in &fragment.files {
                let size = self.size(file)?;
                self.bytes += size;
                self.files += 1;
                let key = digests::data(&file.path);
                let sealed = Sealed::parse(&file.path).or_else(|| digests::recorded(&config, &key));
                reach(key, Expected { size, digest: sealed.map(|sealed| sealed.digest), data: true });
            }
            if let Some(deletion) = &fragment.deletion_file {
                let key = relative_deletion_file_path(fragment.id, deletion);
                let sealed = digests::recorded(&config, &key).filter(|_| deletion.base_id.is_none());
                let sealed = sealed.ok_or_else(|| self.unknown("what a list of deleted rows is"))?;
                reach(key, Expected { size: sealed.size, digest: Some(sealed.digest), data: false });
            }
        }
        for index in self.indices.iter() {
            if index.files.is_none() || index.base_id.is_some() {
                return Err(self.unknown("what an index consists of"));
            }
            for (key, size) in digests::index_files(index) {
                let digest = digests::recorded(&config, &key).map(|sealed| sealed.digest);
                reach(key, Expected { size, digest, data: false });
            }
        }
        self.reachable = Arc::new(reachable);
        Ok(())
    }

    /// What reaches objects this build does not know of must not be taken for whole.
    fn newer(&self) -> Error {
        let message = "the version has overlays, which this build does not know; use the build that wrote it";
        Error::new(ErrorKind::Unsupported, message).at("object", &self.pin.path)
    }

    fn unknown(&self, what: &str) -> Error {
        Named { path: &self.pin.path, size: self.pin.size }.corrupt(format!("the manifest does not say {what}"))
    }

    /// The recorded size of a data file.
    fn size(&self, file: &DataFile) -> Result<u64> {
        match file.file_size_bytes.get() {
            Some(size) if file.base_id.is_none() => Ok(size.get()),
            Some(_) => Err(self.unknown("that a data file is the table's own")),
            None => Err(self.unknown("how large a data file is")),
        }
    }

    /// The key of a data file.
    pub(crate) fn key(&self, file: &DataFile) -> String {
        format!("{}/{}", self.root, digests::data(&file.path))
    }

    /// Everything the version reaches: its manifest and what that names. No request.
    pub(crate) fn reach(&self) -> Vec<Reached> {
        let manifest = Object { path: self.pin.path.clone(), size: self.pin.size };
        let digest = self.pin.id.strip_prefix("sha256:").map(str::to_owned);
        let reached = |(path, expected): (&Path, &Expected)| Reached {
            object: Object { path: path.to_string(), size: expected.size },
            digest: expected.digest.clone(),
            data: expected.data,
        };
        let manifest = Reached { object: manifest, digest, data: false };
        std::iter::once(manifest).chain(self.reachable.iter().map(reached)).collect()
    }

    /// Holds what Lance reads of the manifest.
    pub(crate) fn lend(&self, view: &View) {
        if let Some(manifest) = &self.manifest {
            view.hold(Path::from(self.pin.path.as_str()), manifest.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_detached_version_has_a_place() {
        let place = Place { root: "data/t/i".to_owned(), version: (1 << 63) + 7 };
        assert_eq!(Place::parse("data/t/i/_versions/d9223372036854775815.manifest"), Some(place));
        for other in ["data/t/i/_versions/18446744073709551614.manifest", "data/t/i/_versions/d7.manifest", "data/t/i/data/a.lance", ""] {
            assert_eq!(Place::parse(other), None, "{other}");
        }
    }
}
