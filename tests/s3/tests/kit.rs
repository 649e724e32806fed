//! The conformance kits and the crash matrix on a real S3 server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use headwater_conformance::crash;
use headwater_conformance::fixture::{AuthorityOf, StoreOf};
use headwater_conformance::lab::Lab;
use headwater_conformance::{authority, commit, store};
use headwater_suite_s3::{Buckets, CRASHED, crashed, registry};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_s3_authority_conforms() {
    assert_eq!(authority::run_all(&AuthorityOf(Buckets::direct())).await, authority::PROPERTIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parquet_store_conforms_on_s3() {
    let fixture = StoreOf { backend: Buckets::direct(), registry: registry(), kind: "parquet".to_owned() };
    assert_eq!(store::run_all(&fixture).await, store::PROPERTIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn catalogs_on_s3_conform() {
    assert_eq!(commit::run_all(&Lab::new(Buckets::direct(), registry(), "parquet")).await, commit::PROPERTIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_request_leaves_all_or_nothing_on_s3() {
    headwater_conformance::report(format_args!("on {}", Buckets::direct().server.name()));
    let lab = || Lab::new(Buckets::direct(), registry(), "parquet");
    let mut all = crashed(lab).await;
    // All but indices and chains of versions, which Parquet tables do not have.
    assert_eq!(all.len(), CRASHED.len() - 2);
    let creation = crash::creation(&lab()).await;
    assert!(creation.requests > 0 && creation.fired == creation.cells && creation.cells == 2 * creation.requests);
    all.push(creation);
    headwater_conformance::report(format_args!("{}", crash::table(&all)));
}
