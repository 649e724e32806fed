//! Changes of rows, by key and by a condition. A store that does not do one says so and writes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field};
use headwater_core::filter::{Comparison, Filter};
use headwater_core::store::{Absent, ByKey, Change, DataStore, Pin, Present, Rows, Scan, Staged, TableRef};
use headwater_core::{Error, ErrorKind, Result};

use super::{StoreFixture, append, create, expected, read, refused, scan, table};
use crate::rows::{ids, rows, schema};

/// A table of three versions, each with rows of its own: what is there is in more than one file.
async fn base(store: &dyn DataStore, table: TableRef) -> Staged {
    let base = create(store, table, rows(0..4)).await;
    let base = append(store, table, &base.pin, rows(4..8)).await;
    append(store, table, &base.pin, rows(8..12)).await
}

/// `None` where the store does not do it, which must be without a trace.
pub(super) async fn staged(store: &dyn DataStore, table: TableRef, base: &Pin, change: Change) -> Option<Result<Staged>> {
    let before = store.list().await.unwrap().len();
    match store.stage(table, Some(base), change).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            assert_eq!(store.list().await.unwrap().len(), before, "what is not supported writes nothing");
            None
        }
        other => Some(other),
    }
}

pub(super) fn named(rows: &[(i64, &str)]) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|(id, _)| *id)));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|(_, name)| *name)));
    RecordBatch::try_new(schema(), vec![ids, names]).unwrap()
}

pub(super) fn by_key(action: ByKey, rows: Rows) -> Change {
    Change::ByKey { key: vec!["id".to_owned()], action, rows }
}

const ACTIONS: [ByKey; 7] =
    [ByKey::INSERT, ByKey::INSERT_MISSING, ByKey::UPSERT, ByKey::UPDATE, ByKey::UPDATE_PRESENT, ByKey::DELETE, ByKey::DELETE_PRESENT];

/// What a table of rows by key becomes, or the key that is refused.
fn model(action: ByKey, table: &[String], incoming: &[(i64, &str)]) -> Result<Vec<String>, (ErrorKind, i64)> {
    let mut new: BTreeMap<i64, String> = table.iter().map(|row| (ids(std::slice::from_ref(row))[0], row.clone())).collect();
    for (id, name) in incoming {
        match (new.contains_key(id), action.present, action.absent) {
            (true, Present::Refuse, _) => return Err((ErrorKind::AlreadyExists, *id)),
            (false, _, Absent::Refuse) => return Err((ErrorKind::NotFound, *id)),
            (true, Present::Keep, _) | (false, _, Absent::Ignore) => {}
            (true, Present::Remove, _) => drop(new.remove(id)),
            (true, Present::Replace, _) | (false, _, Absent::Add) => drop(new.insert(*id, format!("{id}|{name}"))),
        }
    }
    Ok(new.into_values().collect())
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort_by_key(|row| ids(std::slice::from_ref(row))[0]);
    rows
}

pub(super) async fn by_key_every_action_meets_every_key(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let table = table();
    let base = base(store.as_ref(), table).await;
    let incoming: [&[(i64, &str)]; 5] = [
        &[(2, "two"), (9, "nine")],
        &[(20, "new"), (-1, "new too")],
        &[(5, "five"), (30, "new")],
        &[(0, "a"), (1, "b"), (2, "c"), (3, "d")],
        &[],
    ];
    for action in ACTIONS {
        for rows in incoming {
            let cell = format!("{} {rows:?}", action.name());
            let Some(outcome) = staged(store.as_ref(), table, &base.pin, by_key(action, named(rows).into())).await else { return };
            match (model(action, &expected(0..12), rows), outcome) {
                (Ok(wanted), Ok(staged)) => {
                    let found = read(fixture.reopen().await.store.as_ref(), &staged.pin).await;
                    assert_eq!(sorted(found), wanted, "{cell}");
                    assert_eq!(staged.rows, wanted.len() as u64, "{cell}");
                    assert_eq!(staged.pin == base.pin, wanted == expected(0..12), "{cell}: the base's pin means no change");
                }
                (Err((kind, key)), Err(error)) => {
                    assert_eq!(error.kind(), kind, "{cell}");
                    assert!(error.to_string().contains(&format!("id = {key}")), "{cell}: {error}");
                }
                (wanted, outcome) => panic!("{cell}: {outcome:?} instead of {wanted:?}"),
            }
        }
    }
    assert_eq!(read(fixture.reopen().await.store.as_ref(), &base.pin).await, expected(0..12));
}

pub(super) async fn two_rows_of_one_key_are_refused(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let table = table();
    let base = base(store.as_ref(), table).await;
    for action in ACTIONS {
        let doubled = Rows::new(schema(), vec![named(&[(7, "a")]), named(&[(40, "b"), (7, "c")])]);
        let Some(outcome) = staged(store.as_ref(), table, &base.pin, by_key(action, doubled)).await else { return };
        let error: Error = refused(outcome, ErrorKind::InvalidInput);
        assert!(error.to_string().contains("id = 7"), "{error}");
    }
}

fn compare(op: Comparison, id: i64) -> Filter {
    Filter::Compare { column: "id".to_owned(), op, value: Arc::new(Int64Array::from(vec![id])) }
}

pub(super) async fn a_condition_picks_the_rows_that_change(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let table = table();
    let base = base(store.as_ref(), table).await;
    let name: ArrayRef = Arc::new(StringArray::from(vec!["row 5"]));
    // With a null in it a comparison is not true, and so is its negation.
    let five = Filter::Compare { column: "name".to_owned(), op: Comparison::Equal, value: name };
    let cases: [(Filter, Vec<i64>); 8] = [
        (compare(Comparison::Less, 2), vec![0, 1]),
        (compare(Comparison::GreaterEqual, 4), (4..12).collect()),
        (compare(Comparison::Equal, 100), vec![]),
        (Filter::And(vec![]), (0..12).collect()),
        (Filter::Or(vec![]), vec![]),
        (Filter::IsNull("name".to_owned()), vec![0, 3, 6, 9]),
        (five.clone(), vec![5]),
        (Filter::Not(Box::new(five)), vec![1, 2, 4, 7, 8, 10, 11]),
    ];
    for (filter, hit) in cases {
        let kept: Vec<String> = expected(0..12).into_iter().filter(|row| !hit.contains(&ids(std::slice::from_ref(row))[0])).collect();
        if let Some(outcome) = staged(store.as_ref(), table, &base.pin, Change::Delete(filter.clone())).await {
            let staged = outcome.unwrap();
            assert_eq!(read(fixture.reopen().await.store.as_ref(), &staged.pin).await, kept, "delete {filter}");
            assert_eq!((staged.rows, staged.changed), (kept.len() as u64, hit.len() as u64), "delete {filter}");
            assert_eq!(staged.pin == base.pin, hit.is_empty(), "delete {filter}");
        }
        for value in [Some("changed"), None] {
            let set = vec![("name".to_owned(), Arc::new(StringArray::from(vec![value])) as ArrayRef)];
            let change = Change::Update { filter: filter.clone(), set };
            let Some(outcome) = staged(store.as_ref(), table, &base.pin, change).await else { continue };
            let staged = outcome.unwrap();
            let changed = |row: String| {
                let id = ids(std::slice::from_ref(&row))[0];
                if hit.contains(&id) { format!("{id}|{}", value.unwrap_or("∅")) } else { row }
            };
            let wanted: Vec<String> = expected(0..12).into_iter().map(changed).collect();
            // A store may write changed rows at the end.
            assert_eq!(sorted(read(fixture.reopen().await.store.as_ref(), &staged.pin).await), wanted, "update {filter}");
            assert_eq!((staged.rows, staged.changed), (12, hit.len() as u64), "update {filter}");
        }
    }
}

/// Rows are found wherever they are, after however many versions, and what follows stands on what was changed.
pub(super) async fn changes_reach_rows_of_any_age(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let table = table();
    let mut version = create(store.as_ref(), table, rows(0..1)).await;
    for id in 1..100 {
        version = append(store.as_ref(), table, &version.pin, rows(id..id + 1)).await;
    }
    let mut wanted = expected(0..100);
    for (i, ids) in [[3_i64, 50, 99], [4, 5, 40], [97, 98, 0], [60, 61, 62], [33, 31, 32]].into_iter().enumerate() {
        let gone = named(&ids.map(|id| (id, "")));
        let Some(outcome) = staged(store.as_ref(), table, &version.pin, by_key(ByKey::DELETE, gone.into())).await else { return };
        version = outcome.unwrap();
        let new = 200 + i as i64;
        version = append(store.as_ref(), table, &version.pin, rows(new..new + 1)).await;
        wanted.retain(|row| !ids.contains(&self::ids(std::slice::from_ref(row))[0]));
        wanted.extend(expected(new..new + 1));
        assert_eq!(read(fixture.reopen().await.store.as_ref(), &version.pin).await, wanted);
    }
    let reached = store.reach(std::slice::from_ref(&version.pin)).await.unwrap();
    let listed: Vec<String> = store.list().await.unwrap().into_iter().map(|object| object.path).collect();
    assert!(reached.iter().all(|reached| listed.contains(&reached.object.path)));
    let update = Change::Update { filter: Filter::And(vec![]), set: vec![("name".to_owned(), Arc::new(StringArray::from(vec!["x"])))] };
    if let Some(all) = staged(store.as_ref(), table, &version.pin, update).await {
        let found = sorted(read(fixture.reopen().await.store.as_ref(), &all.unwrap().pin).await);
        assert!(found.len() == wanted.len() && found.iter().all(|row| row.ends_with("|x")));
    }
}

/// A change, and what the table's rows, as text, become by it.
type Step = (&'static str, fn() -> Change, fn(Vec<String>) -> Vec<String>);

/// The rows without those of these ids.
fn lacking(mut rows: Vec<String>, ids: std::ops::Range<i64>) -> Vec<String> {
    rows.retain(|row| !ids.contains(&self::ids(std::slice::from_ref(row))[0]));
    rows
}

const STEPS: [Step; 7] = [
    ("append", || Change::Append(rows(20..22)), |rows| [rows, expected(20..22)].concat()),
    ("delete", || Change::Delete(compare(Comparison::Less, 3)), |rows| lacking(rows, 0..3)),
    ("upsert", || by_key(ByKey::UPSERT, rows(5..7)), |rows| [lacking(rows, 5..7), expected(5..7)].concat()),
    ("delete most", || Change::Delete(compare(Comparison::Less, 11)), |rows| lacking(rows, 0..11)),
    ("index", || Change::Index("id".to_owned()), |rows| rows),
    ("optimize", || Change::Rewrite, |rows| rows),
    ("overwrite", || Change::Overwrite(rows(8..10)), |_| expected(8..10)),
];

/// Three changes in a row, then a rebase onto them, and more columns: whatever a store keeps beside its rows, it keeps right.
pub(super) async fn every_change_stands_on_every_other(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let table = table();
    let base = base(store.as_ref(), table).await;
    let appended = append(store.as_ref(), table, &base.pin, rows(30..32)).await;
    let wide = headwater_core::schema::with_columns(&schema(), &[Field::new("size", DataType::Int64, true)]).unwrap();
    for (first, second) in STEPS.iter().flat_map(|first| STEPS.iter().map(move |second| (first, second))) {
        let (mut pin, mut wanted) = (base.pin.clone(), expected(0..12));
        let mut done = Vec::new();
        for (name, change, model) in [first, second, &STEPS[5]] {
            let Some(outcome) = staged(store.as_ref(), table, &pin, change()).await else { continue };
            (pin, wanted) = (outcome.unwrap().pin, model(wanted));
            done.push(*name);
            let store = fixture.reopen().await.store;
            assert_eq!(read(store.as_ref(), &pin).await, wanted, "{done:?}");
            let few = Scan { filter: Some(compare(Comparison::GreaterEqual, 6)), ..Scan::default() };
            assert_eq!(scan(store.as_ref(), &pin, &few).await.unwrap(), lacking(wanted.clone(), 0..6), "by a filter, {done:?}");
        }
        if let Some(rebased) = store.rebase(table, &appended, &pin).await.unwrap() {
            let all = [wanted.clone(), expected(30..32)].concat();
            assert_eq!(read(fixture.reopen().await.store.as_ref(), &rebased.pin).await, all, "rebased on {done:?}");
        }
        let added = store.stage(table, Some(&pin), Change::AddColumns(wide.clone())).await.unwrap();
        let all: Vec<String> = wanted.iter().map(|row| format!("{row}|∅")).collect();
        assert_eq!(read(fixture.reopen().await.store.as_ref(), &added.pin).await, all, "more columns on {done:?}");
    }
}

pub(super) async fn an_optimized_table_holds_the_same_rows(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let table = table();
    let mut version = create(store.as_ref(), table, rows(0..3)).await;
    for id in 3..80 {
        version = append(store.as_ref(), table, &version.pin, rows(id..id + 1)).await;
    }
    let Some(optimized) = staged(store.as_ref(), table, &version.pin, Change::Rewrite).await else { return };
    let optimized = optimized.unwrap();
    assert_eq!((optimized.rows, optimized.changed), (80, 0));
    assert_eq!(read(fixture.reopen().await.store.as_ref(), &optimized.pin).await, expected(0..80));
    let files = |pin: Pin| {
        let store = store.clone();
        async move { store.describe(&pin).await.unwrap().files }
    };
    assert!(files(optimized.pin.clone()).await < files(version.pin.clone()).await / 4);
    let objects = async |pin: &Pin| store.reach(std::slice::from_ref(pin)).await.unwrap().len();
    assert!(objects(&optimized.pin).await < objects(&version.pin).await / 4);
    // What is done is done; what comes after stands on it.
    let again = staged(store.as_ref(), table, &optimized.pin, Change::Rewrite).await.unwrap().unwrap();
    assert_eq!(again.pin, optimized.pin);
    let appended = append(store.as_ref(), table, &optimized.pin, rows(80..82)).await;
    assert_eq!(read(fixture.reopen().await.store.as_ref(), &appended.pin).await, expected(0..82));
    assert_eq!(read(fixture.reopen().await.store.as_ref(), &version.pin).await, expected(0..80));
    let empty = create(store.as_ref(), super::table(), rows(0..0)).await;
    let same = store.stage(table, Some(&empty.pin), Change::Rewrite).await;
    refused(same, ErrorKind::InvalidInput);
}

pub(super) async fn a_retry_of_a_change_has_the_same_content(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let table = table();
    let base = base(store.as_ref(), table).await;
    let same = |name: &'static str| by_key(ByKey::UPSERT, named(&[(3, name), (50, "x")]).into());
    let Some(first) = staged(store.as_ref(), table, &base.pin, same("a")).await else { return };
    let (first, again, other) = (first.unwrap(), staged(store.as_ref(), table, &base.pin, same("a")).await, same("b"));
    assert_eq!(again.unwrap().unwrap().content, first.content);
    assert_ne!(staged(store.as_ref(), table, &base.pin, other).await.unwrap().unwrap().content, first.content);
    let mut contents: Vec<String> = Vec::new();
    for id in [3, 4] {
        contents.extend(
            staged(store.as_ref(), table, &base.pin, Change::Delete(compare(Comparison::Less, id)))
                .await
                .map(|staged| staged.unwrap().content),
        );
        let keys = named(&[(id, "")]);
        contents.extend(
            staged(store.as_ref(), table, &base.pin, by_key(ByKey::DELETE, keys.into())).await.map(|staged| staged.unwrap().content),
        );
    }
    let number = contents.len();
    contents.sort_unstable();
    contents.dedup();
    assert_eq!(contents.len(), number, "different requests have different contents");
}
