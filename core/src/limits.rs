//! How much a caching memtable keeps in memory.

use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};

/// Bounds of what a memtable in front of a store keeps in memory. Where one is reached, rows go to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rows of one table.
    pub rows: u64,
    /// Bytes of one table's rows, as Arrow holds them.
    pub bytes: u64,
    /// Bytes over all tables of one writer. Rows that find this much in memory wait for room, so the memory in use is never more than this and
    /// the batch that reached it. The table with the most bytes is flushed first.
    pub total_bytes: u64,
    /// A table that gets no rows for this long is flushed, at the latest after twice as long. `None`: never by itself.
    pub idle: Option<Duration>,
}

impl Default for Limits {
    /// A million rows or 64 MiB of a table, 256 MiB over all of them, and 10 seconds.
    fn default() -> Self {
        Self { rows: 1_000_000, bytes: 64 << 20, total_bytes: 256 << 20, idle: Some(Duration::from_secs(10)) }
    }
}

impl Limits {
    /// The default limits, within so many bytes over all tables.
    pub fn within(total_bytes: u64) -> Self {
        let limits = Self::default();
        Self { bytes: limits.bytes.min(total_bytes), total_bytes, ..limits }
    }

    /// Refuses limits that no row fits. `InvalidInput`.
    pub fn check(&self) -> Result<()> {
        if self.rows == 0 || self.bytes == 0 || self.total_bytes == 0 || self.idle == Some(Duration::ZERO) {
            return Err(Error::invalid("a limit of the cache is 0, and no row would ever fit; set it to 1 or more"));
        }
        Ok(())
    }
}

impl FromStr for Limits {
    type Err = Error;

    /// Bytes over all tables, as the URL option `cache` gives them: `64MiB`, `512KiB`, `1GiB` or `1000000`.
    fn from_str(text: &str) -> Result<Self> {
        let invalid =
            || Error::invalid(format!("the cache of {text:?} is no size; write bytes, or a number with KiB, MiB or GiB, such as 64MiB"));
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit: u64 = match &text[digits.len()..] {
            "" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return Err(invalid()),
        };
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid());
        }
        let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(invalid)?;
        let limits = Self::within(bytes);
        limits.check()?;
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_and_a_unit() {
        for (text, bytes) in [("64MiB", 64 << 20), ("1GiB", 1 << 30), ("512KiB", 512 << 10), ("1000000", 1_000_000)] {
            let limits: Limits = text.parse().unwrap();
            assert_eq!(limits.total_bytes, bytes);
            assert!(limits.bytes <= limits.total_bytes);
        }
        for text in ["", "MiB", "64MB", "64 MiB", "-1", "+1", "1.5GiB", "0", "0MiB", "99999999999GiB", "64mib", "é"] {
            assert_eq!(text.parse::<Limits>().unwrap_err().kind(), crate::ErrorKind::InvalidInput, "{text:?}");
        }
    }
}
