//! What the parquet store promises, over an object store in memory that counts requests, bytes and round trips, and fails when told to.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod append;
mod counting;
mod damage;
mod difference;
mod fixture;
mod mutate;
mod pages;
mod rebase;
mod scan;
mod types;
mod write;
