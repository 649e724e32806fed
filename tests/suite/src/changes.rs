//! Every change of rows there is, by the catalog's users' side of it.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use headwater_conformance::lab::Lab;
use headwater_conformance::rows::{numbered, read, schema};
use headwater_core::filter::{Comparison, Filter};
use headwater_core::store::ByKey;

/// The kit lets a store leave changes out. This is for those that leave out none.
pub async fn every_change_in(lab: &Lab) {
    let catalog = lab.create().await;
    let main = catalog.branch("main").unwrap();
    let made = main.transact(|tx| async move { tx.append(&tx.create_keyed_table("t", schema(), &["id"]).await?, numbered(0..4)).await });
    made.await.unwrap();
    let less = |id: i64| Filter::Compare { column: "id".to_owned(), op: Comparison::Less, value: Arc::new(Int64Array::from(vec![id])) };
    let name: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    main.transact(|tx| async move { tx.upsert(&tx.table("t").await?, numbered(3..6)).await }).await.unwrap();
    main.transact(|tx| async move { tx.delete(&tx.table("t").await?, less(1)).await }).await.unwrap();
    let updated = main.transact(|tx| {
        let name = name.clone();
        async move { tx.update(&tx.table("t").await?, less(2), vec![("name", name)]).await }
    });
    updated.await.unwrap();
    let by_key = [
        (ByKey::INSERT, 20..21),
        (ByKey::INSERT_MISSING, 20..22),
        (ByKey::UPDATE, 20..21),
        (ByKey::UPDATE_PRESENT, 20..30),
        (ByKey::DELETE, 20..21),
        (ByKey::DELETE_PRESENT, 20..30),
    ];
    for (action, ids) in by_key {
        let changed = main.transact(|tx| {
            let rows = numbered(ids.clone());
            async move { tx.by_key(&tx.table("t").await?, action, rows).await }
        });
        assert!(changed.await.unwrap().published, "{}", action.name());
    }
    main.transact(|tx| async move { tx.append(&tx.table("t").await?, numbered(30..31)).await }).await.unwrap();
    main.transact(|tx| async move { tx.by_key(&tx.table("t").await?, ByKey::DELETE, numbered(5..6)).await }).await.unwrap();
    assert!(main.transact(|tx| async move { tx.optimize(&tx.table("t").await?).await }).await.unwrap().published);
    let mut rows = read(&main.snapshot().await.unwrap(), "t").await.unwrap();
    rows.sort();
    assert_eq!(rows, ["1|x", "2|row 2", "30|∅", "3|∅", "4|row 4"]);
}
