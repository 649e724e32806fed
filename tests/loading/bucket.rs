//! The lake in a bucket of a real S3 server, and what a client of that server sees of it.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

use aws_credential_types::Credentials;
use headwater::{Catalog, Parts};
use headwater_bench::client::Request;
use headwater_bench::server::Server;
use headwater_s3::{S3Authority, Settings};

/// The bucket, and where commands reach it.
#[derive(Debug)]
pub(crate) struct Bucket {
    server: &'static Server,
    name: String,
    address: SocketAddr,
}

impl Bucket {
    pub(crate) fn new() -> Self {
        let server = Server::shared().unwrap();
        Self { server, name: server.bucket().unwrap(), address: server.address() }
    }

    /// Commands reach it through the proxy at this address; looks and openings do not.
    pub(crate) fn behind(address: SocketAddr) -> Self {
        Self { address, ..Self::new() }
    }

    pub(super) fn url(&self) -> String {
        format!("s3://{}/lake", self.name)
    }

    pub(super) fn describe(&self) -> String {
        format!("on {}", self.server.name())
    }

    /// The environment to reach it, and nothing of the account this runs under.
    pub(super) fn prepare(&self, command: &mut Command) {
        let ours = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(|name| name.starts_with("AWS_")));
        for (name, _) in ours {
            command.env_remove(name);
        }
        for file in ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"] {
            command.env(file, "/dev/null");
        }
        command.envs(self.server.environment(self.address));
    }

    fn authority(&self) -> S3Authority {
        let settings = Settings::new(&self.name, "lake").unwrap().endpoint(&self.server.endpoint()).unwrap();
        let keys = Credentials::from_keys(self.server.access_key(), self.server.secret_key(), None);
        S3Authority::new(settings.region(self.server.region()).credentials(keys)).unwrap()
    }

    /// With this control, and the data here.
    #[cfg(feature = "sqlite")]
    pub(super) async fn open_with(&self, control: headwater_sqlite::SqliteAuthority) -> Catalog {
        let root = self.authority();
        let mut parts = Parts::new(headwater::registry().unwrap(), Arc::new(control), root.objects());
        parts.data_root = Some(headwater::locator::DataRoot { authority: Arc::new(root), url: self.url(), control: "sqlite".to_owned() });
        Catalog::open(parts).await.unwrap()
    }

    pub(super) async fn open(&self) -> Catalog {
        let authority = self.authority();
        let objects = authority.objects();
        Catalog::open(Parts::new(headwater::registry().unwrap(), Arc::new(authority), objects)).await.unwrap()
    }

    pub(super) async fn head(&self) -> Vec<u8> {
        let head = self.server.client().get(&format!("/{}/lake/_headwater/heads/main.json", self.name)).await.unwrap();
        assert_eq!(head.status, 200);
        head.body.to_vec()
    }

    pub(super) async fn objects(&self) -> usize {
        self.keys("lake/data/").await.len()
    }

    /// What begins like this, page by page.
    pub(super) async fn keys(&self, prefix: &str) -> Vec<String> {
        let (client, path) = (self.server.client(), format!("/{}", self.name));
        let (mut keys, mut after) = (Vec::new(), String::new());
        loop {
            let query = [("list-type", "2"), ("prefix", prefix), ("start-after", &after)];
            let listed = client.send(Request { method: "GET", path: &path, query: &query, ..Request::default() }).await.unwrap();
            assert_eq!(listed.status, 200);
            let body = String::from_utf8(listed.body.to_vec()).unwrap();
            keys.extend(body.split("<Key>").skip(1).map(|rest| rest.split("</Key>").next().unwrap().to_owned()));
            match keys.last() {
                Some(last) if body.contains("<IsTruncated>true</IsTruncated>") => after.clone_from(last),
                _ => return keys,
            }
        }
    }
}
