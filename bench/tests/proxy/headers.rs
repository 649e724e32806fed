//! Headers taken away or changed: servers that ignore preconditions, or give odd tags.

use headwater_bench::proxy::{Fault, Proxy, Rule, Verb};
use headwater_bench::server::Server;

use super::{Lab, status};

#[tokio::test]
async fn a_server_may_ignore_preconditions() {
    let lab = Lab::new().await;
    let ignored = lab.proxy.inject(Rule::new(Fault::StripRequestHeader("if-none-match")));
    assert_eq!([status(lab.create("a", "1").await), status(lab.create("a", "2").await)], [200, 200]);
    assert_eq!((ignored.fired(), lab.stored("a").await.as_deref()), (2, Some("2")));
    let requests = lab.proxy.requests();
    assert!(requests.iter().all(|r| r.condition("if-none-match") == Some("*")), "recorded as sent");

    let wrong = [("if-match", "\"wrong\"")];
    assert_eq!(status(lab.client.put(&lab.path("a"), "3", &wrong).await), 412);
    let ignored = lab.proxy.inject(Rule::new(Fault::StripRequestHeader("if-match")).verb(Verb::Put));
    assert_eq!(status(lab.client.put(&lab.path("a"), "3", &wrong).await), 200);
    assert_eq!(status(lab.client.put(&lab.path("absent"), "3", &wrong).await), 200);
    assert_eq!((ignored.fired(), lab.stored("a").await.as_deref()), (2, Some("3")));
}

#[tokio::test]
async fn a_signature_over_a_header_needs_the_keys() {
    let server = Server::shared().expect("a server");
    let proxy = Proxy::start(server.address()).await.expect("a proxy");
    let path = format!("/{}/a", server.bucket().expect("a bucket"));
    proxy.inject(Rule::new(Fault::StripRequestHeader("if-none-match")));
    let client = server.client_at(proxy.addr());
    assert_eq!(status(client.put(&path, "1", &[("if-none-match", "*")]).await), 403, "the signature no longer fits");
    assert_eq!(status(client.put(&path, "1", &[]).await), 200);
}

#[tokio::test]
async fn the_host_goes_through_as_the_client_signed_it() {
    let lab = Lab::new().await;
    // The client signs the proxy's address; the server listens on another one, and accepts.
    assert_eq!(status(lab.put("a", "1").await), 200);
    assert_eq!(lab.get("a").await.expect("an answer").body, "1");
}

#[tokio::test]
async fn tags_may_be_weak_missing_or_other() {
    let lab = Lab::new().await;
    let strong = lab.put("a", "1").await.expect("an answer").etag().expect("a tag").to_owned();
    let weak = lab.proxy.inject(Rule::new(Fault::WeakETag).verb(Verb::Get).nth(1));
    let missing = lab.proxy.inject(Rule::new(Fault::StripReplyHeader("etag")).verb(Verb::Get).nth(2));
    let other = lab.proxy.inject(Rule::new(Fault::SetReplyHeader("etag", "\"other\"".to_owned())).verb(Verb::Get).nth(3));
    let mut tags = Vec::new();
    for _ in 0..4 {
        let got = lab.get("a").await.expect("an answer");
        assert_eq!((got.status, got.body.as_ref()), (200, b"1".as_ref()));
        tags.push(got.etag().map(str::to_owned));
    }
    assert_eq!(tags, [Some(format!("W/{strong}")), None, Some("\"other\"".to_owned()), Some(strong)]);
    assert_eq!((weak.fired(), missing.fired(), other.fired()), (1, 1, 1));
}
