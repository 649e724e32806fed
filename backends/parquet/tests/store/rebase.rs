//! An append on another base than the one it was staged on.

use std::sync::Arc;

use arrow_schema::{DataType, Field};
use futures::future::join_all;
use headwater_core::schema::with_columns;
use headwater_core::store::{Change, DataStore};

use crate::fixture::{Fixture, all, batch, rows, schema};

#[tokio::test]
async fn a_rebase_reuses_the_files_and_is_one_request() {
    let fixture = Fixture::new();
    let base = fixture.create(batch(0..10)).await;
    let ours = fixture.append(&base.pin, batch(10..20)).await;
    let theirs = fixture.append(&base.pin, batch(90..95)).await;
    fixture.objects.take();
    let both = fixture.store.rebase(fixture.table, &ours, &theirs.pin).await.unwrap().unwrap();
    let cost = fixture.objects.take();
    assert_eq!((cost.requests.len(), cost.count("PUT", ".version.json")), (1, 1), "{cost:?}");
    assert_eq!((both.rows, both.changed, &both.content), (25, 10, &ours.content));
    assert_eq!(all(&fixture.store, &both.pin).await.slice(15, 10), batch(10..20));

    // On a base this process has not seen: read it first.
    let elsewhere = fixture.cold();
    let further = elsewhere.stage(fixture.table, Some(&both.pin), Change::Append(rows(batch(95..97)))).await.unwrap();
    fixture.objects.take();
    let third = fixture.append(&base.pin, batch(20..25)).await;
    fixture.objects.take();
    let all_three = fixture.store.rebase(fixture.table, &third, &further.pin).await.unwrap().unwrap();
    let cost = fixture.objects.take();
    assert_eq!((cost.count("GET", ""), cost.count("PUT", "")), (1, 1));
    assert_eq!(all(&fixture.store, &all_three.pin).await.num_rows(), 32);
    // Rows the base holds already are not added again.
    let error = fixture.store.rebase(fixture.table, &ours, &further.pin).await.unwrap_err();
    assert_eq!(error.kind(), headwater_core::ErrorKind::InvalidInput);
    assert_eq!(fixture.objects.take().count("PUT", ""), 0);
}

#[tokio::test]
async fn many_writers_rebase_one_after_the_other_and_lose_nothing() {
    let fixture = Fixture::new();
    let base = fixture.create(batch(0..0)).await;
    let staged = join_all((0..70).map(|writer| fixture.append(&base.pin, batch(writer * 10..writer * 10 + 10)))).await;
    let mut head = base.pin;
    for (writer, staged) in staged.iter().enumerate() {
        head = fixture.store.rebase(fixture.table, staged, &head).await.unwrap().unwrap().pin;
        assert_eq!(fixture.store.describe(&head).await.unwrap().rows, (writer as u64 + 1) * 10);
    }
    assert_eq!(all(&fixture.cold(), &head).await, batch(0..700));
}

#[tokio::test]
async fn what_cannot_be_rebased_is_staged_again() {
    let fixture = Fixture::new();
    let base = fixture.create(batch(0..10)).await;
    let append = fixture.append(&base.pin, batch(10..20)).await;
    // Not an append, a foreign carry, and a schema that moved on.
    assert!(fixture.store.rebase(fixture.table, &base, &append.pin).await.unwrap().is_none());
    let mut foreign = append.clone();
    foreign.carry = Some(Arc::new("foreign"));
    assert!(fixture.store.rebase(fixture.table, &foreign, &base.pin).await.unwrap().is_none());
    let wider = with_columns(&schema(), &[Field::new("added", DataType::Int32, true)]).unwrap();
    let altered = fixture.store.stage(fixture.table, Some(&base.pin), Change::AddColumns(wider)).await.unwrap();
    assert!(fixture.store.rebase(fixture.table, &append, &altered.pin).await.unwrap().is_none());
    // An append of nothing follows its base.
    let nothing = fixture.append(&base.pin, batch(0..0)).await;
    let moved = fixture.store.rebase(fixture.table, &nothing, &append.pin).await.unwrap().unwrap();
    assert_eq!((moved.pin, moved.rows), (append.pin, 20));
}
