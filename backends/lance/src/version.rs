//! A table version: what its manifest, exactly as pinned, says of it.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use headwater_core::store::{Object, Pin, Reached};
use headwater_core::{Error, ErrorKind, Result};
use lance::Dataset;
use lance_table::format::{DataFile, Fragment, is_detached_version};
use object_store::path::Path;

use crate::digests;
use crate::engine::Engine;
use crate::handler::Pinned;
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
        let view = View::reading(&engine.shared, Default::default());
        view.hold(key, bytes);
        let handler = Pinned { pin: Some((pin.size, pin.id.clone())), ..Pinned::default() };
        match engine.open(&place.root, place.version, handler, Arc::new(view)).await {
            Ok(dataset) => Self::of(pin.clone(), place.root, dataset),
            Err(error) => Err(named.corrupt("the manifest cannot be read").because(error)),
        }
    }

    /// A version whose handle is known.
    pub(crate) fn of(pin: Pin, root: String, dataset: Dataset) -> Result<Self> {
        let schema = Arc::new(Schema::from(dataset.schema()));
        let mut version = Self { pin, root, schema, rows: 0, bytes: 0, files: 0, dataset };
        if version.dataset.manifest().index_section.is_some() {
            return Err(version.newer());
        }
        for fragment in version.dataset.fragments().iter() {
            if fragment.deletion_file.is_some() || !fragment.overlays.is_empty() {
                return Err(version.newer());
            }
            let rows = fragment.num_rows().ok_or_else(|| version.unknown("how many rows a fragment has"))?;
            version.rows += rows as u64;
            for file in &fragment.files {
                version.bytes += version.size(file)?;
                version.files += 1;
            }
        }
        Ok(version)
    }

    /// What reaches objects this build does not know of must not be taken for whole.
    fn newer(&self) -> Error {
        let message = "the version has deletions or indices, which this build does not know; use the build that wrote it";
        Error::new(ErrorKind::Unsupported, message).at("object", &self.pin.path)
    }

    fn unknown(&self, what: &str) -> Error {
        Named { path: &self.pin.path, size: self.pin.size }.corrupt(format!("the manifest does not say {what}"))
    }

    /// The recorded size of a data file.
    pub(crate) fn size(&self, file: &DataFile) -> Result<u64> {
        match file.file_size_bytes.get() {
            Some(size) if file.base_id.is_none() => Ok(size.get()),
            Some(_) => Err(self.unknown("that a data file is the table's own")),
            None => Err(self.unknown("how large a data file is")),
        }
    }

    /// The key of a data file.
    pub(crate) fn key(&self, file: &DataFile) -> String {
        data_key(&self.root, &file.path)
    }

    /// Everything the version reaches: its manifest and its data files. No request.
    pub(crate) fn reach(&self) -> Result<Vec<Reached>> {
        let manifest = Object { path: self.pin.path.clone(), size: self.pin.size };
        let digest = self.pin.id.strip_prefix("sha256:").map(str::to_owned);
        let mut reached = vec![Reached { object: manifest, digest, data: false }];
        for file in self.dataset.fragments().iter().flat_map(|fragment| &fragment.files) {
            let object = Object { path: self.key(file), size: self.size(file)? };
            reached.push(Reached { object, digest: digests::digest(&self.dataset.manifest().config, &file.path), data: true });
        }
        Ok(reached)
    }

    /// The data files of a fragment and their sizes.
    pub(crate) fn sizes(&self, fragment: &Fragment) -> Result<std::collections::BTreeMap<Path, u64>> {
        fragment.files.iter().map(|file| Ok((Path::from(self.key(file)), self.size(file)?))).collect()
    }
}

/// The key of a data file of the table in this folder.
pub(crate) fn data_key(root: &str, name: &str) -> String {
    format!("{root}/data/{name}")
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
