//! The kit for control authorities: what [`ControlAuthority`] demands, property by property.

mod failing;
mod heads;
mod races;
mod records;

use std::sync::Arc;

use bytes::Bytes;
use headwater_core::authority::{ControlAuthority, HeadRead, Swap, Tag};
use headwater_core::name::BranchName;

use crate::fixture::{self, Fixture, Property, properties};

pub use failing::errors_name_the_object;

/// What the properties take.
pub type AuthorityFixture = dyn Fixture<Arc<dyn ControlAuthority>>;

/// Everything an authority must do.
pub const PROPERTIES: &[Property<AuthorityFixture>] = properties![
    heads::an_empty_place_has_nothing,
    heads::a_head_is_created_only_once,
    heads::a_swap_needs_the_current_tag,
    heads::a_tag_never_creates,
    heads::a_body_that_comes_back_has_another_tag,
    heads::a_known_tag_is_answered_unchanged,
    heads::tags_round_trip_through_another_process,
    heads::bodies_of_any_size_round_trip,
    heads::hostile_branch_names_stay_distinct,
    heads::the_capability_is_stable,
    records::a_record_is_created_once_read_swapped_and_removed,
    records::a_list_ends_at_whole_segments,
    records::hostile_record_names_stay_distinct,
    records::heads_and_records_do_not_meet,
    races::of_concurrent_creators_of_a_head_one_wins,
    races::of_concurrent_creators_of_a_record_one_wins,
    races::no_increment_of_a_head_is_lost,
    races::no_increment_of_a_record_is_lost,
    races::readers_see_whole_bodies,
];

/// Tests all of [`PROPERTIES`] and returns their number.
pub async fn run_all(fixture: &AuthorityFixture) -> usize {
    fixture::run_all(PROPERTIES, fixture, |_| Box::pin(async {})).await
}

/// Names that a careless backend mixes up, cuts or refuses.
const HOSTILE: &[&str] = &[
    "main",
    "Main",
    "MAIN",
    "a b",
    "a  b",
    "a%20b",
    "a+b",
    "\u{e4}",
    "a\u{308}",
    ".",
    "..",
    "...",
    ".hidden",
    "%",
    "%2E",
    "%2e",
    "%25",
    "100%",
    "quote\"",
    "it's",
    "`tick`",
    "back:slash",
    "CON",
    "con",
    "nul.json",
    "main.json",
    "main.",
    "-",
    "--help",
    "*",
    "?",
    "<>|",
    "#",
    "a=b&c",
    "\u{65e5}\u{672c}",
    "\u{1f30a}",
    "80-bytes-80-bytes-80-bytes-80-bytes-80-bytes-80-bytes-80-bytes-80-bytes-80-bytes",
    "80-BYTES-80-bytes-80-bytes-80-bytes-80-bytes-80-bytes-80-bytes-80-bytes-80-bytes",
    "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}",
];

fn branch(name: &str) -> BranchName {
    name.parse().unwrap()
}

fn body(text: impl Into<String>) -> Bytes {
    Bytes::from(text.into())
}

fn swapped(swap: Swap) -> Tag {
    match swap {
        Swap::Swapped(tag) => tag,
        other => panic!("the swap should have won: {other:?}"),
    }
}

fn lost(swap: Swap) {
    assert!(matches!(swap, Swap::Conflict), "the swap should have lost: {swap:?}");
}

async fn found(authority: &dyn ControlAuthority, branch: &BranchName) -> (Bytes, Tag) {
    match authority.read_head(branch, None).await.unwrap() {
        HeadRead::Found(body, tag) => (body, tag),
        other => panic!("the head of {branch} should be there: {other:?}"),
    }
}
