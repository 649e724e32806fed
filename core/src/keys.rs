//! Key columns: the columns whose values together name a row, at most one row each.

use std::collections::HashSet;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType, Schema};
use futures::StreamExt;

use crate::error::{Error, Result};
use crate::store::Rows;

/// The property of a table head that names its key columns.
pub(crate) const PROPERTY: &str = "key";
/// Key columns a table may have.
const MAX_COLUMNS: usize = 8;
/// The longest list of key columns, in bytes of its JSON: it stands in the head.
const MAX_BYTES: usize = 512;

/// Encodes keys as bytes: two keys are equal exactly if their bytes are, and bytes order as keys do.
#[derive(Debug)]
pub struct Keys {
    names: Vec<String>,
    converter: RowConverter,
}

impl Keys {
    /// Keys of these columns. `InvalidInput` for no column, one the schema lacks, a nullable one, one named twice, or one of a type whose
    /// values have no plain equality (floats, nested types).
    pub fn new(schema: &Schema, names: &[String]) -> Result<Self> {
        if names.is_empty() || names.len() > MAX_COLUMNS {
            return Err(Error::invalid(format!("a key has 1 to {MAX_COLUMNS} columns, not {}", names.len())));
        }
        let mut fields = Vec::with_capacity(names.len());
        for (i, name) in names.iter().enumerate() {
            let Ok(field) = schema.field_with_name(name) else {
                let known: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                return Err(Error::invalid(format!("there is no column {name:?} to be a key; the table has {}", known.join(", "))));
            };
            if names[..i].contains(name) {
                return Err(Error::invalid(format!("the key names column {name:?} twice")));
            }
            if field.is_nullable() {
                return Err(Error::invalid(format!(
                    "the key column {name:?} may be null, and a key may not; declare the column as not null"
                )));
            }
            if !is_key(field.data_type()) {
                return Err(Error::invalid(format!("the key column {name:?} is {}, whose values are no names", field.data_type())));
            }
            fields.push(SortField::new(field.data_type().clone()));
        }
        let converter = RowConverter::new(fields).map_err(unusable)?;
        Ok(Self { names: names.to_vec(), converter })
    }

    /// The key columns' names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The key columns of a batch that has them all.
    pub fn columns(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let column = |name: &String| batch.column_by_name(name).cloned();
        let missing = || Error::invalid(format!("the rows lack a key column; they need {}", self.names.join(", ")));
        self.names.iter().map(column).collect::<Option<_>>().ok_or_else(missing)
    }

    /// The key of each row, as bytes.
    pub fn encode(&self, batch: &RecordBatch) -> Result<arrow_row::Rows> {
        self.converter.convert_columns(&self.columns(batch)?).map_err(unusable)
    }

    /// A key as errors print it: `id = 7, day = 2024-01-01`.
    pub fn text(&self, key: &[u8]) -> String {
        let parser = self.converter.parser();
        let values = self.converter.convert_rows([parser.parse(key)]).unwrap_or_default();
        let value = |(name, value): (&String, &ArrayRef)| format!("{name} = {}", crate::filter::text(value));
        self.names.iter().zip(&values).map(value).collect::<Vec<_>>().join(", ")
    }

    /// The error for a key that stands twice in rows to be written.
    pub fn twice(&self, key: &[u8]) -> Error {
        Error::invalid(format!("the rows have the key {} twice; keep one of the two", self.text(key)))
    }
}

/// The property's value.
pub(crate) fn write(names: &[String]) -> Result<String> {
    let text = serde_json::to_string(names).map_err(|source| Error::invalid("the key's columns cannot be written").because(source))?;
    if text.len() > MAX_BYTES {
        return Err(Error::invalid(format!(
            "the names of the key columns are too long together: {} bytes, and at most {MAX_BYTES} fit; rename a column",
            text.len()
        )));
    }
    Ok(text)
}

/// The same rows. Two with one key fail the stream with `InvalidInput` that names the key. Holds all keys in memory.
pub fn unique(keys: Keys, rows: Rows) -> Rows {
    let mut seen: HashSet<Box<[u8]>> = HashSet::new();
    let batches = rows.batches.map(move |batch| {
        let batch = batch?;
        for key in &keys.encode(&batch)? {
            if !seen.insert(key.as_ref().into()) {
                return Err(keys.twice(key.as_ref()));
            }
        }
        Ok(batch)
    });
    Rows { schema: rows.schema, batches: batches.boxed() }
}

/// Types with one equality that everybody agrees on.
fn is_key(data_type: &DataType) -> bool {
    use DataType as T;
    data_type.is_integer()
        || matches!(
            data_type,
            T::Boolean
                | T::Utf8
                | T::LargeUtf8
                | T::Utf8View
                | T::Binary
                | T::LargeBinary
                | T::BinaryView
                | T::FixedSizeBinary(_)
                | T::Date32
                | T::Date64
                | T::Time32(_)
                | T::Time64(_)
                | T::Timestamp(..)
                | T::Decimal32(..)
                | T::Decimal64(..)
                | T::Decimal128(..)
                | T::Decimal256(..)
        )
}

fn unusable(source: ArrowError) -> Error {
    Error::invalid("the rows' keys cannot be compared").because(source)
}
