//! The registered backend in processes of their own, which find region, endpoint and credentials in their environment or profile.

use std::path::Path;
use std::process::Command;

use headwater_core::authority::Expected;
use headwater_core::registry::{Location, OpenedBackend, Part, Registration};
use headwater_core::{ErrorKind, Result};
use headwater_s3::REGISTRATION;
use object_store::ObjectStoreExt;

use crate::fixture::{body, branch, server, swapped};

const URL: &str = "HEADWATER_TEST_URL";

fn open(url: &str) -> Result<OpenedBackend> {
    let Part::Backend(backend) = REGISTRATION.part else { panic!("not a backend") };
    (backend.open)(&Location::parse(url)?)
}

#[test]
fn the_backend_is_linked_and_opening_sends_nothing() {
    // Whatever else this test's server brings along.
    let linked = inventory::iter::<&'static Registration>.into_iter().find(|registration| registration.name == "s3").unwrap();
    assert!(matches!(linked.part, Part::Backend(backend) if backend.schemes == ["s3"]));
    // Outside a runtime, and where nobody listens.
    let opened = open("s3://lake/prefix?endpoint=http://127.0.0.1:1&region=us-east-1").unwrap();
    assert!(opened.authority.capability().multi_host);
    assert_eq!(open("s3://lake?colour=red").unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// Not a test of its own: [`environments`] runs it in processes with an environment.
#[tokio::test]
#[ignore = "needs the environment its parent makes"]
async fn child() {
    let opened = open(&std::env::var(URL).unwrap()).unwrap();
    swapped(opened.authority.swap_head(&branch("main"), Expected::Absent, body("1")).await.unwrap());
    opened.objects.put(&"data/a".into(), body("rows").into()).await.unwrap();
    assert_eq!(opened.objects.get(&"data/a".into()).await.unwrap().bytes().await.unwrap(), body("rows"));
}

fn run(url: &str, variables: &[(&str, &str)]) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "environment::child", "--ignored", "--nocapture"]);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
        child.env_remove(name);
    }
    let nowhere = Path::new("/nonexistent");
    child.env("AWS_CONFIG_FILE", nowhere).env("AWS_SHARED_CREDENTIALS_FILE", nowhere).env("AWS_EC2_METADATA_DISABLED", "true");
    let output = child.env(URL, url).envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{url} {text} {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn environments() {
    let server = server();
    let (endpoint, access, secret) = (server.endpoint(), server.access_key(), server.secret_key());
    let bucket = || format!("s3://{}/lake", server.bucket().unwrap());

    let common = server.environment(server.address());
    let common: Vec<(&str, &str)> = common.iter().map(|(name, value)| (*name, value.as_str())).collect();
    run(&bucket(), &common);

    // The special endpoint wins over the general one, and the URL over both. No region is needed.
    let keys = [("AWS_ACCESS_KEY_ID", access), ("AWS_SECRET_ACCESS_KEY", secret)];
    let dead = ("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    run(&bucket(), &[keys[0], keys[1], dead, ("AWS_ENDPOINT_URL_S3", &endpoint)]);
    run(&format!("{}?endpoint={endpoint}", bucket()), &[keys[0], keys[1], dead, ("AWS_ENDPOINT_URL_S3", dead.1)]);

    // Profiles: everything in files, the profile by the URL or the variable.
    let folder = tempfile::tempdir().unwrap();
    let (config, credentials) = (folder.path().join("config"), folder.path().join("credentials"));
    let text = format!(
        "[profile work]\nregion = us-east-1\nservices = local\n[services local]\ns3 =\n  endpoint_url = {endpoint}\n\
         [profile plain]\nregion = us-east-1\nendpoint_url = {endpoint}\ncredential_process = cat {}\n",
        folder.path().join("process").display()
    );
    std::fs::write(&config, text).unwrap();
    std::fs::write(&credentials, format!("[work]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n")).unwrap();
    let process = format!(r#"{{"Version": 1, "AccessKeyId": "{access}", "SecretAccessKey": "{secret}"}}"#);
    std::fs::write(folder.path().join("process"), process).unwrap();
    let files = [("AWS_CONFIG_FILE", config.to_str().unwrap()), ("AWS_SHARED_CREDENTIALS_FILE", credentials.to_str().unwrap())];
    run(&format!("{}?profile=work", bucket()), &files);
    run(&format!("{}?profile=plain", bucket()), &files);
    run(&bucket(), &[files[0], files[1], ("AWS_PROFILE", "work")]);
}
