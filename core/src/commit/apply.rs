//! Step 5. Effects before the swap. Unreferenced objects were complete when they were staged, so nothing is left to do here for them.

use super::arm::Armed;
use super::prepare::Prepared;

/// A commit whose effects are complete, and visible to nobody.
pub(super) struct Applied {
    pub(super) prepared: Box<Prepared>,
    _private: (),
}

impl Armed {
    /// Applies the effects of the adapter's class. No request for the classes of this build.
    pub(super) fn apply(self) -> Applied {
        Applied { prepared: self.prepared, _private: () }
    }
}

impl Applied {
    /// Takes the commit back after a lost swap. Only unreferenced effects allow it: nobody saw anything.
    pub(super) fn withdraw(self) -> Box<Prepared> {
        self.prepared
    }
}
