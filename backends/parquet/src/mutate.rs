//! Changes of rows: the data files that hold rows to change are written again, all others stay as they are.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_arith::boolean::not;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, Scalar};
use arrow_ord::sort::{SortOptions, sort_to_indices};
use arrow_schema::ArrowError;
use arrow_select::concat::concat;
use arrow_select::filter::{filter_record_batch, prep_null_mask_filter};
use arrow_select::take::take;
use arrow_select::zip::zip;
use futures::{StreamExt, TryStreamExt};
use headwater_core::filter::{Comparison, Filter};
use headwater_core::json::sha256;
use headwater_core::keys::Keys;
use headwater_core::schema::schema_hash;
use headwater_core::store::{Absent, ByKey, Pin, Present, Rows, Scan, Staged};
use headwater_core::{Error, ErrorKind, Result};

use crate::ParquetStore;
use crate::scan::{Plan, rows_of};
use crate::store::of;
use crate::version::{DataFile, NewVersion, Version, extend, replace};
use crate::write::{Target, Written, write};

/// Data files of one change written again at once.
const REWRITES: usize = 4;
/// Bytes an update gives to one batch of rows, about.
const SET_BYTES: usize = 16 << 20;

/// What becomes of the rows of a file that is written again.
#[derive(Clone)]
struct Edit {
    batch: Arc<dyn Fn(RecordBatch) -> Result<RecordBatch> + Send + Sync>,
    /// Rows it takes at once.
    rows: usize,
    /// Whether it removes the rows that made the file one to write again.
    removes: bool,
}

impl Edit {
    fn removing(batch: impl Fn(RecordBatch) -> Result<RecordBatch> + Send + Sync + 'static) -> Self {
        Self { batch: Arc::new(batch), rows: usize::MAX, removes: true }
    }
}

/// Files, by their paths, and what stands in their place.
type Replaced = BTreeMap<String, Vec<DataFile>>;

/// A version of a table, to change rows of.
pub(crate) struct Changing<'a> {
    pub(crate) store: &'a ParquetStore,
    pub(crate) target: Target,
    pub(crate) pin: &'a Pin,
    pub(crate) version: Arc<Version>,
}

impl Changing<'_> {
    /// Requests: the lists that are not cached, one scan of the filter's columns per file whose statistics allow a match, and each file with
    /// a match once more.
    pub(crate) async fn delete(&self, filter: Filter) -> Result<Staged> {
        let content = sha256(format!("delete {}", filter.identity()).as_bytes());
        let matching = self.matching(&filter).await?;
        let edit = Edit::removing(move |batch| without(&batch, &hits(&filter, &batch)?));
        self.rewrite(matching, edit, content).await
    }

    /// As [`Changing::delete`].
    pub(crate) async fn update(&self, filter: Filter, set: Vec<(String, ArrayRef)>) -> Result<Staged> {
        let mut asked = format!("update {}", filter.identity());
        let mut values = Vec::with_capacity(set.len());
        let bytes: usize = set.iter().map(|(_, value)| value.get_buffer_memory_size()).sum();
        for (column, value) in set {
            let equal = Filter::Compare { column: column.clone(), op: Comparison::Equal, value: value.clone() };
            equal.check(&self.version.schema)?;
            asked.push_str(&format!(" set {}", equal.identity()));
            values.push((self.version.schema.index_of(&column).map_err(misfit)?, Scalar::new(value)));
        }
        let content = sha256(asked.as_bytes());
        let matching = self.matching(&filter).await?;
        let batch = move |batch: RecordBatch| {
            let hits = hits(&filter, &batch)?;
            let (schema, mut columns, _) = batch.into_parts();
            for (index, value) in &values {
                columns[*index] = zip(&hits, value, &columns[*index]).map_err(misfit)?;
            }
            RecordBatch::try_new(schema, columns).map_err(misfit)
        };
        self.rewrite(matching, Edit { batch: Arc::new(batch), rows: (SET_BYTES / bytes.max(1)).max(1), removes: false }, content).await
    }

    /// Requests: as [`Changing::delete`], by the range of the keys, and what an append costs. Statistics bound only short keys: a table
    /// with long ones has every file's key column read.
    pub(crate) async fn by_key(&self, key: &[String], action: ByKey, rows: Rows) -> Result<Staged> {
        let keys = Arc::new(Keys::new(&self.version.schema, key)?);
        if !action.keys_alone() && schema_hash(&rows.schema) != schema_hash(&self.version.schema) {
            return Err(Error::invalid("the rows do not have the table's columns"));
        }
        let incoming = Arc::new(Incoming::read(keys, rows).await?);
        let found = self.find(&incoming).await?;
        let present = incoming.marked(&found);
        incoming.refuse(action, &present)?;
        let touched = match action.present {
            Present::Replace | Present::Remove => found.into_iter().map(|(file, keys)| (file, keys.len() as u64)).collect(),
            Present::Refuse | Present::Keep => Vec::new(),
        };
        let edit = {
            let incoming = incoming.clone();
            Edit::removing(move |batch| without(&batch, &incoming.hits(&batch)?))
        };
        let replaced = self.replaced(touched, edit).await?;
        let batches = match action.keys_alone() {
            true => Vec::new(),
            false => incoming
                .kept(&present, |present| if present { action.present == Present::Replace } else { action.absent == Absent::Add })?,
        };
        let added = write(&self.target, &self.version.schema, Rows::new(self.version.schema.clone(), batches)).await?;
        let content = sha256([action.name(), &incoming.digest, &added.content(&self.version.schema)].join(" ").as_bytes());
        let changed = match action.present {
            Present::Remove => present.iter().filter(|present| **present).count() as u64,
            _ => added.rows(),
        };
        self.stage_replaced(replaced, added, changed, content).await
    }

    /// The files with rows that match, and how many.
    async fn matching(&self, filter: &Filter) -> Result<Vec<(DataFile, u64)>> {
        let columns = filter.columns().into_iter().map(str::to_owned).collect::<Vec<_>>();
        // A filter that reads nothing needs a column to count by.
        let columns = if columns.is_empty() { vec![self.version.schema.field(0).name().clone()] } else { columns };
        let scan = Scan { columns: Some(columns), filter: Some(filter.clone()), limit: None };
        let counted = self.candidates(&scan).await?.into_iter().map(|file| async {
            let rows = self.rows(file.clone(), &scan)?;
            let rows = rows.try_fold(0_u64, |sum, batch| std::future::ready(Ok(sum + batch.num_rows() as u64))).await?;
            Ok::<_, Error>((file, rows))
        });
        let counted = futures::stream::iter(counted.collect::<Vec<_>>()).buffered(self.store.settings.parallel_reads);
        counted.try_filter(|(_, rows)| std::future::ready(*rows > 0)).try_collect().await
    }

    /// The files with rows of these keys, and the keys' places among the incoming rows.
    async fn find(&self, incoming: &Incoming) -> Result<Vec<(DataFile, Vec<usize>)>> {
        let Some(filter) = incoming.range()? else { return Ok(Vec::new()) };
        let scan = Scan { columns: Some(incoming.keys.names().to_vec()), filter: Some(filter), limit: None };
        let searched = self.candidates(&scan).await?.into_iter().map(|file| async {
            let (mut found, mut rows) = (Vec::new(), self.rows(file.clone(), &scan)?);
            while let Some(batch) = rows.try_next().await? {
                found.extend(incoming.places(&batch)?.into_iter().flatten());
            }
            Ok::<_, Error>((file, found))
        });
        let searched = futures::stream::iter(searched.collect::<Vec<_>>()).buffered(self.store.settings.parallel_reads);
        searched.try_filter(|(_, found)| std::future::ready(!found.is_empty())).try_collect().await
    }

    async fn candidates(&self, scan: &Scan) -> Result<Vec<DataFile>> {
        let plan = Plan::new(self.store.objects.clone(), self.store.settings.clone(), self.version.schema.clone(), scan)?;
        let mut files = Vec::new();
        for file in self.store.files(self.pin).await? {
            if plan.may_match(&file)? {
                files.push(file);
            }
        }
        Ok(files)
    }

    /// A scan of one file, which need not be listed anywhere.
    pub(crate) fn rows(&self, file: DataFile, scan: &Scan) -> Result<futures::stream::BoxStream<'static, Result<RecordBatch>>> {
        let plan = Plan::new(self.store.objects.clone(), self.store.settings.clone(), self.version.schema.clone(), scan)?;
        Ok(rows_of(plan.partitions(vec![file])?))
    }

    async fn rewrite(&self, touched: Vec<(DataFile, u64)>, edit: Edit, content: String) -> Result<Staged> {
        let changed = touched.iter().map(|(_, rows)| rows).sum();
        let replaced = self.replaced(touched, edit).await?;
        self.stage_replaced(replaced, Written::default(), changed, content).await
    }

    /// Writes files again, each with so many rows the edit is about. One of which every row goes is not read.
    async fn replaced(&self, touched: Vec<(DataFile, u64)>, edit: Edit) -> Result<Replaced> {
        let rewrites = touched.into_iter().map(|(file, rows)| {
            let edit = edit.clone();
            async move { self.written_again(file, rows, edit).await }
        });
        futures::stream::iter(rewrites.collect::<Vec<_>>()).buffered(REWRITES).try_collect().await
    }

    async fn written_again(&self, file: DataFile, rows: u64, edit: Edit) -> Result<(String, Vec<DataFile>)> {
        let path = file.path.clone();
        if edit.removes && rows == file.rows {
            return Ok((path, Vec::new()));
        }
        let _turn = self.store.turn().await?;
        let rows = self.rows(file, &Scan::default())?;
        let pieces = rows.map_ok(move |batch| {
            let starts = (0..batch.num_rows()).step_by(edit.rows.min(batch.num_rows().max(1)));
            let edit = edit.clone();
            futures::stream::iter(starts).map(move |from| (edit.batch)(batch.slice(from, edit.rows.min(batch.num_rows() - from))))
        });
        let rows = pieces.try_flatten();
        let mut written =
            write(&self.target, &self.version.schema, Rows { schema: self.version.schema.clone(), batches: rows.boxed() }).await?;
        if let Some((path, bytes)) = written.waiting.take() {
            self.store.objects.create(&path, bytes).await?;
        }
        Ok((path, written.files))
    }

    async fn stage_replaced(&self, replaced: Replaced, mut added: Written, changed: u64, content: String) -> Result<Staged> {
        if replaced.is_empty() && added.files.is_empty() {
            return Ok(of(self.pin, &self.version, 0, content));
        }
        let versions = self.lay(replaced, &added.files).await?;
        let new = self.store.publish(added.waiting.take(), versions).await?;
        Ok(of(&new.pin, &new.version, changed, content))
    }

    /// The version objects of the base with other files in the place of some, and new ones at the end.
    async fn lay(&self, replaced: Replaced, added: &[DataFile]) -> Result<Vec<NewVersion>> {
        let fresh = || self.target.fresh("self.version.json");
        if replaced.is_empty() {
            return extend((Some(self.pin), &self.version), added, fresh);
        }
        if let Some(versions) = replace(&self.version, &self.store.lists(&self.version).await?, &replaced, added, fresh)? {
            return Ok(versions);
        }
        // One of them is in a list of lists: all are laid out anew.
        let mut files = Vec::new();
        for file in self.store.files(self.pin).await? {
            match replaced.get(&file.path) {
                Some(others) => files.extend_from_slice(others),
                None => files.push(file),
            }
        }
        files.extend_from_slice(added);
        extend((None, &Version::empty(self.version.schema.clone())), &files, fresh)
    }
}

/// Rows to add, replace or remove by key, all in memory.
struct Incoming {
    keys: Arc<Keys>,
    batches: Vec<RecordBatch>,
    /// Each key's place among all rows.
    places: HashMap<Box<[u8]>, usize>,
    /// SHA-256 (hex) of the keys, in order.
    digest: String,
}

impl Incoming {
    async fn read(keys: Arc<Keys>, rows: Rows) -> Result<Self> {
        let batches: Vec<RecordBatch> = rows.batches.try_collect().await?;
        let (mut places, mut all) = (HashMap::new(), Vec::new());
        for batch in &batches {
            for key in &keys.encode(batch)? {
                all.extend_from_slice(&(key.as_ref().len() as u64).to_le_bytes());
                all.extend_from_slice(key.as_ref());
                let place = places.len();
                if places.insert(key.as_ref().into(), place).is_some() {
                    return Err(keys.twice(key.as_ref()));
                }
            }
        }
        Ok(Self { keys, batches, places, digest: sha256(&all) })
    }

    /// All keys lie in these bounds. `None` where there is no key.
    fn range(&self) -> Result<Option<Filter>> {
        if self.places.is_empty() {
            return Ok(None);
        }
        let columns = self.batches.iter().map(|batch| self.keys.columns(batch)).collect::<Result<Vec<_>>>()?;
        let mut bounds = Vec::new();
        for (i, name) in self.keys.names().iter().enumerate() {
            let column = concat(&columns.iter().map(|columns| columns[i].as_ref()).collect::<Vec<_>>()).map_err(misfit)?;
            for (op, descending) in [(Comparison::GreaterEqual, false), (Comparison::LessEqual, true)] {
                let first = sort_to_indices(&column, Some(SortOptions { descending, nulls_first: false }), Some(1)).map_err(misfit)?;
                let value = take(&column, &first, None).map_err(misfit)?;
                bounds.push(Filter::Compare { column: name.clone(), op, value });
            }
        }
        Ok(Some(Filter::And(bounds)))
    }

    /// For each row of a table's batch, the place of its key.
    fn places(&self, batch: &RecordBatch) -> Result<Vec<Option<usize>>> {
        Ok(self.keys.encode(batch)?.iter().map(|key| self.places.get(key.as_ref()).copied()).collect())
    }

    fn hits(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        Ok(self.places(batch)?.into_iter().map(|place| Some(place.is_some())).collect())
    }

    /// Which of the keys are in the table.
    fn marked(&self, found: &[(DataFile, Vec<usize>)]) -> Vec<bool> {
        let mut present = vec![false; self.places.len()];
        found.iter().flat_map(|(_, places)| places).for_each(|place| present[*place] = true);
        present
    }

    fn refuse(&self, action: ByKey, present: &[bool]) -> Result<()> {
        let first = |wanted: bool| {
            let place = present.iter().position(|present| *present == wanted)?;
            self.places.iter().find(|(_, own)| **own == place).map(|(key, _)| self.keys.text(key))
        };
        if let (Present::Refuse, Some(key)) = (action.present, first(true)) {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("a row with the key {key} exists already; upsert to replace it")));
        }
        if let (Absent::Refuse, Some(key)) = (action.absent, first(false)) {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no row with the key {key}")));
        }
        Ok(())
    }

    /// The incoming rows that are kept, by whether their key is in the table.
    fn kept(&self, present: &[bool], keep: impl Fn(bool) -> bool) -> Result<Vec<RecordBatch>> {
        let mut from = 0;
        let mut kept = Vec::with_capacity(self.batches.len());
        for batch in &self.batches {
            let mask: BooleanArray = present[from..from + batch.num_rows()].iter().map(|present| Some(keep(*present))).collect();
            from += batch.num_rows();
            kept.push(filter_record_batch(batch, &mask).map_err(misfit)?);
        }
        Ok(kept)
    }
}

/// The rows for which the filter is true; not the ones for which it is null.
fn hits(filter: &Filter, batch: &RecordBatch) -> Result<BooleanArray> {
    let mask = filter.evaluate(batch).map_err(misfit)?;
    Ok(if mask.null_count() > 0 { prep_null_mask_filter(&mask) } else { mask })
}

fn without(batch: &RecordBatch, hits: &BooleanArray) -> Result<RecordBatch> {
    not(hits).and_then(|keep| filter_record_batch(batch, &keep)).map_err(misfit)
}

fn misfit(source: ArrowError) -> Error {
    Error::invalid("the change does not fit the table's rows").because(source)
}
