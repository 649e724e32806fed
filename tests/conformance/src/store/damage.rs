//! Damage: whatever happens to an object a version reaches, a read says `Corrupt` and yields no wrong row.

use std::sync::Arc;

use arrow_array::Int64Array;
use headwater_core::ErrorKind;
use headwater_core::filter::{Comparison, Filter};
use headwater_core::store::{Change, Pin, Reached, Scan};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::{StoreFixture, append, create, expected, read, refused, scan, table, thinned};
use crate::fixture::OpenedStore;
use crate::rows::rows;

/// A version that reaches more than one version object and many data files, lacks some of the rows they had, and has an index.
async fn written(fixture: &StoreFixture) -> (OpenedStore, Pin, Vec<Reached>) {
    let opened = fixture.open_fresh().await;
    let table = table();
    let mut pin = create(opened.store.as_ref(), table, rows(0..5)).await.pin;
    for i in 5..45 {
        pin = append(opened.store.as_ref(), table, &pin, rows(i..i + 1)).await.pin;
    }
    pin = thinned(opened.store.as_ref(), table, pin).await;
    match opened.store.stage(table, Some(&pin), Change::Index("id".to_owned())).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => {}
        indexed => pin = indexed.unwrap().pin,
    }
    let reached = opened.store.reach(std::slice::from_ref(&pin)).await.unwrap();
    (opened, pin, reached)
}

fn from(id: i64) -> Filter {
    Filter::Compare { column: "id".to_owned(), op: Comparison::GreaterEqual, value: Arc::new(Int64Array::from(vec![id])) }
}

/// A process that has read nothing yet must find the damage, where it needs the object.
async fn is_corrupt(fixture: &StoreFixture, pin: &Pin, rows: &[String], all: &[Reached], reached: &Reached, what: &str) {
    let path = &reached.object.path;
    // A filter may need objects that no other scan needs, and the other way round.
    let mut found = 0;
    for filter in [None, Some(from(20))] {
        let wanted = if filter.is_some() { expected(20..45) } else { rows.to_vec() };
        let store = fixture.reopen().await.store;
        match scan(store.as_ref(), pin, &Scan { filter, ..Scan::default() }).await {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{path} {what}: {error:?}");
                found += 1;
            }
            Ok(other) => assert!(other == wanted, "{path} {what}, and a scan yields {} rows", other.len()),
        }
    }
    assert!(found > 0, "{path} {what}, and no scan needs it");
    if *path == pin.path {
        let error = refused(fixture.reopen().await.store.describe(pin).await, ErrorKind::Corrupt);
        assert!(error.to_string().contains(path.as_str()), "the error does not name the object: {error}");
    }
    match fixture.reopen().await.store.reach(std::slice::from_ref(pin)).await {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{path} {what}: {error:?}"),
        // What names no object is not needed to tell which there are.
        Ok(others) => assert!(*path != pin.path && others == all, "{path} {what}, and the version reaches {others:?}"),
    }
}

pub(super) async fn a_missing_object_is_corrupt(fixture: &StoreFixture) {
    let (opened, pin, reached) = written(fixture).await;
    let before = read(opened.store.as_ref(), &pin).await;
    for one in &reached {
        let path = Path::from(one.object.path.as_str());
        let bytes = opened.objects.get(&path).await.unwrap().bytes().await.unwrap();
        opened.objects.delete(&path).await.unwrap();
        is_corrupt(fixture, &pin, &before, &reached, one, "is missing").await;
        opened.objects.put(&path, bytes.into()).await.unwrap();
    }
    assert_eq!(read(fixture.reopen().await.store.as_ref(), &pin).await, before);
    // Nothing but a version object is a version.
    let nowhere = Pin { path: format!("{}x", pin.path), ..pin };
    refused(fixture.reopen().await.store.describe(&nowhere).await, ErrorKind::Corrupt);
}

pub(super) async fn a_damaged_object_is_corrupt(fixture: &StoreFixture) {
    let (opened, pin, reached) = written(fixture).await;
    let before = read(opened.store.as_ref(), &pin).await;
    // Every kind of object, and among the data files the first and the last.
    let data: Vec<&Reached> = reached.iter().filter(|reached| reached.data).collect();
    let chosen = reached.iter().filter(|reached| !reached.data).chain([data[0], data[data.len() - 1]]);
    for one in chosen {
        let path = Path::from(one.object.path.as_str());
        let bytes = opened.objects.get(&path).await.unwrap().bytes().await.unwrap().to_vec();
        let flipped = |at: usize| {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x20;
            bytes
        };
        let damages = [
            ("is empty", Vec::new()),
            ("is cut short", bytes[..bytes.len() - 1].to_vec()),
            ("is cut in half", bytes[..bytes.len() / 2].to_vec()),
            ("is too long", [&bytes[..], b" "].concat()),
            ("is twice there", bytes.repeat(2)),
            ("is zeroed", vec![0; bytes.len()]),
            ("has its first byte changed", flipped(0)),
            ("has its middle byte changed", flipped(bytes.len() / 2)),
            ("has a late byte changed", flipped(bytes.len() * 9 / 10)),
            ("has its last byte changed", flipped(bytes.len() - 1)),
        ];
        for (what, damaged) in damages {
            opened.objects.put(&path, damaged.into()).await.unwrap();
            is_corrupt(fixture, &pin, &before, &reached, one, what).await;
        }
        opened.objects.put(&path, bytes.into()).await.unwrap();
    }
    assert_eq!(read(fixture.reopen().await.store.as_ref(), &pin).await, before);
}

pub(super) async fn a_pin_that_says_otherwise_is_corrupt(fixture: &StoreFixture) {
    let (_, pin, reached) = written(fixture).await;
    let data = reached.iter().find(|reached| reached.data).unwrap();
    let wrong = [
        Pin { size: pin.size + 1, ..pin.clone() },
        Pin { id: "sha256:0000".to_owned(), ..pin.clone() },
        Pin { id: String::new(), ..pin.clone() },
        Pin { path: data.object.path.clone(), size: data.object.size, id: pin.id.clone() },
        Pin { path: "data/../../outside".to_owned(), ..pin.clone() },
        Pin { path: String::new(), ..pin.clone() },
    ];
    for wrong in wrong {
        let store = fixture.reopen().await.store;
        // Whether or not the true version has been read before.
        for store in [store.clone(), store] {
            refused(store.describe(&wrong).await, ErrorKind::Corrupt);
            refused(scan(store.as_ref(), &wrong, &Scan::default()).await, ErrorKind::Corrupt);
            read(store.as_ref(), &pin).await;
        }
    }
}
