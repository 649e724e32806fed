//! `--where`: a column, a comparison and a value.

use arrow_schema::Schema;
use headwater::filter::{Comparison, Filter};
use headwater::{Error, Result};

use super::input::Column;
use super::schema_text::type_name;

/// Longer operators stand before those they begin with.
const OPERATORS: &[(&str, Comparison)] = &[
    ("<>", Comparison::NotEqual),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessEqual),
    (">=", Comparison::GreaterEqual),
    ("==", Comparison::Equal),
    ("=", Comparison::Equal),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// The filter that all these conditions make; `None` without any.
pub(crate) fn parse_all(conditions: &[String], schema: &Schema) -> Result<Option<Filter>> {
    let mut filters = conditions.iter().map(|text| parse(text, schema)).collect::<Result<Vec<_>>>()?;
    Ok(match filters.len() {
        0 | 1 => filters.pop(),
        _ => Some(Filter::And(filters)),
    })
}

fn parse(text: &str, schema: &Schema) -> Result<Filter> {
    let malformed = || {
        let known: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let message = format!(
            "the condition {text:?} is not \"COLUMN OP VALUE\" with =, <>, <, <=, >, >=, nor \"COLUMN is [not] null\"; the columns are {}",
            known.join(", ")
        );
        Error::invalid(message)
    };
    // A column's name may hold spaces and operators: the longest one that the condition begins with is meant.
    let trimmed = text.trim_start();
    let begins = |name: &str| trimmed.strip_prefix(name).filter(|rest| rest.starts_with(|c: char| c.is_whitespace() || "<>=!".contains(c)));
    let found = schema.fields().iter().filter_map(|field| begins(field.name()).map(|rest| (field, rest)));
    let (field, rest) = found.max_by_key(|(field, _)| field.name().len()).ok_or_else(malformed)?;
    let rest = rest.trim();
    let words = rest.to_ascii_lowercase();
    match words.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["is", "null"] => return Ok(Filter::IsNull(field.name().clone())),
        ["is", "not", "null"] => return Ok(Filter::Not(Box::new(Filter::IsNull(field.name().clone())))),
        _ => {}
    }
    let (op, value) =
        OPERATORS.iter().find_map(|(sign, op)| rest.strip_prefix(sign).map(|value| (*op, value.trim()))).ok_or_else(malformed)?;
    // The value is read as a cell of the column would be.
    let mut column = Column::of_text(field)?;
    let quoted = value.len() >= 2 && value.starts_with('\'') && value.ends_with('\'');
    let value = if quoted { value[1..value.len() - 1].replace("''", "'") } else { value.to_owned() };
    column.push_text(Some(&value)).map_err(|misfit| {
        let message = format!("{}; the condition {text:?} needs a value of type {}", misfit.problem, type_name(field.data_type()));
        Error::invalid(message).at("column", field.name())
    })?;
    Ok(Filter::Compare { column: field.name().clone(), op, value: column.finish()? })
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field};

    use super::*;

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("n", DataType::Int64, true),
            Field::new("n m", DataType::Utf8, true),
            Field::new("day", DataType::Date32, true),
        ])
    }

    fn shown(text: &str) -> String {
        format!("{:?}", parse(text, &schema()).unwrap()).split_whitespace().collect()
    }

    #[test]
    fn conditions_are_read_with_the_columns_type() {
        assert!(shown("n >= 5").contains("GreaterEqual") && shown("n>=5").contains("Int64"));
        assert!(shown("n m = a b").contains("ab"));
        assert!(shown("n m = 'it''s'").contains("it's"));
        assert!(shown("day<2012-01-31").contains("Date32"));
        assert!(shown("n is null").starts_with("IsNull"));
        assert!(shown("n IS NOT NULL").starts_with("Not"));
        assert!(matches!(parse_all(&["n = 1".into(), "n < 2".into()], &schema()).unwrap(), Some(Filter::And(all)) if all.len() == 2));
        assert!(parse_all(&[], &schema()).unwrap().is_none());
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for text in ["", "n", "n 5", "n = five", "n = 1.5", "x = 1", "day = tomorrow", "n ~ 5"] {
            assert_eq!(parse(text, &schema()).unwrap_err().kind(), headwater::ErrorKind::InvalidInput, "{text}");
        }
    }
}
