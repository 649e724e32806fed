//! Points in time, ready to be printed. Arrow's formatters know offsets but not the names of time zones; a zone's name does not change which
//! instant a value is, so that every named zone is printed as UTC.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_schema::{DataType, Field, Schema};
use headwater::schema::with_inner_types;
use headwater::{Error, Result};

/// The batch with every named time zone replaced by its instant in UTC.
pub(super) fn printable(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    if !schema.fields().iter().any(|field| renamed(field.data_type()).is_some()) {
        return Ok(batch.clone());
    }
    let failed = |source| Error::invalid("the rows cannot be printed").because(source);
    let columns = batch.columns().iter().map(|column| with_offset(column).map_err(failed)).collect::<Result<Vec<_>>>()?;
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .zip(&columns)
        .map(|(field, column)| Field::new(field.name(), column.data_type().clone(), field.is_nullable()))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map_err(failed)
}

/// The type with an offset instead of a named zone; `None` if it has none.
fn renamed(data_type: &DataType) -> Option<DataType> {
    with_inner_types(data_type, &|inner| match inner {
        DataType::Timestamp(unit, Some(zone)) if !zone.starts_with(['+', '-']) => Some(DataType::Timestamp(*unit, Some("+00:00".into()))),
        _ => None,
    })
}

fn with_offset(column: &ArrayRef) -> Result<ArrayRef, arrow_schema::ArrowError> {
    let Some(data_type) = renamed(column.data_type()) else { return Ok(column.clone()) };
    let data = column.to_data();
    let children = data.child_data().iter().map(|child| with_offset(&make_array(child.clone())).map(|child| child.to_data()));
    let children = children.collect::<Result<Vec<_>, _>>()?;
    data.into_builder().data_type(data_type).child_data(children).build().map(make_array)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, StructArray, TimestampMicrosecondArray};
    use arrow_cast::display::array_value_to_string;

    use super::*;

    #[test]
    fn named_zones_print_as_utc_at_every_level() {
        let at: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(0), None]).with_timezone("Europe/Berlin"));
        let field = Arc::new(Field::new("at", at.data_type().clone(), true));
        let nested: ArrayRef = Arc::new(StructArray::from(vec![(field, at.clone())]));
        let batch = RecordBatch::try_from_iter([("at", at), ("nested", nested)]).unwrap();
        let printable = printable(&batch).unwrap();
        assert_eq!(array_value_to_string(printable.column(0), 0).unwrap(), "1970-01-01T00:00:00Z");
        assert!(printable.column(0).is_null(1));
        assert_eq!(array_value_to_string(printable.column(1), 0).unwrap(), "{at: 1970-01-01T00:00:00Z}");
    }
}
