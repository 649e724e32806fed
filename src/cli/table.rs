//! `table …`: changes of the schema, each one commit, and a table's description.

use std::sync::Arc;

use arrow_schema::{Field, Schema};
use headwater::{Commit, Result, TableOptions, TransactOptions, Transaction};
use serde_json::json;

use super::args::{Committing, Common, Table};
use super::failure::Failure;
use super::load::report;
use super::output::{print, style};
use super::render::{Grid, time, visible};
use super::schema_text::{parse_column, type_name};
use super::show::{head_json, state};

/// Runs `table …`.
pub(crate) async fn run(args: Table, common: &Common) -> Result<(), Failure> {
    let commit = match args {
        Table::Create { root, name, columns, key, lineage, committing } => {
            let schema = Arc::new(Schema::new(parse_columns(&columns)?));
            let options = TableOptions { key_columns: key, lineage: lineage.into() };
            commit(&root.url, &committing, common, async |tx| tx.create_table_with(&name, schema.clone(), options.clone()).await.map(drop))
                .await?
        }
        Table::Rename { root, from, to, committing } => {
            commit(&root.url, &committing, common, async |tx| {
                let table = tx.table(&from).await?;
                tx.rename_table(&table, &to).await
            })
            .await?
        }
        Table::Drop { root, name, committing } => {
            commit(&root.url, &committing, common, async |tx| {
                let table = tx.table(&name).await?;
                tx.drop_table(&table).await
            })
            .await?
        }
        Table::Recreate { root, name, committing } => {
            commit(&root.url, &committing, common, async |tx| tx.recreate_table(&name, None).await.map(|_| ())).await?
        }
        Table::AddColumn { root, name, columns, committing } => {
            let columns = parse_columns(&columns)?;
            commit(&root.url, &committing, common, async |tx| {
                let table = tx.table(&name).await?;
                tx.add_columns(&table, columns.clone()).await
            })
            .await?
        }
        Table::Index { root, name, column, committing } => {
            commit(&root.url, &committing, common, async |tx| {
                let table = tx.table(&name).await?;
                tx.index(&table, &column).await
            })
            .await?
        }
        Table::Show { root, name } => return show(&root.url, &name, common).await,
    };
    report(&commit, common)
}

fn parse_columns(texts: &[String]) -> Result<Vec<Field>> {
    texts.iter().map(|text| parse_column(text)).collect()
}

async fn commit(url: &str, committing: &Committing, common: &Common, body: impl AsyncFn(Transaction) -> Result<()>) -> Result<Commit> {
    let token = committing.token.as_deref().map(str::parse).transpose()?;
    let (_, branch) = super::open_branch(url, common).await?;
    let options = TransactOptions { message: committing.message.clone(), token, ..TransactOptions::default() };
    branch.transact_with(options, |tx| body(tx)).await
}

async fn show(url: &str, name: &str, common: &Common) -> Result<(), Failure> {
    let (_, branch) = super::open_branch(url, common).await?;
    let snapshot = branch.snapshot().await?;
    let head = snapshot.table(name)?;
    let schema = snapshot.schema(name).await?;
    if common.json {
        let columns = schema
            .fields()
            .iter()
            .map(|field| json!({"name": field.name(), "type": type_name(field.data_type()), "nullable": field.is_nullable()}));
        let mut document = head_json(head);
        document["columns"] = columns.collect();
        document["key"] = json!(head.key_columns()?);
        document["lineage"] = json!(head.lineage()?.name());
        return print(&format!("{document}\n"));
    }
    let mut text = format!("table {} · {} · branch {}\n", visible(head.key.as_str()), state(head.state), snapshot.branch());
    let facts = [
        ("rows", head.rows.to_string()),
        ("table id", head.table_id.to_string()),
        ("incarnation", head.incarnation_id.to_string()),
        ("commit", head.commit.to_string()),
        ("as of", time(snapshot.time_ms())),
        ("version", head.pin.path.clone()),
        ("lineage", head.lineage()?.name().to_owned()),
    ];
    let key = head.key_columns()?;
    let key = (!key.is_empty()).then(|| ("key", key.join(", ")));
    for (what, value) in facts.into_iter().chain(key) {
        text.push_str(&format!("  {what:<11}  {value}\n"));
    }
    let mut grid = Grid::new(style(), &["column", "type", "null"]);
    for field in schema.fields() {
        grid.texts([field.name().clone(), type_name(field.data_type()), if field.is_nullable() { "yes" } else { "no" }.to_owned()]);
    }
    print(&format!("{text}\n{}", grid.render()))
}
