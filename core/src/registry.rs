//! The closed registry: which backends, stores and effect adapters this build has, checked against what it must have.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use object_store::ObjectStore;
use url::Url;

use crate::adapter::{EffectAdapter, WriterKind};
use crate::authority::ControlAuthority;
use crate::error::{Error, ErrorKind, Result};
use crate::store::DataStore;

/// One linked part, submitted by its crate.
#[derive(Clone, Copy)]
pub struct Registration {
    /// The part's name, unique among its kind.
    pub name: &'static str,
    /// What it is.
    pub part: Part,
}

inventory::collect!(&'static Registration);

/// What a [`Registration`] brings.
#[derive(Clone, Copy)]
pub enum Part {
    /// A control authority and the object store beside it, by URL scheme.
    Backend(Backend),
    /// A control authority that has no place for data, by URL scheme.
    Authority(AuthorityPart),
    /// A data store, by the kind the catalog records.
    Store(StorePart),
    /// An effect adapter. In-tree only: writer kinds are closed.
    Adapter(&'static dyn EffectAdapter),
}

impl Part {
    /// The kind's name in listings and errors.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Backend(_) => "backend",
            Self::Authority(_) => "authority",
            Self::Store(_) => "store",
            Self::Adapter(_) => "adapter",
        }
    }

    fn schemes(&self) -> &'static [&'static str] {
        match self {
            Self::Backend(backend) => backend.schemes,
            Self::Authority(authority) => authority.schemes,
            Self::Store(_) | Self::Adapter(_) => &[],
        }
    }
}

/// A backend's entry.
#[derive(Clone, Copy, Debug)]
pub struct Backend {
    /// The URL schemes it serves.
    pub schemes: &'static [&'static str],
    /// Resolves a location. No request.
    pub open: fn(&Location) -> Result<OpenedBackend>,
    /// One line for listings.
    pub summary: &'static str,
}

/// An authority's entry, for a catalog whose data is elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct AuthorityPart {
    /// The URL schemes it serves.
    pub schemes: &'static [&'static str],
    /// Resolves a location. No request.
    pub open: fn(&Location) -> Result<Arc<dyn ControlAuthority>>,
    /// One line for listings.
    pub summary: &'static str,
}

/// Makes a data store over an object store.
pub type OpenStore = fn(Arc<dyn ObjectStore>, &crate::ids::Mint) -> Result<Arc<dyn DataStore>>;

/// A data store's entry.
#[derive(Clone, Copy, Debug)]
pub struct StorePart {
    /// Makes the store over an object store. No request.
    pub open: OpenStore,
    /// One line for listings.
    pub summary: &'static str,
}

/// What a backend opens to.
#[derive(Clone, Debug)]
pub struct OpenedBackend {
    /// Where heads and records live.
    pub authority: Arc<dyn ControlAuthority>,
    /// Where data lives: its keys begin at the catalog's root.
    pub objects: Arc<dyn ObjectStore>,
}

/// A catalog's root: a URL and its options.
#[derive(Clone, Debug)]
pub struct Location {
    /// The root, without query.
    pub url: Url,
    /// The options of its query.
    pub options: Options,
}

impl Location {
    /// Parses a URL. The one place that does.
    pub fn parse(text: &str) -> Result<Self> {
        let mut url = Url::parse(text).map_err(|source| Error::invalid(format!("{text:?} is not a URL")).because(source))?;
        let mut options = BTreeMap::new();
        for (key, value) in url.query_pairs() {
            if options.insert(key.clone().into_owned(), value.into_owned()).is_some() {
                return Err(Error::invalid(format!("the URL option {key:?} is given twice")));
            }
        }
        url.set_query(None);
        if url.fragment().is_some() {
            return Err(Error::invalid(format!("the URL {text:?} has a '#'; write %23 where it is part of a name")));
        }
        Ok(Self { url, options: Options(options) })
    }
}

/// Settings from a URL's query. Whoever reads them refuses what it does not know.
#[derive(Clone, Default)]
pub struct Options(BTreeMap<String, String>);

impl fmt::Debug for Options {
    /// Names only: a value may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Options {
    /// Takes an option out.
    pub fn take(&mut self, key: &str) -> Option<String> {
        self.0.remove(key)
    }

    /// Refuses whatever was not taken.
    pub fn finish(&self) -> Result<()> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(key) => Err(Error::invalid(format!("there is no URL option {key:?} for this backend; remove it"))),
        }
    }
}

/// The kind and name of a part that must be linked.
pub type Expected = (&'static str, &'static str);

/// The sealed registry: exactly the expected parts, each once.
#[derive(Clone)]
pub struct Registry {
    parts: Vec<Registration>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.parts.iter().map(|part| (part.part.kind(), part.name))).finish()
    }
}

impl Registry {
    /// Seals what is linked. Linkers drop crates nobody names, silently, and a crate linked twice registers twice; `expected` is built
    /// under the same features as the links, so a difference is an error here and not a surprise later.
    pub fn seal(expected: &[Expected], registered: &[&'static Registration]) -> Result<Self> {
        let linked = inventory::iter::<&'static Registration>.into_iter().copied().chain(registered.iter().copied());
        if let Some(adapter) = registered.iter().find(|part| matches!(part.part, Part::Adapter(_))) {
            let problem = format!(
                "the adapter {:?} cannot be registered: kinds of write are closed, only backends and stores come from outside",
                adapter.name
            );
            return Err(Error::new(ErrorKind::Unsupported, problem).during("seal registry"));
        }
        let mut all = expected.to_vec();
        all.extend(registered.iter().map(|part| (part.part.kind(), part.name)));
        Self::seal_parts(&all, linked)
    }

    /// [`Registry::seal`] over given parts.
    pub fn seal_parts(expected: &[Expected], linked: impl IntoIterator<Item = &'static Registration>) -> Result<Self> {
        let expected: BTreeSet<Expected> = expected.iter().copied().collect();
        let mut parts = BTreeMap::new();
        let mut problems = Vec::new();
        let (mut schemes, mut kinds) = (BTreeMap::new(), BTreeMap::new());
        for registration in linked {
            let id = (registration.part.kind(), registration.name);
            if parts.insert(id, *registration).is_some() {
                problems.push(format!("the {} {:?} is registered twice", id.0, id.1));
            } else if !expected.contains(&id) {
                problems.push(format!("the {} {:?} is linked but not expected in this build", id.0, id.1));
            }
            if let Part::Adapter(adapter) = &registration.part
                && kinds.insert(adapter.kind(), registration.name).is_some_and(|other| other != registration.name)
            {
                problems.push(format!("two adapters make {} commits", adapter.kind().name()));
            }
            for scheme in registration.part.schemes() {
                if schemes.insert(*scheme, registration.name).is_some_and(|other| other != registration.name) {
                    problems.push(format!("two backends serve the scheme {scheme:?}"));
                }
            }
        }
        for id in expected.iter().filter(|id| !parts.contains_key(*id)) {
            problems.push(format!("the {} {:?} is expected but not linked", id.0, id.1));
        }
        if problems.is_empty() {
            Ok(Self { parts: parts.into_values().collect() })
        } else {
            Err(Error::new(ErrorKind::Unsupported, format!("this build is put together wrongly: {}", problems.join("; ")))
                .during("seal registry"))
        }
    }

    /// Every part, by kind and name.
    pub fn parts(&self) -> &[Registration] {
        &self.parts
    }

    /// Every effect adapter.
    pub fn adapters(&self) -> impl Iterator<Item = &'static dyn EffectAdapter> {
        self.parts.iter().filter_map(|part| match part.part {
            Part::Adapter(adapter) => Some(adapter),
            _ => None,
        })
    }

    /// The adapter of a writer kind.
    pub fn adapter(&self, kind: WriterKind) -> Result<&'static dyn EffectAdapter> {
        self.adapters()
            .find(|adapter| adapter.kind() == kind)
            .ok_or_else(|| Error::new(ErrorKind::Unsupported, format!("this build has no {} adapter", kind.name())))
    }

    /// The backend of a URL scheme. `Unsupported` also where the scheme is that of an authority without a place for data.
    pub fn backend(&self, scheme: &str) -> Result<&Backend> {
        let backends = || {
            self.parts.iter().filter_map(|part| match &part.part {
                Part::Backend(backend) => Some(backend),
                _ => None,
            })
        };
        backends().find(|backend| backend.schemes.contains(&scheme)).ok_or_else(|| {
            if self.authorities().any(|authority| authority.schemes.contains(&scheme)) {
                let problem = format!("{scheme}: keeps control, and no data; name the place of the data, and this with --control");
                return Error::new(ErrorKind::Unsupported, problem);
            }
            let known: Vec<String> = backends().flat_map(|backend| backend.schemes).map(|scheme| format!("{scheme}://")).collect();
            Error::new(ErrorKind::Unsupported, format!("this build has no backend for {scheme}://; it has {}", known.join(", ")))
        })
    }

    fn authorities(&self) -> impl Iterator<Item = &AuthorityPart> {
        self.parts.iter().filter_map(|part| match &part.part {
            Part::Authority(authority) => Some(authority),
            _ => None,
        })
    }

    /// The authority at a location, be it one without a place for data or that of a backend. No request.
    pub fn authority(&self, location: &Location) -> Result<Arc<dyn ControlAuthority>> {
        let scheme = location.url.scheme();
        if let Some(part) = self.authorities().find(|part| part.schemes.contains(&scheme)) {
            return (part.open)(location);
        }
        if let Ok(backend) = self.backend(scheme) {
            return Ok((backend.open)(location)?.authority);
        }
        let known: Vec<String> = self.parts.iter().flat_map(|part| part.part.schemes()).map(|scheme| format!("{scheme}:")).collect();
        Err(Error::new(ErrorKind::Unsupported, format!("this build keeps no control at {scheme}:; it does at {}", known.join(", "))))
    }

    /// The data store of a kind.
    pub fn store(&self, kind: &str) -> Result<&StorePart> {
        let stores = || {
            self.parts.iter().filter_map(|part| match &part.part {
                Part::Store(store) => Some((part.name, store)),
                _ => None,
            })
        };
        stores().find(|(name, _)| *name == kind).map(|(_, store)| store).ok_or_else(|| {
            let known: Vec<&str> = stores().map(|(name, _)| name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Error::new(ErrorKind::Unsupported, format!("this build has no {kind:?} store; it has {known}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static A: Registration = Registration { name: "a", part: Part::Store(StorePart { open: |_, _| Err(Error::invalid("")), summary: "" }) };
    static B: Registration = Registration { name: "b", part: A.part };

    fn message(expected: &[Expected], linked: &[&'static Registration]) -> String {
        let error = Registry::seal_parts(expected, linked.iter().copied()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        error.to_string()
    }

    #[test]
    fn only_exactly_what_is_expected_seals() {
        let (a, b) = (("store", "a"), ("store", "b"));
        assert_eq!(Registry::seal_parts(&[a, b], [&A, &B]).unwrap().parts().len(), 2);
        assert!(message(&[a, b], &[&A]).contains(r#"the store "b" is expected but not linked"#));
        assert!(message(&[a], &[&A, &B]).contains(r#"the store "b" is linked but not expected"#));
        assert!(message(&[a], &[&A, &A]).contains(r#"the store "a" is registered twice"#));
    }

    #[test]
    fn what_is_missing_is_named_with_what_is_there() {
        let registry = Registry::seal_parts(&[("store", "a")], [&A]).unwrap();
        assert!(registry.store("lance").unwrap_err().to_string().contains("it has a"));
        assert!(registry.backend("s3").unwrap_err().to_string().contains("s3://"));
    }

    #[test]
    fn options_nobody_takes_and_doubled_ones_are_refused() {
        let mut location = Location::parse("memory://x?cache=1").unwrap();
        assert!(location.options.finish().unwrap_err().to_string().contains("\"cache\""));
        assert_eq!(location.options.take("cache").as_deref(), Some("1"));
        location.options.finish().unwrap();
        assert!(Location::parse("memory://x?a=1&a=2").is_err());
    }
}
