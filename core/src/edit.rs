//! What a change does to rows, written once for all stores: which rows it hits, what they become, and which it adds. A store finds
//! candidates, reads them, and writes what comes of them.

use std::collections::HashMap;

use arrow_arith::boolean::not;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, Scalar};
use arrow_cast::cast;
use arrow_ord::sort::{SortOptions, sort_to_indices};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::concat::concat;
use arrow_select::filter::{filter_record_batch, prep_null_mask_filter};
use arrow_select::take::take;
use arrow_select::zip::zip;
use futures::TryStreamExt;

use crate::error::{Error, ErrorKind, Result};
use crate::filter::{Comparison, Filter};
use crate::json::sha256;
use crate::keys::Keys;
use crate::schema::schema_hash;
use crate::store::{Absent, ByKey, Present, Rows};

/// Bytes that [`Update::apply`] adds to one batch of rows, about, where the caller cuts batches to [`Update::rows`].
const SET_BYTES: usize = 16 << 20;

/// The rows for which the filter is true; not the ones for which it is null.
pub fn hits(filter: &Filter, batch: &RecordBatch) -> Result<BooleanArray> {
    let mask = filter.evaluate(batch).map_err(misfit)?;
    Ok(if mask.null_count() > 0 { prep_null_mask_filter(&mask) } else { mask })
}

/// The rows that are not hit.
pub fn without(batch: &RecordBatch, hits: &BooleanArray) -> Result<RecordBatch> {
    not(hits).and_then(|keep| filter_record_batch(batch, &keep)).map_err(misfit)
}

/// The content of a [`crate::store::Change::Delete`], as [`crate::store::Staged::content`] wants it.
pub fn deletion(filter: &Filter) -> String {
    sha256(format!("delete {}", filter.identity()).as_bytes())
}

/// New values for some columns of the rows that match a filter.
#[derive(Clone, Debug)]
pub struct Update {
    /// Which rows.
    pub filter: Filter,
    values: Vec<(usize, Scalar<ArrayRef>)>,
    bytes: usize,
    content: String,
}

impl Update {
    /// Checks columns and values against the table's schema. `InvalidInput` for a column that is not there or a value of another type.
    pub fn new(schema: &SchemaRef, filter: Filter, set: Vec<(String, ArrayRef)>) -> Result<Self> {
        filter.validate(schema)?;
        let mut asked = format!("update {}", filter.identity());
        let mut values = Vec::with_capacity(set.len());
        let bytes = set.iter().map(|(_, value)| value.get_buffer_memory_size()).sum();
        for (column, value) in set {
            let equal = Filter::Compare { column: column.clone(), op: Comparison::Equal, value: value.clone() };
            equal.check(schema)?;
            asked.push_str(&format!(" set {}", equal.identity()));
            values.push((schema.index_of(&column).map_err(misfit)?, Scalar::new(value)));
        }
        Ok(Self { filter, values, bytes, content: sha256(asked.as_bytes()) })
    }

    /// The batch with the new values in the rows that are hit.
    pub fn apply(&self, batch: RecordBatch, hits: &BooleanArray) -> Result<RecordBatch> {
        let (schema, mut columns, _) = batch.into_parts();
        for (index, value) in &self.values {
            columns[*index] = mixed(hits, value, &columns[*index]).map_err(misfit)?;
        }
        RecordBatch::try_new(schema, columns).map_err(misfit)
    }

    /// Rows to hand to [`Update::apply`] at once, so that a large value does not fill the memory.
    pub fn rows(&self) -> usize {
        (SET_BYTES / self.bytes.max(1)).max(1)
    }

    /// The change's content, as [`crate::store::Staged::content`] wants it.
    pub fn content(&self) -> &str {
        &self.content
    }
}

/// The value where rows are hit, and the column elsewhere. A dictionary is unpacked for it: its own numbers may have no room for one more.
fn mixed(hits: &BooleanArray, value: &Scalar<ArrayRef>, column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let DataType::Dictionary(_, plain) = column.data_type() else { return zip(hits, value, column) };
    let value = Scalar::new(cast(&value.clone().into_inner(), plain)?);
    cast(&zip(hits, &value, &cast(column, plain)?)?, column.data_type())
}

/// The rows of a change by key, all in memory.
#[derive(Debug)]
pub struct Incoming {
    keys: Keys,
    action: ByKey,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// Each key's place among all rows.
    places: HashMap<Box<[u8]>, usize>,
    /// SHA-256 (hex) of the keys, in order.
    digest: String,
}

/// What a change by key comes to, once it is known which keys the table has.
#[derive(Debug)]
pub struct Settled {
    /// Whether the table's rows of these keys go.
    pub removes: bool,
    /// The rows that are added.
    pub added: Vec<RecordBatch>,
    /// Rows the change itself brought or removed.
    pub changed: u64,
}

impl Incoming {
    /// Reads the rows. `InvalidInput` where two have one key, the schema is not the table's, or the key is none of it.
    pub async fn read(schema: &SchemaRef, key: &[String], action: ByKey, rows: Rows) -> Result<Self> {
        let keys = Keys::new(schema, key)?;
        if !action.keys_alone() && schema_hash(&rows.schema) != schema_hash(schema) {
            return Err(Error::invalid("the rows do not have the table's columns"));
        }
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
        Ok(Self { keys, action, schema: schema.clone(), batches, places, digest: sha256(&all) })
    }

    /// The key columns' names.
    pub fn key(&self) -> &[String] {
        self.keys.names()
    }

    /// Bounds that all keys lie in. `None` where there is no row.
    pub fn range(&self) -> Result<Option<Filter>> {
        if self.places.is_empty() {
            return Ok(None);
        }
        let mut bounds = Vec::new();
        for (name, column) in self.key().iter().zip(self.columns()?) {
            for (op, descending) in [(Comparison::GreaterEqual, false), (Comparison::LessEqual, true)] {
                let first = sort_to_indices(&column, Some(SortOptions { descending, nulls_first: false }), Some(1)).map_err(misfit)?;
                let value = take(&column, &first, None).map_err(misfit)?;
                bounds.push(Filter::Compare { column: name.clone(), op, value });
            }
        }
        Ok(Some(Filter::And(bounds)))
    }

    /// The key columns of all rows, in the key's order. `InvalidInput` where there is no row.
    pub fn columns(&self) -> Result<Vec<ArrayRef>> {
        let columns = self.batches.iter().map(|batch| self.keys.columns(batch)).collect::<Result<Vec<_>>>()?;
        let one = |i: usize| concat(&columns.iter().map(|columns| columns[i].as_ref()).collect::<Vec<_>>()).map_err(misfit);
        (0..self.key().len()).map(one).collect()
    }

    /// For each row of a table's batch, the place of its key among the incoming rows.
    pub fn places(&self, batch: &RecordBatch) -> Result<Vec<Option<usize>>> {
        Ok(self.keys.encode(batch)?.iter().map(|key| self.places.get(key.as_ref()).copied()).collect())
    }

    /// The rows of a table's batch whose key is among the incoming ones.
    pub fn hits(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        Ok(self.places(batch)?.into_iter().map(|place| Some(place.is_some())).collect())
    }

    /// What the change comes to where the table has the keys of these places. `AlreadyExists` or `NotFound`, naming the key, as the action
    /// wants it.
    pub fn settle(&self, found: impl IntoIterator<Item = usize>) -> Result<Settled> {
        let mut present = vec![false; self.places.len()];
        found.into_iter().for_each(|place| present[place] = true);
        self.refuse(&present)?;
        let keep = |present: bool| match present {
            true => self.action.present == Present::Replace,
            false => self.action.absent == Absent::Add,
        };
        let mut added = Vec::with_capacity(self.batches.len());
        let mut from = 0;
        for batch in self.batches.iter().filter(|_| !self.action.keys_alone()) {
            let mask: BooleanArray = present[from..from + batch.num_rows()].iter().map(|present| Some(keep(*present))).collect();
            from += batch.num_rows();
            let batch = filter_record_batch(batch, &mask).map_err(misfit)?;
            added.push(RecordBatch::try_new(self.schema.clone(), batch.columns().to_vec()).map_err(misfit)?);
        }
        let changed = match self.action.present {
            Present::Remove => present.iter().filter(|present| **present).count(),
            _ => added.iter().map(RecordBatch::num_rows).sum(),
        };
        let removes = matches!(self.action.present, Present::Replace | Present::Remove);
        Ok(Settled { removes, added, changed: changed as u64 })
    }

    /// The change's content, as [`crate::store::Staged::content`] wants it, given that of the added rows.
    pub fn content(&self, added: &str) -> String {
        sha256([self.action.name(), &self.digest, added].join(" ").as_bytes())
    }

    fn refuse(&self, present: &[bool]) -> Result<()> {
        let first = |wanted: bool| {
            let place = present.iter().position(|present| *present == wanted)?;
            self.places.iter().find(|(_, own)| **own == place).map(|(key, _)| self.keys.text(key))
        };
        if let (Present::Refuse, Some(key)) = (self.action.present, first(true)) {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("a row with the key {key} exists already; upsert to replace it")));
        }
        if let (Absent::Refuse, Some(key)) = (self.action.absent, first(false)) {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no row with the key {key}")));
        }
        Ok(())
    }
}

/// Neighbours that are to become one object together: parts that are small by themselves, as long as they weigh no more than `full`.
/// All other parts stand alone. In order.
pub fn runs<T>(parts: Vec<T>, full: u64, weight: impl Fn(&T) -> u64) -> Vec<Vec<T>> {
    /// A part of `full / ENOUGH` or more is not worth writing again.
    const ENOUGH: u64 = 4;
    let mut runs: Vec<Vec<T>> = Vec::new();
    let mut open = 0;
    for part in parts {
        let weight = weight(&part);
        let small = weight < full / ENOUGH;
        match runs.last_mut() {
            Some(run) if small && open > 0 && open + weight <= full => {
                open += weight;
                run.push(part);
            }
            _ => {
                open = if small { weight.max(1) } else { 0 };
                runs.push(vec![part]);
            }
        }
    }
    runs
}

/// Rows cut into batches of at most so many, without copying.
pub fn cut(batch: RecordBatch, rows: usize) -> impl Iterator<Item = RecordBatch> {
    let all = batch.num_rows();
    (0..all).step_by(rows.max(1)).map(move |from| batch.slice(from, rows.min(all - from)))
}

fn misfit(source: ArrowError) -> Error {
    Error::invalid("the change does not fit the table's rows").because(source)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int8Type;
    use arrow_array::{ArrayRef, DictionaryArray, RecordBatch, StringArray};

    use super::{Update, hits, runs};
    use crate::error::ErrorKind;
    use crate::filter::Filter;

    /// A dictionary whose numbers are all in use takes a value instead of another, and is too narrow for one more.
    #[test]
    fn a_full_dictionary_is_no_panic() {
        let full: DictionaryArray<Int8Type> =
            (0..128).map(|n| Some(format!("value {n}"))).collect::<Vec<_>>().iter().map(Option::as_deref).collect();
        let rows: StringArray = (0..128).map(|n| (n != 7).then_some("row")).collect();
        let columns =
            |full: DictionaryArray<Int8Type>, rows| [("d", Arc::new(full) as ArrayRef, true), ("s", Arc::new(rows) as ArrayRef, true)];
        let batch = RecordBatch::try_from_iter_with_nullable(columns(full.clone(), rows)).unwrap();
        let value: DictionaryArray<Int8Type> = ["other"].into_iter().collect();
        let update = Update::new(&batch.schema(), Filter::IsNull("s".to_owned()), vec![("d".to_owned(), Arc::new(value))]).unwrap();
        let updated = update.apply(batch.clone(), &hits(&update.filter, &batch).unwrap()).unwrap();
        let texts = arrow_cast::cast(updated.column(0), &arrow_schema::DataType::Utf8).unwrap();
        let texts: Vec<_> = arrow_array::cast::AsArray::as_string::<i32>(&texts).iter().map(Option::unwrap).map(str::to_owned).collect();
        assert!(texts.iter().enumerate().all(|(n, text)| *text == if n == 7 { "other".to_owned() } else { format!("value {n}") }));
        // The old value is in another row, too.
        let twice = arrow_array::UInt32Array::from_iter_values((0..128).chain([7]));
        let both = arrow_select::take::take_record_batch(&batch, &twice).unwrap();
        let mask = (0..129).map(|n| Some(n == 7)).collect();
        assert_eq!(update.apply(both, &mask).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn small_neighbours_become_one() {
        let runs = |weights: &[u64]| runs(weights.to_vec(), 100, |weight| *weight);
        assert_eq!(runs(&[]), Vec::<Vec<u64>>::new());
        assert_eq!(runs(&[5, 6, 25, 24, 24]), [vec![5, 6], vec![25], vec![24, 24]]);
        assert_eq!(runs(&[24, 24, 24, 24, 24]), [vec![24, 24, 24, 24], vec![24]]);
        assert_eq!(runs(&[0, 0, 99]), [vec![0, 0], vec![99]]);
    }
}
