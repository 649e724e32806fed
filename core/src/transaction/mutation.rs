//! Changes of rows, by key or by a condition. Their result rests on the table's contents: if those change meanwhile, the closure runs again.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::Schema;
use futures::StreamExt;

use super::pending::{Pending, conform_to};
use super::{Table, Transaction};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::store::{ByKey, Rows};

impl Transaction {
    /// Replaces the rows whose key is there and adds the others: [`ByKey::UPSERT`].
    pub async fn upsert(&self, table: &Table, rows: impl Into<Rows>) -> Result<()> {
        self.by_key(table, ByKey::UPSERT, rows).await
    }

    /// Adds, replaces or removes rows by the table's key. Two rows of one key are refused; no rows at all change nothing. For removals, the
    /// rows need the key columns only. Errors when the closure has returned: `AlreadyExists` or `NotFound` with the key, where the action
    /// refuses it.
    ///
    /// Holds the rows in memory. `InvalidInput` for a table without key columns.
    pub async fn by_key(&self, table: &Table, action: ByKey, rows: impl Into<Rows>) -> Result<()> {
        if table.key_columns().is_empty() {
            let problem = format!("the table {:?} has no key; give it key columns when you create it", table.key.as_str());
            return Err(Error::invalid(problem));
        }
        let rows = if action.keys_alone() { keys_alone(table, rows.into())? } else { super::conform(table, rows.into())? };
        self.read_contents(table)?;
        let schema = rows.schema.clone();
        self.add(
            table,
            |pending| match pending {
                Pending::ByKey(_, _, own, all) => {
                    if *own == action {
                        Ok(all)
                    } else {
                        Err(own.name())
                    }
                }
                other => Err(other.name()),
            },
            rows,
            |head, _, rows| Pending::ByKey(head, schema, action, rows),
        )
    }

    /// Removes the rows for which the filter is true.
    pub async fn delete(&self, table: &Table, filter: Filter) -> Result<()> {
        filter.check(&table.schema).map_err(|error| error.at("table", &table.key))?;
        self.read_contents(table)?;
        self.alter(table, |head| Pending::Delete(head, filter))
    }

    /// Gives columns other values in the rows for which the filter is true: each value of the column's type, an array of length 1. Key columns
    /// cannot be changed: delete the row and insert another.
    pub async fn update(&self, table: &Table, filter: Filter, set: Vec<(&str, ArrayRef)>) -> Result<()> {
        let invalid = |problem: String| Err(Error::invalid(problem).at("table", &table.key));
        filter.check(&table.schema).map_err(|error| error.at("table", &table.key))?;
        for (i, (column, value)) in set.iter().enumerate() {
            if table.key_columns().iter().any(|key| key == column) {
                return invalid(format!("column {column:?} is of the key and cannot be changed; delete the row and insert another"));
            }
            if set[..i].iter().any(|(other, _)| other == column) {
                return invalid(format!("column {column:?} is set twice"));
            }
            let equal = Filter::Compare { column: (*column).to_owned(), op: crate::filter::Comparison::Equal, value: value.clone() };
            equal.check(&table.schema).map_err(|error| error.at("table", &table.key))?;
            if value.is_null(0) && table.schema.field_with_name(column).is_ok_and(|field| !field.is_nullable()) {
                return invalid(format!("column {column:?} may not be null"));
            }
        }
        self.read_contents(table)?;
        let set: Vec<_> = set.into_iter().map(|(column, value)| (column.to_owned(), value)).collect();
        if set.is_empty() {
            return Ok(());
        }
        self.alter(table, |head| Pending::Update(head, filter, set))
    }
}

/// The key columns of rows, which may have others.
fn keys_alone(table: &Table, rows: Rows) -> Result<Rows> {
    let fields = |schema: &Schema| table.key_columns().iter().map(|name| schema.index_of(name).ok()).collect::<Option<Vec<_>>>();
    let target = fields(&table.schema).and_then(|columns| table.schema.project(&columns).ok());
    let target = Arc::new(target.ok_or_else(|| Error::corrupt(&table.key, "the table lacks a column of its key"))?);
    match fields(&rows.schema) {
        None => conform_to(table, target, rows),
        Some(columns) => {
            let misfit = |source| Error::invalid("a batch does not have the columns of its stream").because(source);
            let schema = Arc::new(rows.schema.project(&columns).map_err(misfit)?);
            let batches = rows.batches.map(move |batch| batch?.project(&columns).map_err(misfit));
            conform_to(table, target, Rows { schema, batches: batches.boxed() })
        }
    }
}
