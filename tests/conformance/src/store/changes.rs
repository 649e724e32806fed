//! Changes: what each makes of its base.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use arrow_select::concat::concat;
use headwater_core::ErrorKind;
use headwater_core::schema::{schema_hash, with_columns};
use headwater_core::store::{Change, Rows, Scan, Staged};
use tokio::task::JoinSet;

use super::{StoreFixture, append, create, expected, read, refused, table};
use crate::rows::{collect, numbered, rows, schema};
use crate::values::{bits, samples};

/// What a staged version says of itself is what a reader that knows only the pin finds.
async fn agrees(fixture: &StoreFixture, staged: &Staged, rows: u64, changed: u64) {
    assert_eq!((staged.rows, staged.changed), (rows, changed));
    for store in [fixture.reopen().await.store, fixture.reopen().await.store] {
        let description = store.describe(&staged.pin).await.unwrap();
        assert_eq!(description.rows, rows);
        assert_eq!(schema_hash(&description.schema), schema_hash(&staged.schema));
    }
}

pub(super) async fn a_created_table_reads_back(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let staged = create(store.as_ref(), table(), rows(0..10)).await;
    agrees(fixture, &staged, 10, 10).await;
    for store in [store, fixture.reopen().await.store] {
        assert_eq!(read(store.as_ref(), &staged.pin).await, expected(0..10));
        assert!(store.describe(&staged.pin).await.unwrap().bytes > 0);
    }
}

pub(super) async fn an_append_adds_at_the_end(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let table = table();
    let base = create(store.as_ref(), table, rows(0..3)).await;
    let warm = append(store.as_ref(), table, &base.pin, rows(3..5)).await;
    let cold = append(fixture.reopen().await.store.as_ref(), table, &warm.pin, rows(5..9)).await;
    agrees(fixture, &cold, 9, 4).await;
    for (staged, ids) in [(&base, 0..3), (&warm, 0..5), (&cold, 0..9)] {
        assert_eq!(read(fixture.reopen().await.store.as_ref(), &staged.pin).await, expected(ids));
    }
    assert_eq!(BTreeSet::from([&base.pin, &warm.pin, &cold.pin]).len(), 3);
}

pub(super) async fn an_overwrite_replaces_and_keeps_the_columns(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let table = table();
    let base = create(store.as_ref(), table, rows(0..7)).await;
    let over = store.stage(table, Some(&base.pin), Change::Overwrite(rows(100..102))).await.unwrap();
    agrees(fixture, &over, 2, 2).await;
    assert_eq!(schema_hash(&over.schema), schema_hash(&base.schema));
    assert_eq!(read(store.as_ref(), &over.pin).await, expected(100..102));
    let emptied = store.stage(table, Some(&over.pin), Change::Overwrite(Rows::new(schema(), Vec::new()))).await.unwrap();
    agrees(fixture, &emptied, 0, 0).await;
    assert_eq!(read(store.as_ref(), &emptied.pin).await, [] as [String; 0]);
    assert_eq!(read(fixture.reopen().await.store.as_ref(), &base.pin).await, expected(0..7));
}

pub(super) async fn added_columns_are_null_in_older_rows(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let table = table();
    let base = create(store.as_ref(), table, rows(0..2)).await;
    let wide = with_columns(&schema(), &[Field::new("size", DataType::Float64, true), Field::new("kind", DataType::Utf8, true)]).unwrap();
    let added = store.stage(table, Some(&base.pin), Change::AddColumns(wide.clone())).await.unwrap();
    agrees(fixture, &added, 2, 0).await;
    assert_eq!(schema_hash(&added.schema), schema_hash(&wide));
    let old = expected(0..2).into_iter().map(|row| format!("{row}|∅|∅"));
    assert_eq!(read(fixture.reopen().await.store.as_ref(), &added.pin).await, old.clone().collect::<Vec<_>>());
    let new = RecordBatch::try_new(
        wide,
        vec![
            Arc::new(Int64Array::from(vec![7])),
            Arc::new(StringArray::from(vec!["x"])),
            Arc::new(Float64Array::from(vec![1.5])),
            Arc::new(StringArray::from(vec![None::<&str>])),
        ],
    );
    let appended = append(store.as_ref(), table, &added.pin, new.unwrap().into()).await;
    assert_eq!(read(fixture.reopen().await.store.as_ref(), &appended.pin).await, old.chain(["7|x|1.5|∅".to_owned()]).collect::<Vec<_>>());
    // A column that is not added, but changed or left out, is another change.
    for other in [
        Schema::new(vec![schema().field(0).clone()]),
        Schema::new(vec![Field::new("id", DataType::Int32, false), schema().field(1).clone(), Field::new("size", DataType::Int8, true)]),
        Schema::new(vec![schema().field(0).clone(), schema().field(1).clone(), Field::new("size", DataType::Int8, false)]),
    ] {
        refused(store.stage(table, Some(&base.pin), Change::AddColumns(Arc::new(other))).await, ErrorKind::InvalidInput);
    }
}

pub(super) async fn no_rows_are_a_version_too(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let table = table();
    let base = create(store.as_ref(), table, Rows::new(schema(), Vec::new())).await;
    agrees(fixture, &base, 0, 0).await;
    assert_eq!(read(store.as_ref(), &base.pin).await, [] as [String; 0]);
    let first = append(store.as_ref(), table, &base.pin, rows(0..2)).await;
    for nothing in [Rows::new(schema(), Vec::new()), Rows::new(schema(), vec![numbered(0..0)])] {
        let same = append(store.as_ref(), table, &first.pin, nothing).await;
        agrees(fixture, &same, 2, 0).await;
        assert_eq!(read(store.as_ref(), &same.pin).await, expected(0..2));
    }
}

pub(super) async fn a_long_stream_reads_back(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    // Batches of uneven sizes, empty ones among them.
    let (mut batches, mut next) = (Vec::new(), 0);
    for i in 0..60 {
        let length = (i * 37) % 400;
        batches.push(numbered(next..next + length));
        next += length;
    }
    let staged = create(store.as_ref(), table(), Rows::new(schema(), batches)).await;
    agrees(fixture, &staged, next as u64, next as u64).await;
    assert_eq!(read(fixture.reopen().await.store.as_ref(), &staged.pin).await, expected(0..next));
}

pub(super) async fn a_rebase_brings_the_same_rows_onto_another_base(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let table = table();
    let base = create(store.as_ref(), table, rows(0..2)).await;
    let mine = append(store.as_ref(), table, &base.pin, rows(2..4)).await;
    let theirs = append(store.as_ref(), table, &base.pin, rows(10..15)).await;
    let before: BTreeSet<_> = store.list().await.unwrap().into_iter().collect();
    match store.rebase(table, &mine, &theirs.pin).await.unwrap() {
        Some(rebased) => {
            agrees(fixture, &rebased, 9, 2).await;
            assert_eq!(rebased.content, mine.content, "a rebase brings what the append brought");
            let all = [expected(0..2), expected(10..15), expected(2..4)].concat();
            assert_eq!(read(fixture.reopen().await.store.as_ref(), &rebased.pin).await, all);
            let again = store.rebase(table, &rebased, &base.pin).await.unwrap().unwrap();
            assert_eq!(read(store.as_ref(), &again.pin).await, expected(0..4), "a rebase can be rebased");
        }
        None => assert_eq!(before, store.list().await.unwrap().into_iter().collect(), "what is refused writes nothing"),
    }
    assert_eq!(read(store.as_ref(), &mine.pin).await, expected(0..4));
    // On a base of other columns the rows would not fit.
    let wide = with_columns(&schema(), &[Field::new("size", DataType::Int64, true)]).unwrap();
    let added = store.stage(table, Some(&base.pin), Change::AddColumns(wide)).await.unwrap();
    assert!(store.rebase(table, &mine, &added.pin).await.unwrap().is_none());
    // What is no append has nothing that could be put on another base.
    let over = store.stage(table, Some(&base.pin), Change::Overwrite(rows(5..6))).await.unwrap();
    assert!(store.rebase(table, &over, &theirs.pin).await.unwrap().is_none());
}

pub(super) async fn the_content_digest_tells_a_retry_from_another_request(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let table = table();
    let base = create(store.as_ref(), table, rows(0..2)).await;
    let digest = async |batches: Vec<RecordBatch>| append(store.as_ref(), table, &base.pin, Rows::new(schema(), batches)).await.content;
    let first = digest(vec![numbered(2..9)]).await;
    assert_eq!(digest(vec![numbered(2..9)]).await, first);
    assert_eq!(digest(vec![numbered(2..4), numbered(4..4), numbered(4..9)]).await, first, "how rows are cut into batches is no content");
    for other in [vec![numbered(2..8)], vec![numbered(3..10)], vec![numbered(3..9), numbered(2..3)], vec![]] {
        assert_ne!(digest(other).await, first);
    }
    let elsewhere = fixture.reopen().await.store.stage(self::table(), None, Change::Create(rows(2..9))).await.unwrap();
    assert_eq!(elsewhere.content, create(store.as_ref(), self::table(), rows(2..9)).await.content, "another process, the same digest");
}

pub(super) async fn bases_that_do_not_fit_are_refused(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let (mine, theirs) = (table(), table());
    let base = create(store.as_ref(), mine, rows(0..1)).await;
    let before = store.list().await.unwrap().len();
    refused(store.stage(mine, None, Change::Append(rows(1..2))).await, ErrorKind::InvalidInput);
    refused(store.stage(mine, None, Change::Overwrite(rows(1..2))).await, ErrorKind::InvalidInput);
    refused(store.stage(mine, None, Change::AddColumns(schema())).await, ErrorKind::InvalidInput);
    refused(store.stage(mine, Some(&base.pin), Change::Create(rows(1..2))).await, ErrorKind::InvalidInput);
    refused(store.stage(theirs, Some(&base.pin), Change::Append(rows(1..2))).await, ErrorKind::InvalidInput);
    assert_eq!(store.list().await.unwrap().len(), before, "what is refused writes nothing");
}

pub(super) async fn concurrent_stages_of_one_base_do_not_collide(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let table = table();
    let base = create(store.as_ref(), table, rows(0..1)).await;
    let mut tasks = JoinSet::new();
    for i in 1..=8 {
        // Half of them in the process of the base, half in others.
        let store = if i % 2 == 0 { store.clone() } else { fixture.reopen().await.store };
        let base = base.pin.clone();
        tasks.spawn(async move { (i, append(store.as_ref(), table, &base, rows(10 * i..10 * i + i)).await) });
    }
    let staged = tasks.join_all().await;
    assert_eq!(staged.iter().map(|(_, staged)| &staged.pin.path).collect::<BTreeSet<_>>().len(), 8);
    for (i, staged) in staged {
        let rows = read(fixture.reopen().await.store.as_ref(), &staged.pin).await;
        assert_eq!(rows, [expected(0..1), expected(10 * i..10 * i + i)].concat());
    }
}

/// One column of values, in the ways a table can hold it: where nulls may be, where none may be, and with no row.
fn cases(column: &ArrayRef) -> Vec<(Field, ArrayRef)> {
    let kind = column.data_type();
    let nullable = Field::new("the column", kind.clone(), true).with_metadata([("unit".into(), "m".into())].into());
    let mut cases = vec![(nullable.clone(), column.clone()), (nullable, column.slice(0, 0))];
    if *kind != DataType::Null {
        let valid: BooleanArray = (0..column.len()).map(|row| Some(column.is_valid(row))).collect();
        cases.push((Field::new("the column", kind.clone(), false), arrow_select::filter::filter(column, &valid).unwrap()));
    }
    cases
}

pub(super) async fn every_type_round_trips_or_is_refused(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let (mut kept, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for column in samples() {
        let kind = column.data_type().clone();
        for (field, values) in cases(&column) {
            let schema = Arc::new(Schema::new(vec![field]).with_metadata([("of".into(), "table".into())].into()));
            let rows = RecordBatch::try_new(schema.clone(), vec![values.clone()]).unwrap();
            if let Err(error) = store.check_schema(&schema) {
                assert!(error.to_string().contains("the column"), "the error does not name the column: {error}");
                let before = store.list().await.unwrap().len();
                let error_at_create = store.stage(table(), None, Change::Create(rows.into())).await.unwrap_err();
                assert_eq!((error_at_create.kind(), store.list().await.unwrap().len()), (error.kind(), before), "{kind}");
                refused.insert(kind.to_string());
                continue;
            }
            kept.insert(kind.to_string());
            let staged = store.stage(table(), None, Change::Create(rows.clone().into())).await;
            let staged = staged.unwrap_or_else(|error| panic!("{kind} is accepted and not written: {error:?}"));
            let store = fixture.reopen().await.store;
            assert_eq!(store.describe(&staged.pin).await.unwrap().schema, schema, "{kind}");
            let partitions = store.scan(&staged.pin, &Scan::default()).await.unwrap();
            let batches = collect(&partitions).await.unwrap_or_else(|error| panic!("{kind} is written and not read: {error:?}"));
            let back = match batches.is_empty() {
                true => values.slice(0, 0),
                false => concat(&batches.iter().map(|batch| batch.column(0).as_ref()).collect::<Vec<_>>()).unwrap(),
            };
            assert_eq!(bits(&back), bits(&values), "{kind}");
        }
    }
    println!("kept: {}\nrefused: {}", Vec::from_iter(&kept).len(), Vec::from_iter(refused).join(", "));
    let basic = [DataType::Boolean, DataType::Int64, DataType::Float64, DataType::Utf8, DataType::Timestamp(TimeUnit::Microsecond, None)];
    assert!(basic.iter().all(|kind| kept.contains(&kind.to_string())), "{kept:?}");
}
