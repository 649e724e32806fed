//! A server that breaks a promise gets no catalog, and is told which promise: by the real command, before a server made that way.
#![cfg(all(feature = "cli", feature = "local", feature = "parquet", feature = "s3"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod loading;

use headwater_bench::proxy::{Fault, Proxy, Rule, Verb};
use headwater_bench::server::Server;
use serde_json::Value;

use loading::bucket::Bucket;
use loading::{Place, document};

/// What `doctor` is to name as broken.
enum Broken {
    /// These checks, and no other.
    Only(&'static [&'static str]),
    /// This one first, and what it brings about.
    First(&'static str),
}

impl Broken {
    fn first(&self) -> &'static str {
        match self {
            Self::Only(checks) => checks[0],
            Self::First(check) => check,
        }
    }

    fn are(&self, named: &[&str]) -> bool {
        match self {
            Self::Only(checks) => named == *checks,
            Self::First(check) => named.first() == Some(check),
        }
    }
}

/// `load` refuses, `doctor` names what is broken, and nothing stays in the bucket.
async fn is_refused(name: &str, rule: Rule, broken: Broken) {
    let proxy = Proxy::before(Server::shared().unwrap()).await.unwrap();
    let place = Place::in_bucket(Bucket::behind(proxy.addr()));
    let injected = proxy.inject(rule);

    let file = place.file("rows.csv", [(0, 0)]);
    let refused = place.load(&[("t", &file)]).output().unwrap();
    let error = serde_json::from_slice::<Value>(&refused.stderr).unwrap()["error"].take();
    assert_eq!((refused.status.code(), &error["kind"]), (Some(1), &Value::from("PreconditionIgnored")), "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(broken.first()), "{message:?} does not name {:?}", broken.first());
    let by_load = (injected.fired(), written(&proxy));
    proxy.clear();

    let doctor = place.doctor().output().unwrap();
    let report: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    assert_eq!((doctor.status.code(), &report["ok"]), (Some(1), &Value::Bool(false)), "{report}");
    let findings = report["findings"].as_array().unwrap();
    let named = |severity: &str| -> Vec<&str> {
        let found = findings.iter().filter(|finding| finding["severity"] == severity);
        found.map(|finding| finding["subject"].as_str().unwrap()).collect()
    };
    assert!(broken.are(&named("broken")), "{report}");
    let by_doctor = (injected.fired() - by_load.0, written(&proxy));
    for (fired, written) in [&by_load, &by_doctor] {
        assert!(*fired > 0 && !written.is_empty(), "nothing was tried");
        assert!(written.iter().all(|key| key.starts_with("lake/_headwater/probe/")), "{written:?}");
    }
    assert_eq!(place.keys().await, [""; 0], "the probe's own objects are gone");
    loading::report(format_args!("{}: {name}: {message}", place.describe()));

    // The same bucket behind the same server as it is.
    proxy.heal();
    let report = document(&place.doctor().output().unwrap());
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!(document(&place.load(&[("t", &file)]).output().unwrap())["seq"], 1);
    place.verify();
}

/// The keys of what was put.
fn written(proxy: &Proxy) -> Vec<String> {
    let writes = [Verb::Put, Verb::Copy, Verb::UploadPart, Verb::CompleteMultipart];
    proxy.requests().into_iter().filter(|request| writes.contains(&request.verb)).map(|request| request.key).collect()
}

const CREATE: &str = "create-only PUT (If-None-Match: *)";
const STALE: &str = "PUT with a stale If-Match";
const ABSENT: &str = "PUT with If-Match on an absent key";
const TAGS: &str = "strong ETags";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_ignores_if_none_match() {
    let rule = Rule::new(Fault::StripRequestHeader("if-none-match")).verb(Verb::Put);
    is_refused("ignores If-None-Match", rule, Broken::Only(&[CREATE, "one winner of concurrent create-only PUTs"])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_ignores_if_match() {
    let rule = Rule::new(Fault::StripRequestHeader("if-match"));
    is_refused("ignores If-Match", rule, Broken::Only(&[STALE, ABSENT, "one winner of concurrent If-Match PUTs"])).await;
}

/// All other conditions hold there: only the probe's PUT to a key that is absent gets through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_accepts_if_match_on_an_absent_key() {
    let rule = Rule::new(Fault::StripRequestHeader("if-match")).verb(Verb::Put).key_ends_with("/absent");
    is_refused("accepts If-Match on an absent key", rule, Broken::Only(&[ABSENT])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_gives_weak_tags() {
    is_refused("gives weak ETags", Rule::new(Fault::WeakETag), Broken::First(TAGS)).await;
}
