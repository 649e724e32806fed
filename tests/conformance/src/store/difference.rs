//! Where two versions differ. A store that cannot tell says so for any two.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::{DataType, Field};
use headwater_core::filter::{Comparison, Filter};
use headwater_core::schema::with_columns;
use headwater_core::store::{ByKey, Change, DataStore, Pin, TableRef};

use super::mutations::{by_key, named, staged};
use super::{StoreFixture, append, create, read, table};
use crate::rows::{bag, collect, numbered, rows, schema, texts};

/// More versions than any store keeps in one list, each made of the one before; those after which something else than an append came are
/// kept, and so is the one before.
async fn versions(store: &dyn DataStore, table: TableRef) -> Vec<Pin> {
    let mut pins = vec![create(store, table, rows(0..3)).await.pin];
    for id in 0..70 {
        let last = pins.last().unwrap().clone();
        let appended = append(store, table, &last, rows(10 + id..11 + id)).await.pin;
        if id % 23 > 1 {
            pins.pop();
        }
        pins.push(appended);
    }
    let few = Filter::Compare { column: "id".to_owned(), op: Comparison::Less, value: Arc::new(Int64Array::from(vec![12])) };
    let name: ArrayRef = Arc::new(arrow_array::StringArray::from(vec!["other"]));
    let wide = with_columns(&schema(), &[Field::new("size", DataType::Float64, true)]).unwrap();
    for change in [
        by_key(ByKey::UPSERT, named(&[(20, "twenty"), (200, "new"), (79, "last")]).into()),
        Change::Update { filter: few.clone(), set: vec![("name".to_owned(), name)] },
        Change::Delete(few),
        Change::Overwrite(rows(0..50)),
        Change::Append(rows(50..55)),
        Change::Rewrite,
        Change::AddColumns(wide.clone()),
    ] {
        let last = pins.last().unwrap().clone();
        if let Some(made) = staged(store, table, &last, change).await {
            pins.push(made.unwrap().pin);
        }
    }
    let last = pins.last().unwrap().clone();
    let sizes: ArrayRef = Arc::new(arrow_array::Float64Array::from(vec![Some(1.0), None]));
    let columns = numbered(90..92).columns().iter().cloned().chain([sizes]).collect();
    let batch = arrow_array::RecordBatch::try_new(wide, columns).unwrap();
    pins.push(append(store, table, &last, batch.into()).await.pin);
    pins
}

pub(super) async fn what_two_versions_do_not_share_makes_the_one_of_the_other(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let pins = versions(store.as_ref(), table()).await;
    let mut all = Vec::new();
    for pin in &pins {
        // As in the widest schema.
        let fields = store.describe(pin).await.unwrap().schema.fields().len();
        all.push(read(store.as_ref(), pin).await.into_iter().map(|row| row + &"|∅".repeat(3 - fields)).collect::<Vec<_>>());
    }
    let store = fixture.reopen().await.store;
    let (mut told, mut less) = (0, 0);
    for (was, (before, old)) in pins.iter().zip(&all).enumerate() {
        for (is, (after, new)) in pins.iter().zip(&all).enumerate().skip(was) {
            let Some(difference) = store.difference(before, after).await.unwrap() else { continue };
            told += 1;
            let pad = |partitions: &[_], rows: Vec<String>| {
                let fields = partitions.first().map_or(3, |partition: &headwater_core::store::Partition| partition.schema.fields().len());
                rows.into_iter().map(|row| row + &"|∅".repeat(3 - fields)).collect::<Vec<_>>()
            };
            let removed = pad(&difference.removed, texts(&collect(&difference.removed).await.unwrap()));
            let added = pad(&difference.added, texts(&collect(&difference.added).await.unwrap()));
            let cell = format!("versions {was} and {is}");
            let without = |rows: &[String], some: &[String]| {
                let mut rows = bag(rows);
                for row in some {
                    let left = rows.get_mut(row).filter(|left| **left > 0).unwrap_or_else(|| panic!("{cell}: {row} is not in the version"));
                    *left -= 1;
                }
                rows.retain(|_, left| *left > 0);
                rows
            };
            assert_eq!(without(old, &removed), without(new, &added), "{cell}");
            assert!(was != is || (removed.is_empty() && added.is_empty()), "a version differs from itself");
            less += usize::from(removed.len() + added.len() < old.len() + new.len());
        }
    }
    let pairs = pins.len() * (pins.len() + 1) / 2;
    assert!(told == 0 || (told == pairs && less > pins.len()), "of {pairs} pairs {told} are told, {less} of them with less than all rows");
}
