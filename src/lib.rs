//! Headwater commits atomically across many tables on an object store.
//!
//! One compare-and-swap publishes everything a commit did; reading what is current costs one request, however long the history.
#![doc = ""]

pub use arrow_array;
pub use arrow_schema;
pub use headwater_core::*;

mod open;

pub use open::{Builder, MISSING, builder, create, open, registry};
