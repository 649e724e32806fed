//! `optimize`: each table's files, fewer and larger, in a commit of its own. What a mirrored table's chain lacks is added to it.

use headwater::{Branch, Catalog, Error, Lineage, Result, Snapshot, TransactOptions};
use serde_json::json;

use super::args::{Common, Optimize};
use super::failure::Failure;
use super::output::{print, style};
use super::render::Grid;

/// Runs `optimize`. What was done before a failure is reported all the same.
pub(crate) async fn run(args: Optimize, common: &Common) -> Result<(), Failure> {
    if args.committing.token.is_some() && args.tables.len() != 1 {
        return Err(Failure::Usage("--token names one commit, and each table is one; name the table".to_owned()));
    }
    let token = args.committing.token.as_deref().map(str::parse).transpose()?;
    let options = TransactOptions { message: args.committing.message, token, ..TransactOptions::default() };
    let (catalog, branch) = super::open_branch(&args.root.url, common).await?;
    let snapshot = branch.snapshot().await?;
    let mut keys = args.tables;
    for key in &keys {
        snapshot.table(key)?;
    }
    if keys.is_empty() {
        keys.extend(snapshot.tables().map(|head| head.key.to_string()));
    }
    let mut grid = Grid::new(style(), &["table", ">files before", ">files now", ">seq"]);
    let mut tables = Vec::with_capacity(keys.len());
    let mut failed = None;
    for key in keys {
        match optimize(&catalog, &branch, &key, &options).await {
            Ok(Done { before, now, seq, behind }) => {
                let mut document = json!({"key": key, "files_before": before, "files": now, "seq": seq});
                if behind.is_some() {
                    document["behind"] = json!(true);
                }
                tables.push(document);
                grid.texts([key, before.to_string(), now.to_string(), seq.map_or_else(|| "as before".to_owned(), |seq| seq.to_string())]);
                // The table itself is as it should be; the others are still to come.
                failed = failed.or(behind);
            }
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    if failed.is_none() || !tables.is_empty() {
        print(&if common.json { format!("{}\n", json!({"tables": tables})) } else { grid.render() })?;
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// What became of a table.
struct Done {
    /// Its files.
    before: u64,
    now: u64,
    /// The commit's number, if there was one.
    seq: Option<u64>,
    /// Why its chain of versions could not be brought up, where it is mirrored.
    behind: Option<Error>,
}

async fn optimize(catalog: &Catalog, branch: &Branch, key: &str, options: &TransactOptions) -> Result<Done> {
    let before = files(catalog, &branch.snapshot().await?, key).await?;
    let commit = branch.transact_with(options.clone(), |tx| async move { tx.optimize(&tx.table(key).await?).await }).await?;
    let snapshot = branch.snapshot().await?;
    // A commit has done it already, unless it says that it could not.
    let due = (!commit.published || !commit.behind.is_empty()) && snapshot.table(key)?.lineage()? == Lineage::Mirrored;
    let behind = if due { snapshot.mirror(key).await.err() } else { None };
    Ok(Done { before, now: files(catalog, &snapshot, key).await?, seq: commit.published.then_some(commit.seq), behind })
}

async fn files(catalog: &Catalog, snapshot: &Snapshot, key: &str) -> Result<u64> {
    Ok(catalog.store().describe(&snapshot.table(key)?.pin).await?.files)
}
