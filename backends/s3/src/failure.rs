//! What went wrong with a request: the facts its settling goes by, and the error with its remedy.

use std::error::Error as StdError;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::RequestId;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use headwater_core::{Error, ErrorKind};

use crate::http::was_not_sent;
use crate::status::{End, Refusal, refusal};

/// A request that brought no success.
#[derive(Debug)]
pub(crate) struct Failure {
    end: Ended,
    /// What the server or the transport said, without secrets.
    detail: String,
    request: Option<String>,
    credentials: Option<NoCredentials>,
}

/// Why a request could not be signed.
#[derive(Clone, Copy, Debug)]
enum NoCredentials {
    /// None are set up, or wrongly.
    Missing,
    /// Their source fails.
    Failing,
}

#[derive(Debug)]
enum Ended {
    NotSent,
    Lost,
    Reply(u16, Option<String>),
}

impl Failure {
    /// The facts in an error of the SDK's; `sent` counts the requests handed to the HTTP client.
    pub(crate) fn new<E>(error: &SdkError<E, HttpResponse>, sent: u32) -> Self
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        let (end, detail) = match error {
            SdkError::ServiceError(service) => {
                let status = service.raw().status().as_u16();
                let code = service.err().code().map(ToOwned::to_owned);
                let said = [code.as_deref(), service.err().message()].into_iter().flatten().collect::<Vec<_>>().join(": ");
                let detail = if said.is_empty() { format!("HTTP status {status}") } else { format!("HTTP status {status}, {said}") };
                (Ended::Reply(status, code), detail)
            }
            error if sent == 0 || was_not_sent(error) => (Ended::NotSent, chain(error)),
            error => (Ended::Lost, chain(error)),
        };
        let request = error.request_id().map(ToOwned::to_owned);
        let credentials = find::<CredentialsError>(error).map(|error| match error {
            CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_) => NoCredentials::Missing,
            _ => NoCredentials::Failing,
        });
        Self { end, detail, request, credentials }
    }

    /// How the request ended.
    pub(crate) fn end(&self) -> End<'_> {
        match &self.end {
            Ended::NotSent => End::NotSent,
            Ended::Lost => End::Lost,
            Ended::Reply(status, code) => End::Reply(*status, code.as_deref()),
        }
    }

    /// The HTTP status and S3 error code of the reply, where there was one.
    pub(crate) fn reply(&self) -> Option<(u16, Option<&str>)> {
        match &self.end {
            Ended::Reply(status, code) => Some((*status, code.as_deref())),
            _ => None,
        }
    }

    /// What the server or the transport said.
    pub(crate) fn into_detail(self) -> String {
        self.detail
    }

    /// The error of a request that was not applied, or may be repeated.
    pub(crate) fn into_error(self, bucket: &str, key: &str) -> Error {
        let refusal = match self.end() {
            End::NotSent => Some(Refusal::NotSent),
            End::Lost => None,
            End::Reply(status, code) => refusal(status, code),
        };
        let (kind, message) = match refusal {
            _ if self.credentials.is_some() => self.without_credentials(),
            Some(Refusal::NotSent) => {
                (ErrorKind::Unavailable, "S3 could not be reached; check the endpoint and the network, and try again")
            }
            Some(Refusal::NoBucket) => (ErrorKind::InvalidInput, "the bucket does not exist; create it or correct its name"),
            Some(Refusal::Denied) => (ErrorKind::InvalidInput, "S3 refused access; check the credentials and what they are allowed"),
            Some(Refusal::Signature) => (
                ErrorKind::InvalidInput,
                "S3 refused the signature; set this host's clock (clock skew is the usual cause), or correct the secret key",
            ),
            Some(Refusal::Elsewhere) => {
                (ErrorKind::InvalidInput, "the bucket is in another region; set AWS_REGION or the URL option region to it")
            }
            Some(Refusal::NotImplemented) => {
                (ErrorKind::Unsupported, "the server does not implement what a catalog needs; use another store")
            }
            Some(Refusal::Other) => (ErrorKind::InvalidInput, "S3 refused the request"),
            Some(Refusal::Busy) | None => (ErrorKind::Unavailable, "S3 failed; try again"),
        };
        self.tell(Error::new(kind, message), bucket, key)
    }

    fn without_credentials(&self) -> (ErrorKind, &'static str) {
        match self.credentials {
            Some(NoCredentials::Failing) => (ErrorKind::Unavailable, "the source of S3 credentials failed; try again"),
            _ => (
                ErrorKind::InvalidInput,
                "no S3 credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile that has some",
            ),
        }
    }

    /// The error of a write that may have been applied.
    pub(crate) fn into_unsettled(self, bucket: &str, key: &str) -> Error {
        let message = "the write may have been applied, and no reply says whether; read it back to learn that";
        self.tell(Error::new(ErrorKind::Unavailable, message), bucket, key)
    }

    fn tell(self, error: Error, bucket: &str, key: &str) -> Error {
        let error = error.at("bucket", bucket).at("object", key);
        let error = match self.request {
            Some(request) => error.at("request", request),
            None => error,
        };
        error.because(self.detail)
    }
}

/// An error and its causes in one line, each said once.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !line.contains(&said) {
            line.push_str(": ");
            line.push_str(&said);
        }
        next = cause.source();
    }
    line
}

fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
