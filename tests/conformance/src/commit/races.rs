//! Rules that no key of one table can keep: the read set keeps them, in one process and in several.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use headwater_core::{Branch, Commit, Error, ErrorKind, Result};
use tokio::sync::Barrier;

use super::{create, ids, spawn};
use crate::lab::{Lab, main};
use crate::rows::{self, numbered, read_in, schema};

/// A meeting of two closures: each waits there on its first run, so that both have read the same state before either is published.
#[derive(Clone)]
struct Meeting {
    barrier: Arc<Barrier>,
    met: Arc<AtomicBool>,
}

impl Meeting {
    fn pair() -> [Self; 2] {
        let barrier = Arc::new(Barrier::new(2));
        [(); 2].map(|()| Self { barrier: barrier.clone(), met: Arc::default() })
    }

    async fn meet(&self) {
        if !self.met.swap(true, Ordering::SeqCst) {
            self.barrier.wait().await;
        }
    }
}

/// Two writers in one process, and two that share nothing.
async fn writers(lab: &Lab) -> [[Branch; 2]; 2] {
    let shared = lab.main().await;
    [[shared.clone(), shared], [lab.main().await, lab.main().await]]
}

fn taken(what: &str) -> Error {
    Error::invalid(what)
}

async fn run_both(
    first: impl Future<Output = Result<Commit>> + Send + 'static,
    second: impl Future<Output = Result<Commit>> + Send + 'static,
) -> [Result<Commit>; 2] {
    let (first, second) = (spawn(first), spawn(second));
    [first.await.unwrap(), second.await.unwrap()]
}

/// Exactly one succeeded, and the other was refused by its own rule.
fn one_won(results: &[Result<Commit>; 2]) {
    let won = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(won, 1, "{results:?}");
    assert!(results.iter().flat_map(|result| result.as_ref().err()).all(|error| error.kind() == ErrorKind::InvalidInput), "{results:?}");
}

/// Puts a row with this id into `table` unless `a` or `b` has one.
async fn insert_unique(branch: Branch, meeting: Meeting, table: &'static str, id: i64) -> Result<Commit> {
    let insert = branch.transact(|tx| {
        let meeting = meeting.clone();
        async move {
            for key in ["a", "b"] {
                if rows::ids(&read_in(&tx, &tx.table(key).await?).await?).contains(&id) {
                    return Err(taken("the value is taken"));
                }
            }
            meeting.meet().await;
            tx.append(&tx.table(table).await?, numbered(id..id + 1)).await
        }
    });
    insert.await
}

pub(super) async fn a_unique_value_is_taken_once(lab: &Lab) {
    let branch = main(&lab.create().await);
    for key in ["a", "b"] {
        create(&branch, key, 0..2).await;
    }
    let mut id = 10;
    // Into the same table, and into different ones, none of which the other writer touches.
    for tables in [["a", "a"], ["a", "b"]] {
        for [first, second] in writers(lab).await {
            let [m, n] = Meeting::pair();
            one_won(&run_both(insert_unique(first, m, tables[0], id), insert_unique(second, n, tables[1], id)).await);
            let snapshot = lab.main().await.snapshot().await.unwrap();
            let all = [ids(&snapshot, "a").await, ids(&snapshot, "b").await].concat();
            assert_eq!(all.iter().filter(|found| **found == id).count(), 1);
            id += 1;
        }
    }
}

/// Points at a node, which must be there.
async fn insert_edge(branch: Branch, meeting: Meeting, node: i64) -> Result<Commit> {
    let insert = branch.transact(|tx| {
        let meeting = meeting.clone();
        async move {
            if !rows::ids(&read_in(&tx, &tx.table("nodes").await?).await?).contains(&node) {
                return Err(taken("there is no such node"));
            }
            meeting.meet().await;
            tx.append(&tx.table("edges").await?, numbered(node..node + 1)).await
        }
    });
    insert.await
}

/// Deletes a node, at which no edge may point.
async fn delete_node(branch: Branch, meeting: Meeting, node: i64) -> Result<Commit> {
    let delete = branch.transact(|tx| {
        let meeting = meeting.clone();
        async move {
            if rows::ids(&read_in(&tx, &tx.table("edges").await?).await?).contains(&node) {
                return Err(taken("an edge points at the node"));
            }
            let nodes = tx.table("nodes").await?;
            let kept = rows::ids(&read_in(&tx, &nodes).await?).into_iter().filter(|id| *id != node);
            let kept: Vec<_> = kept.map(|id| numbered(id..id + 1)).collect();
            meeting.meet().await;
            tx.overwrite(&nodes, kept).await
        }
    });
    delete.await
}

pub(super) async fn an_edge_never_points_at_a_deleted_node(lab: &Lab) {
    let branch = main(&lab.create().await);
    create(&branch, "nodes", 0..8).await;
    create(&branch, "edges", 100..101).await;
    let mut node = 0;
    for round in 0..4 {
        for [first, second] in writers(lab).await {
            let [m, n] = Meeting::pair();
            let results = match round % 2 {
                0 => run_both(insert_edge(first, m, node), delete_node(second, n, node)).await,
                _ => run_both(delete_node(first, m, node), insert_edge(second, n, node)).await,
            };
            one_won(&results);
            let snapshot = lab.main().await.snapshot().await.unwrap();
            let (nodes, edges) = (ids(&snapshot, "nodes").await, ids(&snapshot, "edges").await);
            assert_eq!(nodes.contains(&node), edges.contains(&node), "an edge points at nothing, or a free node was kept");
            node += 1;
        }
    }
}

pub(super) async fn a_name_is_taken_once(lab: &Lab) {
    lab.create().await;
    for (i, [first, second]) in writers(lab).await.into_iter().enumerate() {
        let key: Arc<str> = format!("t{i}").into();
        let [m, n] = Meeting::pair();
        let claim = |branch: Branch, meeting: Meeting, ids: std::ops::Range<i64>| {
            let key = key.clone();
            async move {
                let create = branch.transact(|tx| {
                    let (key, meeting, ids) = (key.clone(), meeting.clone(), ids.clone());
                    async move {
                        let table = tx.create_table(&key, schema()).await?;
                        meeting.meet().await;
                        tx.append(&table, numbered(ids)).await
                    }
                });
                create.await
            }
        };
        let results = run_both(claim(first, m, 0..2), claim(second, n, 10..12)).await;
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
        let lost = results.iter().find_map(|result| result.as_ref().err()).unwrap();
        assert_eq!(lost.kind(), ErrorKind::AlreadyExists);
        let snapshot = lab.main().await.snapshot().await.unwrap();
        assert_eq!(snapshot.tables().filter(|head| head.key.as_str() == &*key).count(), 1);
        let won = if results[0].is_ok() { [0, 1] } else { [10, 11] };
        assert_eq!(ids(&snapshot, &key).await, won);
    }
}
