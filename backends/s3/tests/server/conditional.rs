//! Conditional writes, one by one and racing.

use headwater_core::ErrorKind;
use headwater_core::authority::{ControlAuthority, Create, Expected, HeadRead, Swap, Tag};
use headwater_s3::S3Authority;
use tokio::task::JoinSet;

use crate::fixture::{body, branch, fresh, head, record, server, settings, swapped};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_go_round_and_swaps_compare() {
    let authority = fresh();
    let main = branch("main");
    assert!(matches!(authority.read_head(&main, None).await.unwrap(), HeadRead::Absent));
    let first = swapped(authority.swap_head(&main, Expected::Absent, body("1")).await.unwrap());
    assert!(first.as_str().starts_with('"') && first.as_str().ends_with('"'), "{first:?}");
    assert!(matches!(authority.swap_head(&main, Expected::Absent, body("x")).await.unwrap(), Swap::Conflict));
    let second = swapped(authority.swap_head(&main, Expected::Tag(&first), body("2")).await.unwrap());
    assert!(matches!(authority.swap_head(&main, Expected::Tag(&first), body("x")).await.unwrap(), Swap::Conflict));
    assert!(matches!(authority.read_head(&main, Some(&second)).await.unwrap(), HeadRead::Unchanged));
    match authority.read_head(&main, Some(&first)).await.unwrap() {
        HeadRead::Found(bytes, tag) => assert_eq!((&bytes[..], tag), (&b"2"[..], second.clone())),
        other => panic!("{other:?}"),
    }
    // What is no ETag matches nothing: not even what HTTP has for "any", and for "one of these".
    for tag in ["*", "", "x", &format!("{}, \"x\"", second.as_str())] {
        let tag = Tag::new(tag);
        assert!(matches!(authority.swap_head(&main, Expected::Tag(&tag), body("x")).await.unwrap(), Swap::Conflict), "{tag:?}");
        assert!(matches!(authority.read_head(&main, Some(&tag)).await.unwrap(), HeadRead::Found(..)), "{tag:?}");
    }
    // A tag never creates: neither one that is in use elsewhere, nor one that never was.
    for tag in [second, Tag::new("\"0123456789abcdef0123456789abcdef\"")] {
        assert!(matches!(authority.swap_head(&branch("other"), Expected::Tag(&tag), body("x")).await.unwrap(), Swap::Conflict));
        assert_eq!(head(&authority, "other").await, None);
        assert!(matches!(authority.swap_record(&record("other"), &tag, body("x")).await.unwrap(), Swap::Conflict));
        assert!(authority.read_record(&record("other")).await.unwrap().is_none());
    }
    assert_eq!(authority.list_branches().await.unwrap(), [main]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_created_once_swapped_and_removed() {
    let authority = fresh();
    let key = record("a");
    assert!(authority.read_record(&key).await.unwrap().is_none());
    assert!(matches!(authority.create_record(&key, body("1")).await.unwrap(), Create::Created));
    assert!(matches!(authority.create_record(&key, body("1")).await.unwrap(), Create::Exists));
    let (bytes, tag) = authority.read_record(&key).await.unwrap().unwrap();
    assert_eq!(&bytes[..], b"1");
    let second = swapped(authority.swap_record(&key, &tag, body("2")).await.unwrap());
    assert!(matches!(authority.swap_record(&key, &tag, body("x")).await.unwrap(), Swap::Conflict));
    assert_eq!(authority.read_record(&key).await.unwrap().unwrap(), (body("2"), second));
    for _ in 0..2 {
        authority.remove_record(&key).await.unwrap();
        assert!(authority.read_record(&key).await.unwrap().is_none());
    }
    assert!(matches!(authority.create_record(&key, body("3")).await.unwrap(), Create::Created));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_creates_at_once_have_one_winner() {
    let authority = fresh();
    for round in 0..20 {
        let name = format!("race-{round}");
        let mut racers = JoinSet::new();
        for n in 0..16 {
            let (authority, key) = (authority.clone(), record(&name));
            racers.spawn(async move { (n, authority.create_record(&key, body(format!("racer {n}"))).await.unwrap()) });
        }
        let outcomes = racers.join_all().await;
        let winners: Vec<_> = outcomes.iter().filter(|(_, create)| matches!(create, Create::Created)).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        let there = authority.read_record(&record(&name)).await.unwrap().unwrap().0;
        assert_eq!(there, body(format!("racer {}", winners[0].0)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_swaps_at_once_have_one_winner() {
    let authority = fresh();
    let mut tag = swapped(authority.swap_head(&branch("main"), Expected::Absent, body("start")).await.unwrap());
    for round in 0..20 {
        let mut racers = JoinSet::new();
        for n in 0..16 {
            let (authority, tag) = (authority.clone(), tag.clone());
            let text = format!("{round} {n}");
            racers.spawn(async move { authority.swap_head(&branch("main"), Expected::Tag(&tag), body(text)).await.unwrap() });
        }
        let outcomes = racers.join_all().await;
        let mut winners = outcomes.iter().filter_map(|swap| if let Swap::Swapped(tag) = swap { Some(tag.clone()) } else { None });
        let winner = winners.next();
        assert!(winner.is_some() && winners.next().is_none(), "{outcomes:?}");
        tag = winner.unwrap();
        assert_eq!(head(&authority, "main").await.unwrap().1, tag);
    }
}

/// Eight writers, each with connections of its own, as eight processes would be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_increment_is_lost() {
    const WRITERS: u64 = 8;
    const INCREMENTS: u64 = 50;
    let bucket = server().bucket().unwrap();
    let connect = || S3Authority::new(settings(&server().endpoint(), &bucket)).unwrap();
    let first = connect();
    swapped(first.swap_head(&branch("main"), Expected::Absent, body("0")).await.unwrap());
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let authority = connect();
        writers.spawn(async move {
            let mut done = 0;
            while done < INCREMENTS {
                let (count, tag) = head(&authority, "main").await.unwrap();
                let next = count.parse::<u64>().unwrap() + 1;
                match authority.swap_head(&branch("main"), Expected::Tag(&tag), body(next.to_string())).await.unwrap() {
                    Swap::Swapped(_) => done += 1,
                    Swap::Conflict => {}
                    // Counting it, or not, would make the sum below meaningless.
                    Swap::Unknown(cause) => panic!("{cause}"),
                }
            }
        });
    }
    writers.join_all().await;
    assert_eq!(head(&first, "main").await.unwrap().0, (WRITERS * INCREMENTS).to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_bucket_is_named_and_nothing_is_unknown() {
    let authority = S3Authority::new(settings(&server().endpoint(), "no-such-bucket-here")).unwrap();
    let tag = Tag::new("\"0\"");
    let errors = [
        authority.read_head(&branch("main"), None).await.unwrap_err(),
        authority.swap_head(&branch("main"), Expected::Absent, body("x")).await.unwrap_err(),
        authority.create_record(&record("a"), body("x")).await.unwrap_err(),
        authority.list_branches().await.unwrap_err(),
    ];
    // A server may look at the condition first, and at the bucket only then.
    let swap = authority.swap_head(&branch("main"), Expected::Tag(&tag), body("x")).await;
    let errors = errors.into_iter().chain(match swap {
        Ok(Swap::Conflict) => None,
        outcome => Some(outcome.unwrap_err()),
    });
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
        assert_eq!(error.context("bucket"), Some("no-such-bucket-here"), "{error:?}");
    }
}
