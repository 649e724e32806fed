//! Sends a request on to the server, over a connection of its own: a request is never lost, or sent again, because a pooled one had closed.

use std::net::SocketAddr;

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::Response;
use hyper::body::Frame;
use hyper::header::{AUTHORIZATION, CONNECTION, HeaderMap, TRANSFER_ENCODING};
use hyper::http::request::Parts;

use crate::client::{exchange, sign_without};
use crate::{Error, Result};

/// A connection was closed on purpose.
#[derive(Debug, thiserror::Error)]
#[error("the proxy closes the connection, as planned")]
pub(super) struct Closed;

pub(super) type Body = BoxBody<Bytes, Closed>;

/// A whole request.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    head: Parts,
    body: Bytes,
}

impl Stored {
    pub(super) fn new(mut head: Parts, body: Bytes) -> Self {
        remove_framing(&mut head.headers);
        Self { head, body }
    }

    /// Removes a header, and signs anew if the signature covered it.
    pub(super) fn strip(&mut self, name: &'static str, secret_key: Option<&str>) {
        let headers = &self.head.headers;
        let target = self.head.uri.path_and_query().map_or("/", |target| target.as_str());
        let signed = secret_key.and_then(|key| sign_without(key, self.head.method.as_str(), target, headers, name));
        self.head.headers.remove(name);
        if let Some(authorization) = signed.and_then(|value| value.parse().ok()) {
            self.head.headers.insert(AUTHORIZATION, authorization);
        }
    }

    /// Sends it once, and reads the whole answer.
    pub(super) async fn send(&self, server: SocketAddr) -> Result<Response<Bytes>> {
        self.send_body(server, full(self.body.clone())).await
    }

    /// Sends the head and so many bytes of the body, and closes the connection.
    pub(super) async fn send_cut(&self, server: SocketAddr, length: usize) {
        let _ = self.send_body(server, cut(&self.body, length)).await;
    }

    async fn send_body(&self, server: SocketAddr, body: Body) -> Result<Response<Bytes>> {
        let what = format!("{} {}", self.head.method, self.head.uri.path());
        let mut request = hyper::Request::new(body);
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = self.head.uri.clone();
        *request.headers_mut() = self.head.headers.clone();
        let mut answer = exchange(server, request).await.map_err(Error::connection(&what))?;
        remove_framing(answer.headers_mut());
        Ok(answer)
    }
}

/// Removes what belongs to one connection only.
fn remove_framing(headers: &mut HeaderMap) {
    headers.remove(CONNECTION);
    headers.remove(TRANSFER_ENCODING);
    headers.remove("keep-alive");
}

pub(super) fn full(body: Bytes) -> Body {
    Full::new(body).map_err(|never| match never {}).boxed()
}

/// A body that ends before its announced length.
pub(super) fn cut(body: &Bytes, length: usize) -> Body {
    let part = body.slice(..length.min(body.len()));
    let part = futures::stream::iter((!part.is_empty()).then(|| Ok(Frame::data(part))));
    // The end comes a little later, so that the part is on the wire before the connection is closed.
    let end = futures::stream::once(async {
        tokio::task::yield_now().await;
        Err(Closed)
    });
    BodyExt::boxed(StreamBody::new(part.chain(end)))
}
