//! The one error type of this crate: what failed, during which operation, about which object, and whether to try again.

use std::fmt;

use crate::ids::Token;

/// A result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure an [`Error`] is. Code decides by this, never by message text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The named catalog, branch, table, commit or object does not exist.
    NotFound,
    /// The name is taken.
    AlreadyExists,
    /// Other writers kept winning until the bounded number of attempts ran out. Nothing was published.
    Conflict,
    /// A value the transaction had read kept changing until the bounded number of attempts ran out. Nothing was published.
    ReadSetChanged,
    /// This writer lost its fence to another one.
    StaleWriter,
    /// The outcome of a publish could not be learned. Only the same token settles it.
    PublishUnknown,
    /// The token names an earlier, different request.
    TokenReused,
    /// The token's place in history was pruned: whether it committed can no longer be told.
    TokenExpired,
    /// Unfinished work of another writer holds a table this request needs.
    RecoveryPending,
    /// The asked state lies below the retention floor.
    SnapshotExpired,
    /// A control object, version object or data file is damaged or missing.
    Corrupt,
    /// This build, store or backend does not do what was asked.
    Unsupported,
    /// The catalog's format or required features are not known to this build.
    FormatMismatch,
    /// The backend does not keep a promise that commits stand on, such as honouring a precondition.
    PreconditionIgnored,
    /// The caller's input is wrong; the message says where and what to do.
    InvalidInput,
    /// The backend could not be reached or refused for a passing reason.
    Unavailable,
}

impl ErrorKind {
    /// The kind's name, as `--json` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::ReadSetChanged => "ReadSetChanged",
            Self::StaleWriter => "StaleWriter",
            Self::PublishUnknown => "PublishUnknown",
            Self::TokenReused => "TokenReused",
            Self::TokenExpired => "TokenExpired",
            Self::RecoveryPending => "RecoveryPending",
            Self::SnapshotExpired => "SnapshotExpired",
            Self::Corrupt => "Corrupt",
            Self::Unsupported => "Unsupported",
            Self::FormatMismatch => "FormatMismatch",
            Self::PreconditionIgnored => "PreconditionIgnored",
            Self::InvalidInput => "InvalidInput",
            Self::Unavailable => "Unavailable",
        }
    }

    fn verdict(self) -> Retry {
        match self {
            Self::Conflict | Self::ReadSetChanged | Self::RecoveryPending | Self::Unavailable => Retry::Retry,
            Self::PublishUnknown => Retry::ResolveFirst,
            _ => Retry::Permanent,
        }
    }
}

/// Whether the failed request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same request will fail again.
    Permanent,
    /// The same request may succeed later; nothing of it was published.
    Retry,
    /// It may have been published: send it again only with the same token.
    ResolveFirst,
}

impl Retry {
    /// The verdict's name, as `--json` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Permanent => "permanent",
            Self::Retry => "retry",
            Self::ResolveFirst => "resolve-first",
        }
    }
}

/// A failure: kind, operation, context, source and retry verdict.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    operation: Option<&'static str>,
    context: Vec<(&'static str, String)>,
    retry: Retry,
    token: Option<Token>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of this kind. The message says what is wrong and, where there is one, the remedy.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            operation: None,
            context: Vec::new(),
            retry: kind.verdict(),
            token: None,
            source: None,
        }))
    }

    /// Short for a kind [`ErrorKind::Corrupt`] about one object.
    pub fn corrupt(object: impl fmt::Display, what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Corrupt, what.to_string()).at("object", object)
    }

    /// Short for a kind [`ErrorKind::InvalidInput`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// Adds what the error is about: a file, row, column, table, branch or object.
    pub fn at(mut self, what: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((what, value.to_string()));
        self
    }

    /// Names the operation, unless an inner one is named already.
    pub fn during(mut self, operation: &'static str) -> Self {
        self.0.operation.get_or_insert(operation);
        self
    }

    /// Adds the underlying cause.
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Adds the token that settles an unknown outcome.
    pub fn with_token(mut self, token: Token) -> Self {
        self.0.token = Some(token);
        self
    }

    /// The same error for another receiver; its cause becomes text.
    pub fn duplicate(&self) -> Self {
        Self(Box::new(Inner {
            kind: self.0.kind,
            message: self.0.message.clone(),
            operation: self.0.operation,
            context: self.0.context.clone(),
            retry: self.0.retry,
            token: self.0.token.clone(),
            source: self.0.source.as_ref().map(|source| source.to_string().into()),
        }))
    }

    /// Marks a failure of a request whose token may have been used before: that it failed now says nothing of then.
    pub(crate) fn settled_by(mut self, token: &Token) -> Self {
        if self.0.retry == Retry::Retry {
            self.0.retry = Retry::ResolveFirst;
        }
        self.0.token = Some(token.clone());
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether to try again.
    pub fn retry(&self) -> Retry {
        self.0.retry
    }

    /// The operation that failed, where it is known.
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// The token that settles a [`ErrorKind::PublishUnknown`].
    pub fn token(&self) -> Option<&Token> {
        self.0.token.as_ref()
    }

    /// The context values of that name, outermost last.
    pub fn context(&self, what: &str) -> Option<&str> {
        self.0.context.iter().find(|(name, _)| *name == what).map(|(_, value)| value.as_str())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for (i, (what, value)) in self.0.context.iter().enumerate() {
            write!(f, "{}{what} {value}", if i == 0 { " (" } else { ", " })?;
        }
        if !self.0.context.is_empty() {
            f.write_str(")")?;
        }
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.kind.name())?;
        if let Some(operation) = self.0.operation {
            write!(f, " during {operation}")?;
        }
        write!(f, ": {self}")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl From<object_store::Error> for Error {
    fn from(source: object_store::Error) -> Self {
        use object_store::Error as E;
        // A backend of ours says more than the library's error around it.
        if let E::Generic { source: inner, .. } = &source
            && let Some(own) = inner.downcast_ref::<Self>()
        {
            return own.duplicate();
        }
        let (kind, message) = match &source {
            E::NotFound { .. } => (ErrorKind::NotFound, "the object does not exist"),
            E::AlreadyExists { .. } => (ErrorKind::AlreadyExists, "the object exists already"),
            E::NotSupported { .. } | E::NotImplemented { .. } => (ErrorKind::Unsupported, "the object store does not support this"),
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => {
                (ErrorKind::InvalidInput, "the object store refused access; check the credentials and permissions")
            }
            _ => (ErrorKind::Unavailable, "the object store failed"),
        };
        Self::new(kind, message).because(source)
    }
}
