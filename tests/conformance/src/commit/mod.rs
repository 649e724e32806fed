//! The kit for whole backends: what a catalog over an authority, an object store and the registered adapters must do.

mod ahead;
mod changes;
mod gate;
mod identity;
pub(crate) mod lineage;
mod load;
mod mutations;
mod publish;
mod races;
mod tokens;
mod transitions;
mod travel;

use std::future::Future;

use headwater_core::{Branch, Commit, Error, ErrorKind, Result, Snapshot, Transaction};

use crate::fixture::{self, Property, properties};
use crate::lab::Lab;
use crate::rows::{self, numbered, schema};

/// Everything a catalog must do.
pub const PROPERTIES: &[Property<Lab>] = properties![
    transitions::every_event_in_every_state_by_apply,
    transitions::every_event_in_every_state_by_transact,
    transitions::events_of_another_life_or_name_change_nothing,
    load::what_it_read_decides_whether_the_closure_runs_again,
    load::what_changes_nothing_publishes_nothing,
    load::any_number_of_tables_is_one_commit,
    load::a_refused_closure_leaves_nothing,
    mutations::a_key_is_taken_once,
    mutations::what_a_mutation_read_decides_whether_its_closure_runs_again,
    mutations::what_matches_nothing_publishes_nothing,
    mutations::any_mutations_of_many_tables_are_one_commit,
    mutations::what_does_not_fit_the_key_is_refused,
    mutations::an_optimize_beside_writers_loses_nothing,
    identity::a_rename_keeps_the_table,
    identity::a_dropped_name_that_is_created_again_is_another_table,
    identity::a_recreated_table_begins_a_new_life,
    identity::nothing_resurrects_a_dropped_table,
    lineage::a_mirrored_table_follows_its_commits,
    publish::one_commit_is_one_swap_and_one_entry,
    publish::commits_side_by_side_are_one_chain,
    publish::writers_of_different_tables_are_one_chain,
    publish::a_commit_outlives_its_caller,
    publish::a_lost_reply_is_settled_by_the_journal,
    tokens::the_same_request_is_the_same_commit,
    tokens::another_request_may_not_take_the_token,
    tokens::a_token_is_found_in_a_spilled_segment,
    tokens::a_token_outlives_what_it_wrote_to,
    tokens::one_token_in_two_processes_commits_once,
    ahead::rows_staged_ahead_are_published_as_they_are,
    ahead::rows_staged_ahead_come_behind_what_others_did,
    ahead::rows_staged_ahead_for_another_life_are_not_found,
    ahead::rows_staged_ahead_are_one_commit_under_one_token,
    travel::every_state_comes_back_by_seq_commit_and_time,
    travel::points_that_never_were_are_not_found,
    travel::old_states_never_change,
    changes::every_two_states_differ_by_their_changes,
    changes::a_cursor_leads_back_or_says_why_not,
    races::a_unique_value_is_taken_once,
    races::an_edge_never_points_at_a_deleted_node,
    races::a_name_is_taken_once,
];

/// Tests all of [`PROPERTIES`], verifies what each left behind and checks every rule over it. Returns their number.
pub async fn run_all(lab: &Lab) -> usize {
    fixture::run_all(PROPERTIES, lab, |lab| Box::pin(lab.check())).await
}

fn refused<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind) -> Error {
    let error = result.expect_err("this must be refused");
    assert_eq!(error.kind(), kind, "{error:?}");
    error
}

/// A table with some rows, in a commit of its own.
async fn create(main: &Branch, key: &str, ids: std::ops::Range<i64>) -> Commit {
    let create = main.transact(|tx| {
        let ids = ids.clone();
        async move {
            let table = tx.create_table(key, schema()).await?;
            tx.append(&table, numbered(ids)).await
        }
    });
    create.await.unwrap()
}

async fn append(main: &Branch, key: &str, ids: std::ops::Range<i64>) -> Result<Commit> {
    main.transact(|tx| append_in(tx, key, ids.clone())).await
}

async fn append_in(tx: Transaction, key: &str, ids: std::ops::Range<i64>) -> Result<()> {
    tx.append(&tx.table(key).await?, numbered(ids)).await
}

async fn drop_table(main: &Branch, key: &str) -> Result<Commit> {
    main.transact(|tx| async move { tx.drop_table(&tx.table(key).await?).await }).await
}

async fn rename(main: &Branch, from: &str, to: &str) -> Result<Commit> {
    main.transact(|tx| async move { tx.rename_table(&tx.table(from).await?, to).await }).await
}

/// The values of `id` of a table, sorted: commits side by side have no order among them.
async fn ids(snapshot: &Snapshot, key: &str) -> Vec<i64> {
    let mut ids = rows::ids(&rows::read(snapshot, key).await.unwrap());
    ids.sort_unstable();
    ids
}

/// Runs a future in a task of its own, as an independent caller.
fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    tokio::spawn(future)
}
