//! Where the gate keeps the catalogs it measures: below a prefix of its own, which it removes again.

use std::path::PathBuf;
use std::sync::Arc;

use aws_credential_types::Credentials;
use futures::{StreamExt, TryStreamExt};
use headwater::registry::{Location, OpenedBackend};
use headwater_bench::client::Request;
use headwater_bench::proxy::Proxy;
use headwater_bench::server::Server;
use headwater_local::LocalAuthority;
use headwater_s3::{Observer, S3Authority, Settings};
use object_store::ObjectStore;

use super::error::{Error, Result};
use super::meter::{Meter, Outside};
use super::wire::Wire;

/// How often it is looked for something to remove, at most.
const CLEANINGS: usize = 5;

/// A place for catalogs.
#[derive(Debug)]
pub struct Place {
    name: String,
    kind: Kind,
    /// The gate's own prefix in it, without a slash at either end.
    prefix: String,
}

#[derive(Debug)]
enum Kind {
    Folder { root: PathBuf, _temporary: Option<tempfile::TempDir> },
    Loopback { server: Server, bucket: String },
    Remote { location: Location },
}

impl Place {
    /// A folder that goes away with this.
    pub fn temporary() -> Result<Self> {
        let folder = tempfile::TempDir::with_prefix("headwater-gate-").map_err(Error::io("making a temporary folder"))?;
        let root = folder.path().to_owned();
        Ok(Self { name: "local disk".to_owned(), kind: Kind::Folder { root, _temporary: Some(folder) }, prefix: "gate".to_owned() })
    }

    /// A fresh bucket on the S3 server at hand: RustFS, else SeaweedFS; an error where there is none. Requests are counted on the wire, too.
    pub fn loopback() -> Result<Self> {
        let server = Server::start()?;
        let bucket = server.bucket()?;
        Ok(Self { name: server.name().to_owned(), kind: Kind::Loopback { server, bucket }, prefix: "gate".to_owned() })
    }

    /// A folder by path or `file://` URL, or `s3://bucket/prefix?options`, as `headwater` takes them. `unique` names the gate's own folder there.
    pub fn at(url: &str, unique: &str) -> Result<Self> {
        let what = || format!("reading the URL {url:?}");
        let own = format!("headwater-gate-{unique}");
        if !url.contains("://") {
            let root = std::path::absolute(url).map_err(Error::io(what()))?;
            return Ok(Self { name: "local disk".to_owned(), kind: Kind::Folder { root, _temporary: None }, prefix: own });
        }
        let location = Location::parse(url).map_err(Error::catalog(what()))?;
        match location.url.scheme() {
            "file" => {
                let no_folder = || Error::Invalid(format!("{url} is not the URL of a local folder; write file:///absolute/path"));
                let root = location.url.to_file_path().map_err(|()| no_folder())?;
                Ok(Self { name: "local disk".to_owned(), kind: Kind::Folder { root, _temporary: None }, prefix: own })
            }
            "s3" => {
                Settings::from_location(&location).map_err(Error::catalog(what()))?;
                let below = location.url.path().trim_matches('/').to_owned();
                let prefix = if below.is_empty() { own } else { format!("{below}/{own}") };
                let bucket = location.url.host_str().unwrap_or_default();
                Ok(Self { name: format!("bucket {bucket}"), prefix, kind: Kind::Remote { location } })
            }
            scheme => Err(Error::Invalid(format!("the gate measures folders and s3:// places, not {scheme}://"))),
        }
    }

    /// The authority's name in the report.
    pub fn authority(&self) -> &'static str {
        match self.kind {
            Kind::Folder { .. } => "local",
            Kind::Loopback { .. } | Kind::Remote { .. } => "s3",
        }
    }

    /// What is there: a server by name and version.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How the requests of this place are counted.
    pub fn counted(&self) -> &'static str {
        match self.kind {
            Kind::Folder { .. } => "by a tap above the disk",
            Kind::Loopback { .. } => "by a tap, at the HTTP connector and by a proxy on the wire; all agree",
            Kind::Remote { .. } => "by a tap and at the HTTP connector; both agree",
        }
    }

    /// Where everything lies that the gate writes here.
    pub fn written(&self) -> String {
        match &self.kind {
            Kind::Folder { root, .. } => root.join(&self.prefix).display().to_string(),
            Kind::Loopback { server, bucket } => format!("s3://{bucket}/{} on {}", self.prefix, server.endpoint()),
            Kind::Remote { location } => format!("s3://{}/{}/", location.url.host_str().unwrap_or_default(), self.prefix),
        }
    }

    /// The name of the threads that its runtime waits on files with: at most 15 characters, all that the kernel keeps of a name.
    pub(super) fn threads(&self) -> &'static str {
        match self.kind {
            Kind::Folder { .. } => "gate-local",
            Kind::Loopback { .. } | Kind::Remote { .. } => "gate-s3",
        }
    }

    /// Counters for one catalog's processes, whose store may compute on threads of this name, beside the runtime's own.
    pub(super) async fn meter(&self, computing: Option<&'static str>) -> Result<Meter> {
        let outside = match &self.kind {
            Kind::Folder { .. } => Outside::Nowhere,
            Kind::Loopback { server, bucket } => Outside::Loopback(Arc::new(Wire::new(bucket)), Proxy::before(server).await?),
            Kind::Remote { location } => Outside::Connector(Arc::new(Wire::new(location.url.host_str().unwrap_or_default()))),
        };
        Ok(Meter::new(outside, std::iter::once(self.threads()).chain(computing).collect()))
    }

    /// The backend of one catalog here, past every counter.
    pub(super) fn open(&self, catalog: &str) -> Result<OpenedBackend> {
        self.backend(catalog, None)
    }

    /// The same, as a process opens it that the outer counters see.
    pub(super) fn open_counted(&self, catalog: &str, meter: &Meter) -> Result<OpenedBackend> {
        self.backend(catalog, Some(&meter.outside))
    }

    fn backend(&self, catalog: &str, outside: Option<&Outside>) -> Result<OpenedBackend> {
        let what = || format!("opening the backend of {catalog}");
        let below = if catalog.is_empty() { self.prefix.clone() } else { format!("{}/{catalog}", self.prefix) };
        let settings = match &self.kind {
            Kind::Folder { root, .. } => {
                let root = root.join(below);
                let authority = LocalAuthority::new(&root).map_err(Error::catalog(what()))?;
                let objects = headwater_local::objects(&root).map_err(Error::catalog(what()))?;
                return Ok(OpenedBackend { authority: Arc::new(authority), objects });
            }
            Kind::Loopback { server, bucket } => {
                let address = match outside {
                    Some(Outside::Loopback(_, proxy)) => proxy.addr(),
                    _ => server.address(),
                };
                let keys = Credentials::from_keys(server.access_key(), server.secret_key(), None);
                let settings = Settings::new(bucket, &below).and_then(|settings| settings.endpoint(&format!("http://{address}")));
                settings.map_err(Error::catalog(what()))?.region(server.region()).credentials(keys)
            }
            Kind::Remote { location } => {
                let mut location = location.clone();
                location.url.set_path(&below);
                Settings::from_location(&location).map_err(Error::catalog(what()))?
            }
        };
        let settings = match outside {
            Some(Outside::Loopback(wire, _) | Outside::Connector(wire)) => settings.observer(wire.clone() as Arc<dyn Observer>),
            _ => settings,
        };
        let authority = S3Authority::new(settings).map_err(Error::catalog(what()))?;
        let objects = authority.objects();
        Ok(OpenedBackend { authority: Arc::new(authority), objects })
    }

    /// Removes everything below the gate's own prefix, and the prefix. Nothing else is touched. May be repeated.
    pub async fn clean(&self) -> Result<()> {
        match &self.kind {
            Kind::Folder { root, .. } => match std::fs::remove_dir_all(root.join(&self.prefix)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(Error::io(format!("removing {}", root.join(&self.prefix).display()))(error))
                }
                _ => Ok(()),
            },
            Kind::Loopback { .. } | Kind::Remote { .. } => {
                let objects = self.open("")?.objects;
                let failed = || Error::objects(format!("removing what is below {}", self.prefix));
                // A request that was under way when the measurement was stopped may land while the others' objects go.
                for _ in 0..CLEANINGS {
                    let listed: Vec<_> = objects.list(None).map_ok(|object| Ok(object.location)).try_collect().await.map_err(failed())?;
                    if listed.is_empty() {
                        break;
                    }
                    // All at hand, so that each request deletes as many as it may.
                    let deleted = objects.delete_stream(futures::stream::iter(listed).boxed());
                    deleted.try_for_each(|_| async { Ok(()) }).await.map_err(failed())?;
                }
                if let Kind::Loopback { server, bucket } = &self.kind {
                    let path = format!("/{bucket}");
                    let gone = server.client().send(Request { method: "DELETE", path: &path, ..Default::default() }).await?;
                    if !(200..300).contains(&gone.status) {
                        let body = String::from_utf8_lossy(&gone.body).into_owned();
                        return Err(headwater_bench::Error::Refused { request: format!("DELETE {path}"), status: gone.status, body }.into());
                    }
                }
                Ok(())
            }
        }
    }
}
