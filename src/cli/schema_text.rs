//! Column types as people write and read them: SQL names, as DuckDB has them.

use arrow_schema::{DataType, Field, TimeUnit};
use headwater::{Error, Result};

const NAMES: &[(&str, DataType)] = &[
    ("BOOLEAN", DataType::Boolean),
    ("TINYINT", DataType::Int8),
    ("SMALLINT", DataType::Int16),
    ("INTEGER", DataType::Int32),
    ("BIGINT", DataType::Int64),
    ("UTINYINT", DataType::UInt8),
    ("USMALLINT", DataType::UInt16),
    ("UINTEGER", DataType::UInt32),
    ("UBIGINT", DataType::UInt64),
    ("REAL", DataType::Float32),
    ("DOUBLE", DataType::Float64),
    ("DATE", DataType::Date32),
    ("TIME", DataType::Time64(TimeUnit::Microsecond)),
    ("TIMESTAMP", DataType::Timestamp(TimeUnit::Microsecond, None)),
    ("VARCHAR", DataType::Utf8),
    ("BLOB", DataType::Binary),
];

/// Other spellings of the same types.
const ALIASES: &[(&str, &str)] = &[
    ("BOOL", "BOOLEAN"),
    ("INT", "INTEGER"),
    ("LONG", "BIGINT"),
    ("FLOAT", "REAL"),
    ("DOUBLE PRECISION", "DOUBLE"),
    ("TEXT", "VARCHAR"),
    ("STRING", "VARCHAR"),
    ("BYTEA", "BLOB"),
    ("BINARY", "BLOB"),
];

/// The type's name.
pub(crate) fn type_name(data_type: &DataType) -> String {
    if let Some((name, _)) = NAMES.iter().find(|(_, named)| named == data_type) {
        return (*name).to_owned();
    }
    match data_type {
        DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".to_owned(),
        DataType::LargeBinary | DataType::BinaryView => "BLOB".to_owned(),
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => "TIMESTAMP WITH TIME ZONE".to_owned(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision},{scale})"),
        DataType::List(item) => format!("{}[]", type_name(item.data_type())),
        DataType::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|field| format!("{} {}", quoted(field.name()), type_name(field.data_type()))).collect();
            format!("STRUCT({})", fields.join(", "))
        }
        other => other.to_string(),
    }
}

fn quoted(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_alphanumeric() || c == '_') && !name.is_empty();
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn parse_type(text: &str) -> Option<DataType> {
    let upper = text.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_uppercase();
    let upper = ALIASES.iter().find(|(alias, _)| *alias == upper).map_or(upper.as_str(), |(_, name)| name);
    if let Some((_, data_type)) = NAMES.iter().find(|(name, _)| *name == upper) {
        return Some(data_type.clone());
    }
    if matches!(upper, "TIMESTAMPTZ" | "TIMESTAMP WITH TIME ZONE") {
        return Some(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
    }
    if let Some(item) = upper.strip_suffix("[]") {
        return Some(DataType::List(Field::new_list_field(parse_type(item)?, true).into()));
    }
    let digits = upper.strip_prefix("DECIMAL").or_else(|| upper.strip_prefix("NUMERIC"))?.trim();
    let (precision, scale) = match digits.strip_prefix('(').and_then(|digits| digits.strip_suffix(')')) {
        Some(digits) => {
            let (precision, scale) = digits.split_once(',').unwrap_or((digits, "0"));
            (precision.trim().parse::<u8>().ok()?, scale.trim().parse::<u8>().ok()?)
        }
        None if digits.is_empty() => (18, 3),
        None => return None,
    };
    ((1..=38).contains(&precision) && scale <= precision).then(|| DataType::Decimal128(precision, i8::try_from(scale).unwrap_or_default()))
}

/// A column from `name type [not null]`; a name with spaces stands in double quotes.
pub(crate) fn parse_column(text: &str) -> Result<Field> {
    let malformed = || Error::invalid(format!("the column {text:?} is not \"name type [not null]\", e.g. \"id bigint not null\""));
    let text = text.trim();
    let (name, rest) = match text.strip_prefix('"') {
        None => {
            let (name, rest) = text.split_once(char::is_whitespace).ok_or_else(malformed)?;
            (name.to_owned(), rest)
        }
        Some(quoted) => {
            // A doubled quote is a quote.
            let bytes = quoted.as_bytes();
            let mut end = 0;
            loop {
                match (bytes.get(end), bytes.get(end + 1)) {
                    (Some(b'"'), Some(b'"')) => end += 2,
                    (Some(b'"'), _) => break,
                    (Some(_), _) => end += 1,
                    (None, _) => return Err(malformed()),
                }
            }
            (quoted[..end].replace("\"\"", "\""), &quoted[end + 1..])
        }
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (words, nullable) = match words.as_slice() {
        [words @ .., not, null] if not.eq_ignore_ascii_case("not") && null.eq_ignore_ascii_case("null") => (words, false),
        words => (words, true),
    };
    let type_text = words.join(" ");
    if type_text.is_empty() {
        return Err(malformed());
    }
    let data_type = parse_type(&type_text).ok_or_else(|| {
        let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        let known = known.join(", ");
        Error::invalid(format!("there is no type {type_text:?}; use one of {known}, TIMESTAMPTZ, DECIMAL(p,s), or one of them with []"))
            .at("column", &name)
    })?;
    Ok(Field::new(name, data_type, nullable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_read_and_printed() {
        for (text, name, printed, nullable) in [
            ("id bigint not null", "id", "BIGINT", false),
            ("  id   Int  ", "id", "INTEGER", true),
            ("\"a \"\"b\"\" c\" text NOT NULL", "a \"b\" c", "VARCHAR", false),
            ("price decimal(10, 2)", "price", "DECIMAL(10,2)", true),
            ("at timestamp with time zone", "at", "TIMESTAMP WITH TIME ZONE", true),
            ("tags varchar[]", "tags", "VARCHAR[]", true),
            ("größe double precision", "größe", "DOUBLE", true),
        ] {
            let field = parse_column(text).unwrap();
            assert_eq!((field.name().as_str(), type_name(field.data_type()).as_str(), field.is_nullable()), (name, printed, nullable));
        }
        for (name, data_type) in NAMES {
            assert_eq!(parse_type(name).as_ref(), Some(data_type));
            assert_eq!(type_name(data_type), *name);
        }
    }

    #[test]
    fn what_is_no_column_is_refused() {
        for text in ["", "id", "id ", "\"id bigint", "id bigint null null", "id nonsense", "id decimal(40,2)", "id decimal(3,4)", "\"id\""]
        {
            assert_eq!(parse_column(text).unwrap_err().kind(), headwater::ErrorKind::InvalidInput, "{text:?}");
        }
    }
}
