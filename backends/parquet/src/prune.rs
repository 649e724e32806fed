//! Whether a filter can hold for any row of a file or a row group, by bounds on its columns.

use arrow_array::{Array, ArrayRef, BooleanArray, Scalar};
use arrow_ord::cmp;
use arrow_schema::ArrowError;
use headwater_core::Result;
use headwater_core::filter::{Comparison, Filter};

/// What is known of a column: nothing outside `min..=max` in the order of Arrow's comparisons, each an array of length 1.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) min: Option<ArrayRef>,
    pub(crate) max: Option<ArrayRef>,
    pub(crate) nulls: Option<u64>,
    pub(crate) rows: u64,
}

/// Whether a condition can be true, and whether it can be false, for any row. Both are right to say yes too often.
#[derive(Clone, Copy)]
struct Possible {
    truth: bool,
    falsehood: bool,
}

const ANYTHING: Possible = Possible { truth: true, falsehood: true };

/// Whether any row may pass the filter. `bounds` answers for a column by name; `None` if nothing is known.
pub(crate) fn may_match(filter: &Filter, bounds: &dyn Fn(&str) -> Result<Option<Bounds>>) -> Result<bool> {
    Ok(possible(filter, bounds)?.truth)
}

fn possible(filter: &Filter, bounds: &dyn Fn(&str) -> Result<Option<Bounds>>) -> Result<Possible> {
    let all = |filters: &[Filter]| filters.iter().map(|filter| possible(filter, bounds)).collect::<Result<Vec<_>>>();
    Ok(match filter {
        Filter::Compare { column, op, value } => bounds(column)?.map_or(ANYTHING, |bounds| compare(*op, value, &bounds)),
        Filter::IsNull(column) => match bounds(column)? {
            Some(Bounds { nulls: Some(nulls), rows, .. }) => Possible { truth: nulls > 0, falsehood: nulls < rows },
            _ => ANYTHING,
        },
        Filter::And(filters) => {
            let all = all(filters)?;
            Possible { truth: all.iter().all(|one| one.truth), falsehood: all.iter().any(|one| one.falsehood) }
        }
        Filter::Or(filters) => {
            let all = all(filters)?;
            Possible { truth: all.iter().any(|one| one.truth), falsehood: all.iter().all(|one| one.falsehood) }
        }
        Filter::Not(inner) => {
            let inner = possible(inner, bounds)?;
            Possible { truth: inner.falsehood, falsehood: inner.truth }
        }
    })
}

fn compare(op: Comparison, value: &ArrayRef, bounds: &Bounds) -> Possible {
    // A comparison with null is neither.
    if value.is_null(0) || bounds.nulls == Some(bounds.rows) {
        return Possible { truth: false, falsehood: false };
    }
    type Kernel = fn(&dyn arrow_array::Datum, &dyn arrow_array::Datum) -> Result<BooleanArray, ArrowError>;
    // What is not known may be.
    let holds = |bound: &Option<ArrayRef>, kernel: Kernel| match bound {
        Some(bound) => match kernel(bound, &Scalar::new(value.clone())) {
            Ok(answer) if answer.len() == 1 && answer.is_valid(0) => answer.value(0),
            _ => true,
        },
        None => true,
    };
    let equal = Possible {
        truth: holds(&bounds.min, cmp::lt_eq) && holds(&bounds.max, cmp::gt_eq),
        falsehood: holds(&bounds.min, cmp::neq) || holds(&bounds.max, cmp::neq),
    };
    let less = Possible { truth: holds(&bounds.min, cmp::lt), falsehood: holds(&bounds.max, cmp::gt_eq) };
    let less_equal = Possible { truth: holds(&bounds.min, cmp::lt_eq), falsehood: holds(&bounds.max, cmp::gt) };
    let not = |possible: Possible| Possible { truth: possible.falsehood, falsehood: possible.truth };
    match op {
        Comparison::Equal => equal,
        Comparison::NotEqual => not(equal),
        Comparison::Less => less,
        Comparison::GreaterEqual => not(less),
        Comparison::LessEqual => less_equal,
        Comparison::Greater => not(less_equal),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, RecordBatch};
    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    /// Every filter of a small family over every column of a small family: what is pruned must have no row.
    #[test]
    fn nothing_that_matches_is_pruned_and_pruning_happens() {
        let ops = [
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::LessEqual,
            Comparison::Greater,
            Comparison::GreaterEqual,
        ];
        let mut leaves = vec![Filter::IsNull("n".into())];
        for op in ops {
            for value in [Some(0), Some(1), Some(2), Some(3), Some(4), None] {
                leaves.push(Filter::Compare { column: "n".into(), op, value: Arc::new(Int64Array::from(vec![value])) });
            }
        }
        let mut filters = leaves.clone();
        for a in &leaves {
            filters.push(Filter::Not(Box::new(a.clone())));
            for b in &leaves {
                filters.push(Filter::And(vec![a.clone(), b.clone()]));
                filters.push(Filter::Not(Box::new(Filter::Or(vec![a.clone(), b.clone()]))));
                filters.push(Filter::Or(vec![Filter::Not(Box::new(a.clone())), b.clone()]));
            }
        }
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let mut pruned = 0;
        for values in [vec![Some(1), Some(3)], vec![Some(2)], vec![Some(2), None], vec![None, None], vec![Some(1), Some(2), Some(3), None]]
        {
            let column = Int64Array::from(values.clone());
            let known = values.iter().flatten();
            let bound = |value: Option<&i64>| value.map(|value| Arc::new(Int64Array::from(vec![*value])) as ArrayRef);
            let (min, max) = (bound(known.clone().min()), bound(known.max()));
            let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(column.clone())]).unwrap();
            for filter in &filters {
                let bounds = |_: &str| {
                    let nulls = Some(column.null_count() as u64);
                    Ok(Some(Bounds { min: min.clone(), max: max.clone(), nulls, rows: column.len() as u64 }))
                };
                if !may_match(filter, &bounds).unwrap() {
                    pruned += 1;
                    assert_eq!(filter.apply(&batch).unwrap().num_rows(), 0, "{filter:?} over {values:?}");
                }
                assert!(filter.apply(&batch).unwrap().num_rows() == 0 || may_match(filter, &|_| Ok(None)).unwrap());
            }
        }
        assert!(pruned > 1000, "{pruned}");
    }
}
