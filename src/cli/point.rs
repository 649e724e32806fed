//! `--at`, `--since`: a commit's number, its identity, a time, or a cursor.

use chrono::{DateTime, NaiveDate, NaiveTime};
use headwater::{At, Branch, Cursor, Error, Result, Since, Snapshot};

/// The point that this text names.
pub(crate) fn parse(text: &str) -> Result<At> {
    if let Ok(seq) = text.parse() {
        return Ok(At::Seq(seq));
    }
    if let Ok(commit) = text.parse() {
        return Ok(At::Commit(commit));
    }
    let date = || text.parse::<NaiveDate>().ok().map(|date| date.and_time(NaiveTime::MIN).and_utc().timestamp_millis());
    let time = DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp_millis()).or_else(date);
    time.and_then(|ms| u64::try_from(ms).ok()).map(At::Time).ok_or_else(|| {
        let message =
            format!("{text:?} is no point in time; give a commit's number, its 26 characters, or a time such as 2024-01-31T10:00:00Z");
        Error::invalid(message)
    })
}

/// The point that this text names, or the cursor that it is.
pub(crate) fn since(text: &str) -> Result<Since> {
    if text.starts_with("hw") {
        return text.parse::<Cursor>().map(Since::from);
    }
    parse(text).map(Since::from).map_err(|error| Error::invalid(format!("{error}; or a cursor, as it was printed")))
}

/// The branch as it is, or as it was at the point.
pub(crate) async fn snapshot(branch: &Branch, at: Option<&str>) -> Result<Snapshot> {
    match at {
        None => branch.snapshot().await,
        Some(text) => {
            let at = parse(text)?;
            branch.snapshot().await?.at(at).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_commits_and_times() {
        assert_eq!(parse("12").unwrap(), At::Seq(12));
        assert_eq!(parse("01ARZ3NDEKTSV4RRFFQ69G5FAV").unwrap(), At::Commit("01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap()));
        assert_eq!(parse("1970-01-01T00:00:01.5Z").unwrap(), At::Time(1500));
        assert_eq!(parse("1970-01-02T01:00:00+01:00").unwrap(), At::Time(86_400_000));
        assert_eq!(parse("1970-01-02").unwrap(), At::Time(86_400_000));
        for text in ["", "-1", "yesterday", "1960-01-01T00:00:00Z", "18446744073709551616"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
