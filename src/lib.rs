#![doc = include_str!("../README.md")]

pub use arrow_array;
pub use arrow_schema;
pub use headwater_core::*;
#[cfg(feature = "memtable")]
pub use headwater_memtable as memtable;
#[cfg(feature = "sql")]
pub use headwater_sql as sql;

mod open;

pub use open::{Builder, Diagnosis, MISSING, builder, create, doctor, open, registry};
