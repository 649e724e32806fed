//! Effect adapters: one module per kind of write. They drive stores only through `DataStore`, so they serve every store alike.

pub mod index;
pub mod load;
pub mod mutation;
pub mod optimize;
pub mod schema;

use headwater_core::Result;
use headwater_core::adapter::Effect;
use headwater_core::head::{Event, TableHead};
use headwater_core::ids::{Incarnation, Mint, TableId};
use headwater_core::json::sha256;
use headwater_core::name::TableKey;
use headwater_core::registry::Expected;
use headwater_core::schema::schema_hash;
use headwater_core::store::{Change, DataStore, Rows, Staged, TableRef};

pub use index::Index;
pub use load::Load;
pub use mutation::Mutation;
pub use optimize::Optimize;
pub use schema::Schema;

/// What this crate registers.
pub const EXPECTED: &[Expected] =
    &[("adapter", "index"), ("adapter", "load"), ("adapter", "mutation"), ("adapter", "optimize"), ("adapter", "schema")];

/// Stages a new table under a fresh identity.
async fn create(
    store: &dyn DataStore,
    mint: &Mint,
    key: TableKey,
    rows: Rows,
    properties: std::collections::BTreeMap<String, String>,
) -> Result<Effect> {
    let table = TableRef { id: TableId(mint.ulid()), incarnation: Incarnation(mint.ulid()) };
    let staged = store.stage(table, None, Change::Create(rows)).await.map_err(|error| error.at("table", &key))?;
    let schema_hash = schema_hash(&staged.schema);
    let mut request = format!("create {} {schema_hash} {} {}", sha256(key.as_str().as_bytes()), staged.changed, staged.content);
    for (name, value) in &properties {
        request.push_str(&format!(" {name} {}", sha256(value.as_bytes())));
    }
    let event = Event::Registered {
        table_id: table.id,
        incarnation_id: table.incarnation,
        key,
        pin: staged.pin.clone(),
        rows: staged.rows,
        schema_hash,
        properties,
    };
    Ok(Effect { event, staged: Some(staged), base: None, append: false, request })
}

/// Stages a new version of a table.
async fn change(store: &dyn DataStore, head: TableHead, change: Change, append: bool) -> Result<Effect> {
    let verb = change.name();
    let staged = store.stage(head.table(), Some(&head.pin), change).await.map_err(|error| error.at("table", &head.key))?;
    Ok(effect(verb, head, staged, append))
}

/// What was staged for a table, as its change.
fn effect(verb: &str, head: TableHead, staged: Staged, append: bool) -> Effect {
    let request = format!("{verb} {} {} {}", head.table_id, staged.changed, staged.content);
    Effect { event: written(&head, &staged), staged: Some(staged), base: Some(head), append, request }
}

/// [`change`], or nothing where the store gives back the base.
async fn effective(store: &dyn DataStore, head: TableHead, change: Change) -> Result<Option<Effect>> {
    let before = head.pin.clone();
    let effect = self::change(store, head, change, false).await?;
    Ok(Some(effect).filter(|effect| effect.staged.as_ref().is_some_and(|staged| staged.pin != before)))
}

/// The event for a new version of a table.
fn written(head: &TableHead, staged: &Staged) -> Event {
    Event::Written {
        table_id: head.table_id,
        incarnation_id: head.incarnation_id,
        pin: staged.pin.clone(),
        rows: staged.rows,
        schema_hash: schema_hash(&staged.schema),
    }
}
