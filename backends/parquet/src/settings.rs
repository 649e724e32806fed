//! The store's settings.

use headwater_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// How a [`crate::ParquetStore`] writes and reads. None of these changes what a table holds; those marked † change the bytes of data files,
/// and with them [`headwater_core::store::Staged::content`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// An encoded file up to this many bytes is held in memory and sent in one PUT, in parallel with the version object. A larger one is
    /// uploaded in parts while it grows.
    pub buffer_bytes: usize,
    /// Bytes of each part of a multipart upload but the last. S3 takes 5 MiB or more.
    pub part_bytes: usize,
    /// Parts of one upload under way at once.
    pub parts_in_flight: usize,
    /// † A row group ends when its encoded columns reach this many bytes in memory.
    pub row_group_bytes: usize,
    /// † A row group ends at this many rows.
    pub row_group_rows: usize,
    /// † A data file ends when about this many bytes are encoded.
    pub file_bytes: u64,
    /// A data file up to this many bytes is read whole, in one request, and its digest is checked.
    pub whole_bytes: u64,
    /// Bytes read from the end of a larger data file in the first request; holds the footer and the page index of usual files.
    pub footer_bytes: u64,
    /// A data file larger than this is split into partitions by row groups.
    pub split_bytes: u64,
    /// Bytes of version objects kept parsed in memory, counted by their size as objects.
    pub cache_bytes: u64,
    /// Version objects read, or written, at once when a table's older lists are needed.
    pub parallel_reads: usize,
}

impl Default for Settings {
    fn default() -> Self {
        const MIB: usize = 1 << 20;
        Self {
            buffer_bytes: 16 * MIB,
            part_bytes: 8 * MIB,
            parts_in_flight: 4,
            row_group_bytes: 64 * MIB,
            row_group_rows: MIB,
            file_bytes: 512 << 20,
            whole_bytes: 1 << 20,
            footer_bytes: 64 << 10,
            split_bytes: 64 << 20,
            cache_bytes: 32 << 20,
            parallel_reads: 16,
        }
    }
}

impl Settings {
    /// Refuses zeros, which would mean no progress, and a `footer_bytes` too small for a Parquet file's end.
    pub(crate) fn check(&self) -> Result<()> {
        let positive = [
            ("part_bytes", self.part_bytes as u64),
            ("parts_in_flight", self.parts_in_flight as u64),
            ("row_group_bytes", self.row_group_bytes as u64),
            ("row_group_rows", self.row_group_rows as u64),
            ("file_bytes", self.file_bytes),
            ("split_bytes", self.split_bytes),
            ("parallel_reads", self.parallel_reads as u64),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(Error::invalid(format!("the setting {name} must not be 0")));
        }
        if self.footer_bytes < 8 {
            return Err(Error::invalid("the setting footer_bytes must be at least 8, the end of every Parquet file"));
        }
        Ok(())
    }
}
