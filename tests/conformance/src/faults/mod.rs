//! A bad network in front of any backend: it loses, delays and repeats requests, by plan or by a seeded random source.
//!
//! A [`Network`] belongs to one client. [`FaultyAuthority`] and [`FaultyObjects`] stand in front of what the client uses and ask it what
//! becomes of each request. They keep to the contract of the traits: what may have been applied is `Unknown`, and an `Err` of a swap or
//! create is definite.

mod authority;
mod network;
mod objects;
mod random;
#[cfg(test)]
mod tests;

pub use authority::FaultyAuthority;
pub use network::{Meanwhile, Network, Passed, Weather};
pub use objects::FaultyObjects;
pub use random::{Random, SeededEnvironment};

/// When a request that is under way arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum When {
    /// After this many more requests of the same client have been sent.
    Requests(u32),
    /// When the test calls [`Network::release`].
    Released,
}

/// What the network does to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// This request, and the ones behind it until so many are gone, never arrive: `503`, or silence.
    RequestsLost(u32),
    /// This request, and the ones behind it until there are so many, are applied and nobody learns it.
    RepliesLost(u32),
    /// Nobody answers; the request is applied later.
    Late(When),
    /// Applied and answered; later a second copy arrives, whose outcome nobody learns.
    Repeated(When),
    /// Two copies arrive one after the other, and the outcome of the second is delivered: a swap conflicts with itself.
    Echoed,
    /// A swap is told of a conflict where there is none, and not applied (`409`). What cannot tell the difference is only not applied.
    Refused,
    /// A definite error: the request was not applied and never will be.
    Rejected,
    /// Applied now; the reply comes after every other task has had so many turns.
    Delayed(u32),
    /// Applied now; the reply comes when the test calls [`Network::release`].
    Held,
}

impl Fault {
    /// Whether the fault means anything to a request of that verb (as [`crate::tap`] names them).
    pub fn fits(self, verb: &str) -> bool {
        let write = !verb.starts_with("GET") && !verb.starts_with("HEAD") && !verb.starts_with("LIST");
        match self {
            Self::RequestsLost(_) | Self::RepliesLost(_) | Self::Delayed(_) | Self::Held => true,
            Self::Late(_) | Self::Repeated(_) | Self::Echoed | Self::Rejected => write,
            Self::Refused => verb.starts_with("SWAP"),
        }
    }
}

/// A fault that is to happen to the request of that verb with that number (from 0) among those sent since the plan was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Planned {
    /// The verb, as [`crate::tap`] names it.
    pub verb: &'static str,
    /// Which request of that verb.
    pub nth: usize,
    /// What happens to it.
    pub fault: Fault,
}
