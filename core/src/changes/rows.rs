//! Rows that differ: what two versions hold, cancelled against each other.

use std::collections::HashMap;

use arrow_array::{BooleanArray, RecordBatch, UInt64Array};
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use arrow_select::interleave::interleave_record_batch;
use arrow_select::take::take_record_batch;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use super::RowChange;
use super::encode::{Digest, Encoder, digests, uncomparable};
use crate::error::Result;
use crate::keys::Keys;
use crate::schema::Conform;
use crate::store::{Difference, Partition};

/// Partitions whose first rows are read at once.
const PARALLEL: usize = 8;

/// How rows of one life are compared.
pub(super) struct Terms {
    /// Brings older rows into the later schema.
    pub(super) conform: Conform,
    /// The later schema.
    pub(super) schema: SchemaRef,
    /// What names a row, if anything does.
    pub(super) keys: Option<Keys>,
}

/// The rows of these partitions, in order; the first of the next ones are read meanwhile.
fn read(partitions: Vec<Partition>) -> BoxStream<'static, Result<RecordBatch>> {
    let begun = futures::stream::iter(partitions).map(|partition| {
        let mut batches = (partition.open)();
        async move {
            let first = batches.next().await;
            futures::stream::iter(first).chain(batches)
        }
    });
    let rows = begun.buffered(PARALLEL).flatten();
    rows.try_filter(|batch| std::future::ready(batch.num_rows() > 0)).boxed()
}

/// All rows of these partitions.
pub(super) fn whole(partitions: Vec<Partition>, change: fn(RecordBatch) -> RowChange) -> BoxStream<'static, Result<RowChange>> {
    read(partitions).map_ok(change).boxed()
}

/// What is left of a difference when equal rows have cancelled. Nothing is compared, and nothing held, where one part is empty.
pub(super) fn compare(terms: Terms, difference: Difference) -> BoxStream<'static, Result<RowChange>> {
    let Difference { removed, added } = difference;
    if removed.is_empty() {
        return whole(added, RowChange::Added);
    }
    if added.is_empty() {
        let conformed = read(removed).map(move |batch| batch.and_then(|batch| terms.conform.apply(&batch, 0)));
        return conformed.map_ok(RowChange::Deleted).boxed();
    }
    futures::stream::once(cancelled(terms, removed, added)).try_flatten().boxed()
}

async fn cancelled(terms: Terms, removed: Vec<Partition>, added: Vec<Partition>) -> Result<BoxStream<'static, Result<RowChange>>> {
    let old = Old::read(terms, removed).await?;
    let changes = futures::stream::try_unfold((Some(old), read(added)), step);
    Ok(changes.map_ok(|changes| futures::stream::iter(changes).map(Ok)).try_flatten().boxed())
}

/// Old rows while there are later ones to come, and those.
type Unmet = (Option<Old>, BoxStream<'static, Result<RecordBatch>>);

async fn step((old, mut added): Unmet) -> Result<Option<(Vec<RowChange>, Unmet)>> {
    let Some(mut old) = old else { return Ok(None) };
    Ok(Some(match added.try_next().await? {
        Some(batch) => (old.meet(&batch)?, (Some(old), added)),
        None => (old.rest()?, (None, added)),
    }))
}

/// Rows of the earlier version, until rows of the later one meet them.
struct Old {
    terms: Terms,
    encoder: Encoder,
    batches: Vec<RecordBatch>,
    /// For each batch and row, whether nothing has met it.
    left: Vec<Vec<bool>>,
    places: Vec<Place>,
    /// The last place of each key, or of each row where there is no key.
    last: HashMap<Digest, usize>,
}

/// Where an old row is.
#[derive(Clone, Copy)]
struct Place {
    batch: usize,
    row: usize,
    digest: Digest,
    /// The place before of the same key, or of an equal row.
    before: Option<usize>,
}

impl Old {
    async fn read(terms: Terms, partitions: Vec<Partition>) -> Result<Self> {
        let encoder = Encoder::new(&terms.schema)?;
        let mut old = Self { terms, encoder, batches: Vec::new(), left: Vec::new(), places: Vec::new(), last: HashMap::new() };
        let mut batches = read(partitions);
        while let Some(batch) = batches.try_next().await? {
            let batch = old.terms.conform.apply(&batch, 0)?;
            old.hold(batch)?;
        }
        Ok(old)
    }

    /// The digest of each row, and of what names it.
    fn digests(&self, batch: &RecordBatch) -> Result<(Vec<Digest>, Vec<Digest>)> {
        let rows = self.encoder.rows(batch)?;
        let names = match &self.terms.keys {
            Some(keys) => digests(&keys.encode(batch)?),
            None => rows.clone(),
        };
        Ok((rows, names))
    }

    fn hold(&mut self, batch: RecordBatch) -> Result<()> {
        let (rows, names) = self.digests(&batch)?;
        for (row, (digest, name)) in rows.into_iter().zip(names).enumerate() {
            let before = self.last.insert(name, self.places.len());
            self.places.push(Place { batch: self.batches.len(), row, digest, before });
        }
        self.left.push(vec![true; batch.num_rows()]);
        self.batches.push(batch);
        Ok(())
    }

    fn find(&mut self, name: Digest) -> Option<Place> {
        let last = self.last.get_mut(&name)?;
        let place = self.places[*last];
        match place.before {
            Some(before) => *last = before,
            None => drop(self.last.remove(&name)),
        }
        self.left[place.batch][place.row] = false;
        Some(place)
    }

    /// What these later rows are to the earlier ones.
    fn meet(&mut self, batch: &RecordBatch) -> Result<Vec<RowChange>> {
        let (rows, names) = self.digests(batch)?;
        let (mut added, mut before, mut after) = (Vec::new(), Vec::new(), Vec::new());
        for (row, (digest, name)) in rows.into_iter().zip(names).enumerate() {
            match self.find(name) {
                None => added.push(row as u64),
                Some(place) if place.digest == digest => {}
                Some(place) => {
                    before.push((place.batch, place.row));
                    after.push(row as u64);
                }
            }
        }
        let take = |rows: Vec<u64>| take_record_batch(batch, &UInt64Array::from(rows)).map_err(uncomparable);
        let mut changes = Vec::new();
        if !before.is_empty() {
            let batches: Vec<&RecordBatch> = self.batches.iter().collect();
            let before = interleave_record_batch(&batches, &before).map_err(uncomparable)?;
            changes.push(RowChange::Updated { before, after: take(after)? });
        }
        if !added.is_empty() {
            changes.push(RowChange::Added(take(added)?));
        }
        Ok(changes)
    }

    /// What nothing has met.
    fn rest(self) -> Result<Vec<RowChange>> {
        let rest = self.batches.into_iter().zip(self.left).filter(|(_, left)| left.contains(&true));
        rest.map(|(batch, left)| filter_record_batch(&batch, &BooleanArray::from(left)).map(RowChange::Deleted).map_err(uncomparable))
            .collect()
    }
}
