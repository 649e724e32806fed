//! Conditions, as stores take them.

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use headwater_core::filter::{Comparison, Filter};

/// A list of more values than this is looked up by DataFusion, which hashes it.
const LIST: usize = 32;

/// What a store can do for a condition.
pub(crate) struct Pushed {
    /// Passes every row for which the condition is true.
    pub(crate) filter: Filter,
    /// And no other.
    pub(crate) exact: bool,
}

/// The filter for a condition on a table of this schema; `None` where it has nothing to say.
pub(crate) fn pushed(condition: &Expr, schema: &Schema) -> Option<Pushed> {
    match exact(condition, schema) {
        Some(filter) => Some(Pushed { filter, exact: true }),
        None => weaker(condition, schema).map(|filter| Pushed { filter, exact: false }),
    }
}

/// The same condition: true, false and unknown for the same rows.
fn exact(condition: &Expr, schema: &Schema) -> Option<Filter> {
    Some(match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => Filter::And(vec![exact(left, schema)?, exact(right, schema)?]),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => Filter::Or(vec![exact(left, schema)?, exact(right, schema)?]),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let op = comparison(*op)?;
            match (left.as_ref(), right.as_ref()) {
                (Expr::Column(column), Expr::Literal(value, _)) => compare(&column.name, op, value, schema)?,
                (Expr::Literal(value, _), Expr::Column(column)) => compare(&column.name, turned(op), value, schema)?,
                _ => return None,
            }
        }
        Expr::Not(inner) => not(exact(inner, schema)?),
        Expr::IsNull(inner) => Filter::IsNull(column(inner, schema)?),
        Expr::IsNotNull(inner) => not(Filter::IsNull(column(inner, schema)?)),
        Expr::Between(Between { expr, negated, low, high }) => {
            let (Expr::Column(column), Expr::Literal(low, _), Expr::Literal(high, _)) = (expr.as_ref(), low.as_ref(), high.as_ref()) else {
                return None;
            };
            let bound = |op, value| compare(&column.name, op, value, schema);
            signed(*negated, Filter::And(vec![bound(Comparison::GreaterEqual, low)?, bound(Comparison::LessEqual, high)?]))
        }
        Expr::InList(InList { expr, list, negated }) if list.len() <= LIST => {
            let Expr::Column(column) = expr.as_ref() else { return None };
            let equal = |item: &Expr| match item {
                Expr::Literal(value, _) => compare(&column.name, Comparison::Equal, value, schema),
                _ => None,
            };
            signed(*negated, Filter::Or(list.iter().map(equal).collect::<Option<_>>()?))
        }
        // A column of truth values is a condition by itself.
        Expr::Column(column) => compare(&column.name, Comparison::Equal, &ScalarValue::Boolean(Some(true)), schema)?,
        _ => return None,
    })
}

/// A condition that is true wherever this one is.
fn weaker(condition: &Expr, schema: &Schema) -> Option<Filter> {
    let of = |side: &Expr| exact(side, schema).or_else(|| weaker(side, schema));
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => match (of(left), of(right)) {
            (Some(left), Some(right)) => Some(Filter::And(vec![left, right])),
            (one, other) => one.or(other),
        },
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => Some(Filter::Or(vec![of(left)?, of(right)?])),
        Expr::InList(InList { expr, list, negated: false }) => {
            let Expr::Column(column) = expr.as_ref() else { return None };
            let bound = |op| {
                let mut outermost: Option<&ScalarValue> = None;
                for item in list {
                    let Expr::Literal(value, _) = item else { return None };
                    compare(&column.name, op, value, schema)?;
                    let beyond = |bound: &ScalarValue| match op {
                        Comparison::GreaterEqual => value < bound,
                        _ => value > bound,
                    };
                    if outermost.is_none_or(beyond) {
                        outermost = Some(value);
                    }
                }
                compare(&column.name, op, outermost?, schema)
            };
            Some(Filter::And(vec![bound(Comparison::GreaterEqual)?, bound(Comparison::LessEqual)?]))
        }
        _ => None,
    }
}

fn compare(column: &str, op: Comparison, value: &ScalarValue, schema: &Schema) -> Option<Filter> {
    let field = schema.field_with_name(column).ok()?;
    let value = of_type(value, field.data_type())?;
    Some(Filter::Compare { column: column.to_owned(), op, value })
}

/// The value in the column's type, if comparing the two means the same in SQL and in a [`Filter`]: that is not so for floating-point zeros
/// and NaN, of which a filter tells the sign, nor for types that have no one order. A comparison with null is DataFusion's to simplify.
fn of_type(value: &ScalarValue, data_type: &DataType) -> Option<ArrayRef> {
    use DataType as T;
    let ambiguous = match value {
        ScalarValue::Float16(Some(value)) => f64::from(*value).is_nan() || f64::from(*value) == 0.0,
        ScalarValue::Float32(Some(value)) => value.is_nan() || *value == 0.0,
        ScalarValue::Float64(Some(value)) => value.is_nan() || *value == 0.0,
        _ => false,
    };
    let text = |data_type: &T| matches!(data_type, T::Utf8 | T::LargeUtf8 | T::Utf8View);
    let ordered = text(data_type)
        || (data_type.is_primitive() && !matches!(data_type, T::Interval(_)))
        || matches!(data_type, T::Boolean | T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_));
    if value.is_null() || ambiguous || !ordered {
        return None;
    }
    let value = match value.data_type() {
        same if same == *data_type => value.to_array(),
        other if text(&other) && text(data_type) => value.cast_to(data_type).and_then(|value| value.to_array()),
        _ => return None,
    };
    value.ok()
}

fn column(expression: &Expr, schema: &Schema) -> Option<String> {
    match expression {
        Expr::Column(column) => schema.field_with_name(&column.name).ok().map(|field| field.name().clone()),
        _ => None,
    }
}

fn not(filter: Filter) -> Filter {
    Filter::Not(Box::new(filter))
}

fn signed(negated: bool, filter: Filter) -> Filter {
    if negated { not(filter) } else { filter }
}

fn comparison(op: Operator) -> Option<Comparison> {
    Some(match op {
        Operator::Eq => Comparison::Equal,
        Operator::NotEq => Comparison::NotEqual,
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterEqual,
        _ => return None,
    })
}

/// The comparison with its sides exchanged.
fn turned(op: Comparison) -> Comparison {
    match op {
        Comparison::Less => Comparison::Greater,
        Comparison::LessEqual => Comparison::GreaterEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterEqual => Comparison::LessEqual,
        Comparison::Equal | Comparison::NotEqual => op,
    }
}
