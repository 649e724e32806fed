//! The rows that pass a filter, of batches that were read whole.

use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::coalesce::BatchCoalescer;
use arrow_select::filter::filter_record_batch;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use headwater_core::filter::Filter;
use headwater_core::{Error, ErrorKind, Result};

use crate::scan::BATCH_ROWS;
use crate::version::DataFile;

/// Rows that wait for others to come as one batch with them take at most about so many bytes.
const WAITING_BYTES: usize = 8 << 20;

/// Of batches whose first columns are those of `output`: these columns of the rows that pass. Few rows of many batches come as one.
pub(crate) fn passing(
    batches: BoxStream<'static, Result<RecordBatch>>,
    filter: Filter,
    output: &SchemaRef,
    file: Arc<DataFile>,
) -> BoxStream<'static, Result<RecordBatch>> {
    let together = BatchCoalescer::new(output.clone(), BATCH_ROWS).with_biggest_coalesce_batch_size(Some(BATCH_ROWS / 2));
    let columns = (0..output.fields().len()).collect();
    let passing = Passing { batches, filter, columns, together, waiting: 0, file, ended: false };
    Box::pin(futures::stream::try_unfold(passing, |mut passing| async move {
        let batch = passing.next().await?;
        Ok(batch.map(|batch| (batch, passing)))
    }))
}

struct Passing {
    batches: BoxStream<'static, Result<RecordBatch>>,
    filter: Filter,
    /// Of the batches, those that are asked for.
    columns: Vec<usize>,
    together: BatchCoalescer,
    /// Bytes of what waits in it.
    waiting: usize,
    file: Arc<DataFile>,
    ended: bool,
}

impl Passing {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.together.next_completed_batch() {
                self.waiting = 0;
                return Ok(Some(batch));
            }
            if self.ended {
                return Ok(None);
            }
            match self.batches.try_next().await? {
                Some(batch) => {
                    let mask = self.filter.evaluate(&batch).map_err(|source| misfit(&self.file, source))?;
                    self.take(&batch, &mask)
                }
                None => {
                    self.ended = true;
                    self.together.finish_buffered_batch()
                }
            }
            .map_err(|source| {
                let message = "the rows that pass the filter are too large for one batch";
                Error::new(ErrorKind::Unsupported, message).because(source).at("object", &self.file.path)
            })?;
        }
    }

    fn take(&mut self, batch: &RecordBatch, mask: &BooleanArray) -> Result<(), ArrowError> {
        let passed = filter_record_batch(&batch.project(&self.columns)?, mask)?;
        self.waiting += passed.get_array_memory_size();
        self.together.push_batch(passed)?;
        if self.waiting >= WAITING_BYTES { self.together.finish_buffered_batch() } else { Ok(()) }
    }
}

/// The filter was checked against the table before anything was read.
pub(crate) fn misfit(file: &DataFile, source: ArrowError) -> Error {
    Error::invalid("the filter does not fit the rows").because(source).at("object", &file.path)
}
