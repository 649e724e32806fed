//! What to inject, into which requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::request::{Request, Verb};
use super::{Active, Injected, lock};

/// A fault of the network, of the server, or of what stands between.
///
/// Rules combine: delays add up, header changes all apply, and of two rules that decide whether the server gets the request (or what the
/// client is answered) the one injected first decides. A rule that has nothing left to decide does not fire.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Waits before the server gets the request.
    DelayRequest(Duration),
    /// Waits before the server gets the request, until the test says so: [`Injected::release`](super::Injected::release).
    Hold,
    /// Waits before the client gets the answer.
    DelayReply(Duration),
    /// Closes the connection; the server never gets the request.
    DropRequest,
    /// The server gets the request, and the client's connection is closed without an answer.
    DropReply,
    /// Closes the connection at once; the server gets the request later, or never.
    LandLate(Landing),
    /// The server gets the request twice, one after the other.
    Duplicate(Answer),
    /// The server gets the request, and the client its answer; the server gets it once more later, or never.
    LandAgain(Landing),
    /// Answers without asking the server.
    Reject(S3Error),
    /// The server gets the request, and the client gets this instead of the answer.
    Override(S3Error),
    /// Answers with the head and so many bytes of the body, then closes the connection.
    CutReply(usize),
    /// The server gets the head and so many bytes of the body, then both connections are closed.
    CutRequest(usize),
    /// The server gets the request without this header (as one that ignores it). Its signature is made anew if it covers the header, so the
    /// proxy must know the keys: see [`Proxy::before`](super::Proxy::before).
    StripRequestHeader(&'static str),
    /// The client gets the answer without this header.
    StripReplyHeader(&'static str),
    /// The client gets the answer with this header set.
    SetReplyHeader(&'static str, String),
    /// The client gets a weak ETag.
    WeakETag,
}

/// When a late request lands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landing {
    /// When the test says so: [`Injected::release`](super::Injected::release).
    OnRelease,
    /// When the server has answered the next request that the same rule matches, and before the client gets that answer. Say with
    /// [`Rule::nth`] which one is late: a late request never completes another.
    AfterNext,
}

/// Which of two answers the client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To the first copy.
    First,
    /// To the second copy.
    Second,
}

/// An error answer of S3: status and code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct S3Error {
    /// The status.
    pub status: u16,
    /// The code in the body.
    pub code: &'static str,
}

impl S3Error {
    /// 409: another conditional write to the key was under way.
    pub const CONDITIONAL_CONFLICT: Self = Self { status: 409, code: "ConditionalRequestConflict" };
    /// 412: a condition does not hold.
    pub const PRECONDITION_FAILED: Self = Self { status: 412, code: "PreconditionFailed" };
    /// 404: there is no such object.
    pub const NO_SUCH_KEY: Self = Self { status: 404, code: "NoSuchKey" };
    /// 403: not allowed.
    pub const ACCESS_DENIED: Self = Self { status: 403, code: "AccessDenied" };
    /// 403: the client's clock and the server's differ too much.
    pub const TIME_TOO_SKEWED: Self = Self { status: 403, code: "RequestTimeTooSkewed" };
    /// 500: the server failed.
    pub const INTERNAL: Self = Self { status: 500, code: "InternalError" };
    /// 503: too many requests.
    pub const SLOW_DOWN: Self = Self { status: 503, code: "SlowDown" };
}

/// A fault, and which requests it is injected into: all, unless narrowed. Conditions narrow together.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) fault: Fault,
    verbs: Vec<Verb>,
    contains: Option<String>,
    ends_with: Option<String>,
    header: Option<String>,
    after: Option<Arc<Active>>,
    turn: Turn,
}

/// Which of the matching requests, counted from 1.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Every,
    Nth(usize),
    First(usize),
}

impl Rule {
    /// Injects a fault into every request.
    pub fn new(fault: Fault) -> Self {
        Self { fault, verbs: Vec::new(), contains: None, ends_with: None, header: None, after: None, turn: Turn::Every }
    }

    /// Only requests of this verb; may be said several times.
    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verbs.push(verb);
        self
    }

    /// Only requests whose key (of a list: prefix) contains this.
    #[must_use]
    pub fn key_contains(mut self, text: impl Into<String>) -> Self {
        self.contains = Some(text.into());
        self
    }

    /// Only requests whose key (of a list: prefix) ends with this.
    #[must_use]
    pub fn key_ends_with(mut self, text: impl Into<String>) -> Self {
        self.ends_with = Some(text.into());
        self
    }

    /// Only requests with this condition, such as `if-match`.
    #[must_use]
    pub fn condition(mut self, header: impl Into<String>) -> Self {
        self.header = Some(header.into());
        self
    }

    /// Only requests that arrive after this other rule has fired.
    #[must_use]
    pub fn after(mut self, other: &Injected) -> Self {
        self.after = Some(other.active.clone());
        self
    }

    /// Only the `n`-th matching request, counted from 1.
    #[must_use]
    pub fn nth(mut self, n: usize) -> Self {
        self.turn = Turn::Nth(n);
        self
    }

    /// Only the first `n` matching requests.
    #[must_use]
    pub fn first(mut self, n: usize) -> Self {
        self.turn = Turn::First(n);
        self
    }

    pub(super) fn matches(&self, request: &Request) -> bool {
        let mut keys = std::iter::once(&request.key).chain(&request.keys);
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && self.after.as_ref().is_none_or(|other| lock(&other.progress).fired > 0)
            && self.header.as_ref().is_none_or(|header| request.condition(header).is_some())
            && keys.any(|key| {
                self.contains.as_ref().is_none_or(|text| key.contains(text))
                    && self.ends_with.as_ref().is_none_or(|text| key.ends_with(text))
            })
    }

    /// Whether the `n`-th matching request is meant.
    pub(super) fn is_due(&self, n: usize) -> bool {
        match self.turn {
            Turn::Every => true,
            Turn::Nth(nth) => n == nth,
            Turn::First(first) => n <= first,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} into ", self.fault)?;
        match self.turn {
            Turn::Every => write!(f, "every request")?,
            Turn::Nth(n) => write!(f, "request {n}")?,
            Turn::First(n) => write!(f, "the first {n} requests")?,
        }
        for (word, text) in [("containing", &self.contains), ("ending with", &self.ends_with), ("on condition", &self.header)] {
            if let Some(text) = text {
                write!(f, " {word} `{text}`")?;
            }
        }
        if let Some(after) = &self.after {
            write!(f, " after {:?}", after.rule.fault)?;
        }
        for verb in &self.verbs {
            write!(f, " {verb}")?;
        }
        Ok(())
    }
}
