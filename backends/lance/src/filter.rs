//! Filters, as Lance takes them.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use datafusion_common::{Column, DataFusionError, ScalarValue};
use datafusion_expr::expr::InList;
use datafusion_expr::{BinaryExpr, Expr, Operator, lit};
use headwater_core::filter::{Comparison, Filter};
use headwater_core::{Error, Result};

/// What lies deeper in a filter is not handed down: Lance refuses 500 levels, and its engine recurses.
const MAX_DEPTH: usize = 100;
/// Values listed one by one, at most.
const MAX_LISTED: usize = 10_000;

/// A condition that holds for every row that the filter passes, and for few others. The filter decides about those.
pub(crate) fn expression(filter: &Filter) -> Result<Expr> {
    convert(filter, false, 0)
}

/// That a column has one of these values, none of which is null. `None` where they are too many to be listed.
pub(crate) fn one_of(name: &str, values: &ArrayRef) -> Result<Option<Expr>> {
    if values.len() > MAX_LISTED {
        return Ok(None);
    }
    let value = |i| ScalarValue::try_from_array(values, i).map(|value| Expr::Literal(value, None)).map_err(unusable);
    let list = (0..values.len()).map(value).collect::<Result<Vec<_>>>()?;
    Ok(Some(Expr::InList(InList { expr: Box::new(column(name)), list, negated: false })))
}

/// The filter, or its opposite. What cannot be said exactly becomes true, and so there may be no `NOT` around anything.
fn convert(filter: &Filter, not: bool, depth: usize) -> Result<Expr> {
    if depth > MAX_DEPTH {
        return Ok(lit(true));
    }
    Ok(match filter {
        Filter::Compare { value, .. } if !agrees(value) => lit(true),
        Filter::Compare { column, op, value } => {
            let value = ScalarValue::try_from_array(value, 0).map_err(unusable)?;
            binary(self::column(column), operator(*op, not), Expr::Literal(value, None))
        }
        Filter::IsNull(column) if not => Expr::IsNotNull(Box::new(self::column(column))),
        Filter::IsNull(column) => Expr::IsNull(Box::new(self::column(column))),
        Filter::And(all) if not => fold(all, not, Operator::Or, false, depth)?,
        Filter::And(all) => fold(all, not, Operator::And, true, depth)?,
        Filter::Or(all) if not => fold(all, not, Operator::And, true, depth)?,
        Filter::Or(all) => fold(all, not, Operator::Or, false, depth)?,
        Filter::Not(inner) => convert(inner, !not, depth + 1)?,
    })
}

/// Whether Lance's engine compares with this value as [`Filter`] does, which tells 0.0 from -0.0 and has a place for NaN.
fn agrees(value: &ArrayRef) -> bool {
    if value.is_null(0) {
        return true;
    }
    let value = match value.data_type() {
        DataType::Float16 => f64::from(value.as_primitive::<Float16Type>().value(0)),
        DataType::Float32 => f64::from(value.as_primitive::<Float32Type>().value(0)),
        DataType::Float64 => value.as_primitive::<Float64Type>().value(0),
        _ => return true,
    };
    value != 0.0 && !value.is_nan()
}

fn column(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
}

fn operator(op: Comparison, not: bool) -> Operator {
    match (op, not) {
        (Comparison::Equal, false) | (Comparison::NotEqual, true) => Operator::Eq,
        (Comparison::NotEqual, false) | (Comparison::Equal, true) => Operator::NotEq,
        (Comparison::Less, false) | (Comparison::GreaterEqual, true) => Operator::Lt,
        (Comparison::LessEqual, false) | (Comparison::Greater, true) => Operator::LtEq,
        (Comparison::Greater, false) | (Comparison::LessEqual, true) => Operator::Gt,
        (Comparison::GreaterEqual, false) | (Comparison::Less, true) => Operator::GtEq,
    }
}

/// All parts, in a tree that is no deeper than it must be.
fn fold(all: &[Filter], not: bool, op: Operator, neutral: bool, depth: usize) -> Result<Expr> {
    Ok(match all {
        [] => lit(neutral),
        [part] => convert(part, not, depth + 1)?,
        _ => {
            let (left, right) = all.split_at(all.len() / 2);
            binary(fold(left, not, op, neutral, depth + 1)?, op, fold(right, not, op, neutral, depth + 1)?)
        }
    })
}

fn unusable(source: DataFusionError) -> Error {
    Error::invalid("the filter's value cannot be compared").because(source)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float64Array, Int64Array};

    use super::*;

    fn compare(value: ArrayRef) -> Filter {
        Filter::Compare { column: "x".into(), op: Comparison::Less, value }
    }

    fn depth(expression: &Expr) -> usize {
        match expression {
            Expr::BinaryExpr(BinaryExpr { left, right, .. }) => 1 + depth(left).max(depth(right)),
            _ => 1,
        }
    }

    #[test]
    fn no_filter_is_too_deep() {
        let number = |n| compare(Arc::new(Int64Array::from(vec![n])));
        let many = expression(&Filter::Or((0..10_000).map(number).collect())).unwrap();
        assert!(depth(&many) <= 16, "{}", depth(&many));
        let nested = (0..2_000).fold(number(0), |filter, n| match n % 2 {
            0 => Filter::And(vec![number(n), filter]),
            _ => Filter::Or(vec![number(n), filter]),
        });
        assert!(depth(&expression(&nested).unwrap()) <= MAX_DEPTH + 2);
        // Dropped one level after another: what drops a filter recurses, too.
        std::mem::forget(nested);
    }

    #[test]
    fn what_is_compared_otherwise_is_not_handed_down() {
        let number = || compare(Arc::new(Int64Array::from(vec![7])));
        let zero = || compare(Arc::new(Float64Array::from(vec![0.0])));
        let text = |filter| expression(&filter).unwrap().to_string();
        let not = |filter| Filter::Not(Box::new(filter));
        assert_eq!(text(number()), "x < Int64(7)");
        assert_eq!(text(not(number())), "x >= Int64(7)");
        assert_eq!(text(not(not(Filter::IsNull("x".into())))), "x IS NULL");
        for filter in [zero(), not(zero())] {
            assert_eq!(text(filter), "Boolean(true)");
        }
        assert_eq!(text(not(Filter::And(vec![zero(), number()]))), "Boolean(true) OR x >= Int64(7)");
        assert_eq!((text(Filter::Or(vec![])), text(not(Filter::Or(vec![])))), ("Boolean(false)".into(), "Boolean(true)".into()));
    }
}
