//! How a command ends when it does not succeed: exit code, and one line (or one JSON document) on standard error.

use std::fmt::Write as _;

use headwater::{Error, ErrorKind};
use serde_json::json;

/// Exit code of bad usage.
pub(crate) const USAGE: u8 = 2;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It failed.
    Error(Error),
    /// It was called wrongly.
    Usage(String),
    /// It has said what there is to say, and ends with this code.
    Said(u8),
    /// Nobody reads the output any more.
    Unread,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Failure {
    /// The command's exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Error(error) => match error.kind() {
                ErrorKind::Conflict | ErrorKind::ReadSetChanged | ErrorKind::RecoveryPending => 3,
                _ if error.retry() == headwater::Retry::ResolveFirst => 4,
                _ => 1,
            },
            Self::Usage(_) => USAGE,
            Self::Said(code) => *code,
            Self::Unread => 0,
        }
    }

    /// The line for standard error, if there is one.
    pub(crate) fn line(&self, json: bool) -> Option<String> {
        let (kind, message, retry) = match self {
            Self::Error(error) => (error.kind().name(), describe(error), error.retry().name()),
            Self::Usage(message) => (ErrorKind::InvalidInput.name(), message.clone(), headwater::Retry::Permanent.name()),
            Self::Said(_) | Self::Unread => return None,
        };
        let message = one_line(&message);
        Some(if json {
            json!({"error": {"kind": kind, "message": message, "retry": retry}}).to_string()
        } else {
            format!("error: {message}")
        })
    }
}

fn describe(error: &Error) -> String {
    let mut message = error.to_string();
    if let (ErrorKind::PublishUnknown, Some(token)) = (error.kind(), error.token()) {
        // Writing to a String does not fail.
        let _ = write!(message, "; run the same command with --token {token}, which settles whether it was committed");
    }
    message
}

fn one_line(message: &str) -> String {
    message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_code() {
        let code = |kind| Failure::from(Error::new(kind, "x")).code();
        assert_eq!(code(ErrorKind::InvalidInput), 1);
        assert_eq!(code(ErrorKind::NotFound), 1);
        for kind in [ErrorKind::Conflict, ErrorKind::ReadSetChanged, ErrorKind::RecoveryPending] {
            assert_eq!(code(kind), 3);
        }
        assert_eq!(code(ErrorKind::PublishUnknown), 4);
        assert_eq!(Failure::Usage(String::new()).code(), 2);
    }

    #[test]
    fn an_unknown_outcome_names_the_way_to_settle_it() {
        let token: headwater::ids::Token = "t-1".parse().unwrap();
        let failure = Failure::from(Error::new(ErrorKind::PublishUnknown, "who\nknows").with_token(token));
        let line = failure.line(false).unwrap();
        assert!(line.starts_with("error: who knows") && line.contains("--token t-1") && !line.contains('\n'), "{line}");
        let json: serde_json::Value = serde_json::from_str(&failure.line(true).unwrap()).unwrap();
        assert_eq!(json["error"]["kind"], "PublishUnknown");
        assert_eq!(json["error"]["retry"], "resolve-first");
        assert_eq!(json["error"].as_object().unwrap().len(), 3);
    }
}
