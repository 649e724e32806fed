//! A transaction: what a closure reads of its base, recorded, and what it asks to change.

mod ahead;
mod mutation;
mod pending;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::adapter::{Plan, WriterKind};
use crate::error::{Error, ErrorKind, Result};
use crate::head::TableHead;
use crate::ids::TableId;
use crate::keys::Keys;
use crate::lineage::Lineage;
use crate::name::TableKey;
use crate::schema::{check_schema, with_columns};
use crate::snapshot::{Snapshot, describe};
use crate::store::{ByKey, Partition, Rows, Scan};
pub use ahead::StagedAppend;
use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use pending::{NewTable, Pending, conform, plan};

impl From<RecordBatch> for Rows {
    fn from(batch: RecordBatch) -> Self {
        Self::new(batch.schema(), vec![batch])
    }
}

impl From<Vec<RecordBatch>> for Rows {
    /// No batch at all is no row of no column: appending it does nothing.
    fn from(batches: Vec<RecordBatch>) -> Self {
        let schema = batches.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
        Self::new(schema, batches)
    }
}

/// A table inside a transaction: of the base, or created by the transaction itself.
#[derive(Clone, Debug)]
pub struct Table {
    key: TableKey,
    schema: SchemaRef,
    options: TableOptions,
    /// The table on the base; a new one has none yet.
    head: Option<TableHead>,
}

impl Table {
    /// Its name.
    pub fn key(&self) -> &TableKey {
        &self.key
    }

    /// Its schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns whose values name a row, at most one each; none for a table without a key.
    pub fn key_columns(&self) -> &[String] {
        &self.options.key_columns
    }

    /// Where its versions stand.
    pub fn lineage(&self) -> Lineage {
        self.options.lineage
    }
}

/// What a new table has beside its name and columns. Chosen once, when the table is created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// The columns whose values name a row: no two rows ever have the same values in them. They must not be null, and name a row for good:
    /// changes by key go by them, and an append of a key that is there is refused. Empty for a table without a key.
    pub key_columns: Vec<String>,
    /// Whether programs that know nothing of Headwater find the table's latest version by themselves.
    pub lineage: Lineage,
}

impl TableOptions {
    fn of(head: &TableHead) -> Result<Self> {
        Ok(Self { key_columns: head.key_columns()?, lineage: head.lineage()? })
    }
}

/// What a transaction read of its base.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    pub(crate) tables: BTreeMap<TableId, TableHead>,
    pub(crate) absent: BTreeSet<TableKey>,
    /// The whole list of tables.
    pub(crate) all: bool,
    /// The dropped tables.
    pub(crate) tombstones: bool,
    /// Rows or row counts, and not only that a table is there and what its columns are.
    pub(crate) contents: bool,
}

#[derive(Default)]
struct State {
    observed: Observed,
    pending: Vec<Pending>,
    finished: bool,
}

/// The closure's handle on its transaction. Everything it reads comes from one immutable base and enters the read set; what it asks to
/// change is staged when the closure has returned, and published all at once. It sees none of its own changes but the names it created. It
/// ends with the closure: later calls are refused. Cheap to clone.
#[derive(Clone)]
pub struct Transaction {
    base: Snapshot,
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Transaction {
    pub(crate) fn new(base: Snapshot) -> Self {
        Self { base, state: Arc::default() }
    }

    /// Refuses once the closure has returned: what was read or asked for after that would be in no read set and no commit.
    fn state(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.finished {
            return Err(Error::invalid("the transaction has ended; use it only until its closure returns"));
        }
        Ok(state)
    }

    /// A table that must exist. Enters the read set: if it is dropped, renamed or gets other columns meanwhile, the closure runs again.
    pub async fn table(&self, key: &str) -> Result<Table> {
        match self.find(key).await? {
            Some(table) => Ok(table),
            // The error lists the names there are.
            None => {
                Err(self.base.table(key).err().unwrap_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no table {key:?}"))))
            }
        }
    }

    /// A table, if there is one of that name. Either answer enters the read set.
    pub async fn find(&self, key: &str) -> Result<Option<Table>> {
        let key: TableKey = key.parse()?;
        {
            let mut state = self.state()?;
            for pending in &state.pending {
                if let Pending::Create(new) = pending
                    && new.key == key
                {
                    return Ok(Some(Table { key, schema: new.schema.clone(), options: new.options.clone(), head: None }));
                }
            }
            if self.base.heads().by_key(&key).is_none() {
                state.observed.absent.insert(key);
                return Ok(None);
            }
        }
        let Some(head) = self.base.heads().by_key(&key).cloned() else { return Ok(None) };
        let schema = describe(&self.base.catalog, &head).await?.schema;
        self.state()?.observed.tables.insert(head.table_id, head.clone());
        Ok(Some(Table { key, schema, options: TableOptions::of(&head)?, head: Some(head) }))
    }

    /// The names of all tables. The whole list enters the read set: any create, drop, rename or change of columns runs the closure again.
    pub async fn tables(&self) -> Result<Vec<TableKey>> {
        self.state()?.observed.all = true;
        Ok(self.base.tables().map(|head| head.key.clone()).collect())
    }

    /// The table's row count on the base. The table's contents enter the read set.
    pub async fn rows(&self, table: &Table) -> Result<u64> {
        Ok(self.read_contents(table)?.rows)
    }

    /// The partitions of a scan of the table on the base. The table's contents enter the read set.
    pub async fn scan(&self, table: &Table, scan: &Scan) -> Result<Vec<Partition>> {
        let head = self.read_contents(table)?;
        let partitions =
            self.base.catalog.store.scan(&head.pin, scan).await.map_err(|error| error.at("table", &head.key).during("scan"))?;
        Ok(scan.converted(partitions))
    }

    fn read_contents(&self, table: &Table) -> Result<TableHead> {
        let Some(head) = self.own(table)? else {
            return Err(Error::invalid(format!(
                "the table {:?} is created by this transaction: it has no rows to read yet",
                table.key.as_str()
            )));
        };
        let mut state = self.state()?;
        state.observed.tables.insert(head.table_id, head.clone());
        state.observed.contents = true;
        Ok(head.clone())
    }

    /// The table on the base, `None` for one this transaction creates. A handle of another transaction stands for another state.
    fn own<'a>(&self, table: &'a Table) -> Result<Option<&'a TableHead>> {
        match &table.head {
            Some(head) if self.base.heads().by_id(head.table_id) != Some(head) => Err(Error::invalid(format!(
                "this handle on the table {:?} is of another transaction; look it up again",
                table.key.as_str()
            ))),
            head => Ok(head.as_ref()),
        }
    }

    /// A name that must be free: if it is not, the table that has it enters the read set.
    fn require_free(&self, key: &TableKey) -> Result<()> {
        let mut state = self.state()?;
        if let Some(head) = self.base.heads().by_key(key) {
            state.observed.tables.insert(head.table_id, head.clone());
        } else if !state.pending.iter().any(|pending| matches!(pending, Pending::Create(new) if new.key == *key)) {
            state.observed.absent.insert(key.clone());
            return Ok(());
        }
        Err(Error::new(ErrorKind::AlreadyExists, format!("the table {:?} exists already", key.as_str())))
    }

    /// A new, empty table. `AlreadyExists` if the name is taken.
    pub async fn create_table(&self, key: &str, schema: SchemaRef) -> Result<Table> {
        self.create_table_with(key, schema, TableOptions::default()).await
    }

    /// [`Transaction::create_table`] with key columns (see [`TableOptions::key_columns`]), of which there must be one.
    pub async fn create_keyed_table(&self, key: &str, schema: SchemaRef, key_columns: &[&str]) -> Result<Table> {
        let key_columns: Vec<String> = key_columns.iter().map(|&column| column.to_owned()).collect();
        Keys::new(&schema, &key_columns).map_err(|error| error.at("table", key))?;
        self.create_table_with(key, schema, TableOptions { key_columns, ..TableOptions::default() }).await
    }

    /// [`Transaction::create_table`] with options. `InvalidInput` for a key the schema cannot have; `Unsupported` for a lineage the store does
    /// not have.
    pub async fn create_table_with(&self, key: &str, schema: SchemaRef, options: TableOptions) -> Result<Table> {
        self.create(key.parse()?, schema, options, None)
    }

    /// A new life for the last dropped table of that name: the same identity, no rows, and the schema it had or another one. Reads the
    /// tombstones: 1 request for each drop or recreate ever made.
    pub async fn recreate_table(&self, key: &str, schema: Option<SchemaRef>) -> Result<Table> {
        let key: TableKey = key.parse()?;
        self.state()?.observed.tombstones = true;
        let tombstones = self.base.tombstones().await?;
        let Some(tombstone) = tombstones.into_iter().find(|head| head.key == key) else {
            return Err(Error::new(ErrorKind::NotFound, format!("no dropped table was named {:?}; create one instead", key.as_str())));
        };
        let schema = match schema {
            Some(schema) => schema,
            None => describe(&self.base.catalog, &tombstone).await?.schema,
        };
        self.create(key, schema, TableOptions::of(&tombstone)?, Some(tombstone))
    }

    fn create(&self, key: TableKey, schema: SchemaRef, options: TableOptions, recreate: Option<TableHead>) -> Result<Table> {
        check_schema(&schema)?;
        self.base.catalog.store.check_schema(&schema)?;
        let at = |error: Error| error.at("table", &key);
        if !options.key_columns.is_empty() {
            Keys::new(&schema, &options.key_columns).map_err(at)?;
        }
        options.lineage.check(self.base.catalog.store.as_ref()).map_err(at)?;
        self.require_free(&key)?;
        let table = Table { key: key.clone(), schema: schema.clone(), options: options.clone(), head: None };
        self.state()?.pending.push(Pending::Create(NewTable { key, schema, options, recreate, rows: Vec::new() }));
        Ok(table)
    }

    /// Adds rows. They are matched with the table's columns by name; see [`Conform`](crate::schema::Conform) for what is refused. No rows at
    /// all change nothing. To a table with key columns it is [`ByKey::INSERT`].
    pub async fn append(&self, table: &Table, rows: impl Into<Rows>) -> Result<()> {
        if !table.key_columns().is_empty() && table.head.is_some() {
            return self.by_key(table, ByKey::INSERT, rows).await;
        }
        let rows = conform(table, rows.into())?;
        self.add(
            table,
            |pending| match pending {
                Pending::Create(NewTable { rows: all, recreate: None, .. })
                | Pending::Append(_, _, all)
                | Pending::Overwrite(_, _, all) => Ok(all),
                other => Err(other.name()),
            },
            rows,
            Pending::Append,
        )
    }

    /// Puts these rows, or none, in the place of all the table has. The columns stay.
    pub async fn overwrite(&self, table: &Table, rows: impl Into<Rows>) -> Result<()> {
        let rows = conform(table, rows.into())?;
        self.add(
            table,
            |pending| match pending {
                Pending::Create(NewTable { rows: all, recreate: None, .. }) => Ok(all),
                other => Err(other.name()),
            },
            rows,
            Pending::Overwrite,
        )
    }

    fn add(
        &self,
        table: &Table,
        merge: impl FnOnce(&mut Pending) -> Result<&mut Vec<Rows>, &'static str>,
        rows: Rows,
        fresh: impl FnOnce(TableHead, SchemaRef, Vec<Rows>) -> Pending,
    ) -> Result<()> {
        let head = self.own(table)?;
        let mut state = self.state()?;
        match (state.pending.iter_mut().find(|pending| pending.is(table)), head) {
            (Some(pending), _) => match merge(pending) {
                Ok(all) => all.push(rows),
                Err(earlier) => return Err(twice(table, earlier)),
            },
            (None, Some(head)) => state.pending.push(fresh(head.clone(), table.schema.clone(), vec![rows])),
            (None, None) => return Err(Error::invalid(format!("the table {:?} belongs to another transaction", table.key.as_str()))),
        }
        Ok(())
    }

    /// Gives a table another name. Its identity, rows and history stay. `AlreadyExists` if the name is taken.
    pub async fn rename_table(&self, table: &Table, to: &str) -> Result<()> {
        let to: TableKey = to.parse()?;
        self.require_free(&to)?;
        self.alter(table, |head| Pending::Rename(head, to))
    }

    /// Drops a table. Earlier snapshots still read it; its identity can be given a new life by [`Transaction::recreate_table`].
    pub async fn drop_table(&self, table: &Table) -> Result<()> {
        self.alter(table, Pending::Drop)
    }

    /// Adds nullable columns at the end. Rows that are there have nulls in them.
    pub async fn add_columns(&self, table: &Table, columns: Vec<Field>) -> Result<()> {
        let schema = with_columns(&table.schema, &columns)?;
        self.base.catalog.store.check_schema(&schema)?;
        self.alter(table, |head| Pending::AddColumns(head, schema))
    }

    /// Lays the table's rows out in fewer and larger objects; the rows and their order stay. Nothing is published where that is done already.
    /// A writer who commits to the table meanwhile loses nothing: this closure runs again on what it wrote.
    pub async fn optimize(&self, table: &Table) -> Result<()> {
        self.read_contents(table)?;
        self.alter(table, Pending::Optimize)
    }

    /// Indexes a column, over all rows the table has. Rows that come later are found without it, until [`Transaction::optimize`] or this covers
    /// them; nothing is ever wrong for want of an index. Nothing is published where the index covers all rows already.
    ///
    /// `InvalidInput` for a column that is not there or cannot be indexed; `Unsupported` from a store without indices.
    pub async fn index(&self, table: &Table, column: &str) -> Result<()> {
        if table.schema.field_with_name(column).is_err() {
            let known: Vec<&str> = table.schema.fields().iter().map(|field| field.name().as_str()).collect();
            let problem = format!("there is no column {column:?} to index; the table has {}", known.join(", "));
            return Err(Error::invalid(problem).at("table", &table.key));
        }
        self.read_contents(table)?;
        self.alter(table, |head| Pending::Index(head, column.to_owned()))
    }

    fn alter(&self, table: &Table, change: impl FnOnce(TableHead) -> Pending) -> Result<()> {
        let Some(head) = self.own(table)? else {
            return Err(Error::invalid(format!(
                "the table {:?} is created by this transaction; change it in a later one",
                table.key.as_str()
            )));
        };
        let mut state = self.state()?;
        if let Some(earlier) = state.pending.iter().find(|pending| pending.is(table)) {
            return Err(twice(table, earlier.name()));
        }
        state.pending.push(change(head.clone()));
        Ok(())
    }

    /// Ends the transaction: its writer kind, its plans, what it read. No plan is left where nothing would change.
    pub(crate) async fn finish(&self) -> Result<(WriterKind, Vec<Plan>, Observed)> {
        let (pending, observed) = {
            let mut state = self.state()?;
            state.finished = true;
            (std::mem::take(&mut state.pending), state.observed.clone())
        };
        let mut kinds: BTreeMap<WriterKind, &'static str> = BTreeMap::new();
        for pending in &pending {
            if let Some(kind) = pending.kind() {
                kinds.insert(kind, pending.name());
            }
        }
        // A mutation may load beside it.
        if kinds.contains_key(&WriterKind::Mutation) {
            kinds.remove(&WriterKind::Load);
        }
        if let [(_, first), (_, second), ..] = kinds.iter().collect::<Vec<_>>()[..] {
            let problem = format!("one commit has one kind of write, this one has {first} and {second}; make two");
            return Err(Error::invalid(problem).during("prepare"));
        }
        let derived = [WriterKind::Optimize, WriterKind::Index].into_iter().find_map(|kind| kinds.get(&kind));
        if let (Some(derived), true) = (derived, pending.iter().any(|pending| matches!(pending, Pending::Create(_)))) {
            let problem = format!("one commit has one kind of write, this one has create and {derived}; make two");
            return Err(Error::invalid(problem).during("prepare"));
        }
        // Nothing but creates without rows: a change of schema.
        let kind = kinds.into_keys().next().unwrap_or(WriterKind::Schema);
        let mut plans = Vec::with_capacity(pending.len());
        for pending in pending {
            plans.extend(plan(pending).await?);
        }
        Ok((kind, plans, observed))
    }
}

fn twice(table: &Table, earlier: &str) -> Error {
    Error::invalid(format!("this transaction has a {earlier} of the table {:?} already; make two commits", table.key.as_str()))
}
