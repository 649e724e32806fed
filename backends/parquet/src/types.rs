//! Which Arrow types Parquet keeps exactly, and which have statistics.

use std::sync::Arc;

use arrow_array::{RecordBatch, new_null_array};
use arrow_schema::{DataType, Field, IntervalUnit, Schema};
use bytes::Bytes;
use headwater_core::{Error, ErrorKind, Result};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

/// Refuses, by name, the first column Parquet cannot keep exactly. No request; encodes and decodes a tiny file per column in memory.
pub(crate) fn check_schema(schema: &Schema) -> Result<()> {
    headwater_core::schema::check_schema(schema)?;
    for field in schema.fields() {
        let unsupported = |why: String| {
            let message = format!(
                "column {:?} is {}, which Parquet cannot keep exactly ({why}); convert the column",
                field.name(),
                field.data_type()
            );
            Error::new(ErrorKind::Unsupported, message)
        };
        if let Some(why) = refused(field) {
            return Err(unsupported(why.into()));
        }
        // Metadata is part of the type where a reader asks for it, so it must come back too.
        match trial(field) {
            Ok(true) => {}
            Ok(false) => return Err(unsupported("it comes back as another type".into())),
            Err(error) => return Err(unsupported(error.to_string())),
        }
    }
    Ok(())
}

/// Why a type cannot be kept, where that is known without trying: types that fail only for certain values, or for values not to be tried
/// because the parameters make no sense.
pub(crate) fn refused(field: &Field) -> Option<&'static str> {
    use DataType as T;
    match field.data_type() {
        T::Union(..) => Some("there are no unions"),
        T::RunEndEncoded(..) => Some("runs are not kept"),
        T::ListView(_) | T::LargeListView(_) => Some("list views come back as lists"),
        T::Interval(IntervalUnit::MonthDayNano) => Some("there are no intervals in nanoseconds"),
        // A file's dictionary may hold more values than such keys can name, although no batch written to it did.
        T::Dictionary(key, _) if !matches!(**key, T::Int32 | T::Int64 | T::UInt32 | T::UInt64) => Some("keys must have 32 or 64 bits"),
        T::Dictionary(_, value) => match **value {
            T::Utf8 | T::LargeUtf8 | T::Binary | T::LargeBinary => None,
            _ => Some("values must be Utf8, LargeUtf8, Binary or LargeBinary"),
        },
        T::Struct(fields) if fields.is_empty() => Some("a struct needs a field"),
        T::Struct(fields) => fields.iter().find_map(|field| refused(field)),
        T::List(item) | T::LargeList(item) => refused(item),
        T::FixedSizeList(_, size) if *size <= 0 => Some("the size must be positive"),
        T::FixedSizeList(item, _) => refused(item),
        T::FixedSizeBinary(size) if *size <= 0 => Some("the size must be positive"),
        T::Map(entries, _) => match entries.data_type() {
            T::Struct(fields) if fields.len() == 2 && !fields[0].is_nullable() && !entries.is_nullable() => refused(entries),
            _ => Some("a map needs entries of a required key and a value"),
        },
        T::Decimal32(precision, scale) => decimal(*precision, *scale, 9),
        T::Decimal64(precision, scale) => decimal(*precision, *scale, 18),
        T::Decimal128(precision, scale) => decimal(*precision, *scale, 38),
        T::Decimal256(precision, scale) => decimal(*precision, *scale, 76),
        _ => None,
    }
}

fn decimal(precision: u8, scale: i8, digits: u8) -> Option<&'static str> {
    let fits = (1..=digits).contains(&precision) && scale >= 0 && scale.unsigned_abs() <= precision;
    (!fits).then_some("the precision and scale do not fit")
}

/// Whether the field, and a null where it may be null, come back equal.
fn trial(field: &Field) -> Result<bool, ParquetError> {
    let exact = Schema::new(vec![field.clone()]);
    if round_trip(exact.clone(), 0)?.0 != exact {
        return Ok(false);
    }
    let nullable = Schema::new(vec![field.clone().with_nullable(true)]);
    let (schema, batch) = round_trip(nullable.clone(), 1)?;
    let null = new_null_array(field.data_type(), 1);
    Ok(schema == nullable && batch.is_some_and(|batch| batch.column(0) == &null))
}

fn round_trip(schema: Schema, nulls: usize) -> Result<(Schema, Option<RecordBatch>), ParquetError> {
    let schema = Arc::new(schema);
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, schema.clone(), None)?;
    let columns = schema.fields().iter().map(|field| new_null_array(field.data_type(), nulls)).collect();
    writer.write(&RecordBatch::try_new(schema, columns)?)?;
    writer.close()?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(file))?;
    let schema = reader.schema().as_ref().clone();
    Ok((schema, reader.build()?.next().transpose()?))
}

/// Whether a type has an order that Parquet's statistics and Arrow's comparisons agree on (floats: but for NaN, see [`is_float`]).
pub(crate) fn is_orderable(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(
        data_type,
        T::Boolean
            | T::Int8
            | T::Int16
            | T::Int32
            | T::Int64
            | T::UInt8
            | T::UInt16
            | T::UInt32
            | T::UInt64
            | T::Float32
            | T::Float64
            | T::Utf8
            | T::LargeUtf8
            | T::Utf8View
            | T::Date32
            | T::Date64
            | T::Time32(_)
            | T::Time64(_)
            | T::Timestamp(..)
            | T::Decimal128(..)
    )
}

/// Parquet's statistics pass over NaN, which Arrow's comparisons put above or below all numbers.
pub(crate) fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float16 | DataType::Float32 | DataType::Float64)
}
