//! The kit for data stores: what [`DataStore`] demands, property by property.

mod changes;
mod damage;
mod difference;
mod mirror;
mod mutations;
mod objects;
mod reads;

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use headwater_core::filter::{Comparison, Filter};
use headwater_core::ids::{Incarnation, Mint, SystemEnvironment, TableId};
use headwater_core::store::{Change, DataStore, Pin, Rows, Scan, Staged, TableRef};
use headwater_core::{Error, ErrorKind};

use crate::fixture::{self, Fixture, OpenedStore, Property, properties};
use crate::rows;

/// What the properties take.
pub type StoreFixture = dyn Fixture<OpenedStore>;

/// Everything a data store must do.
pub const PROPERTIES: &[Property<StoreFixture>] = properties![
    changes::a_created_table_reads_back,
    changes::an_append_adds_at_the_end,
    changes::an_overwrite_replaces_and_keeps_the_columns,
    changes::added_columns_are_null_in_older_rows,
    changes::no_rows_are_a_version_too,
    changes::a_long_stream_reads_back,
    changes::a_rebase_brings_the_same_rows_onto_another_base,
    changes::the_content_digest_tells_a_retry_from_another_request,
    changes::bases_that_do_not_fit_are_refused,
    changes::every_type_round_trips_or_is_refused,
    changes::concurrent_stages_of_one_base_do_not_collide,
    mutations::by_key_every_action_meets_every_key,
    mutations::two_rows_of_one_key_are_refused,
    mutations::a_condition_picks_the_rows_that_change,
    mutations::changes_reach_rows_of_any_age,
    mutations::every_change_stands_on_every_other,
    mutations::an_optimized_table_holds_the_same_rows,
    mutations::a_retry_of_a_change_has_the_same_content,
    reads::a_projection_has_the_order_asked_for,
    reads::a_filter_is_exact,
    reads::an_index_changes_no_answer,
    reads::a_limit_bounds_each_partition,
    reads::a_partition_opens_again,
    reads::an_old_version_never_changes,
    difference::what_two_versions_do_not_share_makes_the_one_of_the_other,
    mirror::a_number_on_a_chain_stands_for_one_version,
    objects::what_a_version_reaches_is_listed_once_and_exact,
    objects::a_life_shares_no_object_with_another,
    objects::reclaiming_takes_just_what_is_named,
    objects::a_failed_row_stream_leaves_nothing_reachable,
    objects::a_flush_makes_what_was_staged_durable,
    damage::a_missing_object_is_corrupt,
    damage::a_damaged_object_is_corrupt,
    damage::a_pin_that_says_otherwise_is_corrupt,
];

/// Tests all of [`PROPERTIES`] and returns their number.
pub async fn run_all(fixture: &StoreFixture) -> usize {
    fixture::run_all(PROPERTIES, fixture, |_| Box::pin(async {})).await
}

fn mint() -> Mint {
    Mint::new(Arc::new(SystemEnvironment))
}

fn table() -> TableRef {
    TableRef { id: TableId(mint().ulid()), incarnation: Incarnation(mint().ulid()) }
}

async fn create(store: &dyn DataStore, table: TableRef, rows: Rows) -> Staged {
    store.stage(table, None, Change::Create(rows)).await.unwrap()
}

async fn append(store: &dyn DataStore, table: TableRef, base: &Pin, rows: Rows) -> Staged {
    store.stage(table, Some(base), Change::Append(rows)).await.unwrap()
}

/// The version without the rows 0, 1 and 2; as it is, where the store does not delete.
async fn thinned(store: &dyn DataStore, table: TableRef, pin: Pin) -> Pin {
    let three: ArrayRef = Arc::new(Int64Array::from(vec![3]));
    let first = Filter::Compare { column: "id".to_owned(), op: Comparison::Less, value: three };
    match store.stage(table, Some(&pin), Change::Delete(first)).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => pin,
        staged => staged.unwrap().pin,
    }
}

/// All rows of a version.
async fn read(store: &dyn DataStore, pin: &Pin) -> Vec<String> {
    scan(store, pin, &Scan::default()).await.unwrap()
}

async fn scan(store: &dyn DataStore, pin: &Pin, scan: &Scan) -> Result<Vec<String>, Error> {
    let batches = rows::collect(&store.scan(pin, scan).await?).await?;
    Ok(rows::texts(&batches))
}

/// The rows of [`rows::numbered`], as they read back.
fn expected(ids: std::ops::Range<i64>) -> Vec<String> {
    rows::texts(&[rows::numbered(ids)])
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind) -> Error {
    let error = result.expect_err("this must be refused");
    assert_eq!(error.kind(), kind, "{error:?}");
    error
}
