//! Every Arrow type either comes back to the bit or is refused by the column's name.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, Fields, IntervalUnit, Schema, UnionFields, UnionMode};
use headwater_conformance::values::{bits, samples};
use headwater_core::ErrorKind;
use headwater_core::filter::{Comparison, Filter};
use headwater_core::store::{Change, DataStore, Rows, Scan};
use headwater_parquet::Settings;

use crate::fixture::{Fixture, read};

/// Types that are kept, with values.
fn kept() -> Vec<ArrayRef> {
    samples().into_iter().filter(|column| !refused().contains(column.data_type())).collect()
}

/// Types Parquet cannot keep.
fn refused() -> Vec<DataType> {
    let item = || Arc::new(Field::new_list_field(DataType::Int32, true));
    let union = UnionFields::try_new([0], [Field::new("a", DataType::Int32, true)]).unwrap();
    let runs = DataType::RunEndEncoded(
        Arc::new(Field::new("run_ends", DataType::Int32, false)),
        Arc::new(Field::new("values", DataType::Utf8, true)),
    );
    let dictionary = |key, value| DataType::Dictionary(Box::new(key), Box::new(value));
    let mut types = vec![
        DataType::Union(union.clone(), UnionMode::Dense),
        DataType::Union(union, UnionMode::Sparse),
        runs,
        DataType::ListView(item()),
        DataType::LargeListView(item()),
        DataType::Interval(IntervalUnit::MonthDayNano),
        dictionary(DataType::Int8, DataType::Utf8),
        dictionary(DataType::UInt16, DataType::Utf8),
        dictionary(DataType::Int32, DataType::Int64),
        dictionary(DataType::Int32, DataType::Utf8View),
        DataType::Struct(Fields::empty()),
        DataType::FixedSizeBinary(0),
        DataType::FixedSizeBinary(-1),
        DataType::FixedSizeList(item(), 0),
        DataType::FixedSizeList(item(), -1),
        DataType::Decimal128(0, 0),
        DataType::Decimal128(39, 0),
        DataType::Decimal256(255, 100),
        DataType::Decimal128(10, -2),
        DataType::Map(item(), false),
    ];
    let nested: Vec<DataType> = types.iter().cloned().map(|kind| DataType::List(Arc::new(Field::new_list_field(kind, true)))).collect();
    types.extend(nested);
    types
}

#[tokio::test]
async fn what_is_accepted_comes_back_to_the_bit() {
    let each_row = Settings { whole_bytes: 0, row_group_rows: 1, ..Settings::default() };
    let (mut types, mut filters) = (std::collections::BTreeSet::new(), 0);
    for column in kept() {
        let kind = column.data_type().clone();
        types.insert(format!("{kind:?}"));
        // As a nullable column with all values; as a required one without nulls; with no row at all.
        let valid = arrow_select::filter::filter(&column, &validity(&column)).unwrap();
        let nullable = Field::new("c", kind.clone(), true).with_metadata([("unit".into(), "m".into())].into());
        let required = Field::new("c", kind.clone(), false);
        let mut cases = vec![(nullable.clone(), column.clone()), (nullable, column.slice(0, 0))];
        if !matches!(kind, DataType::Null) {
            cases.push((required, valid));
        }
        for (field, values) in cases {
            let schema = Arc::new(Schema::new(vec![field]).with_metadata([("of".into(), "table".into())].into()));
            let rows = RecordBatch::try_new(schema.clone(), vec![values.clone()]).unwrap();
            for settings in [Settings::default(), each_row.clone()] {
                let fixture = Fixture::with(settings);
                fixture.store.check_schema(&schema).unwrap_or_else(|error| panic!("{kind}: {error}"));
                let staged = fixture.create(rows.clone()).await;
                let back = read(&fixture.store, &staged.pin, &Scan::default()).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
                assert_eq!(back.schema().fields(), schema.fields());
                assert_eq!(fixture.cold().describe(&staged.pin).await.unwrap().schema, schema);
                assert_eq!(bits(back.column(0)), bits(&values), "{kind}");
                filters += compare_each(&fixture, &staged.pin, &rows).await;
            }
        }
    }
    println!("{} types, {filters} filters", types.len());
    assert!(types.len() >= 55 && filters > 2000, "{} {filters}", types.len());
}

fn validity(column: &ArrayRef) -> BooleanArray {
    (0..column.len()).map(|row| Some(column.is_valid(row))).collect()
}

/// Compares the column with each of its values in every way: pruning must never lose a row.
async fn compare_each(fixture: &Fixture, pin: &headwater_core::store::Pin, rows: &RecordBatch) -> usize {
    use Comparison::*;
    let mut count = 0;
    for row in 0..rows.num_rows() {
        for op in [Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual] {
            let filter = Filter::Compare { column: "c".into(), op, value: rows.column(0).slice(row, 1) };
            let scan = Scan { filter: Some(filter.clone()), ..Scan::default() };
            match filter.apply(rows) {
                Ok(expected) => {
                    let found = read(&fixture.store, pin, &scan).await.unwrap();
                    assert_eq!(bits(found.column(0)), bits(expected.column(0)), "{filter:?}");
                    count += 1;
                }
                Err(_) => assert_eq!(fixture.store.scan(pin, &scan).await.unwrap_err().kind(), ErrorKind::InvalidInput),
            }
        }
    }
    count
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused_by_name() {
    let fixture = Fixture::new();
    for kind in refused() {
        let schema = Arc::new(Schema::new(vec![Field::new("fine", DataType::Int64, true), Field::new("odd", kind.clone(), true)]));
        let error = fixture.store.check_schema(&schema).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{kind:?}");
        assert!(error.to_string().contains("\"odd\""), "{error}");
        let create = fixture.store.stage(fixture.table, None, Change::Create(Rows::new(schema, vec![]))).await;
        assert_eq!(create.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    assert_eq!(fixture.objects.take().requests.len(), 0);
    let doubled = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("a", DataType::Int64, true)]));
    assert_eq!(fixture.store.check_schema(&doubled).unwrap_err().kind(), ErrorKind::InvalidInput);
    // The samples hold some of each.
    let odd = samples().iter().filter(|column| refused().contains(column.data_type())).count();
    assert!(odd >= 4 && kept().len() >= 60, "{odd} {}", kept().len());
}
