//! How Lance finds and writes manifests: where the pin says, and nowhere else.

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use lance_core::{Error, Result};
use lance_io::object_store::ObjectStore;
use lance_table::format::{IndexMetadata, Manifest, Transaction};
use lance_table::io::commit::{CommitError, CommitHandler, ManifestLocation, ManifestNamingScheme, ManifestWriter};
use object_store::ObjectStore as OSObjectStore;
use object_store::path::Path;

use crate::digests;
use crate::sealed::Sealed;

/// With these bits, a detached version's number, which is random, has twenty digits.
const TWENTY_DIGITS: u64 = 0b11 << 62;

/// The handler of one version and of the version that a stage builds on it. Makes no request of its own: there is no latest version here,
/// and no list of versions.
#[derive(Debug, Default)]
pub(crate) struct Pinned {
    /// Size and identity of the manifest, where there is one yet.
    pub(crate) pin: Option<(u64, String)>,
    /// Objects of the stage whose names do not say their digest, by their keys below the table's folder.
    pub(crate) new: Vec<(String, Sealed)>,
}

#[async_trait]
impl CommitHandler for Pinned {
    fn is_version_not_found_definitive(&self) -> bool {
        true
    }

    fn propagate_commit_error_after_success(&self) -> bool {
        false
    }

    async fn resolve_latest_location(&self, base_path: &Path, _: &ObjectStore) -> Result<ManifestLocation> {
        Err(Error::not_found(base_path.to_string()))
    }

    async fn resolve_version_location(&self, base_path: &Path, version: u64, _: &dyn OSObjectStore) -> Result<ManifestLocation> {
        let naming_scheme = ManifestNamingScheme::V2;
        let (size, id) = self.pin.clone().unzip();
        // The identity stands where Lance has the generation of an object: it keys Lance's caches.
        Ok(ManifestLocation {
            version,
            path: naming_scheme.manifest_path(base_path, version),
            size,
            naming_scheme,
            e_tag: id,
            identity: None,
        })
    }

    async fn version_exists(&self, _: &Path, _: u64, _: &dyn OSObjectStore, _: ManifestNamingScheme) -> Result<bool> {
        Ok(false)
    }

    fn list_detached_manifest_locations<'a>(&self, _: &Path, _: &'a ObjectStore) -> BoxStream<'a, Result<ManifestLocation>> {
        futures::stream::empty().boxed()
    }

    fn list_manifest_locations<'a>(&self, _: &Path, _: &'a ObjectStore, _: bool) -> BoxStream<'a, Result<ManifestLocation>> {
        futures::stream::empty().boxed()
    }

    fn list_manifest_locations_since<'a>(&self, _: &Path, _: &'a ObjectStore, _: u64) -> BoxStream<'a, Result<ManifestLocation>> {
        futures::stream::empty().boxed()
    }

    async fn commit(
        &self,
        manifest: &mut Manifest,
        indices: Option<Vec<IndexMetadata>>,
        base_path: &Path,
        object_store: &ObjectStore,
        manifest_writer: ManifestWriter,
        naming_scheme: ManifestNamingScheme,
        _: Option<Transaction>,
    ) -> std::result::Result<ManifestLocation, CommitError> {
        // Lance's record of what was done is for writers that rebase on a version. Here nobody does, and for a compaction it is as long as
        // the list of what was compacted; a file of its own would be one more request, and one more object for a pin to reach.
        manifest.transaction_file = None;
        digests::record(manifest, indices.as_deref().unwrap_or_default(), &self.new);
        // Numbers of one length, so that pins have one length, too.
        manifest.version |= TWENTY_DIGITS;
        let path = naming_scheme.manifest_path(base_path, manifest.version);
        let written = manifest_writer(object_store, manifest, indices, &path, None).await?;
        Ok(ManifestLocation {
            version: manifest.version,
            path,
            size: Some(written.size as u64),
            naming_scheme,
            e_tag: written.e_tag,
            identity: None,
        })
    }
}
