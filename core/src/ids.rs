//! Identifiers, and the injected source of time and randomness they are minted from.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::error::{Error, Result};

/// Where time and randomness come from. Nothing else in Headwater reads a clock or a random number, so a test that injects its own can
/// replay a run exactly.
pub trait Environment: Send + Sync + fmt::Debug {
    /// Milliseconds since 1970-01-01T00:00:00Z. May go backwards; nothing relies on its order.
    fn now_ms(&self) -> u64;
    /// 128 bits that no other call, in any process, returns.
    fn random(&self) -> u128;
}

/// The operating system's clock and randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    fn now_ms(&self) -> u64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(0))
    }

    fn random(&self) -> u128 {
        let mut bytes = [0; 16];
        // Without randomness two writers could mint one name; there is no weaker way to go on.
        #[allow(clippy::expect_used, reason = "a host without a random source cannot run this safely")]
        getrandom::fill(&mut bytes).expect("the operating system has no random source");
        u128::from_le_bytes(bytes)
    }
}

/// Mints identifiers from an [`Environment`].
#[derive(Clone, Debug)]
pub struct Mint(Arc<dyn Environment>);

impl Mint {
    /// A mint over this environment.
    pub fn new(environment: Arc<dyn Environment>) -> Self {
        Self(environment)
    }

    /// The environment's time, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.0.now_ms()
    }

    /// A fresh identifier dated now.
    pub fn ulid(&self) -> Ulid {
        self.ulid_at(self.0.now_ms())
    }

    /// A fresh identifier dated `ms`, so that identifiers sort as the times they carry.
    pub fn ulid_at(&self, ms: u64) -> Ulid {
        Ulid::from_parts(ms, self.0.random())
    }

    /// A fresh name for an object: a ULID in lower case, which keys keep as it is.
    pub fn name(&self) -> String {
        self.ulid().to_string().to_ascii_lowercase()
    }

    /// A number in `0..bound` (0 when `bound` is 0), for jitter.
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { (self.0.random() % u128::from(bound)) as u64 }
    }
}

macro_rules! ulid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(pub Ulid);

        impl $name {
            /// In lower case, as keys spell it.
            pub fn lower(&self) -> String {
                self.0.to_string().to_ascii_lowercase()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                // The crate also reads lower case and look-alike letters; one identifier has one spelling here.
                match Ulid::from_string(text) {
                    Ok(id) if id.to_string() == text => Ok(Self(id)),
                    _ => Err(Error::invalid(format!("{text:?} is not a ULID (26 characters, 0-9 and A-Z)"))),
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;
            fn try_from(text: String) -> Result<Self> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.to_string()
            }
        }
    };
}

ulid_id!(/// A catalog, minted when it is created.
    CatalogId);
ulid_id!(/// One claim of a data root, minted with the locator that makes it.
    RootId);
ulid_id!(/// A table, for its whole life: it survives renames, drops and explicit recreation.
    TableId);
ulid_id!(/// One life of a branch or a table: a recreated one gets another.
    Incarnation);
ulid_id!(/// A journal segment's unique name.
    SegmentId);
ulid_id!(/// One commit. Sorts by commit time.
    CommitId);

/// Names one publish for ever, so that a retry of it, even by another process, can be told from a new request. At most 64 characters of
/// letters, digits, `-`, `_` and `.`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Token(Arc<str>);

impl Token {
    /// A fresh token.
    pub fn mint(mint: &Mint) -> Self {
        Self(mint.ulid().to_string().into())
    }

    /// The token's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Token {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let fits = !text.is_empty() && text.len() <= 64;
        if fits && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
            Ok(Self(text.into()))
        } else {
            Err(Error::invalid(format!("{text:?} is not a token: use 1 to 64 letters, digits, '-', '_' or '.'")))
        }
    }
}

impl TryFrom<String> for Token {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Token> for String {
    fn from(token: Token) -> String {
        token.0.to_string()
    }
}
