//! x

use super::report::Report;
use super::{Error, Result};

/// x
pub fn html(report: &Report) -> Result<String> {
    serde_json::to_string(report).map_err(|error| Error::Invalid(error.to_string()))
}
