//! `read` and `files`: the rows of a table, and the files or the dataset that hold them.

use futures::StreamExt;
use headwater::Error;
use headwater::store::{Partition, Scan};
use serde_json::json;

use super::args::{Common, Files, Read};
use super::failure::Failure;
use super::output::{Extent, OutputFormat, SHOWN, Sink, Target, chosen, document, print, sink};
use super::{condition, point};

/// Runs `read`.
pub(crate) async fn run(args: Read, common: &Common) -> Result<(), Failure> {
    let (_, branch) = super::open_branch(&args.place.root.url, common).await?;
    let snapshot = point::snapshot(&branch, args.place.at.as_deref()).await?;
    let key = &args.place.table;
    let head = snapshot.table(key)?;
    let schema = snapshot.schema(key).await?;
    let filter = condition::parse_all(&args.conditions, &schema)?;
    let format = chosen(&args.output, common)?;
    let for_people = format == Some(OutputFormat::Table);

    // What people see needs no more rows than that, if the head says how many there are.
    let shown = args.limit.map_or(SHOWN, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let total = if filter.is_none() { Some(args.limit.map_or(head.rows, |limit| limit.min(head.rows))) } else { None };
    let limit = match (for_people, total, args.limit) {
        (true, Some(_), None) => Some(shown as u64),
        (_, _, limit) => limit,
    };
    let scan = Scan { columns: args.columns.clone(), filter, limit, ..Scan::default() };
    let partitions = snapshot.scan(key, &scan).await?;
    let schema = match (partitions.first(), &scan.columns) {
        (Some(partition), _) => partition.schema.clone(),
        (None, None) => schema,
        (None, Some(columns)) => project(&schema, columns)?,
    };

    let target = Target::open(args.output.path.as_deref())?;
    let mut sink = match format {
        Some(format) => sink(format, &schema, Extent { shown, total }, target)?,
        None => {
            let prefix = json!({"table": key, "branch": snapshot.branch(), "seq": snapshot.seq(), "commit": snapshot.commit()});
            document(prefix, target)?
        }
    };
    pour(partitions, limit, sink.as_mut()).await?;
    sink.finish()
}

fn project(schema: &arrow_schema::SchemaRef, columns: &[String]) -> Result<arrow_schema::SchemaRef, Failure> {
    let indices = columns.iter().map(|name| schema.index_of(name)).collect::<Result<Vec<_>, _>>();
    let projected = indices.and_then(|indices| schema.project(&indices));
    projected.map(Into::into).map_err(|source| Error::invalid("there is no such column").because(source).into())
}

/// Partition by partition, batch by batch, up to the limit.
async fn pour(partitions: Vec<Partition>, limit: Option<u64>, sink: &mut dyn Sink) -> Result<(), Failure> {
    let mut left = limit.unwrap_or(u64::MAX);
    for partition in partitions {
        if left == 0 {
            break;
        }
        let mut batches = (partition.open)();
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            let rows = usize::try_from(left).unwrap_or(usize::MAX).min(batch.num_rows());
            sink.write(&batch.slice(0, rows))?;
            left -= rows as u64;
            if left == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// Runs `files`.
pub(crate) async fn files(args: &Files, common: &Common) -> Result<(), Failure> {
    let (catalog, branch) = super::open_branch(&args.place.root.url, common).await?;
    let snapshot = point::snapshot(&branch, args.place.at.as_deref()).await?;
    let pin = &snapshot.table(&args.place.table)?.pin;
    if let Some(address) = catalog.store().address(pin) {
        let (url, version) = (catalog.object_url(&address.path), address.version.to_string());
        // As text: no JSON number holds so many digits safely.
        let document = json!({"dataset": {"format": catalog.store().kind(), "url": url, "version": version}});
        return print(&if common.json { format!("{document}\n") } else { format!("{url} {version}\n") });
    }
    let reached = snapshot.reach(&args.place.table).await?;
    let urls: Vec<String> = reached.iter().filter(|reached| reached.data).map(|reached| catalog.object_url(&reached.object.path)).collect();
    if common.json {
        return print(&format!("{}\n", json!({"files": urls})));
    }
    let mut target = Target::open(None)?;
    for url in urls {
        target.text(&url)?;
        target.text("\n")?;
    }
    target.complete()
}
