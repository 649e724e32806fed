//! A store for tables of one column of numbers: a version is one object that holds all of them. Quick, so that a history can be long.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use headwater_core::ids::Mint;
use headwater_core::json::sha256;
use headwater_core::objects::Objects;
use headwater_core::registry::{Part, Registration, StorePart};
use headwater_core::store::{
    Change, DataStore, Description, Durability, Object, Partition, Pin, Reached, Rows, Scan, Staged, TableRef, unsupported_change,
};
use headwater_core::{Error, Result};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::place::{batch, schema};

pub(super) const KIND: &str = "numbers";

pub(super) static REGISTRATION: Registration = Registration {
    name: KIND,
    part: Part::Store(StorePart { open: |objects, mint| Ok(Arc::new(Numbers { objects, mint: mint.clone() })), summary: "numbers" }),
};

#[derive(Debug)]
struct Numbers {
    objects: Arc<dyn ObjectStore>,
    mint: Mint,
}

impl Numbers {
    async fn read(&self, pin: &Pin) -> Result<Vec<i64>> {
        let bytes = self.objects.get(&Path::from(pin.path.as_str())).await?.bytes().await?;
        assert_eq!(pin.id, sha256(&bytes));
        Ok(bytes.chunks_exact(8).map(|number| i64::from_le_bytes(number.try_into().unwrap())).collect())
    }

    async fn write(&self, table: TableRef, mut numbers: Vec<i64>, added: Vec<i64>) -> Result<Staged> {
        let content = sha256(&bytes(&added));
        numbers.extend_from_slice(&added);
        let bytes = bytes(&numbers);
        let path = format!("{}/{}", table.folder(), self.mint.name());
        let pin = Pin { size: bytes.len() as u64, id: sha256(&bytes), path };
        Objects(self.objects.clone()).create(&pin.path, bytes.into()).await?;
        let (rows, changed) = (numbers.len() as u64, added.len() as u64);
        Ok(Staged { pin, schema: schema(), rows, changed, content, durability: Durability::Durable, carry: Some(Arc::new(added)) })
    }
}

fn bytes(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

async fn collect(rows: Rows) -> Result<Vec<i64>> {
    let batches: Vec<_> = rows.batches.try_collect().await?;
    Ok(batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect())
}

#[async_trait]
impl DataStore for Numbers {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn check_schema(&self, _: &SchemaRef) -> Result<()> {
        Ok(())
    }

    async fn stage(&self, table: TableRef, base: Option<&Pin>, change: Change) -> Result<Staged> {
        match (base, change) {
            (None, Change::Create(rows)) => self.write(table, Vec::new(), collect(rows).await?).await,
            (Some(base), Change::Append(rows)) => self.write(table, self.read(base).await?, collect(rows).await?).await,
            (_, change) => Err(unsupported_change(self, &change)),
        }
    }

    /// Now and then it cannot, as some stores never can.
    async fn rebase(&self, table: TableRef, staged: &Staged, base: &Pin) -> Result<Option<Staged>> {
        match staged.carry.as_ref().and_then(|carry| carry.downcast_ref::<Vec<i64>>()) {
            Some(added) if *staged.pin.id < *"8" => self.write(table, self.read(base).await?, added.clone()).await.map(Some),
            _ => Ok(None),
        }
    }

    async fn describe(&self, pin: &Pin) -> Result<Description> {
        Ok(Description { schema: schema(), rows: pin.size / 8, bytes: pin.size, files: 1 })
    }

    async fn scan(&self, pin: &Pin, _: &Scan) -> Result<Vec<Partition>> {
        let numbers = self.read(pin).await?;
        // As of a large file and a small one behind it: of a part of a file nobody knows the rows.
        let (large, small) = numbers.split_at(numbers.len() - numbers.len() / 4);
        let partition = |numbers: &[i64], rows| {
            let numbers = numbers.to_vec();
            let open = move || stream::iter([Ok(batch(&numbers))]).boxed();
            Partition { schema: schema(), rows, open: Box::new(open) }
        };
        Ok(vec![partition(large, None), partition(small, Some(small.len() as u64))])
    }

    async fn reach(&self, pins: &[Pin]) -> Result<Vec<Reached>> {
        let reached =
            |pin: &Pin| Reached { object: Object { path: pin.path.clone(), size: pin.size }, digest: Some(pin.id.clone()), data: true };
        Ok(pins.iter().map(reached).collect())
    }

    async fn flush(&self) -> Result<()> {
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Object>> {
        Objects(self.objects.clone()).list().await
    }

    async fn reclaim(&self, _: Vec<String>) -> Result<()> {
        Err(Error::invalid("nothing is reclaimed here"))
    }
}
