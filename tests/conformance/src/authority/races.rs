//! Races: several tasks, each over handles of its own, on one head or record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use headwater_core::authority::{ControlAuthority, Create, Expected, HeadRead, Swap};
use headwater_core::name::{RecordKey, RecordKind};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::{AuthorityFixture, body, branch, found, swapped};

const TASKS: usize = 8;
const INCREMENTS: u32 = 50;

fn record() -> RecordKey {
    RecordKey::new(RecordKind::Catalog, ["counter"])
}

/// Handles as different processes have them, in a fresh place.
async fn handles(fixture: &AuthorityFixture) -> Vec<Arc<dyn ControlAuthority>> {
    let mut handles = vec![fixture.open_fresh().await];
    while handles.len() < TASKS {
        handles.push(fixture.reopen().await);
    }
    handles
}

pub(super) async fn of_concurrent_creators_of_a_head_one_wins(fixture: &AuthorityFixture) {
    let (mut tasks, start) = (JoinSet::new(), Arc::new(Barrier::new(TASKS)));
    for (i, authority) in handles(fixture).await.into_iter().enumerate() {
        let start = start.clone();
        tasks.spawn(async move {
            start.wait().await;
            (i, authority.swap_head(&branch("main"), Expected::Absent, body(i.to_string())).await.unwrap())
        });
    }
    let mut winners = Vec::new();
    for (i, swap) in tasks.join_all().await {
        match swap {
            Swap::Swapped(tag) => winners.push((body(i.to_string()), tag)),
            Swap::Conflict => {}
            Swap::Unknown(error) => panic!("nothing failed here: {error:?}"),
        }
    }
    assert_eq!(winners, [found(fixture.reopen().await.as_ref(), &branch("main")).await]);
}

pub(super) async fn of_concurrent_creators_of_a_record_one_wins(fixture: &AuthorityFixture) {
    let (mut tasks, start) = (JoinSet::new(), Arc::new(Barrier::new(TASKS)));
    for (i, authority) in handles(fixture).await.into_iter().enumerate() {
        let start = start.clone();
        tasks.spawn(async move {
            start.wait().await;
            (i, authority.create_record(&record(), body(i.to_string())).await.unwrap())
        });
    }
    let created = tasks.join_all().await.into_iter().filter(|(_, create)| matches!(create, Create::Created));
    let winners: Vec<Bytes> = created.map(|(i, _)| body(i.to_string())).collect();
    assert_eq!(winners, [fixture.reopen().await.read_record(&record()).await.unwrap().unwrap().0]);
}

fn count(body: &[u8]) -> u32 {
    std::str::from_utf8(body).unwrap().split(' ').next().unwrap().parse().unwrap()
}

/// The next count, unlike any other body: a task and its attempt stand in it, as a nonce does in a head.
fn next(read: &[u8], task: usize, attempt: u32) -> Bytes {
    body(format!("{} {task} {attempt}", count(read) + 1))
}

pub(super) async fn no_increment_of_a_head_is_lost(fixture: &AuthorityFixture) {
    let handles = handles(fixture).await;
    swapped(handles[0].swap_head(&branch("main"), Expected::Absent, body("0")).await.unwrap());
    let mut tasks = JoinSet::new();
    for (task, authority) in handles.into_iter().enumerate() {
        tasks.spawn(async move {
            let (mut done, mut attempt) = (0, 0);
            while done < INCREMENTS {
                attempt += 1;
                let (read, tag) = found(authority.as_ref(), &branch("main")).await;
                match authority.swap_head(&branch("main"), Expected::Tag(&tag), next(&read, task, attempt)).await.unwrap() {
                    Swap::Swapped(_) => done += 1,
                    Swap::Conflict => tokio::task::yield_now().await,
                    Swap::Unknown(error) => panic!("nothing failed here: {error:?}"),
                }
            }
        });
    }
    tasks.join_all().await;
    let (read, _) = found(fixture.reopen().await.as_ref(), &branch("main")).await;
    assert_eq!(count(&read), TASKS as u32 * INCREMENTS);
}

pub(super) async fn no_increment_of_a_record_is_lost(fixture: &AuthorityFixture) {
    let handles = handles(fixture).await;
    assert!(matches!(handles[0].create_record(&record(), body("0")).await.unwrap(), Create::Created));
    let mut tasks = JoinSet::new();
    for (task, authority) in handles.into_iter().enumerate() {
        tasks.spawn(async move {
            let (mut done, mut attempt) = (0, 0);
            while done < INCREMENTS / 5 {
                attempt += 1;
                let (read, tag) = authority.read_record(&record()).await.unwrap().unwrap();
                match authority.swap_record(&record(), &tag, next(&read, task, attempt)).await.unwrap() {
                    Swap::Swapped(_) => done += 1,
                    Swap::Conflict => tokio::task::yield_now().await,
                    Swap::Unknown(error) => panic!("nothing failed here: {error:?}"),
                }
            }
        });
    }
    tasks.join_all().await;
    let (read, _) = fixture.reopen().await.read_record(&record()).await.unwrap().unwrap();
    assert_eq!(count(&read), TASKS as u32 * (INCREMENTS / 5));
}

/// A body of one letter, of a length that follows from it.
fn uniform(i: usize) -> Bytes {
    let letter = b'a' + (i % 26) as u8;
    Bytes::from(vec![letter; 1_000 + 5_000 * (i % 26)])
}

fn is_uniform(body: &[u8]) -> bool {
    body.first().is_some_and(|first| body == uniform(usize::from(first - b'a')))
}

pub(super) async fn readers_see_whole_bodies(fixture: &AuthorityFixture) {
    const READERS: usize = 3;
    let mut handles = handles(fixture).await;
    let writer = handles.pop().unwrap();
    let mut tag = swapped(writer.swap_head(&branch("main"), Expected::Absent, uniform(0)).await.unwrap());
    let (mut readers, done, started) = (JoinSet::new(), Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(READERS + 1)));
    for authority in handles.into_iter().take(READERS) {
        let (done, started) = (done.clone(), started.clone());
        readers.spawn(async move {
            let mut reads = 0;
            started.wait().await;
            loop {
                let last = done.load(Ordering::SeqCst);
                match authority.read_head(&branch("main"), None).await.unwrap() {
                    HeadRead::Found(read, _) => assert!(is_uniform(&read), "a read of {} bytes saw parts of two bodies", read.len()),
                    other => panic!("the head is there: {other:?}"),
                }
                reads += 1;
                if last {
                    return reads;
                }
                tokio::task::yield_now().await;
            }
        });
    }
    started.wait().await;
    for i in 1..=200 {
        tag = swapped(writer.swap_head(&branch("main"), Expected::Tag(&tag), uniform(i)).await.unwrap());
        tokio::task::yield_now().await;
    }
    done.store(true, Ordering::SeqCst);
    for reads in readers.join_all().await {
        assert!(reads > 0);
    }
    assert_eq!(found(fixture.reopen().await.as_ref(), &branch("main")).await, (uniform(200), tag));
}
