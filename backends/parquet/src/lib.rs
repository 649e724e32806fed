//! Headwater's default data store: Parquet files, and one immutable JSON version object per pin, on any object store.
//!
//! A table version is a *version object* that lists its newest data files and refers to older version objects for the rest (see
//! docs/format.md). Its size does not depend on the number of appends, and an append rewrites no older list.
//!
//! | operation | requests | round trips in sequence |
//! |---|---|---|
//! | append, base cached, up to 16 MiB encoded | 2 PUT | 1 |
//! | append, larger | multipart uploads, then 1 PUT | |
//! | rebase, add columns, base cached | 1 PUT | 1 |
//! | describe | 1 GET, none when cached | 1 |
//! | scan | 1 GET per version object not cached (one per 32 files), then per file as [`scan`](ParquetStore) says | |
//!
//! A scan reads a data file of up to 1 MiB in one GET and checks its digest. Of a larger one it reads the end first and then what it needs;
//! there, size and structure are checked, and the digest is left to `headwater verify --data`.

mod candidates;
mod chunk;
mod closure;
mod compact;
mod difference;
mod mutate;
mod passing;
mod prune;
mod reader;
mod scan;
mod settings;
mod stats;
mod store;
mod types;
mod upload;
mod version;
mod write;

use std::sync::Arc;

use headwater_core::registry::{Part, Registration, StorePart};

pub use settings::Settings;
pub use store::ParquetStore;

/// This store's entry in the registry.
pub static REGISTRATION: Registration = Registration {
    name: store::KIND,
    part: Part::Store(StorePart {
        open: |objects, mint| Ok(Arc::new(ParquetStore::new(objects, mint))),
        summary: "Parquet files and a small version object per commit, on any object store",
    }),
};
inventory::submit!(&REGISTRATION);
