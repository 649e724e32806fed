//! Tokens: one request, one commit, however often and from wherever it is sent.

use headwater_core::head::TAIL_ENTRIES;
use headwater_core::ids::Token;
use headwater_core::{Branch, Commit, ErrorKind, Result, TransactOptions};

use super::{append, append_in, create, drop_table, ids, refused, spawn};
use crate::lab::{Lab, main};
use crate::rows::{numbered, schema};

fn options(token: &str) -> TransactOptions {
    TransactOptions { token: Some(token.parse().unwrap()), ..TransactOptions::default() }
}

async fn append_as(branch: &Branch, token: &str, key: &str, ids: std::ops::Range<i64>) -> Result<Commit> {
    branch.transact_with(options(token), |tx| append_in(tx, key, ids.clone())).await
}

pub(super) async fn the_same_request_is_the_same_commit(lab: &Lab) {
    let branch = main(&lab.create().await);
    create(&branch, "t", 0..1).await;
    let first = append_as(&branch, "once", "t", 1..3).await.unwrap();
    for other in [branch.clone(), lab.main().await, lab.main().await] {
        let again = append_as(&other, "once", "t", 1..3).await.unwrap();
        assert_eq!((again.seq, again.commit, again.published), (first.seq, first.commit, true));
        assert_eq!(again.tables, first.tables, "it reports what the commit did");
        append(&other, "t", 10..11).await.unwrap();
    }
    // As good with a seq before which it cannot stand; and never found where the search must not begin.
    let since = TransactOptions { since: first.seq - 1, ..options("once") };
    let again = lab.main().await.transact_with(since, |tx| append_in(tx, "t", 1..3)).await.unwrap();
    assert_eq!(again.seq, first.seq);
    assert_eq!(ids(&lab.main().await.snapshot().await.unwrap(), "t").await, [0, 1, 2, 10, 10, 10]);
    let created = |branch: Branch| async move {
        let create = branch.transact_with(options("create"), |tx| async move {
            let table = tx.create_table("new", schema()).await?;
            tx.append(&table, numbered(0..2)).await
        });
        create.await.unwrap().seq
    };
    assert_eq!(created(branch).await, created(lab.main().await).await, "a create that is done is no clash with itself");
}

pub(super) async fn another_request_may_not_take_the_token(lab: &Lab) {
    let branch = main(&lab.create().await);
    for key in ["t", "u"] {
        create(&branch, key, 0..1).await;
    }
    append_as(&branch, "taken", "t", 1..3).await.unwrap();
    for other in [branch, lab.main().await] {
        for (key, ids) in [("t", 1..4), ("t", 2..4), ("u", 1..3)] {
            let error = refused(append_as(&other, "taken", key, ids).await, ErrorKind::TokenReused);
            assert_eq!(error.token().map(Token::as_str), Some("taken"));
        }
        let overwrite =
            other.transact_with(options("taken"), |tx| async move { tx.overwrite(&tx.table("t").await?, numbered(1..3)).await });
        refused(overwrite.await, ErrorKind::TokenReused);
        let nothing = other.transact_with(options("taken"), |_| async { Ok(()) });
        refused(nothing.await, ErrorKind::TokenReused);
    }
    let snapshot = lab.main().await.snapshot().await.unwrap();
    assert_eq!((snapshot.seq(), ids(&snapshot, "t").await), (3, vec![0, 1, 2]));
}

pub(super) async fn a_token_is_found_in_a_spilled_segment(lab: &Lab) {
    let branch = main(&lab.create().await);
    create(&branch, "t", 0..1).await;
    let first = append_as(&branch, "early", "t", 1..3).await.unwrap();
    for i in 0..2 * TAIL_ENTRIES as i64 + 2 {
        append(&branch, "t", 100 + i..101 + i).await.unwrap();
    }
    let seq = branch.snapshot().await.unwrap().seq();
    for other in [branch, lab.main().await] {
        assert_eq!(append_as(&other, "early", "t", 1..3).await.unwrap().seq, first.seq);
        refused(append_as(&other, "early", "t", 1..2).await, ErrorKind::TokenReused);
    }
    assert_eq!(lab.main().await.snapshot().await.unwrap().seq(), seq);
}

pub(super) async fn a_token_outlives_what_it_wrote_to(lab: &Lab) {
    let branch = main(&lab.create().await);
    create(&branch, "t", 0..1).await;
    let first = append_as(&branch, "before-the-drop", "t", 1..3).await.unwrap();
    drop_table(&branch, "t").await.unwrap();
    let again = append_as(&lab.main().await, "before-the-drop", "t", 1..3).await.unwrap();
    assert_eq!(again.seq, first.seq, "what came later does not make it another request");
    let dropped = |branch: Branch| async move {
        branch.transact_with(options("drop"), |tx| async move { tx.drop_table(&tx.table("u").await?).await }).await.unwrap().seq
    };
    create(&branch, "u", 0..1).await;
    let seq = dropped(branch).await;
    assert_eq!(dropped(lab.main().await).await, seq);
}

pub(super) async fn one_token_in_two_processes_commits_once(lab: &Lab) {
    create(&main(&lab.create().await), "t", 0..1).await;
    for round in 0..5_i64 {
        let (token, ids) = (format!("round-{round}"), 10 * round + 10..10 * round + 12);
        let shared = lab.main().await;
        let tasks: Vec<_> = [shared.clone(), shared, lab.main().await, lab.main().await]
            .into_iter()
            .map(|branch| {
                let (token, ids) = (token.clone(), ids.clone());
                spawn(async move { append_as(&branch, &token, "t", ids).await.unwrap().seq })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), round as u64 + 2, "all of them are told of the same commit");
        }
    }
    let snapshot = lab.main().await.snapshot().await.unwrap();
    assert_eq!(ids(&snapshot, "t").await, [0, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51]);
}
