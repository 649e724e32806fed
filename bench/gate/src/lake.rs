//! One catalog that grows, and the processes that use it.

use std::fmt;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::future::{join_all, try_join_all};
use headwater::authority::HeadRead;
use headwater::filter::{Comparison, Filter};
use headwater::head::{Head, TAIL_BYTES, TAIL_ENTRIES};
use headwater::registry::OpenedBackend;
use headwater::{Branch, Catalog, Parts};
use headwater_conformance::tap::{TapAuthority, TapObjects};

use super::error::{Error, Result};
use super::meter::Meter;
use super::place::Place;
use super::plan::{EQUAL, Layout, Phase, Subject, threads};

/// Commits under way at once while a catalog grows unmeasured, if it has that many tables.
const GROWING: usize = 16;
/// Rows a table keeps when it is maintained.
const KEPT: i64 = 64;

/// What stands between a catalog and its counted backend: nothing, in earnest. The gate's own tests put faults there that it must find.
pub type Between = Arc<dyn Fn(OpenedBackend) -> OpenedBackend + Send + Sync>;

/// A catalog under measurement.
pub(super) struct Lake<'a> {
    pub(super) place: &'a Place,
    pub(super) subject: &'a Subject,
    between: &'a Between,
    pub(super) meter: Meter,
    /// The backend past every counter.
    plain: OpenedBackend,
    /// Grows the catalog, uncounted.
    grower: Branch,
    /// A warm writer: it has written every table that is measured since the last spill.
    pub(super) writer: Branch,
    /// A warm reader: it last looked one commit ago.
    pub(super) reader: Branch,
    /// What handles of one process share.
    session: Parts,
}

impl fmt::Debug for Lake<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lake").field("subject", &self.subject.name()).finish_non_exhaustive()
    }
}

impl<'a> Lake<'a> {
    /// Creates the catalog, with a first row in each table.
    pub(super) async fn create(place: &'a Place, subject: &'a Subject, between: &'a Between) -> Result<Self> {
        let failed = || Error::catalog(format!("creating the catalog {}", subject.name()));
        let plain = place.open(&subject.name())?;
        let registry = headwater::registry().map_err(failed())?;
        let parts = Parts::new(registry, plain.authority.clone(), plain.objects.clone());
        let catalog = Catalog::open_or_create(parts, &subject.store).await.map_err(failed())?;
        let grower = catalog.branch("main").map_err(failed())?;
        let tables = subject.width;
        let created = grower.transact(|tx| async move {
            for table in 0..tables {
                let table = tx.create_table(&key(table), schema()).await?;
                tx.append(&table, rows(0..KEPT)?).await?;
            }
            Ok(())
        });
        created.await.map_err(failed())?;
        let meter = place.meter(threads(&subject.store)).await?;
        let session = counted(place, subject, between, &meter)?;
        let (writer, reader) = (open(session.clone()).await?, open(counted(place, subject, between, &meter)?).await?);
        Ok(Self { place, subject, between, meter, plain, grower, writer, reader, session })
    }

    /// A process that has just started: nothing is open or known.
    pub(super) async fn process(&self) -> Result<Branch> {
        open(counted(self.place, self.subject, self.between, &self.meter)?).await
    }

    /// Another handle of a process that has the catalog open.
    pub(super) async fn handle(&self) -> Result<Branch> {
        open(self.session.clone()).await
    }

    /// The head, past every counter.
    async fn head(&self) -> Result<Head> {
        let failed = || Error::catalog("reading the head");
        let main = "main".parse().map_err(failed())?;
        match self.plain.authority.read_head(&main, None).await.map_err(failed())? {
            HeadRead::Found(body, _) => serde_json::from_slice(&body).map_err(|error| Error::untrusted("the head", error.to_string())),
            other => Err(Error::untrusted("the head", format!("it is {other:?}"))),
        }
    }

    /// Commits so far.
    pub(super) async fn seq(&self) -> Result<u64> {
        Ok(self.head().await?.seq)
    }

    /// Grows, uncounted, to so many commits.
    pub(super) async fn grow(&self, depth: u64) -> Result<()> {
        let mut seq = self.seq().await?;
        if seq > depth {
            let problem = format!("what was measured before took it to {seq} commits already");
            return Err(Error::untrusted(&format!("depth {depth} of {}", self.subject.name()), problem));
        }
        while seq < depth {
            let together = GROWING.min(self.subject.width).min((depth - seq) as usize);
            let tables = (0..together).map(|table| (seq as usize + table) % self.subject.width);
            try_join_all(tables.map(|table| append(&self.grower, vec![table]))).await?;
            seq += together as u64;
        }
        Ok(())
    }

    /// Commits to one table each until the tail is as full as this phase says. The reader looks one commit before.
    pub(super) async fn walk(&self, phase: Phase) -> Result<()> {
        let mut head = self.head().await?;
        if phase == Phase::Equal {
            while head.tail.len() != 1 || head.segments.is_empty() {
                append(&self.writer, vec![0]).await?;
                head = self.head().await?;
            }
            self.maintain().await?;
            head = self.head().await?;
        }
        let cycle = self.subject.width.min(10);
        for step in 0..=TAIL_ENTRIES {
            let before = match phase {
                Phase::Equal => head.tail.len() + 1 == EQUAL,
                Phase::Full => is_full(&head, 1),
            };
            if before {
                self.reader.snapshot().await.map_err(Error::catalog("a lookup"))?;
                append(&self.writer, vec![step % cycle]).await?;
                return Ok(());
            }
            append(&self.writer, vec![step % cycle]).await?;
            head = self.head().await?;
        }
        Err(Error::untrusted(
            &self.subject.name(),
            format!("its tail of {} entries never comes to its {} phase", head.tail.len(), phase.name()),
        ))
    }

    /// Deletes the rows past their time in the maintained tables, and compacts what is left.
    async fn maintain(&self) -> Result<()> {
        let tables = &self.subject.tables(Layout::Maintained);
        if tables.is_empty() {
            return Ok(());
        }
        let failed = || Error::catalog("maintaining tables");
        let old =
            || Filter::Compare { column: "id".to_owned(), op: Comparison::GreaterEqual, value: Arc::new(Int64Array::from(vec![KEPT])) };
        let deleted = self.writer.transact(|tx| async move {
            for table in tables {
                tx.delete(&tx.table(&key(*table)).await?, old()).await?;
            }
            Ok(())
        });
        deleted.await.map_err(failed())?;
        // So that there are two files to make one of, whatever the deletion left.
        append(&self.writer, tables.clone()).await?;
        let compacted = self.writer.transact(|tx| async move {
            for table in tables {
                tx.optimize(&tx.table(&key(*table)).await?).await?;
            }
            Ok(())
        });
        let compacted = compacted.await.map_err(failed())?;
        if compacted.tables.len() == tables.len() {
            Ok(())
        } else {
            Err(Error::untrusted("maintaining tables", format!("{} of {} were compacted", compacted.tables.len(), tables.len())))
        }
    }
}

/// Whether the tail can take so many more entries like its last, and not one beyond.
fn is_full(head: &Head, more: usize) -> bool {
    let size = |entries: &[headwater::head::Entry]| serde_json::to_vec(entries).map_or(0, |bytes| bytes.len());
    let last = head.tail.last().map_or(0, |entry| size(std::slice::from_ref(entry)));
    head.tail.len() + more >= TAIL_ENTRIES || size(&head.tail) + (more + 1) * last > TAIL_BYTES
}

fn counted(place: &Place, subject: &Subject, between: &Between, meter: &Meter) -> Result<Parts> {
    let backend = place.open_counted(&subject.name(), meter)?;
    let tapped = OpenedBackend {
        authority: Arc::new(TapAuthority::new(backend.authority, meter.tap.clone())),
        objects: Arc::new(TapObjects::new(backend.objects, meter.tap.clone())),
    };
    let OpenedBackend { authority, objects } = between(tapped);
    Ok(Parts::new(headwater::registry().map_err(Error::catalog("sealing the registry"))?, authority, objects))
}

async fn open(parts: Parts) -> Result<Branch> {
    let failed = || Error::catalog("opening the catalog");
    Catalog::open(parts).await.map_err(failed())?.branch("main").map_err(failed())
}

/// Commits one row to each of some tables. Returns the seq.
pub(super) async fn append(branch: &Branch, tables: Vec<usize>) -> Result<u64> {
    let tables = &tables;
    let appended = branch.transact(|tx| async move {
        for table in tables {
            tx.append(&tx.table(&key(*table)).await?, rows(KEPT..KEPT + 1)?).await?;
        }
        Ok(())
    });
    let commit = appended.await.map_err(Error::catalog("a commit"))?;
    if commit.tables.len() == tables.len() {
        Ok(commit.seq)
    } else {
        Err(Error::untrusted("a commit", format!("it wrote {} tables, not {}", commit.tables.len(), tables.len())))
    }
}

/// Commits one row to each of some tables, by as many commits at once.
pub(super) async fn append_at_once(branch: &Branch, tables: Vec<usize>) -> Result<()> {
    join_all(tables.into_iter().map(|table| append(branch, vec![table]))).await.into_iter().try_for_each(|done| done.map(drop))
}

/// The name of a table; all are equally long.
pub(super) fn key(table: usize) -> String {
    format!("t{table:03}")
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("name", DataType::Utf8, false)]))
}

/// Rows whose files have one length wherever they are written.
fn rows(ids: std::ops::Range<i64>) -> headwater::Result<RecordBatch> {
    let names: StringArray = ids.clone().map(|id| Some(format!("row {id:08}"))).collect();
    let columns: Vec<arrow_array::ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(ids)), Arc::new(names)];
    RecordBatch::try_new(schema(), columns).map_err(|source| headwater::Error::invalid("the rows do not fit their schema").because(source))
}
