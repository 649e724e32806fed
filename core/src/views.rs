//! Text and bytes as views: the same values, cheaper to decode, to compare and to keep.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_cast::cast::{CastOptions, cast, cast_with_options};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::error::{Error, ErrorKind, Result};
use crate::filter::Filter;

/// The schema with views for columns of `Utf8` and `Binary`.
pub fn viewed(schema: &Schema) -> SchemaRef {
    with_types(schema, |data_type| match data_type {
        DataType::Utf8 => Some(DataType::Utf8View),
        DataType::Binary => Some(DataType::BinaryView),
        _ => None,
    })
}

/// The schema with `Utf8` and `Binary` for columns that are views.
pub fn plain(schema: &Schema) -> SchemaRef {
    with_types(schema, |data_type| match data_type {
        DataType::Utf8View => Some(DataType::Utf8),
        DataType::BinaryView => Some(DataType::Binary),
        _ => None,
    })
}

/// Whether a column is a view.
pub fn has_views(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView))
}

/// The filter that passes the same rows of a [`viewed`] table.
pub fn viewed_filter(filter: &Filter) -> Result<Filter> {
    let all = |filters: &[Filter]| filters.iter().map(viewed_filter).collect::<Result<Vec<_>>>();
    Ok(match filter {
        Filter::Compare { column, op, value } => {
            let to = match value.data_type() {
                DataType::Utf8 => DataType::Utf8View,
                DataType::Binary => DataType::BinaryView,
                same => same.clone(),
            };
            let value = cast(value, &to).map_err(|source| Error::invalid("the filter's value cannot be converted").because(source))?;
            Filter::Compare { column: column.clone(), op: *op, value }
        }
        Filter::IsNull(column) => Filter::IsNull(column.clone()),
        Filter::And(filters) => Filter::And(all(filters)?),
        Filter::Or(filters) => Filter::Or(all(filters)?),
        Filter::Not(inner) => Filter::Not(Box::new(viewed_filter(inner)?)),
    })
}

fn with_types(schema: &Schema, other: impl Fn(&DataType) -> Option<DataType>) -> SchemaRef {
    let field = |field: &Arc<Field>| match other(field.data_type()) {
        Some(data_type) => Arc::new(field.as_ref().clone().with_data_type(data_type)),
        None => field.clone(),
    };
    Arc::new(Schema::new_with_metadata(schema.fields().iter().map(field).collect::<Vec<_>>(), schema.metadata().clone()))
}

/// The batch with the types of this schema, which is the [`viewed`] or the [`plain`] of its own.
///
/// Errors: `Unsupported` for more text or bytes in one batch than `Utf8` or `Binary` can hold, which is 2 GiB in a column.
pub fn convert(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let exact = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        if column.data_type() == field.data_type() { Ok(column.clone()) } else { cast_with_options(column, field.data_type(), &exact) }
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    columns
        .collect::<Result<Vec<_>, _>>()
        .and_then(|columns| RecordBatch::try_new_with_options(schema.clone(), columns, &options))
        .map_err(|source| Error::new(ErrorKind::Unsupported, "the rows cannot be converted from or to views").because(source))
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, BinaryArray, Int64Array, LargeStringArray, StringArray};

    use super::*;

    #[test]
    fn values_come_through_views_and_back() {
        let long = "x".repeat(40);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("text", Arc::new(StringArray::from(vec![Some("a"), None, Some(""), Some(&long)]))),
            ("bytes", Arc::new(BinaryArray::from(vec![Some(&b"\0"[..]), Some(long.as_bytes()), None, Some(b"")]))),
            ("large", Arc::new(LargeStringArray::from(vec!["a", "b", "c", "d"]))),
            ("number", Arc::new(Int64Array::from(vec![1, 2, 3, 4]))),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap();
        let views = viewed(&batch.schema());
        let types: Vec<_> = views.fields().iter().map(|field| field.data_type().clone()).collect();
        assert_eq!(types, [DataType::Utf8View, DataType::BinaryView, DataType::LargeUtf8, DataType::Int64]);
        assert!(has_views(&views) && !has_views(&batch.schema()));
        let there = convert(&batch, &views).unwrap();
        assert_eq!((there.schema(), plain(&views)), (views, batch.schema()));
        assert_eq!(convert(&there, &batch.schema()).unwrap(), batch);
        // No column, but rows.
        let none = batch.project(&[]).unwrap();
        assert_eq!(convert(&none, &viewed(&none.schema())).unwrap().num_rows(), 4);
    }
}
