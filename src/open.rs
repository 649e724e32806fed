//! Opening a catalog by URL: which parts this build has, and how a location becomes an authority, an object store and a catalog.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use headwater_core::authority::{Capability, ControlAuthority, Finding, Severity};
use headwater_core::ids::Environment;
use headwater_core::limits::Limits;
use headwater_core::locator::DataRoot;
use headwater_core::registry::{Expected, Location, OpenedBackend, Registration, Registry};
use headwater_core::{Catalog, Error, ErrorKind, Parts, Result, RetryPolicy};
use object_store::ObjectStore;
use percent_encoding::percent_decode_str;
use url::Url;

// A dependency nobody names is dropped by the linker, and its registration with it.
use headwater_adapters as _;
#[cfg(feature = "lance")]
use headwater_lance as _;
#[cfg(feature = "local")]
use headwater_local as _;
#[cfg(feature = "parquet")]
use headwater_parquet as _;
#[cfg(feature = "s3")]
use headwater_s3 as _;
#[cfg(feature = "sqlite")]
use headwater_sqlite as _;

/// Parts this build lacks, and the cargo feature that adds each.
pub const MISSING: &[(&str, &str)] = &[
    #[cfg(not(feature = "lance"))]
    ("lance", "lance"),
    #[cfg(not(feature = "local"))]
    ("local", "local"),
    #[cfg(not(feature = "memtable"))]
    ("memtable", "memtable"),
    #[cfg(not(feature = "parquet"))]
    ("parquet", "parquet"),
    #[cfg(not(feature = "s3"))]
    ("s3", "s3"),
    #[cfg(not(feature = "sql"))]
    ("sql", "sql"),
    #[cfg(not(feature = "sqlite"))]
    ("sqlite", "sqlite"),
];

/// The registry of this build, sealed: exactly the parts its features name.
pub fn registry() -> Result<Registry> {
    seal(&[])
}

fn seal(registered: &[&'static Registration]) -> Result<Registry> {
    let mut expected: Vec<Expected> = vec![("backend", "memory")];
    expected.extend(headwater_adapters::EXPECTED);
    #[cfg(feature = "lance")]
    expected.push(("store", "lance"));
    #[cfg(feature = "local")]
    expected.push(("backend", "local"));
    #[cfg(feature = "parquet")]
    expected.push(("store", "parquet"));
    #[cfg(feature = "s3")]
    expected.push(("backend", "s3"));
    #[cfg(feature = "sqlite")]
    expected.push(("authority", "sqlite"));
    Registry::seal(&expected, registered)
}

/// Opens the catalog at a URL or path. 2 requests in 1 round trip. `NotFound` where there is none: nothing is created.
pub async fn open(url: &str) -> Result<Catalog> {
    builder(url).open().await
}

/// Opens the catalog at a URL or path, or creates an empty one. Idempotent.
pub async fn create(url: &str) -> Result<Catalog> {
    builder(url).create(true).open().await
}

/// Starts opening the catalog at a URL or path with settings.
pub fn builder(url: &str) -> Builder {
    Builder {
        url: url.to_owned(),
        control: None,
        create: false,
        store: None,
        actor: None,
        retry: RetryPolicy::default(),
        environment: None,
        cache: None,
        registered: Vec::new(),
    }
}

/// How to open a catalog.
#[derive(Clone)]
#[must_use]
pub struct Builder {
    url: String,
    control: Option<String>,
    create: bool,
    store: Option<String>,
    actor: Option<String>,
    retry: RetryPolicy,
    environment: Option<Arc<dyn Environment>>,
    cache: Option<Limits>,
    registered: Vec<&'static Registration>,
}

impl Builder {
    /// Where heads and records are, if not beside the data: `sqlite:PATH`, or the URL of another backend's place. A locator at the data root
    /// then names it, and whoever opens the root without it gets an error that does. The two belong together for good: another data root,
    /// or one that belongs to another catalog, is refused. Opening takes 1 request more, and no round trip.
    pub fn control(mut self, url: impl Into<String>) -> Self {
        self.control = Some(url.into());
        self
    }

    /// Creates an empty catalog where there is none.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// The store kind of a catalog that is created here (`parquet` where it is not set). An existing catalog keeps its own.
    pub fn store(mut self, kind: impl Into<String>) -> Self {
        self.store = Some(kind.into());
        self
    }

    /// Who commits, for the log.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Bounds of retries.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Time and randomness, for tests that replay.
    pub fn environment(mut self, environment: Arc<dyn Environment>) -> Self {
        self.environment = Some(environment);
        self
    }

    /// What a memtable on this catalog keeps in memory: the limits of [`memtable::Writer::new`](crate::memtable::Writer::new). They stand
    /// before those of the URL option `cache`. Nothing of it is recorded.
    #[cfg(feature = "memtable")]
    pub fn cache(mut self, limits: Limits) -> Self {
        self.cache = Some(limits);
        self
    }

    /// Adds a backend or store from outside this project to those this build has.
    pub fn register(mut self, registration: &'static Registration) -> Self {
        self.registered.push(registration);
        self
    }

    /// Opens. See [`open`] and [`create`].
    pub async fn open(self) -> Result<Catalog> {
        let registry = seal(&self.registered)?;
        let Place { location, objects, authority, data_root, cache } = place(&registry, &self.url, self.control.as_deref())?;
        let mut parts = Parts::new(registry, authority, objects);
        parts.data_root = data_root;
        parts.retry = self.retry;
        parts.root = Some(location.url);
        parts.cache = self.cache.or(cache);
        if let Some(limits) = parts.cache {
            limits.check()?;
        }
        if let Some(actor) = self.actor {
            parts.actor = actor;
        }
        if let Some(environment) = self.environment {
            parts.environment = environment;
        }
        let at = |error: Error| error.at("catalog", &self.url);
        match (self.create, self.store) {
            (true, store) => Catalog::open_or_create(parts, store.as_deref().unwrap_or("parquet")).await.map_err(at),
            (false, _) => Catalog::open(parts).await.map_err(at),
        }
    }

    /// Tries whether the place keeps the promises commits stand on: that of the control, and where that is elsewhere, that of the data. See
    /// [`doctor`].
    pub async fn doctor(self) -> Result<Diagnosis> {
        let Place { authority, data_root, .. } = place(&seal(&self.registered)?, &self.url, self.control.as_deref())?;
        let mut findings = authority.probe().await?;
        findings.extend(authority.inspect().await?);
        if let Some(root) = data_root {
            findings.extend(root.authority.probe().await?);
            findings.extend(root.authority.inspect().await?);
        }
        Ok(Diagnosis { capability: authority.capability(), findings })
    }
}

/// What a place is fit for.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// What its backend guarantees.
    pub capability: Capability,
    /// What was tried and seen.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// Whether a catalog may live there.
    pub fn ok(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Broken)
    }
}

/// Tries whether a place keeps the promises commits stand on, and looks at how it is set up. There need not be a catalog; what is written is
/// the probe's own, and removed again.
pub async fn doctor(url: &str) -> Result<Diagnosis> {
    builder(url).doctor().await
}

/// What a location and that of its control resolve to.
struct Place {
    location: Location,
    objects: Arc<dyn ObjectStore>,
    authority: Arc<dyn ControlAuthority>,
    data_root: Option<DataRoot>,
    /// What the URL says of a memtable.
    cache: Option<Limits>,
}

fn place(registry: &Registry, url: &str, control: Option<&str>) -> Result<Place> {
    let mut location = locate(url)?;
    let cache = location.options.take("cache").as_deref().map(cache).transpose()?;
    let scheme = location.url.scheme();
    let backend = registry.backend(scheme).map_err(|error| missing(error, scheme))?;
    let OpenedBackend { authority, objects } = (backend.open)(&location)?;
    let Some(control) = control else { return Ok(Place { location, objects, authority, data_root: None, cache }) };
    let at = |error: Error| error.at("control", control);
    let there = locate(control).map_err(at)?;
    if same_place(&there.url, &location.url) {
        return Err(at(Error::invalid("control and data are at the same place; leave --control out")));
    }
    let scheme = there.url.scheme();
    let elsewhere =
        registry.authority(&there).map_err(|error| if error.kind() == ErrorKind::Unsupported { missing(error, scheme) } else { error });
    let data_root = DataRoot { authority, url: shown(&location.url), control: shown(&there.url) };
    Ok(Place { location, objects, authority: elsewhere.map_err(at)?, data_root: Some(data_root), cache })
}

/// The option that every place has, because it is none of the place's own.
fn cache(text: &str) -> Result<Limits> {
    if cfg!(feature = "memtable") {
        return text.parse();
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        "this build has no memtable for the URL option \"cache\"; build with the cargo feature \"memtable\" to add it",
    ))
}

/// A URL for everyone to read.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Only a URL without a host refuses, and it has neither.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    url.into()
}

/// A URL as it stands; anything without a scheme is a path, with URL options behind a question mark all the same. So is what follows
/// `sqlite:`.
pub(crate) fn locate(text: &str) -> Result<Location> {
    if let Some(path) = text.strip_prefix("sqlite:")
        && !path.starts_with("//")
    {
        let mut file = local(path, Url::from_file_path)?;
        file.insert_str(0, "sqlite");
        return Location::parse(&file);
    }
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    if scheme.is_some_and(|scheme| !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))) {
        return Location::parse(text);
    }
    Location::parse(&format!("file{}", local(text, Url::from_directory_path)?))
}

/// A path with options, made absolute: a URL without its scheme.
fn local(text: &str, url: fn(PathBuf) -> Result<Url, ()>) -> Result<String> {
    let (path, query) = text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)));
    if path.is_empty() {
        return Err(Error::invalid("the catalog's path is empty"));
    }
    let path = std::path::absolute(Path::new(path)).map_err(|source| Error::invalid(format!("{text:?} is not a path")).because(source))?;
    let mut url = url(without_parents(&path)?).map_err(|()| Error::invalid(format!("{text:?} cannot be made a URL")))?;
    url.set_query(query);
    Ok(url.as_str().trim_start_matches("file").to_owned())
}

/// `..` behind a symbolic link leads elsewhere than its spelling, and a URL knows only the spelling: the part that exists is resolved first.
fn without_parents(path: &Path) -> Result<PathBuf> {
    if !path.components().any(|part| part == Component::ParentDir) {
        return Ok(path.to_owned());
    }
    let mut resolved = PathBuf::new();
    for part in path.components() {
        resolved.push(part);
        match resolved.canonicalize() {
            Ok(real) => resolved = real,
            Err(source) if part == Component::ParentDir => {
                return Err(Error::invalid(format!("{:?} goes up from a folder that is not there", path.display())).because(source));
            }
            Err(_) => {}
        }
    }
    Ok(resolved)
}

/// Whether two URLs name one place, however each is spelled.
fn same_place(one: &Url, other: &Url) -> bool {
    let place = |url: &Url| {
        let path = match url.scheme() {
            "file" => url.to_file_path().map(|path| real(&path)).unwrap_or_default(),
            _ => PathBuf::from(percent_decode_str(url.path()).decode_utf8_lossy().trim_matches('/')),
        };
        (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port(), path)
    };
    place(one) == place(other)
}

/// A path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.components().next_back()) {
        (Ok(real), ..) => real,
        (Err(_), Some(parent), Some(last)) => real(parent).join(last),
        (Err(_), ..) => path.to_owned(),
    }
}

/// Names the feature that would add what is missing.
fn missing(error: Error, scheme: &str) -> Error {
    let name = if scheme == "file" { "local" } else { scheme };
    match MISSING.iter().find(|(part, _)| *part == name) {
        Some((_, feature)) => Error::new(ErrorKind::Unsupported, format!("{error}; build with the cargo feature {feature:?} to add it")),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_same_however_it_is_spelled() {
        let same = |one: &str, other: &str| same_place(&Url::parse(one).unwrap(), &Url::parse(other).unwrap());
        for (one, other) in [
            ("s3://bucket/lake", "s3://bucket/lake/"),
            ("s3://bucket/lake", "s3://bucket//lake//"),
            ("s3://bucket/lake", "s3://bucket/./x/../lake"),
            ("s3://bucket/lake", "s3://bucket/l%61ke"),
            ("s3://bucket", "s3://bucket/"),
            ("memory://lake", "memory://lake/"),
            ("file:///not/there/lake", "file:///not/there/lake/"),
            ("file:///not/there/lake", "file:///not/there/./lake"),
            ("file:///not/there/lake", "file:///not/there/l%61ke"),
        ] {
            assert!(same(one, other) && same(other, one), "{one} and {other}");
        }
        for (one, other) in [
            ("s3://bucket/lake", "s3://bucket/Lake"),
            ("s3://bucket/lake", "s3://other/lake"),
            ("s3://bucket/lake", "s3://bucket/lake/control"),
            ("memory://lake", "file:///lake"),
            ("file:///not/there/lake", "file:///not/there/lake/control"),
            ("file:///lake", "sqlite:///lake"),
        ] {
            assert!(!same(one, other) && !same(other, one), "{one} and {other}");
        }
    }
}
