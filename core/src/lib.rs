//! Headwater's core: the traits a backend implements, the head format, and the commit protocol that stands on them.

pub mod adapter;
pub mod authority;
mod branch;
pub mod cache;
pub mod catalog;
mod changes;
mod commit;
pub mod edit;
pub mod error;
pub mod filter;
pub mod head;
mod history;
pub mod ids;
pub mod json;
pub mod keys;
pub mod limits;
pub mod memory;
pub mod name;
pub mod objects;
mod records;
pub mod registry;
pub mod schema;
mod snapshot;
pub mod store;
mod tombstones;
mod transaction;
pub mod verify;

pub use branch::Branch;
pub use catalog::{Catalog, Parts, RetryPolicy};
pub use changes::{Changes, Cursor, RowChange, RowChanges, RowCounts, Since, TableChange};
pub use commit::{Commit, CommittedTable, TransactOptions};
pub use error::{Error, ErrorKind, Result, Retry};
pub use snapshot::{At, LogEntry, Snapshot};
pub use transaction::{StagedAppend, Table, Transaction};
