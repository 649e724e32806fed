//! The authority and the object store on a real disk.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the whole file is a test")]

use std::collections::BTreeSet;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Waker};

use bytes::Bytes;
use futures::TryStreamExt;
use headwater_core::ErrorKind;
use headwater_core::authority::{ControlAuthority, Create, Expected, HeadRead, Swap, Tag};
use headwater_core::name::{BranchName, RecordKey, RecordKind};
use headwater_core::registry::{Location, OpenedBackend, Part, Registry};
use headwater_local::{LocalAuthority, REGISTRATION};
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use tempfile::TempDir;

fn branch(name: &str) -> BranchName {
    name.parse().unwrap()
}

fn body(text: impl Into<String>) -> Bytes {
    Bytes::from(text.into())
}

fn fresh() -> (TempDir, LocalAuthority) {
    let folder = tempfile::tempdir().unwrap();
    let authority = LocalAuthority::new(folder.path().join("lake")).unwrap();
    (folder, authority)
}

fn swapped(swap: Swap) -> Tag {
    match swap {
        Swap::Swapped(tag) => tag,
        other => panic!("{other:?}"),
    }
}

fn open(root: &Path) -> OpenedBackend {
    let Part::Backend(backend) = REGISTRATION.part else { panic!("not a backend") };
    (backend.open)(&Location::parse(url::Url::from_file_path(root).unwrap().as_str()).unwrap()).unwrap()
}

#[tokio::test]
async fn heads_go_round_and_swaps_compare() {
    let (_folder, authority) = fresh();
    let main = branch("main");
    let first = swapped(authority.swap_head(&main, Expected::Absent, body("1")).await.unwrap());
    assert!(matches!(authority.swap_head(&main, Expected::Absent, body("x")).await.unwrap(), Swap::Conflict));
    let second = swapped(authority.swap_head(&main, Expected::Tag(&first), body("2")).await.unwrap());
    assert!(matches!(authority.swap_head(&main, Expected::Tag(&first), body("x")).await.unwrap(), Swap::Conflict));
    assert!(matches!(authority.read_head(&main, Some(&second)).await.unwrap(), HeadRead::Unchanged));
    match authority.read_head(&main, Some(&first)).await.unwrap() {
        HeadRead::Found(bytes, tag) => assert_eq!((&bytes[..], tag), (&b"2"[..], second.clone())),
        other => panic!("{other:?}"),
    }
    // A tag never creates.
    assert!(matches!(authority.swap_head(&branch("other"), Expected::Tag(&second), body("x")).await.unwrap(), Swap::Conflict));
    assert!(matches!(authority.read_head(&branch("other"), None).await.unwrap(), HeadRead::Absent));
    assert_eq!(authority.list_branches().await.unwrap(), [main]);
}

#[tokio::test]
async fn records_are_created_once_listed_swapped_and_removed() {
    let (_folder, authority) = fresh();
    let key = |parts: &[&'static str]| RecordKey::new(RecordKind::Segment, parts.iter().copied());
    let keys = [key(&["a"]), key(&["a", "1"]), key(&["a", "2"]), key(&["a.json", "1"]), key(&["ab", "1"])];
    for key in &keys {
        assert!(matches!(authority.create_record(key, body(key.as_str())).await.unwrap(), Create::Created), "{key}");
        assert!(matches!(authority.create_record(key, body("x")).await.unwrap(), Create::Exists), "{key}");
    }
    let catalog = RecordKey::new(RecordKind::Catalog, []);
    assert!(matches!(authority.create_record(&catalog, body("c")).await.unwrap(), Create::Created));

    let listed = async |prefix: &str| authority.list_records(prefix).await.unwrap().into_iter().collect::<BTreeSet<_>>();
    assert_eq!(listed("").await, keys.iter().chain([&catalog]).cloned().collect());
    assert_eq!(listed("segment").await, keys.iter().cloned().collect());
    assert_eq!(listed("segment/a").await, keys[1..3].iter().cloned().collect());
    assert_eq!(listed("segment/a.json").await, keys[3..4].iter().cloned().collect());
    for none in ["segment/b", "seg", "segment/", "/", "..", "segment/..", "../records", "catalog", "segment/A"] {
        assert_eq!(listed(none).await, BTreeSet::new(), "{none:?}");
    }

    let (bytes, tag) = authority.read_record(&keys[0]).await.unwrap().unwrap();
    assert_eq!(&bytes[..], keys[0].as_str().as_bytes());
    swapped(authority.swap_record(&keys[0], &tag, body("2")).await.unwrap());
    assert!(matches!(authority.swap_record(&keys[0], &tag, body("3")).await.unwrap(), Swap::Conflict));
    assert_eq!(&authority.read_record(&keys[0]).await.unwrap().unwrap().0[..], b"2");

    authority.remove_record(&keys[0]).await.unwrap();
    authority.remove_record(&keys[0]).await.unwrap();
    assert!(authority.read_record(&keys[0]).await.unwrap().is_none());
    assert!(matches!(authority.swap_record(&keys[0], &tag, body("3")).await.unwrap(), Swap::Conflict));
    assert!(matches!(authority.create_record(&keys[0], body("4")).await.unwrap(), Create::Created));
}

/// Each writer has an authority and a runtime of its own, as a process would; only the disk is common.
#[test]
fn no_swap_of_a_race_is_lost() {
    const WRITERS: u64 = 16;
    const SWAPS: u64 = 50;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("lake");
    let writer = |writer: u64| {
        let authority = LocalAuthority::new(&root).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
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
    let head = fs::read_to_string(root.join("_headwater/heads/main.json")).unwrap();
    assert_eq!(head.split(' ').next().unwrap().parse::<u64>().unwrap(), WRITERS * SWAPS);
    assert_eq!(fs::read_dir(root.join("_headwater/tmp")).unwrap().count(), 0);
}

#[test]
fn one_of_many_creators_wins() {
    let folder = tempfile::tempdir().unwrap();
    let key = RecordKey::new(RecordKind::Catalog, []);
    let create = |number: usize| {
        let authority = LocalAuthority::new(folder.path()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let created = runtime.block_on(authority.create_record(&key, body(number.to_string()))).unwrap();
        matches!(created, Create::Created).then_some(number)
    };
    let winners: Vec<usize> = std::thread::scope(|scope| {
        let create = &create;
        let threads: Vec<_> = (0..16).map(|number| scope.spawn(move || create(number))).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    let [winner] = winners[..] else { panic!("{winners:?}") };
    assert_eq!(fs::read_to_string(folder.path().join("_headwater/records/catalog.json")).unwrap(), winner.to_string());
}

#[tokio::test]
async fn reading_a_catalog_that_is_not_there_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let backend = open(&folder.path().join("not/there"));
    let (authority, objects) = (backend.authority, backend.objects);
    let key = RecordKey::new(RecordKind::Catalog, []);
    let tag = Tag::new("none");
    assert!(matches!(authority.read_head(&branch("main"), Some(&tag)).await.unwrap(), HeadRead::Absent));
    assert!(authority.read_record(&key).await.unwrap().is_none());
    assert!(authority.list_branches().await.unwrap().is_empty());
    assert!(authority.list_records("").await.unwrap().is_empty());
    assert!(matches!(authority.swap_head(&branch("main"), Expected::Tag(&tag), body("x")).await.unwrap(), Swap::Conflict));
    assert!(matches!(authority.swap_record(&key, &tag, body("x")).await.unwrap(), Swap::Conflict));
    authority.remove_record(&key).await.unwrap();
    assert!(matches!(objects.get(&Key::from("data/x")).await, Err(object_store::Error::NotFound { .. })));
    assert!(objects.list(Some(&Key::from("data"))).try_collect::<Vec<_>>().await.unwrap().is_empty());
    assert!(objects.list(None).try_collect::<Vec<_>>().await.unwrap().is_empty());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn objects_and_control_files_share_a_root_of_any_name() {
    for name in ["lake", "a b", "ü日本", "100%", "a%20b", "#", "a#1", "a?b", "~[x]{y}^`|\"<>", ".hidden", "a;b&c=d+e:f"] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("new").join(name);
        let backend = open(&root);
        swapped(backend.authority.swap_head(&branch("main"), Expected::Absent, body("1")).await.unwrap());
        let key = Key::from("data/t/1/part-0.parquet");
        backend.objects.put_opts(&key, "rows".into(), PutMode::Create.into()).await.unwrap();
        let again = backend.objects.put_opts(&key, "rows".into(), PutMode::Create.into()).await;
        assert!(matches!(again, Err(object_store::Error::AlreadyExists { .. })), "{name}: {again:?}");
        assert_eq!(fs::read(root.join("data/t/1/part-0.parquet")).unwrap(), b"rows", "{name}");
        assert_eq!(fs::read(root.join("_headwater/heads/main.json")).unwrap(), b"1", "{name}");
        let listed: Vec<_> = backend.objects.list(Some(&Key::from("data"))).map_ok(|object| object.location).try_collect().await.unwrap();
        assert_eq!(listed, std::slice::from_ref(&key), "{name}");
        assert_eq!(&backend.objects.get(&key).await.unwrap().bytes().await.unwrap()[..], b"rows", "{name}");
        backend.objects.delete(&key).await.unwrap();
        assert!(!root.join("data/t/1/part-0.parquet").exists(), "{name}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{name}");
    }
}

#[tokio::test]
async fn uploads_copies_and_renames_make_their_folders() {
    let folder = tempfile::tempdir().unwrap();
    let objects = headwater_local::objects(&folder.path().join("lake")).unwrap();
    let mut upload = objects.put_multipart(&Key::from("data/a/1")).await.unwrap();
    upload.put_part("ro".into()).await.unwrap();
    upload.put_part("ws".into()).await.unwrap();
    upload.complete().await.unwrap();
    objects.copy(&Key::from("data/a/1"), &Key::from("data/b/1")).await.unwrap();
    objects.rename(&Key::from("data/a/1"), &Key::from("data/c/1")).await.unwrap();
    let listed: BTreeSet<_> = objects.list(None).map_ok(|object| object.location.to_string()).try_collect().await.unwrap();
    assert_eq!(listed, ["data/b/1", "data/c/1"].map(String::from).into());
    assert_eq!(fs::read(folder.path().join("lake/data/c/1")).unwrap(), b"rows");
}

#[tokio::test]
async fn hostile_names_stay_distinct_inside_the_root() {
    let (folder, authority) = fresh();
    let names = [
        "main",
        "Main",
        "a b",
        "a%20b",
        "ä",
        "a\u{308}",
        "..",
        ".",
        ".json",
        "x.json",
        "CON",
        "100%",
        "日本",
        "*?<>|\"':",
        &"é".repeat(40),
    ];
    for name in names {
        swapped(authority.swap_head(&branch(name), Expected::Absent, body(name)).await.unwrap());
        let key = RecordKey::new(RecordKind::Entry, [name, name]);
        assert!(matches!(authority.create_record(&key, body(name)).await.unwrap(), Create::Created), "{name}");
    }
    let expected: BTreeSet<_> = names.map(branch).into_iter().collect();
    assert_eq!(authority.list_branches().await.unwrap().into_iter().collect::<BTreeSet<_>>(), expected);
    assert_eq!(authority.list_records("entry").await.unwrap().len(), names.len());
    for name in names {
        let HeadRead::Found(bytes, _) = authority.read_head(&branch(name), None).await.unwrap() else { panic!("{name}") };
        assert_eq!(&bytes[..], name.as_bytes());
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(fs::read_dir(folder.path().join("lake/_headwater")).unwrap().count(), 3, "heads, records, tmp");
}

#[tokio::test]
async fn files_nobody_can_have_written_are_corrupt_and_named() {
    for (file, folder) in [
        ("heads/Main.json", false),
        ("heads/a%2fb.json", false),
        ("heads/%FF.json", false),
        ("heads/%20.json", false),
        ("heads/sub.json", true),
        ("records/strange.json", false),
        ("records/segment/A/x.json", false),
        ("records/segment/x.json/y.json", false),
    ] {
        let (temp, authority) = fresh();
        swapped(authority.swap_head(&branch("main"), Expected::Absent, body("1")).await.unwrap());
        let path = temp.path().join("lake/_headwater").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if folder {
            fs::create_dir(&path).unwrap()
        } else {
            fs::write(&path, "{}").unwrap()
        }
        let error = match file.starts_with("heads") {
            true => authority.list_branches().await.unwrap_err(),
            false => authority.list_records("").await.unwrap_err(),
        };
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{file}: {error}");
        assert!(error.to_string().contains(Path::new(file).parent().unwrap().file_name().unwrap().to_str().unwrap()), "{file}: {error}");
        // The damage stops nobody else.
        assert!(matches!(authority.read_head(&branch("main"), None).await.unwrap(), HeadRead::Found(..)));
    }
}

#[tokio::test]
async fn leftovers_and_files_of_others_are_passed_over() {
    let (temp, authority) = fresh();
    swapped(authority.swap_head(&branch("main"), Expected::Absent, body("1")).await.unwrap());
    let control = temp.path().join("lake/_headwater");
    for file in ["tmp/1-0-0", "heads/.DS_Store", "heads/main.json~"] {
        fs::write(control.join(file), "torn").unwrap();
    }
    assert_eq!(authority.list_branches().await.unwrap(), [branch("main")]);
    assert!(authority.list_records("").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_root_that_is_no_folder_is_the_callers_mistake() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "text").unwrap();
    for root in [file.clone(), file.join("below")] {
        let authority = LocalAuthority::new(&root).unwrap();
        let read = authority.read_head(&branch("main"), None).await.unwrap_err();
        let write = authority.swap_head(&branch("main"), Expected::Absent, body("1")).await.unwrap_err();
        for error in [read, write] {
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
            assert!(error.context("path").unwrap().starts_with(file.to_str().unwrap()), "{error:?}");
        }
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "text");
    assert_eq!(LocalAuthority::new("relative").unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_swap_is_applied_wholly() {
    let (_folder, authority) = fresh();
    let main = branch("main");
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

#[tokio::test]
async fn a_catalog_deleted_under_an_open_handle_can_be_made_again() {
    let (temp, authority) = fresh();
    let main = branch("main");
    swapped(authority.swap_head(&main, Expected::Absent, body("1")).await.unwrap());
    fs::remove_dir_all(temp.path().join("lake")).unwrap();
    assert!(matches!(authority.read_head(&main, None).await.unwrap(), HeadRead::Absent));
    let error = authority.swap_head(&main, Expected::Absent, body("2")).await.unwrap_err();
    assert_eq!(error.retry(), headwater_core::Retry::Retry, "{error:?}");
    swapped(authority.swap_head(&main, Expected::Absent, body("2")).await.unwrap());
}

#[test]
fn the_registry_finds_it_by_its_scheme() {
    let expected = [("backend", "local"), ("backend", "memory")];
    let registry = Registry::seal(&expected, &[]).unwrap();
    assert_eq!(registry.backend("file").unwrap().schemes, ["file"]);
    let capability = open(Path::new("/lake")).authority.capability();
    assert_eq!((capability.power_safe, capability.multi_host, capability.list_is_strong), (cfg!(unix), false, true));
    let shared: Arc<dyn ObjectStore> = headwater_local::objects(Path::new("/lake")).unwrap();
    assert_eq!(shared.to_string(), "LocalObjects(/lake)");
}
