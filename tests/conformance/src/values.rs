//! Columns of every type, and how to compare what came back of them.

use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, FixedSizeBinaryBuilder, Int32Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type, Int8Type, Int32Type, Int64Type};
use arrow_array::*;
use arrow_buffer::{IntervalDayTime, IntervalMonthDayNano, NullBuffer, OffsetBuffer, i256};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Fields, TimeUnit};

fn array(array: impl Array + 'static) -> ArrayRef {
    Arc::new(array)
}

/// Text of every awkward kind, and nulls.
const TEXTS: [Option<&str>; 7] =
    [Some(""), None, Some("a"), Some("\u{0}"), Some("é😀"), Some("a text longer than an inline view"), Some("")];
const BYTES: [Option<&[u8]>; 5] = [Some(b""), None, Some(b"\xff\x00"), Some(b"a value longer than an inline view"), Some(b"\xff\xff")];

/// Columns of every Arrow type that has values, with nulls, extremes and whatever else is easily lost.
pub fn samples() -> Vec<ArrayRef> {
    let days = vec![Some(0), Some(i32::MIN), None, Some(i32::MAX), Some(-1), Some(19_000)];
    let instants = vec![Some(0i64), Some(i64::MIN), None, Some(i64::MAX), Some(-1), Some(1_700_000_000_123_456_789)];
    let of_day = vec![Some(0i64), None, Some(86_399_999), Some(1)];
    let of_day_32: Vec<Option<i32>> = of_day.iter().map(|value| value.map(|value| value as i32)).collect();
    let floats = [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, 5e-324, f64::MAX, f64::MIN, 0.1];
    let floats_32 = || floats.iter().map(|value| Some(*value as f32)).chain([None]);
    let mut all = vec![
        array(NullArray::new(3)),
        array(BooleanArray::from(vec![Some(true), None, Some(false)])),
        array(Int8Array::from(vec![Some(i8::MIN), None, Some(i8::MAX), Some(0)])),
        array(Int16Array::from(vec![Some(i16::MIN), None, Some(i16::MAX)])),
        array(Int32Array::from(days.clone())),
        array(Int64Array::from(instants.clone())),
        array(UInt8Array::from(vec![Some(0), None, Some(u8::MAX)])),
        array(UInt16Array::from(vec![Some(0), None, Some(u16::MAX)])),
        array(UInt32Array::from(vec![Some(0), None, Some(u32::MAX), Some(1 << 31)])),
        array(UInt64Array::from(vec![Some(0), None, Some(u64::MAX), Some(1 << 63)])),
        cast(&(array(floats_32().collect::<Float32Array>())), &DataType::Float16).unwrap(),
        array(floats_32().collect::<Float32Array>()),
        array(floats.iter().copied().map(Some).chain([None]).collect::<Float64Array>()),
        // Without NaN, so that statistics are kept.
        array(Float64Array::from(vec![Some(0.0), Some(-0.0), None, Some(0.1), Some(f64::INFINITY), Some(f64::MIN)])),
        array(Float32Array::from(vec![Some(-0.0), Some(0.1), None])),
        array(StringArray::from(TEXTS.to_vec())),
        array(LargeStringArray::from(TEXTS.to_vec())),
        array(StringViewArray::from(TEXTS.to_vec())),
        array(BinaryArray::from(BYTES.to_vec())),
        array(LargeBinaryArray::from(BYTES.to_vec())),
        binary_view(),
        array(Date32Array::from(days.clone())),
        array(Date64Array::from(vec![Some(0), None, Some(1), Some(86_400_000), Some(-1), Some(i64::MAX)])),
        array(Time32SecondArray::from(vec![Some(0), None, Some(86_399)])),
        array(Time32MillisecondArray::from(of_day_32)),
        array(Time64MicrosecondArray::from(of_day.clone())),
        array(Time64NanosecondArray::from(of_day)),
        array(Decimal32Array::from(vec![Some(-999_999_999), None, Some(1)]).with_precision_and_scale(9, 2).unwrap()),
        array(Decimal64Array::from(vec![Some(-999_999_999_999), None, Some(1)]).with_precision_and_scale(18, 4).unwrap()),
        array(Decimal128Array::from(vec![Some(-123), None, Some(999)]).with_precision_and_scale(5, 2).unwrap()),
        array(
            Decimal128Array::from(vec![Some(-(10i128.pow(38)) + 1), None, Some(10i128.pow(38) - 1)])
                .with_precision_and_scale(38, 0)
                .unwrap(),
        ),
        array(
            Decimal256Array::from(vec![Some(i256::from_i128(i128::MIN)), None, Some(i256::ONE)]).with_precision_and_scale(76, 10).unwrap(),
        ),
        array(fixed_size_binary()),
        array(DictionaryArray::<Int32Type>::from_iter(TEXTS)),
        array(DictionaryArray::<Int64Type>::from_iter(TEXTS)),
        list(),
        cast(&list(), &DataType::LargeList(Arc::new(Field::new_list_field(DataType::Int32, true)))).unwrap(),
        fixed_size_list(),
        structs(),
        lists_of_structs(),
        map(),
        array(DurationSecondArray::from(instants.clone())),
        array(DurationMillisecondArray::from(instants.clone())),
        array(DurationMicrosecondArray::from(instants.clone())),
        array(DurationNanosecondArray::from(instants.clone())),
        array(IntervalYearMonthArray::from(vec![Some(0), None, Some(-5), Some(i32::MAX)])),
        array(IntervalDayTimeArray::from(vec![Some(IntervalDayTime::new(1, 2)), None, Some(IntervalDayTime::new(0, 86_400_000))])),
    ];
    // What hardly any format keeps.
    let runs = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 3]), &StringArray::from(vec!["a", "b"])).unwrap();
    all.push(array(runs));
    all.push(array(IntervalMonthDayNanoArray::from(vec![Some(IntervalMonthDayNano::new(1, 2, 3)), None])));
    all.push(array(DictionaryArray::<Int8Type>::from_iter(TEXTS)));
    all.push(cast(&list(), &DataType::ListView(Arc::new(Field::new_list_field(DataType::Int32, true)))).unwrap());
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        for zone in [None, Some("UTC"), Some("+05:30"), Some("Europe/Berlin")] {
            let to = DataType::Timestamp(unit, zone.map(Into::into));
            all.push(array(Int64Array::from(instants.clone()).reinterpret(unit, zone)));
            assert_eq!(all.last().unwrap().data_type(), &to);
        }
    }
    all
}

trait Reinterpret {
    fn reinterpret(self, unit: TimeUnit, zone: Option<&str>) -> ArrayRef;
}

impl Reinterpret for Int64Array {
    /// The same numbers as instants.
    fn reinterpret(self, unit: TimeUnit, zone: Option<&str>) -> ArrayRef {
        let zone: Option<Arc<str>> = zone.map(Into::into);
        match unit {
            TimeUnit::Second => array(self.reinterpret_cast::<types::TimestampSecondType>().with_timezone_opt(zone)),
            TimeUnit::Millisecond => array(self.reinterpret_cast::<types::TimestampMillisecondType>().with_timezone_opt(zone)),
            TimeUnit::Microsecond => array(self.reinterpret_cast::<types::TimestampMicrosecondType>().with_timezone_opt(zone)),
            TimeUnit::Nanosecond => array(self.reinterpret_cast::<types::TimestampNanosecondType>().with_timezone_opt(zone)),
        }
    }
}

fn binary_view() -> ArrayRef {
    let mut builder = BinaryViewBuilder::new();
    BYTES.iter().for_each(|bytes| builder.append_option(*bytes));
    array(builder.finish())
}

fn fixed_size_binary() -> FixedSizeBinaryArray {
    let mut builder = FixedSizeBinaryBuilder::new(3);
    builder.append_value(b"abc").unwrap();
    builder.append_null();
    builder.append_value([0, 255, 0]).unwrap();
    builder.finish()
}

/// Nulls, empty lists, null items.
fn list() -> ArrayRef {
    let mut builder = ListBuilder::new(Int32Builder::new());
    builder.append_value([Some(1), None, Some(3)]);
    builder.append_null();
    builder.append_value([]);
    builder.append_value([None::<i32>]);
    array(builder.finish())
}

fn fixed_size_list() -> ArrayRef {
    let items = Int32Array::from(vec![Some(1), Some(2), None, None, Some(5), Some(6)]);
    let nulls = NullBuffer::from(vec![true, false, true]);
    array(FixedSizeListArray::new(Arc::new(Field::new_list_field(DataType::Int32, true)), 2, array(items), Some(nulls)))
}

/// A null struct, a struct of nulls, and a nested one.
fn structs() -> ArrayRef {
    let inner = StructArray::new(
        Fields::from(vec![Field::new("deep", DataType::Utf8, true)]),
        vec![array(StringArray::from(vec![Some("x"), None, None]))],
        Some(NullBuffer::from(vec![true, false, true])),
    );
    let fields = vec![Field::new("n", DataType::Int64, true), Field::new("inner", inner.data_type().clone(), true)];
    let numbers = array(Int64Array::from(vec![Some(1), None, None]));
    array(StructArray::new(fields.into(), vec![numbers, array(inner)], Some(NullBuffer::from(vec![true, false, true]))))
}

fn lists_of_structs() -> ArrayRef {
    let items = structs();
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    let inner = ListArray::new(field, OffsetBuffer::new(vec![0, 2, 2, 3].into()), items, Some(NullBuffer::from(vec![true, false, true])));
    let field = Arc::new(Field::new_list_field(inner.data_type().clone(), true));
    array(ListArray::new(field, OffsetBuffer::new(vec![0, 0, 2, 3].into()), array(inner), None))
}

fn map() -> ArrayRef {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    builder.keys().append_value("a");
    builder.values().append_value(1);
    builder.keys().append_value("");
    builder.values().append_null();
    builder.append(true).unwrap();
    builder.append(true).unwrap();
    builder.append(false).unwrap();
    array(builder.finish())
}

/// What tells -0.0 from 0.0 and one NaN from another, whatever equality of arrays does.
pub fn bits(column: &ArrayRef) -> (Vec<u64>, impl PartialEq + std::fmt::Debug + use<>) {
    let bits = match column.data_type() {
        DataType::Float16 => column.as_primitive::<Float16Type>().iter().flatten().map(|value| value.to_bits().into()).collect(),
        DataType::Float32 => column.as_primitive::<Float32Type>().iter().flatten().map(|value| value.to_bits().into()).collect(),
        DataType::Float64 => column.as_primitive::<Float64Type>().iter().flatten().map(f64::to_bits).collect(),
        _ => Vec::new(),
    };
    (bits, column.to_data())
}
