//! `optimize`: each table's files, fewer and larger, in a commit of its own.

use headwater::{Branch, Catalog, Result};
use serde_json::json;

use super::args::{Common, Optimize};
use super::failure::Failure;
use super::output::{print, style};
use super::render::Grid;

/// Runs `optimize`.
pub(crate) async fn run(args: Optimize, common: &Common) -> Result<(), Failure> {
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
    for key in keys {
        let before = files(&catalog, &branch, &key).await?;
        let commit = branch.transact(|tx| {
            let key = key.clone();
            async move { tx.optimize(&tx.table(&key).await?).await }
        });
        let commit = commit.await?;
        let now = files(&catalog, &branch, &key).await?;
        let seq = commit.published.then_some(commit.seq);
        tables.push(json!({"key": key, "files_before": before, "files": now, "seq": seq}));
        grid.texts([key, before.to_string(), now.to_string(), seq.map_or_else(|| "as before".to_owned(), |seq| seq.to_string())]);
    }
    if common.json {
        return print(&format!("{}\n", json!({"tables": tables})));
    }
    print(&grid.render())
}

async fn files(catalog: &Catalog, branch: &Branch, key: &str) -> Result<u64> {
    let snapshot = branch.snapshot().await?;
    Ok(catalog.store().describe(&snapshot.table(key)?.pin).await?.files)
}
