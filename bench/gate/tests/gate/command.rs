//! The command: on a bucket that is somebody's own, stopped on the way, and without the server it needs.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use headwater_bench::client::Request;
use headwater_bench::proxy::{Fault, Proxy, Rule, Verb, counts};
use headwater_bench::server::{RUNNING, Server};

/// Writes after which some have been applied, and many more are to come.
const SOME: usize = 30;

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

/// Runs one request or more to its end.
fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Waits for something that a running command brings about.
fn until(running: &mut Child, done: impl Fn() -> bool) {
    while !done() {
        assert!(running.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
}

fn interrupt(running: &Child) {
    assert!(Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap().success());
}

/// Writes that a proxy has seen.
fn puts(proxy: &Proxy) -> usize {
    counts(&proxy.requests()).get(&Verb::Put).copied().unwrap_or_default()
}

/// The number before a word that the command has printed.
fn told_before(text: &str, word: &str) -> usize {
    let number = text.split(word).next().and_then(|before| before.split_whitespace().next_back()).unwrap_or_else(|| panic!("{text}"));
    number.replace(',', "").parse().unwrap_or_else(|_| panic!("{number:?} of {text}"))
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
    let mut running = gate().arg(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until(&mut running, || entries() > 0);
    interrupt(&running);
    let ended = running.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), entries()), (Some(130), 0), "{}", told(&ended));
    assert!(Path::new(folder.path()).exists());
}

#[test]
fn a_second_interrupt_ends_it_at_once_and_says_what_is_left() {
    let server = Server::shared().unwrap();
    let bucket = server.bucket().unwrap();
    let proxy = wait(Proxy::before(server)).unwrap();
    // Removing what it wrote cannot end.
    let removing = proxy.inject(Rule::new(Fault::Hold).verb(Verb::DeleteMany));
    let mut command = gate();
    command.arg(format!("s3://{bucket}/lake")).envs(server.environment(proxy.addr()));
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until(&mut running, || puts(&proxy) > SOME);
    interrupt(&running);
    until(&mut running, || removing.held() > 0);
    interrupt(&running);
    let ended = running.wait_with_output().unwrap();
    let said = told(&ended);
    assert_eq!(ended.status.code(), Some(130), "{said}");
    let left = said.split_whitespace().find(|word| word.starts_with(&format!("s3://{bucket}/lake/headwater-gate-")));
    let left = left.unwrap_or_else(|| panic!("{said}")).trim_end_matches('/').trim_start_matches(&format!("s3://{bucket}/"));
    assert!(keys(server, &bucket).split(' ').all(|key| key.starts_with(left)), "{left}: {said}");
    assert_eq!(removing.held(), 1, "nothing was removed yet");
    proxy.heal();
    wait(removing.release()).unwrap();
}

#[test]
fn an_interrupt_cleans_up_a_bucket_too() {
    let server = Server::shared().unwrap();
    let bucket = server.bucket().unwrap();
    let path = format!("/{bucket}/lake/mine.txt");
    assert_eq!(wait(server.client().put(&path, "mine", &[])).unwrap().status, 200);
    let proxy = wait(Proxy::before(server)).unwrap();
    let mut command = gate();
    command.arg(format!("s3://{bucket}/lake")).envs(server.environment(proxy.addr()));
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until(&mut running, || puts(&proxy) > SOME);
    interrupt(&running);
    let ended = running.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", told(&ended));
    assert_eq!(keys(server, &bucket), "lake/mine.txt");
}

/// What is printed first is what is then asked for: never less, and not twice as much.
#[test]
fn its_estimate_is_near_what_it_asks_for() {
    let server = Server::shared().unwrap();
    let bucket = server.bucket().unwrap();
    let proxy = wait(Proxy::before(server)).unwrap();
    let mut command = gate();
    let ended = command.arg(format!("s3://{bucket}/lake")).envs(server.environment(proxy.addr())).output().unwrap();
    assert!(ended.status.success(), "{}", told(&ended));
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.lines().next().is_some_and(|line| line.contains("about")), "{said}");
    let counted = counts(&proxy.requests());
    let sum = |verbs: &[Verb]| verbs.iter().map(|verb| counted.get(verb).copied().unwrap_or_default()).sum::<usize>();
    for (word, asked) in [(" writes", sum(&[Verb::Put])), (" reads", sum(&[Verb::Get, Verb::Head])), (" lists", sum(&[Verb::List]))] {
        let estimate = told_before(&said, word);
        assert!((asked..=2 * asked).contains(&estimate), "{estimate}{word} were said and {asked} made: {counted:?}");
    }
}

#[test]
fn it_says_what_is_done_where_there_is_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let ended = gate().arg(folder.path()).output().unwrap();
    assert!(ended.status.success(), "{}", told(&ended));
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    for what in ["20 commits", "80 commits", "the control"] {
        assert!(said.lines().skip(1).any(|line| line.contains(what)), "{what}: {said}");
    }
}

#[test]
fn it_fails_without_its_server() {
    let ended = gate().args(["--only", "s3"]).env(RUNNING, "127.0.0.1:1,key,secret").output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", told(&ended));
    assert!(ended.stdout.is_empty() && String::from_utf8_lossy(&ended.stderr).starts_with("headwater-gate: "), "{}", told(&ended));
}
