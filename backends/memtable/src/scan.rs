//! What a writer reads: a published state, its own durable rows behind it, and its rows in memory behind those.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use headwater_core::filter::Filter;
use headwater_core::name::TableKey;
use headwater_core::schema::project;
use headwater_core::store::{Partition, Scan};
use headwater_core::{Error, ErrorKind, Result};

use crate::buffer::{Base, conform};
use crate::state::Shared;

impl Shared {
    pub(crate) async fn scan(&self, key: &TableKey, scan: &Scan) -> Result<Vec<Partition>> {
        let (base, batches) = self.view(key).await?;
        let schema = match &base {
            Base::Published(snapshot) => snapshot.schema(key.as_str()).await?,
            Base::Staged(staged) => staged.schema().clone(),
        };
        let mut partitions = match &base {
            Base::Published(snapshot) => snapshot.scan(key.as_str(), scan).await?,
            Base::Staged(staged) => staged.scan(scan).await?,
        };
        if !batches.is_empty() {
            let memory = memory(&schema, &batches, scan).map_err(|error| error.at("table", key).during("scan"))?;
            partitions.extend(scan.converted(vec![memory]));
        }
        Ok(partitions)
    }

    /// The newest published state, unless own rows are on disk: then the one they stand on.
    async fn view(&self, key: &TableKey) -> Result<(Base, Vec<RecordBatch>)> {
        let fixed = self.state().tables.get(key).is_some_and(|buffer| buffer.staged().is_some());
        if !fixed {
            self.look(key).await?;
        }
        #[cfg(test)]
        if self.has(crate::bug::Bug::DiskBeforeMemory) {
            let (disk, _) = self.both(key)?;
            for _ in 0..crate::model::TURNS {
                tokio::task::yield_now().await;
            }
            return Ok((disk, self.both(key)?.1));
        }
        self.both(key)
    }

    fn both(&self, key: &TableKey) -> Result<(Base, Vec<RecordBatch>)> {
        match self.state().tables.get(key) {
            Some(buffer) => buffer.view(),
            None => Err(Error::new(ErrorKind::NotFound, format!("there is no table {:?}", key.as_str()))),
        }
    }

    /// Reads the head. Rows of a table that is gone from it are still read, where they are this writer's own; without any it is forgotten.
    async fn look(&self, key: &TableKey) -> Result<()> {
        let published = self.branch.snapshot().await?;
        if let Err(error) = published.table(key.as_str()) {
            let mut state = self.state();
            return match state.tables.get(key) {
                Some(buffer) if !buffer.is_clean() => Ok(()),
                _ => {
                    state.tables.remove(key);
                    Err(error)
                }
            };
        }
        let schema = published.schema(key.as_str()).await?;
        self.keep(key, published, schema)
    }
}

/// Rows in memory as a partition of their table.
fn memory(schema: &SchemaRef, batches: &[RecordBatch], scan: &Scan) -> Result<Partition> {
    let batches = batches.iter().map(|batch| conform(batch, schema)).collect::<Result<Vec<_>>>()?;
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    let columns = match &scan.columns {
        None => None,
        Some(names) => {
            let index = |name: &String| {
                schema.index_of(name).map_err(|source| Error::invalid(format!("there is no column {name:?}")).because(source))
            };
            Some(names.iter().map(index).collect::<Result<Vec<_>>>()?)
        }
    };
    let projected = match &scan.columns {
        None => schema.clone(),
        Some(names) => Arc::new(project(schema, names.iter().map(String::as_str))?),
    };
    let read = Arc::new(Read { batches, columns, filter: scan.filter.clone(), limit: scan.limit });
    Ok(Partition { schema: projected, rows: Some(rows), open: Box::new(move || read.clone().open()) })
}

/// A scan of rows in memory.
struct Read {
    batches: Vec<RecordBatch>,
    columns: Option<Vec<usize>>,
    filter: Option<Filter>,
    limit: Option<u64>,
}

impl Read {
    fn open(self: Arc<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let mut left = self.limit.unwrap_or(u64::MAX);
        let numbers = 0..self.batches.len();
        let batches = stream::iter(numbers).map(move |i| {
            let mut batch = self.batches[i].clone();
            if let Some(filter) = &self.filter {
                batch = filter.apply(&batch)?;
            }
            if let Some(columns) = &self.columns {
                batch = batch.project(columns).map_err(|source| Error::invalid("these columns cannot be read").because(source))?;
            }
            let rows = usize::try_from(left).map_or(batch.num_rows(), |left| left.min(batch.num_rows()));
            left -= rows as u64;
            Ok(batch.slice(0, rows))
        });
        let full = |batch: &Result<RecordBatch>| std::future::ready(batch.as_ref().map_or(true, |batch| batch.num_rows() > 0));
        batches.filter(full).boxed()
    }
}
