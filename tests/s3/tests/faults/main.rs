//! The fault matrix on the wire: at each request of an operation, everything a network or a server can do to it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod creation;
mod matrix;
mod named;
mod place;
mod wire;

use headwater_conformance::crash::{Scenario, scenarios};
use headwater_conformance::rows::{numbered, schema};
use headwater_core::adapter::WriterKind;

use matrix::{With, run};

/// The schema adapter in one commit: a tombstone record, and the version of a new table.
const DROP_AND_CREATE: Scenario = Scenario {
    name: "schema: drop and create",
    adapter: WriterKind::Schema,
    records: &["tombstones/"],
    setup: |main| {
        Box::pin(async move {
            let create = main.transact(|tx| async move { tx.create_table("a", schema()).await.map(drop) });
            create.await.map(drop)
        })
    },
    commits: &[|tx| {
        Box::pin(async move {
            tx.drop_table(&tx.table("a").await?).await?;
            tx.create_table("e", schema()).await.map(drop)
        })
    }],
};

/// The mutation adapter: a file that is read for its keys, written again without some rows, and a new one.
const UPSERT: Scenario = Scenario {
    name: "mutation: upsert",
    adapter: WriterKind::Mutation,
    records: &[],
    setup: |main| {
        Box::pin(async move {
            let create =
                main.transact(|tx| async move { tx.append(&tx.create_keyed_table("a", schema(), &["id"]).await?, numbered(0..4)).await });
            create.await.map(drop)
        })
    },
    commits: &[|tx| Box::pin(async move { tx.upsert(&tx.table("a").await?, numbered(2..6)).await })],
};

/// The optimize adapter: two files become one.
const OPTIMIZE: Scenario = Scenario {
    name: "optimize: one table",
    adapter: WriterKind::Optimize,
    records: &[],
    setup: |main| {
        Box::pin(async move {
            let create = main.transact(|tx| async move { tx.append(&tx.create_table("a", schema()).await?, numbered(0..2)).await });
            create.await?;
            main.transact(|tx| async move { tx.append(&tx.table("a").await?, numbered(2..4)).await }).await.map(drop)
        })
    },
    commits: &[|tx| Box::pin(async move { tx.optimize(&tx.table("a").await?).await })],
};

pub(crate) fn scenario(name: &str) -> Scenario {
    *scenarios::ALL.iter().find(|scenario| scenario.name == name).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn append_to_three_tables() {
    run(scenario("load: append to three tables"), With::Nobody).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn append_to_three_tables_beside_a_rival() {
    run(scenario("load: append to three tables"), With::Rival).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_that_spills() {
    run(scenario("load: append that spills, tail full by bytes"), With::Nobody).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_schema() {
    run(DROP_AND_CREATE, With::Nobody).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upsert() {
    run(UPSERT, With::Nobody).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_optimize() {
    run(OPTIMIZE, With::Nobody).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_creation_of_a_catalog() {
    creation::run().await;
}
