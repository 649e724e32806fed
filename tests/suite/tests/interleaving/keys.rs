//! Changes by key: a closure may fail because its own commit is there.

use std::sync::atomic::{AtomicBool, Ordering};

use headwater_conformance::rows::{numbered, schema};
use headwater_core::store::ByKey;
use headwater_core::{Branch, Commit, Result, Transaction};

use super::process::Process;
use crate::place::{Place, options};

async fn by_key(tx: &Transaction, action: ByKey, id: i64) -> Result<()> {
    tx.by_key(&tx.table("t").await?, action, numbered(id..id + 1)).await
}

async fn change(branch: &Branch, token: &str, action: ByKey, id: i64) -> Result<Commit> {
    branch.transact_with(options(token), |tx| async move { by_key(&tx, action, id).await }).await
}

/// Where the closure first ran, the key was taken, and that would be its error. But then somebody removed it, and a twin of ours has put it
/// back under our token: ours is a success.
#[tokio::test]
async fn a_twin_whose_commit_makes_the_closure_fail_is_found() {
    for place in Place::all().await {
        let (ours, other, twin) = (place.open().await, place.open().await, place.open().await);
        let create = |process: &Process| {
            let branch = process.branch.clone();
            async move {
                let made = branch
                    .transact(|tx| async move { tx.append(&tx.create_keyed_table("t", schema(), &["id"]).await?, numbered(0..3)).await });
                made.await.unwrap();
            }
        };
        create(&ours).await;
        let first = AtomicBool::new(true);
        let inserted = ours.branch.transact_with(options("ours"), |tx| {
            let (first, other, twin) = (&first, &other.branch, &twin.branch);
            async move {
                if first.swap(false, Ordering::SeqCst) {
                    change(other, "other", ByKey::DELETE, 1).await.unwrap();
                    change(twin, "ours", ByKey::INSERT, 1).await.unwrap();
                }
                by_key(&tx, ByKey::INSERT, 1).await
            }
        });
        let commit = inserted.await.unwrap_or_else(|error| panic!("{}: {error:?}", place.name));
        assert_eq!((commit.seq, place.entries("ours").await, place.ids("t").await), (3, 1, vec![0, 1, 2]), "{}", place.name);
        place.check().await;
    }
}

/// The digest of a create says what the table's key is.
#[tokio::test]
async fn a_table_with_another_key_is_another_request() {
    for place in Place::all().await {
        let ours = place.open().await;
        let create = async |columns: &[&str]| {
            ours.branch
                .transact_with(options("ours"), |tx| async move {
                    match columns {
                        [] => tx.create_table("t", schema()).await.map(drop),
                        columns => tx.create_keyed_table("t", schema(), columns).await.map(drop),
                    }
                })
                .await
        };
        create(&["id"]).await.unwrap();
        assert_eq!(create(&["id"]).await.unwrap().seq, 1);
        assert_eq!(create(&[]).await.unwrap_err().kind(), headwater_core::ErrorKind::TokenReused);
        place.check().await;
    }
}
