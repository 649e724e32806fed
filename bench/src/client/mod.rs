//! A minimal S3 client: one signed request over a connection of its own, no retries, no redirects.

mod signature;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::HeaderMap;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use self::signature::{Signer, Unsigned};
pub(crate) use self::signature::{hex, sign_without};
use crate::{Error, Result};

/// The region that requests are signed for.
pub const REGION: &str = "us-east-1";

/// Sends signed requests to one address.
#[derive(Clone, Debug)]
pub struct Client {
    address: SocketAddr,
    access_key: String,
    secret_key: String,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Response {
    /// A header, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The ETag.
    pub fn etag(&self) -> Option<&str> {
        self.header("etag")
    }
}

/// A request: a method on a path such as `/bucket/key`, with query, headers and body.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    /// The method.
    pub method: &'a str,
    /// The path, not encoded.
    pub path: &'a str,
    /// The query, not encoded.
    pub query: &'a [(&'a str, &'a str)],
    /// Headers; they are signed, too.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body.
    pub body: Bytes,
}

impl Client {
    /// A client of the server, or of a proxy before it, at this address.
    pub fn new(address: SocketAddr, access_key: impl Into<String>, secret_key: impl Into<String>) -> Self {
        Self { address, access_key: access_key.into(), secret_key: secret_key.into() }
    }

    /// GETs an object.
    pub async fn get(&self, path: &str) -> Result<Response> {
        self.send(Request { method: "GET", path, ..Request::default() }).await
    }

    /// PUTs an object, on conditions if there are such headers.
    pub async fn put(&self, path: &str, body: impl Into<Bytes>, headers: &[(&str, &str)]) -> Result<Response> {
        self.send(Request { method: "PUT", path, headers, body: body.into(), ..Request::default() }).await
    }

    /// DELETEs an object.
    pub async fn delete(&self, path: &str) -> Result<Response> {
        self.send(Request { method: "DELETE", path, ..Request::default() }).await
    }

    /// Signs a request, sends it once, and reads the whole answer. Whatever its status, an answer is not an error.
    pub async fn send(&self, request: Request<'_>) -> Result<Response> {
        let what = format!("{} {}", request.method, request.path);
        let host = self.address.to_string();
        let mut headers: BTreeMap<_, _> =
            request.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_owned())).collect();
        headers.insert("host".to_owned(), host);
        let signer = Signer { access_key: &self.access_key, secret_key: &self.secret_key, region: REGION };
        let Request { method, path, query, .. } = request;
        let signed = signer.sign(Unsigned { method, path, query, headers, body: &request.body, time: &now() });

        let mut wire = hyper::Request::builder().method(method).uri(&signed.target);
        for (name, value) in &signed.headers {
            wire = wire.header(name, value);
        }
        let wire = wire.body(Full::new(request.body)).map_err(Error::connection(&what))?;
        let response = exchange(self.address, wire).await.map_err(Error::connection(&what))?;
        let (head, body) = response.into_parts();
        Ok(Response { status: head.status.as_u16(), headers: head.headers, body })
    }
}

/// Sends one request over a connection of its own, and reads the whole answer.
pub(crate) async fn exchange<B>(
    address: SocketAddr,
    request: hyper::Request<B>,
) -> Result<hyper::Response<Bytes>, Box<dyn std::error::Error + Send + Sync>>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let answered = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        Ok(hyper::Response::from_parts(head, body.collect().await?.to_bytes()))
    }
    .await;
    connection.abort();
    answered
}

/// The time in the form that signatures use.
fn now() -> String {
    #[expect(clippy::disallowed_methods, reason = "a server compares a signature's time with its own clock")]
    let now = std::time::SystemTime::now();
    chrono::DateTime::<chrono::Utc>::from(now).format("%Y%m%dT%H%M%SZ").to_string()
}
