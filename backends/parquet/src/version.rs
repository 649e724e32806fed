//! The version object: what one pin holds, in a size that does not grow with the number of appends.
//!
//! A version lists its newest data files itself (`recent`). When that list is full, the next version starts a new one and refers to the
//! version object that holds the full list (`sealed`): the object is the list, so sealing costs no request and no append rewrites a list.
//! When the references are too many, the next version refers to its base as a whole (`older`) and starts again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use headwater_core::json::{decode, encode, sha256};
use headwater_core::store::Pin;
use headwater_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::stats::{ColumnStatistics, MAX_COLUMNS};
use crate::types;

/// The only format this build reads and writes.
const FORMAT: u32 = 1;
/// Data files a version object lists itself.
pub(crate) const MAX_RECENT: usize = 32;
/// Full lists a version object refers to one by one.
pub(crate) const MAX_SEALED: usize = 64;

/// The parsed version object. Its files in row order: the closure of `older`, the `recent` lists of `sealed` in order, `recent`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Version {
    format: u32,
    #[serde(with = "shared_schema")]
    pub(crate) schema: SchemaRef,
    /// Of the whole closure.
    pub(crate) total: Counts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) older: Option<Reference>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sealed: Vec<Reference>,
    pub(crate) recent: Vec<DataFile>,
}

/// Rows, bytes and number of data files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counts {
    #[serde(with = "headwater_core::json::count")]
    pub(crate) rows: u64,
    #[serde(with = "headwater_core::json::count")]
    pub(crate) bytes: u64,
    #[serde(with = "headwater_core::json::count")]
    pub(crate) files: u64,
}

/// An older version object. As `sealed`, its `recent` list counts, and `holds` is of that; as `older`, all it reaches.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reference {
    pub(crate) pin: Pin,
    pub(crate) holds: Counts,
}

/// An immutable Parquet file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DataFile {
    pub(crate) path: String,
    #[serde(with = "headwater_core::json::count")]
    pub(crate) size: u64,
    #[serde(with = "headwater_core::json::count")]
    pub(crate) rows: u64,
    pub(crate) row_groups: u32,
    /// SHA-256 (hex) of its bytes.
    pub(crate) digest: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) statistics: Vec<ColumnStatistics>,
}

/// A version object that is ready to be written.
#[derive(Clone, Debug)]
pub(crate) struct NewVersion {
    pub(crate) pin: Pin,
    pub(crate) bytes: Bytes,
    pub(crate) version: Arc<Version>,
}

impl Counts {
    fn plus(self, other: Self) -> Option<Self> {
        Some(Self {
            rows: self.rows.checked_add(other.rows)?,
            bytes: self.bytes.checked_add(other.bytes)?,
            files: self.files.checked_add(other.files)?,
        })
    }

    fn sum(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        all.into_iter().try_fold(Self::default(), Self::plus)
    }

    pub(crate) fn of(files: &[DataFile]) -> Option<Self> {
        Self::sum(files.iter().map(|file| Self { rows: file.rows, bytes: file.size, files: 1 }))
    }
}

impl Version {
    /// A table without rows.
    pub(crate) fn empty(schema: SchemaRef) -> Self {
        Self { format: FORMAT, schema, total: Counts::default(), older: None, sealed: Vec::new(), recent: Vec::new() }
    }

    /// Reads and checks a version object; `bytes` must be what the pin says.
    pub(crate) fn open(pin: &Pin, bytes: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Probe {
            format: u32,
        }
        let object = pin.path.as_str();
        let Probe { format } = decode(object, bytes)?;
        if format != FORMAT {
            let message = format!("the version object has format {format}, this build reads {FORMAT}; use a build that knows it");
            return Err(Error::new(ErrorKind::FormatMismatch, message).at("object", object));
        }
        let version: Self = decode(object, bytes)?;
        match version.fault() {
            None => Ok(version),
            Some(what) => Err(Error::corrupt(object, format!("{what}; run `headwater verify --data`"))),
        }
    }

    /// What is wrong with the object in itself.
    fn fault(&self) -> Option<String> {
        if let Err(error) = headwater_core::schema::check_schema(&self.schema) {
            return Some(format!("the version object's schema is damaged ({error})"));
        }
        if let Some((column, why)) = self.schema.fields().iter().find_map(|field| Some((field.name(), types::refused(field)?))) {
            return Some(format!("the version object's column {column:?} is of a type no table has ({why})"));
        }
        if self.recent.len() > MAX_RECENT || self.sealed.len() > MAX_SEALED {
            return Some("the version object lists more than it may".into());
        }
        if self.recent.iter().any(|file| file.rows == 0 || u64::from(file.row_groups) > file.rows || file.statistics.len() > MAX_COLUMNS) {
            return Some("the version object lists an impossible data file".into());
        }
        let paths: BTreeSet<&str> = self.recent.iter().map(|file| file.path.as_str()).collect();
        let pins: BTreeSet<&str> = self.references().map(|reference| reference.pin.path.as_str()).collect();
        if paths.len() != self.recent.len() || pins.len() != self.references().count() {
            return Some("the version object lists something twice".into());
        }
        let parts = self.references().map(|reference| reference.holds).chain(Counts::of(&self.recent));
        (Counts::sum(parts) != Some(self.total)).then(|| "the version object's totals are not those of its lists".into())
    }

    /// Every version object this one refers to, in row order.
    pub(crate) fn references(&self) -> impl Iterator<Item = &Reference> {
        self.older.iter().chain(&self.sealed)
    }

    /// The same rows under a schema with more columns.
    pub(crate) fn with_schema(&self, schema: SchemaRef) -> Self {
        Self { schema, ..self.clone() }
    }

    /// The bytes and the pin of this version under a fresh path.
    pub(crate) fn seal(self, path: String) -> Result<NewVersion> {
        let bytes = Bytes::from(encode(&self)?);
        let pin = Pin { path, size: bytes.len() as u64, id: format!("sha256:{}", sha256(&bytes)) };
        Ok(NewVersion { pin, bytes, version: Arc::new(self) })
    }

    /// The lists of a version that adds to this one, whose pin is `pin`, without adding anything to `recent`.
    fn after(&self, pin: &Pin) -> Self {
        let mut next = Self { recent: Vec::new(), ..self.clone() };
        if self.recent.is_empty() {
            return next;
        }
        if self.sealed.len() < MAX_SEALED {
            let holds = Counts::of(&self.recent).unwrap_or_default();
            next.sealed.push(Reference { pin: pin.clone(), holds });
        } else {
            next.older = Some(Reference { pin: pin.clone(), holds: self.total });
            next.sealed.clear();
        }
        next
    }
}

/// The version objects of `base` with other files in the place of some (by path), and with `added` after them; the last is the new version.
/// `lists` are the files of its sealed lists, in order. Only lists that held one of the files are written again. `None` where the lists do
/// not hold them all.
pub(crate) fn replace(
    base: &Version,
    lists: &[Arc<Version>],
    with: &BTreeMap<String, Vec<DataFile>>,
    added: &[DataFile],
    mut path: impl FnMut() -> String,
) -> Result<Option<Vec<NewVersion>>> {
    let mut found = 0;
    let mut swapped = |files: &[DataFile]| {
        let before = found;
        let mut now = Vec::with_capacity(files.len());
        for file in files {
            match with.get(&file.path) {
                Some(other) => {
                    found += 1;
                    now.extend_from_slice(other);
                }
                None => now.push(file.clone()),
            }
        }
        (found > before).then_some(now)
    };
    let mut written = Vec::new();
    let mut next = Version { sealed: Vec::new(), ..base.clone() };
    for (reference, list) in base.sealed.iter().zip(lists) {
        let Some(files) = swapped(&list.recent) else {
            next.sealed.push(reference.clone());
            continue;
        };
        for files in files.chunks(MAX_RECENT) {
            let part = extend((None, &Version::empty(base.schema.clone())), files, &mut path)?;
            for list in part {
                next.sealed.push(Reference { pin: list.pin.clone(), holds: list.version.total });
                written.push(list);
            }
        }
    }
    let recent = swapped(&base.recent).unwrap_or_else(|| base.recent.clone());
    if found < with.len() || next.sealed.len() > MAX_SEALED {
        return Ok(None);
    }
    let too_many = || Error::invalid("the table would hold more than 2^64 rows or bytes");
    next.recent = Vec::new();
    next.total = Counts::sum(next.references().map(|reference| reference.holds)).ok_or_else(too_many)?;
    // What does not fit one list goes into lists of its own, behind a version that holds the others.
    let files = [recent, added.to_vec()].concat();
    let (first, rest) = files.split_at(files.len().min(MAX_RECENT));
    written.extend(extend((None, &next), first, &mut path)?);
    if let (false, Some(last)) = (rest.is_empty(), written.last().cloned()) {
        written.extend(extend((Some(&last.pin), &last.version), rest, path)?);
    }
    Ok(Some(written))
}

/// The version objects that put `files` after `base`; the last is the new version, the others are lists it needs (one per 32 files; none
/// for an append of up to 32). All are known before any is written, so they can be written in parallel.
pub(crate) fn extend(base: (Option<&Pin>, &Version), files: &[DataFile], mut path: impl FnMut() -> String) -> Result<Vec<NewVersion>> {
    let too_many = || Error::invalid("the table would hold more than 2^64 rows or bytes");
    let (mut pin, mut version) = (base.0.cloned(), base.1.clone());
    let mut written = Vec::new();
    let room = MAX_RECENT.saturating_sub(version.recent.len());
    // An append goes behind the base's recent files if all of it fits there; a longer one in lists of its own.
    let (step, seals) = if files.len() <= room { (files.len().max(1), false) } else { (MAX_RECENT, true) };
    let mut rest = files;
    loop {
        let (now, later) = rest.split_at(rest.len().min(step));
        if let (true, Some(pin)) = (seals, &pin) {
            version = version.after(pin);
        }
        version.recent.extend_from_slice(now);
        version.total = Counts::of(now).and_then(|added| version.total.plus(added)).ok_or_else(too_many)?;
        let sealed = version.seal(path())?;
        if later.is_empty() {
            written.push(sealed);
            return Ok(written);
        }
        (pin, version, rest) = (Some(sealed.pin.clone()), sealed.version.as_ref().clone(), later);
        written.push(sealed);
    }
}

/// A schema behind an `Arc`.
mod shared_schema {
    use super::*;
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(schema: &SchemaRef, serializer: S) -> Result<S::Ok, S::Error> {
        schema.as_ref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SchemaRef, D::Error> {
        Schema::deserialize(deserializer).map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Schema, TimeUnit};

    /// The format's promise: a schema written by an earlier release is read by every later one, whatever its library writes.
    #[test]
    fn an_earlier_schema_is_read() {
        let written = r#"{"fields":[
            {"name":"n","data_type":"Int64","nullable":false,"dict_id":0,"dict_is_ordered":false,"metadata":{}},
            {"name":"t","data_type":{"Timestamp":["Microsecond","UTC"]},"nullable":true,"dict_id":0,"dict_is_ordered":false,"metadata":{}},
            {"name":"d","data_type":{"Decimal128":[38,10]},"nullable":true,"dict_id":0,"dict_is_ordered":false,"metadata":{}},
            {"name":"l","data_type":{"List":{"name":"item","data_type":"Utf8","nullable":true,"dict_id":0,"dict_is_ordered":false,"metadata":{}}},
             "nullable":true,"dict_id":0,"dict_is_ordered":false,"metadata":{}}
        ],"metadata":{}}"#;
        let expected = Schema::new(vec![
            Field::new("n", DataType::Int64, false),
            Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
            Field::new("d", DataType::Decimal128(38, 10), true),
            Field::new("l", DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))), true),
        ]);
        assert_eq!(serde_json::from_str::<Schema>(written).unwrap(), expected);
    }
}
