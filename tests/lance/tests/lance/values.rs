//! Which types Lance keeps to the bit (the kit tries that of each), and which it does not.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, IntervalUnit, Schema, UnionFields, UnionMode};
use headwater_conformance::values::samples;
use headwater_core::ErrorKind;
use headwater_core::ids::{Incarnation, Mint, SystemEnvironment, TableId};
use headwater_core::store::{Change, DataStore, Rows, TableRef};
use headwater_lance::LanceStore;
use object_store::memory::InMemory;

fn store() -> LanceStore {
    LanceStore::new(Arc::new(InMemory::new()), &Mint::new(Arc::new(SystemEnvironment))).unwrap()
}

fn table() -> TableRef {
    let mint = Mint::new(Arc::new(SystemEnvironment));
    TableRef { id: TableId(mint.ulid()), incarnation: Incarnation(mint.ulid()) }
}

/// Types Lance cannot keep.
fn refused() -> Vec<DataType> {
    let item = || Arc::new(Field::new_list_field(DataType::Int32, true));
    let union = UnionFields::try_new([0], [Field::new("a", DataType::Int32, true)]).unwrap();
    let (ends, values) = (Field::new("run_ends", DataType::Int32, false), Field::new("values", DataType::Utf8, true));
    let mut types = vec![
        DataType::Union(union.clone(), UnionMode::Dense),
        DataType::Union(union, UnionMode::Sparse),
        DataType::RunEndEncoded(Arc::new(ends), Arc::new(values)),
        DataType::ListView(item()),
        DataType::LargeListView(item()),
        DataType::Utf8View,
        DataType::BinaryView,
        DataType::Decimal32(9, 2),
        DataType::Decimal64(18, 4),
        DataType::Interval(IntervalUnit::YearMonth),
        DataType::Interval(IntervalUnit::DayTime),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Struct(Fields::empty()),
        DataType::FixedSizeBinary(0),
        DataType::FixedSizeBinary(-1),
        DataType::FixedSizeList(item(), 0),
        DataType::FixedSizeList(item(), -1),
        DataType::Decimal128(0, 0),
        DataType::Decimal128(39, 0),
        DataType::Decimal256(255, 100),
        DataType::Map(item(), false),
    ];
    let nested: Vec<DataType> = types.iter().cloned().map(|kind| DataType::List(Arc::new(Field::new_list_field(kind, true)))).collect();
    types.extend(nested);
    types
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused_by_name_before_anything_is_written() {
    let store = store();
    for kind in refused() {
        let schema = Arc::new(Schema::new(vec![Field::new("fine", DataType::Int64, true), Field::new("odd", kind.clone(), true)]));
        let error = store.check_schema(&schema).expect_err(&format!("{kind} is accepted"));
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{kind:?}");
        assert!(error.to_string().contains("\"odd\""), "{error}");
        let create = store.stage(table(), None, Change::Create(Rows::new(schema, vec![]))).await;
        assert_eq!(create.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    for name in ["a.b", "`", "``a`", "_rowid", "_rowaddr"] {
        let schema = Arc::new(Schema::new(vec![Field::new(name, DataType::Int64, true)]));
        let error = store.check_schema(&schema).unwrap_err();
        assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains(&format!("{name:?}")), "{error}");
    }
    let directives = [
        ("lance-encoding:blob", "true"),
        ("lance-schema:unenforced-primary-key", "true"),
        ("ARROW:extension:name", "lance.json"),
        ("ARROW:extension:name", "arrow.json"),
    ];
    for (key, value) in directives {
        let inner = Field::new("inner", DataType::Utf8, true).with_metadata([(key.to_owned(), value.to_owned())].into());
        for kind in [inner.data_type().clone(), DataType::Struct(vec![inner.clone()].into()), DataType::List(Arc::new(inner.clone()))] {
            let mut column = Field::new("column", kind, true);
            if !column.data_type().is_nested() {
                column.set_metadata(inner.metadata().clone());
            }
            let error = store.check_schema(&Arc::new(Schema::new(vec![column]))).unwrap_err();
            assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("\"column\""), "{error}");
        }
    }
    assert_eq!(store.list().await.unwrap(), []);
}

/// The types the kit has tried and found exact, by number: a type that is lost here is lost to users.
#[test]
fn every_other_type_is_kept() {
    let refused = refused();
    let kept = samples().into_iter().filter(|column| !refused.contains(column.data_type()));
    let kept: Vec<DataType> = kept.map(|column| column.data_type().clone()).collect();
    for kind in &kept {
        let schema = Arc::new(Schema::new(vec![Field::new("a", kind.clone(), true)]));
        store().check_schema(&schema).unwrap();
    }
    assert!(kept.len() >= 56, "{}", kept.len());
}

/// Names that mean something to Lance or to SQL are names all the same.
#[tokio::test]
async fn hostile_column_names_are_kept() {
    use headwater_core::filter::{Comparison, Filter};
    use headwater_core::store::Scan;
    let store = store();
    let names = ["\"", "'", "*", "a b", "SELECT", "Ü", "a/b", "a\\b", "%", "a", "A", "[0]", "true", "_rowid2", "-", "1"];
    for name in names {
        let fields = vec![Field::new(name, DataType::Int64, true), Field::new("other", DataType::Int64, true)];
        let column = |values: Vec<i64>| Arc::new(arrow_array::Int64Array::from(values)) as arrow_array::ArrayRef;
        let batch = arrow_array::RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![column(vec![1, 2]), column(vec![3, 4])]).unwrap();
        let staged = store.stage(table(), None, Change::Create(batch.into())).await.unwrap_or_else(|error| panic!("{name:?}: {error:?}"));
        let filter = Filter::Compare { column: name.to_owned(), op: Comparison::Equal, value: column(vec![2]) };
        let scan = Scan { columns: Some(vec!["other".to_owned(), name.to_owned()]), filter: Some(filter), ..Scan::default() };
        let rows = headwater_conformance::rows::collect(&store.scan(&staged.pin, &scan).await.unwrap()).await;
        assert_eq!(headwater_conformance::rows::texts(&rows.unwrap_or_else(|error| panic!("{name:?}: {error:?}"))), ["4|2"], "{name:?}");
    }
}
