//! Objects: what a version reaches, what a list shows, what a reclaim takes.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use headwater_core::ids::Incarnation;
use headwater_core::json::sha256;
use headwater_core::store::{Change, DataStore, Durability, Object, Pin, Reached, Rows, TableRef};
use headwater_core::{Error, ErrorKind};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::{StoreFixture, append, create, expected, mint, read, table, thinned};
use crate::fixture::OpenedStore;
use crate::rows::{numbered, rows, schema};

/// A table of many versions; each reaches objects of those before it.
async fn versions(store: &dyn DataStore, table: TableRef) -> Vec<Pin> {
    let mut pins = vec![create(store, table, rows(0..5)).await.pin];
    for i in 5..40 {
        pins.push(append(store, table, pins.last().unwrap(), rows(i..i + 1)).await.pin);
    }
    pins.push(thinned(store, table, pins.last().unwrap().clone()).await);
    pins
}

fn paths(reached: &[Reached]) -> BTreeSet<&str> {
    let paths: BTreeSet<&str> = reached.iter().map(|reached| reached.object.path.as_str()).collect();
    assert_eq!(paths.len(), reached.len(), "each object once");
    paths
}

pub(super) async fn what_a_version_reaches_is_listed_once_and_exact(fixture: &StoreFixture) {
    let OpenedStore { store, objects } = fixture.open_fresh().await;
    let pins = versions(store.as_ref(), table()).await;
    for store in [store, fixture.reopen().await.store] {
        let listed: BTreeMap<String, u64> = store.list().await.unwrap().into_iter().map(|object| (object.path, object.size)).collect();
        let (first, last) = (store.reach(&pins[..1]).await.unwrap(), store.reach(&pins[pins.len() - 1..]).await.unwrap());
        let all = store.reach(&pins).await.unwrap();
        assert!(paths(&first).contains(pins[0].path.as_str()), "a pin reaches itself");
        assert!(paths(&all).is_superset(&paths(&first)) && paths(&all).is_superset(&paths(&last)));
        let twice = store.reach(&[pins[0].clone(), pins[0].clone()]).await.unwrap();
        assert_eq!(paths(&twice), paths(&first));
        assert!(all.iter().any(|reached| reached.data), "rows are somewhere");
        for Reached { object: Object { path, size }, digest, .. } in &all {
            assert_eq!(listed.get(path), Some(size), "{path}");
            let bytes = objects.get(&Path::from(path.as_str())).await.unwrap().bytes().await.unwrap();
            assert_eq!(bytes.len() as u64, *size, "{path}");
            assert!(digest.as_ref().is_none_or(|digest| *digest == sha256(&bytes)), "{path}");
        }
        assert_eq!(store.reach(&[]).await.unwrap(), []);
    }
    // Nothing else is needed.
    let store = fixture.reopen().await.store;
    let last = &pins[pins.len() - 1..];
    let (before, needed) = (read(store.as_ref(), &last[0]).await, store.reach(last).await.unwrap());
    let all = store.list().await.unwrap().into_iter().map(|object| object.path);
    store.reclaim(all.filter(|path| !paths(&needed).contains(path.as_str())).collect()).await.unwrap();
    assert_eq!(read(fixture.reopen().await.store.as_ref(), &last[0]).await, before);
}

pub(super) async fn a_life_shares_no_object_with_another(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let first = table();
    let second = TableRef { incarnation: Incarnation(mint().ulid()), ..first };
    let (a, b) = (create(store.as_ref(), first, rows(0..3)).await, create(store.as_ref(), second, rows(0..3)).await);
    let a = store.reach(&[a.pin]).await.unwrap();
    let b = store.reach(&[b.pin]).await.unwrap();
    assert!(paths(&a).is_disjoint(&paths(&b)));
    for (reached, table) in [(&a, first), (&b, second)] {
        assert!(paths(reached).iter().all(|path| path.starts_with(&table.folder())), "objects stand in their table's folder");
    }
}

pub(super) async fn reclaiming_takes_just_what_is_named(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let (kept, gone) = (create(store.as_ref(), table(), rows(0..4)).await, create(store.as_ref(), table(), rows(4..8)).await);
    let names: Vec<String> = store.reach(&[gone.pin]).await.unwrap().into_iter().map(|reached| reached.object.path).collect();
    let before = store.list().await.unwrap().len();
    assert!(!names.is_empty() && names.len() < before);
    store.reclaim(names.clone()).await.unwrap();
    assert_eq!(store.list().await.unwrap().len(), before - names.len());
    store.reclaim(names.clone()).await.unwrap();
    store.reclaim([names.clone(), names].concat()).await.unwrap();
    store.reclaim(Vec::new()).await.unwrap();
    assert_eq!(read(fixture.reopen().await.store.as_ref(), &kept.pin).await, expected(0..4));
}

/// Everything that can be reached from these pins, now.
async fn reachable(store: &dyn DataStore, pins: &[Pin]) -> BTreeSet<String> {
    store.reach(pins).await.unwrap().into_iter().map(|reached| reached.object.path).collect()
}

pub(super) async fn a_failed_row_stream_leaves_nothing_reachable(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let known = table();
    let base = create(store.as_ref(), known, rows(0..3)).await.pin;
    let before = reachable(store.as_ref(), std::slice::from_ref(&base)).await;
    // The failure comes first, after a batch, after many.
    for batches in [0, 1, 200] {
        let failing = || Rows {
            schema: schema(),
            batches: futures::stream::iter((0..batches).map(|i| Ok(numbered(i * 100..i * 100 + 100))))
                .chain(futures::stream::iter([Err(Error::new(ErrorKind::InvalidInput, "line 17 is torn").at("file", "rows.csv"))]))
                .boxed(),
        };
        for (table, base, change) in [
            (table(), None, Change::Create(failing())),
            (known, Some(&base), Change::Append(failing())),
            (known, Some(&base), Change::Overwrite(failing())),
        ] {
            let name = change.name();
            let error = store.stage(table, base, change).await.expect_err("the rows are torn");
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name}: {error:?}");
            assert!(error.to_string().contains("line 17 is torn") && error.context("file") == Some("rows.csv"), "{name}: {error}");
        }
    }
    assert_eq!(reachable(store.as_ref(), std::slice::from_ref(&base)).await, before);
    for store in [store, fixture.reopen().await.store] {
        assert_eq!(read(store.as_ref(), &base).await, expected(0..3));
    }
    let next = append(fixture.reopen().await.store.as_ref(), known, &base, rows(3..4)).await;
    assert_eq!(read(fixture.reopen().await.store.as_ref(), &next.pin).await, expected(0..4));
}

pub(super) async fn a_flush_makes_what_was_staged_durable(fixture: &StoreFixture) {
    let store = fixture.open_fresh().await.store;
    let table = table();
    let staged = create(store.as_ref(), table, rows(0..3)).await;
    if staged.durability == Durability::Staged {
        store.flush().await.unwrap();
    }
    assert_eq!(read(fixture.reopen().await.store.as_ref(), &staged.pin).await, expected(0..3), "another process reads what is durable");
    store.flush().await.unwrap();
}
