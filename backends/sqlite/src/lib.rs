//! Headwater's control in one SQLite file: heads and records as rows of JSON text, for catalogs whose data is anywhere.
//!
//! Processes of one host may share the file; several hosts must not, and a network file system is refused where it can be told. What is
//! acknowledged has been fsynced. A read of a file that is not there creates nothing. `docs/sqlite.md` says how to look inside.
//!
//! - `schema`: the tables, the views for people, and their version.
//! - `file`: connections to the file, and whether it still is the file they were opened to.
//! - `requests`: the steps of a read, swap, create, list and remove; one function is one request, with its commit point named.
//! - `wait`: the bounded wait for whatever is in the way.
//! - `failure`: what SQLite's errors mean. `network`: file systems that SQLite's locks do not hold on.
//! - [`SqliteAuthority`]: the requests as a [`ControlAuthority`].

mod authority;
mod failure;
mod file;
mod network;
mod requests;
mod schema;
mod wait;

use std::path::PathBuf;
use std::sync::Arc;

use headwater_core::authority::ControlAuthority;
use headwater_core::registry::{AuthorityPart, Location, Part, Registration};
use headwater_core::{Error, Result};

pub use authority::SqliteAuthority;
pub use schema::VERSION;

/// Resolves `sqlite:///absolute/path`. The file need not exist; nothing is read or created.
///
/// Errors with `InvalidInput` for a host, any option, and a path that is not absolute UTF-8.
fn open(location: &Location) -> Result<Arc<dyn ControlAuthority>> {
    location.options.finish()?;
    Ok(Arc::new(SqliteAuthority::new(path(location)?)?))
}

fn path(location: &Location) -> Result<PathBuf> {
    let url = &location.url;
    let wrong = || Error::invalid(format!("{url} names no file; write sqlite:PATH or sqlite:///absolute/path"));
    if url.scheme() != "sqlite" || url.cannot_be_a_base() || url.path().ends_with('/') {
        return Err(wrong());
    }
    // Only a file:// URL knows how to become a path.
    let file = Location::parse(&format!("file{}", url.as_str().trim_start_matches("sqlite")))?.url;
    file.to_file_path().map_err(|()| wrong())
}

/// This authority's entry in the registry.
pub static REGISTRATION: Registration = Registration {
    name: "sqlite",
    part: Part::Authority(AuthorityPart {
        schemes: &["sqlite"],
        open,
        summary: "in a SQLite file of this host, for data anywhere; its processes may share it",
    }),
};
inventory::submit!(&REGISTRATION);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use headwater_core::ErrorKind;

    use super::*;

    #[test]
    fn a_url_names_the_file_its_percent_codes_say() {
        let location = Location::parse("sqlite:///lake/a%20b/%C3%BC/100%25/%23.db").unwrap();
        assert_eq!(path(&location).unwrap(), Path::new("/lake/a b/ü/100%/#.db"));
    }

    #[test]
    fn a_url_that_names_no_file_is_refused() {
        for url in ["sqlite://host/lake.db", "sqlite:lake.db", "sqlite:///lake.db?mode=ro", "sqlite:///", "sqlite:///a/", "sqlite:///a%00b"]
        {
            let error = open(&Location::parse(url).unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}");
        }
    }
}
