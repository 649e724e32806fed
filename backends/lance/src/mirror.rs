//! Mirrored lineage: a copy of a version's manifest on the dataset's chain of versions, where other Lance clients look for the latest.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use headwater_core::json::sha256;
use headwater_core::store::{Mirror, Pin, TableRef};
use headwater_core::{Error, ErrorKind, Result};
use lance_table::format::is_detached_version;
use lance_table::io::commit::{ManifestNamingScheme, write_manifest_file_to_path};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use crate::handler::Pinned;
use crate::store::LanceStore;
use crate::version::{Reachable, Version};
use crate::view::View;

/// In the configuration of a manifest on the chain: its number and the identity of the pin it stands for. Lance hands the configuration on to
/// whatever another program builds on it, so without the number that would pass for ours.
const MIRRORS: &str = "headwater.mirrors";

fn mark(number: u64, pin: &Pin) -> String {
    format!("{number} {}", pin.id)
}

/// What every file of Lance ends with.
const MAGIC: &[u8] = b"LANC";

fn path(folder: &str, number: u64) -> Path {
    ManifestNamingScheme::V2.manifest_path(&Path::from(folder), number)
}

#[async_trait]
impl Mirror for LanceStore {
    fn path(&self, table: TableRef, number: u64) -> String {
        path(&table.folder(), number).to_string()
    }

    #[tracing::instrument(level = "debug", skip_all)]
    async fn put(&self, table: TableRef, pin: &Pin, number: u64) -> Result<()> {
        table.own(pin)?;
        if number == 0 || is_detached_version(number) {
            return Err(Error::invalid(format!("{number} is no number of a version on a chain")));
        }
        let version = self.version(pin).await?;
        let path = path(&version.root, number);
        let manifest = self.copy(&version, &path, number).await?;
        match self.engine.shared.objects.create(path.as_ref(), manifest).await {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && self.mark_of(&version.root, number).await? == mark(number, pin) => {
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let problem = format!("version {number} of the dataset is another program's, and nothing but Headwater may write there");
                Err(Error::new(ErrorKind::AlreadyExists, format!("{problem}; remove the object, and optimize the table"))
                    .at("object", path))
            }
            created => created,
        }
    }
}

impl LanceStore {
    /// The version's manifest under another number. No request.
    async fn copy(&self, version: &Version, path: &Path, number: u64) -> Result<Bytes> {
        let view = Arc::new(View::staging(&self.engine.shared, Reachable::default()));
        let mut manifest = version.dataset.manifest().clone();
        manifest.version = number;
        manifest.config.insert(MIRRORS.to_owned(), mark(number, &version.pin));
        let indices = (!version.indices.is_empty()).then(|| version.indices.to_vec());
        let written = write_manifest_file_to_path(&self.engine.store(view.clone()), &mut manifest, indices, path, None).await;
        let failed = |error| Error::new(ErrorKind::Unsupported, "Lance cannot write this manifest").because(error).at("object", path);
        written.map_err(failed)?;
        view.held(path).ok_or_else(|| Error::new(ErrorKind::Unsupported, "Lance lost a manifest; report this as a bug").at("object", path))
    }

    /// The mark of a version on the chain; none for one that another program wrote from nothing. 1 request.
    async fn mark_of(&self, folder: &str, number: u64) -> Result<String> {
        let shared = &self.engine.shared;
        let path = path(folder, number);
        let read = async { shared.objects.0.get(&path).await?.bytes().await };
        let bytes = read.await.map_err(|error| Error::from(error).at("object", &path))?;
        if !bytes.ends_with(MAGIC) {
            return Ok(String::new());
        }
        let handler = Pinned { pin: Some((bytes.len() as u64, format!("sha256:{}", sha256(&bytes)))), ..Pinned::default() };
        let view = View::reading(shared, Reachable::default());
        view.hold(path, bytes);
        // What cannot be read is not ours; Lance may panic on bytes that are no manifest.
        let opened = AssertUnwindSafe(self.engine.open(folder, number, handler, Arc::new(view))).catch_unwind().await;
        Ok(opened.ok().and_then(Result::ok).and_then(|dataset| dataset.manifest().config.get(MIRRORS).cloned()).unwrap_or_default())
    }
}
