//! A control authority and a data store for Headwater, by somebody else: what `docs/your-own-backend.md` builds.
//!
//! ```no_run
//! # async fn open() -> headwater_core::Result<()> {
//! let catalog = headwater::builder("onefile:///srv/lake")
//!     .register(&one_file::BACKEND)
//!     .register(&one_file::STORE)
//!     .create(true)
//!     .store(one_file::KIND)
//!     .open()
//!     .await?;
//! # let _ = catalog;
//! # Ok(())
//! # }
//! ```

mod authority;
mod content;
mod map;
mod store;

use std::sync::Arc;

use headwater_core::registry::{Backend, Location, OpenedBackend, Part, Registration, StorePart};
use headwater_core::{Error, Result};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;

pub use authority::OneFile;
pub use store::{IpcStore, KIND};

/// Catalogs at `onefile:///absolute/path`.
pub static BACKEND: Registration = Registration {
    name: "onefile",
    part: Part::Backend(Backend { schemes: &["onefile"], open, summary: "heads and records in one file of this host" }),
};

/// Tables as Arrow IPC files.
pub static STORE: Registration = Registration {
    name: KIND,
    part: Part::Store(StorePart {
        open: |objects, mint| Ok(Arc::new(IpcStore::new(objects, mint.clone()))),
        summary: "Arrow IPC files, one for each change",
    }),
};

/// Resolves the URL. Nothing is read or made.
fn open(location: &Location) -> Result<OpenedBackend> {
    location.options.finish()?;
    let misplaced = || Error::invalid(format!("{} is not a local folder; write onefile:///absolute/path", location.url));
    let root = location.url.to_file_path().map_err(|()| misplaced())?;
    let data = Path::from_absolute_path(&root).map_err(|source| misplaced().because(source))?;
    // Rooted at "/", because a store rooted below refuses a root that does not exist yet.
    let objects = PrefixStore::new(LocalFileSystem::new().with_fsync(true), data);
    Ok(OpenedBackend { authority: Arc::new(OneFile::new(root.join("control"))), objects: Arc::new(objects) })
}
