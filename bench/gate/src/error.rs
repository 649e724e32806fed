//! Why the gate could not measure. What it measured and did not like is no error, but a verdict.

/// A result with [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// No server, or no answer from it.
    #[error(transparent)]
    Server(#[from] headwater_bench::Error),
    /// An operation failed that is to be measured.
    #[error("{what} failed")]
    Catalog {
        /// What was done.
        what: String,
        /// Why it failed.
        #[source]
        source: headwater::Error,
    },
    /// An object of the gate's own could not be written, read or removed.
    #[error("{what} failed")]
    Objects {
        /// What was done.
        what: String,
        /// Why it failed.
        #[source]
        source: object_store::Error,
    },
    /// A file could not be read or written.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// An operation did not do what it is measured for, or its counters say different things: no figure of it counts.
    #[error("{what} cannot be trusted: {problem}")]
    Untrusted {
        /// What was measured.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    pub(super) fn catalog(what: impl Into<String>) -> impl FnOnce(headwater::Error) -> Self {
        let what = what.into();
        move |source| Self::Catalog { what, source }
    }

    pub(super) fn objects(what: impl Into<String>) -> impl FnOnce(object_store::Error) -> Self {
        let what = what.into();
        move |source| Self::Objects { what, source }
    }

    /// Says what was tried when a file failed.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    pub(super) fn untrusted(what: &str, problem: impl Into<String>) -> Self {
        Self::Untrusted { what: what.to_owned(), problem: problem.into() }
    }
}
