//! Errors: of an authority whose backend fails every request.

use headwater_core::authority::{ControlAuthority, Create, Expected, Swap, Tag};
use headwater_core::name::{RecordKey, RecordKind};
use headwater_core::{Error, Result};

use super::{body, branch};

/// Takes an authority whose backend is out of reach, and checks that each method fails or answers `Unknown`, with an error that names the
/// object it is about, and that no write claims an outcome. A backend that cannot fail has nothing to show here. Returns the number of
/// methods.
pub async fn errors_name_the_object(authority: &dyn ControlAuthority) -> usize {
    let (main, tag) = (branch("main"), Tag::new("1"));
    let key = RecordKey::new(RecordKind::Segment, ["main", "seven"]);
    let errors = [
        ("main", failed(authority.read_head(&main, None).await)),
        ("main", swap_failed(authority.swap_head(&main, Expected::Absent, body("1")).await)),
        ("main", swap_failed(authority.swap_head(&main, Expected::Tag(&tag), body("1")).await)),
        ("seven", failed(authority.read_record(&key).await)),
        ("seven", create_failed(authority.create_record(&key, body("1")).await)),
        ("seven", swap_failed(authority.swap_record(&key, &tag, body("1")).await)),
        ("seven", failed(authority.remove_record(&key).await)),
        ("segment", failed(authority.list_records("segment").await)),
        ("", failed(authority.list_branches().await)),
    ];
    for (object, error) in &errors {
        assert!(error.to_string().contains(object), "the error does not name {object:?}: {error}");
        assert!(error.operation().is_some(), "the error does not say what was tried: {error:?}");
    }
    errors.len()
}

fn failed<T: std::fmt::Debug>(result: Result<T>) -> Error {
    result.expect_err("the backend is out of reach")
}

fn swap_failed(result: Result<Swap>) -> Error {
    match result {
        Err(error) | Ok(Swap::Unknown(error)) => error,
        Ok(outcome) => panic!("the backend is out of reach and the swap is said to be {outcome:?}"),
    }
}

fn create_failed(result: Result<Create>) -> Error {
    match result {
        Err(error) | Ok(Create::Unknown(error)) => error,
        Ok(outcome) => panic!("the backend is out of reach and the create is said to be {outcome:?}"),
    }
}
