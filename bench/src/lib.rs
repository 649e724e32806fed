//! What tests and gates need around an S3 server: a real one to run against, and a proxy that counts and breaks what goes over the wire.
//!
//! - [`server`] starts RustFS or SeaweedFS on loopback and stops it again, also when the test process is killed.
//! - [`proxy`] stands between a client and the server: it records every request, and injects the faults of a network and of a server.
//! - [`client`] sends one signed request over one connection, without retries, so that a test sees what happened to exactly that request.

pub mod client;
mod error;
pub mod proxy;
pub mod server;

pub use error::{Error, Result};
