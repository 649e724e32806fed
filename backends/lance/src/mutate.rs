//! Changes of rows: rows that go are listed beside their data files, which stay as they are; rows that come are new data files.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::ArrowError;
use arrow_select::filter::{filter, filter_record_batch};
use datafusion_expr::Expr;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use headwater_core::edit::{self, Incoming, Update, cut, hits};
use headwater_core::filter::Filter;
use headwater_core::objects::Named;
use headwater_core::store::{ByKey, Rows, Staged};
use headwater_core::{Error, Result};
use lance::dataset::transaction::Operation;
use lance_core::ROW_ADDR;

use crate::LanceStore;
use crate::filter::{expression, one_of};
use crate::scan::{Read, reads};
use crate::stage::{Base, Stage, Written};
use crate::store::staged;
use crate::version::Version;

/// Rows of a version by their fragments and their places there.
#[derive(Debug, Default)]
struct Places(BTreeMap<u32, Vec<u32>>);

impl Places {
    /// Adds the rows of a batch with addresses that are hit.
    fn add(&mut self, version: &Version, batch: &RecordBatch, hits: &BooleanArray) -> Result<()> {
        let lost = || Named { path: &version.pin.path, size: version.pin.size }.corrupt("the rows read do not say where they are");
        let addresses = batch.column_by_name(ROW_ADDR).ok_or_else(lost)?;
        let addresses = filter(addresses, hits).map_err(misfit)?;
        for address in addresses.as_primitive_opt::<UInt64Type>().ok_or_else(lost)?.values() {
            self.0.entry((address >> 32) as u32).or_default().push(*address as u32);
        }
        Ok(())
    }

    fn rows(&self) -> u64 {
        self.0.values().map(|rows| rows.len() as u64).sum()
    }
}

impl LanceStore {
    /// Requests: a scan of the filter's columns; 1 for each fragment with a match that lacks rows already; then 1 for each fragment with a
    /// match, unless all its rows go, and 1 for the manifest, side by side.
    pub(crate) async fn delete(&self, version: Arc<Version>, filter: Filter) -> Result<Staged> {
        filter.validate(&version.schema)?;
        let content = edit::deletion(&filter);
        let mut gone = Places::default();
        let mut rows = self.candidates(&version, &filter.columns(), expression(&filter)?);
        while let Some(batch) = rows.try_next().await? {
            gone.add(&version, &batch, &hits(&filter, &batch)?)?;
        }
        let (stage, changed) = (Stage::new(&self.engine, Base::of(&version)), gone.rows());
        self.change(&version, stage, gone, Written::default(), changed, content).await
    }

    /// Requests: as [`LanceStore::delete`], of all columns, and what an append costs.
    pub(crate) async fn update(&self, version: Arc<Version>, filter: Filter, set: Vec<(String, ArrayRef)>) -> Result<Staged> {
        let update = Arc::new(Update::new(&version.schema, filter, set)?);
        let gone = Arc::new(Mutex::new(Places::default()));
        let names: Vec<&str> = version.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let rows = self.candidates(&version, &names, expression(&update.filter)?);
        let changed = {
            let (update, gone, version) = (update.clone(), gone.clone(), version.clone());
            rows.map(move |batch| {
                let batch = batch?;
                let hits = hits(&update.filter, &batch)?;
                gone.lock().unwrap_or_else(PoisonError::into_inner).add(&version, &batch, &hits)?;
                let columns = batch.columns()[..version.schema.fields().len()].to_vec();
                let batch = RecordBatch::try_new(version.schema.clone(), columns).and_then(|batch| filter_record_batch(&batch, &hits));
                let update = update.clone();
                let pieces = cut(batch.map_err(misfit)?, update.rows());
                Ok::<_, Error>(futures::stream::iter(pieces.map(move |batch| {
                    let all = BooleanArray::from(vec![true; batch.num_rows()]);
                    update.apply(batch, &all)
                })))
            })
        };
        let stage = Stage::new(&self.engine, Base::of(&version));
        let written = stage.write(Rows { schema: version.schema.clone(), batches: changed.try_flatten().boxed() }).await?;
        let gone = std::mem::take(&mut *gone.lock().unwrap_or_else(PoisonError::into_inner));
        let changed = gone.rows();
        self.change(&version, stage, gone, written, changed, update.content().to_owned()).await
    }

    /// Requests: as [`LanceStore::delete`], of the key columns, and what an append costs.
    pub(crate) async fn by_key(&self, version: Arc<Version>, key: &[String], action: ByKey, rows: Rows) -> Result<Staged> {
        let incoming = Incoming::read(&version.schema, key, action, rows).await?;
        let (mut gone, mut found) = (Places::default(), Vec::new());
        if let Some(candidates) = wanted(&incoming)? {
            let names: Vec<&str> = incoming.key().iter().map(String::as_str).collect();
            let mut rows = self.candidates(&version, &names, candidates);
            while let Some(batch) = rows.try_next().await? {
                let places = incoming.places(&batch)?;
                gone.add(&version, &batch, &places.iter().map(|place| Some(place.is_some())).collect())?;
                found.extend(places.into_iter().flatten());
            }
        }
        let settled = incoming.settle(found)?;
        let gone = if settled.removes { gone } else { Places::default() };
        let stage = Stage::new(&self.engine, Base::of(&version));
        let written = stage.write(Rows::new(version.schema.clone(), settled.added)).await?;
        let content = incoming.content(&written.content);
        self.change(&version, stage, gone, written, settled.changed, content).await
    }

    /// Rows that may match, with their addresses.
    fn candidates(&self, version: &Arc<Version>, columns: &[&str], filter: Expr) -> BoxStream<'static, Result<RecordBatch>> {
        let columns = reads(version, columns);
        Read { columns, fragments: None, filter: Some(filter), limit: None, addresses: true }.start(&self.engine, version)
    }

    async fn change(
        &self,
        version: &Version,
        stage: Stage<'_>,
        gone: Places,
        written: Written,
        changed: u64,
        content: String,
    ) -> Result<Staged> {
        let operation = match (gone.0.is_empty(), written.fragments.is_empty()) {
            (true, true) => return Ok(staged(version, 0, content)),
            (true, false) => Operation::Append { fragments: written.fragments },
            (false, _) => {
                let (updated_fragments, removed_fragment_ids) = stage.without(gone.0).await?;
                Operation::Update {
                    removed_fragment_ids,
                    updated_fragments,
                    new_fragments: written.fragments,
                    fields_modified: Vec::new(),
                    compacted_sstables: Vec::new(),
                    fields_for_preserving_frag_bitmap: Vec::new(),
                    update_mode: None,
                    inserted_rows_filter: None,
                    updated_fragment_offsets: None,
                }
            }
        };
        let version = stage.commit(operation, &written.files).await?;
        Ok(staged(&self.know(version), changed, content))
    }
}

/// A condition that all rows with an incoming key meet, and few others. `None` where there is no key.
fn wanted(incoming: &Incoming) -> Result<Option<Expr>> {
    let Some(range) = incoming.range()? else { return Ok(None) };
    let range = expression(&range)?;
    Ok(Some(match incoming.columns()?.as_slice() {
        [keys] => one_of(&incoming.key()[0], keys)?.map_or(range.clone(), |one_of| range.and(one_of)),
        _ => range,
    }))
}

fn misfit(source: ArrowError) -> Error {
    Error::invalid("the change does not fit the table's rows").because(source)
}
