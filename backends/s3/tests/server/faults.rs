//! What a network and a failing server do to a request, and what the authority makes of it.

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};
use headwater_bench::proxy::{Fault, Rule, S3Error, Verb};
use headwater_core::authority::{ControlAuthority, Create, Expected, HeadRead, Swap};
use headwater_core::{Error, ErrorKind};
use headwater_s3::{S3Authority, Settings};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use crate::fixture::{body, branch, fresh, head, proxied, record, server, settings, swapped};

fn put(fault: Fault) -> Rule {
    Rule::new(fault).verb(Verb::Put)
}

/// What a swap and a create are expected to end with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Applied,
    Lost,
    Unknown,
    Refused(ErrorKind),
}

fn of_swap(outcome: &Result<Swap, Error>) -> End {
    match outcome {
        Ok(Swap::Swapped(_)) => End::Applied,
        Ok(Swap::Conflict) => End::Lost,
        Ok(Swap::Unknown(_)) => End::Unknown,
        Err(error) => End::Refused(error.kind()),
    }
}

fn of_create(outcome: &Result<Create, Error>) -> End {
    match outcome {
        Ok(Create::Created) => End::Applied,
        Ok(Create::Exists) => End::Lost,
        Ok(Create::Unknown(_)) => End::Unknown,
        Err(error) => End::Refused(error.kind()),
    }
}

/// Each fault hits one swap and one create: what the caller learns, whether the write landed, and that it was sent once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_of_a_write_has_its_outcome_and_none_is_sent_again() {
    use End::{Applied, Lost, Refused, Unknown};
    let denied = Refused(ErrorKind::InvalidInput);
    let table = [
        (Fault::DropReply, Unknown, Unknown, true),
        (Fault::DropRequest, Unknown, Unknown, false),
        (Fault::CutRequest(1), Unknown, Unknown, false),
        (Fault::Override(S3Error::INTERNAL), Unknown, Unknown, true),
        (Fault::Reject(S3Error::INTERNAL), Unknown, Unknown, false),
        (Fault::Override(S3Error::SLOW_DOWN), Unknown, Unknown, true),
        (Fault::Reject(S3Error::SLOW_DOWN), Unknown, Unknown, false),
        (Fault::StripReplyHeader("etag"), Unknown, Applied, true),
        (Fault::Reject(S3Error::CONDITIONAL_CONFLICT), Lost, Unknown, false),
        (Fault::Reject(S3Error::PRECONDITION_FAILED), Lost, Lost, false),
        (Fault::Reject(S3Error::NO_SUCH_KEY), Lost, denied, false),
        (Fault::Reject(S3Error::ACCESS_DENIED), denied, denied, false),
        (Fault::Reject(S3Error::TIME_TOO_SKEWED), denied, denied, false),
        (Fault::Reject(S3Error { status: 404, code: "NoSuchBucket" }), denied, denied, false),
        (
            Fault::Reject(S3Error { status: 501, code: "NotImplemented" }),
            Refused(ErrorKind::Unsupported),
            Refused(ErrorKind::Unsupported),
            false,
        ),
        (Fault::Reject(S3Error { status: 429, code: "SlowDown" }), Refused(ErrorKind::Unavailable), Refused(ErrorKind::Unavailable), false),
    ];
    for (fault, swap_end, create_end, landed) in table {
        let (proxy, through, direct) = proxied().await;
        let start = swapped(direct.swap_head(&branch("main"), Expected::Absent, body("start")).await.unwrap());
        proxy.inject(put(fault.clone()));

        let swap = through.swap_head(&branch("main"), Expected::Tag(&start), body("next")).await;
        assert_eq!(of_swap(&swap), swap_end, "{fault:?}: {swap:?}");
        let there = head(&direct, "main").await.unwrap().0;
        assert_eq!(there, if landed { "next" } else { "start" }, "{fault:?}");

        let create = through.create_record(&record("a"), body("new")).await;
        // A create needs no tag, so a reply without one says enough.
        assert_eq!(of_create(&create), create_end, "{fault:?}: {create:?}");
        assert_eq!(direct.read_record(&record("a")).await.unwrap().is_some(), landed, "{fault:?}");

        assert_eq!((proxy.fired(), proxy.requests().len()), (2, 2), "{fault:?}\n{}", proxy.render());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_name_the_remedy_and_the_object() {
    let (proxy, through, _) = proxied().await;
    for (error, word) in [(S3Error::TIME_TOO_SKEWED, "clock"), (S3Error::ACCESS_DENIED, "credentials")] {
        proxy.heal();
        proxy.inject(Rule::new(Fault::Reject(error)));
        let error = through.swap_head(&branch("main"), Expected::Absent, body("x")).await.unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!((error.operation(), error.context("object")), (Some("swap head"), Some("a b/lake/_headwater/heads/main.json")));
        let error = through.read_head(&branch("main"), None).await.unwrap_err();
        assert!(error.to_string().contains(word) && error.kind() == ErrorKind::InvalidInput, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_outlast_passing_failures() {
    let faults = [
        (Fault::Reject(S3Error::SLOW_DOWN), 2),
        (Fault::Reject(S3Error::INTERNAL), 2),
        (Fault::DropReply, 2),
        (Fault::DropRequest, 2),
        (Fault::CutReply(1), 2),
    ];
    for (fault, times) in faults {
        let (proxy, through, direct) = proxied().await;
        swapped(direct.swap_head(&branch("main"), Expected::Absent, body("the head")).await.unwrap());
        let rule = Rule::new(fault.clone()).first(times);
        proxy.inject(rule);
        assert_eq!(head(&through, "main").await.unwrap().0, "the head", "{fault:?}");
        assert_eq!((proxy.fired(), proxy.requests().len()), (times, times + 1), "{fault:?}\n{}", proxy.render());

        // And end where the failure does not pass.
        proxy.heal();
        proxy.clear();
        proxy.inject(Rule::new(fault.clone()));
        let error = through.read_head(&branch("main"), None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{fault:?}: {error:?}");
        assert_eq!(proxy.requests().len(), 3, "{fault:?}\n{}", proxy.render());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_outlasts_passing_failures() {
    let (proxy, through, direct) = proxied().await;
    let key = Path::from("data/a");
    for fault in [Fault::Reject(S3Error::SLOW_DOWN), Fault::DropReply, Fault::DropRequest] {
        proxy.inject(Rule::new(fault).first(1));
        through.objects().put(&key, body("rows").into()).await.unwrap();
        assert_eq!(proxy.fired(), 1, "{}", proxy.render());
        proxy.heal();
    }
    for fault in [Fault::Reject(S3Error::INTERNAL), Fault::DropReply, Fault::CutReply(1)] {
        proxy.inject(Rule::new(fault).first(1));
        assert_eq!(through.objects().get(&key).await.unwrap().bytes().await.unwrap(), body("rows"));
        assert_eq!(proxy.fired(), 1, "{}", proxy.render());
        proxy.heal();
    }
    assert_eq!(direct.objects().get(&key).await.unwrap().bytes().await.unwrap(), body("rows"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_never_sent_is_no_unknown() {
    // Nobody listens there any more.
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let authority = S3Authority::new(settings(&format!("http://{address}"), "somewhere")).unwrap();
    let error = authority.swap_head(&branch("main"), Expected::Absent, body("x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let error = authority.read_head(&branch("main"), None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");

    #[derive(Debug)]
    struct Nobody;
    impl ProvideCredentials for Nobody {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            future::ProvideCredentials::ready(Err(CredentialsError::not_loaded("nobody is here")))
        }
    }
    let (proxy, _, _) = proxied().await;
    let settings = Settings::new("somewhere", "").unwrap().endpoint(&proxy.endpoint()).unwrap().credentials(Nobody);
    let authority = S3Authority::new(settings).unwrap();
    for error in [
        authority.swap_head(&branch("main"), Expected::Absent, body("x")).await.unwrap_err(),
        authority.read_head(&branch("main"), None).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
        assert!(error.to_string().contains("AWS_ACCESS_KEY_ID"), "{error}");
    }
    assert!(proxy.requests().is_empty(), "{}", proxy.render());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_secret_is_refused_and_not_shown() {
    let bucket = server().bucket().unwrap();
    let wrong = Credentials::new(server().access_key(), "hunter2hunter2", None, None, "test");
    let authority = S3Authority::new(settings(&server().endpoint(), &bucket).credentials(wrong)).unwrap();
    let errors = [
        authority.swap_head(&branch("main"), Expected::Absent, body("x")).await.unwrap_err(),
        authority.read_head(&branch("main"), None).await.unwrap_err(),
        Error::from(authority.objects().get(&Path::from("a")).await.unwrap_err()),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
        assert!(!format!("{error} {error:?} {authority:?}").contains("hunter2"), "{error:?}");
    }
}

/// A pooled connection that the server has closed meanwhile costs neither an unknown outcome nor a second request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_connection_is_replaced_before_anything_is_sent() {
    let (proxy, through, _) = proxied().await;
    for round in 0..10 {
        proxy.inject(Rule::new(Fault::DropReply).verb(Verb::Get).nth(1));
        // Closes the connection it was sent on; the read itself is repeated on another one.
        assert!(matches!(through.read_head(&branch("absent"), None).await.unwrap(), HeadRead::Absent));
        proxy.heal();
        let name = format!("round-{round}");
        swapped(through.swap_head(&branch(&name), Expected::Absent, body("x")).await.unwrap());
    }
    let puts = proxy.requests().iter().filter(|request| request.verb == Verb::Put).count();
    assert_eq!(puts, 10, "{}", proxy.render());
    assert_eq!(fresh().list_branches().await.unwrap().len(), 0);
}
