//! SQL over Headwater's snapshots, with DataFusion.
//!
//! A query runs on one snapshot: on the rows that all its tables had at one commit, whatever writers do meanwhile. In three lines:
//!
//! ```
//! # use std::sync::Arc;
//! # use arrow_array::{Int64Array, RecordBatch};
//! # use futures::TryStreamExt;
//! # use {headwater_adapters as _, headwater_parquet as _};
//! # use headwater_core::{Catalog, Parts, memory::MemoryAuthority, registry::Registry};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> headwater_core::Result<()> {
//! # let mut expected = vec![("backend", "memory"), ("store", "parquet")];
//! # expected.extend(headwater_adapters::EXPECTED);
//! # let registry = Registry::seal(&expected, &[])?;
//! # let parts = Parts::new(registry, Arc::new(MemoryAuthority::new()), Arc::new(object_store::memory::InMemory::new()));
//! # let main = Catalog::open_or_create(parts, "parquet").await?.branch("main")?;
//! # let batch = RecordBatch::try_from_iter([("km", Arc::new(Int64Array::from(vec![3, 42])) as _)]).unwrap();
//! # main.transact(|tx| {
//! #     let batch = batch.clone();
//! #     async move { let trips = tx.create_table("trips", batch.schema()).await?; tx.append(&trips, batch).await }
//! # }).await?;
//! let snapshot = main.snapshot().await?;
//! let answer = headwater_sql::query(&snapshot, "SELECT max(km) AS longest FROM trips").await?;
//! let batches: Vec<RecordBatch> = answer.batches.try_collect().await?;
//! # assert_eq!(batches, [RecordBatch::try_from_iter_with_nullable([("longest", Arc::new(Int64Array::from(vec![42])) as _, true)]).unwrap()]);
//! # Ok(())
//! # }
//! ```
//!
//! [`query`] only reads. Whoever wants DataFusion itself, with other tables beside the snapshot's or with its `DataFrame`s, takes
//! [`context`], or registers a [`SnapshotCatalog`] in a context of their own: two snapshots of one branch, say, to compare them.
//!
//! Projections, limits, and the conditions that mean in a [`Filter`](headwater_core::filter::Filter) exactly what they mean in SQL go down to
//! the store. Planning reads each table's description and nothing else; which files there are is asked when rows are.

mod catalog;
mod error;
mod filter;
mod query;
mod scan;
mod table;

pub use catalog::{CATALOG, SnapshotCatalog};
pub use datafusion;
pub use error::{from_datafusion, to_datafusion};
pub use query::{context, query};
