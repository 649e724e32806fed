//! A real S3 server on loopback: RustFS, else SeaweedFS, else an error that says what to install.

mod archive;
mod process;
mod product;

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::OnceLock;

use self::process::Process;
pub use self::product::Product;
use crate::client::{Client, REGION, Request, hex};
use crate::{Error, Result};

/// Names a server that already runs, as `host:port,access,secret` and, if known, `,name`; the host is an IP address.
pub const RUNNING: &str = "HEADWATER_S3_SERVER";

const ACCESS_KEY: &str = "testkey";
const SECRET_KEY: &str = "testsecret123";

/// How often a server is started anew, each time on other ports: between choosing a free port and binding it, another process may take it.
const STARTS: usize = 3;

/// An S3 server. One that this process started ends, with its data, when this is dropped and also when the process ends in any other way.
#[derive(Debug)]
pub struct Server {
    name: String,
    address: SocketAddr,
    access_key: String,
    secret_key: String,
    process: Option<Process>,
}

impl Server {
    /// The server that [`RUNNING`] names, else one started for this process alone: RustFS, or SeaweedFS where RustFS is not at hand.
    ///
    /// # Errors
    ///
    /// If none is at hand, or the one at hand does not get ready. There is nothing to skip: a test that needs a server fails without one.
    pub fn start() -> Result<Self> {
        if let Ok(running) = std::env::var(RUNNING) {
            return Self::running(&running);
        }
        for product in [Product::RustFs, Product::SeaweedFs] {
            if let Some(binary) = product.find()? {
                return Self::launch(product, &binary);
            }
        }
        Err(Error::NoServer)
    }

    /// One server for all tests of this process; it ends with the process.
    ///
    /// # Errors
    ///
    /// As [`Server::start`], once and for all.
    pub fn shared() -> Result<&'static Self, &'static Error> {
        static SHARED: OnceLock<Result<Server>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// A server of this product, started for this process alone.
    ///
    /// # Errors
    ///
    /// If it is not at hand, or does not get ready.
    pub fn start_product(product: Product) -> Result<Self> {
        match product.find()? {
            Some(binary) => Self::launch(product, &binary),
            None => Err(Error::NotInstalled { product: product.name(), remedy: product.remedy() }),
        }
    }

    fn launch(product: Product, binary: &std::path::Path) -> Result<Self> {
        let name = format!("{} {}", product.name(), product.version(binary)?);
        let mut attempt = 1;
        loop {
            match Process::start(product, binary, &name) {
                Ok((process, address)) => {
                    let (access_key, secret_key) = (ACCESS_KEY.to_owned(), SECRET_KEY.to_owned());
                    return Ok(Self { name, address, access_key, secret_key, process: Some(process) });
                }
                Err(Error::NotReady { .. }) if attempt < STARTS => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    fn running(text: &str) -> Result<Self> {
        let parts: Vec<_> = text.splitn(4, ',').collect();
        let address = parts[0].parse();
        match (address, parts.get(1), parts.get(2)) {
            (Ok(address), Some(access), Some(secret)) => {
                let name = parts.get(3).map_or_else(|| format!("the server at {address}"), |name| (*name).to_owned());
                Ok(Self { name, address, access_key: (*access).to_owned(), secret_key: (*secret).to_owned(), process: None })
            }
            _ => {
                let expected = "`host:port,access,secret` with an IP address as host";
                Err(Error::Setting { variable: RUNNING, value: parts[0].to_owned(), expected })
            }
        }
    }

    /// Which server, in which version; every figure taken on it is printed with this.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL, path-style and plain HTTP.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The access key.
    pub fn access_key(&self) -> &str {
        &self.access_key
    }

    /// The secret key.
    pub fn secret_key(&self) -> &str {
        &self.secret_key
    }

    /// The region that requests are signed for.
    pub fn region(&self) -> &'static str {
        REGION
    }

    /// The process id, if this process started the server.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// The environment in which an AWS SDK, object_store or a `headwater` command speaks to this server, or to a proxy at another address.
    pub fn environment(&self, address: SocketAddr) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ACCESS_KEY_ID", self.access_key.clone()),
            ("AWS_SECRET_ACCESS_KEY", self.secret_key.clone()),
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_DEFAULT_REGION", REGION.to_owned()),
            ("AWS_ENDPOINT_URL", format!("http://{address}")),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ]
    }

    /// How to name this server in [`RUNNING`].
    pub fn setting(&self) -> String {
        self.setting_at(self.address)
    }

    /// The same, for a proxy at another address.
    pub fn setting_at(&self, address: SocketAddr) -> String {
        format!("{address},{},{},{}", self.access_key, self.secret_key, self.name)
    }

    /// A client of this server.
    pub fn client(&self) -> Client {
        self.client_at(self.address)
    }

    /// A client that speaks to a proxy before this server.
    pub fn client_at(&self, address: SocketAddr) -> Client {
        Client::new(address, &self.access_key, &self.secret_key)
    }

    /// Creates a bucket under a new random name, so that tests never see each other's objects.
    ///
    /// # Errors
    ///
    /// If the server refuses.
    pub fn bucket(&self) -> Result<String> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| Error::Io { what: "taking random bytes".to_owned(), source: error.into() })?;
        let bucket = format!("test-{}", hex(&random));
        let client = self.client();
        let path = format!("/{bucket}");
        let created = wait(async { client.send(Request { method: "PUT", path: &path, ..Request::default() }).await })?;
        match created.status {
            200 => Ok(bucket),
            status => {
                let body = String::from_utf8_lossy(&created.body).into_owned();
                Err(Error::Refused { request: format!("PUT {path}"), status, body })
            }
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.address)
    }
}

/// Runs a future to its end, also from within another runtime.
fn wait<T: Send>(future: impl Future<Output = Result<T>> + Send) -> Result<T> {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::io("starting a runtime"))?;
        runtime.block_on(future)
    };
    std::thread::scope(|scope| match scope.spawn(run).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Ports that are free now. All are held until all are chosen, so that they differ.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(Error::io("finding a free port"))?;
        *port = listener.local_addr().map_err(Error::io("finding a free port"))?.port();
        held.push(listener);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_server_is_named_in_one_variable() {
        let server = Server::running("127.0.0.1:9000,key,secret").expect("a server");
        assert_eq!((server.address().port(), server.access_key(), server.secret_key()), (9000, "key", "secret"));
        assert_eq!((server.name(), server.pid()), ("the server at 127.0.0.1:9000", None));
        assert_eq!(Server::running("127.0.0.1:9000,key,secret,RustFS 1.0.1").expect("a server").name(), "RustFS 1.0.1");
        let again = Server::running(&server.setting()).expect("a server");
        assert_eq!(again.name(), server.name());
    }

    #[test]
    fn a_wrong_variable_is_refused_without_its_secret() {
        for text in ["", "127.0.0.1:9000", "127.0.0.1:9000,key", "nowhere,key,topsecret"] {
            let error = Server::running(text).expect_err("refused").to_string();
            assert!(error.contains(RUNNING) && !error.contains("topsecret"), "{error}");
        }
    }
}
