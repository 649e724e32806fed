//! Changes of rows: the data files that hold rows to change are written again, all others stay as they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use futures::{StreamExt, TryStreamExt};
use headwater_core::edit::{self, Incoming, Update, cut, hits, without};
use headwater_core::filter::Filter;
use headwater_core::store::{ByKey, Pin, Rows, Scan, Staged};
use headwater_core::{Error, Result};

use crate::ParquetStore;
use crate::scan::{Plan, rows_of};
use crate::store::of;
use crate::version::{DataFile, NewVersion, Version, extend, replace};
use crate::write::{Target, Written, write};

/// Data files of one change written again at once.
const REWRITES: usize = 4;

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
        let content = edit::deletion(&filter);
        let matching = self.matching(&filter).await?;
        let edit = Edit::removing(move |batch| without(&batch, &hits(&filter, &batch)?));
        self.rewrite(matching, edit, content).await
    }

    /// As [`Changing::delete`].
    pub(crate) async fn update(&self, filter: Filter, set: Vec<(String, ArrayRef)>) -> Result<Staged> {
        let update = Update::new(&self.version.schema, filter, set)?;
        let matching = self.matching(&update.filter).await?;
        let (rows, content) = (update.rows(), update.content().to_owned());
        let batch = move |batch: RecordBatch| {
            let hits = hits(&update.filter, &batch)?;
            update.apply(batch, &hits)
        };
        self.rewrite(matching, Edit { batch: Arc::new(batch), rows, removes: false }, content).await
    }

    /// Requests: as [`Changing::delete`], by the range of the keys, and what an append costs. Statistics bound only short keys: a table
    /// with long ones has every file's key column read.
    pub(crate) async fn by_key(&self, key: &[String], action: ByKey, rows: Rows) -> Result<Staged> {
        let schema = &self.version.schema;
        let incoming = Arc::new(Incoming::read(schema, key, action, rows).await?);
        let found = self.find(&incoming).await?;
        let settled = incoming.settle(found.iter().flat_map(|(_, places)| places).copied())?;
        let touched = match settled.removes {
            true => found.into_iter().map(|(file, places)| (file, places.len() as u64)).collect(),
            false => Vec::new(),
        };
        let edit = {
            let incoming = incoming.clone();
            Edit::removing(move |batch| without(&batch, &incoming.hits(&batch)?))
        };
        let replaced = self.replaced(touched, edit).await?;
        let added = write(&self.target, schema, Rows::new(schema.clone(), settled.added)).await?;
        let content = incoming.content(&added.content(schema));
        self.stage_replaced(replaced, added, settled.changed, content).await
    }

    /// The files with rows that match, and how many.
    async fn matching(&self, filter: &Filter) -> Result<Vec<(DataFile, u64)>> {
        let columns = filter.columns().into_iter().map(str::to_owned).collect::<Vec<_>>();
        // A filter that reads nothing needs a column to count by.
        let columns = if columns.is_empty() { vec![self.version.schema.field(0).name().clone()] } else { columns };
        let scan = Scan { columns: Some(columns), filter: Some(filter.clone()), ..Scan::default() };
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
        let scan = Scan { columns: Some(incoming.key().to_vec()), filter: Some(filter), ..Scan::default() };
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
            let edit = edit.clone();
            futures::stream::iter(cut(batch, edit.rows)).map(move |batch| (edit.batch)(batch))
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
        let fresh = || self.target.fresh("version.json");
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
