//! The store: for each change one Arrow IPC file of its rows, and one JSON version object that lists all files of the table.
//!
//! Every object is written once, under a fresh name below the table's folder. A pin is the digest of its version object, which holds the
//! digests of the data files: what a read yields is what was staged, or `Corrupt`. A change's rows are held in memory while they are staged, a
//! file's while they are read.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use headwater_core::ids::Mint;
use headwater_core::json::{decode, encode, sha256};
use headwater_core::schema::{self, Conform, schema_hash, with_columns};
use headwater_core::store::{
    Change, DataStore, Description, Durability, Object, Partition, Pin, Reached, Rows, Scan, Staged, TableRef, unsupported_change,
};
use headwater_core::{Error, ErrorKind, Result};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use serde::{Deserialize, Serialize};

use crate::content::{Content, is_plain};

/// The kind that catalogs of this store record.
pub const KIND: &str = "arrow-ipc";

/// Tables as Arrow IPC files on any object store.
#[derive(Debug)]
pub struct IpcStore {
    objects: Arc<dyn ObjectStore>,
    mint: Mint,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Version {
    schema: SchemaRef,
    files: Vec<DataFile>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DataFile {
    object: Pin,
    rows: u64,
}

impl IpcStore {
    /// A store whose keys begin at the object store's root. No request.
    pub fn new(objects: Arc<dyn ObjectStore>, mint: Mint) -> Self {
        Self { objects, mint }
    }

    /// Writes a new object under a name that nobody else has.
    async fn create(&self, table: TableRef, ending: &str, bytes: Bytes) -> Result<Pin> {
        let path = format!("{}/{}.{ending}", table.folder(), self.mint.name());
        let pin = Pin { path, size: bytes.len() as u64, id: format!("sha256:{}", sha256(&bytes)) };
        let created = self.objects.put_opts(&key(&pin.path)?, bytes.into(), PutOptions::from(PutMode::Create)).await;
        match created {
            Ok(_) => Ok(pin),
            // Of a fresh name this is an object of our own, whose reply was lost below us, or nothing that we may touch.
            Err(error @ object_store::Error::AlreadyExists { .. }) => {
                fetch(&self.objects, &pin).await.map(|_| pin.clone()).map_err(|_| Error::from(error).at("object", &pin.path))
            }
            Err(error) => Err(Error::from(error).at("object", &pin.path)),
        }
    }

    async fn version(&self, pin: &Pin) -> Result<Version> {
        decode(&pin.path, &fetch(&self.objects, pin).await?)
    }

    /// The version below a change. A new life of a table shares no object with an older one, so its base must lie in its own folder.
    async fn base(&self, table: TableRef, base: Option<&Pin>) -> Result<Version> {
        let base = base.ok_or_else(|| Error::invalid("only a table's creation has no base version"))?;
        if !base.path.strip_prefix(&table.folder()).is_some_and(|rest| rest.starts_with('/')) {
            return Err(Error::invalid("the base version is not one of this table's incarnation").at("object", &base.path));
        }
        self.version(base).await
    }

    async fn publish(&self, table: TableRef, version: Version, changed: u64, content: String) -> Result<Staged> {
        let pin = self.create(table, "version.json", encode(&version)?.into()).await?;
        let rows = version.files.iter().map(|file| file.rows).sum();
        Ok(Staged { pin, schema: version.schema, rows, changed, content, durability: Durability::Durable, carry: None })
    }

    /// Puts rows after those of a version.
    async fn add(&self, table: TableRef, mut version: Version, mut rows: Rows) -> Result<Staged> {
        if schema_hash(&rows.schema) != schema_hash(&version.schema) {
            return Err(Error::invalid("the rows do not have the table's columns"));
        }
        let misfit = |source: ArrowError| Error::invalid("a batch does not have the table's columns").because(source);
        let (mut content, mut count) = (Content::new(&version.schema), 0);
        let mut writer = FileWriter::try_new(Vec::new(), &version.schema).map_err(misfit)?;
        while let Some(batch) = rows.batches.next().await {
            let batch = RecordBatch::try_new(version.schema.clone(), batch?.columns().to_vec()).map_err(misfit)?;
            content.add(&batch);
            count += batch.num_rows() as u64;
            writer.write(&batch).map_err(misfit)?;
        }
        if count > 0 {
            let bytes = writer.into_inner().map_err(misfit)?;
            version.files.push(DataFile { object: self.create(table, "arrow", bytes.into()).await?, rows: count });
        }
        let content = content.finish(&version.schema);
        self.publish(table, version, count, content).await
    }
}

/// The key of an object of a table. Only a damaged object or pin has another.
fn key(path: &str) -> Result<Path> {
    match Path::parse(path) {
        Ok(key) if key.as_ref() == path && path.starts_with("data/") => Ok(key),
        _ => Err(Error::corrupt(path, "this is no name of a table's object")),
    }
}

/// Reads an object that something names, and checks that it is the one.
async fn fetch(objects: &Arc<dyn ObjectStore>, pin: &Pin) -> Result<Bytes> {
    let failed = |error: object_store::Error| match error {
        object_store::Error::NotFound { .. } => Error::corrupt(&pin.path, "the object is missing").because(error),
        error => Error::from(error).at("object", &pin.path),
    };
    let found = objects.get(&key(&pin.path)?).await.map_err(failed)?;
    if found.meta.size == pin.size {
        let bytes = found.bytes().await.map_err(failed)?;
        if format!("sha256:{}", sha256(&bytes)) == pin.id {
            return Ok(bytes);
        }
    }
    Err(Error::corrupt(&pin.path, "the object is not the one that was written"))
}

/// A scan of one file.
#[derive(Clone)]
struct Read {
    objects: Arc<dyn ObjectStore>,
    file: DataFile,
    schema: SchemaRef,
    columns: Vec<usize>,
    scan: Scan,
}

impl Read {
    fn start(&self) -> BoxStream<'static, Result<RecordBatch>> {
        let this = self.clone();
        stream::once(async move { this.batches().await.map(|batches| stream::iter(batches).map(Ok)) }).try_flatten().boxed()
    }

    async fn batches(self) -> Result<Vec<RecordBatch>> {
        let path = &self.file.object.path;
        let undecodable = |source: ArrowError| Error::corrupt(path, "the object is no Arrow IPC file").because(source);
        let reader = FileReader::try_new(Cursor::new(fetch(&self.objects, &self.file.object).await?), None).map_err(undecodable)?;
        // Columns that were added after the file was written are null in it.
        let conform = Conform::new(&reader.schema(), &self.schema)?;
        let (mut batches, mut left) = (Vec::new(), self.scan.limit.unwrap_or(u64::MAX));
        for batch in reader {
            let mut batch = conform.apply(&batch.map_err(undecodable)?, 0)?;
            if let Some(filter) = &self.scan.filter {
                batch = filter.apply(&batch)?;
            }
            batch = batch.slice(0, usize::try_from(left).unwrap_or(usize::MAX).min(batch.num_rows()));
            left -= batch.num_rows() as u64;
            batches.push(batch.project(&self.columns).map_err(undecodable)?);
        }
        Ok(batches)
    }
}

#[async_trait]
impl DataStore for IpcStore {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn check_schema(&self, schema: &SchemaRef) -> Result<()> {
        schema::check_schema(schema)?;
        match schema.fields().iter().find(|field| !is_plain(field.data_type())) {
            None => Ok(()),
            Some(field) => {
                let problem = format!("the {KIND} store does not keep {}, the type of column {:?}", field.data_type(), field.name());
                Err(Error::new(ErrorKind::Unsupported, problem))
            }
        }
    }

    async fn stage(&self, table: TableRef, base: Option<&Pin>, change: Change) -> Result<Staged> {
        match change {
            Change::Create(rows) => {
                if base.is_some() {
                    return Err(Error::invalid("a table is created without a base version"));
                }
                self.check_schema(&rows.schema)?;
                self.add(table, Version { schema: rows.schema.clone(), files: Vec::new() }, rows).await
            }
            Change::Append(rows) => self.add(table, self.base(table, base).await?, rows).await,
            Change::Overwrite(rows) => {
                let version = self.base(table, base).await?;
                self.add(table, Version { files: Vec::new(), ..version }, rows).await
            }
            Change::AddColumns(asked) => {
                let version = self.base(table, base).await?;
                let (kept, new) = asked.fields().split_at(version.schema.fields().len().min(asked.fields().len()));
                if schema_hash(&Schema::new(kept.to_vec())) != schema_hash(&version.schema) {
                    return Err(Error::invalid("columns can only be added at the end of the table's; the others must stay as they are"));
                }
                let schema = with_columns(&version.schema, &new.iter().map(|field| field.as_ref().clone()).collect::<Vec<_>>())?;
                self.check_schema(&schema)?;
                let content = Content::new(&schema).finish(&schema);
                self.publish(table, Version { schema, ..version }, 0, content).await
            }
            // A store may leave these out; it says so before it writes anything.
            Change::Delete(_) | Change::Update { .. } | Change::ByKey { .. } | Change::Rewrite | Change::Index(_) => {
                Err(unsupported_change(self, &change))
            }
        }
    }

    /// Never: an append that lost its base is staged again.
    async fn rebase(&self, _: TableRef, _: &Staged, _: &Pin) -> Result<Option<Staged>> {
        Ok(None)
    }

    async fn describe(&self, pin: &Pin) -> Result<Description> {
        let Version { schema, files } = self.version(pin).await?;
        let (rows, bytes) = files.iter().fold((0, 0), |(rows, bytes), file| (rows + file.rows, bytes + file.object.size));
        Ok(Description { schema, rows, bytes, files: files.len() as u64 })
    }

    async fn scan(&self, pin: &Pin, scan: &Scan) -> Result<Vec<Partition>> {
        let Version { schema, files } = self.version(pin).await?;
        if let Some(filter) = &scan.filter {
            filter.check(&schema)?;
        }
        let unknown = |name: &String| Error::invalid(format!("there is no column {name:?}"));
        let index = |name: &String| schema.index_of(name).map_err(|source| unknown(name).because(source));
        let columns = match &scan.columns {
            Some(names) => names.iter().map(index).collect::<Result<Vec<_>>>()?,
            None => (0..schema.fields().len()).collect(),
        };
        let projected = schema.project(&columns).map_err(|source| Error::invalid("these columns cannot be read").because(source))?;
        let projected = Arc::new(projected);
        let partition = |file: DataFile| {
            let rows = Some(file.rows);
            let read = Read { objects: self.objects.clone(), file, schema: schema.clone(), columns: columns.clone(), scan: scan.clone() };
            Partition { schema: projected.clone(), rows, open: Box::new(move || read.start()) }
        };
        Ok(files.into_iter().map(partition).collect())
    }

    async fn reach(&self, pins: &[Pin]) -> Result<Vec<Reached>> {
        // By path: versions share files, and each object counts once.
        let mut reached = BTreeMap::new();
        for pin in pins {
            let files = self.version(pin).await?.files.into_iter().map(|file| (file.object, true));
            for (Pin { path, size, id }, data) in files.chain([(pin.clone(), false)]) {
                let digest = id.strip_prefix("sha256:").map(ToOwned::to_owned);
                reached.insert(path.clone(), Reached { object: Object { path, size }, digest, data });
            }
        }
        Ok(reached.into_values().collect())
    }

    /// Nothing: what was staged was put into the object store.
    async fn flush(&self) -> Result<()> {
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Object>> {
        let listed = self.objects.list(Some(&Path::from("data")));
        let objects = listed.map_ok(|meta| Object { path: meta.location.to_string(), size: meta.size });
        objects.try_collect().await.map_err(|error: object_store::Error| Error::from(error).during("list"))
    }

    async fn reclaim(&self, paths: Vec<String>) -> Result<()> {
        let keys = paths.iter().map(|path| key(path).map_err(|_| Error::invalid(format!("{path:?} is no table's object"))));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let mut deleted = self.objects.delete_stream(stream::iter(keys.into_iter().map(Ok)).boxed());
        while let Some(result) = deleted.next().await {
            match result {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(Error::from(error).during("reclaim")),
            }
        }
        Ok(())
    }
}
