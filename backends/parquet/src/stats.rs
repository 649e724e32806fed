//! Statistics of a data file's columns, as the version object keeps them.
//!
//! Minimum and maximum are text that Arrow reads back to exactly the same value, which is tried when they are written; a bound that does
//! not come back, or is long, is left out. A bound left out is always right.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_cast::cast::{CastOptions, cast_with_options};
use arrow_ord::sort::{SortOptions, sort};
use arrow_schema::{DataType, Field, Schema};
use headwater_core::{Error, Result};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::ParquetMetaData;
use serde::{Deserialize, Serialize};

use crate::prune::Bounds;
use crate::types::{is_float, is_orderable};

/// Columns of a file that have statistics in the version object: the first ones of simple types.
pub(crate) const MAX_COLUMNS: usize = 16;
/// A bound longer than this, as JSON, is left out.
const MAX_BOUND: usize = 34;
/// A column with a longer name, as JSON, has no statistics.
const MAX_NAME: usize = 66;

/// What is known of one column of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ColumnStatistics {
    pub(crate) column: String,
    /// No value is less. For a float column, present only if no value is NaN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) min: Option<String>,
    /// No value is greater.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<String>,
    #[serde(with = "headwater_core::json::count")]
    pub(crate) nulls: u64,
}

/// The columns of a schema that get statistics.
fn columns(schema: &Schema) -> impl Iterator<Item = (usize, &Field)> {
    let kept = |field: &Field| is_orderable(field.data_type()) && json_length(field.name()) <= MAX_NAME;
    schema.fields().iter().map(Arc::as_ref).enumerate().filter(move |(_, field)| kept(field)).take(MAX_COLUMNS)
}

/// Which float columns held a NaN so far: the one fact Parquet's own statistics lack.
#[derive(Debug, Default)]
pub(crate) struct NanColumns(Vec<usize>);

impl NanColumns {
    pub(crate) fn note(&mut self, batch: &RecordBatch) {
        for (index, field) in columns(batch.schema_ref()).filter(|(_, field)| is_float(field.data_type())) {
            if !self.0.contains(&index) && holds_nan(batch.column(index), field.data_type()) {
                self.0.push(index);
            }
        }
    }
}

fn holds_nan(column: &ArrayRef, data_type: &DataType) -> bool {
    use arrow_array::types::{Float32Type, Float64Type};
    match data_type {
        DataType::Float32 => column.as_primitive::<Float32Type>().values().iter().any(|value| value.is_nan()),
        DataType::Float64 => column.as_primitive::<Float64Type>().values().iter().any(|value| value.is_nan()),
        _ => true,
    }
}

/// The statistics of a written file, from its footer.
pub(crate) fn of_file(schema: &Schema, metadata: &ParquetMetaData, nan: &NanColumns) -> Vec<ColumnStatistics> {
    columns(schema).filter_map(|(index, field)| of_column(schema, field, metadata, nan.0.contains(&index))).collect()
}

fn of_column(schema: &Schema, field: &Field, metadata: &ParquetMetaData, nan: bool) -> Option<ColumnStatistics> {
    let groups = metadata.row_groups();
    let converter = StatisticsConverter::try_new(field.name(), schema, metadata.file_metadata().schema_descr()).ok()?;
    let converter = converter.with_missing_null_counts_as_zero(false);
    let counts = converter.row_group_null_counts(groups).ok()?;
    let nulls = counts.iter().try_fold(0u64, |sum, count| sum.checked_add(count?))?;
    let mut statistics = ColumnStatistics { column: field.name().clone(), min: None, max: None, nulls };
    if nan {
        return Some(statistics);
    }
    let all_null = |group: usize| i64::try_from(counts.value(group)).ok() == groups.get(group).map(|group| group.num_rows());
    let bound = |bounds: ArrayRef, descending: bool| {
        let known = (0..bounds.len()).all(|group| bounds.is_valid(group) || all_null(group));
        let sorted = sort(&bounds, Some(SortOptions { descending, nulls_first: false })).ok()?;
        (known && !sorted.is_empty() && sorted.is_valid(0)).then(|| to_text(&sorted.slice(0, 1))).flatten()
    };
    statistics.min = converter.row_group_mins(groups).ok().and_then(|mins| bound(mins, false));
    statistics.max = converter.row_group_maxes(groups).ok().and_then(|maxes| bound(maxes, true));
    Some(statistics)
}

impl ColumnStatistics {
    /// The bounds as values of the column's type.
    pub(crate) fn bounds(&self, data_type: &DataType, rows: u64) -> Result<Bounds> {
        let read = |text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => from_text(text, data_type).map(Some).ok_or_else(|| {
                Error::new(headwater_core::ErrorKind::Corrupt, format!("the statistics of column {:?} cannot be read", self.column))
            }),
        };
        Ok(Bounds { min: read(&self.min)?, max: read(&self.max)?, nulls: Some(self.nulls), rows })
    }
}

/// Zoned timestamps go by their physical value: whether a build knows a zone's name must not matter.
fn stepping_stones(data_type: &DataType) -> Vec<DataType> {
    match data_type {
        DataType::Timestamp(unit, Some(_)) => vec![DataType::Int64, DataType::Timestamp(*unit, None)],
        _ => Vec::new(),
    }
}

fn convert(value: &ArrayRef, through: impl IntoIterator<Item = DataType>) -> Option<ArrayRef> {
    let options = CastOptions { safe: false, ..Default::default() };
    through.into_iter().try_fold(value.clone(), |value, to| cast_with_options(&value, &to, &options).ok())
}

fn to_text(value: &ArrayRef) -> Option<String> {
    let stones = stepping_stones(value.data_type());
    let text = convert(value, stones.into_iter().chain([DataType::Utf8]))?;
    let text = text.as_string::<i32>().value(0).to_owned();
    let short = json_length(&text) <= MAX_BOUND;
    (short && from_text(&text, value.data_type()).as_ref() == Some(value)).then_some(text)
}

fn from_text(text: &str, data_type: &DataType) -> Option<ArrayRef> {
    let value: ArrayRef = Arc::new(StringArray::from(vec![text]));
    let stones = stepping_stones(data_type);
    convert(&value, stones.into_iter().rev().chain([data_type.clone()]))
}

fn json_length(text: &str) -> usize {
    serde_json::to_string(text).map_or(usize::MAX, |json| json.len())
}

#[cfg(test)]
mod tests {
    use arrow_array::{Decimal128Array, Float64Array, Int64Array, TimestampMicrosecondArray, UInt64Array};

    use super::*;

    #[test]
    fn bounds_come_back_to_the_bit_or_are_left_out() {
        let zoned = TimestampMicrosecondArray::from(vec![1_700_000_000_123_456]).with_timezone("Europe/Berlin");
        let kept: [ArrayRef; 9] = [
            Arc::new(Int64Array::from(vec![i64::MIN])),
            Arc::new(UInt64Array::from(vec![u64::MAX])),
            Arc::new(Float64Array::from(vec![-0.0])),
            Arc::new(Float64Array::from(vec![0.1 + 0.2])),
            Arc::new(Float64Array::from(vec![5e-324])),
            Arc::new(StringArray::from(vec![""])),
            Arc::new(StringArray::from(vec!["x".repeat(32)])),
            Arc::new(zoned),
            Arc::new(Decimal128Array::from(vec![-12_345]).with_precision_and_scale(9, 2).unwrap()),
        ];
        for value in kept {
            let text = to_text(&value).unwrap_or_else(|| panic!("{value:?} has no text"));
            assert_eq!(from_text(&text, value.data_type()).as_ref(), Some(&value), "{text}");
        }
        for long in ["x".repeat(33), "\u{1}".repeat(10)] {
            let value: ArrayRef = Arc::new(StringArray::from(vec![long]));
            assert_eq!(to_text(&value), None);
        }
    }
}
