//! What a transaction asks for, table by table, until its closure has returned.

use std::collections::BTreeMap;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use futures::StreamExt;

use super::{StagedAppend, Table, TableOptions};
use crate::adapter::{Plan, WriterKind};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::head::TableHead;
use crate::keys::{self, Keys};
use crate::name::TableKey;
use crate::schema::Conform;
use crate::store::{ByKey, Rows};

/// What a transaction did to one table so far.
pub(super) enum Pending {
    Create(NewTable),
    Append(TableHead, SchemaRef, Vec<Rows>),
    Overwrite(TableHead, SchemaRef, Vec<Rows>),
    Rename(TableHead, TableKey),
    Drop(TableHead),
    AddColumns(TableHead, SchemaRef),
    Delete(TableHead, Filter),
    Update(TableHead, Filter, Vec<(String, ArrayRef)>),
    ByKey(TableHead, SchemaRef, ByKey, Vec<Rows>),
    Optimize(TableHead),
    Index(TableHead, String),
    Staged(TableHead, StagedAppend, bool),
}

/// A table a transaction creates.
pub(super) struct NewTable {
    pub(super) key: TableKey,
    pub(super) schema: SchemaRef,
    pub(super) options: TableOptions,
    pub(super) recreate: Option<TableHead>,
    pub(super) rows: Vec<Rows>,
}

impl Pending {
    pub(super) fn is(&self, table: &Table) -> bool {
        match (self, &table.head) {
            (Self::Create(new), None) => new.key == table.key,
            (Self::Create(_), Some(_)) | (_, None) => false,
            (
                Self::Append(own, ..)
                | Self::Overwrite(own, ..)
                | Self::Rename(own, _)
                | Self::Drop(own)
                | Self::AddColumns(own, _)
                | Self::Delete(own, _)
                | Self::Update(own, ..)
                | Self::ByKey(own, ..)
                | Self::Optimize(own)
                | Self::Index(own, _)
                | Self::Staged(own, ..),
                Some(head),
            ) => own.table_id == head.table_id,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Create(NewTable { recreate: None, .. }) => "create",
            Self::Create(_) => "recreate",
            Self::Append(..) | Self::Staged(..) => "append",
            Self::Overwrite(..) => "overwrite",
            Self::Rename(..) => "rename",
            Self::Drop(..) => "drop",
            Self::AddColumns(..) => "add columns",
            Self::Delete(..) => "delete",
            Self::Update(..) => "update",
            Self::ByKey(_, _, action, _) => action.name(),
            Self::Optimize(_) => "optimize",
            Self::Index(..) => "index",
        }
    }

    /// The writer kind it needs, where it needs one: a bare create fits both.
    pub(super) fn kind(&self) -> Option<WriterKind> {
        match self {
            Self::Create(NewTable { recreate: None, rows, .. }) => (!rows.is_empty()).then_some(WriterKind::Load),
            Self::Append(..) | Self::Staged(..) | Self::Overwrite(..) => Some(WriterKind::Load),
            Self::Delete(..) | Self::Update(..) | Self::ByKey(..) => Some(WriterKind::Mutation),
            Self::Optimize(_) => Some(WriterKind::Optimize),
            Self::Index(..) => Some(WriterKind::Index),
            Self::Create(_) | Self::Rename(..) | Self::Drop(..) | Self::AddColumns(..) => Some(WriterKind::Schema),
        }
    }
}

/// The rows in the table's schema.
pub(super) fn conform(table: &Table, rows: Rows) -> Result<Rows> {
    conform_to(table, table.schema.clone(), rows)
}

/// The rows in a schema that is the table's, or a part of it.
pub(super) fn conform_to(table: &Table, target: SchemaRef, rows: Rows) -> Result<Rows> {
    let key = table.key.clone();
    if rows.schema.fields().is_empty() {
        // What an empty list of batches becomes. Rows without columns are no rows of any table.
        let none = move |batch: RecordBatch| match batch.num_rows() {
            0 => Ok(batch),
            rows => Err(Error::invalid(format!("{rows} rows have no column at all")).at("table", &key)),
        };
        let batches = rows.batches.map(move |batch| none(batch?)).boxed();
        return Ok(Rows { schema: target, batches });
    }
    let conform = Conform::new(&rows.schema, &target).map_err(|error| error.at("table", &key))?;
    let mut seen = 0;
    let batches = rows.batches.map(move |batch| {
        let batch = batch?;
        let first = seen;
        seen += batch.num_rows();
        conform.apply(&batch, first).map_err(|error| error.at("table", &key))
    });
    Ok(Rows { schema: target, batches: batches.boxed() })
}

/// What an adapter stages; `None` where nothing would change.
pub(super) async fn plan(pending: Pending) -> Result<Option<Plan>> {
    Ok(Some(match pending {
        Pending::Create(NewTable { key, schema, options, recreate, rows }) => {
            let at = |error: Error| error.at("table", &key);
            let rows = distinct(chain(schema, rows).await?.0, &options.key_columns).map_err(at)?;
            let properties = properties(&options).map_err(at)?;
            match recreate {
                Some(tombstone) => Plan::Recreate { tombstone, key, rows },
                None => Plan::Create { key, rows, properties },
            }
        }
        Pending::Append(head, schema, rows) => match chain(schema, rows).await? {
            (rows, true) => Plan::Append(head, rows),
            (_, false) => return Ok(None),
        },
        Pending::Overwrite(head, schema, rows) => {
            let rows = distinct(chain(schema, rows).await?.0, &head.key_columns()?)?;
            Plan::Overwrite(head, rows)
        }
        Pending::ByKey(head, schema, action, rows) => match chain(schema, rows).await? {
            (rows, true) => Plan::ByKey(head, action, rows),
            (_, false) => return Ok(None),
        },
        Pending::Delete(head, filter) => Plan::Delete(head, filter),
        Pending::Optimize(head) => Plan::Optimize(head),
        Pending::Index(head, column) => Plan::Index(head, column),
        Pending::Staged(head, staged, reuse) => Plan::Staged { head, staged, reuse },
        Pending::Update(head, filter, set) => Plan::Update(head, filter, set),
        Pending::Rename(head, to) => Plan::Rename(head, to),
        Pending::Drop(head) => Plan::Drop(head),
        Pending::AddColumns(head, schema) => Plan::AddColumns(head, schema),
    }))
}

/// All rows as one stream without empty batches, and whether there is any.
async fn chain(schema: SchemaRef, rows: Vec<Rows>) -> Result<(Rows, bool)> {
    let full = |batch: &Result<RecordBatch>| std::future::ready(batch.as_ref().map_or(true, |batch| batch.num_rows() > 0));
    let mut batches = futures::stream::iter(rows).flat_map(|rows| rows.batches).filter(full).boxed();
    let Some(first) = batches.next().await else { return Ok((Rows { schema, batches }, false)) };
    let batches = futures::stream::iter([Ok(first?)]).chain(batches).boxed();
    Ok((Rows { schema, batches }, true))
}

/// The rows of a table with this key, if any: two of one key are refused.
fn distinct(rows: Rows, key_columns: &[String]) -> Result<Rows> {
    if key_columns.is_empty() {
        return Ok(rows);
    }
    Ok(keys::unique(Keys::new(&rows.schema, key_columns)?, rows))
}

fn properties(options: &TableOptions) -> Result<BTreeMap<String, String>> {
    let mut properties = BTreeMap::from_iter(options.lineage.property());
    if !options.key_columns.is_empty() {
        properties.insert(keys::PROPERTY.to_owned(), keys::write(&options.key_columns)?);
    }
    Ok(properties)
}
