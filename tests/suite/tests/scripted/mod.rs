//! The catalog that is damaged: small, and with everything in it that a control object can hold.

use std::collections::BTreeMap;

use arrow_schema::{DataType, Field};
use headwater_core::head::StoredBody;
use headwater_core::{Branch, Result, TransactOptions, Transaction};

use crate::image::{Known, Recorder};
use headwater_suite::rows::{create, row};

/// Its history.
pub(crate) async fn script(branch: &Branch, seen: &mut Recorder) {
    create(branch, &["a".to_owned(), "b".to_owned(), "c".to_owned()]).await;
    seen.look(branch).await;
    for number in 0..6 {
        append(branch, ["a", "b", "c"][number as usize % 3], number).await;
        seen.look(branch).await;
    }
    change(branch, "overwrite", seen, |tx| async move {
        let table = tx.table("b").await?;
        tx.overwrite(&table, row(7, 7)).await
    })
    .await;
    change(branch, "rename", seen, |tx| async move {
        let table = tx.table("c").await?;
        tx.rename_table(&table, "d").await
    })
    .await;
    for _ in 0..2 {
        change(branch, "drop", seen, |tx| async move {
            let table = tx.table("d").await?;
            tx.drop_table(&table).await
        })
        .await;
        change(branch, "recreate", seen, |tx| async move { tx.recreate_table("d", None).await.map(drop) }).await;
    }
    change(branch, "drop for good", seen, |tx| async move {
        let table = tx.table("b").await?;
        tx.drop_table(&table).await
    })
    .await;
    change(branch, "add a column", seen, |tx| async move {
        let table = tx.table("a").await?;
        tx.add_columns(&table, vec![Field::new("note", DataType::Utf8, true)]).await
    })
    .await;
    // A read set too large for the tail: its body gets a record.
    change(branch, "look for many", seen, |tx| async move {
        for i in 0..400 {
            assert!(tx.find(&format!("{i:080}")).await?.is_none());
        }
        let table = tx.table("d").await?;
        tx.append(&table, row(8, 8)).await
    })
    .await;
    for turn in 0..52 {
        change(branch, "rename back and forth", seen, move |tx| async move {
            let (from, to) = if turn % 2 == 0 { ("d", "e") } else { ("e", "d") };
            let table = tx.table(from).await?;
            tx.rename_table(&table, to).await
        })
        .await;
    }
    for number in 10..14 {
        append(branch, ["a", "d"][number as usize % 2], number).await;
        seen.look(branch).await;
    }
}

async fn append(branch: &Branch, key: &str, number: i64) {
    let appended = branch.transact(|tx| async move {
        let table = tx.table(key).await?;
        tx.append(&table, row(0, number)).await
    });
    appended.await.unwrap();
}

async fn change<F, Fut>(branch: &Branch, message: &str, seen: &mut Recorder, body: F)
where
    F: Fn(Transaction) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    let options = TransactOptions { message: Some(message.to_owned()), ..TransactOptions::default() };
    branch.transact_with(options, body).await.unwrap();
    seen.look(branch).await;
}

pub(crate) async fn known(seed: u64) -> Known {
    let known = Known::build(seed, script).await;
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    known.image.0.keys().for_each(|place| *kinds.entry(place.kind()).or_default() += 1);
    assert_eq!(kinds.len(), 7, "something is missing: {kinds:?}");
    assert!(kinds["segment"] >= 2 && kinds["tombstone link"] >= 5, "{kinds:?}");
    assert!(known.log.iter().any(|entry| matches!(entry.entry.body, StoredBody::Record(_))));
    println!("seed {seed:#x}; the catalog has {kinds:?}");
    known
}
