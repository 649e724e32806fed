//! What a data store must do: build immutable table versions as unreferenced objects, and read them back by exact identity.

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::ids::{Incarnation, TableId};

/// The exact physical identity of one immutable table version. Two pins are the same version if and only if they are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The version object's key, below the catalog's data root.
    pub path: String,
    /// Its size in bytes.
    #[serde(with = "crate::json::count")]
    pub size: u64,
    /// What it must contain, as the store names it (`sha256:…` for a digest of the bytes).
    pub id: String,
}

/// A table as its store sees it: where its objects go. A new incarnation shares no object with an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableRef {
    /// The table.
    pub id: TableId,
    /// Its present life.
    pub incarnation: Incarnation,
}

impl TableRef {
    /// The folder of this incarnation's objects, below the catalog's data root.
    pub fn folder(&self) -> String {
        format!("data/{}/{}", self.id.lower(), self.incarnation.lower())
    }

    /// Refuses a base of another table or another life of it. `InvalidInput`.
    pub fn own(&self, base: &Pin) -> Result<()> {
        if base.path.strip_prefix(&self.folder()).is_some_and(|rest| rest.starts_with('/')) {
            return Ok(());
        }
        Err(Error::invalid("the base version is not one of this table's incarnation").at("object", &base.path))
    }
}

/// Rows on their way into a table: a stream of batches of one schema.
pub struct Rows {
    /// The schema of every batch.
    pub schema: SchemaRef,
    /// The batches. An error in the stream fails the stage, and nothing of it is ever visible.
    pub batches: BoxStream<'static, Result<RecordBatch>>,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Rows {
    /// Rows that are in memory already.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches: Box::pin(futures::stream::iter(batches.into_iter().map(Ok))) }
    }
}

/// A change that makes a new version of a table. Closed: a store answers `Unsupported` to what it does not do, and that is tested.
#[derive(Debug)]
pub enum Change {
    /// A new table (or a new incarnation) with this schema and these rows. Has no base.
    Create(Rows),
    /// The base's rows and these.
    Append(Rows),
    /// These rows instead of the base's, under the base's schema.
    Overwrite(Rows),
    /// The base's rows under this schema, which adds nullable columns at the end of the base's.
    AddColumns(SchemaRef),
    /// The base's rows without those that match.
    Delete(Filter),
    /// The base's rows; those that match have other values in some columns.
    Update {
        /// Which rows.
        filter: Filter,
        /// The columns and their new values, each of the column's type: an array of length 1.
        set: Vec<(String, ArrayRef)>,
    },
    /// What each of these rows does, by whether the base has a row of its key. Rows that stay keep their order; new ones come after them.
    ByKey {
        /// The key columns: in the base, no two rows have one key.
        key: Vec<String>,
        /// What happens.
        action: ByKey,
        /// The rows; `InvalidInput` where two have one key.
        rows: Rows,
    },
    /// The base's rows, in their order, in fewer and larger objects. A base that is laid out well already is given back.
    Rewrite,
    /// The base's rows, and an index of this column over all of them. A base whose index covers them is given back. The index is derived: a
    /// scan yields the same rows whether it is there, behind, or gone. [`Change::Rewrite`] keeps it, and brings it up to date.
    Index(String),
}

/// What a row does to the row of the same key, and without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByKey {
    /// Where the table has a row of that key.
    pub present: Present,
    /// Where it has none.
    pub absent: Absent,
}

/// See [`ByKey::present`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Present {
    /// `AlreadyExists`, naming the key.
    Refuse,
    /// The table's row stays.
    Keep,
    /// The new row stands instead.
    Replace,
    /// The table's row goes.
    Remove,
}

/// See [`ByKey::absent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// `NotFound`, naming the key.
    Refuse,
    /// Nothing.
    Ignore,
    /// The row is added.
    Add,
}

impl ByKey {
    /// Adds rows; a key that is there is refused.
    pub const INSERT: Self = Self { present: Present::Refuse, absent: Absent::Add };
    /// Adds the rows whose key is not there.
    pub const INSERT_MISSING: Self = Self { present: Present::Keep, absent: Absent::Add };
    /// Replaces rows and adds those whose key is not there.
    pub const UPSERT: Self = Self { present: Present::Replace, absent: Absent::Add };
    /// Replaces rows; a key that is not there is refused.
    pub const UPDATE: Self = Self { present: Present::Replace, absent: Absent::Refuse };
    /// Replaces the rows whose key is there.
    pub const UPDATE_PRESENT: Self = Self { present: Present::Replace, absent: Absent::Ignore };
    /// Removes rows; a key that is not there is refused.
    pub const DELETE: Self = Self { present: Present::Remove, absent: Absent::Refuse };
    /// Removes the rows whose key is there.
    pub const DELETE_PRESENT: Self = Self { present: Present::Remove, absent: Absent::Ignore };

    /// The name, as errors and requests print it.
    pub fn name(self) -> &'static str {
        match (self.present, self.absent) {
            (Present::Refuse, Absent::Add) => "insert",
            (Present::Keep, Absent::Add) => "insert missing",
            (Present::Replace, Absent::Add) => "upsert",
            (Present::Replace, Absent::Refuse) => "update by key",
            (Present::Replace, Absent::Ignore) => "update present",
            (Present::Remove, Absent::Refuse) => "delete by key",
            (Present::Remove, Absent::Ignore) => "delete present",
            _ => "change by key",
        }
    }

    /// Whether the rows need nothing but their key columns.
    pub fn keys_alone(self) -> bool {
        self.present != Present::Replace && self.absent != Absent::Add
    }
}

impl Change {
    /// The change's name, as errors print it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Append(_) => "append",
            Self::Overwrite(_) => "overwrite",
            Self::AddColumns(_) => "add columns",
            Self::Delete(_) => "delete",
            Self::Update { .. } => "update",
            Self::ByKey { action, .. } => action.name(),
            Self::Rewrite => "optimize",
            Self::Index(_) => "index",
        }
    }
}

/// What a stage wrote: a version nobody sees until a head names its pin.
#[derive(Clone, Debug)]
pub struct Staged {
    /// The new version.
    pub pin: Pin,
    /// The schema of the new version.
    pub schema: SchemaRef,
    /// Rows in the new version.
    pub rows: u64,
    /// Rows the change itself brought.
    pub changed: u64,
    /// SHA-256 (hex) of what the change brought, the same for the same rows in the same order: it tells a retry from another request.
    pub content: String,
    /// Whether everything the pin reaches survives a loss of power (where the objects' store does).
    pub durability: Durability,
    /// What a later [`DataStore::rebase`] needs, opaque to everyone else.
    pub carry: Option<Arc<dyn std::any::Any + Send + Sync>>,
}

/// Whether staged data is only accepted, or safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// In a cache: a flush must come before any publish.
    Staged,
    /// In the object store.
    Durable,
}

/// What a pin holds.
#[derive(Clone, Debug)]
pub struct Description {
    /// The schema of every batch a scan yields (before projection).
    pub schema: SchemaRef,
    /// Live rows.
    pub rows: u64,
    /// Bytes of all data files.
    pub bytes: u64,
    /// Data files.
    pub files: u64,
}

/// What a scan should yield.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Columns by name, in this order; all of them if `None`.
    pub columns: Option<Vec<String>>,
    /// Only rows for which this is true.
    pub filter: Option<Filter>,
    /// At most this many rows over all partitions together, where the caller reads them in order and stops; each partition stops there by itself.
    pub limit: Option<u64>,
    /// Text as `Utf8View`, where a column is `Utf8`. A store that cannot decode to that may leave it: whoever asks through a snapshot, a
    /// transaction or a writer gets it converted.
    pub views: bool,
}

/// An independent part of a scan.
pub struct Partition {
    /// The schema of its batches (after projection).
    pub schema: SchemaRef,
    /// Rows before the filter, where known.
    pub rows: Option<u64>,
    /// Starts reading. Costs nothing before its first poll; may be called again.
    pub open: Box<dyn Fn() -> BoxStream<'static, Result<RecordBatch>> + Send + Sync>,
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partition").field("schema", &self.schema).field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// Where two versions of one table differ.
#[derive(Debug, Default)]
pub struct Difference {
    /// Rows of the earlier version, in its schema.
    pub removed: Vec<Partition>,
    /// Rows of the later version, in its schema.
    pub added: Vec<Partition>,
}

/// An object below the data root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    /// Its key.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
}

/// An object that a pin reaches and that must exist, unchanged, as long as anything names the pin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reached {
    /// The object.
    pub object: Object,
    /// SHA-256 (hex) of its bytes, where the store records one.
    pub digest: Option<String>,
    /// Whether it is a data file in a standard format (and not the store's own metadata).
    pub data: bool,
}

/// A version as programs open it that know the store's format: a dataset, and which version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The key of the dataset's folder, below the data root.
    pub path: String,
    /// The version's number there.
    pub version: u64,
}

/// Builds, reads and lists immutable table versions.
///
/// Nothing a store writes is visible before a head names its pin: every write is create-only under a fresh name, so a crash leaves
/// unreferenced objects, and calling again leaves more of them; nothing else. Versions of one table may be built by many writers at once.
///
/// Cancellation: dropping a future leaves unreferenced objects at most.
#[async_trait]
pub trait DataStore: Send + Sync + fmt::Debug {
    /// The kind recorded in the catalog, e.g. `parquet`.
    fn kind(&self) -> &'static str;

    /// Refuses, by name, a schema this store cannot keep exactly. No request.
    fn check_schema(&self, schema: &SchemaRef) -> Result<()>;

    /// Builds a new version: the base with the change. `base` is `None` exactly for [`Change::Create`].
    ///
    /// Rows must have the table's schema already (see [`crate::schema::Conform`]); those of a change by key that needs only the key may have
    /// the key columns alone. A change that changes nothing gives back the base's pin. Errors: `Unsupported` for a change this store does
    /// not do, `Corrupt` for a damaged base, whatever the row stream yields, `Unavailable` from the object store.
    async fn stage(&self, table: TableRef, base: Option<&Pin>, change: Change) -> Result<Staged>;

    /// Puts an append, staged on an older base, on this base of the same incarnation and schema, reusing its data files. `None` if this
    /// store cannot: the append must be staged again.
    async fn rebase(&self, table: TableRef, staged: &Staged, base: &Pin) -> Result<Option<Staged>>;

    /// What a pin holds. At most 1 request; none if the version was written or read by this store before and is still cached.
    async fn describe(&self, pin: &Pin) -> Result<Description>;

    /// The partitions of a scan. The filter is exact: no row that does not match is yielded.
    async fn scan(&self, pin: &Pin, scan: &Scan) -> Result<Vec<Partition>>;

    /// Everything these pins reach, themselves included, each object once: what several versions share is read once. Errors with `Corrupt`
    /// when what names the objects is damaged.
    async fn reach(&self, pins: &[Pin]) -> Result<Vec<Reached>>;

    /// Two versions of one incarnation without rows they share: `before` without the removed rows and `after` without the added ones hold the
    /// same rows (null in columns that were added between). A row may be among both. Reads lists and no data before a partition is opened.
    /// `None`, as here, where the store cannot tell: its callers then read both versions whole.
    async fn difference(&self, _before: &Pin, _after: &Pin) -> Result<Option<Difference>> {
        Ok(None)
    }

    /// Where programs that know the store's format find a version, if they open datasets and not files. No request.
    fn address(&self, _pin: &Pin) -> Option<Address> {
        None
    }

    /// How versions get on a chain of the store's own format, if it has such chains.
    fn mirror(&self) -> Option<&dyn Mirror> {
        None
    }

    /// A barrier: what was staged before is durable when this returns. No request where staging is durable already.
    async fn flush(&self) -> Result<()>;

    /// Every object below the data root, referenced or not.
    async fn list(&self) -> Result<Vec<Object>>;

    /// Deletes objects. One that is not there is no error.
    async fn reclaim(&self, paths: Vec<String>) -> Result<()>;
}

/// Puts versions on the chain by which programs that know the store's format find a table's latest version (see [`crate::Lineage`]).
#[async_trait]
pub trait Mirror: Send + Sync {
    /// The object [`Mirror::put`] writes. No request.
    fn path(&self, table: TableRef, number: u64) -> String;

    /// Puts a version of the table on its chain, under this number: 1 or more, below 2^63, and smaller the older the version is. Reads no
    /// rows, changes no object, and the chain's latest version is the one of the largest number, whatever the order of calls. Idempotent: a
    /// number that stands for this very version already is left as it is. 1 request where the version is known, 1 more where it is not, and 1
    /// more where the number is taken.
    ///
    /// Errors: `AlreadyExists` where the number stands for another version.
    async fn put(&self, table: TableRef, pin: &Pin, number: u64) -> Result<()>;
}

/// The error for a change a store does not do.
pub fn unsupported_change(store: &dyn DataStore, change: &Change) -> Error {
    Error::new(crate::ErrorKind::Unsupported, format!("the {} store does not support {}", store.kind(), change.name()))
}
