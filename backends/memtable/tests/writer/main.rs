//! A writer with a memtable, from outside: what it costs, where it stops, how it ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod costs;
mod endings;
mod faults;
mod fixture;
mod limits;
mod reads;
