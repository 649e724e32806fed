//! Rows that have types already, brought to a table's: the same values in another layout or a wider type, never other values.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use headwater::Result;
use headwater::schema::check_schema;

use super::file::InputFile;
use crate::cli::schema_text::type_name;

/// How a file's columns become a table's.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    schema: SchemaRef,
}

impl Fit {
    /// Matches the file's columns with the table's by name.
    pub(super) fn new(file: &InputFile, from: &Schema, target: Option<&Schema>) -> Result<Self> {
        check_schema(from).map_err(|error| error.at("file", file.shown()))?;
        let fields = from.fields().iter().map(|field| match target {
            None => Ok(Field::new(field.name(), unpacked(field.data_type()).clone(), field.is_nullable())),
            Some(target) => column(file, field, target),
        });
        let fields: Vec<Field> = fields.collect::<Result<_>>()?;
        if let Some(missing) =
            target.and_then(|target| target.fields().iter().find(|field| !field.is_nullable() && from.index_of(field.name()).is_err()))
        {
            let message = format!("the file has no column {:?}, which may not be null in the table; add it to the file", missing.name());
            return Err(file.error(message).at("column", missing.name()));
        }
        Ok(Self { schema: Arc::new(Schema::new(fields)) })
    }

    /// The schema of the fitted rows.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Fits a batch whose first row is this one of the file (counted from 0).
    pub(super) fn apply(&self, file: &InputFile, batch: &RecordBatch, first_row: u64) -> Result<RecordBatch> {
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns());
        for (field, column) in self.schema.fields().iter().zip(batch.columns()) {
            let column = if column.data_type() == field.data_type() {
                column.clone()
            } else {
                cast_with_options(column, field.data_type(), &strict)
                    .map_err(|source| file.error("the values cannot be converted").at("column", field.name()).because(source))?
            };
            if !field.is_nullable() && column.logical_null_count() > 0 {
                let nulls = column.logical_nulls();
                let row = nulls.and_then(|nulls| (0..nulls.len()).find(|row| nulls.is_null(*row))).unwrap_or_default();
                let message = "the value is null, and the column may not be null; give it a value";
                return Err(file.error(message).at("row", first_row + row as u64 + 1).at("column", field.name()));
            }
            columns.push(column);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|source| file.error("the rows do not fit together").because(source))
    }
}

fn column(file: &InputFile, field: &Field, target: &Schema) -> Result<Field> {
    let Ok(wanted) = target.field_with_name(field.name()) else {
        let known = target.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
        let name = field.name();
        let message =
            format!("the table has no column {name:?} (it has {known}); add it with `table add-column`, or leave it out of the file");
        return Err(file.error(message).at("column", name));
    };
    let (from, to) = (field.data_type(), wanted.data_type());
    if from.equals_datatype(to) || holds(from, to) {
        return Ok(Field::new(field.name(), to.clone(), wanted.is_nullable()));
    }
    let message = format!("the column is {} in the table and {} in the file; convert the file", type_name(to), type_name(from));
    Err(file.error(message).at("column", field.name()))
}

/// What a dictionary stands for: its layout is the file's business, not the table's.
fn unpacked(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// Whether every value of one type is the same value of the other.
fn holds(from: &DataType, to: &DataType) -> bool {
    use DataType as T;
    let from = unpacked(from);
    if from.is_signed_integer() && to.is_signed_integer() || from.is_unsigned_integer() && to.is_unsigned_integer() {
        return from.primitive_width() <= to.primitive_width();
    }
    match (from, to) {
        (T::Utf8 | T::LargeUtf8 | T::Utf8View, T::Utf8 | T::LargeUtf8 | T::Utf8View) => true,
        (T::Binary | T::LargeBinary | T::BinaryView, T::Binary | T::LargeBinary | T::BinaryView) => true,
        (T::Float16, T::Float32 | T::Float64) | (T::Float32, T::Float64) => true,
        (from, to) => from == to,
    }
}
