//! Rows on their way out, in any format, without holding the table in memory.

mod csv;
mod people;
mod target;
mod zone;

use std::io::IsTerminal;

use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_json::writer::{JsonArray, LineDelimited, Writer, WriterBuilder};
use arrow_schema::{ArrowError, SchemaRef};
use clap::ValueEnum;
use headwater::Error;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use self::csv::CsvWriter;
use self::people::People;
pub(crate) use self::target::{Target, print, style};
use self::zone::printable;
use super::args::{Common, Output};
use super::failure::Failure;

/// Rows that people see if they do not say how many.
pub(crate) const SHOWN: usize = 40;

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// An aligned table for people; the first rows of it.
    Table,
    /// Comma-separated values under a header; null is an empty field, an empty text a quoted one.
    Csv,
    /// JSON Lines: one object a line.
    Jsonl,
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC file.
    Arrow,
}

impl OutputFormat {
    /// The format a file's name stands for.
    pub(crate) fn of(path: &std::path::Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "parquet" | "pq" => Some(Self::Parquet),
            "arrow" | "ipc" | "feather" => Some(Self::Arrow),
            "txt" => Some(Self::Table),
            _ => None,
        }
    }

    /// Whether a terminal would show noise.
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Self::Parquet | Self::Arrow)
    }
}

/// The format that is asked for; `None` for one JSON document.
pub(crate) fn chosen(output: &Output, common: &Common) -> Result<Option<OutputFormat>, Failure> {
    if common.json && output.format.is_none() && output.path.is_none() {
        return Ok(None);
    }
    let format = output.format.or_else(|| output.path.as_deref().and_then(OutputFormat::of)).unwrap_or(OutputFormat::Table);
    if format.is_binary() && output.path.is_none() && std::io::stdout().is_terminal() {
        return Err(Failure::Usage("a terminal does not show this format; write it to a file with -o FILE".to_owned()));
    }
    Ok(Some(format))
}

/// Takes rows one batch at a time.
pub(crate) trait Sink {
    /// Writes a batch.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure>;
    /// Writes what comes last, and completes the target.
    fn finish(self: Box<Self>) -> Result<(), Failure>;
}

/// How much of a table people see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Rows shown, at most.
    pub(crate) shown: usize,
    /// Rows there are in all; as many as are written if `None`.
    pub(crate) total: Option<u64>,
}

/// A sink of a format. The extent counts for people only: programs get every row.
pub(crate) fn sink(format: OutputFormat, schema: &SchemaRef, extent: Extent, target: Target) -> Result<Box<dyn Sink>, Failure> {
    Ok(match format {
        OutputFormat::Table => Box::new(People::new(schema, extent, target)),
        OutputFormat::Csv => Box::new(CsvWriter::new(schema, target)?),
        OutputFormat::Jsonl => {
            let writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(target);
            Box::new(JsonLines(writer))
        }
        OutputFormat::Parquet => {
            let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
            Box::new(Parquet(ArrowWriter::try_new(target, schema.clone(), Some(properties)).map_err(parquet_failed)?))
        }
        OutputFormat::Arrow => Box::new(Arrow(FileWriter::try_new(target, schema).map_err(failed)?)),
    })
}

/// A sink that makes the rows the last member of this JSON object, in one document.
pub(crate) fn document(object: serde_json::Value, mut target: Target) -> Result<Box<dyn Sink>, Failure> {
    let object = object.to_string();
    target.text(object.strip_suffix('}').unwrap_or(&object))?;
    target.text(",\"rows\":")?;
    Ok(Box::new(Document(WriterBuilder::new().with_explicit_nulls(true).build::<_, JsonArray>(target))))
}

fn failed(source: ArrowError) -> Failure {
    Target::failure(Error::invalid("the rows cannot be written in this format").because(source))
}

fn parquet_failed(source: ParquetError) -> Failure {
    Target::failure(Error::invalid("the rows cannot be written as Parquet").because(source))
}

struct JsonLines(Writer<Target, LineDelimited>);

impl Sink for JsonLines {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.0.write(&printable(batch)?).map_err(failed)
    }

    fn finish(mut self: Box<Self>) -> Result<(), Failure> {
        self.0.finish().map_err(failed)?;
        self.0.into_inner().complete()
    }
}

struct Document(Writer<Target, JsonArray>);

impl Sink for Document {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.0.write(&printable(batch)?).map_err(failed)
    }

    fn finish(mut self: Box<Self>) -> Result<(), Failure> {
        self.0.finish().map_err(failed)?;
        let mut target = self.0.into_inner();
        target.text("}\n")?;
        target.complete()
    }
}

struct Parquet(ArrowWriter<Target>);

impl Sink for Parquet {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.0.write(batch).map_err(parquet_failed)
    }

    fn finish(self: Box<Self>) -> Result<(), Failure> {
        self.0.into_inner().map_err(parquet_failed)?.complete()
    }
}

struct Arrow(FileWriter<Target>);

impl Sink for Arrow {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.0.write(batch).map_err(failed)
    }

    fn finish(self: Box<Self>) -> Result<(), Failure> {
        self.0.into_inner().map_err(failed)?.complete()
    }
}
