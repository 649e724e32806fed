//! The smallest data store there can be: a version is one object that holds one column of numbers. Staging costs next to nothing, so that
//! long histories are cheap; and it is another implementation of the trait, with nothing in common with Parquet.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use headwater_core::ids::Mint;
use headwater_core::json::{decode, encode, sha256};
use headwater_core::registry::{Part, Registration, StorePart};
use headwater_core::store::{
    Address, Change, DataStore, Description, Difference, Durability, Mirror, Object, Partition, Pin, Reached, Rows, Scan, Staged, TableRef,
    unsupported_change,
};
use headwater_core::{Error, ErrorKind, Result};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};

/// This store's entry in the registry.
pub(crate) static REGISTRATION: Registration = Registration {
    name: "numbers",
    part: Part::Store(StorePart {
        open: |objects, mint| Ok(Arc::new(Numbers { objects, mint: mint.clone() })),
        summary: "one column of numbers per table",
    }),
};

/// The store.
#[derive(Debug)]
struct Numbers {
    objects: Arc<dyn ObjectStore>,
    mint: Mint,
}

pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("number", DataType::Int64, false)]))
}

pub(crate) fn batch(numbers: &[i64]) -> RecordBatch {
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(numbers.to_vec()))]).unwrap()
}

/// Every number of these partitions.
pub(crate) async fn collect(partitions: &[Partition]) -> Result<Vec<i64>> {
    let mut numbers = Vec::new();
    for partition in partitions {
        for batch in (partition.open)().try_collect::<Vec<_>>().await? {
            numbers.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
        }
    }
    Ok(numbers)
}

/// What a version holds, as its object's bytes say.
pub(crate) fn contents(pin: &Pin, bytes: &[u8]) -> Result<Vec<i64>> {
    if bytes.len() as u64 != pin.size || sha256(bytes) != pin.id {
        return Err(Error::corrupt(&pin.path, "the version's object is another one"));
    }
    decode(&pin.path, bytes)
}

impl Numbers {
    async fn read(&self, pin: &Pin) -> Result<Vec<i64>> {
        contents(pin, &self.objects.get(&Path::from(pin.path.as_str())).await?.bytes().await?)
    }

    async fn write(&self, table: TableRef, base: Vec<i64>, new: Vec<i64>) -> Result<Staged> {
        let all = [base, new.clone()].concat();
        let bytes = Bytes::from(encode(&all)?);
        let pin = Pin { path: format!("{}/{}", table.folder(), self.mint.name()), size: bytes.len() as u64, id: sha256(&bytes) };
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.objects.put_opts(&Path::from(pin.path.as_str()), bytes.into(), options).await {
            // The name is fresh: what is there is this very object, by a copy of the request.
            Err(object_store::Error::AlreadyExists { .. }) => drop(self.read(&pin).await?),
            put => drop(put?),
        }
        let (rows, changed, content) = (all.len() as u64, new.len() as u64, sha256(&encode(&new)?));
        Ok(Staged { pin, schema: schema(), rows, changed, content, durability: Durability::Durable, carry: Some(Arc::new(new)) })
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl DataStore for Numbers {
    fn kind(&self) -> &'static str {
        REGISTRATION.name
    }

    fn check_schema(&self, wanted: &SchemaRef) -> Result<()> {
        if *wanted == schema() { Ok(()) } else { Err(Error::new(ErrorKind::Unsupported, "a table here is one column of numbers")) }
    }

    async fn stage(&self, table: TableRef, base: Option<&Pin>, change: Change) -> Result<Staged> {
        let (Rows { batches, .. }, keeps) = match change {
            Change::Create(rows) | Change::Overwrite(rows) => (rows, false),
            Change::Append(rows) => (rows, true),
            _ => return Err(unsupported_change(self, &change)),
        };
        let batches: Vec<RecordBatch> = batches.try_collect().await?;
        let new = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
        let base = match base {
            Some(pin) if keeps => self.read(pin).await?,
            _ => Vec::new(),
        };
        self.write(table, base, new).await
    }

    async fn rebase(&self, table: TableRef, staged: &Staged, base: &Pin) -> Result<Option<Staged>> {
        let Some(new) = staged.carry.as_ref().and_then(|carry| carry.downcast_ref::<Vec<i64>>()) else { return Ok(None) };
        self.write(table, self.read(base).await?, new.clone()).await.map(Some)
    }

    async fn describe(&self, pin: &Pin) -> Result<Description> {
        Ok(Description { schema: schema(), rows: self.read(pin).await?.len() as u64, bytes: pin.size, files: 1 })
    }

    async fn scan(&self, pin: &Pin, scan: &Scan) -> Result<Vec<Partition>> {
        if scan.columns.is_some() || scan.filter.is_some() || scan.limit.is_some() {
            return Err(Error::new(ErrorKind::Unsupported, "only whole tables are scanned here"));
        }
        let numbers = self.read(pin).await?;
        let rows = Some(numbers.len() as u64);
        let open = move || futures::stream::iter([Ok(batch(&numbers))]).boxed();
        Ok(vec![Partition { schema: schema(), rows, open: Box::new(open) }])
    }

    async fn reach(&self, pins: &[Pin]) -> Result<Vec<Reached>> {
        let reached =
            |pin: &Pin| Reached { object: Object { path: pin.path.clone(), size: pin.size }, digest: Some(pin.id.clone()), data: true };
        Ok(pins.iter().map(reached).collect())
    }

    async fn difference(&self, _: &Pin, _: &Pin) -> Result<Option<Difference>> {
        Ok(None)
    }

    fn address(&self, _: &Pin) -> Option<Address> {
        None
    }

    fn mirror(&self) -> Option<&dyn Mirror> {
        None
    }

    async fn flush(&self) -> Result<()> {
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Object>> {
        let listed: Vec<_> = self.objects.list(Some(&Path::from("data"))).try_collect().await?;
        Ok(listed.into_iter().map(|meta| Object { path: meta.location.to_string(), size: meta.size }).collect())
    }

    async fn reclaim(&self, paths: Vec<String>) -> Result<()> {
        for path in paths {
            self.objects.delete(&Path::from(path.as_str())).await?;
        }
        Ok(())
    }
}
