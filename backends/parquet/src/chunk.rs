//! Cuts a stream of batches into chunks that depend on the rows alone, so that the batches they came in do not change the encoded bytes.

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::concat::concat_batches;

/// A chunk ends at this many rows…
pub(crate) const CHUNK_ROWS: usize = 8192;
/// …or before its values exceed this many bytes, whichever comes first; it has at least one row.
const CHUNK_BYTES: usize = 4 << 20;

/// Rows that wait for their chunk to fill: at most one chunk.
#[derive(Debug)]
pub(crate) struct Chunks {
    schema: SchemaRef,
    pending: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl Chunks {
    pub(crate) fn new(schema: SchemaRef) -> Self {
        Self { schema, pending: Vec::new(), rows: 0, bytes: 0 }
    }

    /// Takes from the front of `batch` what belongs to the present chunk, and returns the chunk if that completes it. Call until the batch
    /// is empty.
    pub(crate) fn take(&mut self, batch: &mut RecordBatch) -> Result<Option<RecordBatch>, ArrowError> {
        let most = batch.num_rows().min(CHUNK_ROWS - self.rows);
        let size = |rows: usize| batch.columns().iter().map(|column| value_bytes(&column.slice(0, rows))).sum::<usize>();
        let fits = |rows: usize| self.bytes.saturating_add(size(rows)) <= CHUNK_BYTES;
        let mut take = most;
        if !fits(most) {
            // The most rows that fit: sizes only grow with the rows.
            let (mut low, mut high) = (0, most);
            while low + 1 < high {
                let middle = low + (high - low) / 2;
                if fits(middle) { low = middle } else { high = middle }
            }
            take = if low == 0 && self.rows == 0 { 1 } else { low };
        }
        if take > 0 {
            self.bytes = self.bytes.saturating_add(size(take));
            self.rows += take;
            self.pending.push(batch.slice(0, take));
            *batch = batch.slice(take, batch.num_rows() - take);
        }
        if self.rows == CHUNK_ROWS || take < most || self.bytes >= CHUNK_BYTES { self.finish() } else { Ok(None) }
    }

    /// The rows that wait, as the last chunk.
    pub(crate) fn finish(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        (self.rows, self.bytes) = (0, 0);
        let mut pending = std::mem::take(&mut self.pending);
        match pending.len() {
            0 | 1 => Ok(pending.pop()),
            _ => concat_batches(&self.schema, &pending).map(Some),
        }
    }
}

/// Bytes of an array's values: a sum over its rows, whatever the buffers behind it hold besides.
fn value_bytes(array: &dyn Array) -> usize {
    use DataType as T;
    fn span<O: Copy + TryInto<usize>>(offsets: &[O]) -> (usize, usize) {
        let at = |offset: Option<&O>| offset.and_then(|offset| (*offset).try_into().ok()).unwrap_or(0);
        (at(offsets.first()), at(offsets.last()))
    }
    let rows = array.len();
    let within = |child: &dyn Array, (start, end): (usize, usize)| value_bytes(&child.slice(start, end - start));
    let viewed = |views: &[u128]| (0..rows).filter(|row| array.is_valid(*row)).map(|row| views[row] as u32 as usize).sum::<usize>();
    let length = |(start, end): (usize, usize)| end - start;
    match array.data_type() {
        T::Null => 0,
        T::Utf8 => length(span(array.as_string::<i32>().value_offsets())) + rows * 4,
        T::LargeUtf8 => length(span(array.as_string::<i64>().value_offsets())) + rows * 8,
        T::Binary => length(span(array.as_binary::<i32>().value_offsets())) + rows * 4,
        T::LargeBinary => length(span(array.as_binary::<i64>().value_offsets())) + rows * 8,
        T::Utf8View => viewed(array.as_string_view().views()) + rows * 16,
        T::BinaryView => viewed(array.as_binary_view().views()) + rows * 16,
        T::List(_) => within(array.as_list::<i32>().values(), span(array.as_list::<i32>().value_offsets())) + rows * 4,
        T::LargeList(_) => within(array.as_list::<i64>().values(), span(array.as_list::<i64>().value_offsets())) + rows * 8,
        T::Map(..) => within(array.as_map().entries(), span(array.as_map().value_offsets())) + rows * 4,
        T::FixedSizeList(..) => value_bytes(array.as_fixed_size_list().values()),
        T::Struct(_) => array.as_struct().columns().iter().map(|column| value_bytes(column)).sum(),
        T::FixedSizeBinary(width) => rows * usize::try_from(*width).unwrap_or(0),
        T::Dictionary(key, _) => rows * key.primitive_width().unwrap_or(8),
        other => rows * other.primitive_width().unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int32Array, StringArray};
    use arrow_schema::{Field, Schema};

    use super::*;

    fn batch(texts: &[String]) -> RecordBatch {
        let schema = Schema::new(vec![Field::new("n", DataType::Int32, false), Field::new("s", DataType::Utf8, false)]);
        let numbers: ArrayRef = Arc::new((0..texts.len() as i32).collect::<Int32Array>());
        RecordBatch::try_new(Arc::new(schema), vec![numbers, Arc::new(StringArray::from(texts.to_vec()))]).unwrap()
    }

    fn chunk(whole: &RecordBatch, step: usize) -> Vec<RecordBatch> {
        let mut chunks = Chunks::new(whole.schema());
        let mut out = Vec::new();
        for start in (0..whole.num_rows()).step_by(step) {
            let mut batch = whole.slice(start, step.min(whole.num_rows() - start));
            while batch.num_rows() > 0 {
                out.extend(chunks.take(&mut batch).unwrap());
            }
        }
        out.extend(chunks.finish().unwrap());
        out
    }

    #[test]
    fn chunks_depend_on_the_rows_and_not_on_the_batches() {
        let narrow: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
        // Wide rows among narrow ones, and one row larger than a chunk.
        let wide: Vec<String> = (0..60usize).map(|n| "x".repeat(if n == 30 { 5 << 20 } else { (n % 7) << 17 })).collect();
        for (rows, at_least) in [(batch(&narrow), 3), (batch(&wide), 6)] {
            let expected = chunk(&rows, rows.num_rows());
            assert!(expected.len() >= at_least, "{}", expected.len());
            assert_eq!(concat_batches(&rows.schema(), &expected).unwrap(), rows);
            for step in [1, 7, 1000, 8191, 8192, 8193] {
                assert_eq!(chunk(&rows, step), expected, "step {step}");
            }
            for chunk in expected.iter().filter(|chunk| chunk.num_rows() > 1) {
                let bytes: usize = chunk.columns().iter().map(|column| value_bytes(column)).sum();
                assert!(bytes <= CHUNK_BYTES && chunk.num_rows() <= CHUNK_ROWS);
            }
        }
    }
}
