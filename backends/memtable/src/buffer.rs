//! One table's rows that are in no commit yet: those in the store, and behind them those in memory.

use std::collections::VecDeque;

use arrow_array::{RecordBatch, UInt64Array};
use arrow_schema::SchemaRef;
use arrow_select::take::take_record_batch;
use headwater_core::name::TableKey;
use headwater_core::schema::Conform;
use headwater_core::store::{Rows, TableRef};
use headwater_core::{Error, ErrorKind, Result, Snapshot, StagedAppend};

/// What of a batch's memory its rows may leave unused before they are copied out of it.
const SLACK: usize = 4 << 10;

/// What own rows stand behind.
#[derive(Clone, Debug)]
pub(crate) enum Base {
    /// A published state.
    Published(Snapshot),
    /// The table with own rows that are durable and unpublished.
    Staged(StagedAppend),
}

/// A table of one writer.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) key: TableKey,
    table: TableRef,
    keyed: bool,
    /// The published state own rows stand on: it holds none of those below.
    published: Snapshot,
    /// The columns that appended rows are matched with.
    schema: SchemaRef,
    /// Durable and unpublished.
    staged: Option<StagedAppend>,
    /// In memory, behind the staged ones. A flush leaves them here until they are durable.
    batches: VecDeque<RecordBatch>,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// Whether rows came since the idle timer last looked.
    pub(crate) touched: bool,
    /// Whether a flush stages rows on the present base, which therefore stays.
    busy: bool,
}

/// What a flush writes.
pub(crate) struct Work {
    pub(crate) base: Base,
    pub(crate) rows: Rows,
    /// How many batches they are.
    pub(crate) batches: usize,
}

impl Buffer {
    /// A table nothing was appended to.
    pub(crate) fn new(key: TableKey, published: Snapshot, schema: SchemaRef) -> Result<Self> {
        let head = published.table(key.as_str())?;
        let (table, keyed) = (head.table(), !head.key_columns()?.is_empty());
        Ok(Self {
            key,
            table,
            keyed,
            published,
            schema,
            staged: None,
            batches: VecDeque::new(),
            rows: 0,
            bytes: 0,
            touched: false,
            busy: false,
        })
    }

    /// Whether no row of it is unpublished.
    pub(crate) fn is_clean(&self) -> bool {
        self.staged.is_none() && self.batches.is_empty()
    }

    /// Rows that are durable and unpublished.
    pub(crate) fn staged_rows(&self) -> u64 {
        self.staged.as_ref().map_or(0, StagedAppend::rows)
    }

    pub(crate) fn staged(&self) -> Option<&StagedAppend> {
        self.staged.as_ref()
    }

    /// What is read: a base, and the rows in memory behind it. Taken in one step, so that no row is in both or in neither.
    pub(crate) fn view(&self) -> Result<(Base, Vec<RecordBatch>)> {
        Ok((self.base()?, self.batches.iter().cloned().collect()))
    }

    /// `NotFound` where the table was dropped or renamed right behind this writer's last commit.
    fn base(&self) -> Result<Base> {
        if let Some(staged) = &self.staged {
            return Ok(Base::Staged(staged.clone()));
        }
        let head = self.published.table(self.key.as_str())?;
        if head.table() != self.table {
            let problem = "the table was dropped, and another one has its name; discard the rows in memory to go on with that one";
            return Err(Error::new(ErrorKind::NotFound, problem).at("table", &self.key));
        }
        Ok(Base::Published(self.published.clone()))
    }

    /// Whether it could stand on this newer state, and its table's version there is another.
    pub(crate) fn is_behind(&self, known: &Snapshot) -> bool {
        let pin =
            |state: &Snapshot| state.table(self.key.as_str()).ok().filter(|head| head.table() == self.table).map(|head| head.pin.clone());
        self.staged.is_none() && known.seq() > self.published.seq() && pin(known).is_some_and(|now| pin(&self.published) != Some(now))
    }

    /// Moves on to a newer published state of the same table, where no row stands on the present one.
    pub(crate) fn move_to(&mut self, published: Snapshot, schema: SchemaRef) -> Result<()> {
        let head = published.table(self.key.as_str())?;
        if head.table() != self.table {
            if self.is_clean() && !self.busy {
                *self = Self::new(self.key.clone(), published, schema)?;
            }
        } else if self.staged.is_none() && !self.busy && published.seq() >= self.published.seq() {
            (self.published, self.schema) = (published, schema);
        }
        Ok(())
    }

    /// A batch in the table's columns, in memory of its own where it is a small part of a large one.
    pub(crate) fn fit(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if self.keyed {
            let problem =
                "the table has key columns, and whether a row may be added depends on those that are there; append in a transaction";
            return Err(Error::new(ErrorKind::Unsupported, problem).at("table", &self.key).during("append"));
        }
        let conformed = Conform::new(&batch.schema(), &self.schema).and_then(|conform| conform.apply(batch, 0));
        compact(conformed.map_err(|error| error.at("table", &self.key).during("append"))?)
    }

    /// Takes in a batch that fits.
    pub(crate) fn push(&mut self, batch: RecordBatch) {
        self.rows += batch.num_rows() as u64;
        self.bytes += batch.get_array_memory_size() as u64;
        self.touched = true;
        self.batches.push_back(batch);
    }

    /// What a flush has to write; `None` where nothing is in memory.
    pub(crate) fn begin(&mut self) -> Result<Option<Work>> {
        if self.batches.is_empty() {
            return Ok(None);
        }
        // Batches of before a column was added lack it.
        let schema = self.staged.as_ref().map_or(&self.schema, StagedAppend::schema);
        let batches = self.batches.iter().map(|batch| conform(batch, schema)).collect::<Result<Vec<_>>>()?;
        let base = self.base()?;
        self.busy = true;
        Ok(Some(Work { base, batches: batches.len(), rows: Rows::new(schema.clone(), batches) }))
    }

    /// The first batches are durable now, behind all that was.
    pub(crate) fn flushed(&mut self, batches: usize, staged: StagedAppend) {
        self.busy = false;
        self.staged = Some(staged);
        self.forget(batches);
    }

    /// A flush wrote nothing: its rows stay where they are.
    pub(crate) fn unflushed(&mut self) {
        self.busy = false;
    }

    #[cfg(test)]
    pub(crate) fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Drops the first batches.
    pub(crate) fn forget(&mut self, batches: usize) {
        for batch in self.batches.drain(..batches.min(self.batches.len())) {
            self.rows -= batch.num_rows() as u64;
            self.bytes -= batch.get_array_memory_size() as u64;
        }
    }

    /// The staged rows are published, in this state and all later ones.
    pub(crate) fn published(&mut self, state: Snapshot) {
        self.staged = None;
        self.published = state;
    }

    /// Gives up every row that is not published. Returns their number.
    pub(crate) fn discard(&mut self) -> u64 {
        let rows = self.rows + self.staged_rows();
        self.staged = None;
        self.forget(self.batches.len());
        rows
    }
}

/// A batch under a schema that may have more columns.
pub(crate) fn conform(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch.clone());
    }
    Conform::new(batch.schema_ref(), schema)?.apply(batch, 0)
}

/// A slice keeps all of what it was cut from in memory.
fn compact(batch: RecordBatch) -> Result<RecordBatch> {
    let held = batch.get_array_memory_size();
    let used: usize = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(held)).sum();
    if held <= used.saturating_mul(2).saturating_add(SLACK) {
        return Ok(batch);
    }
    let all = UInt64Array::from_iter_values(0..batch.num_rows() as u64);
    take_record_batch(&batch, &all).map_err(|source| Error::invalid("the rows cannot be copied").because(source))
}
