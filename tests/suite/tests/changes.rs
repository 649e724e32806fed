//! What changed between two states, against a model: random histories, every two states of each; every type of column; and what asking costs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod ledger;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use futures::StreamExt;
use headwater_conformance::faults::Random;
use headwater_conformance::rows::Changed;
use headwater_conformance::tap::render;
use headwater_conformance::values::samples;
use headwater_core::filter::{Comparison, Filter};
use headwater_core::head::TableHead;
use headwater_core::store::Rows;
use headwater_core::{At, Branch, ErrorKind};
use headwater_suite::PARQUET;
use headwater_suite::lake::Lake;
use headwater_suite::rows::row;
use ledger::{Ledger, expected, step};

const SEED: u64 = 20_260;
const HISTORIES: u64 = 120;
const STEPS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_applied_to_a_state_make_the_later_one() {
    let histories = futures::stream::iter(SEED..SEED + HISTORIES).map(|seed| tokio::spawn(history(seed))).buffered(2);
    let all: Vec<(usize, BTreeSet<&str>)> = histories.map(Result::unwrap).collect().await;
    let pairs: usize = all.iter().map(|(pairs, _)| pairs).sum();
    let kinds: BTreeSet<&str> = all.iter().flat_map(|(_, kinds)| kinds).copied().collect();
    headwater_conformance::report(format!("{} steps, {pairs} pairs of states: {kinds:?}", HISTORIES as usize * STEPS));
    assert_eq!(kinds.len(), 12, "{kinds:?}");
}

/// A random history, and every two states of it. How many pairs, and which kinds of steps there were.
async fn history(seed: u64) -> (usize, BTreeSet<&'static str>) {
    let (branch, _) = Lake::memory(PARQUET).open().await;
    let (mut random, mut kinds, mut pairs) = (Random::new(seed), BTreeSet::new(), 0);
    let mut states = vec![Ledger::default()];
    for _ in 0..STEPS {
        let last = &states[states.len() - 1];
        let mut next = last.clone();
        kinds.insert(step(&branch, &mut next, &mut random).await);
        let published = branch.snapshot_at_open().await.unwrap().seq() as usize == states.len();
        assert!(published || next == *last, "seed {seed}: a change after seq {} was not published", states.len() - 1);
        if published {
            states.push(next);
        }
    }
    let now = branch.snapshot().await.unwrap();
    for (until, later) in states.iter().enumerate() {
        let view = now.at(At::Seq(until as u64)).await.unwrap();
        for (since, earlier) in states[..=until].iter().enumerate() {
            let mut found = Vec::new();
            for table in view.changes(since as u64).await.unwrap().tables() {
                let name = |head: Option<&TableHead>| head.map(|head| head.key.to_string());
                let (names, rows) = ((name(table.before()), name(table.after())), Changed::read(&table).await.unwrap());
                found.push((names.0, names.1, table.is_recreated(), table.has_other_columns(), rows));
            }
            // Another version may hold the same rows.
            found.retain(|change| change.0 != change.1 || change.2 || change.3 || change.4 != Changed::default());
            found.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
            assert_eq!(found, expected(earlier, later), "seed {seed}, from {since} to {until}");
            pairs += 1;
        }
    }
    (pairs, kinds)
}

/// Overwrites the table `t` and says what changed.
async fn overwritten(branch: &Branch, rows: &[RecordBatch]) -> Changed {
    let before = branch.snapshot().await.unwrap();
    let overwrite = branch.transact(|tx| async move {
        let table = tx.table("t").await?;
        tx.overwrite(&table, Rows::new(table.schema().clone(), rows.to_vec())).await
    });
    overwrite.await.unwrap();
    let changes = branch.snapshot().await.unwrap().changes(&before).await.unwrap();
    Changed::read(&changes.table("t").unwrap()).await.unwrap()
}

#[tokio::test]
async fn rows_of_every_type_are_compared_exactly() {
    let mut tried = 0;
    for column in samples() {
        let schema = Arc::new(Schema::new(vec![Field::new("c", column.data_type().clone(), true)]));
        let (branch, _) = Lake::memory(PARQUET).open().await;
        let rows = RecordBatch::try_new(schema.clone(), vec![column.clone()]).unwrap();
        let create = branch.transact(|tx| {
            let (schema, rows) = (schema.clone(), rows.clone());
            async move { tx.append(&tx.create_table("t", schema).await?, rows).await }
        });
        match create.await {
            Err(error) if error.kind() == ErrorKind::Unsupported => continue,
            created => drop(created.unwrap()),
        }
        tried += 1;
        let kind = column.data_type();
        let backwards: Vec<RecordBatch> = (0..rows.num_rows()).rev().map(|row| rows.slice(row, 1)).collect();
        assert_eq!(overwritten(&branch, &backwards).await, Changed::default(), "{kind}: the same rows in another order");
        let changed = overwritten(&branch, &[rows.slice(1, rows.num_rows() - 1)]).await;
        assert_eq!((changed.added.len(), changed.deleted.len()), (0, 1), "{kind}: one row less");
    }
    assert!(tried >= 40, "only {tried} types");

    // What `=` does not tell apart.
    let schema = Arc::new(Schema::new(vec![Field::new("c", DataType::Float64, true)]));
    let floats = |values: Vec<Option<f64>>| RecordBatch::try_new(schema.clone(), vec![Arc::new(Float64Array::from(values))]).unwrap();
    let (branch, _) = Lake::memory(PARQUET).open().await;
    let create = branch.transact(|tx| {
        let (schema, rows) = (schema.clone(), floats(vec![Some(0.0), Some(f64::NAN), None]));
        async move { tx.append(&tx.create_table("t", schema).await?, rows).await }
    });
    create.await.unwrap();
    assert_eq!(overwritten(&branch, &[floats(vec![None, Some(f64::NAN), Some(0.0)])]).await, Changed::default());
    let changed = overwritten(&branch, &[floats(vec![Some(-0.0), Some(-f64::NAN), Some(1.0)])]).await;
    assert_eq!((changed.added.len(), changed.deleted.len()), (3, 3), "{changed:?}");
}

/// A table of so many files of two rows each.
async fn filed(lake: &Lake, files: i64) -> Branch {
    let (branch, _) = lake.open().await;
    let create = branch.transact(|tx| async move {
        let table = tx.create_table("t", row(0, 0).schema()).await?;
        tx.append(&table, row(0, 0)).await?;
        tx.append(&table, row(0, 1)).await
    });
    create.await.unwrap();
    for file in 1..files {
        let append = branch.transact(|tx| async move {
            let table = tx.table("t").await?;
            tx.append(&table, row(file, 0)).await?;
            tx.append(&table, row(file, 1)).await
        });
        append.await.unwrap();
    }
    branch
}

/// What changed with the last commit, and the requests and stages of another process that asks, with nothing cached.
async fn cost(lake: &Lake) -> (Changed, (usize, usize)) {
    let (branch, tap) = lake.open().await;
    let now = branch.snapshot().await.unwrap();
    let since = now.at(At::Seq(now.seq() - 1)).await.unwrap();
    tap.clear();
    let table = now.changes(&since).await.unwrap().table("t").unwrap();
    assert!(tap.requests().is_empty(), "comparing heads asks for nothing:\n{}", render(&tap.requests()));
    let mut rows = table.rows().await.unwrap().batches;
    while let Some(change) = rows.next().await {
        change.unwrap();
    }
    let cost = (tap.requests().len(), tap.stages());
    (Changed::read(&table).await.unwrap(), cost)
}

#[tokio::test]
async fn what_is_asked_for_does_not_grow_with_what_did_not_change() {
    let mut costs = Vec::new();
    for files in [40, 80, 160, 320] {
        // The file that changes is in a list of its own, or among the newest.
        for place in [5, files - 1] {
            let lake = Lake::memory(PARQUET);
            let branch = filed(&lake, files).await;
            let one = |column: &str, value| Filter::Compare {
                column: column.to_owned(),
                op: Comparison::Equal,
                value: Arc::new(Int64Array::from(vec![value])),
            };
            let update = branch.transact(|tx| async move {
                let table = tx.table("t").await?;
                let which = Filter::And(vec![one("writer", place), one("number", 1)]);
                tx.update(&table, which, vec![("number", Arc::new(Int64Array::from(vec![7])))]).await
            });
            update.await.unwrap();
            let (changed, cost) = cost(&lake).await;
            let texts = |number| vec![format!("{place}|{number}")];
            assert_eq!(changed, Changed { added: texts(7), updated: Vec::new(), deleted: texts(1) });
            costs.push(cost);
        }
        // Rows that only came need nothing of what was there.
        let lake = Lake::memory(PARQUET);
        let branch = filed(&lake, files).await;
        branch.transact(|tx| async move { tx.append(&tx.table("t").await?, row(files, 0)).await }).await.unwrap();
        let (changed, cost) = cost(&lake).await;
        assert_eq!(changed, Changed { added: vec![format!("{files}|0")], ..Changed::default() });
        costs.push(cost);
    }
    // Files are read side by side.
    let lake = Lake::memory(PARQUET);
    let branch = filed(&lake, 16).await;
    let all = Filter::Not(Box::new(Filter::IsNull("writer".to_owned())));
    branch
        .transact(|tx| async {
            let tx = tx;
            tx.delete(&tx.table("t").await?, all.clone()).await
        })
        .await
        .unwrap();
    let (changed, (requests, stages)) = cost(&lake).await;
    assert!(changed.deleted.len() == 32 && requests == 2 + 16 && stages <= 4, "{requests} requests in {stages} stages");
    headwater_conformance::report(format!("requests and stages for the changes of one file of 40, 80, 160, 320: {costs:?}"));
    // Two version objects and two data files; where the file is in a list, that list before and after.
    assert!(costs.chunks(3).all(|costs| *costs == [(6, 4), (4, 3), (3, 2)]), "{costs:?}");
}
