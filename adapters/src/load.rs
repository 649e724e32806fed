//! `load`: appends to tables and overwrites them, creating them where asked.

use async_trait::async_trait;
use headwater_core::Result;
use headwater_core::adapter::{Effect, EffectAdapter, EffectClass, Plan, WriterKind, refuse};
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

    async fn prepare(&self, store: &dyn DataStore, mint: &Mint, plan: Plan) -> Result<Option<Effect>> {
        prepare(self.kind(), store, mint, plan).await.map(Some)
    }
}

/// Stages what a load does, for every kind of write that does it, too.
pub(crate) async fn prepare(kind: WriterKind, store: &dyn DataStore, mint: &Mint, plan: Plan) -> Result<Effect> {
    match plan {
        Plan::Create { key, rows, properties } => crate::create(store, mint, key, rows, properties).await,
        Plan::Append(head, rows) => crate::change(store, head, Change::Append(rows), true).await,
        Plan::Staged { head, staged, reuse } => {
            let staged = staged.place(store, &head, reuse).await.map_err(|error| error.at("table", &head.key))?;
            Ok(crate::effect("append", head, staged, true))
        }
        Plan::Overwrite(head, rows) => crate::change(store, head, Change::Overwrite(rows), false).await,
        Plan::Rename(..)
        | Plan::Drop(..)
        | Plan::Recreate { .. }
        | Plan::AddColumns(..)
        | Plan::Delete(..)
        | Plan::Update(..)
        | Plan::ByKey(..)
        | Plan::Optimize(_)
        | Plan::Index(..) => Err(refuse(kind, &plan)),
    }
}

/// This adapter's entry in the registry.
pub static REGISTRATION: Registration = Registration { name: "load", part: Part::Adapter(&Load) };
inventory::submit!(&REGISTRATION);
