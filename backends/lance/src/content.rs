//! A digest of rows that depends on their values and their order alone: not on how they are cut into batches, nor on what stands where a
//! value is null.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::ArrowNativeType;
use arrow_schema::{ArrowError, DataType, Schema};
use headwater_core::json::hex;
use headwater_core::schema::schema_hash;
use sha2::{Digest, Sha256};

/// The rows seen so far.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    schema: String,
    columns: Vec<Column>,
    pub(crate) rows: u64,
}

/// One column, or a column within one. What has a length of its own has a digest of its own, so that none depends on where a batch ends.
#[derive(Clone, Debug, Default)]
struct Column {
    /// A byte for each value: whether there is one.
    valid: Sha256,
    /// The length of each value that has one.
    lengths: Sha256,
    values: Sha256,
    children: Vec<Column>,
}

impl Content {
    /// No rows yet.
    pub(crate) fn new(schema: &Schema) -> Self {
        Self { schema: schema_hash(schema), columns: vec![Column::default(); schema.fields().len()], rows: 0 }
    }

    /// Adds rows at the end.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.rows += batch.num_rows() as u64;
        self.columns.iter_mut().zip(batch.columns()).try_for_each(|(column, array)| column.add(array))
    }

    /// SHA-256 (hex) of all of it.
    pub(crate) fn digest(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.schema.as_bytes());
        hash.update(self.rows.to_le_bytes());
        self.columns.iter().for_each(|column| column.finish(&mut hash));
        hex(&hash.finalize())
    }
}

impl Column {
    fn finish(&self, into: &mut Sha256) {
        for part in [&self.valid, &self.lengths, &self.values] {
            into.update(part.clone().finalize());
        }
        into.update((self.children.len() as u64).to_le_bytes());
        self.children.iter().for_each(|child| child.finish(into));
    }

    fn child(&mut self, at: usize) -> &mut Self {
        while self.children.len() <= at {
            self.children.push(Self::default());
        }
        &mut self.children[at]
    }

    fn add(&mut self, array: &ArrayRef) -> Result<(), ArrowError> {
        let nulls = array.logical_nulls();
        let valid: Vec<u8> = match &nulls {
            None => vec![1; array.len()],
            Some(nulls) => nulls.iter().map(u8::from).collect(),
        };
        self.valid.update(&valid);
        match nulls.filter(|nulls| nulls.null_count() > 0) {
            None => self.values(array),
            Some(nulls) => self.values(&arrow_select::filter::filter(array, &BooleanArray::new(nulls.into_inner(), None))?),
        }
    }

    /// Adds values none of which is null.
    fn values(&mut self, array: &ArrayRef) -> Result<(), ArrowError> {
        use DataType as T;
        match array.data_type() {
            T::Null => {}
            T::Boolean => self.values.update(array.as_boolean().values().iter().map(u8::from).collect::<Vec<_>>()),
            T::Utf8 => {
                let array = array.as_string::<i32>();
                self.bytes(array.value_offsets(), array.value_data());
            }
            T::LargeUtf8 => {
                let array = array.as_string::<i64>();
                self.bytes(array.value_offsets(), array.value_data());
            }
            T::Binary => {
                let array = array.as_binary::<i32>();
                self.bytes(array.value_offsets(), array.value_data());
            }
            T::LargeBinary => {
                let array = array.as_binary::<i64>();
                self.bytes(array.value_offsets(), array.value_data());
            }
            T::Utf8View => self.values(&arrow_cast::cast(array, &T::LargeUtf8)?)?,
            T::BinaryView => self.values(&arrow_cast::cast(array, &T::LargeBinary)?)?,
            // A value of a dictionary may be null although no key is: seen as null above.
            T::Dictionary(_, value) => self.values(&arrow_cast::cast(array, value)?)?,
            T::List(_) => {
                let array = array.as_list::<i32>();
                self.items(array.value_offsets(), array.values())?;
            }
            T::LargeList(_) => {
                let array = array.as_list::<i64>();
                self.items(array.value_offsets(), array.values())?;
            }
            T::Map(..) => {
                let array = array.as_map();
                let entries: ArrayRef = Arc::new(array.entries().clone());
                self.items(array.value_offsets(), &entries)?;
            }
            T::FixedSizeList(..) => self.child(0).add(array.as_fixed_size_list().values())?,
            T::Struct(_) => {
                for (at, column) in array.as_struct().columns().iter().enumerate() {
                    self.child(at).add(column)?;
                }
            }
            T::FixedSizeBinary(width) => self.fixed(array, usize::try_from(*width).unwrap_or_default())?,
            other => match other.primitive_width() {
                Some(width) => self.fixed(array, width)?,
                None => return Err(ArrowError::NotYetImplemented(format!("a digest of {other}"))),
            },
        }
        Ok(())
    }

    fn fixed(&mut self, array: &ArrayRef, width: usize) -> Result<(), ArrowError> {
        let data = array.to_data();
        let (start, end) = (data.offset() * width, (data.offset() + data.len()) * width);
        let bytes = data.buffers().first().and_then(|buffer| buffer.as_slice().get(start..end));
        self.values.update(bytes.ok_or_else(|| ArrowError::InvalidArgumentError("a column is shorter than it says".to_owned()))?);
        Ok(())
    }

    fn bytes<O: ArrowNativeType>(&mut self, offsets: &[O], bytes: &[u8]) {
        let (start, end) = self.spans(offsets);
        self.values.update(bytes.get(start..end).unwrap_or_default());
    }

    fn items<O: ArrowNativeType>(&mut self, offsets: &[O], items: &ArrayRef) -> Result<(), ArrowError> {
        let (start, end) = self.spans(offsets);
        self.child(0).add(&items.slice(start, end - start))
    }

    /// Adds the lengths between offsets; from where to where they reach.
    fn spans<O: ArrowNativeType>(&mut self, offsets: &[O]) -> (usize, usize) {
        let lengths = offsets.windows(2).flat_map(|two| ((two[1].as_usize() - two[0].as_usize()) as u64).to_le_bytes());
        self.lengths.update(lengths.collect::<Vec<_>>());
        let end = |offset: Option<&O>| offset.map_or(0, |offset| offset.as_usize());
        (end(offsets.first()), end(offsets.last()))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;
    use arrow_array::{DictionaryArray, Int64Array, ListArray, StringArray, StringViewArray, StructArray};
    use arrow_schema::Field;

    use super::*;

    fn batch() -> RecordBatch {
        let strings = StringArray::from(vec![Some("a"), None, Some(""), Some("ä"), Some("bc")]);
        let views: StringViewArray = strings.iter().collect();
        let dictionary: DictionaryArray<Int32Type> = strings.iter().collect();
        let lists = [Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(2)]), Some(vec![None])];
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
        let numbers = Int64Array::from(vec![Some(1), Some(2), None, Some(4), Some(5)]);
        let part = StructArray::from(vec![(Arc::new(Field::new("n", DataType::Int64, true)), Arc::new(numbers.clone()) as ArrayRef)]);
        let columns: Vec<ArrayRef> =
            vec![Arc::new(strings), Arc::new(views), Arc::new(dictionary), Arc::new(lists), Arc::new(numbers), Arc::new(part)];
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().enumerate().map(|(i, column)| (format!("c{i}"), column, true)))
            .unwrap()
    }

    fn digest(parts: &[RecordBatch]) -> String {
        let mut content = Content::new(&batch().schema());
        parts.iter().for_each(|part| content.add(part).unwrap());
        content.digest()
    }

    #[test]
    fn the_digest_sees_values_and_order_and_no_batches() {
        let whole = batch();
        let first = digest(std::slice::from_ref(&whole));
        for cut in 0..=5 {
            assert_eq!(digest(&[whole.slice(0, cut), whole.slice(cut, 5 - cut)]), first, "cut at {cut}");
        }
        let all: Vec<RecordBatch> = (0..5).map(|i| whole.slice(i, 1)).collect();
        let others =
            [vec![all[0].clone(), all[1].clone()], vec![all[1].clone(), all[0].clone()], vec![all[0].clone(), all[0].clone()], vec![]];
        let mut seen = vec![first];
        for other in others {
            let digest = digest(&other);
            assert!(!seen.contains(&digest), "{other:?}");
            seen.push(digest);
        }
    }

    #[test]
    fn every_single_value_counts() {
        let whole = batch();
        let first = digest(std::slice::from_ref(&whole));
        for column in 0..whole.num_columns() {
            for (row, other) in (0..5).flat_map(|row| (0..5).map(move |other| (row, other))) {
                let indices = arrow_array::UInt32Array::from_iter_values((0..5).map(|i| if i == row { other } else { i }));
                let mut columns = whole.columns().to_vec();
                columns[column] = arrow_select::take::take(&columns[column], &indices, None).unwrap();
                let changed = RecordBatch::try_new(whole.schema(), columns).unwrap();
                assert_eq!(digest(&[changed]) == first, row == other, "column {column}, row {row} from {other}");
            }
        }
    }

    /// What stands beneath a null is no value.
    #[test]
    fn nulls_hide_what_is_beneath_them() {
        let numbers = |beneath: i64| {
            let nulls = arrow_buffer::NullBuffer::from(vec![true, false]);
            let column: ArrayRef = Arc::new(Int64Array::new(vec![1, beneath].into(), Some(nulls)));
            RecordBatch::try_from_iter_with_nullable([("n", column, true)]).unwrap()
        };
        let digest = |batch: RecordBatch| {
            let mut content = Content::new(&batch.schema());
            content.add(&batch).unwrap();
            content.digest()
        };
        assert_eq!(digest(numbers(7)), digest(numbers(8)));
    }
}
