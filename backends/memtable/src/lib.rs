//! A caching memtable in front of any data store: many small appends become few files and few commits.
//!
//! A [`Writer`] keeps the rows it is given in memory, shows them to its own reader, writes them to the store in large pieces, and publishes
//! what it is told to with one commit. It stands on a branch of a catalog and on [`StagedAppend`](headwater_core::StagedAppend) alone, so it
//! works in front of every store, and no catalog records that it was there.
//!
//! | rows are | after | seen by | after a crash |
//! |---|---|---|---|
//! | in memory | [`Writer::append`] | this writer | gone |
//! | durable, in no commit | a flush | this writer | gone: nothing names them, and a vacuum takes them away |
//! | published | [`Writer::publish`] | everybody | there |
//!
//! | operation (Parquet) | requests |
//! |---|---|
//! | append | none; the first one to a table may read the head and the table's version |
//! | flush of one table | 2 in 1 round trip |
//! | publish of k tables with rows in memory | 2k + 1 in 2 round trips, and what a commit adds for spills and lost swaps |
//! | publish of k tables that were flushed | 1, and 1 for each flush of a table that others have changed since |
//! | scan | 1 for the head unless flushed rows wait, and the scan of the table |

mod buffer;
#[cfg(test)]
mod bug;
mod flush;
#[cfg(test)]
mod model;
mod publish;
mod scan;
mod state;
mod writer;

pub use headwater_core::limits::Limits;
pub use writer::{Closed, Waiting, Writer};
