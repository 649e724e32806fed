//! The file of the authority: a line of JSON says what there is, and the bodies follow it, as they are.

use std::collections::BTreeMap;

use bytes::Bytes;
use headwater_core::json::{Sealed, sha256};
use headwater_core::{Error, Result};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Map {
    /// Counts writes and never goes back, also not when an object is removed: a tag made of it names one version for ever.
    pub(crate) writes: u64,
    /// By `head/NAME` and `record/KEY`.
    pub(crate) objects: BTreeMap<String, Version>,
    /// SHA-256 of all that follows the line.
    bodies: String,
    digest: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Version {
    pub(crate) tag: u64,
    pub(crate) size: usize,
    #[serde(skip)]
    pub(crate) body: Bytes,
}

impl Sealed for Map {
    fn digest_mut(&mut self) -> &mut String {
        &mut self.digest
    }
}

impl Map {
    /// Damage is `Corrupt`.
    pub(crate) fn parse(file: Bytes) -> Result<Self> {
        let line = file.iter().position(|byte| *byte == b'\n').ok_or_else(|| Error::corrupt("map", "the file has no line"))?;
        let (mut map, mut bodies) = (Self::open("map", &file[..line])?, file.slice(line + 1..));
        let sizes = map.objects.values().try_fold(0_usize, |sum, version| sum.checked_add(version.size));
        if sizes != Some(bodies.len()) || sha256(&bodies) != map.bodies {
            return Err(Error::corrupt("map", "the bodies are not the ones that were written"));
        }
        map.objects.values_mut().for_each(|version| version.body = bodies.split_to(version.size));
        Ok(map)
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>> {
        let bodies = self.objects.values().map(|version| version.body.as_ref()).collect::<Vec<_>>().concat();
        self.bodies = sha256(&bodies);
        Ok([self.seal()?.as_slice(), b"\n", &bodies].concat())
    }
}
