//! Every suite on the Lance store. One binary, because whatever links Lance takes long to link.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod costs;
mod crash;
mod kit;
mod large;
mod raw;
mod sql;
mod values;

use headwater_adapters as _;
use headwater_core::registry::Registry;
use headwater_lance as _;
use headwater_suite::Kind;

/// The Lance store.
const LANCE: Kind = Kind { store: "lance", registry, threads: &["lance-cpu"] };

/// Everything this test links, sealed.
fn registry() -> Registry {
    let mut expected = vec![("backend", "memory"), ("backend", "local"), ("backend", "s3"), ("authority", "sqlite")];
    expected.extend([("store", "parquet"), ("store", "lance")]);
    expected.extend(headwater_adapters::EXPECTED);
    Registry::seal(&expected, &[]).unwrap()
}
