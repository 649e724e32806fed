//! The locator: what stands at the data root of a catalog whose control is elsewhere, and says where.
//!
//! It is the catalog record of the data root's own authority, so one put-if-absent decides whose the root is, also against a catalog that
//! is created there with its control beside the data; and whoever opens the root alone reads it instead of a catalog record.
//!
//! That leaves which root is the control's: several may hold a locator that names it, of creations that were cut off. The swap that makes the
//! catalog record live decides: it names one locator by its identity, and every opening compares the two.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::authority::{ControlAuthority, Create};
use crate::catalog::{CatalogRecord, CatalogState, catalog_key};
use crate::error::{Error, ErrorKind, Result};
use crate::head::{FORMAT, check_features};
use crate::ids::{CatalogId, Mint, RootId};
use crate::json::{Sealed, decode};

/// Marks a catalog record whose data is elsewhere.
pub(crate) const DATA_ELSEWHERE: &str = "data-elsewhere";
/// Marks a locator.
const CONTROL_ELSEWHERE: &str = "control-elsewhere";
const OBJECT: &str = "catalog record";

/// What names the control of a data root.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locator {
    /// The format.
    pub format: u32,
    /// What makes builds that know no locators refuse it.
    pub features: Vec<String>,
    /// The catalog whose data is here, if its record names `root`.
    pub catalog: CatalogId,
    /// Which claim this is.
    pub root: RootId,
    /// The URL its control had when it was created, without options.
    pub control: String,
    /// Digest over all of the above.
    pub digest: String,
}

/// The data root of a catalog, as its record names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedRoot {
    /// The locator's.
    pub id: RootId,
    /// The URL it had when it was created, without options. It tells people; what counts is the identity.
    pub url: String,
}

impl Sealed for Locator {
    fn digest_mut(&mut self) -> &mut String {
        &mut self.digest
    }
}

impl Locator {
    /// The error for whoever opens the data root alone. It is not followed: an object in a bucket does not decide what this process opens.
    fn elsewhere(&self) -> Error {
        let problem = format!("the catalog's control is elsewhere, at {:?}; name it with --control", self.control);
        Error::invalid(problem).at("control", &self.control).during("open")
    }
}

/// The data root of a catalog whose heads and records are elsewhere.
#[derive(Clone, Debug)]
pub struct DataRoot {
    /// The authority a catalog would have that keeps its control at the root: it holds the locator, and nothing else.
    pub authority: Arc<dyn ControlAuthority>,
    /// Its own URL, without options or secrets, as the catalog record is to name it.
    pub url: String,
    /// The control's URL, without options or secrets, as the locator is to name it.
    pub control: String,
}

/// Whose a data root is.
#[derive(Debug)]
pub(crate) enum Owner {
    /// Nobody's yet.
    Nobody,
    /// A catalog's that keeps its control there.
    Itself,
    /// A catalog's that keeps its control elsewhere.
    Other(Locator),
}

impl DataRoot {
    /// Whose it is. 1 request.
    pub(crate) async fn owner(&self) -> Result<Owner> {
        match self.authority.read_record(&catalog_key()).await? {
            None => Ok(Owner::Nobody),
            Some((bytes, _)) if is_locator(&bytes)? => Ok(Owner::Other(Locator::open(OBJECT, &bytes)?)),
            Some(_) => Ok(Owner::Itself),
        }
    }

    /// Whether what is at the root fits the control.
    pub(crate) fn check(&self, record: Option<&CatalogRecord>, owner: &Owner) -> Result<()> {
        let named = record.and_then(|record| record.root.as_ref());
        let problem = match (owner, record) {
            (Owner::Itself, _) => "the data root is that of a catalog with its control beside the data; leave --control out".to_owned(),
            (Owner::Other(locator), None) => format!(
                "the data root belongs to the catalog {} with its control at {:?}, and there is none at --control; name that one",
                locator.catalog, locator.control
            ),
            (Owner::Other(locator), Some(record)) if locator.catalog != record.catalog => format!(
                "the data root belongs to the catalog {} with its control at {:?}, and --control is that of {}; choose another data root",
                locator.catalog, locator.control, record.catalog
            ),
            (Owner::Other(locator), Some(_)) => match named {
                Some(named) if named.id != locator.root => format!(
                    "the data of this control is at {:?}, and at {:?} is no more than the locator of a creation that was cut off; name the former",
                    named.url, self.url
                ),
                _ => return Ok(()),
            },
            (Owner::Nobody, _) => match named {
                Some(named) => format!(
                    "the data of this control is at {:?}, and there is no locator at {:?}; name the data root it was created with",
                    named.url, self.url
                ),
                None => return Ok(()),
            },
        };
        let error = Error::invalid(problem).during("open");
        let error = match named {
            Some(named) => error.at("data", &named.url),
            None => error,
        };
        Err(match owner {
            Owner::Other(locator) => error.at("control", &locator.control),
            Owner::Itself | Owner::Nobody => error,
        })
    }

    /// Puts the locator of a catalog that is being created, unless it is there, and returns the one that is. 1 request; 1 more where it was.
    pub(crate) async fn claim(&self, record: &CatalogRecord, mint: &Mint) -> Result<Locator> {
        let mut locator = Locator {
            format: FORMAT,
            features: vec![CONTROL_ELSEWHERE.to_owned()],
            catalog: record.catalog,
            root: RootId(mint.ulid()),
            control: self.control.clone(),
            digest: String::new(),
        };
        match self.authority.create_record(&catalog_key(), Bytes::from(locator.seal()?)).await? {
            Create::Created => return Ok(locator),
            Create::Exists => {}
            Create::Unknown(cause) => tracing::debug!(%cause, "the locator's create is uncertain"),
        }
        let owner = self.owner().await?;
        self.check(Some(record), &owner)?;
        match owner {
            Owner::Other(locator) => Ok(locator),
            Owner::Nobody | Owner::Itself => {
                Err(Error::new(ErrorKind::Unavailable, "the locator could not be written; try again").during("create catalog"))
            }
        }
    }

    /// This root, as the record of the catalog with this locator is to name it.
    pub(crate) fn named(&self, locator: &Locator) -> NamedRoot {
        NamedRoot { id: locator.root, url: self.url.clone() }
    }
}

/// Checks what the record at the key of the catalog record is: its format and features are known, and it is no locator.
pub(crate) fn check_record(bytes: &[u8], data_elsewhere: bool) -> Result<CatalogRecord> {
    if is_locator(bytes)? {
        return Err(Locator::open(OBJECT, bytes)?.elsewhere());
    }
    let record = CatalogRecord::open(OBJECT, bytes)?;
    match (record.features.iter().any(|feature| feature == DATA_ELSEWHERE), data_elsewhere) {
        (true, false) => {
            Err(Error::invalid("this is the control of a catalog whose data is elsewhere; name the data root, and this with --control")
                .during("open"))
        }
        (false, true) => {
            Err(Error::invalid("the catalog at --control keeps its data beside its control; open it by that URL alone").during("open"))
        }
        (true, true) if record.root.is_some() != (record.state == CatalogState::Live) => {
            Err(Error::corrupt(OBJECT, "a record names its data root exactly if it is live; restore the object"))
        }
        (false, false) if record.root.is_some() => Err(Error::corrupt(OBJECT, "the record names a data root apart; restore the object")),
        _ => Ok(record),
    }
}

fn is_locator(bytes: &[u8]) -> Result<bool> {
    #[derive(Deserialize)]
    struct Probe {
        features: Vec<String>,
    }
    check_features(OBJECT, bytes, &[DATA_ELSEWHERE, CONTROL_ELSEWHERE])?;
    let probe: Probe = decode(OBJECT, bytes)?;
    Ok(probe.features.iter().any(|feature| feature == CONTROL_ELSEWHERE))
}
