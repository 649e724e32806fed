//! Requests that wait: for other processes, for each other, and for a thread to run on.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the whole file is a test")]

mod place;

use std::sync::mpsc;
use std::time::Duration;

use headwater_core::authority::{ControlAuthority, Expected, HeadRead, Swap};
use headwater_core::name::{RecordKey, RecordKind};
use headwater_core::{ErrorKind, Retry};
use place::{Place, body, branch, swapped};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{spawn_blocking, yield_now};

/// With so many threads for work that blocks.
fn runtime(threads: usize) -> Runtime {
    Builder::new_current_thread().enable_time().max_blocking_threads(threads).build().unwrap()
}

#[test]
fn however_many_wait_threads_are_left_to_others_and_each_gets_its_turn() {
    const WRITERS: usize = 100;
    runtime(8).block_on(async {
        let place = Place::new();
        let (main, authority) = (branch("main"), place.authority().patience(Duration::from_secs(3600)));
        let first = swapped(authority.swap_head(&main, Expected::Absent, body("0")).await.unwrap());
        let holder = place.connection();
        holder.execute_batch("BEGIN IMMEDIATE").unwrap();
        let write = |number: usize| {
            let (authority, main, first) = (authority.clone(), main.clone(), first.clone());
            tokio::spawn(async move { authority.swap_head(&main, Expected::Tag(&first), body(format!("{}", number + 1))).await })
        };
        let writes: Vec<_> = (0..WRITERS).map(write).collect();
        for _ in 0..10 * WRITERS {
            yield_now().await;
        }
        spawn_blocking(|| ()).await.unwrap();
        for _ in 0..20 {
            assert!(matches!(authority.read_head(&main, Some(&first)).await.unwrap(), HeadRead::Unchanged));
        }
        assert!(writes.iter().all(|write| !write.is_finished()));
        holder.execute_batch("ROLLBACK").unwrap();
        let (mut done, mut lost) = (0, 0);
        for write in writes {
            match write.await.unwrap().unwrap() {
                Swap::Swapped(_) => done += 1,
                Swap::Conflict => lost += 1,
                Swap::Unknown(error) => panic!("{error:?}"),
            }
        }
        assert_eq!((done, lost), (1, WRITERS - 1));
    });
}

/// The runtime's one thread is taken by something else until all of them have ended.
#[test]
fn a_request_that_no_thread_takes_up_ends_in_time_and_never_runs() {
    runtime(1).block_on(async {
        let place = Place::new();
        let (main, key) = (branch("main"), RecordKey::new(RecordKind::Segment, ["a"]));
        let first = swapped(place.authority().swap_head(&main, Expected::Absent, body("0")).await.unwrap());
        let authority = place.authority().patience(Duration::from_millis(30));
        let (release, wait) = mpsc::channel::<()>();
        let taken = spawn_blocking(move || wait.recv());
        let writes = futures::future::join_all((0..20).map(|_| authority.swap_head(&main, Expected::Tag(&first), body("1"))));
        let reads = futures::future::join_all((0..20).map(|_| authority.read_head(&main, None)));
        let (writes, reads, created) = futures::join!(writes, reads, authority.create_record(&key, body("1")));
        let errors = writes.into_iter().map(Result::unwrap_err).chain(reads.into_iter().map(Result::unwrap_err));
        for error in errors.chain([created.unwrap_err()]) {
            assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Retry), "{error:?}");
            assert!(error.context("object").is_some() && error.operation().is_some(), "{error:?}");
        }
        release.send(()).unwrap();
        taken.await.unwrap().unwrap();
        spawn_blocking(|| ()).await.unwrap();
        assert!(matches!(place.authority().read_head(&main, Some(&first)).await.unwrap(), HeadRead::Unchanged));
        assert!(place.authority().read_record(&key).await.unwrap().is_none());
    });
}
