//! Queries by their text.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::utils::quote_identifier;
use datafusion::datasource::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use datafusion::sql::TableReference;
use futures::{StreamExt, TryStreamExt};
use headwater_core::store::Rows;
use headwater_core::views::{convert, has_views, plain};
use headwater_core::{Error, Result, Snapshot};

use crate::catalog::{CATALOG, SnapshotCatalog};
use crate::error::from_datafusion;
use crate::table::SnapshotTable;

/// A DataFusion session whose default catalog is this snapshot, and whose default schema is its branch. No request.
///
/// It does all that DataFusion does: unlike [`query`], it may read and write files of this machine where a statement says so.
pub fn context(snapshot: &Snapshot) -> SessionContext {
    let config = SessionConfig::new()
        .with_default_catalog_and_schema(CATALOG, snapshot.branch().as_str())
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(true);
    let context = SessionContext::new_with_config(config);
    context.register_catalog(CATALOG, Arc::new(SnapshotCatalog::new(snapshot)));
    context
}

/// Runs a query on a snapshot: one statement that reads its tables and nothing else, such as `SELECT`, `EXPLAIN`, `DESCRIBE` or `SHOW TABLES`.
///
/// It is planned when this returns; rows are read as the stream is polled, by several tasks at once, and dropping the stream stops them. What
/// it holds in memory is up to the query: a sort or a join of large tables takes much, and spills to temporary files.
///
/// DataFusion sees columns of text as `Utf8View`, on which it works best; the answer has them as `Utf8` again, unless a table that is read has
/// views itself. The stream must be polled in a tokio runtime.
///
/// Requests: at most 1 for each table named; those of the scans when the stream is polled.
///
/// Errors: `InvalidInput` for a query that is not right, names what the snapshot does not have, or does more than read, and then nothing has
/// happened; `Unsupported` for what DataFusion does not do, and for more text in one batch of the answer than 2 GiB. Errors of the store are what they are, here and in the stream.
pub async fn query(snapshot: &Snapshot, text: &str) -> Result<Rows> {
    let context = context(snapshot);
    let plan = plan(&context.state(), snapshot, text).await.map_err(|error| error.during("plan query"))?;
    let keeps_views = reads_views(&plan);
    let frame = context.execute_logical_plan(plan).await.map_err(from_datafusion)?;
    let stream = frame.execute_stream().await.map_err(from_datafusion)?;
    if keeps_views || !has_views(&stream.schema()) {
        return Ok(Rows { schema: stream.schema(), batches: stream.map_err(from_datafusion).boxed() });
    }
    let schema = plain(&stream.schema());
    let to = schema.clone();
    Ok(Rows { schema, batches: stream.map(move |batch| convert(&batch.map_err(from_datafusion)?, &to)).boxed() })
}

/// Whether a table that is read has views itself. Where none has, an answer's are DataFusion's doing.
fn reads_views(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let looked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(table) = source_as_provider(&scan.source)
            && (table.as_ref() as &dyn Any).downcast_ref::<SnapshotTable>().is_some_and(SnapshotTable::has_views)
        {
            found = true;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    looked.is_ok() && found
}

async fn plan(state: &SessionState, snapshot: &Snapshot, text: &str) -> Result<LogicalPlan> {
    let statement = state.sql_to_statement(text, &state.config().options().sql_parser.dialect).map_err(from_datafusion)?;
    let tables = state.resolve_table_references(&statement).map_err(from_datafusion)?;
    let plan = state.statement_to_plan(statement).await.map_err(|error| {
        let error = from_datafusion(error);
        tables.into_iter().find_map(|table| unknown(snapshot, table)).unwrap_or(error)
    })?;
    let reads = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    reads.verify_plan(&plan).map_err(|source| {
        let message = "a query only reads; change tables by a transaction, or by the commands `load` and `table`";
        Error::invalid(message).because(source)
    })?;
    Ok(plan)
}

/// The error for a table the snapshot does not have.
fn unknown(snapshot: &Snapshot, table: TableReference) -> Option<Error> {
    let table = table.resolve(CATALOG, snapshot.branch().as_str());
    if *table.catalog != *CATALOG || *table.schema != *snapshot.branch().as_str() || snapshot.table(&table.table).is_ok() {
        return None;
    }
    let mut known: Vec<_> = snapshot.tables().map(|head| quote_identifier(head.key.as_str())).collect();
    known.sort_unstable();
    let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
    let (name, branch, seq) = (quote_identifier(&table.table), snapshot.branch(), snapshot.seq());
    Some(Error::invalid(format!("branch {branch} has no table {name} at seq {seq}; {known}")))
}
