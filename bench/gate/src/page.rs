//! The report as one HTML page that needs nothing else: it carries the JSON it shows, so its numbers are the JSON's.

use super::report::Report;
use super::{Error, Result};

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// The page.
///
/// # Errors
///
/// If the report has no JSON form.
pub fn html(report: &Report) -> Result<String> {
    let json = serde_json::to_string(report).map_err(|error| Error::Invalid(format!("the report has no JSON form: {error}")))?;
    // Nothing in it may end the script element it stands in.
    let json = json.replace('<', "\\u003c");
    Ok(PAGE.replace("{{style}}", STYLE).replace("{{script}}", SCRIPT).replace("{{report}}", &json))
}

/// The JSON that a page carries.
pub fn report_of(page: &str) -> Option<&str> {
    page.split_once("<script type=\"application/json\" id=\"report\">")?.1.split_once("</script>").map(|(json, _)| json)
}
