//! `load`: appends to tables and overwrites them, creating them where asked.

use async_trait::async_trait;
use headwater_core::Result;
use headwater_core::adapter::{Effect, EffectAdapter, EffectClass, Plan, WriterKind, refuse};
use headwater_core::head::TableHead;
use headwater_core::ids::Mint;
use headwater_core::registry::{Part, Registration};
use headwater_core::store::{Change, DataStore};

/// The `load` adapter.
#[derive(Clone, Copy, Debug)]
pub struct Load;

#[async_trait]
impl EffectAdapter for Load {
    fn kind(&self) -> WriterKind {
        WriterKind::Load
    }

    fn class(&self) -> EffectClass {
        EffectClass::Unreferenced
    }

    fn summary(&self) -> &'static str {
        "appends to tables and overwrites them, creating them where asked"
    }

    async fn prepare(&self, store: &dyn DataStore, mint: &Mint, plan: Plan) -> Result<Effect> {
        match plan {
            Plan::Create { key, rows, properties } => crate::create(store, mint, key, rows, properties).await,
            Plan::Append(head, rows) => stage(store, head, Change::Append(rows), true).await,
            Plan::Overwrite(head, rows) => stage(store, head, Change::Overwrite(rows), false).await,
            Plan::Rename(..) | Plan::Drop(..) | Plan::Recreate { .. } | Plan::AddColumns(..) => Err(refuse(self.kind(), &plan)),
        }
    }
}

async fn stage(store: &dyn DataStore, head: TableHead, change: Change, append: bool) -> Result<Effect> {
    let verb = change.name();
    let staged = store.stage(head.table(), Some(&head.pin), change).await.map_err(|error| error.at("table", &head.key))?;
    let request = format!("{verb} {} {} {}", head.table_id, staged.changed, staged.content);
    Ok(Effect { event: crate::written(&head, &staged), staged: Some(staged), base: Some(head), append, request })
}

/// This adapter's entry in the registry.
pub static REGISTRATION: Registration = Registration { name: "load", part: Part::Adapter(&Load) };
inventory::submit!(&REGISTRATION);
