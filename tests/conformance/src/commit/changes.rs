//! What happened between two states: by reading both whole, and by asking; and the cursors that name them.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use headwater_core::ids::{CatalogId, CommitId, Mint, SystemEnvironment};
use headwater_core::{At, Catalog, Changes, Cursor, ErrorKind, RowCounts, Snapshot, TableChange};

use super::{append, create, drop_table, refused, rename};
use crate::lab::{Lab, main};
use crate::rows::{Changed, numbered, read};
use crate::tap::{Tap, render};

/// One commit of each kind that every store can do, and some of them twice.
async fn history(lab: &Lab) {
    let branch = main(&lab.create().await);
    create(&branch, "t", 0..3).await;
    create(&branch, "u", 5..8).await;
    append(&branch, "t", 2..6).await.unwrap();
    let overwrite = branch.transact(|tx| async move { tx.overwrite(&tx.table("t").await?, numbered(1..6)).await });
    overwrite.await.unwrap();
    rename(&branch, "u", "v").await.unwrap();
    let size = || vec![Field::new("size", DataType::Float64, true)];
    branch.transact(|tx| async move { tx.add_columns(&tx.table("t").await?, size()).await }).await.unwrap();
    append(&branch, "t", 9..10).await.unwrap();
    drop_table(&branch, "v").await.unwrap();
    let other = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    let recreate = branch.transact(|tx| {
        let other = other.clone();
        async move { tx.recreate_table("v", Some(other)).await.map(drop) }
    });
    recreate.await.unwrap();
    drop_table(&branch, "t").await.unwrap();
    create(&branch, "t", 0..3).await;
}

const COMMITS: u64 = 11;

/// The rows of a table, with nulls in columns it lacks.
async fn rows(snapshot: &Snapshot, key: &str, columns: usize) -> Vec<String> {
    let missing = columns.saturating_sub(snapshot.schema(key).await.unwrap().fields().len());
    read(snapshot, key).await.unwrap().into_iter().map(|row| row + &"|∅".repeat(missing)).collect()
}

/// The tables that changed by name, and what happened to them, in words.
fn words(changes: &Changes) -> String {
    let table = |table: TableChange| {
        let mut words = table.key().to_string();
        for (holds, word) in [
            (table.is_created(), "created"),
            (table.is_dropped(), "dropped"),
            (table.is_recreated(), "recreated"),
            (table.has_other_columns(), "columns"),
        ] {
            words.extend(holds.then(|| format!(" {word}")));
        }
        words.extend(table.renamed_from().map(|from| format!(" from {from}")));
        words
    };
    changes.tables().into_iter().map(table).collect::<Vec<_>>().join(", ")
}

pub(super) async fn every_two_states_differ_by_their_changes(lab: &Lab) {
    history(lab).await;
    let now = lab.main().await.snapshot().await.unwrap();
    assert_eq!(now.seq(), COMMITS);
    for until in 0..=COMMITS {
        let later = now.at(At::Seq(until)).await.unwrap();
        for since in 0..=until {
            let changes = later.changes(since).await.unwrap();
            assert_eq!((changes.since().seq(), changes.until().seq()), (since, until));
            for table in changes.tables() {
                let (before, after) = (table.before(), table.after());
                let one_life = before.zip(after).is_some_and(|(before, after)| before.table() == after.table());
                let columns = match after {
                    Some(after) if one_life => later.schema(after.key.as_str()).await.unwrap().fields().len(),
                    _ => 0,
                };
                let (mut old, mut new) = (Vec::new(), Vec::new());
                if let Some(head) = before {
                    old = rows(changes.since(), head.key.as_str(), columns).await;
                }
                if let Some(head) = after {
                    new = rows(&later, head.key.as_str(), columns).await;
                }
                let mut wanted =
                    if one_life { Changed::between(&old, &new) } else { Changed { added: new, updated: Vec::new(), deleted: old } };
                wanted.sort();
                assert_eq!(Changed::read(&table).await.unwrap(), wanted, "{} from {since} to {until}", table.key());
            }
        }
    }
    let said = async |since: u64, until: u64| words(&now.at(At::Seq(until)).await.unwrap().changes(since).await.unwrap());
    assert_eq!(said(0, 2).await, "t created, u created");
    assert_eq!(said(2, 7).await, "t columns, v from u");
    assert_eq!(said(4, 4).await, "");
    assert_eq!(said(2, 8).await, "t columns, u dropped");
    assert_eq!(said(2, 9).await, "t columns, v recreated columns from u");
    assert_eq!(said(8, 9).await, "v created");
    assert_eq!(said(9, COMMITS).await, "t dropped, t created");
    let changes = now.changes(2).await.unwrap();
    for (key, id) in [("t", now.table("t").unwrap().table_id), ("u", now.table("v").unwrap().table_id)] {
        let table = changes.table(key).unwrap();
        assert_eq!(table.after().unwrap().table_id, id, "a name means the later table, then the earlier");
    }
    assert!(refused(changes.table("x"), ErrorKind::NotFound).to_string().contains("t, v"));
    refused(now.at(At::Seq(3)).await.unwrap().changes(4).await, ErrorKind::InvalidInput);
    refused(now.changes(COMMITS + 1).await, ErrorKind::NotFound);
}

pub(super) async fn a_cursor_leads_back_or_says_why_not(lab: &Lab) {
    history(lab).await;
    let now = lab.main().await.snapshot().await.unwrap();
    let mut texts = Vec::new();
    for seq in 0..=COMMITS {
        texts.push(now.at(At::Seq(seq)).await.unwrap().cursor().to_string());
    }
    let later = lab.main().await;
    append(&later, "t", 20..21).await.unwrap();
    let now = later.snapshot().await.unwrap();
    for (text, seq) in texts.iter().zip(0..) {
        let cursor: Cursor = text.parse().unwrap();
        let changes = now.changes(cursor).await.unwrap();
        assert_eq!(changes.since().seq(), seq);
        assert_eq!(words(&changes), words(&now.changes(seq).await.unwrap()));
    }

    // Where nothing happened, asking costs what looking does.
    let tap = Tap::new();
    let reader = main(&Catalog::open(lab.parts(&tap).await).await.unwrap());
    let cursor = reader.snapshot().await.unwrap().cursor();
    tap.clear();
    let same = reader.snapshot().await.unwrap().changes(cursor.clone()).await.unwrap();
    assert!(same.tables().is_empty());
    assert_eq!(same.table("t").unwrap().count().await.unwrap(), RowCounts::default());
    assert_eq!(tap.requests().len(), 1, "{}", render(&tap.requests()));
    assert_eq!(Changed::read(&same.table("t").unwrap()).await.unwrap(), Changed::default());

    let mint = Mint::new(Arc::new(SystemEnvironment));
    let elsewhere = Cursor { catalog: CatalogId(mint.ulid()), ..cursor.clone() };
    assert!(refused(now.changes(elsewhere).await, ErrorKind::InvalidInput).to_string().contains("catalog"));
    let beside = Cursor { branch: "other".parse().unwrap(), ..cursor.clone() };
    assert!(refused(now.changes(beside).await, ErrorKind::InvalidInput).to_string().contains("branch"));
    for seq in [1, cursor.seq] {
        let replaced = Cursor { seq, commit: Some(CommitId(mint.ulid())), ..cursor.clone() };
        assert!(refused(now.changes(replaced).await, ErrorKind::NotFound).to_string().contains("read the tables whole"));
    }
    refused(now.changes(Cursor { seq: cursor.seq + 1, ..cursor.clone() }).await, ErrorKind::NotFound);
    // A snapshot serves as well, and one of another catalog does not.
    let old = now.at(At::Seq(3)).await.unwrap();
    assert_eq!(now.changes(&old).await.unwrap().since().seq(), 3);
    let other = main(&lab.create().await);
    create(&other, "t", 0..1).await;
    refused(other.snapshot().await.unwrap().changes(&old).await, ErrorKind::InvalidInput);
}
