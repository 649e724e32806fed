//! Columns being filled from text and JSON, one builder per type.

use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, BooleanBuilder, LargeBinaryBuilder, LargeStringBuilder, PrimitiveBuilder, StringBuilder, StringViewBuilder,
};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, ListArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};
use chrono::{Datelike, NaiveDateTime, Timelike};
use headwater::{Error, Result};
use serde_json::value::RawValue;

use super::cell::{self, Moment};
use super::json::{Kind, elements, kind, members, text_of};
use crate::cli::schema_text::type_name;

/// A value that a column cannot hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// Where in a nested value.
    pub(crate) path: String,
    /// What is wrong, as the end of a sentence that began with the value.
    pub(crate) problem: String,
}

impl Misfit {
    fn not_a(data_type: &DataType, value: &str) -> Self {
        let shown: String = value.chars().take(80).collect();
        Self { path: String::new(), problem: format!("{shown:?} is not a {}", type_name(data_type)) }
    }

    fn null() -> Self {
        Self { path: String::new(), problem: "the value is null, and the column may not be null".to_owned() }
    }

    fn within(mut self, part: &str) -> Self {
        self.path = format!("{part}{}", self.path);
        self
    }
}

/// Values of a flat type, read from their text.
trait Cells: Send {
    /// Adds the value of this text; false if the type does not hold it.
    fn text(&mut self, text: &str) -> bool;
    fn null(&mut self);
    fn finish(&mut self) -> ArrayRef;
}

type Parse<T> = Box<dyn Fn(&str) -> Option<<T as ArrowPrimitiveType>::Native> + Send>;

struct Primitive<T: ArrowPrimitiveType> {
    builder: PrimitiveBuilder<T>,
    parse: Parse<T>,
}

impl<T: ArrowPrimitiveType> Cells for Primitive<T> {
    fn text(&mut self, text: &str) -> bool {
        let value = (self.parse)(text.trim());
        value.inspect(|value| self.builder.append_value(*value)).is_some()
    }

    fn null(&mut self) {
        self.builder.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        ArrayBuilder::finish(&mut self.builder)
    }
}

/// A builder of values that any text, or text of one form, makes.
macro_rules! cells {
    ($builder:ty, $parse:expr) => {
        impl Cells for $builder {
            fn text(&mut self, text: &str) -> bool {
                let parse = $parse;
                match parse(text) {
                    Some(value) => self.append_value(value),
                    None => return false,
                }
                true
            }

            fn null(&mut self) {
                self.append_null();
            }

            fn finish(&mut self) -> ArrayRef {
                ArrayBuilder::finish(self)
            }
        }
    };
}

cells!(StringBuilder, Some::<&str>);
cells!(LargeStringBuilder, Some::<&str>);
cells!(StringViewBuilder, Some::<&str>);
cells!(BinaryBuilder, cell::bytes);
cells!(LargeBinaryBuilder, cell::bytes);
cells!(BooleanBuilder, |text: &str| cell::boolean(text.trim()));

fn primitive<T: ArrowPrimitiveType>(
    data_type: &DataType,
    parse: impl Fn(&str) -> Option<T::Native> + Send + 'static,
) -> Option<Box<dyn Cells>> {
    let builder = PrimitiveBuilder::<T>::new().with_data_type(data_type.clone());
    Some(Box::new(Primitive { builder, parse: Box::new(parse) }))
}

fn timestamp<T: ArrowPrimitiveType<Native = i64>>(data_type: &DataType, zoned: bool, per_second: i64) -> Option<Box<dyn Cells>> {
    primitive::<T>(data_type, move |text| {
        let at: NaiveDateTime = match (cell::moment(text)?, zoned) {
            (Moment::Local(at), false) | (Moment::Instant(at), true) => at,
            (Moment::Date(date), false) => date.and_time(chrono::NaiveTime::MIN),
            // Which instant a local time is, or which local time an instant, nobody here knows.
            _ => return None,
        };
        cell::since_epoch(&at, per_second)
    })
}

/// Nanoseconds since midnight in a coarser unit, if nothing is lost.
fn since_midnight(text: &str, nanos_each: i64) -> Option<i64> {
    let time = cell::time(text)?;
    let nanos = i64::from(time.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(time.nanosecond());
    (nanos % nanos_each == 0).then_some(nanos / nanos_each)
}

fn days(text: &str) -> Option<i32> {
    const EPOCH_FROM_CE: i32 = 719_163;
    match cell::moment(text)? {
        Moment::Date(date) => Some(date.num_days_from_ce() - EPOCH_FROM_CE),
        _ => None,
    }
}

fn flat(data_type: &DataType) -> Option<Box<dyn Cells>> {
    use DataType as T;
    match data_type {
        T::Boolean => Some(Box::new(BooleanBuilder::new())),
        T::Int8 => primitive::<Int8Type>(data_type, cell::integer),
        T::Int16 => primitive::<Int16Type>(data_type, cell::integer),
        T::Int32 => primitive::<Int32Type>(data_type, cell::integer),
        T::Int64 => primitive::<Int64Type>(data_type, cell::integer),
        T::UInt8 => primitive::<UInt8Type>(data_type, cell::integer),
        T::UInt16 => primitive::<UInt16Type>(data_type, cell::integer),
        T::UInt32 => primitive::<UInt32Type>(data_type, cell::integer),
        T::UInt64 => primitive::<UInt64Type>(data_type, cell::integer),
        T::Float32 => primitive::<Float32Type>(data_type, cell::float),
        T::Float64 => primitive::<Float64Type>(data_type, cell::double),
        T::Decimal128(precision, scale) => {
            let (precision, scale) = (*precision, *scale);
            primitive::<Decimal128Type>(data_type, move |text| cell::decimal(text, precision, scale))
        }
        T::Date32 => primitive::<Date32Type>(data_type, days),
        T::Date64 => primitive::<Date64Type>(data_type, |text| Some(i64::from(days(text)?) * 86_400_000)),
        T::Time32(TimeUnit::Second) => {
            primitive::<Time32SecondType>(data_type, |text| since_midnight(text, 1_000_000_000)?.try_into().ok())
        }
        T::Time32(TimeUnit::Millisecond) => {
            primitive::<Time32MillisecondType>(data_type, |text| since_midnight(text, 1_000_000)?.try_into().ok())
        }
        T::Time64(TimeUnit::Microsecond) => primitive::<Time64MicrosecondType>(data_type, |text| since_midnight(text, 1_000)),
        T::Time64(TimeUnit::Nanosecond) => primitive::<Time64NanosecondType>(data_type, |text| since_midnight(text, 1)),
        T::Timestamp(TimeUnit::Second, zone) => timestamp::<TimestampSecondType>(data_type, zone.is_some(), 1),
        T::Timestamp(TimeUnit::Millisecond, zone) => timestamp::<TimestampMillisecondType>(data_type, zone.is_some(), 1_000),
        T::Timestamp(TimeUnit::Microsecond, zone) => timestamp::<TimestampMicrosecondType>(data_type, zone.is_some(), 1_000_000),
        T::Timestamp(TimeUnit::Nanosecond, zone) => timestamp::<TimestampNanosecondType>(data_type, zone.is_some(), 1_000_000_000),
        T::Utf8 => Some(Box::new(StringBuilder::new())),
        T::LargeUtf8 => Some(Box::new(LargeStringBuilder::new())),
        T::Utf8View => Some(Box::new(StringViewBuilder::new())),
        T::Binary => Some(Box::new(BinaryBuilder::new())),
        T::LargeBinary => Some(Box::new(LargeBinaryBuilder::new())),
        _ => None,
    }
}

/// A column being filled.
pub(crate) struct Column {
    data_type: DataType,
    nullable: bool,
    values: Values,
}

enum Values {
    Cells(Box<dyn Cells>),
    List { item: FieldRef, child: Box<Column>, lengths: Vec<usize>, valid: Vec<bool> },
    Struct { fields: Fields, children: Vec<Column>, valid: Vec<bool> },
}

impl Column {
    /// A column that text fills, as a CSV file or a command line does.
    pub(crate) fn of_text(field: &Field) -> Result<Self> {
        Self::new(field).filter(|column| matches!(column.values, Values::Cells(_))).ok_or_else(|| {
            Error::invalid(format!("text cannot give a value of type {}; use JSON Lines, Parquet or Arrow", type_name(field.data_type())))
                .at("column", field.name())
        })
    }

    /// A column that JSON fills.
    pub(super) fn of_json(field: &Field) -> Result<Self> {
        Self::new(field).ok_or_else(|| {
            Error::invalid(format!("JSON Lines cannot give a value of type {}; use Parquet or Arrow", type_name(field.data_type())))
                .at("column", field.name())
        })
    }

    fn new(field: &Field) -> Option<Self> {
        let values = match field.data_type() {
            DataType::List(item) => {
                Values::List { item: item.clone(), child: Box::new(Self::new(item)?), lengths: Vec::new(), valid: Vec::new() }
            }
            DataType::Struct(fields) if !fields.is_empty() => {
                let children = fields.iter().map(|field| Self::new(field)).collect::<Option<_>>()?;
                Values::Struct { fields: fields.clone(), children, valid: Vec::new() }
            }
            other => Values::Cells(flat(other)?),
        };
        Some(Self { data_type: field.data_type().clone(), nullable: field.is_nullable(), values })
    }

    /// Whether its values are text, of which the empty one is a value too.
    pub(super) fn is_text(&self) -> bool {
        matches!(self.data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
    }

    /// Adds the value of this text, or null.
    pub(crate) fn push_text(&mut self, text: Option<&str>) -> Result<(), Misfit> {
        let Some(text) = text else { return self.push_null() };
        let fits = match &mut self.values {
            Values::Cells(cells) => cells.text(text),
            Values::List { .. } | Values::Struct { .. } => false,
        };
        if fits { Ok(()) } else { Err(Misfit::not_a(&self.data_type, text)) }
    }

    /// Adds null, where it is allowed.
    pub(super) fn push_null(&mut self) -> Result<(), Misfit> {
        if !self.nullable {
            return Err(Misfit::null());
        }
        self.pad();
        Ok(())
    }

    /// Adds a place that no value fills: null, or whatever stands below a null.
    fn pad(&mut self) {
        match &mut self.values {
            Values::Cells(cells) => cells.null(),
            Values::List { lengths, valid, .. } => {
                lengths.push(0);
                valid.push(false);
            }
            Values::Struct { children, valid, .. } => {
                children.iter_mut().for_each(Self::pad);
                valid.push(false);
            }
        }
    }

    /// Adds a JSON value.
    pub(super) fn push_json(&mut self, json: &RawValue) -> Result<(), Misfit> {
        let misfit = || Misfit::not_a(&self.data_type, json.get());
        match (kind(json), &mut self.values) {
            (Kind::Null, _) => self.push_null(),
            (Kind::Text | Kind::Number | Kind::Boolean, Values::Cells(cells)) => {
                let text = text_of(json).ok_or_else(misfit)?;
                if cells.text(&text) { Ok(()) } else { Err(misfit()) }
            }
            (Kind::Array, Values::List { child, lengths, valid, .. }) => {
                let items = elements(json).ok_or_else(misfit)?;
                for (i, item) in items.iter().enumerate() {
                    child.push_json(item).map_err(|misfit| misfit.within(&format!("[{i}]")))?;
                }
                lengths.push(items.len());
                valid.push(true);
                Ok(())
            }
            (Kind::Object, Values::Struct { fields, children, valid }) => {
                let members = members(json.get()).map_err(|_| misfit())?;
                if let Some((name, _)) = members.iter().find(|(name, _)| fields.iter().all(|field| field.name() != name)) {
                    let problem = format!("the key {name:?} is not in the table; leave it out");
                    return Err(Misfit { path: String::new(), problem });
                }
                for (field, child) in fields.iter().zip(children) {
                    let value = members.iter().find(|(name, _)| name == field.name());
                    let pushed = match value {
                        Some((_, json)) => child.push_json(json),
                        None => child.push_null(),
                    };
                    pushed.map_err(|misfit| misfit.within(&format!(".{}", field.name())))?;
                }
                valid.push(true);
                Ok(())
            }
            _ => Err(misfit()),
        }
    }

    /// The values so far; the column is empty afterwards.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef> {
        let array: ArrayRef = match &mut self.values {
            Values::Cells(cells) => cells.finish(),
            Values::List { item, child, lengths, valid } => {
                let offsets = OffsetBuffer::from_lengths(std::mem::take(lengths));
                let nulls = NullBuffer::from(std::mem::take(valid));
                Arc::new(ListArray::try_new(item.clone(), offsets, child.finish()?, Some(nulls)).map_err(built)?)
            }
            Values::Struct { fields, children, valid } => {
                let arrays = children.iter_mut().map(Self::finish).collect::<Result<_>>()?;
                let nulls = NullBuffer::from(std::mem::take(valid));
                Arc::new(StructArray::try_new(fields.clone(), arrays, Some(nulls)).map_err(built)?)
            }
        };
        Ok(array)
    }
}

fn built(source: arrow_schema::ArrowError) -> Error {
    Error::invalid("the values do not fit together").because(source)
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;

    use super::super::cell::Kinds;
    use super::super::infer::Guess;
    use super::*;

    fn fill(data_type: DataType, values: &[&str]) -> Result<ArrayRef, Misfit> {
        let mut column = Column::of_text(&Field::new("c", data_type, true)).unwrap();
        for value in values {
            column.push_text(Some(value))?;
        }
        Ok(column.finish().unwrap())
    }

    #[test]
    fn text_becomes_values_of_the_type() {
        let days = fill(DataType::Date32, &["1970-01-02", "2012/01/01"]).unwrap();
        assert_eq!(days.as_primitive::<Date32Type>().values(), &[1, 15_340]);
        let zone = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
        let at = fill(zone.clone(), &["1970-01-01T01:00:00.5+01:00"]).unwrap();
        assert_eq!(at.as_primitive::<TimestampMillisecondType>().values(), &[500]);
        assert_eq!(at.data_type(), &zone);
        for (data_type, bad) in [
            (zone, "1970-01-01T00:00:00"),
            (DataType::Timestamp(TimeUnit::Second, None), "1970-01-01T00:00:00.5"),
            (DataType::Int8, "128"),
            (DataType::UInt8, "-1"),
            (DataType::Int64, "007"),
            (DataType::Float32, "16777217"),
            (DataType::Date32, "1970-01-01T00:00:00"),
        ] {
            let misfit = fill(data_type, &[bad]).unwrap_err();
            assert!(misfit.problem.contains(bad), "{misfit:?}");
        }
    }

    #[test]
    fn an_inferred_type_holds_every_value_it_was_inferred_from() {
        let samples = [
            "true",
            "FALSE",
            "0",
            "-7",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551616",
            "0.5",
            "-0",
            "-.5",
            "1e5",
            "NaN",
            "inf",
            "-inf",
            "2012-02-29",
            "2012/02/29",
            "0001-01-01",
            "9999-12-31",
            "2012-02-29 10:00",
            "2012-02-29T10:00:59.123456",
            "0001-01-01T00:00:00Z",
            "2012-02-29T10:00:00-05:30",
            "2012-02-29 10:00:00 UTC",
            "00123",
            "text",
            " 5",
        ];
        let mut types = std::collections::BTreeSet::new();
        for first in samples {
            for second in samples {
                let mut guess = Guess::default();
                guess.see(first, Kinds::ALL);
                guess.see(second, Kinds::ALL);
                types.insert(type_name(&guess.data_type()));
                let filled = fill(guess.data_type(), &[first, second]);
                assert!(filled.is_ok(), "{first:?} and {second:?}: {filled:?}");
            }
        }
        assert_eq!(types.len(), 7, "{types:?}");
    }

    #[test]
    fn nested_json_and_where_it_does_not_fit() {
        let item = Field::new("item", DataType::Struct(vec![Field::new("n", DataType::Int64, true)].into()), true);
        let mut column = Column::of_json(&Field::new("c", DataType::List(Arc::new(item)), true)).unwrap();
        for json in [r#"[{"n":1},null,{}]"#, "null", "[]"] {
            column.push_json(&RawValue::from_string(json.to_owned()).unwrap()).unwrap();
        }
        let array = column.finish().unwrap();
        assert_eq!((array.len(), array.null_count()), (3, 1));
        assert_eq!(array.as_list::<i32>().value(0).len(), 3);
        let bad = RawValue::from_string(r#"[{"n":1},{"n":1.5}]"#.to_owned()).unwrap();
        assert_eq!(column.push_json(&bad).unwrap_err().path, "[1].n");
    }
}
