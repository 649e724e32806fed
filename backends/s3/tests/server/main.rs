//! The authority and the object store against a real S3 server, and behind a proxy that breaks what goes over the wire. Without a server
//! at hand these tests fail.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the whole file is a test")]

mod conditional;
mod environment;
mod faults;
mod fixture;
mod listing;
mod probe;
