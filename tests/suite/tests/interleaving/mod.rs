//! The tests, by what the network does to.

mod creation;
mod keys;
mod nonce;
pub(crate) mod process;
mod records;
mod swaps;
mod tokens;

use std::sync::Arc;

use headwater_conformance::faults::{Fault, Meanwhile, Planned};
use process::Process;

const SWAP: &str = "SWAP head";
const READ: &str = "GET head";

/// A plan of one fault for the next swap.
fn swap(fault: Fault) -> [Planned; 1] {
    [Planned { verb: SWAP, nth: 0, fault }]
}

/// The bodies of the swaps a process has sent.
fn swaps(process: &Process) -> Vec<bytes::Bytes> {
    process.network.passed().into_iter().filter(|passed| passed.verb == SWAP).map(|passed| passed.sent).collect()
}

/// Work of another process while a request is under way.
fn meanwhile<F>(work: impl Fn() -> F + Send + Sync + 'static) -> Meanwhile
where
    F: Future<Output = ()> + Send + 'static,
{
    Arc::new(move || Box::pin(work()))
}
