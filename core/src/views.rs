//! Text as views: the same values, cheaper to decode, to compare and to keep.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_cast::cast::{CastOptions, cast, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use futures::StreamExt;

use crate::error::{Error, ErrorKind, Result};
use crate::filter::Filter;
use crate::schema::with_inner_types;
use crate::store::{Partition, Scan};

/// The schema with views for columns of `Utf8`. What is nested in others stays as it is.
pub fn viewed(schema: &Schema) -> SchemaRef {
    with_types(schema, |data_type| (*data_type == DataType::Utf8).then_some(DataType::Utf8View))
}

/// The schema with `Utf8` for all views of text, also nested ones.
pub fn plain(schema: &Schema) -> SchemaRef {
    with_types(schema, plain_type)
}

/// Whether text in it is a view, also nested.
pub fn has_views(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| plain_type(field.data_type()).is_some())
}

fn plain_type(data_type: &DataType) -> Option<DataType> {
    with_inner_types(data_type, &|inner| (*inner == DataType::Utf8View).then_some(DataType::Utf8))
}

fn with_types(schema: &Schema, other: impl Fn(&DataType) -> Option<DataType>) -> SchemaRef {
    let field = |field: &FieldRef| -> FieldRef {
        match other(field.data_type()) {
            Some(data_type) => Arc::new(Field::clone(field).with_data_type(data_type)),
            None => field.clone(),
        }
    };
    Arc::new(Schema::new_with_metadata(schema.fields().iter().map(field).collect::<Vec<_>>(), schema.metadata().clone()))
}

/// The filter that passes the same rows of a [`viewed`] table.
pub fn viewed_filter(filter: &Filter) -> Result<Filter> {
    let all = |filters: &[Filter]| filters.iter().map(viewed_filter).collect::<Result<Vec<_>>>();
    Ok(match filter {
        Filter::Compare { column, op, value } if *value.data_type() == DataType::Utf8 => {
            let viewed = cast(value, &DataType::Utf8View);
            let value = viewed.map_err(|source| Error::invalid("the filter's value cannot be a view").because(source))?;
            Filter::Compare { column: column.clone(), op: *op, value }
        }
        Filter::Compare { .. } | Filter::IsNull(_) => filter.clone(),
        Filter::And(filters) => Filter::And(all(filters)?),
        Filter::Or(filters) => Filter::Or(all(filters)?),
        Filter::Not(inner) => Filter::Not(Box::new(viewed_filter(inner)?)),
    })
}

/// The batch with the types of this schema, which is the [`viewed`] or the [`plain`] of its own.
///
/// Errors: `Unsupported`, by the column's name, for more text in one batch than `Utf8` can hold, which is 2 GiB.
pub fn convert(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let exact = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        if column.data_type() == field.data_type() {
            return Ok(column.clone());
        }
        // Arrow would panic.
        let converted = match viewed_bytes(column) {
            bytes if i32::try_from(bytes).is_ok() => cast_with_options(column, field.data_type(), &exact),
            bytes => Err(ArrowError::CastError(format!("it has {bytes} bytes of text in one batch"))),
        };
        converted.map_err(|source| {
            let message = format!("column {:?} cannot be converted from {} to {}", field.name(), column.data_type(), field.data_type());
            Error::new(ErrorKind::Unsupported, message).because(source)
        })
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|source| Error::new(ErrorKind::Unsupported, "the rows do not fit their own schema").because(source))
}

/// Bytes of text that views in an array stand for, however often they share them.
fn viewed_bytes(array: &dyn Array) -> u64 {
    use DataType as T;
    match array.data_type() {
        T::Utf8View => array.as_string_view().lengths().map(u64::from).sum(),
        T::List(_) => viewed_bytes(array.as_list::<i32>().values()),
        T::LargeList(_) => viewed_bytes(array.as_list::<i64>().values()),
        T::FixedSizeList(..) => viewed_bytes(array.as_fixed_size_list().values()),
        T::Map(..) => viewed_bytes(array.as_map().entries()),
        T::Struct(_) => array.as_struct().columns().iter().map(|column| viewed_bytes(column)).max().unwrap_or(0),
        _ => 0,
    }
}

impl Scan {
    /// The partitions of a store, with views if they are asked for.
    pub fn converted(&self, partitions: Vec<Partition>) -> Vec<Partition> {
        if self.views { partitions.into_iter().map(Partition::viewed).collect() } else { partitions }
    }
}

impl Partition {
    /// The same rows, with views.
    fn viewed(self) -> Self {
        let schema = viewed(&self.schema);
        if schema == self.schema {
            return self;
        }
        let (open, to) = (self.open, schema.clone());
        let open = move || {
            let to = to.clone();
            (open)().map(move |batch| convert(&batch?, &to)).boxed()
        };
        Self { schema, rows: self.rows, open: Box::new(open) }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::{ListBuilder, StringViewBuilder};
    use arrow_array::{ArrayRef, BinaryArray, Int64Array, LargeStringArray, StringArray, StringViewArray, StructArray};
    use arrow_buffer::Buffer;

    use super::*;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
    }

    #[test]
    fn values_come_through_views_and_back() {
        let long = "x".repeat(40);
        let batch = batch(vec![
            ("text", Arc::new(StringArray::from(vec![Some("a"), None, Some(""), Some(&long)]))),
            ("bytes", Arc::new(BinaryArray::from(vec![Some(&b"\0"[..]), Some(long.as_bytes()), None, Some(b"")]))),
            ("large", Arc::new(LargeStringArray::from(vec!["a", "b", "c", "d"]))),
            ("number", Arc::new(Int64Array::from(vec![1, 2, 3, 4]))),
        ]);
        let views = viewed(&batch.schema());
        let types: Vec<_> = views.fields().iter().map(|field| field.data_type().clone()).collect();
        assert_eq!(types, [DataType::Utf8View, DataType::Binary, DataType::LargeUtf8, DataType::Int64]);
        assert!(has_views(&views) && !has_views(&batch.schema()));
        let there = convert(&batch, &views).unwrap();
        assert_eq!((there.schema(), plain(&views)), (views, batch.schema()));
        assert_eq!(convert(&there, &batch.schema()).unwrap(), batch);
        // No column, but rows.
        let none = batch.project(&[]).unwrap();
        assert_eq!(convert(&none, &viewed(&none.schema())).unwrap().num_rows(), 4);
    }

    #[test]
    fn nested_views_become_plain_too() {
        let mut list = ListBuilder::new(StringViewBuilder::new());
        list.append_value([Some("so long that no view holds it"), None]);
        list.append_null();
        let list: ArrayRef = Arc::new(list.finish());
        let inner = StructArray::from(batch(vec![("list", list.clone()), ("number", Arc::new(Int64Array::from(vec![1, 2])))]));
        let views = batch(vec![("list", list), ("struct", Arc::new(inner))]);
        let schema = plain(&views.schema());
        assert!(has_views(&views.schema()) && !has_views(&schema));
        let there = convert(&views, &schema).unwrap();
        let text = |batch: &RecordBatch| arrow_cast::pretty::pretty_format_batches(std::slice::from_ref(batch)).unwrap().to_string();
        assert_eq!((there.schema(), text(&there)), (schema, text(&views)));
    }

    #[test]
    fn more_text_than_fits_is_refused_by_name() {
        let long = Buffer::from(vec![b'x'; 300 << 10]);
        let view = arrow_array::builder::make_view(&long, 0, 0);
        let views = StringViewArray::try_new(vec![view; 8_192].into(), vec![long], None).unwrap();
        let views = batch(vec![("text", Arc::new(views))]);
        let error = convert(&views, &plain(&views.schema())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("\"text\""), "{error}");
        assert_eq!(convert(&views.slice(0, 10), &plain(&views.schema())).unwrap().num_rows(), 10);
    }
}
