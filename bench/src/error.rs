//! What can go wrong around a server under test.

use std::path::PathBuf;

/// A result with [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no server, or no answer from it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No S3 server is at hand.
    #[error(
        "no S3 server is at hand: set RUSTFS to a rustfs binary, or run `ci/s3-server`, which installs SeaweedFS (or set WEED to its weed \
         binary), or set HEADWATER_S3_SERVER=host:port,access,secret to use one that runs"
    )]
    NoServer,
    /// The asked server is not at hand.
    #[error("{product} is not at hand: {remedy}")]
    NotInstalled {
        /// Its name.
        product: &'static str,
        /// What to install or set.
        remedy: &'static str,
    },
    /// A variable does not say what it should.
    #[error("{variable} is `{value}`; it must be {expected}")]
    Setting {
        /// The variable.
        variable: &'static str,
        /// Its value, without secrets.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// An archive is not the one its sums name.
    #[error("the SHA-256 of {} is {actual}, but {expected} is asked for", path.display())]
    Checksum {
        /// The archive.
        path: PathBuf,
        /// The digest it should have.
        expected: String,
        /// The digest it has.
        actual: String,
    },
    /// A command failed.
    #[error("{command} failed: {output}")]
    Command {
        /// What ran.
        command: String,
        /// Its exit status and the end of its output.
        output: String,
    },
    /// The server ended, or did not get ready.
    #[error("{server} {what}; its log ends with:\n{log}")]
    NotReady {
        /// Which server.
        server: String,
        /// What happened.
        what: &'static str,
        /// The end of its log.
        log: String,
    },
    /// The server refused a request that a test needs.
    #[error("{request} was answered with status {status}: {body}")]
    Refused {
        /// The request.
        request: String,
        /// The answer's status.
        status: u16,
        /// The answer's body.
        body: String,
    },
    /// A file, a process or a socket failed.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// No whole answer came: the connection could not be made, was closed, or did not speak HTTP.
    #[error("{request} got no whole answer")]
    Connection {
        /// The request.
        request: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// Says what was tried when an I/O error came.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { what: what.into(), source }
    }

    /// Says which request got no answer.
    pub(crate) fn connection<E: Into<Box<dyn std::error::Error + Send + Sync>>>(request: &str) -> impl FnOnce(E) -> Self {
        move |source| Self::Connection { request: request.to_owned(), source: source.into() }
    }
}
