//! Headwater on a local disk: a control authority of plain files, and an object store of plain files beside it.
//!
//! Processes of one host may share a catalog; several hosts must not, also not through a network file system. What is acknowledged has been
//! fsynced, file and folder. A read of a catalog that is not there creates nothing.
//!
//! - [`disk`]: the primitive file operations everything here is made of.
//! - `layout`: which file is which head or record.
//! - `folders`: making folders that survive a loss of power.
//! - `files`: the steps of a read, swap, create, list and remove; each names its commit point.
//! - [`LocalAuthority`]: those steps as a [`ControlAuthority`](headwater_core::authority::ControlAuthority).
//! - `objects`: the object store for data.
//! - `sim` (feature `sim`): a disk in memory that fails, dies and loses power where a test says.

mod authority;
pub mod disk;
mod failure;
mod files;
mod folders;
mod layout;
mod objects;
#[cfg(feature = "sim")]
pub mod sim;

use std::path::PathBuf;
use std::sync::Arc;

use headwater_core::registry::{Backend, Location, OpenedBackend, Part, Registration};
use headwater_core::{Error, Result};

pub use authority::LocalAuthority;
pub use objects::objects;

/// Resolves `file:///absolute/path`. The folder need not exist; nothing is read or created.
///
/// Errors with `InvalidInput` for a host, any option, and a path that is not absolute UTF-8.
fn open(location: &Location) -> Result<OpenedBackend> {
    location.options.finish()?;
    let root = root(location)?;
    Ok(OpenedBackend { authority: Arc::new(LocalAuthority::new(&root)?), objects: objects(&root)? })
}

fn root(location: &Location) -> Result<PathBuf> {
    let url = &location.url;
    if url.scheme() != "file" {
        return Err(Error::invalid(format!("{url} is not a file:// URL")));
    }
    url.to_file_path().map_err(|()| Error::invalid(format!("{url} is not the URL of a local folder; write file:///absolute/path")))
}

/// This backend's entry in the registry.
pub static REGISTRATION: Registration = Registration {
    name: "local",
    part: Part::Backend(Backend { schemes: &["file"], open, summary: "in a folder of this host; its processes may share it" }),
};
inventory::submit!(&REGISTRATION);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use headwater_core::ErrorKind;

    use super::*;

    #[test]
    fn a_url_names_the_folder_its_percent_codes_say() {
        let location = Location::parse("file:///lake/a%20b/%C3%BC/100%25/%23").unwrap();
        assert_eq!(root(&location).unwrap(), Path::new("/lake/a b/ü/100%/#"));
    }

    #[test]
    fn a_url_that_is_no_local_folder_is_refused() {
        for url in ["file://host/lake", "file:///lake?fsync=no", "memory://lake", "file:///a%00b", "file:///a%FFb"] {
            let error = open(&Location::parse(url).unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}");
        }
    }
}
