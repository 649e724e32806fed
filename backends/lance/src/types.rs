//! Which Arrow types Lance keeps exactly.

use arrow_schema::{DataType, Field, Schema};
use headwater_core::{Error, ErrorKind, Result};

/// Refuses, by name, the first column Lance cannot keep exactly. No request.
pub(crate) fn check_schema(schema: &Schema) -> Result<()> {
    headwater_core::schema::check_schema(schema)?;
    for field in schema.fields() {
        let unsupported = |why: &str| {
            let message =
                format!("column {:?} is {}, which Lance cannot keep exactly ({why}); convert the column", field.name(), field.data_type());
            Error::new(ErrorKind::Unsupported, message)
        };
        if field.name().contains(['.', '`']) {
            let message = format!("column {:?} has a dot or a backtick in its name, which Lance reads as a path; rename it", field.name());
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if lance_core::is_system_column(field.name()) {
            let message = format!("column {:?} has a name Lance keeps for itself; rename it", field.name());
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if let Some(why) = refused(field) {
            return Err(unsupported(why));
        }
        if let Some(key) = directive(field) {
            let message = format!("column {:?} has the metadata {key:?}, by which Lance stores other values; remove it", field.name());
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        // Metadata is part of the type where a reader asks for it, so it must come back too.
        let exact = Schema::new(vec![field.clone()]);
        match lance_core::datatypes::Schema::try_from(&exact) {
            Ok(kept) if Schema::from(&kept) == exact => {}
            Ok(_) => return Err(unsupported("it comes back as another type")),
            Err(error) => return Err(unsupported("it has no such type").because(error)),
        }
    }
    Ok(())
}

/// Why a type cannot be kept, where that shows only in its values.
fn refused(field: &Field) -> Option<&'static str> {
    use DataType as T;
    match field.data_type() {
        T::Union(..) => Some("there are no unions"),
        T::RunEndEncoded(..) => Some("runs are not kept"),
        T::ListView(_) | T::LargeListView(_) => Some("list views come back as lists"),
        T::Struct(fields) if fields.is_empty() => Some("a struct needs a field"),
        T::Struct(fields) => fields.iter().find_map(|field| refused(field)),
        T::List(item) | T::LargeList(item) => refused(item),
        T::FixedSizeList(_, size) if *size <= 0 => Some("the size must be positive"),
        T::FixedSizeList(item, _) => refused(item),
        T::FixedSizeBinary(size) if *size <= 0 => Some("the size must be positive"),
        T::Map(entries, _) => match entries.data_type() {
            T::Struct(fields) if fields.len() == 2 && !fields[0].is_nullable() && !entries.is_nullable() => refused(entries),
            _ => Some("a map needs entries of a required key and a value"),
        },
        T::Decimal128(precision, scale) => decimal(*precision, *scale, 38),
        T::Decimal256(precision, scale) => decimal(*precision, *scale, 76),
        _ => None,
    }
}

/// Metadata that makes Lance store something else than the values, or declare something about them.
fn directive(field: &Field) -> Option<&str> {
    use DataType as T;
    let tells = |(key, value): &(&String, &String)| {
        let extension = key.as_str() == "ARROW:extension:name" && (value.starts_with("lance.") || value.as_str() == "arrow.json");
        extension || ["lance-schema:", "lance-encoding:blob", "lance:"].iter().any(|start| key.starts_with(start))
    };
    let own = field.metadata().iter().find(tells).map(|(key, _)| key.as_str());
    own.or_else(|| match field.data_type() {
        T::Struct(fields) => fields.iter().find_map(|field| directive(field)),
        T::List(item) | T::LargeList(item) | T::FixedSizeList(item, _) | T::Map(item, _) => directive(item),
        _ => None,
    })
}

fn decimal(precision: u8, scale: i8, digits: u8) -> Option<&'static str> {
    let fits = (1..=digits).contains(&precision) && scale.unsigned_abs() <= precision;
    (!fits).then_some("the precision and scale do not fit")
}
