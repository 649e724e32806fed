//! Queries on snapshots: what they answer, what they read, and what they refuse.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod answers;
mod conditions;
mod costs;
mod failures;
mod fixture;
mod names;
mod refusals;
mod sample;

/// The store under test.
const KIND: headwater_suite::Kind = headwater_suite::PARQUET;
