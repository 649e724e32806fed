//! The records equal what was sent.

use std::collections::BTreeMap;
use std::time::Duration;

use headwater_bench::client::Request;
use headwater_bench::proxy::{Fault, MAX_BODY, Rule, Verb, counts};

use super::{Lab, is_cut, status};

#[tokio::test]
async fn objects_are_counted_with_status_conditions_and_bytes() {
    let lab = Lab::new().await;
    let path = lab.path("a/ö 1");
    let created = lab.create("a/ö 1", "hello").await.expect("an answer");
    let tag = created.etag().expect("a tag").to_owned();
    assert_eq!(status(lab.create("a/ö 1", "other").await), 412);
    assert_eq!(lab.get("a/ö 1").await.expect("an answer").body, "hello");
    let range = Request { method: "GET", path: &path, headers: &[("range", "bytes=1-3")], ..Request::default() };
    assert_eq!(lab.client.send(range).await.expect("an answer").body, "ell");
    let unchanged = Request { method: "GET", path: &path, headers: &[("if-none-match", &tag)], ..Request::default() };
    assert_eq!(status(lab.client.send(unchanged).await), 304);
    let head = lab.client.send(Request { method: "HEAD", path: &path, ..Request::default() }).await.expect("an answer");
    assert_eq!((head.status, head.header("content-length")), (200, Some("5")));
    assert_eq!(status(lab.client.put(&path, "world!", &[("if-match", &tag)]).await), 200);
    assert_eq!(status(lab.get("missing").await), 404);
    assert_eq!(status(lab.client.delete(&path).await), 204);

    let requests = lab.proxy.requests();
    let seen: Vec<_> = requests.iter().map(|r| (r.verb, r.key.as_str(), r.status, r.sent)).collect();
    let key = "a/ö 1";
    assert_eq!(
        seen,
        [
            (Verb::Put, key, Some(200), 5),
            (Verb::Put, key, Some(412), 5),
            (Verb::Get, key, Some(200), 0),
            (Verb::Get, key, Some(206), 0),
            (Verb::Get, key, Some(304), 0),
            (Verb::Head, key, Some(200), 0),
            (Verb::Put, key, Some(200), 6),
            (Verb::Get, "missing", Some(404), 0),
            (Verb::Delete, key, Some(204), 0),
        ],
        "\n{}",
        lab.proxy.render()
    );
    let received: Vec<_> = requests.iter().map(|r| r.received).collect();
    assert_eq!(&received[2..6], [5, 3, 0, 0]);
    assert_eq!(requests[0].condition("If-None-Match"), Some("*"));
    assert_eq!(requests[4].condition("if-none-match"), Some(tag.as_str()));
    assert_eq!(requests[6].condition("if-match"), Some(tag.as_str()));
    assert_eq!((requests[3].range.as_deref(), requests[2].range.as_deref()), (Some("bytes=1-3"), None));
    assert!(requests.iter().all(|r| r.bucket == lab.bucket && r.forwarded == r.status.as_slice() && r.faults.is_empty()));
    assert_eq!(lab.proxy.stages(), requests.len());
    assert_eq!(lab.proxy.fired(), 0);
}

#[tokio::test]
async fn each_page_part_and_deleted_key_is_counted() {
    let lab = Lab::new().await;
    let (bucket, big) = (format!("/{}", lab.bucket), lab.path("big"));
    for key in ["p/1", "p/2", "p/3"] {
        assert_eq!(status(lab.put(key, "x").await), 200);
    }
    // Three keys, two at a time.
    let list = [("list-type", "2"), ("prefix", "p/"), ("max-keys", "2")];
    let first = lab.client.send(Request { method: "GET", path: &bucket, query: &list, ..Request::default() }).await.expect("a page");
    let first = String::from_utf8(first.body.to_vec()).expect("text");
    let token = between(&first, "<NextContinuationToken>", "</NextContinuationToken>");
    let rest = [list.as_slice(), &[("continuation-token", token)]].concat();
    let second = lab.client.send(Request { method: "GET", path: &bucket, query: &rest, ..Request::default() }).await.expect("a page");
    assert!(String::from_utf8_lossy(&second.body).contains("<Key>p/3</Key>"), "{second:?}");

    let source = lab.path("p/1");
    let copy = [("x-amz-copy-source", source.as_str())];
    assert_eq!(status(lab.client.put(&lab.path("p/4"), "", &copy).await), 200);

    let start = Request { method: "POST", path: &big, query: &[("uploads", "")], ..Request::default() };
    let started = lab.client.send(start.clone()).await.expect("an upload");
    let started = String::from_utf8(started.body.to_vec()).expect("text");
    let upload = between(&started, "<UploadId>", "</UploadId>");
    let query = [("partNumber", "1"), ("uploadId", upload)];
    let part = Request { method: "PUT", path: &big, query: &query, body: "part".into(), ..Request::default() };
    let part = lab.client.send(part).await.expect("a part");
    let parts = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part></CompleteMultipartUpload>",
        part.etag().expect("a tag")
    );
    let query = [("uploadId", upload)];
    let complete = Request { method: "POST", path: &big, query: &query, body: parts.clone().into(), ..Request::default() };
    assert_eq!(status(lab.client.send(complete).await), 200);
    let started = lab.client.send(start).await.expect("an upload");
    let started = String::from_utf8(started.body.to_vec()).expect("text");
    let query = [("uploadId", between(&started, "<UploadId>", "</UploadId>"))];
    assert_eq!(status(lab.client.send(Request { method: "DELETE", path: &big, query: &query, ..Request::default() }).await), 204);

    let keys = "<Delete><Object><Key>p/1</Key></Object><Object><Key>p/2</Key></Object><Object><Key>p/&amp;</Key></Object></Delete>";
    let query = [("delete", "")];
    let delete = Request { method: "POST", path: &bucket, query: &query, body: keys.into(), ..Request::default() };
    let deleted = lab.client.send(delete).await.expect("an answer");
    assert_eq!(deleted.status, 200, "{:?}", deleted.body);
    assert_eq!((lab.stored("p/1").await, lab.stored("p/3").await.as_deref()), (None, Some("x")));
    assert_eq!(status(lab.client.send(Request { method: "HEAD", path: &bucket, ..Request::default() }).await), 200);
    let versioning = Request { method: "GET", path: &bucket, query: &[("versioning", "")], ..Request::default() };
    assert_eq!(status(lab.client.send(versioning).await), 200);

    let requests = lab.proxy.requests();
    let expected = BTreeMap::from([
        (Verb::Put, 3),
        (Verb::List, 2),
        (Verb::Copy, 1),
        (Verb::CreateMultipart, 2),
        (Verb::UploadPart, 1),
        (Verb::CompleteMultipart, 1),
        (Verb::AbortMultipart, 1),
        (Verb::DeleteMany, 3),
        (Verb::Bucket, 2),
    ]);
    assert_eq!(counts(&requests), expected, "\n{}", lab.proxy.render());
    let deletes = requests.iter().find(|r| r.verb == Verb::DeleteMany).expect("a delete");
    assert_eq!(deletes.keys, ["p/1", "p/2", "p/&"]);
    assert!(requests.iter().filter(|r| r.verb == Verb::List).all(|r| r.key == "p/" && r.received > 0));
}

#[tokio::test]
async fn stages_are_what_waits_for_each_other() {
    let lab = Lab::new().await;
    // Long enough for the client to send all that it does not wait for.
    let slow = lab.proxy.inject(Rule::new(Fault::DelayRequest(Duration::from_millis(200))));
    let (a, b, c) = tokio::join!(lab.put("a", "1"), lab.put("b", "2"), lab.put("c", "3"));
    assert_eq!([status(a), status(b), status(c)], [200; 3]);
    assert_eq!(lab.proxy.stages(), 1, "\n{}", lab.proxy.render());
    assert_eq!(status(lab.get("a").await), 200);
    assert_eq!(lab.proxy.stages(), 2, "\n{}", lab.proxy.render());
    let chain = async {
        assert_eq!(status(lab.get("b").await), 200);
        status(lab.get("c").await)
    };
    let (beside, chain) = tokio::join!(lab.get("a"), chain);
    assert_eq!((status(beside), chain), (200, 200));
    assert_eq!(lab.proxy.stages(), 4, "\n{}", lab.proxy.render());
    assert_eq!((slow.fired(), lab.proxy.requests().len()), (7, 7));

    lab.proxy.clear();
    assert_eq!((lab.proxy.stages(), lab.proxy.requests().len()), (0, 0));
    lab.proxy.heal();
    assert_eq!(status(lab.get("a").await), 200);
    assert_eq!((slow.fired(), lab.proxy.stages()), (7, 1), "a rule in force no more");
}

#[tokio::test]
async fn a_rendered_request_says_what_happened() {
    let lab = Lab::new().await;
    lab.proxy.inject(Rule::new(Fault::DropReply).verb(Verb::Put).key_ends_with("head.json"));
    assert!(is_cut(&lab.create("x/head.json", "1").await));
    let line = lab.proxy.render();
    for part in ["PUT", "---", "x/head.json", "sent 1", "if-none-match: *", "server: [200]", "[DropReply]"] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
}

#[tokio::test]
async fn large_bodies_pass_and_too_large_ones_are_refused() {
    let lab = Lab::new().await;
    let path = lab.path("large");
    let body = vec![7; 8 << 20];
    assert_eq!(status(lab.client.put(&path, body.clone(), &[]).await), 200);
    assert!(lab.get("large").await.expect("an answer").body == body, "the body has changed");
    let requests = lab.proxy.requests();
    assert_eq!((requests[0].sent, requests[1].received), (8 << 20, 8 << 20));
    // A client may see the answer or, while it still writes, the closed connection.
    let refused = lab.client.put(&path, vec![7; MAX_BODY + 1], &[]).await;
    assert!(refused.is_err() || status(refused) == 413);
    let last = &lab.proxy.requests()[2];
    assert_eq!((last.status, last.forwarded.len()), (Some(413), 0));
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let rest = text.split_once(start).unwrap_or_else(|| panic!("no {start} in {text}")).1;
    rest.split_once(end).expect("its end").0
}
