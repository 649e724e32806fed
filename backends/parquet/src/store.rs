//! The store: what a change writes, and the [`DataStore`] over it.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use futures::future::try_join;
use futures::{StreamExt, TryStreamExt};
use headwater_core::cache::Cache;
use headwater_core::ids::Mint;
use headwater_core::schema::{added, with_columns};
use headwater_core::store::{
    Change, DataStore, Description, Difference, Durability, Object, Partition, Pin, Reached, Rows, Scan, Staged, TableRef,
    unsupported_change,
};
use headwater_core::{Error, ErrorKind, Result};
use object_store::ObjectStore;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::mutate::Changing;
use crate::scan::Plan;
use crate::settings::Settings;
use crate::types;
use crate::version::{DataFile, NewVersion, Version, extend};
use crate::write::{Target, Written, write};
use headwater_core::objects::Objects;

pub(crate) const KIND: &str = "parquet";
/// Files written again at once: about 200 MB each, with full row groups.
const REWRITES: usize = 4;

/// Tables as Parquet files on an object store.
///
/// Every object is written once, under a fresh name, and never changed. Reading a version checks size and digest of its version object
/// against the pin; what does not match is `Corrupt`, and so is anything missing that a pin reaches.
///
/// Cancellation: a dropped stage leaves unreferenced objects at most; a multipart upload under way is aborted by a task of its own.
#[derive(Debug)]
pub struct ParquetStore {
    pub(crate) objects: Objects,
    pub(crate) mint: Mint,
    pub(crate) settings: Settings,
    pub(crate) cache: Cache<Pin, Arc<Version>>,
    /// Bounds the files that are written again at once, over all tables: each takes a decoder, an encoder and its uploads.
    turns: Arc<Semaphore>,
}

/// What a rebase needs: the files an append brought.
#[derive(Debug)]
struct Appended(Vec<DataFile>);

impl ParquetStore {
    /// A store whose keys begin at the object store's root, with default settings. No request.
    pub fn new(objects: Arc<dyn ObjectStore>, mint: &Mint) -> Self {
        let settings = Settings::default();
        let turns = Arc::new(Semaphore::new(REWRITES));
        Self { objects: Objects(objects), mint: mint.clone(), cache: Cache::new(settings.cache_bytes), settings, turns }
    }

    /// The same store with other settings. `InvalidInput` for a setting that allows no progress.
    pub fn with_settings(self, settings: Settings) -> Result<Self> {
        settings.check()?;
        Ok(Self { cache: Cache::new(settings.cache_bytes), settings, ..self })
    }

    /// Waits for a turn to write a file again.
    pub(crate) async fn turn(&self) -> Result<SemaphorePermit<'_>> {
        self.turns.acquire().await.map_err(|source| Error::new(ErrorKind::Unavailable, "the store was closed").because(source))
    }

    fn target(&self, table: TableRef) -> Target {
        Target { objects: self.objects.clone(), mint: self.mint.clone(), settings: self.settings.clone(), table }
    }

    async fn base<'a>(&self, table: TableRef, base: Option<&'a Pin>) -> Result<(&'a Pin, Arc<Version>)> {
        let base = base.ok_or_else(|| Error::invalid("only a table's creation has no base version"))?;
        table.own(base)?;
        Ok((base, self.version(base).await?))
    }

    async fn changing<'a>(&'a self, table: TableRef, base: Option<&'a Pin>) -> Result<Changing<'a>> {
        let (pin, version) = self.base(table, base).await?;
        Ok(Changing { store: self, target: self.target(table), pin, version })
    }

    /// Writes what waits: the version objects and, in parallel, the last data file.
    pub(crate) async fn publish(&self, waiting: Option<(String, bytes::Bytes)>, versions: Vec<NewVersion>) -> Result<NewVersion> {
        let data = async {
            match waiting {
                Some((path, bytes)) => self.objects.create(&path, bytes).await,
                None => Ok(()),
            }
        };
        let lists = versions.iter().map(|new| self.objects.create(&new.pin.path, new.bytes.clone()));
        let lists = futures::stream::iter(lists.collect::<Vec<_>>()).buffer_unordered(self.settings.parallel_reads);
        try_join(data, lists.try_collect::<Vec<()>>()).await?;
        for new in &versions {
            self.cache.put(new.pin.clone(), new.version.clone(), new.pin.size);
        }
        versions.into_iter().next_back().ok_or_else(|| Error::invalid("no version was built"))
    }

    /// Encodes rows and puts them after `base`.
    async fn add(&self, table: TableRef, base: (Option<&Pin>, &Version), rows: Rows) -> Result<(NewVersion, Written)> {
        let target = self.target(table);
        let mut written = write(&target, &base.1.schema, rows).await?;
        let versions = extend(base, &written.files, || target.fresh("version.json"))?;
        let new = self.publish(written.waiting.take(), versions).await?;
        Ok((new, written))
    }
}

fn staged(new: &NewVersion, changed: u64, content: String) -> Staged {
    of(&new.pin, &new.version, changed, content)
}

/// A version that is written, as the outcome of a change.
pub(crate) fn of(pin: &Pin, version: &Version, changed: u64, content: String) -> Staged {
    Staged {
        pin: pin.clone(),
        schema: version.schema.clone(),
        rows: version.total.rows,
        changed,
        content,
        durability: Durability::Durable,
        carry: None,
    }
}

#[async_trait]
impl DataStore for ParquetStore {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn check_schema(&self, schema: &SchemaRef) -> Result<()> {
        types::check_schema(schema)
    }

    #[tracing::instrument(level = "debug", skip_all, fields(change = change.name()))]
    async fn stage(&self, table: TableRef, base: Option<&Pin>, change: Change) -> Result<Staged> {
        match change {
            Change::Create(rows) => {
                if base.is_some() {
                    return Err(Error::invalid("a table is created without a base version"));
                }
                types::check_schema(&rows.schema)?;
                let empty = Version::empty(rows.schema.clone());
                let (new, written) = self.add(table, (None, &empty), rows).await?;
                Ok(staged(&new, written.rows(), written.content(&new.version.schema)))
            }
            Change::Overwrite(rows) => {
                let (_, version) = self.base(table, base).await?;
                let empty = Version::empty(version.schema.clone());
                let (new, written) = self.add(table, (None, &empty), rows).await?;
                Ok(staged(&new, written.rows(), written.content(&new.version.schema)))
            }
            Change::Append(rows) => {
                let (pin, version) = self.base(table, base).await?;
                self.append(table, pin, &version, rows).await
            }
            Change::AddColumns(schema) => {
                let (_, version) = self.base(table, base).await?;
                let schema = widened(&version.schema, &schema)?;
                let new = version.with_schema(schema.clone()).seal(self.target(table).fresh("version.json"))?;
                let new = self.publish(None, vec![new]).await?;
                Ok(staged(&new, 0, Written::default().content(&schema)))
            }
            Change::Rewrite => self.changing(table, base).await?.compact().await,
            Change::Delete(filter) => self.changing(table, base).await?.delete(filter).await,
            Change::Update { filter, set } => self.changing(table, base).await?.update(filter, set).await,
            Change::Index(_) => Err(unsupported_change(self, &change)),
            Change::ByKey { key, action, rows } => self.changing(table, base).await?.by_key(&key, action, rows).await,
        }
    }

    #[tracing::instrument(level = "debug", skip_all)]
    async fn rebase(&self, table: TableRef, before: &Staged, base: &Pin) -> Result<Option<Staged>> {
        table.own(base)?;
        let Some(appended) = before.carry.as_ref().and_then(|carry| carry.downcast_ref::<Appended>()) else { return Ok(None) };
        let version = self.version(base).await?;
        if table.own(&before.pin).is_err() || version.schema.fields() != before.schema.fields() {
            return Ok(None);
        }
        if version.recent.iter().any(|file| appended.0.iter().any(|ours| ours.path == file.path)) {
            return Err(Error::invalid("the base holds these rows already").at("object", &base.path));
        }
        let mut after = before.clone();
        if appended.0.is_empty() {
            after.pin = base.clone();
            after.rows = version.total.rows;
            return Ok(Some(after));
        }
        let target = self.target(table);
        let versions = extend((Some(base), &version), &appended.0, || target.fresh("version.json"))?;
        let new = self.publish(None, versions).await?;
        (after.pin, after.rows) = (new.pin, new.version.total.rows);
        Ok(Some(after))
    }

    async fn describe(&self, pin: &Pin) -> Result<Description> {
        let version = self.version(pin).await?;
        let total = version.total;
        Ok(Description { schema: version.schema.clone(), rows: total.rows, bytes: total.bytes, files: total.files })
    }

    #[tracing::instrument(level = "debug", skip_all)]
    async fn scan(&self, pin: &Pin, scan: &Scan) -> Result<Vec<Partition>> {
        let version = self.version(pin).await?;
        let plan = Plan::new(self.objects.clone(), self.settings.clone(), version.schema.clone(), scan)?;
        plan.partitions(self.files(pin).await?)
    }

    async fn reach(&self, pins: &[Pin]) -> Result<Vec<Reached>> {
        self.reachable(pins).await
    }

    #[tracing::instrument(level = "debug", skip_all)]
    async fn difference(&self, before: &Pin, after: &Pin) -> Result<Option<Difference>> {
        self.differing(before, after).await.map(Some)
    }

    async fn flush(&self) -> Result<()> {
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Object>> {
        self.objects.list().await
    }

    async fn reclaim(&self, paths: Vec<String>) -> Result<()> {
        self.objects.reclaim(paths).await
    }
}

impl ParquetStore {
    async fn append(&self, table: TableRef, pin: &Pin, version: &Version, rows: Rows) -> Result<Staged> {
        let target = self.target(table);
        let mut written = write(&target, &version.schema, rows).await?;
        let content = written.content(&version.schema);
        let mut staged = if written.files.is_empty() {
            // The base and nothing is the base.
            of(pin, version, 0, content)
        } else {
            let versions = extend((Some(pin), version), &written.files, || target.fresh("version.json"))?;
            let new = self.publish(written.waiting.take(), versions).await?;
            self::staged(&new, written.rows(), content)
        };
        staged.carry = Some(Arc::new(Appended(written.files)));
        Ok(staged)
    }
}

/// The base's columns and the new ones.
fn widened(base: &SchemaRef, asked: &SchemaRef) -> Result<SchemaRef> {
    let schema = with_columns(base, &added(base, asked)?)?;
    types::check_schema(&schema)?;
    Ok(Arc::new(schema.as_ref().clone().with_metadata(base.metadata().clone())))
}
