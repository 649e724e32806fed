//! A snapshot as DataFusion's catalog: one schema, which has the branch's name, with the snapshot's tables.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::TableType;
use headwater_core::Snapshot;

use crate::error::to_datafusion;
use crate::table::SnapshotTable;

/// The name of a snapshot's catalog in a [`context`](crate::context).
pub const CATALOG: &str = "headwater";

/// The tables of a snapshot. It never changes, and neither do they: nothing can be registered in it.
///
/// Tables have the names they have: SQL folds what is not quoted to lower case, so that a table `Trips` is written `"Trips"`.
///
/// Requests: at most 1 for each table that a query names, when it is planned; none for names.
#[derive(Clone, Debug)]
pub struct SnapshotCatalog(Arc<SnapshotSchema>);

impl SnapshotCatalog {
    /// The tables of this snapshot. No request.
    pub fn new(snapshot: &Snapshot) -> Self {
        Self(Arc::new(SnapshotSchema(snapshot.clone())))
    }
}

impl CatalogProvider for SnapshotCatalog {
    fn schema_names(&self) -> Vec<String> {
        vec![self.0.0.branch().to_string()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        (self.0.0.branch().as_str() == name).then(|| self.0.clone() as _)
    }
}

#[derive(Debug)]
struct SnapshotSchema(Snapshot);

#[async_trait]
impl SchemaProvider for SnapshotSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.tables().map(|head| head.key.to_string()).collect();
        names.sort_unstable();
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if !self.table_exist(name) {
            return Ok(None);
        }
        let table = SnapshotTable::open(&self.0, name).await.map_err(to_datafusion)?;
        Ok(Some(Arc::new(table)))
    }

    /// Without the request that opening the table would cost.
    async fn table_type(&self, name: &str) -> Result<Option<TableType>, DataFusionError> {
        Ok(self.table_exist(name).then_some(TableType::Base))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.0.table(name).is_ok()
    }
}
