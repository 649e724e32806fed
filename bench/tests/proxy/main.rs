//! Everything the proxy records and injects, before a real server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "the whole file is a test")]

mod faults;
mod headers;
mod landing;
mod recording;

use headwater_bench::client::{Client, Response};
use headwater_bench::proxy::Proxy;
use headwater_bench::server::Server;
use headwater_bench::{Error, Result};

/// A proxy, a client of it, one of the server behind it, and a bucket of the test's own.
struct Lab {
    proxy: Proxy,
    client: Client,
    direct: Client,
    bucket: String,
}

impl Lab {
    async fn new() -> Self {
        let server = Server::shared().expect("a server");
        let proxy = Proxy::before(server).await.expect("a proxy");
        let (client, direct) = (server.client_at(proxy.addr()), server.client());
        Self { proxy, client, direct, bucket: server.bucket().expect("a bucket") }
    }

    fn path(&self, key: &str) -> String {
        format!("/{}/{key}", self.bucket)
    }

    async fn put(&self, key: &str, body: &'static str) -> Result<Response> {
        self.client.put(&self.path(key), body, &[]).await
    }

    async fn create(&self, key: &str, body: &'static str) -> Result<Response> {
        self.client.put(&self.path(key), body, &[("if-none-match", "*")]).await
    }

    async fn get(&self, key: &str) -> Result<Response> {
        self.client.get(&self.path(key)).await
    }

    /// What the server has, past the proxy.
    async fn stored(&self, key: &str) -> Option<String> {
        let got = self.direct.get(&self.path(key)).await.expect("an answer");
        match got.status {
            200 => Some(String::from_utf8(got.body.to_vec()).expect("text")),
            404 => None,
            status => panic!("{status} for {key}"),
        }
    }
}

/// The status of an answer.
fn status(answer: Result<Response>) -> u16 {
    answer.expect("an answer").status
}

/// Whether the connection was closed without a whole answer.
fn is_cut(answer: &Result<Response>) -> bool {
    matches!(answer, Err(Error::Connection { .. }))
}
