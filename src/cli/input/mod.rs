//! Files to load. Each is checked whole before anything is written, then read again, in bounded memory, as often as the commit needs.

mod arrow;
mod cell;
mod column;
mod csv;
mod file;
mod fit;
mod guard;
mod infer;
mod json;
mod jsonl;
mod parquet;
mod records;

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use clap::ValueEnum;
use headwater::store::Rows;
use headwater::{Error, Result};

pub(crate) use self::column::Column;
use self::column::Misfit;
use self::file::InputFile;
use super::progress::Progress;

/// Rows of one batch, at most.
const BATCH_ROWS: usize = 8192;
/// A batch of long rows ends when their text reaches this many bytes.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values under a header.
    Csv,
    /// JSON Lines: one object a line.
    #[value(name = "jsonl")]
    JsonLines,
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, as a file or a stream.
    Arrow,
}

impl Format {
    fn title(self) -> &'static str {
        match self {
            Self::Csv => "CSV",
            Self::JsonLines => "JSON Lines",
            Self::Parquet => "Parquet",
            Self::Arrow => "Arrow",
        }
    }

    fn of(path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_ascii_lowercase();
        match extension.as_str() {
            "csv" => Ok(Self::Csv),
            "jsonl" | "ndjson" | "json" => Ok(Self::JsonLines),
            "parquet" | "pq" => Ok(Self::Parquet),
            "arrow" | "arrows" | "ipc" | "feather" => Ok(Self::Arrow),
            "gz" | "zst" | "bz2" | "xz" | "zip" => {
                Err(Error::invalid("compressed files are not read; decompress it first").at("file", path.display()))
            }
            other => {
                let what = if other.is_empty() { "no extension".to_owned() } else { format!("the extension {other:?}") };
                let message = format!("the file has {what}, which names no format; say --format csv, jsonl, parquet or arrow");
                Err(Error::invalid(message).at("file", path.display()))
            }
        }
    }
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// One format's way to read a file.
trait Source: Send + Sync + std::fmt::Debug {
    /// The schema of its batches.
    fn schema(&self) -> &SchemaRef;
    /// How many rows there are, if opening it has checked them all.
    fn checked_rows(&self) -> Option<u64>;
    /// Reads it from the start.
    fn batches(&self, progress: &Progress) -> Result<Batches>;
}

/// How to read a file.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// The format; by the file's extension if `None`.
    pub(crate) format: Option<Format>,
    /// Text that means null, in every column of a CSV file.
    pub(crate) nulls: Arc<[String]>,
    /// Where progress shows.
    pub(crate) progress: Progress,
}

/// A file that was checked whole.
#[derive(Debug)]
pub(crate) struct Input {
    source: Box<dyn Source>,
    size: u64,
    rows: u64,
    progress: Progress,
}

impl Input {
    /// The size of the file, for progress over several.
    pub(crate) fn size_of(path: &Path) -> Result<u64> {
        Ok(InputFile::find(path)?.size())
    }

    /// Reads the whole file: into the types of the table it is for, or into types that hold all of its values.
    pub(crate) fn check(path: &Path, reading: &Reading, target: Option<&Schema>) -> Result<Self> {
        let file = InputFile::find(path)?;
        let format = reading.format.map_or_else(|| Format::of(path), Ok)?;
        let (size, progress) = (file.size(), &reading.progress);
        let source: Box<dyn Source> = match format {
            Format::Csv => Box::new(csv::Csv::open(file, reading.nulls.clone(), target, progress)?),
            Format::JsonLines => Box::new(jsonl::JsonLines::open(file, target, progress)?),
            Format::Parquet => Box::new(parquet::Parquet::open(file, target)?),
            Format::Arrow => Box::new(arrow::Arrow::open(file, target)?),
        };
        let rows = match source.checked_rows() {
            Some(rows) => rows,
            None => source.batches(progress)?.try_fold(0, |rows, batch| batch.map(|batch| rows + batch.num_rows() as u64))?,
        };
        Ok(Self { source, size, rows, progress: progress.clone() })
    }

    /// The schema of its rows.
    pub(crate) fn schema(&self) -> &SchemaRef {
        self.source.schema()
    }

    /// Bytes in the file.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// How many rows it has.
    pub(crate) fn row_count(&self) -> u64 {
        self.rows
    }

    /// Its rows, from the start.
    pub(crate) fn rows(&self) -> Result<Rows> {
        let batches = self.source.batches(&self.progress)?;
        Ok(Rows { schema: self.schema().clone(), batches: Box::pin(futures::stream::iter(batches)) })
    }
}

fn misfit(file: &InputFile, format: Format, line: u64, column: &str, found: Misfit) -> Error {
    let remedy = match format {
        Format::Csv => "correct the value, mark it as null (--null), or load it into a table whose column holds it",
        _ => "correct the value, or load it into a table whose column holds it",
    };
    file.error(format!("{}; {remedy}", found.problem)).at("line", line).at("column", format!("{column}{}", found.path))
}

#[cfg(test)]
mod tests;
