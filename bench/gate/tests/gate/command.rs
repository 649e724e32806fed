//! The command: on a bucket that is somebody's own, stopped on the way, and without the server it needs.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use headwater_bench::client::Request;
use headwater_bench::server::{RUNNING, Server};

fn gate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater-gate"));
    command.stdin(Stdio::null()).args(["--width", "1", "--to", "80"]);
    command
}

fn told(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Keys below a prefix of a bucket.
fn keys(server: &Server, bucket: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (path, client) = (format!("/{bucket}"), server.client());
    let list = Request { method: "GET", path: &path, query: &[("list-type", "2")], ..Request::default() };
    let listed = runtime.block_on(client.send(list)).unwrap();
    assert_eq!(listed.status, 200);
    let body = String::from_utf8_lossy(&listed.body).into_owned();
    body.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>")).map(|(key, _)| key.to_owned()).collect::<Vec<_>>().join(" ")
}

/// Requests are counted at the client's own connector there, and nothing but the user's objects is left.
#[test]
fn it_measures_a_bucket_of_ones_own_and_leaves_nothing_there() {
    let server = Server::shared().unwrap();
    let bucket = server.bucket().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let path = format!("/{bucket}/lake/mine.txt");
    assert_eq!(runtime.block_on(server.client().put(&path, "mine", &[])).unwrap().status, 200);
    let ended = gate().arg(format!("s3://{bucket}/lake")).arg("--json").envs(server.environment(server.address())).output().unwrap();
    assert!(ended.status.success(), "{}", told(&ended));
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!((&report["ok"], &report["schema"]), (&true.into(), &"headwater-gate/1".into()), "{}", told(&ended));
    assert!(report["places"][0]["counted"].as_str().unwrap().contains("HTTP connector"), "{}", told(&ended));
    assert!(report["cells"].as_array().unwrap().len() > 10, "{}", told(&ended));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("about"), "it says before what it will ask for");
    assert_eq!(keys(server, &bucket), "lake/mine.txt");
}

#[test]
fn it_cleans_up_when_it_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let entries = || std::fs::read_dir(folder.path()).unwrap().count();
    let running = gate().arg(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while entries() == 0 {
        std::thread::yield_now();
    }
    let interrupted = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let ended = running.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), entries()), (Some(130), 0), "{}", told(&ended));
    assert!(Path::new(folder.path()).exists());
}

#[test]
fn it_fails_without_its_server() {
    let ended = gate().args(["--only", "s3"]).env(RUNNING, "127.0.0.1:1,key,secret").output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", told(&ended));
    assert!(ended.stdout.is_empty() && String::from_utf8_lossy(&ended.stderr).starts_with("headwater-gate: "), "{}", told(&ended));
}
