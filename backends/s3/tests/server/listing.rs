//! Listings over several pages, odd names, and the object store beside the authority.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use headwater_bench::proxy::Verb;
use headwater_core::authority::{ControlAuthority, Create, Expected};
use headwater_core::name::{RecordKey, RecordKind};
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt, PutMode, PutOptions};
use tokio::task::JoinSet;

use crate::fixture::{body, branch, fresh, proxied, swapped};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_of_more_than_one_page_is_whole() {
    let (proxy, through, direct) = proxied().await;
    let keys: BTreeSet<RecordKey> = (0..1005).map(|n| RecordKey::new(RecordKind::Segment, ["many", &format!("{n:04}")])).collect();
    let mut writers = JoinSet::new();
    for chunk in keys.iter().cloned().collect::<Vec<_>>().chunks(128) {
        let (authority, chunk) = (direct.clone(), chunk.to_vec());
        writers.spawn(async move {
            for key in chunk {
                assert!(matches!(authority.create_record(&key, body("x")).await.unwrap(), Create::Created));
            }
        });
    }
    writers.join_all().await;
    for prefix in ["", "segment", "segment/many"] {
        let listed = through.list_records(prefix).await.unwrap();
        assert_eq!(listed.len(), keys.len());
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), keys);
    }
    assert_eq!(proxy.requests().len(), 6, "{}", proxy.render());
    assert!(proxy.requests().iter().all(|request| request.verb == Verb::List), "{}", proxy.render());
    assert!(through.list_records("segment/man").await.unwrap().is_empty());
    assert!(through.list_branches().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_names_stay_apart_and_come_back() {
    let authority = fresh();
    let names =
        ["main", "Main", "a b", "a+b", "a%20b", "100%", "ü", "u\u{308}", "日本", "..", ".x", "q\"'<>&", "a=b&c#d?e", "x.json", "~*!()"];
    for name in names {
        swapped(authority.swap_head(&branch(name), Expected::Absent, body(name)).await.unwrap());
        let key = RecordKey::new(RecordKind::Entry, [name, name]);
        assert!(matches!(authority.create_record(&key, body(name)).await.unwrap(), Create::Created), "{name}");
    }
    for name in names {
        let (found, _) = crate::fixture::head(&authority, name).await.unwrap();
        assert_eq!(found, name);
        let key = RecordKey::new(RecordKind::Entry, [name, name]);
        assert_eq!(authority.read_record(&key).await.unwrap().unwrap().0, body(name));
    }
    let listed: BTreeSet<String> = authority.list_branches().await.unwrap().into_iter().map(String::from).collect();
    assert_eq!(listed, names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(authority.list_records("entry").await.unwrap().len(), names.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_lies_below_the_prefix_and_is_created_once() {
    let authority = fresh();
    let objects = authority.objects();
    swapped(authority.swap_head(&branch("main"), Expected::Absent, body("1")).await.unwrap());
    let key = Path::from("data/t/ü 1%.parquet");
    let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    objects.put_opts(&key, body("rows").into(), create.clone()).await.unwrap();
    assert!(matches!(objects.put_opts(&key, body("x").into(), create).await, Err(Error::AlreadyExists { .. })));
    assert_eq!(objects.get_range(&key, 1..3).await.unwrap(), body("ow"));
    assert_eq!(objects.head(&key).await.unwrap().size, 4);
    let listed: Vec<_> = objects.list(None).map_ok(|meta| meta.location).try_collect().await.unwrap();
    assert_eq!(listed.iter().map(AsRef::as_ref).collect::<BTreeSet<&str>>(), BTreeSet::from(["_headwater/heads/main.json", key.as_ref()]));
    let top = objects.list_with_delimiter(None).await.unwrap();
    assert_eq!(top.common_prefixes.iter().map(AsRef::as_ref).collect::<BTreeSet<&str>>(), BTreeSet::from(["_headwater", "data"]));

    let mut upload = objects.put_multipart(&Path::from("data/t/large")).await.unwrap();
    upload.put_part(vec![b'a'; 5 << 20].into()).await.unwrap();
    upload.put_part(vec![b'b'; 1 << 20].into()).await.unwrap();
    upload.complete().await.unwrap();
    let large = objects.get(&Path::from("data/t/large")).await.unwrap().bytes().await.unwrap();
    assert_eq!((large.len(), large[0], large[large.len() - 1]), (6 << 20, b'a', b'b'));

    objects.delete(&key).await.unwrap();
    assert!(matches!(objects.get(&key).await, Err(Error::NotFound { .. })));
}
