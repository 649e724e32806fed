//! Scans: exact filters, and that what is not needed is not read.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use futures::TryStreamExt;
use headwater_core::ErrorKind;
use headwater_core::filter::{Comparison, Filter};
use headwater_core::schema::with_columns;
use headwater_core::store::{Change, DataStore, Pin, Scan};
use headwater_parquet::{ParquetStore, Settings};

use crate::fixture::{Fixture, all, batch, compare, id, noise, open, read, schema};

/// Files are never read whole, row groups are small: every rule for large files at a small size.
fn large() -> Settings {
    Settings { whole_bytes: 0, row_group_rows: 1024, footer_bytes: 4096, split_bytes: 4096, ..Settings::default() }
}

fn filters() -> Vec<Filter> {
    use Comparison::*;
    let number = |op, value: f64| compare("value", op, Float64Array::from(vec![value]));
    let name = |op, value: &str| compare("name", op, StringArray::from(vec![value]));
    let mut filters = vec![
        Filter::IsNull("name".into()),
        Filter::IsNull("id".into()),
        compare("id", Equal, Int64Array::from(vec![None::<i64>])),
        Filter::And(vec![]),
        Filter::Or(vec![]),
        name(Equal, "name 4321"),
        name(Less, "name 2"),
        // NaN is above every number in Arrow's order, and Parquet's statistics pass over it.
        number(Greater, 1e9),
        number(Equal, f64::NAN),
        number(LessEqual, 10.0),
        Filter::Not(Box::new(number(Less, 1e9))),
    ];
    for op in [Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual] {
        filters.extend([-1, 0, 4999, 9999, 10_000].map(|value| id(op, value)));
        filters.push(Filter::Not(Box::new(id(op, 5000))));
        filters.push(Filter::And(vec![id(op, 3000), Filter::IsNull("name".into()), number(GreaterEqual, 5.0)]));
        filters.push(Filter::Or(vec![id(op, 9000), Filter::Not(Box::new(name(NotEqual, "name 11")))]));
    }
    filters
}

#[tokio::test]
async fn filters_are_exact_over_files_and_row_groups() {
    for settings in [Settings::default(), large()] {
        let fixture = Fixture::with(settings.clone());
        let mut pin = fixture.create(batch(0..4000)).await.pin;
        for start in [4000, 6000, 8000] {
            pin = fixture.append(&pin, batch(start..start + 2000)).await.pin;
        }
        let whole = batch(0..10_000);
        let store = open(&fixture.objects, settings);
        let mut found = 0;
        for filter in filters() {
            let scan = Scan { filter: Some(filter.clone()), ..Scan::default() };
            let expected = filter.apply(&whole).unwrap();
            found += expected.num_rows();
            assert_eq!(read(&store, &pin, &scan).await.unwrap(), expected, "{filter:?}");
            // Columns the filter does not read, in another order, and no column at all.
            let columns = Some(vec!["value".into(), "id".into()]);
            let scan = Scan { filter: Some(filter.clone()), columns, ..Scan::default() };
            assert_eq!(read(&store, &pin, &scan).await.unwrap(), expected.project(&[2, 0]).unwrap());
            let scan = Scan { filter: Some(filter), columns: Some(vec![]), ..Scan::default() };
            assert_eq!(count(&store, &pin, &scan).await, expected.num_rows());
        }
        assert!(found > 10_000);
    }
}

async fn count(store: &ParquetStore, pin: &Pin, scan: &Scan) -> usize {
    let mut rows = 0;
    for partition in store.scan(pin, scan).await.unwrap() {
        let batches: Vec<RecordBatch> = (partition.open)().try_collect().await.unwrap();
        rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    }
    rows
}

#[tokio::test]
async fn a_column_of_ten_reads_a_fraction_of_the_bytes() {
    let fixture = Fixture::new();
    let names: Vec<String> = (0..10).map(|index| format!("c{index}")).collect();
    let wide = Arc::new(Schema::new(names.iter().map(|name| Field::new(name, DataType::Int64, false)).collect::<Vec<_>>()));
    let columns: Vec<ArrayRef> = (0..10).map(|seed| Arc::new(noise(seed, 300_000)) as ArrayRef).collect();
    let whole = RecordBatch::try_new(wide, columns).unwrap();
    let pin = fixture.create(whole.clone()).await.pin;
    let bytes = fixture.store.describe(&pin).await.unwrap().bytes;
    fixture.objects.take();
    let scan = Scan { columns: Some(vec!["c4".into()]), ..Scan::default() };
    assert_eq!(read(&fixture.store, &pin, &scan).await.unwrap(), whole.project(&[4]).unwrap());
    let cost = fixture.objects.take();
    let read_bytes = cost.total("GET", "");
    println!("1 of 10 columns: {read_bytes} of {bytes} bytes in {} requests", cost.requests.len());
    assert!(read_bytes * 8 < bytes && read_bytes * 12 > bytes, "{read_bytes} of {bytes}");
    assert_eq!(cost.count("HEAD", ""), 0);
    // One range for the end of the file, one for the column.
    assert_eq!((cost.requests.len(), cost.stages), (2, 2), "{cost:?}");
}

#[tokio::test]
async fn only_files_and_row_groups_that_may_match_are_read() {
    let fixture = Fixture::new();
    let mut pin = fixture.create(batch(0..100)).await.pin;
    for file in 1..50 {
        pin = fixture.append(&pin, batch(file * 100..file * 100 + 100)).await.pin;
    }
    fixture.objects.take();
    let scan = |filter| Scan { filter: Some(filter), ..Scan::default() };
    let between = Filter::And(vec![id(Comparison::GreaterEqual, 1250), id(Comparison::Less, 1350)]);
    assert_eq!(read(&fixture.store, &pin, &scan(between)).await.unwrap(), batch(1250..1350));
    assert_eq!(fixture.objects.take().requests.len(), 2);
    assert_eq!(read(&fixture.store, &pin, &scan(id(Comparison::Greater, 5000))).await.unwrap().num_rows(), 0);
    assert_eq!(fixture.objects.take().requests.len(), 0);
    let partitions = fixture.store.scan(&pin, &Scan { limit: Some(250), ..Scan::default() }).await.unwrap();
    assert_eq!(partitions.len(), 3, "a limit without a filter needs no further files");
    assert!(fixture.store.scan(&pin, &Scan { limit: Some(0), ..Scan::default() }).await.unwrap().is_empty());

    // Within a file: sorted row groups of 8,192 rows.
    let fixture = Fixture::with(Settings { row_group_rows: 8192, ..Settings::default() });
    let ids: ArrayRef = Arc::new((0..400_000).collect::<Int64Array>());
    let wide = Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("noise", DataType::Int64, true)]);
    let whole = RecordBatch::try_new(Arc::new(wide), vec![ids, Arc::new(noise(1, 400_000))]).unwrap();
    let pin = fixture.create(whole.clone()).await.pin;
    let bytes = fixture.store.describe(&pin).await.unwrap().bytes;
    fixture.objects.take();
    assert_eq!(read(&fixture.store, &pin, &scan(id(Comparison::Equal, 200_000))).await.unwrap(), whole.slice(200_000, 1));
    let cost = fixture.objects.take();
    println!("1 row of 49 row groups: {} of {bytes} bytes in {} requests", cost.total("GET", ""), cost.requests.len());
    assert!(cost.total("GET", "") * 5 < bytes);
}

#[tokio::test]
async fn a_limit_stops_the_reader() {
    for settings in [Settings::default(), large()] {
        let fixture = Fixture::with(settings);
        let base = fixture.create(batch(0..5000)).await;
        let pin = fixture.append(&base.pin, batch(5000..9000)).await.pin;
        for (filter, limit) in [(None, 10), (None, 5001), (None, 100_000), (Some(id(Comparison::GreaterEqual, 4990)), 7)] {
            let expected = filter.as_ref().map_or(batch(0..9000), |filter| filter.apply(&batch(0..9000)).unwrap());
            let scan = Scan { filter, limit: Some(limit), ..Scan::default() };
            let mut found = Vec::new();
            for partition in fixture.store.scan(&pin, &scan).await.unwrap() {
                let batches: Vec<RecordBatch> = (partition.open)().try_collect().await.unwrap();
                assert!(batches.iter().map(RecordBatch::num_rows).sum::<usize>() as u64 <= limit);
                found.extend(batches);
            }
            let found = arrow_select::concat::concat_batches(&schema(), &found).unwrap();
            let wanted = expected.num_rows().min(limit as usize);
            assert_eq!(found.slice(0, wanted), expected.slice(0, wanted));
        }
    }
}

#[tokio::test]
async fn added_columns_are_null_in_older_files() {
    for settings in [Settings::default(), large()] {
        let fixture = Fixture::with(settings);
        let mut pin = fixture.create(batch(0..10)).await.pin;
        for start in (10..400).step_by(10) {
            pin = fixture.append(&pin, batch(start..start + 10)).await.pin;
        }
        let wider =
            with_columns(&schema(), &[Field::new("added", DataType::Int32, true), Field::new("more", DataType::Utf8, true)]).unwrap();
        fixture.objects.take();
        let altered = fixture.store.stage(fixture.table, Some(&pin), Change::AddColumns(wider.clone())).await.unwrap();
        assert_eq!(fixture.objects.take().requests.len(), 1);
        assert_eq!((altered.changed, altered.rows, &altered.schema), (0, 400, &wider));
        let mut columns = batch(400..410).columns().to_vec();
        columns.push(Arc::new((0..10).map(|n| (n > 0).then_some(n)).collect::<Int32Array>()));
        columns.push(Arc::new(StringArray::from(vec!["x"; 10])));
        let newer = RecordBatch::try_new(wider.clone(), columns).unwrap();
        let pin = fixture.append(&altered.pin, newer.clone()).await.pin;

        let whole = all(&fixture.store, &pin).await;
        assert_eq!((whole.schema(), whole.num_rows()), (wider.clone(), 410));
        assert_eq!((whole.column(3).null_count(), whole.slice(400, 10)), (401, newer));
        let equals = |value| compare("added", Comparison::Equal, Int32Array::from(vec![value]));
        for filter in [
            Filter::IsNull("added".into()),
            Filter::Not(Box::new(Filter::IsNull("added".into()))),
            equals(5),
            Filter::Not(Box::new(equals(5))),
            Filter::Or(vec![equals(5), id(Comparison::Less, 15)]),
            Filter::And(vec![Filter::IsNull("added".into()), Filter::IsNull("more".into())]),
        ] {
            let expected = filter.apply(&whole).unwrap();
            let scan = Scan { filter: Some(filter.clone()), ..Scan::default() };
            assert_eq!(read(&fixture.store, &pin, &scan).await.unwrap(), expected, "{filter:?}");
            let scan = Scan { filter: Some(filter), columns: Some(vec!["more".into()]), ..Scan::default() };
            assert_eq!(read(&fixture.store, &pin, &scan).await.unwrap(), expected.project(&[4]).unwrap());
        }
    }
}

#[tokio::test]
async fn partitions_are_lazy_and_repeatable() {
    let fixture = Fixture::with(large());
    let pin = fixture.create(batch(0..20_000)).await.pin;
    fixture.objects.take();
    let partitions = fixture.store.scan(&pin, &Scan::default()).await.unwrap();
    assert!(partitions.len() > 5, "a file is split by row groups: {}", partitions.len());
    let streams: Vec<_> = partitions.iter().map(|partition| (partition.open)()).collect();
    assert_eq!(fixture.objects.take().requests.len(), 0, "nothing is read before it is asked for");
    drop(streams);
    let mut both = [Vec::new(), Vec::new()];
    for partition in &partitions {
        for read in &mut both {
            read.extend((partition.open)().try_collect::<Vec<_>>().await.unwrap());
        }
    }
    for read in both {
        assert_eq!(arrow_select::concat::concat_batches(&schema(), &read).unwrap(), batch(0..20_000));
    }
}

#[tokio::test]
async fn misfits_are_named_before_anything_is_read() {
    let fixture = Fixture::new();
    let list = Field::new("list", DataType::List(Arc::new(Field::new("item", DataType::Int64, true))), true);
    let wider = with_columns(&schema(), &[list]).unwrap();
    let base = fixture.create(batch(0..5)).await;
    let pin = fixture.store.stage(fixture.table, Some(&base.pin), Change::AddColumns(wider)).await.unwrap().pin;
    fixture.objects.take();
    let unknown = Scan { columns: Some(vec!["id".into(), "nme".into()]), ..Scan::default() };
    let error = fixture.store.scan(&pin, &unknown).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("\"nme\"") && error.to_string().contains("id, name, value, list"), "{error}");
    let list = arrow_array::new_null_array(&DataType::List(Arc::new(Field::new("item", DataType::Int64, true))), 1);
    for filter in [
        Filter::IsNull("nme".into()),
        compare("id", Comparison::Equal, StringArray::from(vec!["1"])),
        Filter::Compare { column: "list".into(), op: Comparison::Equal, value: list },
    ] {
        let error = fixture.store.scan(&pin, &Scan { filter: Some(filter), ..Scan::default() }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    assert_eq!(fixture.objects.take().requests.len(), 0);
}
