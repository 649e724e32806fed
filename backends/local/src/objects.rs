//! The object store for data: plain files below the catalog's root, durable when a write is acknowledged.

use std::fmt;
use std::ops::Range;
use std::path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use headwater_core::Error;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions, Result,
};
use tokio::runtime::Handle;

use crate::disk::StdDisk;
use crate::folders::Folders;

/// The object store whose keys begin at this root, an absolute path that need not exist. No request; nothing is read or created before the
/// first write.
///
/// A write is acknowledged when its bytes, its name and every folder above it are fsynced. Deletions are not: after a loss of power a
/// deleted object may be there again. Errors with `InvalidInput` for a root that is not absolute UTF-8 or holds control characters.
pub fn objects(root: &path::Path) -> headwater_core::Result<Arc<dyn ObjectStore>> {
    let unusable =
        || Error::invalid(format!("{:?} cannot be a catalog's root; use an absolute path of printable UTF-8", root.display().to_string()));
    let prefix = Path::from_absolute_path(root).map_err(|source| unusable().because(source))?;
    // Rooted at "/", because a store rooted below refuses a root that does not exist yet.
    let disk = LocalFileSystem::new().with_fsync(true);
    let folders = Arc::new(Folders::new(Arc::new(StdDisk), root.components().collect()));
    Ok(Arc::new(Objects { below: PrefixStore::new(disk.clone(), prefix.clone()), disk, prefix, folders }))
}

/// object_store syncs the folders it makes itself, but trusts those it finds: one whose maker died, or has not synced it yet, could take an
/// acknowledged object with it. So every folder goes through [`Folders`] first.
#[derive(Debug)]
struct Objects {
    below: PrefixStore<LocalFileSystem>,
    disk: LocalFileSystem,
    prefix: Path,
    folders: Arc<Folders>,
}

impl fmt::Display for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalObjects(/{})", self.prefix)
    }
}

impl Objects {
    /// Makes the folder of an object about to be written, durably.
    async fn ensure_folder(&self, location: &Path) -> Result<()> {
        let full: Path = self.prefix.parts().chain(location.parts()).collect();
        let file = self.disk.path_to_filesystem(&full)?;
        let Some(folder) = file.parent().map(path::Path::to_owned) else { return Ok(()) };
        if self.folders.is_known(&folder) {
            return Ok(());
        }
        let folders = self.folders.clone();
        let made = match Handle::try_current() {
            Ok(runtime) => runtime.spawn_blocking(move || folders.ensure(&folder)).await?,
            Err(_) => folders.ensure(&folder),
        };
        made.map_err(|error| object_store::Error::Generic { store: "LocalObjects", source: Box::new(error) })
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Objects {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.ensure_folder(location).await?;
        self.below.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.ensure_folder(location).await?;
        self.below.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.below.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.below.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.below.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.below.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.below.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.below.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.ensure_folder(to).await?;
        self.below.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.ensure_folder(to).await?;
        self.below.rename_opts(from, to, options).await
    }
}
