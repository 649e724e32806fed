//! The locator: what stands at the data root of a catalog whose control is elsewhere, and says where.
//!
//! It is the catalog record of the data root's own authority, so one put-if-absent decides whose the root is, also against a catalog that
//! is created there with its control beside the data; and whoever opens the root alone reads it instead of a catalog record.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::authority::{ControlAuthority, Create};
use crate::catalog::{CatalogRecord, catalog_key};
use crate::error::{Error, ErrorKind, Result};
use crate::head::{FORMAT, check_features};
use crate::ids::CatalogId;
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
    /// The catalog whose data is here.
    pub catalog: CatalogId,
    /// The URL its control had when it was created, without options.
    pub control: String,
    /// Digest over all of the above.
    pub digest: String,
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

    /// Whether what is at the root fits the control. `live`: the catalog is past its creation, which put the locator.
    pub(crate) fn check(&self, record: Option<&CatalogRecord>, live: bool, owner: &Owner) -> Result<()> {
        let problem = match (owner, record) {
            (Owner::Itself, _) => "the data root is that of a catalog with its control beside the data; leave --control out".to_owned(),
            (Owner::Other(locator), Some(record)) if locator.catalog == record.catalog => return Ok(()),
            (Owner::Other(locator), Some(record)) => format!(
                "the data root belongs to the catalog {} with its control at {:?}, and --control is that of {}; choose another data root",
                locator.catalog, locator.control, record.catalog
            ),
            (Owner::Other(locator), None) => format!(
                "the data root belongs to the catalog {} with its control at {:?}, and there is none at --control; name that one",
                locator.catalog, locator.control
            ),
            (Owner::Nobody, Some(_)) if live => {
                "the catalog of --control has its data elsewhere: there is no locator at this root; name the data root it was created with"
                    .to_owned()
            }
            (Owner::Nobody, _) => return Ok(()),
        };
        let error = Error::invalid(problem).during("open");
        Err(match owner {
            Owner::Other(locator) => error.at("control", &locator.control),
            Owner::Itself | Owner::Nobody => error,
        })
    }

    /// Puts the locator of a catalog that is being created, unless it is there. 1 request; 1 more where it is.
    pub(crate) async fn claim(&self, record: &CatalogRecord) -> Result<()> {
        let mut locator = Locator {
            format: FORMAT,
            features: vec![CONTROL_ELSEWHERE.to_owned()],
            catalog: record.catalog,
            control: self.control.clone(),
            digest: String::new(),
        };
        match self.authority.create_record(&catalog_key(), Bytes::from(locator.seal()?)).await? {
            Create::Created => return Ok(()),
            Create::Exists => {}
            Create::Unknown(cause) => tracing::debug!(%cause, "the locator's create is uncertain"),
        }
        match self.owner().await? {
            Owner::Nobody => {
                Err(Error::new(ErrorKind::Unavailable, "the locator could not be written; try again").during("create catalog"))
            }
            owner => self.check(Some(record), false, &owner),
        }
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
