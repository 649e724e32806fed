//! Step 4. Effects that others could see before the swap need a durable intent first. Every adapter of this build stages unreferenced
//! objects, or nothing: a crash leaves garbage, and there is nothing to arm.

use super::prepare::Prepared;
use super::revalidate::Revalidated;
use crate::adapter::EffectClass;

/// A commit that may apply its effects.
pub(super) struct Armed {
    pub(super) prepared: Box<Prepared>,
    _private: (),
}

impl Revalidated {
    /// Arms recovery as the adapter's effect class demands. No request for these classes.
    pub(super) fn arm(self) -> Armed {
        match self.prepared.adapter.class() {
            EffectClass::Unreferenced | EffectClass::Zero => Armed { prepared: self.prepared, _private: () },
        }
    }
}
