//! Records: created once, listed by whole segments, removed without complaint.

use std::collections::BTreeSet;

use bytes::Bytes;
use headwater_core::authority::{ControlAuthority, Create, Expected, HeadRead, Tag};
use headwater_core::name::{RecordKey, RecordKind};

use super::{AuthorityFixture, HOSTILE, body, branch, lost, swapped};

fn key(parts: &[&str]) -> RecordKey {
    RecordKey::new(RecordKind::Segment, parts.iter().copied())
}

async fn create(authority: &dyn ControlAuthority, key: &RecordKey, body: Bytes) {
    let created = authority.create_record(key, body).await.unwrap();
    assert!(matches!(created, Create::Created), "{key} is free: {created:?}");
}

async fn listed(authority: &dyn ControlAuthority, prefix: &str) -> BTreeSet<String> {
    let keys = authority.list_records(prefix).await.unwrap();
    let set: BTreeSet<String> = keys.iter().map(ToString::to_string).collect();
    assert_eq!(set.len(), keys.len(), "no key is listed twice");
    set
}

pub(super) async fn a_record_is_created_once_read_swapped_and_removed(fixture: &AuthorityFixture) {
    let authority = fixture.open_fresh().await;
    let key = key(&["main", "1"]);
    assert!(authority.read_record(&key).await.unwrap().is_none());
    lost(authority.swap_record(&key, &Tag::new("made up"), body("x")).await.unwrap());
    assert!(authority.read_record(&key).await.unwrap().is_none(), "a tag never creates");
    create(authority.as_ref(), &key, body("1")).await;
    assert!(matches!(authority.create_record(&key, body("2")).await.unwrap(), Create::Exists));
    assert!(matches!(fixture.reopen().await.create_record(&key, body("1")).await.unwrap(), Create::Exists));
    let (read, first) = authority.read_record(&key).await.unwrap().unwrap();
    assert_eq!(read, body("1"));
    lost(authority.swap_record(&key, &Tag::new("no such tag"), body("x")).await.unwrap());
    let second = swapped(fixture.reopen().await.swap_record(&key, &first, body("2")).await.unwrap());
    lost(authority.swap_record(&key, &first, body("x")).await.unwrap());
    assert_eq!(authority.read_record(&key).await.unwrap().unwrap(), (body("2"), second.clone()));
    for big in [Bytes::new(), Bytes::from(vec![b'x'; 1 << 20])] {
        let key = RecordKey::new(RecordKind::Entry, [big.len().to_string().as_str()]);
        create(authority.as_ref(), &key, big.clone()).await;
        assert!(fixture.reopen().await.read_record(&key).await.unwrap().unwrap().0 == big, "{} bytes", big.len());
    }
    for _ in 0..2 {
        authority.remove_record(&key).await.unwrap();
        assert!(authority.read_record(&key).await.unwrap().is_none());
    }
    lost(authority.swap_record(&key, &second, body("x")).await.unwrap());
    assert!(!listed(authority.as_ref(), "").await.contains(key.as_str()));
    create(authority.as_ref(), &key, body("3")).await;
    assert_eq!(authority.read_record(&key).await.unwrap().unwrap().0, body("3"));
}

pub(super) async fn a_list_ends_at_whole_segments(fixture: &AuthorityFixture) {
    let authority = fixture.open_fresh().await;
    let keys =
        [&["a"][..], &["a", "1"], &["a", "2"], &["a", "2", "x"], &["ab"], &["ab", "1"], &["a.json", "1"], &["a-b", "1"], &["A", "1"]];
    for parts in keys {
        create(authority.as_ref(), &key(parts), body(parts.join("/"))).await;
    }
    let other = RecordKey::new(RecordKind::Entry, ["a", "1"]);
    create(authority.as_ref(), &other, body("other kind")).await;
    let expect = |wanted: &[&[&str]]| wanted.iter().map(|parts| key(parts).to_string()).collect::<BTreeSet<_>>();
    let everything: BTreeSet<String> = expect(&keys).into_iter().chain([other.to_string()]).collect();
    for reader in [authority, fixture.reopen().await] {
        let reader = reader.as_ref();
        assert_eq!(listed(reader, "").await, everything);
        assert_eq!(listed(reader, "segment").await, expect(&keys));
        assert_eq!(listed(reader, "segment/a").await, expect(&[&["a", "1"], &["a", "2"], &["a", "2", "x"]]));
        assert_eq!(listed(reader, "segment/a/2").await, expect(&[&["a", "2", "x"]]));
        assert_eq!(listed(reader, key(&["A"]).as_str()).await, expect(&[&["A", "1"]]));
        for nothing in ["segment/a/1", "segment/a/2/x", "segment/nothing", "segmen", "tombstones", "segment/a/"] {
            assert_eq!(listed(reader, nothing).await, BTreeSet::new(), "{nothing:?}");
        }
    }
}

pub(super) async fn hostile_record_names_stay_distinct(fixture: &AuthorityFixture) {
    let authority = fixture.open_fresh().await;
    for name in HOSTILE {
        create(authority.as_ref(), &key(&[name, "below"]), body(format!("{name} below"))).await;
        create(authority.as_ref(), &key(&[name]), body(*name)).await;
    }
    let again = fixture.reopen().await;
    for name in HOSTILE {
        assert_eq!(again.read_record(&key(&[name])).await.unwrap().unwrap().0, body(*name), "{name:?}");
        assert_eq!(listed(again.as_ref(), key(&[name]).as_str()).await, BTreeSet::from([key(&[name, "below"]).to_string()]), "{name:?}");
    }
    assert_eq!(listed(again.as_ref(), "").await.len(), 2 * HOSTILE.len());
}

pub(super) async fn heads_and_records_do_not_meet(fixture: &AuthorityFixture) {
    let authority = fixture.open_fresh().await;
    let catalog = RecordKey::new(RecordKind::Catalog, ["main"]);
    create(authority.as_ref(), &catalog, body("record")).await;
    assert!(matches!(authority.read_head(&branch("main"), None).await.unwrap(), HeadRead::Absent));
    assert_eq!(authority.list_branches().await.unwrap(), []);
    for name in ["main", "catalog", "catalog%2Fmain", "segment"] {
        swapped(authority.swap_head(&branch(name), Expected::Absent, body(name)).await.unwrap());
    }
    assert_eq!(listed(authority.as_ref(), "").await, BTreeSet::from([catalog.to_string()]));
    authority.remove_record(&catalog).await.unwrap();
    assert_eq!(authority.list_branches().await.unwrap().len(), 4);
}
