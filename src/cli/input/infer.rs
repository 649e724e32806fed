//! A column's type from all of its values.

use arrow_schema::{DataType, TimeUnit};

use super::cell::{Kinds, has_digits, kinds};

/// What the values seen so far leave possible.
#[derive(Clone, Debug)]
pub(super) struct Guess {
    kinds: Kinds,
    /// Whether any value was seen at all.
    seen: bool,
    /// Whether a number was written in digits.
    digits: bool,
}

impl Default for Guess {
    fn default() -> Self {
        Self { kinds: Kinds::ALL, seen: false, digits: false }
    }
}

impl Guess {
    /// Takes a value into account, where it may be at most one of these types.
    pub(super) fn see(&mut self, text: &str, allowed: Kinds) {
        self.seen = true;
        if self.kinds != Kinds::VARCHAR {
            self.digits |= has_digits(text);
            self.kinds = self.kinds.and(kinds(text)).and(allowed);
        }
    }

    /// The narrowest type that holds every value; text if there was none.
    pub(super) fn data_type(&self) -> DataType {
        let kinds = if self.seen { self.kinds } else { Kinds::VARCHAR };
        if kinds.has(Kinds::BOOLEAN) {
            DataType::Boolean
        } else if kinds.has(Kinds::BIGINT) {
            DataType::Int64
        } else if kinds.has(Kinds::DOUBLE) && self.digits {
            DataType::Float64
        } else if kinds.has(Kinds::DATE) {
            DataType::Date32
        } else if kinds.has(Kinds::TIMESTAMP) {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        } else if kinds.has(Kinds::TIMESTAMP_TZ) {
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
        } else {
            DataType::Utf8
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn infer(values: &[&str]) -> DataType {
        let mut guess = Guess::default();
        values.iter().for_each(|value| guess.see(value, Kinds::ALL));
        guess.data_type()
    }

    #[test]
    fn the_narrowest_type_of_all_values() {
        assert_eq!(infer(&["true", "FALSE"]), DataType::Boolean);
        assert_eq!(infer(&["1", "-2"]), DataType::Int64);
        assert_eq!(infer(&["1", "2.5"]), DataType::Float64);
        assert_eq!(infer(&["1", "9007199254740993", "2.5"]), DataType::Utf8);
        assert_eq!(infer(&["1", "18446744073709551615"]), DataType::Utf8);
        assert_eq!(infer(&["1", "9223372036854775808"]), DataType::Float64);
        assert_eq!(infer(&["00123", "45"]), DataType::Utf8);
        assert_eq!(infer(&["2012/01/01", "2012-01-02"]), DataType::Date32);
        assert_eq!(infer(&["2012-01-01", "2012-01-02 10:00:00"]), DataType::Timestamp(TimeUnit::Microsecond, None));
        assert_eq!(infer(&["2012-01-01T00:00:00Z"]), DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
        assert_eq!(infer(&["2012-01-01T00:00:00Z", "2012-01-01T00:00:00"]), DataType::Utf8);
        assert_eq!(infer(&["1", "true"]), DataType::Utf8);
        assert_eq!(infer(&["inf", "NaN"]), DataType::Utf8);
        assert_eq!(infer(&["inf", "1.5"]), DataType::Float64);
        assert_eq!(infer(&[]), DataType::Utf8);
    }
}
