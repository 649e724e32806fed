//! A load that cannot learn whether it was committed says so, and its token settles it.
#![cfg(all(feature = "cli", feature = "local", feature = "parquet", feature = "s3"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod loading;

use std::process::Output;

use headwater_bench::proxy::{Fault, Proxy, Rule, Verb};
use headwater_bench::server::Server;
use serde_json::Value;

use loading::bucket::Bucket;
use loading::{Place, document, rows};

const HEAD: &str = "/heads/main.json";
const TOKEN: &str = "nightly-2026-11-29";

/// More requests than a command sends before it gives up.
const LOST: usize = 100;

fn run(place: &Place, number: i64, token: Option<&str>) -> Output {
    let file = place.file(&format!("{number}.csv"), [(0, number)]);
    let mut command = place.load(&[("t", &file)]);
    // What a commit repeats by itself is enough to wait for.
    command.env("AWS_MAX_ATTEMPTS", "1");
    if let Some(token) = token {
        command.args(["--token", token]);
    }
    command.output().unwrap()
}

fn load(place: &Place, number: i64, token: Option<&str>) -> Value {
    document(&run(place, number, token))
}

/// The one document of a command that does not know what became of its commit, and the token it names.
fn unknown(output: &Output) -> (Value, String) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(output.stdout.is_empty(), "a commit is acknowledged or unknown, not both");
    let error = serde_json::from_slice::<Value>(&output.stderr).unwrap()["error"].take();
    let token = error["message"].as_str().unwrap().split_once("--token ").unwrap().1.split([',', ' ']).next().unwrap().to_owned();
    (error, token)
}

/// From the swap on the head cannot be reached; what becomes of the swap itself is this fault's choice.
async fn settles(swap: Fault, given: Option<&str>, lands: bool) {
    let proxy = Proxy::before(Server::shared().unwrap()).await.unwrap();
    let place = Place::in_bucket(Bucket::behind(proxy.addr()));
    load(&place, 0, None);
    proxy.clear();
    // The same reads go before the swap next time; those for a token of the caller's, too.
    load(&place, 1, given.map(|_| "earlier"));
    let requests = proxy.requests();
    let reads = requests.iter().take_while(|request| !(request.verb == Verb::Put && request.key.ends_with(HEAD)));
    let reads = reads.filter(|request| request.verb == Verb::Get && request.key.ends_with(HEAD)).count();

    let head = |fault, verb| Rule::new(fault).verb(verb).key_ends_with(HEAD);
    let swapped = proxy.inject(head(swap, Verb::Put).nth(1));
    let lost = |verb, passed| -> Vec<_> { (1..=LOST).map(|n| proxy.inject(head(Fault::DropRequest, verb).nth(passed + n))).collect() };
    let (reads, _) = (lost(Verb::Get, reads), lost(Verb::Put, 1));
    proxy.clear();
    let (error, token) = unknown(&run(&place, 2, given));
    assert!(swapped.fired() == 1 && reads[0].fired() == 1 && reads[LOST - 1].fired() == 0, "{}", proxy.render());
    println!("{}: exit code 4 after {} requests, {} of them lost", place.describe(), proxy.requests().len(), proxy.fired());
    assert_eq!((&error["kind"], &error["retry"]), (&Value::from("PublishUnknown"), &Value::from("resolve-first")), "{error}");
    assert!(given.is_none_or(|given| given == token), "{error}");

    proxy.heal();
    assert_eq!(place.seqs().len(), if lands { 3 } else { 2 });
    for _ in 0..2 {
        assert_eq!(load(&place, 2, Some(&token))["seq"], 3, "the same command with its token commits once");
    }
    assert_eq!(place.seqs(), [1, 2, 3]);
    let once = (0..3).map(|number| ((0, number), 1)).collect();
    assert_eq!(rows(&place.snapshot().await, "t").await, once);
    place.verify();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_that_landed_and_was_never_answered_is_settled_by_its_token() {
    settles(Fault::DropReply, None, true).await;
    settles(Fault::DropReply, Some(TOKEN), true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_that_was_lost_is_settled_by_its_token() {
    settles(Fault::DropRequest, None, false).await;
    settles(Fault::DropRequest, Some(TOKEN), false).await;
}
