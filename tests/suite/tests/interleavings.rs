//! The interleavings of a publish and a bad network, one test each, on the real code. Those a model of the protocol calls a violation of an
//! obvious but wrong rule say which.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod interleaving;
mod tags;

mod place {
    pub(crate) use headwater_suite::place::{POLICY, options};

    pub(crate) use crate::interleaving::process::Place;
}
