//! Rows staged ahead of their transaction: seen by nobody, written once, published behind whatever the table has become.

use arrow_schema::{DataType, Field};
use headwater_core::store::Scan;
use headwater_core::{Branch, Catalog, Commit, ErrorKind, Result, StagedAppend, TransactOptions};

use super::{append, create, drop_table, refused};
use crate::lab::{Lab, main};
use crate::rows::{collect, ids, numbered, read, schema, texts};
use crate::tap::{Tap, render};

/// Two appends, one behind the other.
async fn staged(branch: &Branch, key: &str) -> StagedAppend {
    let first = branch.snapshot().await.unwrap().stage_append(key, numbered(10..13)).await.unwrap();
    first.stage_append(numbered(13..15)).await.unwrap()
}

async fn publish(branch: &Branch, key: &str, staged: &StagedAppend, options: TransactOptions) -> Result<Commit> {
    branch.transact_with(options, |tx| async move { tx.append_staged(&tx.table(key).await?, staged).await }).await
}

async fn found(lab: &Lab, key: &str) -> Vec<i64> {
    ids(&read(&lab.main().await.snapshot().await.unwrap(), key).await.unwrap())
}

pub(super) async fn rows_staged_ahead_are_published_as_they_are(lab: &Lab) {
    create(&main(&lab.create().await), "t", 0..3).await;
    let tap = Tap::new();
    let branch = main(&Catalog::open(lab.parts(&tap).await).await.unwrap());
    let before = branch.snapshot().await.unwrap();
    let none = before.stage_append("t", Vec::new()).await.unwrap();
    assert_eq!((none.rows(), none.pin()), (0, &before.table("t").unwrap().pin));
    let staged = staged(&branch, "t").await;
    assert_eq!(staged.rows(), 5);
    assert_eq!(found(lab, "t").await, [0, 1, 2], "nobody sees them");
    let own = texts(&collect(&staged.scan(&Scan::default()).await.unwrap()).await.unwrap());
    assert_eq!(ids(&own), [0, 1, 2, 10, 11, 12, 13, 14]);
    tap.clear();
    let commit = publish(&branch, "t", &staged, TransactOptions::default()).await.unwrap();
    let requests = tap.requests();
    let written: Vec<_> = requests.iter().map(|request| request.verb).filter(|verb| !verb.starts_with("GET")).collect();
    assert_eq!(written, ["SWAP head"], "{}", render(&requests));
    assert_eq!((commit.tables[0].rows, commit.tables[0].changed), (8, 5));
    assert_eq!(branch.snapshot().await.unwrap().table("t").unwrap().pin, *staged.pin());
    assert_eq!(found(lab, "t").await, [0, 1, 2, 10, 11, 12, 13, 14]);
    let nothing = publish(&branch, "t", &none, TransactOptions::default()).await.unwrap();
    assert!(!nothing.published);
}

pub(super) async fn rows_staged_ahead_come_behind_what_others_did(lab: &Lab) {
    type Meanwhile = for<'a> fn(&'a Branch) -> futures::future::LocalBoxFuture<'a, Result<Commit>>;
    let meanwhiles: [(&str, Meanwhile, &[i64]); 4] = [
        ("an append", |other| Box::pin(append(other, "t", 50..52)), &[0, 1, 2, 50, 51]),
        (
            "an overwrite",
            |other| Box::pin(other.transact(|tx| async move { tx.overwrite(&tx.table("t").await?, numbered(60..61)).await })),
            &[60],
        ),
        (
            "a column",
            |other| {
                Box::pin(other.transact(|tx| async move {
                    let table = tx.table("t").await?;
                    tx.add_columns(&table, vec![Field::new("size", DataType::Int64, true)]).await
                }))
            },
            &[0, 1, 2],
        ),
        ("an append to another table", |other| Box::pin(append(other, "u", 50..52)), &[0, 1, 2]),
    ];
    for (what, meanwhile, before) in meanwhiles {
        let branch = main(&lab.create().await);
        for key in ["t", "u"] {
            create(&branch, key, 0..3).await;
        }
        for more in [staged(&branch, "t").await, branch.snapshot().await.unwrap().stage_append("t", numbered(10..15)).await.unwrap()] {
            let other = lab.main().await;
            if found(lab, "t").await == [0, 1, 2] {
                meanwhile(&other).await.unwrap();
            }
            publish(&branch, "t", &more, TransactOptions::default()).await.unwrap();
        }
        let own = [10, 11, 12, 13, 14];
        assert_eq!(found(lab, "t").await, [before, &own, &own].concat(), "{what}");
        lab.check().await;
    }
}

pub(super) async fn rows_staged_ahead_for_another_life_are_not_found(lab: &Lab) {
    let branch = main(&lab.create().await);
    create(&branch, "t", 0..3).await;
    create(&branch, "u", 0..3).await;
    let staged = staged(&branch, "t").await;
    refused(publish(&branch, "u", &staged, TransactOptions::default()).await, ErrorKind::NotFound);
    drop_table(&branch, "t").await.unwrap();
    refused(publish(&branch, "t", &staged, TransactOptions::default()).await, ErrorKind::NotFound);
    branch.transact(|tx| async move { tx.recreate_table("t", None).await.map(drop) }).await.unwrap();
    refused(publish(&branch, "t", &staged, TransactOptions::default()).await, ErrorKind::NotFound);
    branch.transact(|tx| async move { tx.create_keyed_table("keyed", schema(), &["id"]).await.map(drop) }).await.unwrap();
    let keyed = branch.snapshot().await.unwrap();
    refused(keyed.stage_append("keyed", numbered(0..1)).await, ErrorKind::Unsupported);
    assert_eq!((found(lab, "t").await, found(lab, "u").await), (vec![], vec![0, 1, 2]));
}

pub(super) async fn rows_staged_ahead_are_one_commit_under_one_token(lab: &Lab) {
    let branch = main(&lab.create().await);
    create(&branch, "t", 0..3).await;
    let staged = staged(&branch, "t").await;
    let options = || TransactOptions { token: Some("ahead".parse().unwrap()), ..TransactOptions::default() };
    let first = publish(&branch, "t", &staged, options()).await.unwrap();
    append(&lab.main().await, "t", 50..51).await.unwrap();
    for other in [branch.clone(), lab.main().await] {
        let again = publish(&other, "t", &staged, options()).await.unwrap();
        assert_eq!((again.seq, again.commit), (first.seq, first.commit));
    }
    let fewer = branch.snapshot().await.unwrap().stage_append("t", numbered(10..14)).await.unwrap();
    refused(publish(&branch, "t", &fewer, options()).await, ErrorKind::TokenReused);
    assert_eq!(found(lab, "t").await, [0, 1, 2, 10, 11, 12, 13, 14, 50]);
}
