//! Mistakes a memtable could make, for the model test to find.

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A scan looks at what is on disk, and only later at what is in memory: a flush that ends in between hides its rows.
    DiskBeforeMemory,
    /// A flush that fails drops its rows.
    DropOnFailedFlush,
    /// A publish counts rows as published that were in memory when it began, and never flushed.
    PublishBeforeFlush,
    /// A close looks at what there is to publish before it is its turn: one that fails before it lets rows in that it does not know of.
    CloseBeforeTurn,
}
