//! `load`: files into tables, as one commit.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::{Field, Schema, SchemaRef};
use futures::{StreamExt, TryStreamExt};
use headwater::ids::{Mint, SystemEnvironment, Token};
use headwater::keys::{Keys, unique};
use headwater::name::{BranchName, TableKey};
use headwater::schema::{Conform, schema_hash};
use headwater::store::Rows;
use headwater::{Catalog, Commit, Error, ErrorKind, Lineage, Result, TableOptions, TransactOptions, Transaction};
use serde_json::json;

use super::args::{Common, Load, Mode};
use super::failure::Failure;
use super::input::{Input, Reading};
use super::output::{print, style};
use super::progress::Progress;
use super::render::{Grid, count, visible};

/// How often the files are checked again because their tables' columns changed meanwhile.
const CHECKS: usize = 16;
const DEFAULT_BRANCH: &str = "main";
const DEFAULT_STORE: &str = "parquet";

/// Runs `load`.
pub(crate) async fn run(args: Load, common: Common) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    if let Some((name, _)) = args.tables.iter().find(|(name, _)| !seen.insert(name)) {
        return Err(Failure::Usage(format!("--table {name} is given twice; a load takes one file for each table")));
    }
    let keys = args.tables.iter().map(|(name, _)| name.parse::<TableKey>()).collect::<Result<Vec<_>>>()?;
    common.branch.parse::<BranchName>()?;
    let token = args.committing.token.as_deref().map(str::parse::<Token>).transpose()?;
    let paths: Vec<PathBuf> = args.tables.iter().map(|(_, path)| path.clone()).collect();

    let progress = Progress::new(common.json);
    let reading = Reading { format: args.format, nulls: args.nulls.clone().into(), progress: progress.clone() };
    let plan = Plan { args: &args, common: &common, keys, paths, reading, token };
    let committed = plan.commit().await;
    progress.end();
    report(&committed?, &common)
}

struct Plan<'a> {
    args: &'a Load,
    common: &'a Common,
    keys: Vec<TableKey>,
    paths: Vec<PathBuf>,
    reading: Reading,
    token: Option<Token>,
}

/// The columns of each table, where it is there: what the files are read for.
type Targets = Vec<Option<SchemaRef>>;

impl Plan<'_> {
    async fn commit(&self) -> Result<Commit> {
        let url = &self.args.root.url;
        let mut catalog = match super::open(url, self.common).await {
            Ok(catalog) => Some(catalog),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mut targets = self.targets(catalog.as_ref()).await?;
        for _ in 0..CHECKS {
            // Everything is read whole before anything is written: not even the catalog is created for a bad file.
            let inputs = self.check(&targets)?;
            let open = match catalog.take() {
                Some(catalog) => catalog,
                None => {
                    self.check_new(&inputs).await?;
                    self.create().await?
                }
            };
            match self.transact(&open, inputs, &targets).await? {
                Done::Committed(commit) => return Ok(commit),
                Done::Moved(moved) => targets = moved,
            }
            catalog = Some(open);
        }
        Err(Error::new(ErrorKind::Conflict, "the tables' columns kept changing while the files were read; nothing was published"))
    }

    async fn targets(&self, catalog: Option<&Catalog>) -> Result<Targets> {
        let Some(catalog) = catalog else {
            if self.common.branch != DEFAULT_BRANCH {
                let message =
                    format!("there is no catalog here, and so no branch {:?}; load into {DEFAULT_BRANCH} first", self.common.branch);
                return Err(Error::new(ErrorKind::NotFound, message));
            }
            return Ok(vec![None; self.keys.len()]);
        };
        let snapshot = catalog.branch(&self.common.branch)?.snapshot().await?;
        let mut targets = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            let there = snapshot.tables().any(|head| head.key == *key);
            targets.push(if there { Some(snapshot.schema(key.as_str()).await?) } else { None });
        }
        Ok(targets)
    }

    fn check(&self, targets: &Targets) -> Result<Arc<Vec<Input>>> {
        let sizes = self.paths.iter().map(|path| Input::size_of(path)).collect::<Result<Vec<_>>>()?;
        self.reading.progress.begin("checking", sizes.iter().sum());
        let inputs = self.keys.iter().zip(&self.paths).zip(targets).map(|((key, path), target)| {
            Input::check(path, &self.reading, target.as_deref()).map_err(|error| error.at("table", key).during("check"))
        });
        inputs.collect::<Result<Vec<_>>>().map(Arc::new)
    }

    /// Whether the store that is about to be created keeps these types, and the rows their key. No catalog is left behind if they do not.
    async fn check_new(&self, inputs: &[Input]) -> Result<()> {
        let kind = self.args.store.as_deref().unwrap_or(DEFAULT_STORE);
        let part = *headwater::registry()?.store(kind)?;
        let store = (part.open)(Arc::new(object_store::memory::InMemory::new()), &Mint::new(Arc::new(SystemEnvironment)))?;
        for (key, input) in self.keys.iter().zip(inputs) {
            let at = |error: Error| error.at("table", key);
            self.args.options().lineage.check(store.as_ref()).map_err(at)?;
            store.check_schema(input.schema()).map_err(at)?;
            new_table(input.schema(), key, self.args.mode, &self.args.key)?;
            if !self.args.key.is_empty() {
                check_keys(input, &self.args.key).await.map_err(at)?;
            }
        }
        Ok(())
    }

    async fn create(&self) -> Result<Catalog> {
        let builder = super::builder(&self.args.root.url, self.common).create(true);
        match &self.args.store {
            Some(kind) => builder.store(kind).open().await,
            None => builder.open().await,
        }
    }

    async fn transact(&self, catalog: &Catalog, inputs: Arc<Vec<Input>>, targets: &Targets) -> Result<Done> {
        let options =
            TransactOptions { message: self.args.committing.message.clone(), token: self.token.clone(), ..TransactOptions::default() };
        let moved: Mutex<Option<Targets>> = Mutex::default();
        let work = Work {
            keys: self.keys.clone(),
            mode: self.args.mode,
            options: self.args.options(),
            lineage: self.args.lineage.map(Into::into),
            inputs,
            progress: self.reading.progress.clone(),
        };
        let result = catalog
            .branch(&self.common.branch)?
            .transact_with(options, |tx| {
                let (work, moved) = (work.clone(), &moved);
                async move {
                    let found = work.find(&tx).await?;
                    let same = same(&found, targets);
                    *moved.lock().unwrap_or_else(PoisonError::into_inner) = if same { None } else { Some(found) };
                    if same { work.ask(&tx).await } else { Err(Error::new(ErrorKind::Conflict, "a table's columns changed")) }
                }
            })
            .await;
        match (result, moved.into_inner().unwrap_or_else(PoisonError::into_inner)) {
            (Ok(commit), _) => Ok(Done::Committed(commit)),
            (Err(_), Some(found)) => Ok(Done::Moved(found)),
            (Err(error), None) => Err(error),
        }
    }
}

enum Done {
    Committed(Commit),
    /// The tables are not what the files were read for; nothing was written.
    Moved(Targets),
}

fn same(found: &Targets, targets: &Targets) -> bool {
    let hash = |target: &Option<SchemaRef>| target.as_ref().map(|schema| schema_hash(schema));
    found.iter().map(hash).eq(targets.iter().map(hash))
}

/// What the transaction does, as often as it runs.
#[derive(Clone)]
struct Work {
    keys: Vec<TableKey>,
    mode: Mode,
    /// What the tables have that it creates.
    options: TableOptions,
    /// The lineage that was asked for.
    lineage: Option<Lineage>,
    inputs: Arc<Vec<Input>>,
    progress: Progress,
}

impl Work {
    async fn find(&self, tx: &Transaction) -> Result<Targets> {
        let mut found = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            found.push(tx.find(key.as_str()).await?.map(|table| table.schema().clone()));
        }
        Ok(found)
    }

    async fn ask(&self, tx: &Transaction) -> Result<()> {
        self.progress.begin("loading", self.inputs.iter().map(Input::size).sum());
        let own = self.options.key_columns.as_slice();
        for (key, input) in self.keys.iter().zip(self.inputs.iter()) {
            let Some(table) = tx.find(key.as_str()).await? else {
                let schema = new_table(input.schema(), key, self.mode, own)?;
                let table = tx.create_table_with(key.as_str(), schema, self.options.clone()).await?;
                tx.append(&table, input.rows()?).await?;
                continue;
            };
            if !own.is_empty() && table.key_columns() != own {
                let problem = match table.key_columns() {
                    [] => "the table has no key, and gets none after its creation; leave --key out".to_owned(),
                    columns => format!("the table's key is {}; leave --key out", columns.join(", ")),
                };
                return Err(Error::invalid(problem).at("table", key));
            }
            if let Some(asked) = self.lineage.filter(|asked| *asked != table.lineage()) {
                let (own, asked) = (table.lineage().name(), asked.name());
                let problem = format!("the table is {own}, and gets not {asked} after its creation; leave --lineage out");
                return Err(Error::invalid(problem).at("table", key));
            }
            match self.mode {
                // No rows at all change nothing, and need no staging to find that out.
                Mode::Append | Mode::Upsert if input.row_count() == 0 => {}
                Mode::Append => tx.append(&table, input.rows()?).await?,
                Mode::Upsert => tx.upsert(&table, input.rows()?).await?,
                Mode::Overwrite => tx.overwrite(&table, input.rows()?).await?,
            }
        }
        Ok(())
    }
}

/// The columns of a table that is created: those of its key are never null.
fn new_table(schema: &SchemaRef, table: &TableKey, mode: Mode, key: &[String]) -> Result<SchemaRef> {
    if key.is_empty() && mode == Mode::Upsert {
        let problem = "the table is not there, and rows are upserted by its key; name the key's columns with --key";
        return Err(Error::invalid(problem).at("table", table));
    }
    let field = |field: &Arc<Field>| field.as_ref().clone().with_nullable(field.is_nullable() && !key.contains(field.name()));
    let schema = Schema::new_with_metadata(schema.fields().iter().map(field).collect::<Vec<_>>(), schema.metadata().clone());
    if !key.is_empty() {
        Keys::new(&schema, key).map_err(|error| error.at("table", table))?;
    }
    Ok(Arc::new(schema))
}

/// Reads a file's rows once more: none may lack its key, and no two may share one.
async fn check_keys(input: &Input, key: &[String]) -> Result<()> {
    let columns = key.iter().map(|name| input.schema().index_of(name)).collect::<Result<Vec<_>, _>>();
    let project = |source| Error::invalid("the key's columns are not in the file").because(source);
    let columns = columns.map_err(project)?;
    let target = Arc::new(new_table(input.schema(), &"t".parse()?, Mode::Append, key)?.project(&columns).map_err(project)?);
    let conform = Conform::new(&input.schema().project(&columns).map_err(project)?, &target)?;
    let rows = input.rows()?;
    let mut seen = 0;
    let batches = rows.batches.map(move |batch| {
        let batch = batch?.project(&columns).map_err(project)?;
        let first = seen;
        seen += batch.num_rows();
        conform.apply(&batch, first)
    });
    let rows = Rows { schema: target.clone(), batches: batches.boxed() };
    unique(Keys::new(&target, key)?, rows).batches.try_for_each(|_| std::future::ready(Ok(()))).await
}

/// Reports a commit: what every command that commits prints.
pub(super) fn report(commit: &Commit, common: &Common) -> Result<(), Failure> {
    if common.json {
        let tables: Vec<_> = commit.tables.iter().map(|table| json!({"key": table.key, "rows": table.changed})).collect();
        let mut document = json!({"commit": commit.commit, "seq": commit.seq, "tables": tables});
        if !commit.behind.is_empty() {
            document["behind"] = json!(commit.behind);
        }
        return print(&format!("{document}\n"));
    }
    for table in &commit.behind {
        let note =
            format!("note: {} is committed, and its chain of versions is behind; optimize it to bring it up", visible(table.as_str()));
        let _ = writeln!(std::io::stderr(), "{note}");
    }
    if !commit.published {
        return print(&format!("nothing to do: branch {} stays at seq {}\n", common.branch, commit.seq));
    }
    let id = commit.commit.map(|commit| commit.to_string()).unwrap_or_default();
    let mut grid = Grid::new(style(), &["table", ">rows brought", ">rows now"]);
    for table in &commit.tables {
        grid.texts([table.key.to_string(), table.changed.to_string(), table.rows.to_string()]);
    }
    let tables = count(commit.tables.len() as u64, "table");
    print(&format!("commit {id} · seq {} · branch {} · {tables}\n\n{}", commit.seq, common.branch, grid.render()))
}
