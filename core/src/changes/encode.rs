//! Rows as digests: two are equal exactly if the rows are, bit by bit.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, GenericListArray, ListArray, OffsetSizeTrait, RecordBatch, StructArray};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, ErrorKind, Result};

/// Half of a SHA-256: an accidental match is impossible all the same.
pub(super) type Digest = [u8; 16];

/// Digests rows of one schema.
#[derive(Debug)]
pub(super) struct Encoder(RowConverter);

impl Encoder {
    /// `Unsupported` for a column whose values have no exact encoding.
    pub(super) fn new(schema: &Schema) -> Result<Self> {
        let fields = schema.fields().iter().map(|field| {
            let sort = SortField::new(plain_type(field.data_type()));
            if RowConverter::supports_fields(std::slice::from_ref(&sort)) {
                return Ok(sort);
            }
            let problem = format!("values of type {} cannot be compared, so changed rows cannot be told", field.data_type());
            Err(Error::new(ErrorKind::Unsupported, problem).at("column", field.name()))
        });
        RowConverter::new(fields.collect::<Result<_>>()?).map(Self).map_err(uncomparable)
    }

    /// One digest for each row.
    pub(super) fn rows(&self, batch: &RecordBatch) -> Result<Vec<Digest>> {
        let columns = batch.columns().iter().map(plain).collect::<Result<Vec<_>, _>>();
        let rows = columns.and_then(|columns| self.0.convert_columns(&columns)).map_err(uncomparable)?;
        Ok(digests(&rows))
    }
}

/// One digest for each encoded row.
pub(super) fn digests(rows: &arrow_row::Rows) -> Vec<Digest> {
    let digest = |row: arrow_row::Row<'_>| {
        let whole: [u8; 32] = Sha256::digest(row.as_ref()).into();
        let mut half = Digest::default();
        half.copy_from_slice(&whole[..16]);
        half
    };
    rows.iter().map(digest).collect()
}

pub(super) fn uncomparable(source: ArrowError) -> Error {
    Error::invalid("the rows cannot be compared").because(source)
}

/// The type without maps, which the encoding does not know: a map is the list of its entries.
fn plain_type(data_type: &DataType) -> DataType {
    use DataType as T;
    match data_type {
        T::Map(entries, _) => T::List(plain_field(entries)),
        T::List(item) => T::List(plain_field(item)),
        T::LargeList(item) => T::LargeList(plain_field(item)),
        T::FixedSizeList(item, size) => T::FixedSizeList(plain_field(item), *size),
        T::Struct(fields) => T::Struct(fields.iter().map(plain_field).collect()),
        other => other.clone(),
    }
}

fn plain_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), plain_type(field.data_type()), field.is_nullable()))
}

/// The column in its [`plain_type`].
fn plain(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    use DataType as T;
    Ok(match column.data_type() {
        same if plain_type(same) == *same => column.clone(),
        T::Map(entries, _) => {
            let map = column.as_map();
            let items = plain(&(Arc::new(map.entries().clone()) as ArrayRef))?;
            Arc::new(ListArray::try_new(plain_field(entries), map.offsets().clone(), items, map.nulls().cloned())?)
        }
        T::List(item) => plain_list::<i32>(column, item)?,
        T::LargeList(item) => plain_list::<i64>(column, item)?,
        T::FixedSizeList(item, size) => {
            let list = column.as_fixed_size_list();
            Arc::new(FixedSizeListArray::try_new(plain_field(item), *size, plain(list.values())?, list.nulls().cloned())?)
        }
        T::Struct(fields) => {
            let all = column.as_struct();
            let columns = all.columns().iter().map(plain).collect::<Result<Vec<_>, _>>()?;
            let fields: Fields = fields.iter().map(plain_field).collect();
            Arc::new(StructArray::try_new_with_length(fields, columns, all.nulls().cloned(), all.len())?)
        }
        _ => column.clone(),
    })
}

fn plain_list<O: OffsetSizeTrait>(column: &ArrayRef, item: &FieldRef) -> Result<ArrayRef, ArrowError> {
    let list: &GenericListArray<O> = column.as_list();
    Ok(Arc::new(GenericListArray::try_new(plain_field(item), list.offsets().clone(), plain(list.values())?, list.nulls().cloned())?))
}
