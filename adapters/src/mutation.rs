//! `mutation`: adds, replaces and removes rows by key, updates and deletes them by a condition; and loads beside that.

use async_trait::async_trait;
use headwater_core::Result;
use headwater_core::adapter::{Effect, EffectAdapter, EffectClass, Plan, WriterKind};
use headwater_core::ids::Mint;
use headwater_core::registry::{Part, Registration};
use headwater_core::store::{Change, DataStore};

/// The `mutation` adapter.
#[derive(Clone, Copy, Debug)]
pub struct Mutation;

#[async_trait]
impl EffectAdapter for Mutation {
    fn kind(&self) -> WriterKind {
        WriterKind::Mutation
    }

    fn class(&self) -> EffectClass {
        EffectClass::Unreferenced
    }

    fn summary(&self) -> &'static str {
        "adds, replaces and removes rows by key, updates and deletes them by a condition"
    }

    async fn prepare(&self, store: &dyn DataStore, mint: &Mint, plan: Plan) -> Result<Option<Effect>> {
        let (head, change) = match plan {
            Plan::Delete(head, filter) => (head, Change::Delete(filter)),
            Plan::Update(head, filter, set) => (head, Change::Update { filter, set }),
            Plan::ByKey(head, action, rows) => {
                let key = head.key_columns()?;
                (head, Change::ByKey { key, action, rows })
            }
            load => return crate::load::prepare(self.kind(), store, mint, load).await.map(Some),
        };
        crate::effective(store, head, change).await
    }
}

/// This adapter's entry in the registry.
pub static REGISTRATION: Registration = Registration { name: "mutation", part: Part::Adapter(&Mutation) };
inventory::submit!(&REGISTRATION);
