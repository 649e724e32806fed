//! Parquet files. Reading one whole decodes every page: a file that is cut short or damaged is found before anything is written.

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use headwater::{Error, Result};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::file::InputFile;
use super::fit::Fit;
use super::guard::guarded;
use super::{BATCH_ROWS, Batches, Source};
use crate::cli::progress::Progress;

/// A Parquet file whose footer was read.
#[derive(Debug)]
pub(super) struct Parquet {
    file: InputFile,
    fit: Fit,
}

impl Parquet {
    pub(super) fn open(file: InputFile, target: Option<&Schema>) -> Result<Self> {
        let builder = footer(&file)?;
        let fit = Fit::new(&file, builder.schema(), target)?;
        Ok(Self { file, fit })
    }
}

fn footer(file: &InputFile) -> Result<ParquetRecordBatchReaderBuilder<std::fs::File>> {
    let opened = file.open()?;
    let builder = guarded(|| ParquetRecordBatchReaderBuilder::try_new(opened)).map_err(|panicked| damaged(file, panicked))?;
    builder.map_err(|source| damaged(file, source))
}

fn damaged(file: &InputFile, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    file.error("the file is not a whole Parquet file; write it again").because(source)
}

impl Source for Parquet {
    fn schema(&self) -> &SchemaRef {
        self.fit.schema()
    }

    fn checked_rows(&self) -> Option<u64> {
        None
    }

    fn batches(&self, progress: &Progress) -> Result<Batches> {
        let builder = footer(&self.file)?;
        let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or_default();
        let batches = guarded(|| builder.with_batch_size(BATCH_ROWS).build()).map_err(|panicked| damaged(&self.file, panicked))?;
        let batches = Some(batches.map_err(|source| damaged(&self.file, source))?);
        Ok(Box::new(Reader { file: self.file.clone(), fit: self.fit.clone(), batches, rows, read: 0, progress: progress.clone() }))
    }
}

struct Reader {
    file: InputFile,
    fit: Fit,
    /// Gone after an error.
    batches: Option<ParquetRecordBatchReader>,
    /// Rows in the file.
    rows: u64,
    /// Rows read so far.
    read: u64,
    progress: Progress,
}

impl Reader {
    fn fitted(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let fitted = self.fit.apply(&self.file, batch, self.read)?;
        let rows = batch.num_rows() as u64;
        self.read += rows;
        // A row group's bytes are not read in the order of its rows: progress goes by the rows.
        let share = u128::from(self.file.size()) * u128::from(rows) / u128::from(self.rows.max(1));
        self.progress.add(u64::try_from(share).unwrap_or_default());
        Ok(fitted)
    }
}

impl Iterator for Reader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batches = self.batches.take()?;
        let batch = match guarded(|| batches.next()) {
            Ok(Some(Ok(batch))) => batch,
            Ok(Some(Err(source))) => return Some(Err(damaged(&self.file, source))),
            Err(panicked) => return Some(Err(damaged(&self.file, panicked))),
            Ok(None) if self.read != self.rows => {
                let message = format!("the file announces {} rows and holds {}; write it again", self.rows, self.read);
                return Some(Err(self.file.error(message)));
            }
            Ok(None) => return None,
        };
        self.batches = Some(batches);
        Some(self.fitted(&batch))
    }
}
