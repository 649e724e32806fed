//! Schemas: their canonical hash, and rows brought into a table's schema before any store sees them.

use std::sync::Arc;

use arrow_array::{RecordBatch, new_null_array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::json::sha256;

/// The canonical hash of a schema: ordered names, types and nullability, at every level; metadata does not count.
pub fn schema_hash(schema: &Schema) -> String {
    let fields: Vec<Value> = schema.fields().iter().map(|field| describe(field)).collect();
    sha256(Value::Array(fields).to_string().as_bytes())
}

fn describe(field: &Field) -> Value {
    json!([field.name(), describe_type(field.data_type()), field.is_nullable()])
}

fn describe_type(data_type: &DataType) -> Value {
    use DataType as T;
    match data_type {
        T::List(item) => json!(["List", describe(item)]),
        T::LargeList(item) => json!(["LargeList", describe(item)]),
        T::ListView(item) => json!(["ListView", describe(item)]),
        T::LargeListView(item) => json!(["LargeListView", describe(item)]),
        T::FixedSizeList(item, length) => json!(["FixedSizeList", describe(item), length]),
        T::Struct(fields) => json!(["Struct", fields.iter().map(|field| describe(field)).collect::<Vec<_>>()]),
        T::Map(entries, sorted) => json!(["Map", describe(entries), sorted]),
        T::Dictionary(key, value) => json!(["Dictionary", describe_type(key), describe_type(value)]),
        T::RunEndEncoded(ends, values) => json!(["RunEndEncoded", describe(ends), describe(values)]),
        T::Union(fields, mode) => {
            json!(["Union", format!("{mode:?}"), fields.iter().map(|(id, field)| json!([id, describe(field)])).collect::<Vec<_>>()])
        }
        // Flat types print as their variant and its parameters.
        flat => json!(format!("{flat:?}")),
    }
}

/// Refuses a schema no table can have: no column, an empty or doubled column name.
pub fn check_schema(schema: &Schema) -> Result<()> {
    if schema.fields().is_empty() {
        return Err(Error::invalid("a table needs at least one column"));
    }
    let mut seen = std::collections::BTreeSet::new();
    for field in schema.fields() {
        if field.name().trim().is_empty() {
            return Err(Error::invalid("a column has no name; name every column"));
        }
        if !seen.insert(field.name()) {
            return Err(Error::invalid(format!("column {:?} stands twice; rename one", field.name())));
        }
    }
    Ok(())
}

/// Brings rows into a table's schema without changing a value: columns are matched by name, a nullable column the rows lack becomes null.
/// Anything else (an unknown column, another type, a null where none is allowed) is refused with the column's name.
#[derive(Clone, Debug)]
pub struct Conform {
    target: SchemaRef,
    sources: Arc<[Option<usize>]>,
}

impl Conform {
    /// Matches rows of schema `from` with a table of schema `target`.
    pub fn new(from: &Schema, target: &SchemaRef) -> Result<Self> {
        check_schema(from)?;
        for field in from.fields() {
            let Ok(wanted) = target.field_with_name(field.name()) else {
                let known: Vec<&str> = target.fields().iter().map(|field| field.name().as_str()).collect();
                return Err(Error::invalid(format!(
                    "the table has no column {:?} (it has {}); add the column to the table first, or leave it out",
                    field.name(),
                    known.join(", ")
                )));
            };
            if !same_type(wanted.data_type(), field.data_type()) {
                return Err(Error::invalid(format!(
                    "column {:?} is {} in the table and {} in the rows; convert the rows",
                    field.name(),
                    wanted.data_type(),
                    field.data_type()
                )));
            }
        }
        let source = |field: &Arc<Field>| match from.index_of(field.name()) {
            Ok(index) => Ok(Some(index)),
            Err(_) if field.is_nullable() => Ok(None),
            Err(_) => Err(Error::invalid(format!("column {:?} is missing and may not be null; add it to the rows", field.name()))),
        };
        Ok(Self { target: target.clone(), sources: target.fields().iter().map(source).collect::<Result<_>>()? })
    }

    /// One batch in the table's schema.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.sources.len());
        for (field, source) in self.target.fields().iter().zip(self.sources.iter()) {
            columns.push(match source {
                Some(index) => batch.column(*index).clone(),
                None => new_null_array(field.data_type(), batch.num_rows()),
            });
            if let (false, Some(column)) = (field.is_nullable(), columns.last())
                && column.null_count() > 0
            {
                let row = (0..column.len()).find(|row| column.is_null(*row)).unwrap_or_default();
                return Err(Error::invalid(format!("column {:?} may not be null; row {} of the rows is", field.name(), row + 1)));
            }
        }
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.target.clone(), columns, &options)
            .map_err(|source| Error::invalid("the rows do not fit the table's schema").because(source))
    }
}

/// Equal but for metadata and the nullability of nested fields' containers, which the batch itself decides.
fn same_type(a: &DataType, b: &DataType) -> bool {
    describe_type(a) == describe_type(b)
}

/// The schema with these columns added at the end. They must be nullable, because older rows have no value for them.
pub fn with_columns(schema: &Schema, added: &[Field]) -> Result<SchemaRef> {
    let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
    for field in added {
        if !field.is_nullable() {
            return Err(Error::invalid(format!("the new column {:?} must be nullable: existing rows have no value for it", field.name())));
        }
        fields.push(Arc::new(field.clone()));
    }
    let schema = Schema::new(fields);
    check_schema(&schema)?;
    Ok(Arc::new(schema))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: &[(&str, DataType, bool)]) -> SchemaRef {
        Arc::new(Schema::new(fields.iter().map(|(name, kind, null)| Field::new(*name, kind.clone(), *null)).collect::<Vec<_>>()))
    }

    #[test]
    fn the_hash_sees_order_type_and_nullability_and_nothing_else() {
        let base = schema(&[("a", DataType::Int64, true), ("b", DataType::Utf8, false)]);
        let hash = schema_hash(&base);
        assert_eq!(hash, schema_hash(&base.as_ref().clone().with_metadata([("k".into(), "v".into())].into())));
        for other in [
            schema(&[("b", DataType::Utf8, false), ("a", DataType::Int64, true)]),
            schema(&[("a", DataType::Int32, true), ("b", DataType::Utf8, false)]),
            schema(&[("a", DataType::Int64, false), ("b", DataType::Utf8, false)]),
        ] {
            assert_ne!(hash, schema_hash(&other));
        }
    }

    #[test]
    fn rows_are_matched_by_name_and_misfits_are_named() {
        let target = schema(&[("a", DataType::Int64, false), ("b", DataType::Utf8, true)]);
        let only_a = schema(&[("a", DataType::Int64, true)]);
        let conform = Conform::new(&only_a, &target).unwrap();
        let rows =
            |values: Vec<Option<i64>>| RecordBatch::try_new(only_a.clone(), vec![Arc::new(arrow_array::Int64Array::from(values))]).unwrap();
        assert_eq!(conform.apply(&rows(vec![Some(1)])).unwrap().column(1).null_count(), 1);
        let error = conform.apply(&rows(vec![Some(1), None])).unwrap_err().to_string();
        assert!(error.contains("\"a\"") && error.contains("row 2"), "{error}");
        for bad in [
            schema(&[("b", DataType::Utf8, true)]),
            schema(&[("a", DataType::Utf8, true)]),
            schema(&[("a", DataType::Int64, true), ("c", DataType::Utf8, true)]),
        ] {
            assert!(Conform::new(&bad, &target).is_err());
        }
    }
}
