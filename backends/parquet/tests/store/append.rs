//! The cost of appends, and what a version holds after many.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use headwater_core::ErrorKind;
use headwater_core::store::{Change, DataStore, Durability, Rows};
use headwater_parquet::Settings;

use crate::counting::keys;
use crate::fixture::{Fixture, all, batch, rows, schema};

/// Of the fixture's three columns, two of them with bounds.
const VERSION_BOUND: u64 = 48 << 10;

#[tokio::test]
async fn an_append_is_two_requests_in_one_round_trip_and_a_bounded_object_at_any_depth() {
    const APPENDS: i64 = 2500;
    let fixture = Fixture::new();
    let mut staged = fixture.create(batch(0..0)).await;
    assert_eq!(fixture.objects.take().requests.len(), 1, "a table without rows is a version object");
    let mut sizes = Vec::new();
    for append in 0..APPENDS {
        staged = fixture.append(&staged.pin, batch(append * 3..append * 3 + 3)).await;
        let cost = fixture.objects.take();
        assert_eq!((cost.requests.len(), cost.stages), (2, 1), "append {append}: {cost:?}");
        assert_eq!((cost.count("PUT", ".parquet"), cost.count("PUT", ".version.json")), (1, 1));
        assert_eq!((staged.changed, staged.rows, staged.durability), (3, (append as u64 + 1) * 3, Durability::Durable));
        sizes.push(staged.pin.size);
    }
    let (early, late) = sizes.split_at(2100);
    let (early, late) = (early.iter().max().unwrap(), late.iter().max().unwrap());
    println!("version object: at most {early} bytes up to 2,100 appends, {late} after; table of {APPENDS} appends");
    assert!(*early <= VERSION_BOUND && *late <= VERSION_BOUND, "{early} {late}");

    // A warm description costs nothing, a cold one a request.
    assert_eq!(fixture.store.describe(&staged.pin).await.unwrap().rows, APPENDS as u64 * 3);
    assert_eq!(fixture.objects.take().requests.len(), 0);
    let cold = fixture.cold();
    let description = cold.describe(&staged.pin).await.unwrap();
    assert_eq!((description.rows, description.files), (APPENDS as u64 * 3, APPENDS as u64));
    assert_eq!(fixture.objects.take().requests.len(), 1);

    // All rows in order, and one version object per 32 files.
    assert_eq!(all(&cold, &staged.pin).await, batch(0..APPENDS * 3));
    let cost = fixture.objects.take();
    assert_eq!(cost.count("GET", ".parquet"), APPENDS as usize);
    assert_eq!(cost.count("GET", ".version.json"), (APPENDS as usize - 1) / 32);
    assert_eq!(cost.requests.len(), APPENDS as usize + (APPENDS as usize - 1) / 32);

    // What is reached is exactly what is needed, each object once.
    let reached = cold.reach(std::slice::from_ref(&staged.pin)).await.unwrap();
    assert_eq!(reached.iter().filter(|reached| reached.data).count(), APPENDS as usize);
    assert_eq!(reached.iter().filter(|reached| !reached.data).count(), 1 + (APPENDS as usize - 1) / 32);
    assert_eq!(description.bytes, reached.iter().filter(|reached| reached.data).map(|reached| reached.object.size).sum::<u64>());
    let keep: std::collections::BTreeSet<&str> = reached.iter().map(|reached| reached.object.path.as_str()).collect();
    assert_eq!(keep.len(), reached.len());
    for reached in &reached {
        let bytes = fixture.objects.bytes(&reached.object.path).await;
        assert_eq!(bytes.len() as u64, reached.object.size);
        assert_eq!(Some(headwater_core::json::sha256(&bytes)), reached.digest);
    }
    let listed = fixture.store.list().await.unwrap();
    let garbage: Vec<String> = listed.iter().map(|object| object.path.clone()).filter(|path| !keep.contains(path.as_str())).collect();
    assert_eq!(garbage.len() + keep.len(), listed.len());
    assert!(garbage.len() > 2000);
    fixture.store.reclaim(garbage.clone()).await.unwrap();
    fixture.store.reclaim(garbage).await.unwrap();
    assert_eq!(all(&fixture.cold(), &staged.pin).await.num_rows(), APPENDS as usize * 3);
}

#[tokio::test]
async fn the_widest_version_object_has_a_bound_that_does_not_depend_on_the_rows() {
    let fixture = Fixture::new();
    // 40 columns with the longest names and the longest bounds that are kept, and longer ones that are not.
    let field = |index: usize| Field::new(format!("{index:02}{}", "n".repeat(62)), DataType::Utf8, true);
    let schema = Arc::new(Schema::new((0..40).map(field).collect::<Vec<_>>()));
    let rows_of = |text: &str| {
        let columns = (0..40).map(|_| Arc::new(StringArray::from(vec![Some(text), None])) as ArrayRef).collect();
        rows(RecordBatch::try_new(schema.clone(), columns).unwrap())
    };
    let mut pin = fixture.store.stage(fixture.table, None, Change::Create(Rows::new(schema.clone(), vec![]))).await.unwrap().pin;
    let empty = pin.size;
    let mut most = 0;
    for append in 0..70 {
        let text = if append % 40 == 39 { "\u{1}\"".repeat(40) } else { "m".repeat(32) };
        pin = fixture.store.stage(fixture.table, Some(&pin), Change::Append(rows_of(&text))).await.unwrap().pin;
        most = most.max(pin.size);
    }
    println!("widest version object: {} bytes beyond its schema's {empty}", most - empty);
    // 32 entries of 16 columns, and room for 65 references of some 330 bytes.
    assert!(most - empty + 65 * 330 <= 160 << 10, "{most}");
}

#[tokio::test]
async fn nothing_is_written_for_nothing() {
    let fixture = Fixture::new();
    let created = fixture.create(batch(0..10)).await;
    fixture.objects.take();
    let nothing = fixture.append(&created.pin, batch(0..0)).await;
    assert_eq!(fixture.objects.take().requests.len(), 0);
    assert_eq!((nothing.pin.clone(), nothing.rows, nothing.changed), (created.pin.clone(), 10, 0));
    let overwritten = fixture.store.stage(fixture.table, Some(&created.pin), Change::Overwrite(Rows::new(schema(), vec![]))).await.unwrap();
    let cost = fixture.objects.take();
    assert_eq!((cost.requests.len(), cost.count("PUT", ".version.json")), (1, 1));
    assert_eq!((overwritten.rows, overwritten.changed), (0, 0));
    assert_eq!(all(&fixture.store, &overwritten.pin).await.num_rows(), 0);
    assert_eq!(all(&fixture.store, &created.pin).await, batch(0..10), "the older version is untouched");
    fixture.store.flush().await.unwrap();
    assert_eq!(fixture.objects.take().count("PUT", ""), 0);
}

#[tokio::test]
async fn a_table_of_more_files_than_one_list_holds_is_written_in_lists() {
    let fixture = Fixture::with(Settings { file_bytes: 1, buffer_bytes: 1 << 20, ..Settings::default() });
    // A file per chunk of 8,192 rows: 101 files.
    let whole = batch(0..8192 * 100 + 5);
    let created = fixture.create(whole.clone()).await;
    let appended = fixture.append(&created.pin, batch(0..8192 * 2)).await;
    let cold = fixture.cold();
    assert_eq!(cold.describe(&created.pin).await.unwrap().files, 101);
    assert_eq!(all(&cold, &created.pin).await, whole);
    assert_eq!(cold.describe(&appended.pin).await.unwrap().files, 103);
    assert_eq!(all(&cold, &appended.pin).await.num_rows(), whole.num_rows() + 8192 * 2);
    // Four lists for 101 files, one version object for the append.
    let versions = keys(&fixture.objects).await.into_iter().filter(|key| key.ends_with(".version.json")).count();
    assert_eq!(versions, 5);
    // What two versions share is reached once.
    let both = cold.reach(&[created.pin.clone(), appended.pin.clone(), created.pin.clone()]).await.unwrap();
    assert_eq!(both.iter().filter(|reached| reached.data).count(), 103);
    assert_eq!(both.iter().filter(|reached| !reached.data).count(), 5);
}

#[tokio::test]
async fn misuse_is_refused_before_anything_is_written() {
    let fixture = Fixture::new();
    let created = fixture.create(batch(0..3)).await;
    let other = Fixture::new();
    let before = keys(&fixture.objects).await.len();
    let wrong = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
    let stages = [
        fixture.store.stage(fixture.table, None, Change::Append(rows(batch(0..1)))).await,
        fixture.store.stage(fixture.table, Some(&created.pin), Change::Create(rows(batch(0..1)))).await,
        fixture.store.stage(other.table, Some(&created.pin), Change::Append(rows(batch(0..1)))).await,
        fixture.store.stage(fixture.table, Some(&created.pin), Change::Append(Rows::new(wrong.clone(), vec![]))).await,
        fixture.store.stage(fixture.table, Some(&created.pin), Change::AddColumns(wrong)).await,
    ];
    for stage in stages {
        assert_eq!(stage.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let mut lying = rows(batch(0..1));
    lying.schema = schema();
    lying.batches = Box::pin(futures::stream::iter([Ok(batch(0..1).project(&[0]).unwrap())]));
    assert_eq!(
        fixture.store.stage(fixture.table, Some(&created.pin), Change::Append(lying)).await.unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    for path in ["head.json", "data/../head.json", "/data/x", "data"] {
        assert_eq!(fixture.store.reclaim(vec![path.into()]).await.unwrap_err().kind(), ErrorKind::InvalidInput, "{path}");
    }
    assert_eq!(keys(&fixture.objects).await.len(), before);
}
