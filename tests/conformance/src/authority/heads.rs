//! Heads: created once, swapped by tag, never created by a tag.

use std::collections::BTreeSet;

use bytes::Bytes;
use headwater_core::authority::{Expected, HeadRead, Tag};
use headwater_core::name::BranchName;

use super::{AuthorityFixture, HOSTILE, body, branch, found, lost, swapped};

pub(super) async fn an_empty_place_has_nothing(fixture: &AuthorityFixture) {
    let authority = fixture.open_fresh().await;
    let main = branch("main");
    assert!(matches!(authority.read_head(&main, None).await.unwrap(), HeadRead::Absent));
    assert!(matches!(authority.read_head(&main, Some(&Tag::new("1"))).await.unwrap(), HeadRead::Absent));
    assert_eq!(authority.list_branches().await.unwrap(), []);
    assert_eq!(authority.list_records("").await.unwrap(), []);
    let again = fixture.reopen().await;
    assert!(matches!(again.read_head(&main, None).await.unwrap(), HeadRead::Absent), "a read must not create");
    assert_eq!(again.list_branches().await.unwrap(), []);
}

pub(super) async fn a_head_is_created_only_once(fixture: &AuthorityFixture) {
    let authority = fixture.open_fresh().await;
    let main = branch("main");
    let tag = swapped(authority.swap_head(&main, Expected::Absent, body("first")).await.unwrap());
    lost(authority.swap_head(&main, Expected::Absent, body("second")).await.unwrap());
    // The very same body once more is no success either: somebody else's could have these bytes.
    lost(authority.swap_head(&main, Expected::Absent, body("first")).await.unwrap());
    lost(fixture.reopen().await.swap_head(&main, Expected::Absent, body("third")).await.unwrap());
    assert_eq!(found(authority.as_ref(), &main).await, (body("first"), tag));
    assert_eq!(authority.list_branches().await.unwrap(), [main]);
}

pub(super) async fn a_swap_needs_the_current_tag(fixture: &AuthorityFixture) {
    let authority = fixture.open_fresh().await;
    let main = branch("main");
    let first = swapped(authority.swap_head(&main, Expected::Absent, body("1")).await.unwrap());
    let second = swapped(authority.swap_head(&main, Expected::Tag(&first), body("2")).await.unwrap());
    assert_ne!(first, second);
    for stale in [Expected::Tag(&first), Expected::Tag(&Tag::new("no such tag")), Expected::Tag(&Tag::new("")), Expected::Absent] {
        lost(authority.swap_head(&main, stale, body("x")).await.unwrap());
    }
    assert_eq!(found(authority.as_ref(), &main).await, (body("2"), second.clone()));
    let other = branch("other");
    let others = swapped(authority.swap_head(&other, Expected::Absent, body("o")).await.unwrap());
    lost(authority.swap_head(&main, Expected::Tag(&others), body("x")).await.unwrap());
    swapped(authority.swap_head(&main, Expected::Tag(&second), body("3")).await.unwrap());
    assert_eq!(found(authority.as_ref(), &other).await, (body("o"), others), "a swap changes one head only");
}

pub(super) async fn a_tag_never_creates(fixture: &AuthorityFixture) {
    let authority = fixture.open_fresh().await;
    let (main, other) = (branch("main"), branch("other"));
    let tag = swapped(authority.swap_head(&main, Expected::Absent, body("1")).await.unwrap());
    for tag in [tag, Tag::new("made up"), Tag::new("*"), Tag::new("")] {
        lost(authority.swap_head(&other, Expected::Tag(&tag), body("x")).await.unwrap());
    }
    assert!(matches!(authority.read_head(&other, None).await.unwrap(), HeadRead::Absent));
    assert_eq!(authority.list_branches().await.unwrap(), [main]);
}

pub(super) async fn a_body_that_comes_back_has_another_tag(fixture: &AuthorityFixture) {
    let authority = fixture.open_fresh().await;
    let main = branch("main");
    // Bodies of real heads never repeat: each has a fresh nonce. So the authority may derive tags from content.
    let a = |nonce: u32| body(format!("{{\"state\":\"a\",\"nonce\":{nonce}}}"));
    let first = swapped(authority.swap_head(&main, Expected::Absent, a(1)).await.unwrap());
    let second = swapped(authority.swap_head(&main, Expected::Tag(&first), body("b")).await.unwrap());
    let third = swapped(authority.swap_head(&main, Expected::Tag(&second), a(2)).await.unwrap());
    assert_eq!(BTreeSet::from([first.as_str(), second.as_str(), third.as_str()]).len(), 3, "three versions, three tags");
    lost(authority.swap_head(&main, Expected::Tag(&first), body("x")).await.unwrap());
    assert_eq!(found(authority.as_ref(), &main).await, (a(2), third));
}

pub(super) async fn a_known_tag_is_answered_unchanged(fixture: &AuthorityFixture) {
    let authority = fixture.open_fresh().await;
    let main = branch("main");
    let first = swapped(authority.swap_head(&main, Expected::Absent, body("1")).await.unwrap());
    assert!(matches!(authority.read_head(&main, Some(&first)).await.unwrap(), HeadRead::Unchanged));
    let second = swapped(authority.swap_head(&main, Expected::Tag(&first), body("2")).await.unwrap());
    for reader in [authority, fixture.reopen().await] {
        match reader.read_head(&main, Some(&first)).await.unwrap() {
            HeadRead::Found(found, tag) => assert_eq!((found, &tag), (body("2"), &second)),
            other => panic!("an outdated tag must get the body: {other:?}"),
        }
        assert!(matches!(reader.read_head(&main, Some(&second)).await.unwrap(), HeadRead::Unchanged));
        // A tag that is a part of the current one, or has it as a part, is another tag.
        for near in [format!("{}0", second.as_str()), second.as_str()[1..].to_owned(), format!("\"{}\"", second.as_str())] {
            assert!(matches!(reader.read_head(&main, Some(&Tag::new(near))).await.unwrap(), HeadRead::Found(..)));
        }
    }
}

pub(super) async fn tags_round_trip_through_another_process(fixture: &AuthorityFixture) {
    let authority = fixture.open_fresh().await;
    let main = branch("main");
    let first = swapped(authority.swap_head(&main, Expected::Absent, body("1")).await.unwrap());
    let other = fixture.reopen().await;
    let (_, read) = found(other.as_ref(), &main).await;
    assert_eq!(read, first, "a swap's tag is what a read returns");
    let carried = Tag::new(read.as_str().to_owned());
    let second = swapped(other.swap_head(&main, Expected::Tag(&carried), body("2")).await.unwrap());
    assert_eq!(found(authority.as_ref(), &main).await, (body("2"), second));
}

pub(super) async fn bodies_of_any_size_round_trip(fixture: &AuthorityFixture) {
    let authority = fixture.open_fresh().await;
    let main = branch("main");
    let mut tag = swapped(authority.swap_head(&main, Expected::Absent, Bytes::new()).await.unwrap());
    assert_eq!(found(authority.as_ref(), &main).await, (Bytes::new(), tag.clone()));
    let all_bytes: Bytes = (0..1 << 20).map(|i: u32| (i % 251) as u8).collect();
    let trailing = Bytes::from_static(b"{\"a\": 1}\r\n\0\n");
    for sent in [all_bytes, trailing, Bytes::from_static(&[0xff])] {
        tag = swapped(authority.swap_head(&main, Expected::Tag(&tag), sent.clone()).await.unwrap());
        let (read, of) = found(fixture.reopen().await.as_ref(), &main).await;
        assert!(read == sent && of == tag, "{} bytes were sent and {} came back", sent.len(), read.len());
    }
}

pub(super) async fn hostile_branch_names_stay_distinct(fixture: &AuthorityFixture) {
    let authority = fixture.open_fresh().await;
    for name in HOSTILE {
        swapped(authority.swap_head(&branch(name), Expected::Absent, body(*name)).await.unwrap());
    }
    let again = fixture.reopen().await;
    for name in HOSTILE {
        assert_eq!(found(again.as_ref(), &branch(name)).await.0, body(*name), "{name:?}");
    }
    let mut listed = again.list_branches().await.unwrap();
    listed.sort();
    let mut expected: Vec<BranchName> = HOSTILE.iter().map(|name| branch(name)).collect();
    expected.sort();
    assert_eq!(listed, expected);
}

pub(super) async fn the_capability_is_stable(fixture: &AuthorityFixture) {
    let authority = fixture.open_fresh().await;
    let capability = authority.capability();
    swapped(authority.swap_head(&branch("main"), Expected::Absent, body("1")).await.unwrap());
    assert_eq!(authority.capability(), capability);
    assert_eq!(fixture.reopen().await.capability(), capability);
}
