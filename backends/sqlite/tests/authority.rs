//! The authority on real files: what its kit (tests/suite) does not ask of every authority.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the whole file is a test")]

mod place;

use std::collections::BTreeSet;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::task::{Context, Waker};
use std::time::Duration;

use headwater_core::authority::{ControlAuthority, Create, Expected, HeadRead, Severity, Swap, Tag};
use headwater_core::name::{RecordKey, RecordKind};
use headwater_core::registry::{Location, Registry};
use headwater_core::{Error, ErrorKind, Retry};
use headwater_sqlite::{SqliteAuthority, VERSION};
use place::{Place, body, branch, swapped};
use rusqlite::Connection;

#[tokio::test]
async fn reading_a_file_that_is_not_there_creates_nothing() {
    let place = Place::new();
    let authority = place.authority();
    let (key, tag) = (RecordKey::new(RecordKind::Catalog, []), Tag::new("none"));
    assert!(matches!(authority.read_head(&branch("main"), Some(&tag)).await.unwrap(), HeadRead::Absent));
    assert!(authority.read_record(&key).await.unwrap().is_none());
    assert!(authority.list_branches().await.unwrap().is_empty());
    assert!(authority.list_records("").await.unwrap().is_empty());
    assert!(matches!(authority.swap_head(&branch("main"), Expected::Tag(&tag), body("x")).await.unwrap(), Swap::Conflict));
    assert!(matches!(authority.swap_record(&key, &tag, body("x")).await.unwrap(), Swap::Conflict));
    authority.remove_record(&key).await.unwrap();
    assert_eq!(authority.inspect().await.unwrap().len(), 1);
    assert_eq!(place.files(), [""; 0]);
}

#[tokio::test]
async fn bodies_of_any_bytes_come_back_and_those_of_text_are_text() {
    let place = Place::new();
    let authority = place.authority();
    for (i, bytes) in [&b"{}"[..], b"", b"a\0b", "{\"größe\": \"日本\"}".as_bytes(), b"\xff\xfe", b"\xc3"].into_iter().enumerate() {
        let key = RecordKey::new(RecordKind::Entry, [i.to_string().as_str()]);
        assert!(matches!(authority.create_record(&key, bytes::Bytes::copy_from_slice(bytes)).await.unwrap(), Create::Created));
        let again = place.authority();
        let (read, tag) = again.read_record(&key).await.unwrap().unwrap();
        assert_eq!(&read[..], bytes);
        let kind: String =
            place.connection().query_row("SELECT typeof(body) FROM record WHERE key = ?1", [key.as_str()], |row| row.get(0)).unwrap();
        assert_eq!(kind, if std::str::from_utf8(bytes).is_ok() { "text" } else { "blob" });
        swapped(again.swap_record(&key, &tag, body("x")).await.unwrap());
    }
}

/// Each writer has an authority and a runtime of its own, as a process would; only the file is common.
#[test]
fn no_swap_of_a_race_is_lost() {
    const WRITERS: u64 = 16;
    const SWAPS: u64 = 50;
    let place = Place::new();
    let writer = |writer: u64| {
        // What a disk does for half a minute is not at stake here.
        let authority = place.authority().patience(Duration::from_secs(3_600));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (main, mut done) = (branch("main"), 0);
            while done < SWAPS {
                let (count, tag) = match authority.read_head(&main, None).await.unwrap() {
                    HeadRead::Absent => (0, None),
                    HeadRead::Found(bytes, tag) => {
                        let text = String::from_utf8(bytes.to_vec()).unwrap();
                        (text.split(' ').next().unwrap().parse::<u64>().unwrap(), Some(tag))
                    }
                    HeadRead::Unchanged => panic!("no tag was given"),
                };
                let expected = tag.as_ref().map_or(Expected::Absent, Expected::Tag);
                match authority.swap_head(&main, expected, body(format!("{} {writer} {done}", count + 1))).await.unwrap() {
                    Swap::Swapped(_) => done += 1,
                    Swap::Conflict => {}
                    Swap::Unknown(error) => panic!("{error:?}"),
                }
            }
        });
    };
    std::thread::scope(|scope| (0..WRITERS).for_each(|number| drop(scope.spawn(move || writer(number)))));
    let head: String = place.connection().query_row("SELECT body FROM head", [], |row| row.get(0)).unwrap();
    assert_eq!(head.split(' ').next().unwrap().parse::<u64>().unwrap(), WRITERS * SWAPS);
}

#[tokio::test]
async fn a_lock_that_is_held_too_long_is_unavailable_and_nothing_is_written() {
    let place = Place::new();
    let main = branch("main");
    let first = swapped(place.authority().swap_head(&main, Expected::Absent, body("1")).await.unwrap());
    let holder = place.connection();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = place.authority().patience(Duration::from_millis(200));
    let key = RecordKey::new(RecordKind::Segment, ["a"]);
    let errors = [
        waiting.swap_head(&main, Expected::Tag(&first), body("2")).await.unwrap_err(),
        waiting.create_record(&key, body("2")).await.unwrap_err(),
        waiting.remove_record(&key).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Retry), "{error:?}");
        assert!(error.context("path").is_some() && error.context("object").is_some() && error.operation().is_some(), "{error:?}");
    }
    // Readers wait for nobody.
    assert!(matches!(waiting.read_head(&main, Some(&first)).await.unwrap(), HeadRead::Unchanged));
    holder.execute_batch("ROLLBACK").unwrap();
    swapped(waiting.swap_head(&main, Expected::Tag(&first), body("2")).await.unwrap());
    assert!(waiting.list_records("").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_full_database_is_unavailable_and_what_is_there_stays() {
    let place = Place::new();
    let main = branch("main");
    let first = swapped(place.authority().swap_head(&main, Expected::Absent, body("1")).await.unwrap());
    let small = place.authority().max_pages(24);
    let large = body("x".repeat(1 << 17));
    let key = RecordKey::new(RecordKind::Segment, ["a"]);
    let errors: Vec<Error> = [
        small.swap_head(&main, Expected::Tag(&first), large.clone()).await.unwrap_err(),
        small.swap_head(&branch("other"), Expected::Absent, large.clone()).await.unwrap_err(),
        small.create_record(&key, large).await.unwrap_err(),
    ]
    .into();
    for error in errors {
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Retry), "{error:?}");
        assert!(error.to_string().contains("full"), "{error}");
    }
    assert!(matches!(small.read_head(&main, Some(&first)).await.unwrap(), HeadRead::Unchanged));
    assert_eq!(small.list_branches().await.unwrap(), [branch("main")]);
    assert!(small.list_records("").await.unwrap().is_empty());
    // What fits is taken, and what there is room for again.
    let second = swapped(small.swap_head(&main, Expected::Tag(&first), body("2")).await.unwrap());
    swapped(place.authority().swap_head(&main, Expected::Tag(&second), body("x".repeat(1 << 17))).await.unwrap());
    place.is_sound();
}

/// A file that says in its header that it must not be written, which holds for a superuser, too.
#[tokio::test]
async fn a_read_only_file_is_read_and_never_written() {
    use std::os::unix::fs::FileExt;
    let place = Place::new();
    let main = branch("main");
    let first = swapped(place.authority().swap_head(&main, Expected::Absent, body("1")).await.unwrap());
    let file = fs::OpenOptions::new().write(true).open(place.path()).unwrap();
    file.write_at(&[3], 18).unwrap();
    let before = fs::read(place.path()).unwrap();
    let authority = place.authority();
    assert!(matches!(authority.read_head(&main, Some(&first)).await.unwrap(), HeadRead::Unchanged));
    for error in [
        authority.swap_head(&main, Expected::Tag(&first), body("2")).await.unwrap_err(),
        authority.create_record(&RecordKey::new(RecordKind::Segment, ["a"]), body("2")).await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.retry()), (ErrorKind::InvalidInput, Retry::Permanent), "{error:?}");
    }
    assert_eq!(fs::read(place.path()).unwrap(), before);
}

#[tokio::test]
async fn a_schema_of_a_newer_build_is_refused_by_name_also_by_an_open_handle() {
    let place = Place::new();
    let (main, open) = (branch("main"), place.authority());
    let first = swapped(open.swap_head(&main, Expected::Absent, body("1")).await.unwrap());
    place.connection().execute_batch(&format!("PRAGMA user_version = {}", VERSION + 1)).unwrap();
    for authority in [open, place.authority()] {
        for error in [
            authority.read_head(&main, None).await.unwrap_err(),
            authority.swap_head(&main, Expected::Tag(&first), body("2")).await.unwrap_err(),
            authority.swap_head(&branch("other"), Expected::Absent, body("2")).await.unwrap_err(),
            authority.list_branches().await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::FormatMismatch, "{error:?}");
            assert!(error.to_string().contains(&format!("version {}", VERSION + 1)), "{error}");
        }
    }
    assert_eq!(place.connection().query_row("SELECT body FROM head", [], |row| row.get::<_, String>(0)).unwrap(), "1");
}

#[tokio::test]
async fn what_is_no_control_file_is_refused_and_stays_as_it_is() {
    let place = Place::new();
    type Make = fn(&Path);
    let cases: [(&str, Make); 4] = [
        ("another program", |path| Connection::open(path).unwrap().execute_batch("CREATE TABLE t (x)").unwrap()),
        ("another program", |path| {
            Connection::open(path).unwrap().execute_batch("CREATE TABLE head (x); PRAGMA user_version = 1").unwrap()
        }),
        ("no SQLite database", |path| fs::write(path, "writer,number\n".repeat(400)).unwrap()),
        ("a folder stands", |path| fs::create_dir(path).unwrap()),
    ];
    for (told, make) in cases {
        let path = place.folder().join("other");
        make(&path);
        let before = fs::read(&path).ok();
        let authority = SqliteAuthority::new(&path).unwrap();
        for error in [
            authority.read_head(&branch("main"), None).await.unwrap_err(),
            authority.swap_head(&branch("main"), Expected::Absent, body("1")).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
            assert!(error.to_string().contains(told), "{error}");
        }
        assert_eq!(fs::read(&path).ok(), before);
        if before.is_some() { fs::remove_file(&path).unwrap() } else { fs::remove_dir(&path).unwrap() }
    }
    // An empty file is what a process leaves that dies at once.
    fs::write(place.path(), "").unwrap();
    let authority = place.authority();
    assert!(matches!(authority.read_head(&branch("main"), None).await.unwrap(), HeadRead::Absent));
    assert!(matches!(authority.swap_head(&branch("main"), Expected::Tag(&Tag::new("1")), body("x")).await.unwrap(), Swap::Conflict));
    authority.remove_record(&RecordKey::new(RecordKind::Segment, ["a"])).await.unwrap();
    swapped(authority.swap_head(&branch("main"), Expected::Absent, body("1")).await.unwrap());
}

#[tokio::test]
async fn a_path_that_cannot_be_is_the_callers_mistake() {
    let place = Place::new();
    fs::write(place.folder().join("file"), "text").unwrap();
    for path in ["file/control.db", "not/there/control.db", &format!("{}.db", "x".repeat(300))] {
        let authority = SqliteAuthority::new(place.folder().join(path)).unwrap();
        let error = authority.swap_head(&branch("main"), Expected::Absent, body("1")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
        assert!(error.context("path").is_some(), "{error:?}");
    }
    for path in ["relative.db", "/", ""] {
        assert_eq!(SqliteAuthority::new(path).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(place.files(), ["file"]);
}

#[tokio::test]
async fn rows_that_nobody_can_have_written_are_corrupt_and_named() {
    let place = Place::new();
    let (main, key) = (branch("main"), RecordKey::new(RecordKind::Segment, ["a"]));
    swapped(place.authority().swap_head(&main, Expected::Absent, body("1")).await.unwrap());
    place.authority().create_record(&key, body("1")).await.unwrap();
    let insert = |table: &str, name: &str| {
        place.connection().execute_batch(&format!("INSERT INTO {table} VALUES ({name}, '1')")).unwrap();
    };
    for name in ["' main'", "'a/b'", "CAST(x'ff' AS TEXT)", "''", "'a' || char(10)"] {
        insert("head", name);
        let error = place.authority().list_branches().await.unwrap_err();
        assert_eq!((error.kind(), error.context("object").is_some()), (ErrorKind::Corrupt, true), "{name}: {error}");
        place.connection().execute_batch(&format!("DELETE FROM head WHERE branch = {name}")).unwrap();
    }
    for name in ["'strange/a'", "'segment/A'", "'segment//a'", "CAST(x'ff' AS TEXT)", "''"] {
        insert("record", name);
        assert_eq!(place.authority().list_records("").await.unwrap_err().kind(), ErrorKind::Corrupt, "{name}");
        place.connection().execute_batch(&format!("DELETE FROM record WHERE key = {name}")).unwrap();
    }
    for value in ["7", "1.5"] {
        place.connection().execute_batch(&format!("UPDATE head SET body = {value}; UPDATE record SET body = {value}")).unwrap();
        for (error, object) in [
            (place.authority().read_head(&main, None).await.unwrap_err(), "head of branch main"),
            (place.authority().read_record(&key).await.unwrap_err(), "segment/a"),
        ] {
            assert_eq!((error.kind(), error.context("object")), (ErrorKind::Corrupt, Some(object)), "{error:?}");
        }
    }
    place.connection().execute_batch("DROP TABLE head").unwrap();
    let error = place.authority().read_head(&main, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
}

#[tokio::test]
async fn a_damaged_file_is_corrupt_or_read_exactly_and_never_a_panic() {
    let place = Place::new();
    let main = branch("main");
    swapped(place.authority().swap_head(&main, Expected::Absent, body("1".repeat(20_000))).await.unwrap());
    for i in 0..50 {
        let key = RecordKey::new(RecordKind::Segment, [i.to_string().as_str()]);
        place.authority().create_record(&key, body("2".repeat(500))).await.unwrap();
    }
    let sound = fs::read(place.path()).unwrap();
    let (mut corrupt, mut exact) = (0, 0);
    for (i, at) in (0..sound.len()).step_by(sound.len() / 300).enumerate() {
        let mut damaged = sound.clone();
        let end = (at + 1 + i % 64).min(damaged.len());
        damaged[at..end].fill(if i % 2 == 0 { 0xff } else { 0 });
        if i % 10 == 9 {
            damaged.truncate(at);
        }
        fs::write(place.path(), damaged).unwrap();
        let authority = place.authority();
        match authority.read_head(&main, None).await {
            Ok(HeadRead::Found(bytes, tag)) => {
                exact += usize::from(bytes == body("1".repeat(20_000)));
                assert_eq!(tag.as_str(), headwater_core::json::sha256(&bytes), "what is found is judged by its digest above");
            }
            Ok(_) => {}
            Err(error) => {
                let typed = [ErrorKind::Corrupt, ErrorKind::InvalidInput, ErrorKind::FormatMismatch, ErrorKind::Unavailable];
                assert!(typed.contains(&error.kind()) && error.context("path").is_some(), "{at}: {error:?}");
                corrupt += 1;
            }
        }
        let _ = authority.list_records("").await;
        let _ = authority.inspect().await;
    }
    assert!(corrupt > 10 && exact > 10, "{corrupt} {exact}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_swap_is_applied_wholly() {
    let place = Place::new();
    let (main, authority) = (branch("main"), place.authority());
    let first = swapped(authority.swap_head(&main, Expected::Absent, body("1")).await.unwrap());
    {
        let mut swap = Box::pin(authority.swap_head(&main, Expected::Tag(&first), body("2")));
        let _ = swap.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    loop {
        match authority.read_head(&main, Some(&first)).await.unwrap() {
            HeadRead::Unchanged => tokio::task::yield_now().await,
            HeadRead::Found(bytes, _) => break assert_eq!(&bytes[..], b"2"),
            HeadRead::Absent => panic!("the head is gone"),
        }
    }
}

/// What is written to a file without a name would be lost.
#[tokio::test]
async fn a_file_that_was_deleted_or_replaced_under_an_open_handle_is_not_written_to() {
    let place = Place::new();
    let (main, authority) = (branch("main"), place.authority());
    let first = swapped(authority.swap_head(&main, Expected::Absent, body("1")).await.unwrap());
    place.delete();
    assert!(matches!(authority.read_head(&main, Some(&first)).await.unwrap(), HeadRead::Absent));
    assert!(matches!(authority.swap_head(&main, Expected::Tag(&first), body("2")).await.unwrap(), Swap::Conflict));
    swapped(authority.swap_head(&main, Expected::Absent, body("3")).await.unwrap());
    let other = Place::new();
    swapped(other.authority().swap_head(&main, Expected::Absent, body("4")).await.unwrap());
    place.delete();
    fs::rename(other.path(), place.path()).unwrap();
    let HeadRead::Found(bytes, tag) = authority.read_head(&main, None).await.unwrap() else { panic!("the head is there") };
    assert_eq!(&bytes[..], b"4");
    swapped(authority.swap_head(&main, Expected::Tag(&tag), body("5")).await.unwrap());
    assert_eq!(place.connection().query_row("SELECT body FROM head", [], |row| row.get::<_, String>(0)).unwrap(), "5");
}

#[tokio::test]
async fn a_row_edited_by_hand_is_another_version() {
    let place = Place::new();
    let (main, authority) = (branch("main"), place.authority());
    let first = swapped(authority.swap_head(&main, Expected::Absent, body("{\"seq\":1}")).await.unwrap());
    place.connection().execute_batch("UPDATE head SET body = json_set(body, '$.seq', 2)").unwrap();
    assert!(matches!(authority.swap_head(&main, Expected::Tag(&first), body("x")).await.unwrap(), Swap::Conflict));
    let HeadRead::Found(bytes, _) = authority.read_head(&main, Some(&first)).await.unwrap() else { panic!("another version is there") };
    assert_eq!(&bytes[..], b"{\"seq\":2}");
}

#[tokio::test]
async fn doctor_finds_damage_and_another_journal() {
    let place = Place::new();
    let authority = place.authority();
    swapped(authority.swap_head(&branch("main"), Expected::Absent, body("1")).await.unwrap());
    let severities = async || authority.inspect().await.unwrap().iter().map(|finding| finding.severity).collect::<Vec<_>>();
    assert_eq!(severities().await, [Severity::Good, Severity::Good]);
    drop(authority.clone());
    let alone = place.authority();
    drop(authority);
    place.connection().query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).unwrap();
    let found = alone.inspect().await.unwrap();
    assert_eq!((found[1].severity, found[1].message.contains("journal_mode = WAL")), (Severity::Warning, true));
    // It works all the same, and the next create sets it right.
    let HeadRead::Found(_, tag) = alone.read_head(&branch("main"), None).await.unwrap() else { panic!("the head is there") };
    swapped(alone.swap_head(&branch("main"), Expected::Tag(&tag), body("2")).await.unwrap());
    swapped(alone.swap_head(&branch("other"), Expected::Absent, body("1")).await.unwrap());
    assert_eq!(alone.inspect().await.unwrap()[1].severity, Severity::Good);
}

#[test]
fn the_registry_finds_it_by_its_scheme_and_as_no_place_for_data() {
    let registry = Registry::seal(&[("authority", "sqlite"), ("backend", "memory")], &[]).unwrap();
    let location = Location::parse("sqlite:///lake/control.db").unwrap();
    let capability = registry.authority(&location).unwrap().capability();
    assert_eq!((capability.power_safe, capability.multi_host, capability.list_is_strong), (cfg!(unix), false, true));
    assert!(registry.backend("sqlite").unwrap_err().to_string().contains("--control"));
    let expected: BTreeSet<&str> = ["sqlite:", "memory:"].into();
    let unknown = registry.authority(&Location::parse("http://x").unwrap()).unwrap_err().to_string();
    assert!(expected.iter().all(|scheme| unknown.contains(scheme)), "{unknown}");
}
