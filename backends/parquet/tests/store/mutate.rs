//! Changes of rows: what they read and write, and what they leave alone.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, StringArray};
use headwater_core::filter::{Comparison, Filter};
use headwater_core::store::{ByKey, Change, DataStore, Pin, Staged};
use headwater_parquet::Settings;

use crate::fixture::{Fixture, all, batch, compare, rows};

async fn change(fixture: &Fixture, base: &Pin, change: Change) -> Staged {
    fixture.store.stage(fixture.table, Some(base), change).await.unwrap()
}

fn upsert(ids: std::ops::Range<i64>) -> Change {
    Change::ByKey { key: vec!["id".into()], action: ByKey::UPSERT, rows: rows(batch(ids)) }
}

/// A table of files of 10 rows.
async fn files(fixture: &Fixture, files: i64) -> Staged {
    let mut version = fixture.create(batch(0..10)).await;
    for file in 1..files {
        version = fixture.append(&version.pin, batch(file * 10..file * 10 + 10)).await;
    }
    fixture.objects.take();
    version
}

#[tokio::test]
async fn only_touched_files_are_read_and_written_again() {
    let mut written = Vec::new();
    for number in [5, 40, 200] {
        let fixture = Fixture::new();
        let version = files(&fixture, number).await;
        // In two files next to each other: 5 rows of each.
        let staged = change(&fixture, &version.pin, upsert(15..25)).await;
        let cost = fixture.objects.take();
        assert_eq!(staged.rows, version.rows);
        // Each touched file is read for its keys and once more whole; two are written again, and one with the new rows.
        assert_eq!((cost.count("GET", ".parquet"), cost.count("PUT", ".parquet")), (4, 3), "{number} files");
        // The list that names the two files and the version that names the list; one object while the version lists them itself.
        assert_eq!(cost.count("PUT", ".version.json"), if number > 32 { 2 } else { 1 }, "{number} files");
        assert_eq!((cost.count("GET", ".version.json"), cost.count("LIST", "")), (0, 0), "{number} files: the lists are cached");
        written.push(cost.total("PUT", ".parquet"));
        // One that matches in a range of which the statistics know that nothing is there reads no file.
        let same = change(&fixture, &staged.pin, Change::Delete(compare("id", Comparison::Less, Int64Array::from(vec![-1])))).await;
        assert_eq!((same.pin, fixture.objects.take().requests.len()), (staged.pin.clone(), 0));
        // A file that loses every row is not read.
        let gone = change(&fixture, &staged.pin, Change::Delete(compare("id", Comparison::Less, Int64Array::from(vec![10])))).await;
        let cost = fixture.objects.take();
        assert_eq!((gone.rows, cost.count("GET", ".parquet"), cost.count("PUT", ".parquet")), (version.rows - 10, 1, 0), "{number} files");
    }
    assert_eq!(written[0], written[2], "bytes do not grow with the table");
}

/// 2,081 files: the first 2,080 stand in a list of lists.
#[tokio::test]
async fn a_file_in_a_list_of_lists_is_found_and_replaced() {
    let fixture = Fixture::with(Settings { file_bytes: 1, ..Settings::default() });
    let mut version = fixture.create(batch(0..1)).await;
    for id in 1..2_100 {
        version = fixture.append(&version.pin, batch(id..id + 1)).await;
    }
    let set: ArrayRef = Arc::new(StringArray::from(vec!["changed"]));
    let update = Change::Update { filter: compare("id", Comparison::Equal, Int64Array::from(vec![7])), set: vec![("name".into(), set)] };
    let changed = change(&fixture, &version.pin, update).await;
    let (before, after) = (all(&fixture.cold(), &version.pin).await, all(&fixture.cold(), &changed.pin).await);
    assert_eq!((changed.rows, changed.changed, after.num_rows()), (2_100, 1, 2_100));
    assert_eq!(before.column(0), after.column(0));
    let names = after.column(1).as_any().downcast_ref::<StringArray>().unwrap();
    assert_eq!((names.value(7), names.value(8)), ("changed", "name 8"));
    let appended = fixture.append(&changed.pin, batch(5_000..5_001)).await;
    assert_eq!(all(&fixture.cold(), &appended.pin).await.num_rows(), 2_101);
}

/// A row of a column that is younger than its file has a null there, and may be given a value.
#[tokio::test]
async fn a_younger_column_is_updated_in_older_files() {
    let fixture = Fixture::new();
    let base = fixture.create(batch(0..10)).await;
    let wide =
        headwater_core::schema::with_columns(&base.schema, &[arrow_schema::Field::new("size", arrow_schema::DataType::Float64, true)]);
    let wide = change(&fixture, &base.pin, Change::AddColumns(wide.unwrap())).await;
    let size: ArrayRef = Arc::new(Float64Array::from(vec![2.5]));
    let filter = Filter::And(vec![Filter::IsNull("size".into()), compare("id", Comparison::Less, Int64Array::from(vec![4]))]);
    let changed = change(&fixture, &wide.pin, Change::Update { filter, set: vec![("size".into(), size)] }).await;
    let found = all(&fixture.cold(), &changed.pin).await;
    let sizes = found.column(3).as_any().downcast_ref::<Float64Array>().unwrap();
    assert_eq!((changed.changed, sizes.null_count(), sizes.value(0)), (4, 6, 2.5));
}
