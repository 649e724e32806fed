//! Both servers start, answer signed requests, and end with their owner.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "the whole file is a test")]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use headwater_bench::client::Client;
use headwater_bench::server::{Product, RUNNING, Server};

/// Whether a process of this id runs (a zombie does not).
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[tokio::test]
async fn the_server_at_hand_answers() {
    let server = Server::start().expect("a server");
    println!("ran on {server}");
    answers(&server).await;
    let pid = server.pid();
    drop(server);
    assert!(!pid.is_some_and(runs), "the server still runs");
}

/// Runs where RustFS is at hand, and says so where not.
#[tokio::test]
async fn rustfs_answers() {
    if Product::RustFs.find().expect("a search").is_none() {
        let error = Server::start_product(Product::RustFs).expect_err("nothing to start").to_string();
        assert!(error.contains("set RUSTFS"), "{error}");
        return;
    }
    let server = Server::start_product(Product::RustFs).expect("RustFS");
    assert!(server.name().starts_with("RustFS ") && server.pid().is_some_and(runs), "{server}");
    answers(&server).await;
}

/// Runs where `ci/s3-server` has installed SeaweedFS, or `WEED` names it, and says so where not: `ci/test` sees to it that it is there.
#[tokio::test]
async fn seaweedfs_answers() {
    if Product::SeaweedFs.find().expect("a search").is_none() {
        let error = Server::start_product(Product::SeaweedFs).expect_err("nothing to start").to_string();
        assert!(error.contains("ci/s3-server"), "{error}");
        return;
    }
    let server = Server::start_product(Product::SeaweedFs).expect("SeaweedFS");
    assert!(server.name().starts_with("SeaweedFS ") && server.pid().is_some_and(runs), "{server}");
    answers(&server).await;
}

/// A killed test process runs no destructor; its server ends nevertheless, and takes its data with it.
#[test]
fn a_server_ends_with_its_owner() {
    let mut owner = Command::new(env!("CARGO_BIN_EXE_headwater-s3-server"));
    let mut owner = owner.env_remove(RUNNING).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("an owner");
    let mut setting = String::new();
    let mut output = BufReader::new(owner.stdout.take().expect("its output"));
    output.read_line(&mut setting).expect("a line");
    assert_eq!(setting.trim().splitn(4, ',').count(), 4, "{setting}");
    let server = children(owner.id()).into_iter().find(|pid| directory(*pid).is_some()).expect("the server's process");
    let data = directory(server).expect("its folder");
    assert!(data.is_dir() && runs(server));

    owner.kill().expect("killed");
    owner.wait().expect("ended");
    // The watch acts as soon as it is scheduled; on a machine under load that may take a while.
    let gone = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !runs(server) && !data.exists()
    });
    assert!(gone, "the server, or its data, outlives its owner");
}

/// What a script does that counts what some client asks for.
#[tokio::test]
async fn a_counted_server_tells_what_was_asked_since_the_last_line() {
    let mut counted = Command::new(env!("CARGO_BIN_EXE_headwater-s3-server"));
    let mut counted = counted.arg("--counted").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a server");
    let mut input = counted.stdin.take().expect("its input");
    let mut output = BufReader::new(counted.stdout.take().expect("its output")).lines();
    let setting = output.next().expect("a line").expect("text");
    let [address, access, secret, _name] = setting.splitn(4, ',').collect::<Vec<_>>()[..] else { panic!("{setting}") };
    let client = Client::new(address.parse().expect("an address"), access, secret);
    let mut taken = || {
        writeln!(input).expect("a line is asked for");
        let line = output.next().expect("a line").expect("text");
        serde_json::from_str::<serde_json::Value>(&line).expect("JSON")
    };
    assert_eq!(taken(), serde_json::json!([]));
    let missing = client.get("/no-such-bucket/a key").await.expect("an answer");
    let told = taken();
    assert_eq!(told.as_array().map(Vec::len), Some(1), "{told}");
    assert_eq!((&told[0]["verb"], &told[0]["key"], &told[0]["status"]), (&"GET".into(), &"a key".into(), &404.into()), "{told}");
    assert_eq!(told[0]["received"], missing.body.len(), "{told}");
    assert_eq!(taken(), serde_json::json!([]), "nothing is told twice");
    drop(input);
    assert!(counted.wait().expect("ended").success());
}

fn children(parent: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{parent}/task")).expect("its threads");
    let lists = threads.map(|thread| std::fs::read_to_string(thread.expect("a thread").path().join("children")).expect("its children"));
    lists.flat_map(|list| list.split_whitespace().map(|pid| pid.parse().expect("an id")).collect::<Vec<_>>()).collect()
}

/// Where a process works, if that is a server's folder.
fn directory(pid: u32) -> Option<PathBuf> {
    let directory = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    directory.file_name()?.to_str()?.starts_with("headwater-s3-").then_some(directory)
}

async fn answers(server: &Server) {
    let (bucket, other, client) = (server.bucket().expect("a bucket"), server.bucket().expect("a bucket"), server.client());
    assert_ne!(bucket, other);
    let path = format!("/{bucket}/odd key+ü%/a=1.json");
    let put = client.put(&path, "hello", &[("if-none-match", "*")]).await.expect("an answer");
    assert_eq!(put.status, 200, "{put:?}");
    let again = client.put(&path, "hello", &[("if-none-match", "*")]).await.expect("an answer");
    assert_eq!(again.status, 412, "{again:?}");
    let got = client.get(&path).await.expect("an answer");
    assert_eq!((got.status, got.body.as_ref(), got.etag()), (200, b"hello".as_ref(), put.etag()));
    assert_eq!(client.get(&format!("/{other}/odd key+ü%/a=1.json")).await.expect("an answer").status, 404);
    assert_eq!(client.delete(&path).await.expect("an answer").status, 204);
}
