//! `sql`: a query on one snapshot.

use futures::StreamExt;
use headwater::schema::check_schema;
use serde_json::json;

use super::args::{Common, Sql};
use super::failure::Failure;
use super::output::{Extent, OutputFormat, SHOWN, Target, chosen, document, sink};
use super::point;

/// Runs `sql`.
pub(crate) async fn run(args: Sql, common: &Common) -> Result<(), Failure> {
    let format = chosen(&args.output, common)?;
    let (_, branch) = super::open_branch(&args.root.url, common).await?;
    let snapshot = point::snapshot(&branch, args.at.as_deref()).await?;
    let mut answer = headwater::sql::query(&snapshot, &args.query).await?;
    if !matches!(format, Some(OutputFormat::Table | OutputFormat::Csv)) {
        // Where values are found by the names of their columns, each must be another.
        check_schema(&answer.schema).map_err(|error| error.during("query"))?;
    }

    let target = Target::open(args.output.path.as_deref())?;
    let mut sink = match format {
        Some(format) => sink(format, &answer.schema, Extent { shown: SHOWN, total: None }, target)?,
        None => {
            let prefix = json!({"branch": snapshot.branch(), "seq": snapshot.seq(), "commit": snapshot.commit()});
            document(prefix, target)?
        }
    };
    while let Some(batch) = answer.batches.next().await {
        sink.write(&batch?)?;
    }
    sink.finish()
}
