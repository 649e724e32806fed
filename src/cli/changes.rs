//! `changes` and `diff`: what happened between two points of a branch, row by row and table by table.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::interleave::interleave_record_batch;
use futures::TryStreamExt;
use headwater::schema::Conform;
use headwater::{Changes, Error, RowChange, RowCounts, TableChange};
use serde_json::{Value, json};

use super::args::{self, Common, Diff};
use super::failure::Failure;
use super::output::{Extent, OutputFormat, SHOWN, Sink, Target, chosen, document, print, sink, style};
use super::point;
use super::render::Grid;

/// Opens the branch and compares the two points.
async fn compare(url: &str, common: &Common, since: &str, until: Option<&str>) -> Result<Changes, Failure> {
    let since = point::since(since)?;
    let (_, branch) = super::open_branch(url, common).await?;
    Ok(point::snapshot(&branch, until).await?.changes(since).await?)
}

/// Runs `changes`.
pub(crate) async fn run(args: args::Changes, common: &Common) -> Result<(), Failure> {
    let format = chosen(&args.output, common)?;
    let changes = compare(&args.root.url, common, &args.since, args.until.as_deref()).await?;
    let (table, until, cursor) = (changes.table(&args.table)?, changes.until(), changes.until().cursor());
    let mut rows = table.rows().await?;
    let tagged = Tagged::new(&rows.schema);

    let target = Target::open(args.output.path.as_deref())?;
    let mut sink = match format {
        Some(format) => sink(format, &tagged.schema, Extent { shown: SHOWN, total: None }, target)?,
        None => {
            let head = json!({
                "table": table.key(),
                "branch": until.branch(),
                "seq": until.seq(),
                "commit": until.commit(),
                "since": changes.since().seq(),
                "cursor": cursor,
                "happened": happened(&table, None),
            });
            document(head, target)?
        }
    };
    while let Some(change) = rows.batches.try_next().await? {
        tagged.write(change, sink.as_mut())?;
    }
    sink.finish()?;
    // Only now: whoever has the cursor has the rows.
    match (format, args.output.path.is_some()) {
        (None, _) => Ok(()),
        (Some(_), true) if common.json => print(&format!("{}\n", json!({"cursor": cursor}))),
        (Some(OutputFormat::Table), _) | (_, true) => print(&format!("cursor {cursor}\n")),
        (Some(_), false) => {
            // Standard output is the rows'.
            let _ = writeln!(std::io::stderr(), "cursor {cursor}");
            Ok(())
        }
    }
}

/// Rows behind a column that says what happened to them.
struct Tagged {
    rows: SchemaRef,
    schema: SchemaRef,
}

impl Tagged {
    fn new(rows: &SchemaRef) -> Self {
        let mut name = "_change".to_owned();
        while rows.field_with_name(&name).is_ok() {
            name.insert(0, '_');
        }
        let change = Arc::new(Field::new(name, DataType::Utf8, false));
        let fields: Vec<_> = [change].into_iter().chain(rows.fields().iter().cloned()).collect();
        Self { rows: rows.clone(), schema: Arc::new(Schema::new_with_metadata(fields, rows.metadata().clone())) }
    }

    fn write(&self, change: RowChange, sink: &mut dyn Sink) -> Result<(), Failure> {
        match change {
            RowChange::Added(rows) => sink.write(&self.tag(&rows, &["added"])?),
            // Rows of a life that ended may have other columns.
            RowChange::Deleted(rows) => match Conform::new(rows.schema_ref(), &self.rows) {
                Ok(conform) => sink.write(&self.tag(&conform.apply(&rows, 0)?, &["deleted"])?),
                Err(source) => {
                    let problem = "the table was recreated with columns that rows of its earlier life do not fit; read those with `read --at`, \
                                   and ask for the changes since its recreation";
                    Err(Error::invalid(problem).because(source).into())
                }
            },
            RowChange::Updated { before, after } => {
                // Each row as it was, then as it is.
                let pairs: Vec<(usize, usize)> = (0..after.num_rows()).flat_map(|row| [(0, row), (1, row)]).collect();
                let rows = interleave_record_batch(&[&before, &after], &pairs).map_err(unfit)?;
                sink.write(&self.tag(&rows, &["updated_from", "updated_to"])?)
            }
        }
    }

    /// The rows with these tags in turn.
    fn tag(&self, rows: &RecordBatch, tags: &[&str]) -> Result<RecordBatch, Failure> {
        let change: StringArray = tags.iter().cycle().take(rows.num_rows()).copied().map(Some).collect();
        let columns = [Arc::new(change) as ArrayRef].into_iter().chain(rows.columns().iter().cloned()).collect();
        RecordBatch::try_new(self.schema.clone(), columns).map_err(unfit)
    }
}

fn unfit(source: ArrowError) -> Failure {
    Error::invalid("the rows cannot be put together").because(source).into()
}

/// Runs `diff`.
pub(crate) async fn diff(args: &Diff, common: &Common) -> Result<(), Failure> {
    let changes = compare(&args.root.url, common, &args.from, args.to.as_deref()).await?;
    let mut tables = Vec::new();
    for table in changes.tables() {
        let counts = table.count().await?;
        tables.push((table, counts));
    }
    let (since, until) = (changes.since(), changes.until());
    if common.json {
        let tables: Vec<Value> = tables.iter().map(|(table, counts)| entry(table, counts)).collect();
        let (from, to) = (since.seq(), until.seq());
        let document = json!({"branch": until.branch(), "from": from, "to": to, "cursor": until.cursor(), "tables": tables});
        return print(&format!("{document}\n"));
    }
    let mut grid = Grid::new(style(), &["table", ">added", ">updated", ">deleted", "what happened"]);
    for (table, counts) in &tables {
        let mut what = happened(table, Some(counts)).join(", ");
        if let Some(from) = table.renamed_from() {
            what = what.replacen("renamed", &format!("renamed from {from}"), 1);
        }
        let RowCounts { added, updated, deleted } = counts;
        grid.texts([table.key().to_string(), added.to_string(), updated.to_string(), deleted.to_string(), what]);
    }
    let shown = if tables.is_empty() { "no changes\n".to_owned() } else { grid.render() };
    print(&format!("branch {} · seq {} to {}\n\n{shown}", until.branch(), since.seq(), until.seq()))
}

fn entry(table: &TableChange, counts: &RowCounts) -> Value {
    let id = table.after().or(table.before()).map(|head| head.table_id);
    json!({
        "key": table.key(),
        "table_id": id,
        "renamed_from": table.renamed_from(),
        "happened": happened(table, Some(counts)),
        "added": counts.added,
        "updated": counts.updated,
        "deleted": counts.deleted,
    })
}

/// What happened to the table, a word for each; with counts, also whether rows changed.
fn happened(table: &TableChange, counts: Option<&RowCounts>) -> Vec<&'static str> {
    let mut words = Vec::new();
    let mut add = |holds: bool, word| words.extend(holds.then_some(word));
    add(table.is_created(), "created");
    add(table.is_dropped(), "dropped");
    add(table.is_recreated(), "recreated");
    add(table.renamed_from().is_some(), "renamed");
    add(table.has_other_columns(), "columns");
    if let (Some(counts), Some(_), Some(_), false) = (counts, table.before(), table.after(), table.is_recreated()) {
        let changed = *counts != RowCounts::default();
        add(changed, "rows");
        add(!changed && !table.has_other_columns() && table.has_other_version(), "rewritten");
    }
    words
}
