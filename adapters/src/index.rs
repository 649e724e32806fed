//! `index`: indexes a column of a table, over all its rows.

use async_trait::async_trait;
use headwater_core::Result;
use headwater_core::adapter::{Effect, EffectAdapter, EffectClass, Plan, WriterKind, refuse};
use headwater_core::ids::Mint;
use headwater_core::registry::{Part, Registration};
use headwater_core::store::{Change, DataStore};

/// The `index` adapter.
#[derive(Clone, Copy, Debug)]
pub struct Index;

#[async_trait]
impl EffectAdapter for Index {
    fn kind(&self) -> WriterKind {
        WriterKind::Index
    }

    fn class(&self) -> EffectClass {
        EffectClass::Unreferenced
    }

    fn summary(&self) -> &'static str {
        "indexes a column of a table, over all its rows"
    }

    async fn prepare(&self, store: &dyn DataStore, _: &Mint, plan: Plan) -> Result<Option<Effect>> {
        match plan {
            Plan::Index(head, column) => crate::effective(store, head, Change::Index(column)).await,
            other => Err(refuse(self.kind(), &other)),
        }
    }
}

/// This adapter's entry in the registry.
pub static REGISTRATION: Registration = Registration { name: "index", part: Part::Adapter(&Index) };
inventory::submit!(&REGISTRATION);
