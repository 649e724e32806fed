//! Faults of the network and of the server: each fires where planned, and the client and the server see what they should.

use std::time::Duration;

use headwater_bench::client::Client;
use headwater_bench::proxy::{Answer, Fault, Landing, Proxy, Rule, S3Error, Verb};

use super::{Lab, is_cut, status};

#[tokio::test]
async fn a_dropped_request_never_reaches_the_server() {
    let lab = Lab::new().await;
    let dropped = lab.proxy.inject(Rule::new(Fault::DropRequest).verb(Verb::Put));
    assert!(is_cut(&lab.put("a", "1").await));
    assert_eq!((dropped.fired(), lab.stored("a").await), (1, None));
    let requests = lab.proxy.requests();
    assert_eq!((requests[0].status, requests[0].forwarded.len()), (None, 0));
}

#[tokio::test]
async fn a_dropped_reply_leaves_the_write_landed() {
    let lab = Lab::new().await;
    let dropped = lab.proxy.inject(Rule::new(Fault::DropReply).verb(Verb::Put).first(1));
    assert!(is_cut(&lab.create("a", "1").await));
    assert_eq!((dropped.fired(), lab.stored("a").await.as_deref()), (1, Some("1")));
    assert_eq!(status(lab.create("a", "1").await), 412, "its own first attempt stands in its way");
    let requests = lab.proxy.requests();
    assert_eq!((requests[0].status, requests[0].forwarded.as_slice()), (None, [200].as_slice()));
}

#[tokio::test]
async fn a_duplicate_is_answered_with_either_answer() {
    for (answer, seen) in [(Answer::First, 200), (Answer::Second, 412)] {
        let lab = Lab::new().await;
        let twice = lab.proxy.inject(Rule::new(Fault::Duplicate(answer)).condition("if-none-match"));
        assert_eq!(status(lab.create("a", "1").await), seen);
        assert_eq!((twice.fired(), lab.stored("a").await.as_deref()), (1, Some("1")));
        let requests = lab.proxy.requests();
        assert_eq!((requests.len(), requests[0].forwarded.as_slice()), (1, [200, 412].as_slice()));
    }
}

#[tokio::test]
async fn an_error_comes_instead_of_the_request_or_of_its_answer() {
    let errors = [
        S3Error::CONDITIONAL_CONFLICT,
        S3Error::SLOW_DOWN,
        S3Error::TIME_TOO_SKEWED,
        S3Error::ACCESS_DENIED,
        S3Error::INTERNAL,
        S3Error::PRECONDITION_FAILED,
        S3Error::NO_SUCH_KEY,
    ];
    let lab = Lab::new().await;
    for error in errors {
        for (fault, lands) in [(Fault::Reject(error), false), (Fault::Override(error), true)] {
            let key = format!("{}-{lands}", error.code);
            let injected = lab.proxy.inject(Rule::new(fault).key_contains(&key));
            let answer = lab.create(&key, "1").await.expect("an answer");
            let body = String::from_utf8(answer.body.to_vec()).expect("text");
            assert_eq!((answer.status, injected.fired()), (error.status, 1));
            assert!(body.contains(&format!("<Code>{}</Code>", error.code)), "{body}");
            assert_eq!(lab.stored(&key).await.is_some(), lands, "{key}");
        }
    }
    assert_eq!(lab.proxy.unfired(), [""; 0]);
    assert_eq!(lab.proxy.fired(), 2 * errors.len());
}

#[tokio::test]
async fn a_cut_reply_is_no_whole_answer() {
    let lab = Lab::new().await;
    assert_eq!(status(lab.put("a", "hello").await), 200);
    for length in [0, 3] {
        lab.proxy.clear();
        let cut = lab.proxy.inject(Rule::new(Fault::CutReply(length)).verb(Verb::Get).first(1));
        assert!(is_cut(&lab.get("a").await));
        let requests = lab.proxy.requests();
        assert_eq!((cut.fired(), requests[0].status, requests[0].received), (1, Some(200), length));
        lab.proxy.heal();
    }
    assert_eq!(status(lab.get("a").await), 200);
}

#[tokio::test]
async fn the_part_before_the_cut_arrives() {
    let lab = Lab::new().await;
    assert_eq!(status(lab.put("a", "hello").await), 200);
    lab.proxy.inject(Rule::new(Fault::CutReply(3)).verb(Verb::Get));
    // The raw bytes: an HTTP client only says that the body is incomplete. An unsigned request is refused, with a body, too.
    let mut stream = tokio::net::TcpStream::connect(lab.proxy.addr()).await.expect("a connection");
    let request = format!("GET {} HTTP/1.1\r\nhost: {}\r\n\r\n", lab.path("a"), lab.proxy.addr());
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.expect("the connection ends");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    assert!(length.parse::<usize>().expect("a number") > 3, "{head}");
    assert_eq!(body.len(), 3, "{answer}");
}

#[tokio::test]
async fn a_cut_request_leaves_nothing() {
    let lab = Lab::new().await;
    let cut = lab.proxy.inject(Rule::new(Fault::CutRequest(2)).verb(Verb::Put));
    assert!(is_cut(&lab.put("a", "hello").await));
    assert_eq!((cut.fired(), lab.stored("a").await), (1, None));
    assert_eq!((lab.proxy.requests()[0].sent, lab.proxy.requests()[0].status), (5, None));
}

#[tokio::test]
async fn a_cut_request_reaches_the_server_in_part() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a listener");
    let proxy = Proxy::start(listener.local_addr().expect("an address")).await.expect("a proxy");
    proxy.inject(Rule::new(Fault::CutRequest(2)));
    let client = Client::new(proxy.addr(), "key", "secret");
    let server = async {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut text = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut text).await.expect("the connection ends");
        text
    };
    let (answer, arrived) = tokio::join!(client.put("/bucket/a", "hello", &[]), server);
    let (head, body) = arrived.split_once("\r\n\r\n").expect("a head");
    assert!(is_cut(&answer) && head.starts_with("PUT /bucket/a HTTP/1.1\r\n") && head.contains("content-length: 5"), "{head}");
    assert!(head.contains(&format!("host: {}", proxy.addr())), "the client's own host: {head}");
    assert_eq!(body, "he");
}

#[tokio::test]
async fn a_server_that_is_away_closes_the_connection() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a listener");
    let proxy = Proxy::start(listener.local_addr().expect("an address")).await.expect("a proxy");
    drop(listener);
    assert!(is_cut(&Client::new(proxy.addr(), "key", "secret").get("/bucket/a").await));
    assert_eq!((proxy.requests()[0].status, proxy.requests()[0].forwarded.len()), (None, 0));
}

#[tokio::test]
async fn a_delay_holds_the_request_or_the_reply() {
    let lab = Lab::new().await;
    let long = Duration::from_secs(3600);
    for (fault, lands) in [(Fault::DelayRequest(long), false), (Fault::DelayReply(long), true)] {
        let key = format!("{lands}");
        let delayed = lab.proxy.inject(Rule::new(fault).key_contains(&key));
        let create = lab.create(&key, "1");
        let seen = async {
            while delayed.fired() == 0 || (lands && lab.stored(&key).await.is_none()) {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            answer = create => panic!("answered at once: {answer:?}"),
            () = seen => {}
        }
        assert_eq!(lab.stored(&key).await.is_some(), lands);
        let request = lab.proxy.requests().pop().expect("a request");
        assert_eq!((request.status, request.span.end), (None, u64::MAX), "still under way");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_takes_nothing_back() {
    let lab = Lab::new().await;
    let delayed = lab.proxy.inject(Rule::new(Fault::DelayRequest(Duration::from_millis(50))));
    let sent = async {
        while delayed.fired() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        answer = lab.put("a", "1") => panic!("answered at once: {answer:?}"),
        () = sent => {}
    }
    while lab.stored("a").await.is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(lab.proxy.requests().len(), 1);
}

#[tokio::test]
async fn rules_choose_by_verb_key_and_turn() {
    let lab = Lab::new().await;
    let second =
        lab.proxy.inject(Rule::new(Fault::Reject(S3Error::SLOW_DOWN)).verb(Verb::Put).verb(Verb::Get).key_ends_with(".json").nth(2));
    let first_two = lab.proxy.inject(Rule::new(Fault::Reject(S3Error::INTERNAL)).key_contains("data/").first(2));
    let never = lab.proxy.inject(Rule::new(Fault::DropReply).verb(Verb::List));
    let mut statuses = Vec::new();
    for key in ["a.json", "b.txt", "b.json", "c.json", "data/1", "data/2", "data/3"] {
        statuses.push(status(lab.put(key, "1").await));
    }
    assert_eq!(statuses, [200, 200, 503, 200, 500, 500, 200], "\n{}", lab.proxy.render());
    assert_eq!((second.fired(), first_two.fired(), never.fired(), lab.proxy.fired()), (1, 2, 0, 3));
    let unfired = lab.proxy.unfired();
    assert!(unfired.len() == 1 && unfired[0].contains("DropReply") && unfired[0].contains("LIST"), "{unfired:?}");
}

#[tokio::test]
async fn rules_combine_and_the_first_decides() {
    let lab = Lab::new().await;
    lab.proxy.inject(Rule::new(Fault::Duplicate(Answer::First)));
    lab.proxy.inject(Rule::new(Fault::DropReply));
    lab.proxy.inject(Rule::new(Fault::Reject(S3Error::INTERNAL)));
    assert!(is_cut(&lab.create("a", "1").await));
    assert_eq!(lab.proxy.requests()[0].forwarded, [200, 412]);
    assert_eq!((lab.proxy.fired(), lab.stored("a").await.as_deref()), (2, Some("1")), "nothing was left for the third to decide");
}

/// A fault of the reply decides that the server gets the request; one of the request decides what its client is answered.
#[tokio::test]
async fn of_two_that_decide_the_same_the_first_wins() {
    let error = S3Error::INTERNAL;
    let replies = [Fault::DropReply, Fault::Override(error), Fault::CutReply(0)];
    let requests = [Fault::DropRequest, Fault::Reject(error), Fault::CutRequest(0), Fault::LandLate(Landing::OnRelease)];
    let lab = Lab::new().await;
    assert_eq!(status(lab.put("a", "1").await), 200);
    for (number, reply) in (0..).zip(&replies) {
        for (other, request) in (0..).zip(&requests) {
            for reply_first in [true, false] {
                let key = format!("{number}-{other}-{reply_first}");
                let mut faults = [reply.clone(), request.clone()];
                if !reply_first {
                    faults.reverse();
                }
                let rules = faults.map(|fault| lab.proxy.inject(Rule::new(fault).key_ends_with(&key)));
                let answered = lab.put(&key, "1").await.map(|answer| answer.status).ok();
                let what = lab.proxy.render();
                assert_eq!([rules[0].fired(), rules[1].fired()], [1, 0], "{what}");
                let first = if reply_first { reply } else { request };
                // Some servers keep an object of which they were told how long it is, and nothing else.
                if !matches!(first, Fault::CutRequest(_)) {
                    assert_eq!(lab.stored(&key).await.is_some(), reply_first, "{what}");
                }
                assert_eq!(answered == Some(500), matches!(first, Fault::Override(_) | Fault::Reject(_)), "{what}");
                lab.proxy.heal();
                lab.proxy.clear();
            }
        }
    }
}

#[tokio::test]
async fn a_rule_may_wait_for_another_to_fire() {
    let lab = Lab::new().await;
    let first = lab.proxy.inject(Rule::new(Fault::Reject(S3Error::SLOW_DOWN)).key_ends_with("b").first(1));
    let second = lab.proxy.inject(Rule::new(Fault::Reject(S3Error::TIME_TOO_SKEWED)).after(&first).first(2));
    let mut statuses = Vec::new();
    for key in ["a", "b", "b", "a", "a"] {
        statuses.push(status(lab.put(key, "1").await));
    }
    assert_eq!((statuses.as_slice(), first.fired(), second.fired()), ([200, 503, 403, 403, 200].as_slice(), 1, 2));
}
