//! What a control authority must do: keep small objects behind a linearizable compare-and-swap. Everything semantic stands above it, once.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::name::{BranchName, RecordKey};

/// The version of a head or record, as its backend names it. Opaque: it is compared and sent back byte for byte, never parsed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tag(Arc<str>);

impl Tag {
    /// A tag with this text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The tag's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a read of a head found.
#[derive(Clone, Debug)]
pub enum HeadRead {
    /// The branch was never created.
    Absent,
    /// The head still has the tag the caller knows. No body was transferred where the backend can avoid it.
    Unchanged,
    /// The head's bytes and their tag.
    Found(Bytes, Tag),
}

/// What a swap expects to replace.
#[derive(Clone, Copy, Debug)]
pub enum Expected<'a> {
    /// Nothing: the object must not exist yet.
    Absent,
    /// The version with this tag.
    Tag(&'a Tag),
}

/// How a swap ended. An expected race is an outcome, not an error.
#[derive(Debug)]
pub enum Swap {
    /// The body is in place, under this tag.
    Swapped(Tag),
    /// This request changed nothing and never will; as a rule because another version is in place. Only a read tells which one.
    Conflict,
    /// The reply was lost, or the request failed after an attempt that may have been applied: it may have landed, or may still land.
    Unknown(Error),
}

/// How a create ended.
#[derive(Debug)]
pub enum Create {
    /// The record is in place.
    Created,
    /// A record of that key exists. It may be this very request's own: read it back to settle whose it is.
    Exists,
    /// As [`Swap::Unknown`].
    Unknown(Error),
}

/// What an authority guarantees, as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// An acknowledged write survives loss of power.
    pub power_safe: bool,
    /// Processes on several hosts may write at once.
    pub multi_host: bool,
    /// A list shows every write acknowledged before it began.
    pub list_is_strong: bool,
    /// Writes per second to one key that the backend sustains, where it has such a limit.
    pub writes_per_second_per_key: Option<u32>,
}

/// How much a [`Finding`] matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// As it should be.
    Good,
    /// Could not be told.
    Unknown,
    /// Works, and costs money or care.
    Warning,
    /// A promise that commits stand on is not kept: no catalog may live here.
    Broken,
}

impl Severity {
    /// The severity's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Broken => "broken",
        }
    }
}

/// Something that was found out about a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub subject: String,
    /// How much it matters.
    pub severity: Severity,
    /// The fact, and the remedy where there is one.
    pub message: String,
}

/// A linearizable home for heads and records.
///
/// Implementations keep no meaning: bodies are bytes, names are already encoded. Every method is ONE request to the backend, apart from
/// the pages of a list. No method retries a write whose outcome it does not know: it answers `Unknown`. An `Err` is definite: the request
/// was not applied and never will be.
///
/// Cancellation: dropping a future leaves its write applied or not, never half applied.
#[async_trait]
pub trait ControlAuthority: Send + Sync + fmt::Debug {
    /// What this authority guarantees. No request.
    fn capability(&self) -> Capability;

    /// Tries every promise of this trait that a server could break, on objects of its own, which it removes again. Called before a catalog is
    /// created, and at will. An error means that the probe could not be made; a broken promise is a finding.
    async fn probe(&self) -> Result<Vec<Finding>>;

    /// Facts about how the backend is set up that an operator should know. Writes nothing.
    async fn inspect(&self) -> Result<Vec<Finding>>;

    /// Reads a branch's head. With a known tag that is still current, answers [`HeadRead::Unchanged`].
    async fn read_head(&self, branch: &BranchName, known: Option<&Tag>) -> Result<HeadRead>;

    /// Replaces a branch's head if it is the expected one. A swap that expects a tag of a head that does not exist is a conflict; it never creates.
    async fn swap_head(&self, branch: &BranchName, expected: Expected<'_>, body: Bytes) -> Result<Swap>;

    /// The names of all heads ever created, deleted branches' too.
    async fn list_branches(&self) -> Result<Vec<BranchName>>;

    /// Puts a record if its key is free.
    async fn create_record(&self, key: &RecordKey, body: Bytes) -> Result<Create>;

    /// Reads a record, or `None` where there is none.
    async fn read_record(&self, key: &RecordKey) -> Result<Option<(Bytes, Tag)>>;

    /// Replaces a record if it has the expected tag.
    async fn swap_record(&self, key: &RecordKey, expected: &Tag, body: Bytes) -> Result<Swap>;

    /// The keys below a prefix of whole segments (all records for an empty one), in no particular order.
    async fn list_records(&self, prefix: &str) -> Result<Vec<RecordKey>>;

    /// Removes a record. One that is not there is no error; a failed removal may have been applied, and may be repeated.
    async fn remove_record(&self, key: &RecordKey) -> Result<()>;
}
