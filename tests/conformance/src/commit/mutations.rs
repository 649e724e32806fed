//! Mutations: by key and by a condition, and who wins where two want one key. A store without them refuses, and nothing is published.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow_array::{ArrayRef, Int64Array, StringArray};
use arrow_schema::{DataType, Field, Schema};
use headwater_core::filter::{Comparison, Filter};
use headwater_core::store::{ByKey, Scan};
use headwater_core::{At, Branch, Commit, ErrorKind, Result, Transaction};

use super::{append, create, ids, refused, spawn};
use crate::lab::{Lab, main};
use crate::rows::{self, collect, numbered, schema, texts};

/// A keyed table with some rows.
async fn keyed(branch: &Branch, key: &str, rows: std::ops::Range<i64>) {
    let create = branch.transact(|tx| {
        let rows = rows.clone();
        async move { tx.append(&tx.create_keyed_table(key, schema(), &["id"]).await?, numbered(rows)).await }
    });
    create.await.unwrap();
}

async fn by_key(branch: &Branch, key: &str, action: ByKey, rows: std::ops::Range<i64>) -> Result<Commit> {
    branch
        .transact(|tx| {
            let rows = rows.clone();
            async move { tx.by_key(&tx.table(key).await?, action, numbered(rows)).await }
        })
        .await
}

/// Whether the store does it. Where it does not, a commit says so and publishes nothing.
async fn does(lab: &Lab) -> bool {
    let branch = main(&lab.create().await);
    keyed(&branch, "t", 0..3).await;
    match by_key(&branch, "t", ByKey::UPSERT, 0..1).await {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
            assert_eq!(lab.main().await.snapshot().await.unwrap().seq(), 1);
            false
        }
    }
}

fn less(id: i64) -> Filter {
    Filter::Compare { column: "id".to_owned(), op: Comparison::Less, value: Arc::new(Int64Array::from(vec![id])) }
}

/// Two writers on one state. What the second is told, and how often its closure ran.
async fn race(lab: &Lab, first: (ByKey, std::ops::Range<i64>), second: (ByKey, std::ops::Range<i64>)) -> (Result<Commit>, u32) {
    let branch = main(&lab.create().await);
    keyed(&branch, "t", 0..3).await;
    let (other, runs) = (lab.main().await, AtomicU32::new(0));
    let outcome = branch.transact(|tx| {
        let (other, runs, first, second) = (&other, &runs, first.clone(), second.clone());
        async move {
            let table = tx.table("t").await?;
            if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                by_key(other, "t", first.0, first.1).await.unwrap();
            }
            tx.by_key(&table, second.0, numbered(second.1)).await
        }
    });
    let outcome = outcome.await;
    lab.check().await;
    (outcome, runs.load(Ordering::SeqCst))
}

pub(super) async fn a_key_is_taken_once(lab: &Lab) {
    if !does(lab).await {
        return;
    }
    let now = async || ids(&lab.main().await.snapshot().await.unwrap(), "t").await;
    let (outcome, runs) = race(lab, (ByKey::INSERT, 5..6), (ByKey::INSERT, 5..7)).await;
    let error = refused(outcome, ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("id = 5"), "{error}");
    assert_eq!((runs, now().await), (2, vec![0, 1, 2, 5]));
    let (outcome, runs) = race(lab, (ByKey::INSERT, 5..6), (ByKey::INSERT, 6..7)).await;
    assert_eq!((outcome.unwrap().prepares, runs, now().await), (2, 2, vec![0, 1, 2, 5, 6]));
    let (outcome, runs) = race(lab, (ByKey::UPSERT, 1..6), (ByKey::UPSERT, 2..8)).await;
    assert_eq!((outcome.unwrap().prepares, runs, now().await), (2, 2, (0..8).collect()));
    let (outcome, _) = race(lab, (ByKey::DELETE, 1..2), (ByKey::DELETE, 1..3)).await;
    assert!(refused(outcome, ErrorKind::NotFound).to_string().contains("id = 1"));
    let (outcome, _) = race(lab, (ByKey::DELETE, 1..2), (ByKey::UPDATE_PRESENT, 0..3)).await;
    assert_eq!((outcome.unwrap().prepares, now().await), (2, vec![0, 2]));
    // An append to a keyed table inserts.
    let branch = lab.main().await;
    assert!(refused(append(&branch, "t", 2..4).await, ErrorKind::AlreadyExists).to_string().contains("id = 2"));
    append(&branch, "t", 10..12).await.unwrap();
    // In one process side by side: each key goes to one of them.
    let inserts = (0..8).map(|_| by_key(&branch, "t", ByKey::INSERT, 20..22));
    let won = futures::future::join_all(inserts).await.into_iter().filter(Result::is_ok).count();
    assert_eq!((won, now().await), (1, vec![0, 2, 10, 11, 20, 21]));
}

/// What the closure probes beside the table it changes.
pub(super) async fn what_a_mutation_read_decides_whether_its_closure_runs_again(lab: &Lab) {
    if !does(lab).await {
        return;
    }
    for (probes, moved, expected) in [(false, "other", 1), (true, "other", 2), (true, "unrelated", 1), (false, "own", 2)] {
        let branch = main(&lab.create().await);
        keyed(&branch, "own", 0..3).await;
        for key in ["other", "unrelated"] {
            create(&branch, key, 0..3).await;
        }
        let (rival, runs) = (lab.main().await, AtomicU32::new(0));
        let changed = branch.transact(|tx| {
            let (rival, runs) = (&rival, &runs);
            async move {
                if probes {
                    tx.rows(&tx.table("other").await?).await?;
                }
                let own = tx.table("own").await?;
                if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                    append(rival, moved, 50..52).await.unwrap();
                }
                tx.delete(&own, less(2)).await
            }
        });
        assert_eq!(changed.await.unwrap().prepares, expected, "probes {probes}, {moved} moved");
        let own = ids(&lab.main().await.snapshot().await.unwrap(), "own").await;
        assert_eq!(own, if moved == "own" { vec![2, 50, 51] } else { vec![2] });
        lab.check().await;
    }
}

pub(super) async fn what_matches_nothing_publishes_nothing(lab: &Lab) {
    if !does(lab).await {
        return;
    }
    let branch = main(&lab.create().await);
    keyed(&branch, "t", 0..3).await;
    type Body = fn(Transaction) -> futures::future::LocalBoxFuture<'static, Result<()>>;
    let bodies: [(&str, Body); 4] = [
        ("delete", |tx| Box::pin(async move { tx.delete(&tx.table("t").await?, less(0)).await })),
        ("update", |tx| {
            let name: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
            Box::pin(async move { tx.update(&tx.table("t").await?, less(0), vec![("name", name)]).await })
        }),
        ("delete present", |tx| Box::pin(async move { tx.by_key(&tx.table("t").await?, ByKey::DELETE_PRESENT, numbered(7..9)).await })),
        ("no rows", |tx| Box::pin(async move { tx.upsert(&tx.table("t").await?, numbered(7..7)).await })),
    ];
    for (what, body) in bodies {
        let commit = branch.transact(body).await.unwrap();
        assert!(!commit.published, "{what}");
    }
    assert_eq!(lab.main().await.snapshot().await.unwrap().seq(), 1);
}

pub(super) async fn any_mutations_of_many_tables_are_one_commit(lab: &Lab) {
    if !does(lab).await {
        return;
    }
    let branch = main(&lab.create().await);
    for key in ["a", "b", "c"] {
        keyed(&branch, key, 0..4).await;
    }
    create(&branch, "plain", 0..2).await;
    let before = branch.snapshot().await.unwrap().seq();
    let changed = branch.transact(|tx| async move {
        tx.upsert(&tx.table("a").await?, numbered(3..6)).await?;
        // Only the key columns are looked at.
        tx.by_key(&tx.table("b").await?, ByKey::DELETE, numbered(1..3)).await?;
        tx.delete(&tx.table("c").await?, less(3)).await?;
        tx.append(&tx.table("plain").await?, numbered(2..4)).await?;
        let new = tx.create_keyed_table("new", schema(), &["id"]).await?;
        tx.append(&new, numbered(0..2)).await
    });
    assert_eq!(changed.await.unwrap().seq, before + 1);
    let now = lab.main().await.snapshot().await.unwrap();
    let mut found = Vec::new();
    for key in ["a", "b", "c", "plain", "new"] {
        found.push(ids(&now, key).await);
    }
    assert_eq!(found, [(0..6).collect(), vec![0, 3], vec![3], (0..4).collect(), vec![0, 1]]);
    assert_eq!(now.log(1).await.unwrap()[0].entry.kind.name(), "mutation");
}

pub(super) async fn what_does_not_fit_the_key_is_refused(lab: &Lab) {
    let branch = main(&lab.create().await);
    for columns in [&[][..], &["nothing"], &["name"], &["id", "id"]] {
        let bad = branch.transact(|tx| async move { tx.create_keyed_table("t", schema(), columns).await.map(drop) }).await;
        refused(bad, ErrorKind::InvalidInput);
    }
    let float = Arc::new(Schema::new(vec![Field::new("x", DataType::Float64, false)]));
    let bad = branch.transact(|tx| {
        let float = float.clone();
        async move { tx.create_keyed_table("t", float, &["x"]).await.map(drop) }
    });
    refused(bad.await, ErrorKind::InvalidInput);
    let twice = |tx: Transaction| async move {
        let table = tx.create_keyed_table("t", schema(), &["id"]).await?;
        tx.append(&table, numbered(0..2)).await?;
        tx.append(&table, numbered(1..3)).await
    };
    assert!(refused(branch.transact(twice).await, ErrorKind::InvalidInput).to_string().contains("id = 1"));
    create(&branch, "plain", 0..2).await;
    assert!(refused(by_key(&branch, "plain", ByKey::UPSERT, 0..1).await, ErrorKind::InvalidInput).to_string().contains("no key"));
    assert_eq!(lab.main().await.snapshot().await.unwrap().seq(), 1);
    keyed(&branch, "t", 0..3).await;
    let id: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    let moved = branch.transact(|tx| {
        let id = id.clone();
        async move { tx.update(&tx.table("t").await?, less(1), vec![("id", id)]).await }
    });
    refused(moved.await, ErrorKind::InvalidInput);
    let doubled = branch.transact(|tx| async move {
        let rows = vec![numbered(8..9), numbered(8..9)];
        tx.overwrite(&tx.table("t").await?, rows).await
    });
    assert!(refused(doubled.await, ErrorKind::InvalidInput).to_string().contains("id = 8"));
    assert_eq!(ids(&lab.main().await.snapshot().await.unwrap(), "t").await, [0, 1, 2]);
}

/// Four writers, each with numbers of its own, and one who indexes and optimizes all the while: in the end every number is where its last
/// writer left it, and at every commit what is found by the key is what is there.
pub(super) async fn an_optimize_beside_writers_loses_nothing(lab: &Lab) {
    if !does(lab).await {
        return;
    }
    const ROUNDS: i64 = 6;
    let branch = main(&lab.create().await);
    keyed(&branch, "t", 0..40).await;
    let mut writers = Vec::new();
    for writer in 0..4 {
        let branch = lab.main().await;
        writers.push(spawn(async move {
            let own = writer * 10;
            for round in 0..ROUNDS {
                let action = match round % 3 {
                    0 => ByKey::UPSERT,
                    1 => ByKey::DELETE,
                    _ => ByKey::INSERT,
                };
                // Of its ten numbers: all written again, the first four removed, those put back.
                let rows = if round % 3 == 0 { own..own + 10 } else { own..own + 4 };
                by_key(&branch, "t", action, rows).await.unwrap();
                by_key(&branch, "t", ByKey::INSERT, 100 + own + round..101 + own + round).await.unwrap();
            }
        }));
    }
    let optimizing = lab.main().await;
    let mut optimized = 0;
    let mut runs = 0;
    let index = || optimizing.transact(|tx| async move { tx.index(&tx.table("t").await?, "id").await });
    let indexes = !index().await.is_err_and(|error| error.kind() == ErrorKind::Unsupported);
    while runs < 3 || writers.iter().any(|writer| !writer.is_finished()) {
        let commit = optimizing.transact(|tx| async move { tx.optimize(&tx.table("t").await?).await }).await.unwrap();
        optimized += u32::from(commit.published);
        if indexes && runs % 2 == 1 {
            index().await.unwrap();
        }
        runs += 1;
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let last = optimizing.transact(|tx| async move { tx.optimize(&tx.table("t").await?).await }).await.unwrap();
    assert!(optimized + u32::from(last.published) > 0, "nothing was ever optimized");
    let mut wanted: Vec<i64> = (0..40).collect();
    (0..4).for_each(|writer| wanted.extend((0..ROUNDS).map(|round| 100 + writer * 10 + round)));
    wanted.sort_unstable();
    let now = lab.main().await.snapshot().await.unwrap();
    assert_eq!(ids(&now, "t").await, wanted);
    for seq in 1..=now.seq() {
        let then = now.at(At::Seq(seq)).await.unwrap();
        let mut all = ids(&then, "t").await;
        all.retain(|id| *id >= 20);
        let few = Scan { filter: Some(Filter::Not(Box::new(less(20)))), ..Scan::default() };
        let mut found = rows::ids(&texts(&collect(&then.scan("t", &few).await.unwrap()).await.unwrap()));
        found.sort_unstable();
        assert_eq!(found, all, "at seq {seq}");
    }
}
