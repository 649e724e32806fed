//! One HTTP client under everything: the SDK's requests and object_store's share its connections and its TLS.
//!
//! It sends a request a second time by itself only where hyper-util knows that not a byte of it was written: it was queued on a pooled
//! connection that turned out closed, and hyper handed it back (`TrySendError::take_message`, `legacy::client::send_request`). A request
//! whose writing began fails instead. So a conditional write reaches the server at most once per call.

use std::error::Error as StdError;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_http_client::{Builder, Connector};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use futures::stream;
use headwater_core::{Error, ErrorKind, Result};
use http_body_util::{BodyDataStream, StreamBody};
use hyper_util::client::legacy;
use object_store::client as objects;
use objects::{HttpError, HttpErrorKind, HttpResponseBody};

use crate::observer::{Observer, Watch};

/// How long a connection may take to be made, with its TLS.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);
/// How long a request may take to its reply, besides its body's own time.
const REPLY: Duration = Duration::from_secs(30);
/// How long a body may stand still.
pub(crate) const STALL: Duration = Duration::from_secs(20);
/// A request body that moves slower than this is given up.
const BYTES_PER_SECOND: u64 = 64 * 1024;

/// The shared client.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    connector: SharedHttpConnector,
    /// What the server calls itself, from its first reply that says so.
    server: Arc<OnceLock<String>>,
    observer: Option<Arc<dyn Observer>>,
}

impl Http {
    /// A client; without `tls` it reads no certificates and reaches plain HTTP only, and never by a proxy. Reads files: not for an async
    /// thread.
    pub(crate) fn new(tls: bool, observer: Option<Arc<dyn Observer>>) -> Result<Self> {
        let trust = TlsContext::builder().with_trust_store(TrustStore::empty().with_native_roots(tls)).build();
        let trust = trust.map_err(|source| Error::new(ErrorKind::InvalidInput, "TLS could not be set up").because(source))?;
        let limits = HttpConnectorSettings::builder().connect_timeout(CONNECT).build();
        // HTTPS_PROXY and NO_PROXY.
        let proxy = if tls { ProxyConfig::from_env() } else { ProxyConfig::disabled() };
        let connector = Connector::builder().connector_settings(limits).proxy_config(proxy).tls_provider(ring()).tls_context(trust).build();
        Ok(Self { connector: SharedHttpConnector::new(connector), server: Arc::default(), observer })
    }

    /// This client for the SDK. Limits of time are the SDK's own; this one keeps to [`CONNECT`].
    pub(crate) fn for_sdk(&self) -> SharedHttpClient {
        let connector = SharedHttpConnector::new(self.clone());
        http_client_fn(move |_, _| connector.clone())
    }

    /// What the server calls itself.
    pub(crate) fn server(&self) -> Option<&str> {
        self.server.get().map(String::as_str)
    }
}

/// The client the credential chain sets up for itself: its sources want limits of their own.
pub(crate) fn for_credentials() -> SharedHttpClient {
    Builder::new().tls_provider(ring()).build_https()
}

fn ring() -> Provider {
    Provider::Rustls(CryptoMode::Ring)
}

impl HttpConnector for Http {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let watch = self.observer.clone().map(|observer| Watch::begin(observer, &request));
        let (reply, server) = (self.connector.call(request), self.server.clone());
        HttpConnectorFuture::new(async move {
            let reply = reply.await?;
            if let Some(watch) = watch {
                watch.answered(&reply);
            }
            if let Some(name) = reply.headers().get("server") {
                server.get_or_init(|| name.chars().filter(|c| !c.is_control()).take(60).collect());
            }
            Ok(reply)
        })
    }
}

impl objects::HttpConnector for Http {
    fn connect(&self, _: &object_store::ClientOptions) -> object_store::Result<objects::HttpClient> {
        Ok(objects::HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl objects::HttpService for Http {
    async fn call(&self, request: objects::HttpRequest) -> Result<objects::HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let limit = REPLY + Duration::from_secs(body.content_length() as u64 / BYTES_PER_SECOND);
        let body = match body.as_bytes() {
            Some(bytes) => SdkBody::from(bytes.clone()),
            None => SdkBody::from_body_1_x(body),
        };
        let request = HttpRequest::try_from(http::Request::from_parts(parts, body));
        let request = request.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let reply = match tokio::time::timeout(limit, HttpConnector::call(self, request)).await {
            Ok(reply) => reply.map_err(failed)?,
            Err(late) => return Err(HttpError::new(HttpErrorKind::Timeout, late)),
        };
        let reply = reply.try_into_http1x().map_err(|error| HttpError::new(HttpErrorKind::Decode, error))?;
        Ok(reply.map(watched))
    }
}

/// object_store repeats a request that failed with `Connect` or `Request`, whatever it is, and one with `Timeout` or `Interrupted` only if
/// it may be applied twice. So only what certainly was not sent may be called `Connect`.
fn failed(error: ConnectorError) -> HttpError {
    let kind = if was_not_sent(&error) {
        HttpErrorKind::Connect
    } else if error.is_timeout() {
        HttpErrorKind::Timeout
    } else if error.is_user() {
        HttpErrorKind::Unknown
    } else {
        HttpErrorKind::Interrupted
    };
    HttpError::new(kind, error)
}

/// Whether this failure came before a connection stood, so that no byte of the request was written.
pub(crate) fn was_not_sent(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<legacy::Error>() {
            return error.is_connect();
        }
        next = error.source();
    }
    false
}

/// A reply's body that fails when it stands still.
fn watched(body: SdkBody) -> HttpResponseBody {
    let frames = stream::try_unfold(BodyDataStream::new(body), async |mut body| {
        let next = tokio::time::timeout(STALL, futures::StreamExt::next(&mut body)).await;
        match next.map_err(|late| HttpError::new(HttpErrorKind::Timeout, late))? {
            None => Ok(None),
            Some(Ok(bytes)) => Ok::<_, HttpError>(Some((frame(bytes), body))),
            Some(Err(error)) => Err(HttpError::new_boxed(HttpErrorKind::Interrupted, error)),
        }
    });
    HttpResponseBody::new(StreamBody::new(frames))
}

fn frame(bytes: Bytes) -> http_body::Frame<Bytes> {
    http_body::Frame::data(bytes)
}
