//! A table of a snapshot, as DataFusion plans over it.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, DFSchema, Statistics};
use datafusion::error::Result as Planned;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExecBuilder;
use headwater_core::Snapshot;
use headwater_core::filter::Filter;
use headwater_core::store::{Description, Partition, Scan};
use headwater_core::views::{has_views, viewed};

use crate::filter::pushed;
use crate::scan::SnapshotScan;

/// A table of a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotTable {
    snapshot: Snapshot,
    key: String,
    description: Description,
    /// The table's, with views: what DataFusion works on best.
    schema: SchemaRef,
}

impl SnapshotTable {
    /// At most 1 request.
    pub(crate) async fn open(snapshot: &Snapshot, key: &str) -> headwater_core::Result<Self> {
        let description = snapshot.describe(key).await?;
        let schema = viewed(&description.schema);
        Ok(Self { snapshot: snapshot.clone(), key: key.to_owned(), description, schema })
    }

    /// Whether text in the table itself is a view.
    pub(crate) fn has_views(&self) -> bool {
        has_views(&self.description.schema)
    }

    pub(crate) fn description(&self) -> &Description {
        &self.description
    }

    /// The table's name and the commit its rows are of, as plans show them.
    pub(crate) fn place(&self) -> String {
        format!("table={:?}, seq={}", self.key, self.snapshot.seq())
    }

    /// The partitions of a scan: what the store asks for finding them.
    pub(crate) async fn partitions(&self, scan: &Scan) -> headwater_core::Result<Vec<Partition>> {
        self.snapshot.scan(&self.key, scan).await
    }
}

#[async_trait]
impl TableProvider for SnapshotTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// A plan that applies all of the conditions: the store what a filter says, and DataFusion the rest. No request.
    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        conditions: &[Expr],
        limit: Option<usize>,
    ) -> Planned<Arc<dyn ExecutionPlan>> {
        let table = &self.schema;
        let (mut filters, mut rest) = (Vec::new(), Vec::new());
        for condition in conditions {
            let pushed = pushed(condition, &self.description.schema);
            // DataFusion applies none of them again, not even one that it wrote otherwise since it asked.
            if pushed.as_ref().is_none_or(|pushed| !pushed.exact) {
                rest.push(condition.clone());
            }
            filters.extend(pushed.map(|pushed| pushed.filter));
        }
        let most = session.config().target_partitions();
        let filter = if filters.len() > 1 { Some(Filter::And(filters)) } else { filters.pop() };
        let scan = |columns: Option<&Vec<usize>>, limit: Option<usize>| -> Planned<SnapshotScan> {
            let schema = columns.map_or_else(|| Ok(table.clone()), |columns| table.project(columns).map(Arc::new))?;
            let columns = columns.map(|_| schema.fields().iter().map(|field| field.name().clone()).collect());
            let scan = Scan { columns, filter: filter.clone(), limit: limit.map(|limit| limit as u64), views: true };
            Ok(SnapshotScan::new(self.clone(), scan, schema, most))
        };
        let Some(rest) = conjunction(rest) else { return Ok(Arc::new(scan(projection, limit)?)) };

        let mut read: Vec<usize> = projection.map_or_else(|| (0..table.fields().len()).collect(), Clone::clone);
        let asked: Vec<usize> = (0..read.len()).collect();
        let needed = rest.column_refs().into_iter().map(|column| table.index_of(&column.name)).collect::<Result<Vec<_>, _>>()?;
        read.extend(needed.into_iter().filter(|column| !asked.iter().any(|i| read[*i] == *column)).collect::<BTreeSet<_>>());
        // Rows that are filtered out must not count: no limit.
        let scan = scan(Some(&read), None)?;
        let predicate = session.create_physical_expr(rest, &DFSchema::try_from(scan.schema().as_ref().clone())?)?;
        let filtered = FilterExecBuilder::new(predicate, Arc::new(scan)).apply_projection(Some(asked))?.build()?;
        Ok(Arc::new(filtered))
    }

    /// What the store can help with, [`SnapshotTable::scan`] does exactly.
    fn supports_filters_pushdown(&self, conditions: &[&Expr]) -> Planned<Vec<TableProviderFilterPushDown>> {
        let support = |condition: &&Expr| match pushed(condition, &self.description.schema) {
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(conditions.iter().map(support).collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(statistics(&self.description, &self.description.schema))
    }
}

/// What is known of all rows, for these columns: how many there are, exactly, and about how many bytes, as the files have them.
pub(crate) fn statistics(description: &Description, schema: &SchemaRef) -> Statistics {
    let column = |nullable: bool| {
        let unknown = ColumnStatistics::new_unknown();
        if nullable { unknown } else { unknown.with_null_count(Precision::Exact(0)) }
    };
    let (columns, all) = (schema.fields().len() as u64, description.schema.fields().len().max(1) as u64);
    Statistics {
        num_rows: Precision::Exact(count(description.rows)),
        total_byte_size: Precision::Inexact(count(description.bytes / all * columns)),
        column_statistics: schema.fields().iter().map(|field| column(field.is_nullable())).collect(),
    }
}

/// DataFusion's kind of number.
pub(crate) fn count(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
