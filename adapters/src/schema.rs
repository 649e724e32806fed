//! `schema`: creates, renames, drops and recreates tables, and adds nullable columns.

use async_trait::async_trait;
use headwater_core::Result;
use headwater_core::adapter::{Effect, EffectAdapter, EffectClass, Plan, WriterKind, refuse};
use headwater_core::head::{Event, TableHead};
use headwater_core::ids::{Incarnation, Mint};
use headwater_core::json::sha256;
use headwater_core::registry::{Part, Registration};
use headwater_core::schema::schema_hash;
use headwater_core::store::{Change, DataStore, TableRef};

/// The `schema` adapter.
#[derive(Clone, Copy, Debug)]
pub struct Schema;

#[async_trait]
impl EffectAdapter for Schema {
    fn kind(&self) -> WriterKind {
        WriterKind::Schema
    }

    fn class(&self) -> EffectClass {
        EffectClass::Unreferenced
    }

    fn summary(&self) -> &'static str {
        "creates, renames, drops and recreates tables, and adds nullable columns"
    }

    async fn prepare(&self, store: &dyn DataStore, mint: &Mint, plan: Plan) -> Result<Option<Effect>> {
        let effect = match plan {
            Plan::Create { key, rows, properties } => crate::create(store, mint, key, rows, properties).await?,
            Plan::Rename(head, to) => {
                let (table_id, incarnation_id, from) = (head.table_id, head.incarnation_id, head.key.clone());
                let request = format!("rename {table_id} {}", sha256(to.as_str().as_bytes()));
                unstaged(Event::Renamed { table_id, incarnation_id, from, to }, head, request)
            }
            Plan::Drop(head) => {
                let (table_id, incarnation_id, key) = (head.table_id, head.incarnation_id, head.key.clone());
                unstaged(Event::Dropped { table_id, incarnation_id, key }, head, format!("drop {table_id}"))
            }
            Plan::Recreate { tombstone, key, rows } => {
                let table = TableRef { id: tombstone.table_id, incarnation: Incarnation(mint.ulid()) };
                let staged = store.stage(table, None, Change::Create(rows)).await.map_err(|error| error.at("table", &key))?;
                let hash = schema_hash(&staged.schema);
                let request = format!("recreate {} {hash} {}", table.id, sha256(key.as_str().as_bytes()));
                let event = Event::Recreated {
                    table_id: table.id,
                    previous: tombstone.incarnation_id,
                    incarnation_id: table.incarnation,
                    key,
                    pin: staged.pin.clone(),
                    rows: staged.rows,
                    schema_hash: hash,
                    properties: tombstone.properties,
                };
                Effect { event, staged: Some(staged), base: None, append: false, request }
            }
            Plan::AddColumns(head, schema) => {
                let request = format!("add columns {} {}", head.table_id, schema_hash(&schema));
                let staged = store
                    .stage(head.table(), Some(&head.pin), Change::AddColumns(schema))
                    .await
                    .map_err(|error| error.at("table", &head.key))?;
                Effect { event: crate::written(&head, &staged), staged: Some(staged), base: Some(head), append: false, request }
            }
            Plan::Append(..)
            | Plan::Staged { .. }
            | Plan::Overwrite(..)
            | Plan::Delete(..)
            | Plan::Update(..)
            | Plan::ByKey(..)
            | Plan::Optimize(_)
            | Plan::Index(..) => {
                return Err(refuse(self.kind(), &plan));
            }
        };
        Ok(Some(effect))
    }
}

fn unstaged(event: Event, head: TableHead, request: String) -> Effect {
    Effect { event, staged: None, base: Some(head), append: false, request }
}

/// This adapter's entry in the registry.
pub static REGISTRATION: Registration = Registration { name: "schema", part: Part::Adapter(&Schema) };
inventory::submit!(&REGISTRATION);
