//! The text of one value: which types hold it exactly, and its value in each. Inference and parsing share this file, so that a type chosen
//! for a column reads every cell of it.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime};

/// A set of candidate types for a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) const VARCHAR: Self = Self(1);
    pub(super) const BOOLEAN: Self = Self(2);
    pub(super) const BIGINT: Self = Self(4);
    pub(super) const DOUBLE: Self = Self(8);
    pub(super) const DATE: Self = Self(16);
    pub(super) const TIMESTAMP: Self = Self(32);
    pub(super) const TIMESTAMP_TZ: Self = Self(64);
    pub(super) const ALL: Self = Self(127);
    /// What a JSON string may be: text that looks like a number was quoted on purpose.
    pub(super) const QUOTED: Self = Self(1 | 16 | 32 | 64);

    pub(super) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) const fn has(self, kind: Self) -> bool {
        self.0 & kind.0 != 0
    }
}

/// Every candidate type that gives this text back. Text always does.
pub(super) fn kinds(text: &str) -> Kinds {
    // The first character decides which forms are worth a try.
    let kinds = match text.as_bytes().first() {
        Some(b'0'..=b'9' | b'-' | b'.') => {
            let mut kinds = Kinds::VARCHAR;
            if integer::<i64>(text).is_some() {
                kinds = kinds.or(Kinds::BIGINT);
            }
            if double(text).is_some() {
                kinds = kinds.or(Kinds::DOUBLE);
            } else if let Some(moment) = moment(text) {
                kinds = kinds.or(match moment {
                    Moment::Date(_) => Kinds::DATE.or(Kinds::TIMESTAMP),
                    // The columns inferred here count microseconds.
                    Moment::Local(at) if whole_micros(&at) => Kinds::TIMESTAMP,
                    Moment::Instant(at) if whole_micros(&at) => Kinds::TIMESTAMP_TZ,
                    Moment::Local(_) | Moment::Instant(_) => Kinds::VARCHAR,
                });
            }
            kinds
        }
        Some(b't' | b'T' | b'f' | b'F') if boolean(text).is_some() => Kinds::VARCHAR.or(Kinds::BOOLEAN),
        Some(b'N' | b'i') if double(text).is_some() => Kinds::VARCHAR.or(Kinds::DOUBLE),
        _ => Kinds::VARCHAR,
    };
    debug_assert!(kinds.has(Kinds::VARCHAR));
    kinds
}

fn whole_micros(at: &NaiveDateTime) -> bool {
    at.and_utc().timestamp_subsec_nanos().is_multiple_of(1_000)
}

/// `true` or `false`, in any case.
pub(super) fn boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// An integer in the one spelling that prints back the same: no sign but `-`, no leading zero. `00123` is a code and not a number.
pub(super) fn integer<T: std::str::FromStr>(text: &str) -> Option<T> {
    if is_integer(text) { text.parse().ok() } else { None }
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain && (digits == "0" && text == "0" || !digits.starts_with('0'))
}

/// A decimal number, with or without an exponent, or `NaN`, `inf`, `-inf`. An integer too large to be exact is refused.
pub(super) fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => return Some(f64::NAN),
        "inf" => return Some(f64::INFINITY),
        "-inf" => return Some(f64::NEG_INFINITY),
        _ => {}
    }
    let value: f64 = if is_decimal(text) { text.parse().ok()? } else { return None };
    let exact = !is_integer(text) || text.len() <= 15 || format!("{value:.0}") == text;
    (value.is_finite() && exact).then_some(value)
}

/// [`double`], for a column of half its precision.
pub(super) fn float(text: &str) -> Option<f32> {
    let value = double(text)?;
    let narrow = value as f32;
    let fits = if is_integer(text) { f64::from(narrow) == value } else { narrow.is_finite() || !value.is_finite() };
    fits.then_some(narrow)
}

/// Whether [`double`] saw digits, and not a word such as `inf` that may as well be text.
pub(super) fn has_digits(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && (whole.len() <= 1 || !whole.starts_with('0'))
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent))
}

/// A decimal number of at most `precision` digits, `scale` of them behind the point: its digits as one integer.
pub(super) fn decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let scale = usize::try_from(scale).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.trim_end_matches('0');
    if !is_decimal(text) || text.contains(['e', 'E']) || fraction.len() > scale {
        return None;
    }
    let digits = format!("{whole}{fraction}{}", "0".repeat(scale - fraction.len()));
    let value: i128 = digits.parse().ok()?;
    (value.unsigned_abs().to_string().len() <= usize::from(precision)).then_some(value)
}

/// A date or a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// `2012-01-31` or `2012/01/31`.
    Date(NaiveDate),
    /// A date and a time of day, in no time zone.
    Local(NaiveDateTime),
    /// The same with `Z` or an offset, as UTC.
    Instant(NaiveDateTime),
}

/// Reads ISO 8601 dates and times, and dates with slashes.
pub(super) fn moment(text: &str) -> Option<Moment> {
    let bytes = text.as_bytes();
    let separator = *bytes.get(4)?;
    if !matches!(separator, b'-' | b'/') || bytes.get(7) != Some(&separator) {
        return None;
    }
    let number = |range: std::ops::Range<usize>| -> Option<u32> {
        let part = text.get(range)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok()).flatten()
    };
    let date = NaiveDate::from_ymd_opt(i32::try_from(number(0..4)?).ok()?, number(5..7)?, number(8..10)?)?;
    let rest = text.get(10..)?;
    if rest.is_empty() {
        return Some(Moment::Date(date));
    }
    let clock = rest.strip_prefix(['T', ' '])?;
    let zone = clock.find(['Z', '+', '-', ' ']).unwrap_or(clock.len());
    let local = date.and_time(time(clock.get(..zone)?)?);
    match clock.get(zone..)? {
        "" => Some(Moment::Local(local)),
        "Z" | " UTC" => Some(Moment::Instant(local)),
        offset => local.checked_sub_signed(chrono::TimeDelta::minutes(minutes(offset)?)).map(Moment::Instant),
    }
}

/// `+02`, `-0530` or `+05:30`, in minutes.
fn minutes(offset: &str) -> Option<i64> {
    let sign = match offset.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = offset.get(1..)?.replacen(':', "", 1);
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits.len() == 2 || digits.len() == 4);
    let (hours, minutes) = (digits.get(..2)?, digits.get(2..)?);
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, if minutes.is_empty() { 0 } else { minutes.parse().ok()? });
    (plain && hours <= 18 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// A time of day: `10:30`, `10:30:59` or with up to nine digits of a second's fraction.
pub(super) fn time(text: &str) -> Option<NaiveTime> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':').map(|part| {
        let plain = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        if plain { part.parse::<u32>().ok() } else { None }
    });
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = match parts.next() {
        Some(second) => second?,
        None => 0,
    };
    let plain = fraction.len() <= 9 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if parts.next().is_some() || !plain || text.ends_with('.') || (!fraction.is_empty() && clock.len() != 8) {
        return None;
    }
    let nanos = format!("{fraction:0<9}").parse().ok()?;
    NaiveTime::from_hms_nano_opt(hour, minute, second, nanos)
}

/// Nanoseconds since 1970 as a count of a coarser unit, if nothing is lost.
pub(super) fn since_epoch(at: &NaiveDateTime, per_second: i64) -> Option<i64> {
    let at: DateTime<chrono::Utc> = at.and_utc();
    let nanos_each = 1_000_000_000 / per_second;
    let nanos = i64::from(at.timestamp_subsec_nanos());
    if nanos % nanos_each != 0 {
        return None;
    }
    at.timestamp().checked_mul(per_second)?.checked_add(nanos / nanos_each)
}

/// Bytes from hexadecimal, the form in which output prints them.
pub(super) fn bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes().chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits() {
        for (text, kind) in [
            ("0", Kinds::BIGINT),
            ("-17", Kinds::BIGINT),
            ("9223372036854775807", Kinds::BIGINT),
            ("9223372036854775808", Kinds::DOUBLE),
            ("0.5", Kinds::DOUBLE),
            (".5", Kinds::DOUBLE),
            ("-0", Kinds::DOUBLE),
            ("1e5", Kinds::DOUBLE),
            ("1.25E-3", Kinds::DOUBLE),
        ] {
            assert!(kinds(text).has(kind), "{text}");
        }
        for text in
            ["00123", "007.5", "+5", " 5", "5 ", "1_000", "18446744073709551615", "1e400", "1e", "--1", "1.2.3", "-", ".", "0x10", "12,5"]
        {
            assert_eq!(kinds(text), Kinds::VARCHAR, "{text}");
        }
        assert!(!kinds("9007199254740993").has(Kinds::DOUBLE), "2^53 + 1 is no double");
    }

    #[test]
    fn dates_and_times() {
        for (text, kind) in [
            ("2012-01-31", Kinds::DATE),
            ("2012/01/31", Kinds::DATE),
            ("2012-01-31 10:00", Kinds::TIMESTAMP),
            ("2012-01-31T10:00:59.123456", Kinds::TIMESTAMP),
            ("2012-01-31T10:00:59.123456000", Kinds::TIMESTAMP),
            ("2012-01-31T10:00:59Z", Kinds::TIMESTAMP_TZ),
            ("2012-01-31 10:00:59+02", Kinds::TIMESTAMP_TZ),
            ("2012-01-31T10:00:59.5-05:30", Kinds::TIMESTAMP_TZ),
        ] {
            assert!(kinds(text).has(kind), "{text}");
        }
        for text in [
            "2012-02-30",
            "2012-1-31",
            "2012-01/31",
            "2012-01-31T",
            "2012-01-31 25:00",
            "10:00",
            "2012-01-31T10:00:00.0000001",
            "2012-01-31T10:00+99",
            "日本日本日本日本",
        ] {
            assert_eq!(kinds(text), Kinds::VARCHAR, "{text}");
        }
        let Some(Moment::Instant(at)) = moment("2020-01-01T00:30:00+02:00") else { panic!() };
        assert_eq!(at.to_string(), "2019-12-31 22:30:00");
        assert_eq!(since_epoch(&at, 1), Some(1_577_831_400));
    }

    #[test]
    fn decimals_are_exact_or_refused() {
        assert_eq!(decimal("12.30", 5, 2), Some(1230));
        assert_eq!(decimal("-0.05", 5, 2), Some(-5));
        assert_eq!(decimal("7", 5, 2), Some(700));
        assert_eq!(decimal("1.234", 5, 2), None);
        assert_eq!(decimal("1234", 5, 2), None);
    }

    #[test]
    fn bytes_are_hexadecimal() {
        assert_eq!(bytes("00fF"), Some(vec![0, 255]));
        assert_eq!(bytes("0"), None);
        assert_eq!(bytes("zz"), None);
    }
}
