//! The content digest: over values alone, column by column, so that neither how rows were cut into batches nor what lies under a null counts.

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema};
use headwater_core::json::{hex, sha256};
use headwater_core::schema::schema_hash;
use sha2::{Digest, Sha256};

/// The types that have one run of bytes for a value. This store keeps no others.
pub(crate) fn is_plain(data_type: &DataType) -> bool {
    use DataType as T;
    data_type.primitive_width().is_some() || matches!(data_type, T::Boolean | T::Utf8 | T::LargeUtf8 | T::Binary | T::LargeBinary)
}

/// The running digests of a change's columns.
pub(crate) struct Content(Vec<Sha256>);

impl Content {
    pub(crate) fn new(schema: &Schema) -> Self {
        Self(vec![Sha256::new(); schema.fields().len()])
    }

    /// Adds rows of plain types.
    pub(crate) fn add(&mut self, batch: &RecordBatch) {
        for (digest, column) in self.0.iter_mut().zip(batch.columns()) {
            match column.data_type() {
                DataType::Boolean => each(digest, column, |row| if column.as_boolean().value(row) { &[1] } else { &[0] }),
                DataType::Utf8 => each(digest, column, |row| column.as_string::<i32>().value(row).as_bytes()),
                DataType::LargeUtf8 => each(digest, column, |row| column.as_string::<i64>().value(row).as_bytes()),
                DataType::Binary => each(digest, column, |row| column.as_binary::<i32>().value(row)),
                DataType::LargeBinary => each(digest, column, |row| column.as_binary::<i64>().value(row)),
                fixed => {
                    let (data, width) = (column.to_data(), fixed.primitive_width().unwrap_or_default());
                    let values = data.buffers().first().map(|buffer| buffer.as_slice()).unwrap_or_default();
                    each(digest, column, |row| values.get((data.offset() + row) * width..).map_or(&[], |from| &from[..width]));
                }
            }
        }
    }

    pub(crate) fn finish(self, schema: &Schema) -> String {
        let columns = self.0.into_iter().map(|digest| hex(&digest.finalize()));
        sha256(std::iter::once(schema_hash(schema)).chain(columns).collect::<Vec<_>>().join("\n").as_bytes())
    }
}

fn each<'a>(digest: &mut Sha256, column: &dyn Array, value: impl Fn(usize) -> &'a [u8]) {
    for row in 0..column.len() {
        // A length no value has stands for null.
        let (length, bytes) = if column.is_null(row) { (u64::MAX, &[][..]) } else { (value(row).len() as u64, value(row)) };
        digest.update(length.to_le_bytes());
        digest.update(bytes);
    }
}
