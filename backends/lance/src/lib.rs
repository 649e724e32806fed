//! Headwater's Lance data store: every table version a detached Lance version, on any object store.
//!
//! Lance finds versions by their number in a chain, and the newest by listing it. Here a branch's head says which version is current, so a
//! version stands outside any chain: its manifest is written once, under a random number, and the pin in the head names it exactly. Any
//! Lance client of the same format opens it by that number.
//!
//! | operation | requests | round trips in sequence |
//! |---|---|---|
//! | append, base known, up to 5 MiB encoded | 2 PUT | 1 |
//! | append, larger | multipart uploads, then 1 PUT per smaller file and the manifest | |
//! | rebase, add columns, base known | 1 PUT | 1 |
//! | create, overwrite | as an append; 1 PUT without rows | 1 |
//! | delete, update, change by key | a scan of what decides; 1 GET for each touched fragment that lacks rows already; then 1 PUT for each touched fragment, 1 for new rows, 1 for the manifest | 2 and the scan's |
//! | index | a scan of the column, 1 PUT for each of the index's files (parts, where it is larger than 5 MiB), 1 for the manifest | 1 and the scan's |
//! | optimize | a scan of the fragments that are written anew and of indexed columns, 1 PUT for each new data file and each file of an index, 1 for the manifest | 1 and the scan's |
//! | mirror | 1 PUT; 1 GET more where the number is taken | 1 |
//! | describe | 1 GET, none when known | 1 |
//! | scan | 1 GET for the manifest, none when known; per data file, list of deleted rows and index as below | |
//!
//! A scan reads a data file of up to 1 MiB in one GET and checks its digest. Of a larger one it reads the end first and then what it needs;
//! there, size and structure are checked, and the digest is left to `headwater verify --data`.

mod compact;
mod content;
mod difference;
mod digests;
mod engine;
mod filter;
mod handler;
mod index;
mod mirror;
mod mutate;
mod scan;
mod sealed;
mod stage;
mod store;
mod types;
mod upload;
mod version;
mod view;

use std::sync::Arc;

use headwater_core::registry::{Part, Registration, StorePart};

pub use store::LanceStore;

/// This store's entry in the registry.
pub static REGISTRATION: Registration = Registration {
    name: store::KIND,
    part: Part::Store(StorePart {
        open: |objects, mint| Ok(Arc::new(LanceStore::new(objects, mint)?)),
        summary: "Lance datasets, a detached version per commit, on any object store",
    }),
};
inventory::submit!(&REGISTRATION);
