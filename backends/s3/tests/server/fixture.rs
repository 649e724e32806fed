//! One server for the whole run, and a fresh bucket for each test.

use std::sync::OnceLock;

use aws_credential_types::Credentials;
use bytes::Bytes;
use headwater_bench::proxy::Proxy;
use headwater_bench::server::Server;
use headwater_core::authority::{ControlAuthority, HeadRead, Swap, Tag};
use headwater_core::name::{BranchName, RecordKey, RecordKind};
use headwater_s3::{S3Authority, Settings};

pub(crate) fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = Server::start().unwrap();
        println!("ran on {server}");
        server
    })
}

pub(crate) fn settings(endpoint: &str, bucket: &str) -> Settings {
    let server = server();
    let credentials = Credentials::new(server.access_key(), server.secret_key(), None, None, "test");
    Settings::new(bucket, "a b/lake").unwrap().endpoint(endpoint).unwrap().region(server.region()).credentials(credentials)
}

/// An authority in a bucket of its own.
pub(crate) fn fresh() -> S3Authority {
    let bucket = server().bucket().unwrap();
    S3Authority::new(settings(&server().endpoint(), &bucket)).unwrap()
}

/// An authority behind a proxy, its bucket, and the same authority without the proxy.
pub(crate) async fn proxied() -> (Proxy, S3Authority, S3Authority) {
    let bucket = server().bucket().unwrap();
    let proxy = Proxy::before(server()).await.unwrap();
    let through = S3Authority::new(settings(&proxy.endpoint(), &bucket)).unwrap();
    let direct = S3Authority::new(settings(&server().endpoint(), &bucket)).unwrap();
    (proxy, through, direct)
}

pub(crate) fn branch(name: &str) -> BranchName {
    name.parse().unwrap()
}

pub(crate) fn record(name: &str) -> RecordKey {
    RecordKey::new(RecordKind::Segment, [name])
}

pub(crate) fn body(text: impl Into<String>) -> Bytes {
    Bytes::from(text.into())
}

pub(crate) fn swapped(swap: Swap) -> Tag {
    match swap {
        Swap::Swapped(tag) => tag,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn head(authority: &S3Authority, name: &str) -> Option<(String, Tag)> {
    match authority.read_head(&branch(name), None).await.unwrap() {
        HeadRead::Found(bytes, tag) => Some((String::from_utf8(bytes.to_vec()).unwrap(), tag)),
        HeadRead::Absent => None,
        HeadRead::Unchanged => panic!("unchanged without a known tag"),
    }
}
