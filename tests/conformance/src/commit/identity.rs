//! Identities: a name is not a table, and a table may have several lives.

use arrow_schema::{DataType, Field, Schema};
use headwater_core::{At, ErrorKind};

use super::{append, create, drop_table, ids, refused, rename};
use crate::lab::{Lab, main};
use crate::rows::{numbered, schema};

pub(super) async fn a_rename_keeps_the_table(lab: &Lab) {
    let branch = main(&lab.create().await);
    create(&branch, "t", 0..3).await;
    let before = branch.snapshot().await.unwrap();
    let old = before.table("t").unwrap().clone();
    // Of names that differ in case, or in how an accent is written, each is another.
    for (from, to) in [("t", "T"), ("T", "\u{e4}"), ("\u{e4}", "a\u{308}"), ("a\u{308}", "100% \"new\"")] {
        rename(&lab.main().await, from, to).await.unwrap();
        let after = lab.main().await.snapshot().await.unwrap();
        let new = after.table(to).unwrap();
        let kept = |head: &headwater_core::head::TableHead| (head.table_id, head.incarnation_id, head.pin.clone(), head.rows);
        assert_eq!(kept(new), kept(&old));
        refused(after.table(from).cloned(), ErrorKind::NotFound);
        assert_eq!(ids(&after, to).await, [0, 1, 2]);
    }
    append(&lab.main().await, "100% \"new\"", 3..4).await.unwrap();
    let after = lab.main().await.snapshot().await.unwrap();
    assert_eq!(ids(&after, "100% \"new\"").await, [0, 1, 2, 3]);
    assert_eq!(ids(&after.at(At::Seq(1)).await.unwrap(), "t").await, [0, 1, 2], "history has the old name");
    refused(rename(&branch, "t", "u").await, ErrorKind::NotFound);
    create(&branch, "t", 7..8).await;
    refused(rename(&branch, "t", "100% \"new\"").await, ErrorKind::AlreadyExists);
    let now = lab.main().await.snapshot().await.unwrap();
    assert_ne!(now.table("t").unwrap().table_id, old.table_id);
}

pub(super) async fn a_dropped_name_that_is_created_again_is_another_table(lab: &Lab) {
    let branch = main(&lab.create().await);
    create(&branch, "t", 0..3).await;
    let old = branch.snapshot().await.unwrap();
    drop_table(&lab.main().await, "t").await.unwrap();
    let gone = lab.main().await.snapshot().await.unwrap();
    refused(gone.table("t").cloned(), ErrorKind::NotFound);
    refused(append(&branch, "t", 3..4).await, ErrorKind::NotFound);
    create(&lab.main().await, "t", 10..12).await;
    let new = lab.main().await.snapshot().await.unwrap();
    let (before, after) = (old.table("t").unwrap(), new.table("t").unwrap());
    assert_ne!(before.table_id, after.table_id);
    assert_ne!(before.incarnation_id, after.incarnation_id);
    assert_eq!(ids(&new, "t").await, [10, 11]);
    let tombstones = new.tombstones().await.unwrap();
    assert_eq!(tombstones.iter().map(|head| head.table_id).collect::<Vec<_>>(), [before.table_id]);
    assert_eq!(ids(&old, "t").await, [0, 1, 2], "a snapshot outlives the drop");
    assert_eq!(ids(&new.at(At::Seq(1)).await.unwrap(), "t").await, [0, 1, 2]);
    refused(new.at(At::Seq(2)).await.unwrap().table("t").cloned(), ErrorKind::NotFound);
}

pub(super) async fn a_recreated_table_begins_a_new_life(lab: &Lab) {
    let branch = main(&lab.create().await);
    create(&branch, "t", 0..3).await;
    let first = branch.snapshot().await.unwrap().table("t").unwrap().clone();
    let mut lives = vec![first.incarnation_id];
    for round in 0..3 {
        drop_table(&lab.main().await, "t").await.unwrap();
        let wide = Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("size", DataType::Float64, true)]);
        let other = (round == 2).then(|| std::sync::Arc::new(wide));
        let recreate = lab.main().await;
        let recreate = recreate.transact(|tx| {
            let other = other.clone();
            async move { tx.recreate_table("t", other).await.map(drop) }
        });
        recreate.await.unwrap();
        let snapshot = lab.main().await.snapshot().await.unwrap();
        let head = snapshot.table("t").unwrap();
        assert_eq!((head.table_id, head.rows), (first.table_id, 0), "the same identity, and nothing of its old rows");
        assert!(!lives.contains(&head.incarnation_id), "a new life");
        assert_eq!(head.schema_hash == first.schema_hash, round < 2);
        assert_eq!(snapshot.tombstones().await.unwrap().len(), 0);
        lives.push(head.incarnation_id);
        if round < 2 {
            append(&lab.main().await, "t", 20..22).await.unwrap();
            assert_eq!(ids(&lab.main().await.snapshot().await.unwrap(), "t").await, [20, 21]);
        }
    }
    // The name decides which dropped table comes back: the last one that had it.
    create(&branch, "u", 0..1).await;
    let second = branch.snapshot().await.unwrap().table("u").unwrap().table_id;
    rename(&branch, "u", "v").await.unwrap();
    drop_table(&branch, "v").await.unwrap();
    let recreate = |key: &'static str| branch.transact(move |tx| async move { tx.recreate_table(key, None).await.map(drop) });
    refused(recreate("u").await, ErrorKind::NotFound);
    recreate("v").await.unwrap();
    assert_eq!(lab.main().await.snapshot().await.unwrap().table("v").unwrap().table_id, second);
}

pub(super) async fn nothing_resurrects_a_dropped_table(lab: &Lab) {
    let branch = main(&lab.create().await);
    create(&branch, "t", 0..3).await;
    let life = branch.snapshot().await.unwrap().table("t").unwrap().incarnation_id;
    // Writers whose closures began while the table was there, in another process each.
    let other = lab.main().await;
    let dropped = std::sync::atomic::AtomicBool::new(false);
    let late = branch.transact(|tx| {
        let (other, dropped) = (&other, &dropped);
        async move {
            let table = tx.table("t").await?;
            if !dropped.swap(true, std::sync::atomic::Ordering::SeqCst) {
                drop_table(other, "t").await?;
            }
            tx.append(&table, numbered(3..4)).await
        }
    });
    refused(late.await, ErrorKind::NotFound);
    other.transact(|tx| async move { tx.recreate_table("t", Some(schema())).await.map(drop) }).await.unwrap();
    branch.snapshot().await.unwrap();
    let dropped = std::sync::atomic::AtomicBool::new(false);
    let late = branch.transact(|tx| {
        let (other, dropped) = (&other, &dropped);
        async move {
            let table = tx.table("t").await?;
            if !dropped.swap(true, std::sync::atomic::Ordering::SeqCst) {
                drop_table(other, "t").await?;
                other.transact(|tx| async move { tx.recreate_table("t", None).await.map(drop) }).await?;
            }
            tx.append(&table, numbered(3..4)).await
        }
    });
    // The closure ran again, on the new life.
    assert_eq!(late.await.unwrap().prepares, 2);
    let snapshot = lab.main().await.snapshot().await.unwrap();
    assert_ne!(snapshot.table("t").unwrap().incarnation_id, life);
    assert_eq!(ids(&snapshot, "t").await, [3], "no row of an older life");
}
