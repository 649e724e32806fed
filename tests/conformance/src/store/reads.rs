//! Reads: projection, filter, limit, and versions that never change.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use headwater_core::ErrorKind;
use headwater_core::filter::{Comparison, Filter};
use headwater_core::store::{Change, DataStore, Pin, Rows, Scan, TableRef};
use headwater_core::views::has_views;

use super::{StoreFixture, append, create, expected, read, refused, scan, table};
use crate::rows::{collect, rows, texts};

fn columns() -> SchemaRef {
    let field = |name, kind| Field::new(name, kind, true);
    Arc::new(Schema::new(vec![field("n", DataType::Int64), field("x", DataType::Float64), field("s", DataType::Utf8)]))
}

fn batch(numbers: Vec<Option<i64>>) -> RecordBatch {
    let float = |n: i64| match n % 4 {
        0 => f64::NAN,
        1 => -0.0,
        2 => 0.0,
        _ => n as f64 / 2.0,
    };
    let floats: Float64Array = numbers.iter().map(|n| n.map(float)).collect();
    let strings: StringArray = numbers.iter().map(|n| n.map(|n| "ä".repeat((n % 5) as usize))).collect();
    RecordBatch::try_new(columns(), vec![Arc::new(Int64Array::from(numbers)) as ArrayRef, Arc::new(floats), Arc::new(strings)]).unwrap()
}

/// Several files, one of them all null, one without any.
fn parts() -> Vec<RecordBatch> {
    vec![
        batch((0..20).map(|n| (n % 3 != 0).then_some(n)).collect()),
        batch(vec![None; 4]),
        batch((20..40).map(Some).collect()),
        batch(vec![Some(i64::MAX), None, Some(7)]),
    ]
}

async fn written(store: &dyn DataStore, table: TableRef) -> Pin {
    let mut pin = create(store, table, Rows::new(columns(), Vec::new())).await.pin;
    for part in parts() {
        pin = append(store, table, &pin, part.into()).await.pin;
    }
    pin
}

pub(super) async fn a_projection_has_the_order_asked_for(fixture: &StoreFixture) {
    let pin = written(fixture.open_fresh().await.store.as_ref(), table()).await;
    let store = fixture.reopen().await.store;
    for names in [vec!["s", "n"], vec!["x"], vec!["n", "x", "s"], vec!["s", "x", "n"]] {
        let asked = Scan { columns: Some(names.iter().map(ToString::to_string).collect()), ..Scan::default() };
        let partitions = store.scan(&pin, &asked).await.unwrap();
        let indices: Vec<usize> = names.iter().map(|name| columns().index_of(name).unwrap()).collect();
        let wanted: Vec<RecordBatch> = parts().iter().map(|part| part.project(&indices).unwrap()).collect();
        for partition in &partitions {
            assert_eq!(partition.schema.fields(), wanted[0].schema().fields());
        }
        let batches = collect(&partitions).await.unwrap();
        assert!(batches.iter().all(|batch| batch.schema().fields() == wanted[0].schema().fields()));
        assert_eq!(texts(&batches), texts(&wanted), "{names:?}");
    }
    let none = Scan { columns: Some(Vec::new()), ..Scan::default() };
    let counted = collect(&store.scan(&pin, &none).await.unwrap()).await.unwrap();
    let total: usize = parts().iter().map(RecordBatch::num_rows).sum();
    assert_eq!(counted.iter().map(RecordBatch::num_rows).sum::<usize>(), total, "no column, but every row");
    let unknown = Scan { columns: Some(vec!["N".to_owned()]), ..Scan::default() };
    let error = refused(scan(store.as_ref(), &pin, &unknown).await, ErrorKind::InvalidInput);
    assert!(error.to_string().contains("\"N\""), "the error does not name the column: {error}");
}

fn filters() -> Vec<Filter> {
    use Comparison::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    let compare = |column: &str, op, value: ArrayRef| Filter::Compare { column: column.to_owned(), op, value };
    let mut filters = Vec::new();
    for op in [Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual] {
        for n in [-1, 0, 7, 19, 25, 1_000, i64::MAX] {
            filters.push(compare("n", op, Arc::new(Int64Array::from(vec![n]))));
        }
        for x in [0.0, -0.0, 1.5, f64::NAN, f64::INFINITY] {
            filters.push(compare("x", op, Arc::new(Float64Array::from(vec![x]))));
        }
        for s in ["", "ää", "zz"] {
            filters.push(compare("s", op, Arc::new(StringArray::from(vec![s]))));
        }
        filters.push(compare("n", op, Arc::new(Int64Array::from(vec![None]))));
    }
    let null = || Filter::IsNull("n".to_owned());
    let seven = || compare("n", Equal, Arc::new(Int64Array::from(vec![7])));
    filters.extend([
        null(),
        Filter::Not(Box::new(null())),
        Filter::Not(Box::new(seven())),
        Filter::Or(vec![null(), seven()]),
        Filter::And(vec![Filter::Not(Box::new(null())), Filter::Not(Box::new(seven()))]),
        Filter::And(Vec::new()),
        Filter::Or(Vec::new()),
        Filter::Not(Box::new(Filter::And(vec![seven(), compare("x", Less, Arc::new(Float64Array::from(vec![1.0])))]))),
    ]);
    filters
}

pub(super) async fn a_filter_is_exact(fixture: &StoreFixture) {
    let pin = written(fixture.open_fresh().await.store.as_ref(), table()).await;
    let store = fixture.reopen().await.store;
    let (mut some, mut none) = (0, 0);
    for filter in filters() {
        // What core's own evaluation passes, row by row, is what the store must yield; also of columns the filter does not name.
        let passed: Vec<RecordBatch> = parts().iter().map(|part| filter.apply(part).unwrap().project(&[2]).unwrap()).collect();
        let wanted = texts(&passed);
        for views in [false, true] {
            let asked = Scan { columns: Some(vec!["s".to_owned()]), filter: Some(filter.clone()), views, ..Scan::default() };
            let partitions = asked.converted(store.scan(&pin, &asked).await.unwrap());
            let found = collect(&partitions).await.unwrap();
            assert_eq!(texts(&found), wanted, "{filter:?}, views: {views}");
            let schemas = partitions.iter().map(|partition| partition.schema.clone()).chain(found.iter().map(RecordBatch::schema));
            assert!(schemas.into_iter().all(|schema| has_views(&schema) == views), "{filter:?}, views: {views}");
        }
        if wanted.is_empty() { none += 1 } else { some += 1 }
    }
    assert!(some > 20 && none > 5, "{some} filters pass rows, {none} do not");
    for wrong in [
        Filter::IsNull("no such column".to_owned()),
        Filter::Compare { column: "n".to_owned(), op: Comparison::Equal, value: Arc::new(StringArray::from(vec!["7"])) },
    ] {
        let asked = Scan { filter: Some(wrong), ..Scan::default() };
        refused(scan(store.as_ref(), &pin, &asked).await, ErrorKind::InvalidInput);
    }
}

/// Whatever is asked of a version that holds these rows, by a process that has read nothing yet.
async fn answers_are_exact(fixture: &StoreFixture, pin: &Pin, rows: &[RecordBatch], what: &str) {
    let store = fixture.reopen().await.store;
    for filter in filters() {
        let passed: Vec<RecordBatch> = rows.iter().map(|part| filter.apply(part).unwrap()).collect();
        let asked = Scan { filter: Some(filter.clone()), ..Scan::default() };
        let mut found = scan(store.as_ref(), pin, &asked).await.unwrap();
        let mut wanted = texts(&passed);
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "{what}: {filter:?}");
    }
}

/// Whether it covers all rows, some, or none that are left; and the versions before it stay as they were.
pub(super) async fn an_index_changes_no_answer(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let table = table();
    let before = written(store.as_ref(), table).await;
    let mut pin = before.clone();
    for column in ["n", "x", "s"] {
        match store.stage(table, Some(&pin), Change::Index(column.to_owned())).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => return,
            staged => pin = staged.unwrap().pin,
        }
        assert_ne!(pin, before);
        let again = store.stage(table, Some(&pin), Change::Index(column.to_owned())).await.unwrap();
        assert_eq!(again.pin, pin, "what an index covers needs no other");
        answers_are_exact(fixture, &pin, &parts(), column).await;
    }
    assert_eq!(read(store.as_ref(), &pin).await, read(store.as_ref(), &before).await);
    let mut rows = parts();
    let more = batch(vec![Some(7), None, Some(100)]);
    pin = append(store.as_ref(), table, &pin, more.clone().into()).await.pin;
    rows.push(more);
    answers_are_exact(fixture, &pin, &rows, "behind").await;
    let small = Filter::Compare { column: "n".to_owned(), op: Comparison::Less, value: Arc::new(Int64Array::from(vec![9])) };
    pin = store.stage(table, Some(&pin), Change::Delete(small.clone())).await.unwrap().pin;
    let large = Filter::Not(Box::new(small));
    let unknown = Filter::IsNull("n".to_owned());
    rows = rows.iter().map(|part| Filter::Or(vec![large.clone(), unknown.clone()]).apply(part).unwrap()).collect();
    answers_are_exact(fixture, &pin, &rows, "with rows gone").await;
    let optimized = store.stage(table, Some(&pin), Change::Rewrite).await.unwrap().pin;
    assert_ne!(optimized, pin);
    answers_are_exact(fixture, &optimized, &rows, "optimized").await;
    for column in ["n", "x", "s"] {
        let again = store.stage(table, Some(&optimized), Change::Index(column.to_owned())).await.unwrap();
        assert_eq!(again.pin, optimized, "an optimized table's indices cover all rows");
    }
    answers_are_exact(fixture, &before, &parts(), "before").await;
    let more = batch(vec![Some(-5), Some(8)]);
    let pin = append(store.as_ref(), table, &optimized, more.clone().into()).await.pin;
    rows.push(more);
    let indexed = store.stage(table, Some(&pin), Change::Index("n".to_owned())).await.unwrap().pin;
    assert_ne!(indexed, pin, "an index that lacks rows is not whole");
    answers_are_exact(fixture, &indexed, &rows, "one index ahead of others").await;
    let emptied = store.stage(table, Some(&indexed), Change::Overwrite(Rows::new(columns(), Vec::new()))).await.unwrap().pin;
    answers_are_exact(fixture, &emptied, &[], "emptied").await;
    let none = store.stage(table, Some(&emptied), Change::Index("n".to_owned())).await;
    let none = append(store.as_ref(), table, &none.unwrap().pin, rows[0].clone().into()).await.pin;
    answers_are_exact(fixture, &none, &rows[..1], "an index of no rows").await;
    refused(store.stage(table, Some(&none), Change::Index("no such column".to_owned())).await, ErrorKind::InvalidInput);
}

pub(super) async fn a_limit_bounds_each_partition(fixture: &StoreFixture) {
    let pin = written(fixture.open_fresh().await.store.as_ref(), table()).await;
    let store = fixture.reopen().await.store;
    let all = read(store.as_ref(), &pin).await;
    let passing = Filter::Not(Box::new(Filter::IsNull("n".to_owned())));
    let filtered = scan(store.as_ref(), &pin, &Scan { filter: Some(passing.clone()), ..Scan::default() }).await.unwrap();
    for (filter, all) in [(None, all), (Some(passing), filtered)] {
        for limit in [0, 1, 5, all.len() - 1, all.len(), all.len() + 10] {
            let asked = Scan { filter: filter.clone(), limit: Some(limit as u64), ..Scan::default() };
            let partitions = store.scan(&pin, &asked).await.unwrap();
            let mut rows = Vec::new();
            for partition in &partitions {
                let part = texts(&collect(std::slice::from_ref(partition)).await.unwrap());
                assert!(part.len() <= limit, "a partition yields {} rows, the limit is {limit}", part.len());
                rows.extend(part);
            }
            rows.truncate(limit);
            assert_eq!(rows, all[..limit.min(all.len())], "limit {limit}");
        }
    }
}

pub(super) async fn a_partition_opens_again(fixture: &StoreFixture) {
    let pin = written(fixture.open_fresh().await.store.as_ref(), table()).await;
    let partitions = fixture.reopen().await.store.scan(&pin, &Scan::default()).await.unwrap();
    drop((partitions[0].open)());
    let first = texts(&collect(&partitions).await.unwrap());
    let (second, third) = futures::join!(collect(&partitions), collect(&partitions));
    assert_eq!(first, texts(&second.unwrap()));
    assert_eq!(first, texts(&third.unwrap()));
    let known: Option<u64> = partitions.iter().map(|partition| partition.rows).sum();
    assert!(known.is_none_or(|known| known == first.len() as u64));
}

/// Rule 22, at the store: what a pin names is there in the same words however much came after it.
pub(super) async fn an_old_version_never_changes(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let table = table();
    let old = create(store.as_ref(), table, rows(0..10)).await.pin;
    let before = read(store.as_ref(), &old).await;
    let reach = store.reach(std::slice::from_ref(&old)).await.unwrap();
    let mut pin = old.clone();
    for i in 0..50 {
        pin = append(store.as_ref(), table, &pin, rows(10 + i..11 + i)).await.pin;
    }
    for store in [store, fixture.reopen().await.store] {
        assert_eq!(read(store.as_ref(), &old).await, before);
        assert_eq!(store.reach(std::slice::from_ref(&old)).await.unwrap(), reach);
        assert_eq!(read(store.as_ref(), &pin).await, expected(0..60));
    }
}
