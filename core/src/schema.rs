//! Schemas: their canonical hash, and rows brought into a table's schema before any store sees them.

use std::sync::Arc;

use arrow_array::{RecordBatch, new_null_array};
use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, Schema, SchemaRef, TimeUnit, UnionMode};
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

/// Spelled out here and not by the library's own rendering, which another version of it may change; a test holds every spelling.
fn describe_type(data_type: &DataType) -> Value {
    use DataType as T;
    let list = |items: &[&Field]| items.iter().map(|field| describe(field)).collect::<Vec<_>>();
    match data_type {
        T::Null => json!("Null"),
        T::Boolean => json!("Boolean"),
        T::Int8 => json!("Int8"),
        T::Int16 => json!("Int16"),
        T::Int32 => json!("Int32"),
        T::Int64 => json!("Int64"),
        T::UInt8 => json!("UInt8"),
        T::UInt16 => json!("UInt16"),
        T::UInt32 => json!("UInt32"),
        T::UInt64 => json!("UInt64"),
        T::Float16 => json!("Float16"),
        T::Float32 => json!("Float32"),
        T::Float64 => json!("Float64"),
        T::Utf8 => json!("Utf8"),
        T::LargeUtf8 => json!("LargeUtf8"),
        T::Utf8View => json!("Utf8View"),
        T::Binary => json!("Binary"),
        T::LargeBinary => json!("LargeBinary"),
        T::BinaryView => json!("BinaryView"),
        T::FixedSizeBinary(width) => json!(["FixedSizeBinary", width]),
        T::Date32 => json!("Date32"),
        T::Date64 => json!("Date64"),
        T::Time32(unit) => json!(["Time32", describe_unit(*unit)]),
        T::Time64(unit) => json!(["Time64", describe_unit(*unit)]),
        T::Timestamp(unit, zone) => json!(["Timestamp", describe_unit(*unit), zone.as_deref()]),
        T::Duration(unit) => json!(["Duration", describe_unit(*unit)]),
        T::Interval(IntervalUnit::YearMonth) => json!(["Interval", "YearMonth"]),
        T::Interval(IntervalUnit::DayTime) => json!(["Interval", "DayTime"]),
        T::Interval(IntervalUnit::MonthDayNano) => json!(["Interval", "MonthDayNano"]),
        T::Decimal32(precision, scale) => json!(["Decimal32", precision, scale]),
        T::Decimal64(precision, scale) => json!(["Decimal64", precision, scale]),
        T::Decimal128(precision, scale) => json!(["Decimal128", precision, scale]),
        T::Decimal256(precision, scale) => json!(["Decimal256", precision, scale]),
        T::List(item) => json!(["List", describe(item)]),
        T::LargeList(item) => json!(["LargeList", describe(item)]),
        T::ListView(item) => json!(["ListView", describe(item)]),
        T::LargeListView(item) => json!(["LargeListView", describe(item)]),
        T::FixedSizeList(item, length) => json!(["FixedSizeList", describe(item), length]),
        T::Struct(fields) => json!(["Struct", list(&fields.iter().map(AsRef::as_ref).collect::<Vec<_>>())]),
        T::Map(entries, sorted) => json!(["Map", describe(entries), sorted]),
        T::Dictionary(key, value) => json!(["Dictionary", describe_type(key), describe_type(value)]),
        T::RunEndEncoded(ends, values) => json!(["RunEndEncoded", describe(ends), describe(values)]),
        T::Union(fields, mode) => {
            let mode = match mode {
                UnionMode::Sparse => "Sparse",
                UnionMode::Dense => "Dense",
            };
            json!(["Union", mode, fields.iter().map(|(id, field)| json!([id, describe(field)])).collect::<Vec<_>>()])
        }
    }
}

fn describe_unit(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
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

    /// One batch in the table's schema; `first` rows came before it.
    pub fn apply(&self, batch: &RecordBatch, first: usize) -> Result<RecordBatch> {
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
                return Err(Error::invalid(format!("column {:?} may not be null; row {} of the rows is", field.name(), first + row + 1)));
            }
        }
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.target.clone(), columns, &options)
            .map_err(|source| Error::invalid("the rows do not fit the table's schema").because(source))
    }
}

/// Equal but for metadata.
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

/// The new columns of a schema that adds some at the end of the base's. `InvalidInput` where the base's do not stand before them exactly.
pub fn added(base: &Schema, asked: &Schema) -> Result<Vec<Field>> {
    let (kept, new) = asked.fields().split_at(asked.fields().len().min(base.fields().len()));
    if schema_hash(&Schema::new(kept.to_vec())) != schema_hash(base) {
        return Err(Error::invalid("columns can only be added at the end of the table's; the others must stay as they are"));
    }
    Ok(new.iter().map(|field| field.as_ref().clone()).collect())
}

/// These columns of a schema, in this order. `InvalidInput` for one that is not there.
pub fn project<'a>(schema: &Schema, columns: impl IntoIterator<Item = &'a str>) -> Result<Schema> {
    let field = |column: &str| {
        schema.fields().iter().find(|field| field.name() == column).cloned().ok_or_else(|| {
            let known: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            Error::invalid(format!("there is no column {column:?}; the table has {}", known.join(", ")))
        })
    };
    let fields = columns.into_iter().map(field).collect::<Result<Vec<_>>>()?;
    Ok(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The type with others for those that `other` answers for, however deep they are nested in lists, maps and structs; `None` if it has none.
pub fn with_inner_types(data_type: &DataType, other: &dyn Fn(&DataType) -> Option<DataType>) -> Option<DataType> {
    use DataType as T;
    let field = |field: &FieldRef| -> Option<FieldRef> {
        let inner = with_inner_types(field.data_type(), other)?;
        Some(Arc::new(Field::clone(field).with_data_type(inner)))
    };
    match data_type {
        T::List(item) => field(item).map(T::List),
        T::LargeList(item) => field(item).map(T::LargeList),
        T::FixedSizeList(item, size) => field(item).map(|item| T::FixedSizeList(item, *size)),
        T::Map(entries, sorted) => field(entries).map(|entries| T::Map(entries, *sorted)),
        T::Struct(fields) => {
            let new: Vec<Option<FieldRef>> = fields.iter().map(field).collect();
            let any = new.iter().any(Option::is_some);
            any.then(|| T::Struct(fields.iter().zip(new).map(|(own, new)| new.unwrap_or_else(|| own.clone())).collect()))
        }
        flat => other(flat),
    }
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

    /// The format's promise: these spellings never change, whatever the library prints.
    #[test]
    fn types_are_spelled_as_ever() {
        let item = |kind| Arc::new(Field::new("item", kind, true));
        let cases = [
            (DataType::Int64, r#""Int64""#),
            (DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), r#"["Timestamp","us","UTC"]"#),
            (DataType::Timestamp(TimeUnit::Nanosecond, None), r#"["Timestamp","ns",null]"#),
            (DataType::Decimal128(38, -3), r#"["Decimal128",38,-3]"#),
            (DataType::FixedSizeBinary(16), r#"["FixedSizeBinary",16]"#),
            (DataType::List(item(DataType::Utf8)), r#"["List",["item","Utf8",true]]"#),
            (DataType::FixedSizeList(item(DataType::Float32), 3), r#"["FixedSizeList",["item","Float32",true],3]"#),
            (DataType::Struct(vec![item(DataType::Date32)].into()), r#"["Struct",[["item","Date32",true]]]"#),
            (DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)), r#"["Dictionary","Int32","Utf8"]"#),
        ];
        for (kind, spelled) in cases {
            assert_eq!(describe_type(&kind).to_string(), spelled);
        }
        let schema = Schema::new(vec![Field::new("n", DataType::Int64, false)]);
        assert_eq!(schema_hash(&schema), sha256(br#"[["n","Int64",false]]"#));
    }

    #[test]
    fn rows_are_matched_by_name_and_misfits_are_named() {
        let target = schema(&[("a", DataType::Int64, false), ("b", DataType::Utf8, true)]);
        let only_a = schema(&[("a", DataType::Int64, true)]);
        let conform = Conform::new(&only_a, &target).unwrap();
        let rows =
            |values: Vec<Option<i64>>| RecordBatch::try_new(only_a.clone(), vec![Arc::new(arrow_array::Int64Array::from(values))]).unwrap();
        assert_eq!(conform.apply(&rows(vec![Some(1)]), 0).unwrap().column(1).null_count(), 1);
        let error = conform.apply(&rows(vec![Some(1), None]), 40).unwrap_err().to_string();
        assert!(error.contains("\"a\"") && error.contains("row 42"), "{error}");
        for bad in [
            schema(&[("b", DataType::Utf8, true)]),
            schema(&[("a", DataType::Utf8, true)]),
            schema(&[("a", DataType::Int64, true), ("c", DataType::Utf8, true)]),
        ] {
            assert!(Conform::new(&bad, &target).is_err());
        }
    }
}
