//! The conformance kit: everything a Headwater control authority, data store or effect adapter must do, as tests that take the backend as a
//! fixture. It depends on `headwater-core` alone.
//!
//! A backend of your own runs it like this (`open_fresh` makes an empty place, `reopen` opens it as another process would):
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use headwater_conformance::{authority, fixture::Fixture};
//! use headwater_core::{authority::ControlAuthority, memory::MemoryAuthority};
//!
//! #[derive(Default)]
//! struct Mine(Mutex<Arc<MemoryAuthority>>);
//!
//! #[async_trait::async_trait]
//! impl Fixture<Arc<dyn ControlAuthority>> for Mine {
//!     async fn open_fresh(&self) -> Arc<dyn ControlAuthority> {
//!         *self.0.lock().unwrap() = Arc::default();
//!         self.reopen().await
//!     }
//!     async fn reopen(&self) -> Arc<dyn ControlAuthority> {
//!         self.0.lock().unwrap().clone()
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
//! assert!(authority::run_all(&Mine::default()).await > 0);
//! # });
//! ```
//!
//! - [`authority`], [`store`]: what each must do alone.
//! - [`commit`]: what a catalog over them must do.
//! - [`crash`]: the same, killed at every request.
//! - [`faults`]: a bad network in front of any backend.
//! - [`invariants`]: the numbered rules, checked over everything that was written.
//! - [`shape`]: the size of a control object without the digits of its counters.
//! - [`lab`]: catalogs over a fixture, as separate processes open them.
//! - [`values`]: columns of every type.
//! - [`tap`]: counts requests, finds round trips, kills.
//! - [`rounds`]: makes round trips exact.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test kit answers by panics")]

pub mod authority;
pub mod commit;
pub mod crash;
pub mod faults;
pub mod fixture;
pub mod invariants;
pub mod lab;
pub mod rounds;
pub mod rows;
pub mod shape;
pub mod store;
pub mod tap;
pub mod values;

/// Tells a figure, also where a test harness keeps to itself what a passing test prints.
pub fn report(figure: impl std::fmt::Display) {
    use std::io::Write;
    // A figure nobody can be told is no failure.
    let _ = writeln!(std::io::stderr(), "{figure}");
}
