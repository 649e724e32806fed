//! The store: the [`DataStore`] over Lance.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use headwater_core::cache::Cache;
use headwater_core::ids::Mint;
use headwater_core::schema::{added, with_columns};
use headwater_core::store::{
    Address, Change, DataStore, Description, Difference, Durability, Mirror, Object, Partition, Pin, Reached, Scan, Staged, TableRef,
};
use headwater_core::{Error, Result};
use lance::dataset::transaction::Operation;
use lance_table::format::Fragment;
use object_store::ObjectStore;

use crate::content::Content;
use crate::difference;
use crate::engine::Engine;
use crate::scan::Plan;
use crate::stage::{Base, Stage, Written};
use crate::types;
use crate::version::{Place, Version};
use crate::view::File;
use headwater_core::objects::Objects;

pub(crate) const KIND: &str = "lance";

/// Versions kept open, by the size of their manifests and what is known of their objects.
const VERSIONS_BYTES: u64 = 64 << 20;
const OBJECT_BYTES: u64 = 512;
/// Manifests read side by side.
const PARALLEL_READS: usize = 16;

/// Tables as Lance datasets on an object store.
///
/// A version is a *detached* Lance version: a manifest of its own, which no chain of versions leads to. A pin names its manifest, the
/// manifest's size and the SHA-256 digest of its bytes; the manifest names the data files, and those of up to 5 MiB carry size and digest in
/// their names. What does not match is `Corrupt`, and so is anything missing that a pin reaches.
///
/// Every object is written once, under a fresh name, and never changed. Lance itself reaches the object store through a view that neither
/// lists nor overwrites nor deletes.
///
/// Cancellation: a dropped stage leaves unreferenced objects at most.
#[derive(Debug)]
pub struct LanceStore {
    pub(crate) engine: Arc<Engine>,
    versions: Cache<Pin, Arc<Version>>,
}

/// What a rebase needs: the fragments an append brought, the columns they have, and their files, which are written.
#[derive(Debug)]
struct Appended {
    fragments: Vec<Fragment>,
    columns: Vec<(i32, String)>,
    files: Vec<File>,
}

impl LanceStore {
    /// A store whose keys begin at the object store's root. No request.
    ///
    /// Errors with `Unsupported` where Lance cannot be set up.
    pub fn new(objects: Arc<dyn ObjectStore>, mint: &Mint) -> Result<Self> {
        Ok(Self { engine: Arc::new(Engine::new(Objects(objects), mint)?), versions: Cache::new(VERSIONS_BYTES) })
    }

    /// The version a pin names. 1 request, or none if it was written or read before and is still known.
    pub(crate) async fn version(&self, pin: &Pin) -> Result<Arc<Version>> {
        if let Some(version) = self.versions.get(pin) {
            return Ok(version);
        }
        let version = Version::open(&self.engine, pin).await?;
        Ok(self.know(version))
    }

    pub(crate) fn know(&self, version: Version) -> Arc<Version> {
        let version = Arc::new(version);
        let weight = version.pin.size + OBJECT_BYTES * version.reachable.len() as u64;
        self.versions.put(version.pin.clone(), version.clone(), weight);
        version
    }

    async fn base(&self, table: TableRef, base: Option<&Pin>) -> Result<Arc<Version>> {
        let base = base.ok_or_else(|| Error::invalid("only a table's creation has no base version"))?;
        table.own(base)?;
        self.version(base).await
    }

    async fn append(&self, version: &Arc<Version>, rows: headwater_core::store::Rows) -> Result<Staged> {
        let stage = Stage::new(&self.engine, Base::of(version));
        let written = stage.write(rows).await?;
        let appended = Appended { fragments: written.fragments.clone(), columns: columns(version), files: written.files.clone() };
        let mut staged = if written.fragments.is_empty() {
            // The base and nothing is the base.
            staged(version, 0, written.content)
        } else {
            self.add(stage, written).await?
        };
        staged.carry = Some(Arc::new(appended));
        Ok(staged)
    }

    /// Puts rows after the stage's base.
    async fn add(&self, stage: Stage<'_>, written: Written) -> Result<Staged> {
        let (changed, content) = (written.rows, written.content);
        let version = stage.commit(Operation::Append { fragments: written.fragments }, &written.files).await?;
        Ok(staged(&self.know(version), changed, content))
    }

    async fn fill(&self, base: Base, rows: headwater_core::store::Rows) -> Result<Staged> {
        let stage = Stage::new(&self.engine, base);
        let written = stage.write(rows).await?;
        self.add(stage, written).await
    }

    async fn add_columns(&self, version: &Arc<Version>, asked: &SchemaRef) -> Result<Staged> {
        let added = added(&version.schema, asked)?;
        types::check_schema(with_columns(&version.schema, &added)?.as_ref())?;
        let manifest = version.dataset.manifest();
        let unusable = |source| Error::invalid("Lance cannot add these columns").because(source);
        let mut schema = manifest.schema.merge(&Schema::new(added)).map_err(unusable)?;
        schema.try_set_field_id(Some(manifest.max_field_id())).map_err(unusable)?;
        let fragments = version.dataset.fragments().to_vec();
        let operation = Operation::Merge { fragments, schema, preserves_nullability: true };
        let stage = Stage::new(&self.engine, Base::of(version));
        let version = self.know(stage.commit(operation, &[]).await?);
        let content = Content::new(&version.schema).digest();
        Ok(staged(&version, 0, content))
    }
}

pub(crate) fn staged(version: &Version, changed: u64, content: String) -> Staged {
    Staged {
        pin: version.pin.clone(),
        schema: version.schema.clone(),
        rows: version.rows,
        changed,
        content,
        durability: Durability::Durable,
        carry: None,
    }
}

/// A version's columns as its data files know them.
fn columns(version: &Version) -> Vec<(i32, String)> {
    version.dataset.schema().fields_pre_order().map(|field| (field.id, field.name.clone())).collect()
}

#[async_trait]
impl DataStore for LanceStore {
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
                let base = Base::none(&self.engine, table.folder(), &rows.schema).await?;
                self.fill(base, rows).await
            }
            Change::Overwrite(rows) => {
                let version = self.base(table, base).await?;
                self.fill(Base::emptied(&self.engine, &version).await?, rows).await
            }
            Change::Append(rows) => self.append(&self.base(table, base).await?, rows).await,
            Change::AddColumns(schema) => self.add_columns(&self.base(table, base).await?, &schema).await,
            Change::Delete(filter) => self.delete(self.base(table, base).await?, filter).await,
            Change::Update { filter, set } => self.update(self.base(table, base).await?, filter, set).await,
            Change::ByKey { key, action, rows } => self.by_key(self.base(table, base).await?, &key, action, rows).await,
            Change::Index(column) => self.index(self.base(table, base).await?, &column).await,
            Change::Rewrite => self.compact(self.base(table, base).await?).await,
        }
    }

    #[tracing::instrument(level = "debug", skip_all)]
    async fn rebase(&self, table: TableRef, before: &Staged, base: &Pin) -> Result<Option<Staged>> {
        table.own(base)?;
        let Some(appended) = before.carry.as_ref().and_then(|carry| carry.downcast_ref::<Appended>()) else { return Ok(None) };
        let version = self.version(base).await?;
        if table.own(&before.pin).is_err() || version.schema.fields() != before.schema.fields() || columns(&version) != appended.columns {
            return Ok(None);
        }
        let ours: Vec<&str> = appended.fragments.iter().flat_map(|fragment| &fragment.files).map(|file| file.path.as_str()).collect();
        let mut theirs = version.dataset.fragments().iter().flat_map(|fragment| &fragment.files);
        if theirs.any(|file| ours.contains(&file.path.as_str())) {
            return Err(Error::invalid("the base holds these rows already").at("object", &base.path));
        }
        let mut after = before.clone();
        if ours.is_empty() {
            (after.pin, after.rows) = (base.clone(), version.rows);
            return Ok(Some(after));
        }
        let stage = Stage::new(&self.engine, Base::of(&version));
        let operation = Operation::Append { fragments: appended.fragments.clone() };
        let version = self.know(stage.commit(operation, &appended.files).await?);
        (after.pin, after.rows) = (version.pin.clone(), version.rows);
        Ok(Some(after))
    }

    async fn describe(&self, pin: &Pin) -> Result<Description> {
        let version = self.version(pin).await?;
        Ok(Description { schema: version.schema.clone(), rows: version.rows, bytes: version.bytes, files: version.files })
    }

    #[tracing::instrument(level = "debug", skip_all)]
    async fn scan(&self, pin: &Pin, scan: &Scan) -> Result<Vec<Partition>> {
        let version = self.version(pin).await?;
        Ok(Plan::new(self.engine.clone(), version, scan)?.partitions())
    }

    async fn reach(&self, pins: &[Pin]) -> Result<Vec<Reached>> {
        let mut reached: BTreeMap<String, Reached> = BTreeMap::new();
        let opened: Vec<_> = pins.iter().map(|pin| self.version(pin)).collect();
        let mut versions = futures::stream::iter(opened).buffered(PARALLEL_READS);
        while let Some(version) = versions.try_next().await? {
            for one in version.reach() {
                let path = one.object.path.clone();
                match reached.insert(path.clone(), one.clone()) {
                    Some(other) if other != one => {
                        return Err(Error::corrupt(path, "two versions disagree about the object; run `headwater verify --data`"));
                    }
                    _ => {}
                }
            }
        }
        Ok(reached.into_values().collect())
    }

    async fn difference(&self, before: &Pin, after: &Pin) -> Result<Option<Difference>> {
        let (before, after) = futures::try_join!(self.version(before), self.version(after))?;
        let one_life = before.root == after.root;
        one_life.then(|| difference::between(&self.engine, &before, &after)).transpose()
    }

    fn address(&self, pin: &Pin) -> Option<Address> {
        Place::parse(&pin.path).map(|place| Address { path: place.root, version: place.version })
    }

    fn mirror(&self) -> Option<&dyn Mirror> {
        Some(self)
    }

    async fn flush(&self) -> Result<()> {
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Object>> {
        self.engine.shared.objects.list().await
    }

    async fn reclaim(&self, paths: Vec<String>) -> Result<()> {
        self.engine.shared.objects.reclaim(paths).await
    }
}
