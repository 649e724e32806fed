//! The rows that pass a filter, of batches that were read whole.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::coalesce::BatchCoalescer;
use arrow_select::filter::filter_record_batch;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use headwater_core::filter::Filter;
use headwater_core::{Error, Result};

use crate::scan::BATCH_ROWS;
use crate::version::DataFile;

/// Of batches whose first columns are those of `output`: these columns of the rows that pass, at most `limit` of them. Few rows of many batches
/// come as one.
pub(crate) fn passing(
    batches: BoxStream<'static, Result<RecordBatch>>,
    filter: Filter,
    output: &SchemaRef,
    limit: Option<u64>,
    file: Arc<DataFile>,
) -> BoxStream<'static, Result<RecordBatch>> {
    let together = BatchCoalescer::new(output.clone(), BATCH_ROWS).with_biggest_coalesce_batch_size(Some(BATCH_ROWS / 2));
    let (columns, left) = ((0..output.fields().len()).collect(), limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)));
    let passing = Passing { batches, filter, columns, together, left, file, ended: false };
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
    /// Rows still asked for.
    left: Option<usize>,
    file: Arc<DataFile>,
    ended: bool,
}

impl Passing {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.together.next_completed_batch() {
                return Ok(Some(batch));
            }
            if self.ended {
                return Ok(None);
            }
            let taken = match self.batches.try_next().await? {
                Some(batch) => self.take(&batch),
                None => {
                    self.ended = true;
                    self.together.finish_buffered_batch()
                }
            };
            taken.map_err(|source| misfit(&self.file, source))?;
        }
    }

    fn take(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let mask = self.filter.evaluate(batch)?;
        let mut passed = filter_record_batch(&batch.project(&self.columns)?, &mask)?;
        if let Some(left) = &mut self.left {
            passed = passed.slice(0, passed.num_rows().min(*left));
            *left -= passed.num_rows();
        }
        self.together.push_batch(passed)?;
        if self.left == Some(0) {
            self.ended = true;
            self.together.finish_buffered_batch()?;
        }
        Ok(())
    }
}

/// The filter was checked against the table before anything was read.
pub(crate) fn misfit(file: &DataFile, source: ArrowError) -> Error {
    Error::invalid("the filter does not fit the rows").because(source).at("object", &file.path)
}
