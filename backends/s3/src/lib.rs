//! Headwater on S3 and what speaks like it: a control authority of conditional writes, and the object store for data beside it.
//!
//! Any number of hosts may share a catalog. What is acknowledged is as durable as the store makes it. Opening sends nothing: settings and
//! credentials are resolved by the first request, once, for control and data alike.
//!
//! - [`Settings`]: bucket, prefix and options, from a URL or by hand, over the standard AWS variables and profiles.
//! - `connection`: what those resolve to: clients, endpoint, credentials.
//! - `http`, `credentials`: the one HTTP client and the one credential chain under the SDK and under object_store.
//! - [`Observer`]: sees every request as it leaves that client, below all retries.
//! - `layout`: which object is which head or record.
//! - `status`: what a reply means for a conditional write. The rules, in one pure function.
//! - `requests`: get, conditional put, list and delete of one object; `failure` turns what went wrong into facts and errors.
//! - [`S3Authority`]: those requests as a [`ControlAuthority`](headwater_core::authority::ControlAuthority).
//! - `objects`: the object store for data.
//! - [`probe`], [`doctor`]: whether this server keeps the promises all this stands on.

mod authority;
mod connection;
mod credentials;
mod doctor;
mod failure;
mod http;
mod layout;
mod objects;
mod observer;
mod probe;
mod requests;
mod settings;
mod status;

use headwater_core::Result;
use headwater_core::registry::{Backend, Location, OpenedBackend, Part, Registration};

pub use authority::S3Authority;
pub use doctor::doctor;
pub use observer::{Answered, Observer, Sent};
pub use probe::{Check, Outcome, ProbeReport, probe};
pub use settings::Settings;

/// Resolves `s3://bucket/prefix?options`. No request, no file read: a wrong profile or missing credentials show at the first request.
///
/// Errors with `InvalidInput` for a URL that names no bucket and for options [`Settings`] does not know.
fn open(location: &Location) -> Result<OpenedBackend> {
    let authority = S3Authority::new(Settings::from_location(location)?)?;
    let objects = authority.objects();
    Ok(OpenedBackend { authority: std::sync::Arc::new(authority), objects })
}

/// This backend's entry in the registry.
pub static REGISTRATION: Registration = Registration {
    name: "s3",
    part: Part::Backend(Backend { schemes: &["s3"], open, summary: "in a bucket of S3 or a compatible store; many hosts may share it" }),
};
inventory::submit!(&REGISTRATION);
