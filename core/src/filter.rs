//! A filter over rows: a closed, serializable expression that every store evaluates the same way.

use std::fmt;
use std::sync::Arc;

use arrow_arith::boolean::{and_kleene, is_null, not, or_kleene};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, Scalar};
use arrow_cast::display::array_value_to_string;
use arrow_ord::cmp;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType, Schema};
use arrow_select::filter::filter_record_batch;

use crate::error::{Error, Result};
use crate::json::hex;

/// A condition on a row. Null behaves as in SQL: a comparison with null is neither true nor false, and a row passes only if the whole is true.
#[derive(Clone, Debug)]
pub enum Filter {
    /// Compares a column with a value.
    Compare {
        /// The column's name.
        column: String,
        /// How.
        op: Comparison,
        /// The value, of the column's type: an array of length 1.
        value: ArrayRef,
    },
    /// The column is null.
    IsNull(String),
    /// All of these.
    And(Vec<Filter>),
    /// Any of these.
    Or(Vec<Filter>),
    /// Not this.
    Not(Box<Filter>),
}

/// How a [`Filter`] compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
}

impl Comparison {
    /// As SQL writes it.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
        }
    }
}

impl fmt::Display for Filter {
    /// As a person would write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spell(text))
    }
}

impl Filter {
    /// A text that two filters share only if they pass the same rows of a table: what a retry is known by.
    pub fn identity(&self) -> String {
        self.spell(exact)
    }

    fn spell(&self, value: fn(&ArrayRef) -> String) -> String {
        let all = |filters: &[Self], word: &str, none: &str| match filters {
            [] => none.to_owned(),
            _ => format!("({})", filters.iter().map(|filter| filter.spell(value)).collect::<Vec<_>>().join(word)),
        };
        match self {
            Self::Compare { column, op, value: compared } => format!("{column:?} {} {}", op.symbol(), value(compared)),
            Self::IsNull(column) => format!("{column:?} is null"),
            Self::And(filters) => all(filters, " and ", "true"),
            Self::Or(filters) => all(filters, " or ", "false"),
            Self::Not(filter) => format!("not {}", filter.spell(value)),
        }
    }
}

/// A value to the bit: texts that mean others, lists that print alike and the sign of a NaN differ in it.
fn exact(value: &ArrayRef) -> String {
    let rows = RowConverter::new(vec![SortField::new(value.data_type().clone())]);
    match rows.and_then(|rows| rows.convert_columns(std::slice::from_ref(value))) {
        Ok(rows) => rows.iter().map(|row| hex(row.as_ref())).collect(),
        // A type that has no order, such as a map.
        Err(_) => format!("{value:?}"),
    }
}

/// The first value of an array, as errors print it: texts quoted, null as `null`.
pub(crate) fn text(value: &ArrayRef) -> String {
    if value.is_empty() || value.is_null(0) {
        return "null".to_owned();
    }
    match (array_value_to_string(value, 0), value.data_type()) {
        (Ok(text), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => format!("{text:?}"),
        (Ok(text), _) => text,
        // A time zone this build does not know by name.
        (Err(_), _) => format!("{:?}", value.slice(0, 1)),
    }
}

impl Filter {
    /// The names of the columns it reads, each once.
    pub fn columns(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.collect(&mut names);
        names.sort_unstable();
        names.dedup();
        names
    }

    fn collect<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Compare { column, .. } | Self::IsNull(column) => names.push(column),
            Self::And(all) | Self::Or(all) => all.iter().for_each(|filter| filter.collect(names)),
            Self::Not(inner) => inner.collect(names),
        }
    }

    /// Refuses a column the schema lacks, or a value of another type.
    pub fn check(&self, schema: &Schema) -> Result<()> {
        match self {
            Self::Compare { column, value, .. } => {
                let field = find(schema, column)?;
                if value.len() != 1 || value.data_type() != field.data_type() {
                    return Err(Error::invalid(format!(
                        "column {column:?} is {}, the value compared with it is {}",
                        field.data_type(),
                        value.data_type()
                    )));
                }
                Ok(())
            }
            Self::IsNull(column) => find(schema, column).map(|_| ()),
            Self::And(all) | Self::Or(all) => all.iter().try_for_each(|filter| filter.check(schema)),
            Self::Not(inner) => inner.check(schema),
        }
    }

    /// As [`Filter::check`], and refuses types whose values cannot be compared: before anything is read, and not in the middle of it.
    pub fn validate(&self, schema: &Schema) -> Result<()> {
        self.check(schema)?;
        let names = self.columns();
        let fields: Vec<_> = schema.fields().iter().filter(|field| names.contains(&field.name().as_str())).cloned().collect();
        self.apply(&RecordBatch::new_empty(Arc::new(Schema::new(fields)))).map(drop)
    }

    /// For each row: true, false, or null for unknown.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray, ArrowError> {
        let column = |name: &str| batch.column_by_name(name).ok_or_else(|| ArrowError::SchemaError(format!("there is no column {name:?}")));
        match self {
            Self::Compare { column: name, op, value } => {
                let (column, value) = (column(name)?, Scalar::new(value.clone()));
                match op {
                    Comparison::Equal => cmp::eq(column, &value),
                    Comparison::NotEqual => cmp::neq(column, &value),
                    Comparison::Less => cmp::lt(column, &value),
                    Comparison::LessEqual => cmp::lt_eq(column, &value),
                    Comparison::Greater => cmp::gt(column, &value),
                    Comparison::GreaterEqual => cmp::gt_eq(column, &value),
                }
            }
            Self::IsNull(name) => is_null(column(name)?),
            Self::And(all) => fold(all, batch, true, and_kleene),
            Self::Or(all) => fold(all, batch, false, or_kleene),
            Self::Not(inner) => not(&inner.evaluate(batch)?),
        }
    }

    /// The rows that pass.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        self.evaluate(batch)
            .and_then(|mask| filter_record_batch(batch, &mask))
            .map_err(|source| Error::invalid("the filter does not fit the rows").because(source))
    }
}

fn find<'a>(schema: &'a Schema, column: &str) -> Result<&'a arrow_schema::Field> {
    schema.field_with_name(column).map_err(|_| {
        let known: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        Error::invalid(format!("there is no column {column:?}; the table has {}", known.join(", ")))
    })
}

type Kleene = fn(&BooleanArray, &BooleanArray) -> Result<BooleanArray, ArrowError>;

fn fold(all: &[Filter], batch: &RecordBatch, neutral: bool, join: Kleene) -> Result<BooleanArray, ArrowError> {
    let mut mask = BooleanArray::from(vec![neutral; batch.num_rows()]);
    for filter in all {
        mask = join(&mask, &filter.evaluate(batch)?)?;
    }
    Ok(mask)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use arrow_schema::{Field, Schema};

    use super::*;

    fn compare(op: Comparison, value: i64) -> Filter {
        Filter::Compare { column: "n".into(), op, value: Arc::new(Int64Array::from(vec![value])) }
    }

    #[test]
    fn null_is_neither_true_nor_false() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
        let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
        let rows = |filter: Filter| filter.apply(&batch).unwrap().num_rows();
        assert_eq!(rows(compare(Comparison::Less, 3)), 1);
        assert_eq!(rows(Filter::Not(Box::new(compare(Comparison::Less, 3)))), 1);
        assert_eq!(rows(Filter::Or(vec![compare(Comparison::Less, 3), Filter::IsNull("n".into())])), 2);
        assert_eq!(rows(Filter::And(vec![])), 3);
        assert_eq!(rows(Filter::Or(vec![])), 0);
    }

    #[test]
    fn what_prints_alike_is_told_apart() {
        use arrow_array::builder::{ListBuilder, StringBuilder};
        use arrow_array::{Float64Array, StringArray};
        let list = |items: &[&str]| -> ArrayRef {
            let mut list = ListBuilder::new(StringBuilder::new());
            items.iter().for_each(|item| list.values().append_value(item));
            list.append(true);
            Arc::new(list.finish())
        };
        let equal = |value: ArrayRef| Filter::Compare { column: "n".into(), op: Comparison::Equal, value };
        let pairs: [(ArrayRef, ArrayRef); 4] = [
            (list(&["a, b"]), list(&["a", "b"])),
            (list(&[]), list(&[""])),
            (Arc::new(Float64Array::from(vec![f64::NAN])), Arc::new(Float64Array::from(vec![-f64::NAN]))),
            (Arc::new(StringArray::from(vec!["null"])), Arc::new(StringArray::from(vec![None::<&str>]))),
        ];
        for (one, other) in pairs {
            assert_ne!(equal(one.clone()).identity(), equal(other).identity());
            assert_eq!(equal(one.clone()).identity(), equal(one).identity());
        }
        assert_eq!(equal(Arc::new(StringArray::from(vec!["x"]))).to_string(), "\"n\" = \"x\"");
    }
}
