//! `optimize`: lays a table's rows out in fewer and larger objects.

use async_trait::async_trait;
use headwater_core::Result;
use headwater_core::adapter::{Effect, EffectAdapter, EffectClass, Plan, WriterKind, refuse};
use headwater_core::ids::Mint;
use headwater_core::registry::{Part, Registration};
use headwater_core::store::{Change, DataStore};

/// The `optimize` adapter.
#[derive(Clone, Copy, Debug)]
pub struct Optimize;

#[async_trait]
impl EffectAdapter for Optimize {
    fn kind(&self) -> WriterKind {
        WriterKind::Optimize
    }

    fn class(&self) -> EffectClass {
        EffectClass::Unreferenced
    }

    fn summary(&self) -> &'static str {
        "lays a table's rows out in fewer and larger objects"
    }

    async fn prepare(&self, store: &dyn DataStore, _: &Mint, plan: Plan) -> Result<Option<Effect>> {
        match plan {
            Plan::Optimize(head) => crate::effective(store, head, Change::Rewrite).await,
            other => Err(refuse(self.kind(), &other)),
        }
    }
}

/// This adapter's entry in the registry.
pub static REGISTRATION: Registration = Registration { name: "optimize", part: Part::Adapter(&Optimize) };
inventory::submit!(&REGISTRATION);
