//! What operations cost, counted in requests, stages and bytes, at growing depths. Nothing is timed.

use headwater_suite::PARQUET;
use headwater_suite::costs::{costs_do_not_grow_with_depth, no_message_makes_a_head_large};
use headwater_suite::lake::Lake;

#[tokio::test]
async fn costs_do_not_grow_with_depth_in_memory() {
    costs_do_not_grow_with_depth(&Lake::memory(PARQUET)).await;
}

#[tokio::test]
async fn costs_do_not_grow_with_depth_on_a_local_disk() {
    costs_do_not_grow_with_depth(&Lake::local(PARQUET)).await;
}

#[tokio::test]
async fn costs_do_not_grow_with_depth_in_a_sqlite_file() {
    costs_do_not_grow_with_depth(&Lake::sqlite(PARQUET)).await;
}

#[tokio::test]
async fn no_message_makes_a_head_large_at_any_length() {
    no_message_makes_a_head_large(&Lake::memory(PARQUET)).await;
}
