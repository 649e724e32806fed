//! The probe passes on a real server, refuses one that ignores a promise, and leaves nothing behind.

use std::time::Duration;

use futures::TryStreamExt;
use headwater_bench::proxy::{Fault, Rule, S3Error, Verb};
use headwater_core::ErrorKind;
use headwater_core::authority::Severity;
use headwater_s3::{Check, S3Authority, doctor, probe};

use crate::fixture::{fresh, proxied, server, settings};

const PAUSE: Duration = Duration::from_millis(2);
/// Far more than a probe takes on the slowest machine: only a probe that never ends gets here.
const PAUSES: u32 = 60_000;

async fn objects(authority: &S3Authority) -> Vec<String> {
    authority.objects().list(None).map_ok(|meta| meta.location.to_string()).try_collect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_keeps_its_promises_passes() {
    let (proxy, through, direct) = proxied().await;
    let report = probe(&through).await.unwrap();
    assert!(report.passed(), "{report:#?}");
    report.require().unwrap();
    assert_eq!(report.outcomes.iter().map(|outcome| outcome.check).collect::<Vec<_>>(), Check::ALL);
    assert!(report.server.starts_with("127.0.0.1") && report.left.is_empty(), "{report:#?}");
    assert!(objects(&direct).await.is_empty());
    assert_eq!(proxy.requests().len(), 44, "{}", proxy.render());
    for request in proxy.requests() {
        assert!(request.verb == Verb::List || request.key.contains("/_headwater/probe/"), "{request:?}");
    }
    println!("{} in {} stages", report.server, proxy.stages());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_breaks_one_is_refused_by_name() {
    let broken: [(Rule, &[Check]); 7] = [
        (Rule::new(Fault::StripRequestHeader("if-none-match")).verb(Verb::Put), &[Check::CreateOnly, Check::CreateRace]),
        (Rule::new(Fault::StripRequestHeader("if-match")).verb(Verb::Put), &[Check::IfMatchStale, Check::IfMatchAbsent, Check::SwapRace]),
        (Rule::new(Fault::StripRequestHeader("if-match")).verb(Verb::Put).key_ends_with("/absent"), &[Check::IfMatchAbsent]),
        (Rule::new(Fault::WeakETag), &[Check::StrongTag]),
        (Rule::new(Fault::SetReplyHeader("etag", "\"same\"".to_owned())).verb(Verb::Get), &[Check::SameTag]),
        (Rule::new(Fault::StripRequestHeader("if-none-match")).verb(Verb::Get), &[Check::NotModified]),
        (
            Rule::new(Fault::Override(S3Error::CONDITIONAL_CONFLICT)).verb(Verb::Put).key_ends_with("/swap-race").condition("if-match"),
            &[Check::SwapRace],
        ),
    ];
    for (rule, checks) in broken {
        let (proxy, through, direct) = proxied().await;
        let name = rule.to_string();
        proxy.inject(rule);
        let report = probe(&through).await.unwrap();
        assert!(proxy.unfired().is_empty(), "{name}");
        let failed: Vec<Check> = report.outcomes.iter().filter(|outcome| !outcome.passed).map(|outcome| outcome.check).collect();
        for check in checks {
            assert!(failed.contains(check), "{name}: {report:#?}");
        }
        let error = report.require().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PreconditionIgnored);
        let text = error.to_string();
        assert!(text.contains(checks[0].name()) && text.contains("127.0.0.1"), "{name}: {text}");
        assert!(objects(&direct).await.is_empty(), "{name}: {:?}", objects(&direct).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_that_cannot_be_made_is_an_error_and_cleans_up() {
    let (proxy, through, direct) = proxied().await;
    proxy.inject(Rule::new(Fault::Reject(S3Error::ACCESS_DENIED)).verb(Verb::List));
    let error = probe(&through).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
    assert!(proxy.unfired().is_empty());
    assert!(objects(&direct).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_probe_cleans_up_too() {
    let (proxy, through, direct) = proxied().await;
    let answered = |verb| proxy.requests().iter().filter(|request| request.verb == verb && request.status.is_some()).count();
    let mut probing = Box::pin(probe(&through));
    while answered(Verb::Put) == 0 {
        tokio::select! {
            _ = &mut probing => panic!("the probe ended before its first write was seen"),
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
    drop(probing);
    for _ in 0..PAUSES {
        if answered(Verb::Delete) == 8 {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    assert_eq!(answered(Verb::Delete), 8, "{}", proxy.render());
    assert!(objects(&direct).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_looks_and_writes_nothing() {
    let authority = fresh();
    let findings = doctor(&authority).await;
    println!("{findings:#?}");
    assert_eq!(
        findings.iter().map(|finding| finding.subject.as_str()).collect::<Vec<_>>(),
        ["versioning", "lifecycle rules", "replication"]
    );
    assert!(findings.iter().all(|finding| finding.severity != Severity::Warning), "{findings:#?}");
    assert!(objects(&authority).await.is_empty());

    let nowhere = S3Authority::new(settings(&server().endpoint(), "no-such-bucket-here")).unwrap();
    for finding in doctor(&nowhere).await {
        assert_eq!(finding.severity, Severity::Unknown, "{finding:?}");
    }
}
