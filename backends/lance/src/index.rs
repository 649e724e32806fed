//! Indices: B-trees over one column. They are derived: what they do not cover is read without them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use headwater_core::json::sha256;
use headwater_core::store::Staged;
use headwater_core::{Error, Result};
use lance::dataset::transaction::Operation;
use lance::index::CreateIndexBuilder;
use lance_index::IndexType;
use lance_index::scalar::{BuiltinIndexType, ScalarIndexParams};
use lance_table::format::IndexMetadata;

use crate::LanceStore;
use crate::stage::{Base, Stage};
use crate::store::staged;
use crate::version::Version;

impl LanceStore {
    /// Rows are sorted in memory, and beyond some hundred MiB in the system's folder for temporary files.
    ///
    /// Requests: a scan of the column, then 1 for each of the index's files and 1 for the manifest, side by side.
    pub(crate) async fn index(&self, version: Arc<Version>, column: &str) -> Result<Staged> {
        let content = sha256(format!("index {column}").as_bytes());
        let field = version.dataset.schema().fields.iter().find(|field| field.name == column);
        let Some(field) = field else { return Err(Error::invalid(format!("there is no column {column:?} to index"))) };
        if version.schema.field_with_name(column).is_ok_and(|field| field.data_type().is_nested()) {
            return Err(Error::invalid(format!("column {column:?} is nested, and its values have no order to be indexed by")));
        }
        if version.indices.iter().any(|index| index.fields == [field.id] && version.is_covered_by(index)) {
            return Ok(staged(&version, 0, content));
        }
        let mut stage = Stage::new(&self.engine, Base::of(&version));
        stage.index(column).await?;
        Ok(staged(&self.know(stage.publish().await?), 0, content))
    }
}

impl Stage<'_> {
    /// Indexes a column over what the stage has so far, in the place of an index it has.
    pub(crate) async fn index(&mut self, column: &str) -> Result<()> {
        let params = ScalarIndexParams::for_builtin(BuiltinIndexType::BTree);
        let mut dataset = self.dataset().clone();
        let columns = [column];
        let mut builder = CreateIndexBuilder::new(&mut dataset, &columns, IndexType::BTree, &params).replace(true);
        // The decoder may panic on bytes no writer wrote.
        let built = AssertUnwindSafe(Box::pin(builder.execute_uncommitted())).catch_unwind().await;
        let damaged = |_| Error::corrupt(self.root(), "a data file cannot be decoded; run `headwater verify --data`");
        let built = built.map_err(damaged)?.map_err(|error| self.failed(&format!("Lance cannot index the column {column:?}"), error))?;
        let removed_indices = self.indices().await?.iter().filter(|index| index.name == built.name).cloned().collect();
        self.apply(Operation::CreateIndex { new_indices: vec![built], removed_indices }, &[]).await
    }

    /// Goes on without any index.
    pub(crate) async fn drop_indices(&mut self) -> Result<()> {
        let removed_indices = self.indices().await?.to_vec();
        self.apply(Operation::CreateIndex { new_indices: Vec::new(), removed_indices }, &[]).await
    }
}

impl Version {
    /// Whether the index knows all rows.
    pub(crate) fn is_covered_by(&self, index: &IndexMetadata) -> bool {
        let covered = |id: u64| index.fragment_bitmap.as_ref().is_some_and(|bitmap| u32::try_from(id).is_ok_and(|id| bitmap.contains(id)));
        self.dataset.fragments().iter().all(|fragment| covered(fragment.id))
    }

    /// The column of an index.
    pub(crate) fn indexed(&self, index: &IndexMetadata) -> Option<&str> {
        self.dataset.schema().field_by_id(*index.fields.first()?).map(|field| field.name.as_str())
    }
}
