//! Every write, cut at every primitive of the disk: what was acknowledged is there, and nothing is there by half.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the whole file is a test")]

use std::io::ErrorKind as Io;
use std::sync::Arc;

use bytes::Bytes;
use headwater_core::authority::{ControlAuthority, Create, Expected, HeadRead, Swap, Tag};
use headwater_core::name::{BranchName, RecordKey, RecordKind};
use headwater_core::{ErrorKind, Result};
use headwater_local::LocalAuthority;
use headwater_local::disk::Verb;
use headwater_local::sim::{Cut, Fault, SimDisk};

const OLD: &[u8] = b"{\"nonce\":\"old\"}";
const NEW: &[u8] = b"{\"nonce\":\"new\", \"more\": \"bytes\"}";
const NEXT: &[u8] = b"{\"nonce\":\"next\"}";

fn authority(disk: &SimDisk) -> LocalAuthority {
    LocalAuthority::over(Arc::new(disk.clone()), "/deep/lake").unwrap()
}

fn main_branch() -> BranchName {
    "main".parse().unwrap()
}

fn key() -> RecordKey {
    RecordKey::new(RecordKind::Segment, ["main", "1"])
}

/// Every way the power can fail that the tests try.
fn cuts() -> impl Iterator<Item = Cut> {
    [Cut::Synced, Cut::Everything, Cut::Names].into_iter().chain((0..24).map(Cut::Mixed))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Head,
    Record,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    Create(Target),
    Swap(Target),
    Remove,
}

const WRITES: [Write; 5] =
    [Write::Create(Target::Head), Write::Create(Target::Record), Write::Swap(Target::Head), Write::Swap(Target::Record), Write::Remove];

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Lost,
    Unknown,
    Refused(ErrorKind),
}

impl Write {
    fn target(self) -> Target {
        match self {
            Self::Create(target) | Self::Swap(target) => target,
            Self::Remove => Target::Record,
        }
    }

    /// What the target holds before and after.
    fn states(self) -> (Option<&'static [u8]>, Option<&'static [u8]>) {
        match self {
            Self::Create(_) => (None, Some(NEW)),
            Self::Swap(_) => (Some(OLD), Some(NEW)),
            Self::Remove => (Some(OLD), None),
        }
    }

    /// A disk on which this write has its place.
    async fn disk(self) -> SimDisk {
        let disk = SimDisk::new();
        if self.states().0.is_some() {
            assert_eq!(create(&authority(&disk), self.target(), OLD).await, Outcome::Done);
        }
        disk
    }

    async fn run(self, authority: &LocalAuthority) -> Outcome {
        match self {
            Self::Create(target) => create(authority, target, NEW).await,
            Self::Swap(target) => swap(authority, target, OLD, NEW).await,
            Self::Remove => match authority.remove_record(&key()).await {
                Ok(()) => Outcome::Done,
                // The trait has no third outcome for removals; they may be repeated.
                Err(_) => Outcome::Unknown,
            },
        }
    }
}

fn of_swap(swap: Result<Swap>) -> Outcome {
    match swap {
        Ok(Swap::Swapped(_)) => Outcome::Done,
        Ok(Swap::Conflict) => Outcome::Lost,
        Ok(Swap::Unknown(_)) => Outcome::Unknown,
        Err(error) => Outcome::Refused(error.kind()),
    }
}

async fn create(authority: &LocalAuthority, target: Target, body: &'static [u8]) -> Outcome {
    match target {
        Target::Head => of_swap(authority.swap_head(&main_branch(), Expected::Absent, Bytes::from_static(body)).await),
        Target::Record => match authority.create_record(&key(), Bytes::from_static(body)).await {
            Ok(Create::Created) => Outcome::Done,
            Ok(Create::Exists) => Outcome::Lost,
            Ok(Create::Unknown(_)) => Outcome::Unknown,
            Err(error) => Outcome::Refused(error.kind()),
        },
    }
}

async fn swap(authority: &LocalAuthority, target: Target, from: &'static [u8], to: &'static [u8]) -> Outcome {
    let expected = Tag::new(headwater_core::json::sha256(from));
    let body = Bytes::from_static(to);
    of_swap(match target {
        Target::Head => authority.swap_head(&main_branch(), Expected::Tag(&expected), body).await,
        Target::Record => authority.swap_record(&key(), &expected, body).await,
    })
}

async fn read(authority: &LocalAuthority, target: Target) -> Option<Vec<u8>> {
    match target {
        Target::Head => match authority.read_head(&main_branch(), None).await.unwrap() {
            HeadRead::Absent => None,
            HeadRead::Found(bytes, tag) => {
                assert_eq!(tag.as_str(), headwater_core::json::sha256(&bytes));
                Some(bytes.to_vec())
            }
            HeadRead::Unchanged => panic!("no tag was given"),
        },
        Target::Record => authority.read_record(&key()).await.unwrap().map(|(bytes, _)| bytes.to_vec()),
    }
}

/// How many primitives a write takes, undisturbed.
async fn length(write: Write) -> usize {
    let disk = write.disk().await;
    disk.revive();
    assert_eq!(write.run(&authority(&disk)).await, Outcome::Done);
    assert_eq!(disk.requests().len(), 1, "{write:?} is one request: {:?}", disk.requests());
    let length = disk.primitives().len();
    assert!(length >= 4, "{:?}", disk.primitives());
    length
}

/// Whether the state is one the outcome allows.
fn check(write: Write, outcome: &Outcome, found: Option<&[u8]>, told: &str) {
    let (before, after) = write.states();
    match outcome {
        Outcome::Done => assert_eq!(found, after, "an acknowledged write is lost: {told}"),
        Outcome::Unknown => assert!(found == before || found == after, "neither the old nor the new state: {told}"),
        Outcome::Refused(_) => assert_eq!(found, before, "a refused write was applied: {told}"),
        Outcome::Lost => panic!("nobody else wrote: {told}"),
    }
}

#[tokio::test]
async fn a_write_cut_at_any_primitive_is_there_wholly_or_not_at_all() {
    let mut cases = 0;
    for write in WRITES {
        // The last number is that of no primitive: the write ends well, and the power fails then.
        let length = length(write).await;
        for number in 0..=length {
            for fault in [Fault::DieBefore, Fault::DieAfter] {
                let disk = write.disk().await;
                disk.plan(number, fault);
                let outcome = write.run(&authority(&disk)).await;
                assert!(number < length || outcome == Outcome::Done, "{write:?}: {outcome:?}");
                for cut in cuts() {
                    let told = format!("{write:?} with {fault:?} at {number}, {outcome:?}, {cut:?}: {:#?}", disk.primitives());
                    let reopened = disk.cut(cut);
                    let authority = authority(&reopened);
                    let found = read(&authority, write.target()).await;
                    check(write, &outcome, found.as_deref(), &told);
                    // The catalog is as usable as ever.
                    let next = match found.as_deref() {
                        None => create(&authority, write.target(), NEXT).await,
                        Some(OLD) => swap(&authority, write.target(), OLD, NEXT).await,
                        Some(_) => swap(&authority, write.target(), NEW, NEXT).await,
                    };
                    assert_eq!(next, Outcome::Done, "{told}");
                    assert_eq!(authority.list_branches().await.unwrap().len(), usize::from(write.target() == Target::Head), "{told}");
                    let last = read(&self::authority(&reopened.cut(Cut::Synced)), write.target()).await;
                    assert_eq!(last.as_deref(), Some(NEXT), "{told}");
                    cases += 1;
                }
            }
        }
    }
    assert!(cases > 1000, "{cases}");
}

#[tokio::test]
async fn what_a_killed_process_left_unsynced_does_not_endanger_the_next_one() {
    for write in WRITES {
        for number in 0..length(write).await {
            for fault in [Fault::DieBefore, Fault::DieAfter] {
                let disk = write.disk().await;
                disk.plan(number, fault);
                let outcome = write.run(&authority(&disk)).await;
                disk.revive();
                let told = format!("{write:?} with {fault:?} at {number}, {outcome:?}");
                let next = authority(&disk);
                let found = read(&next, write.target()).await;
                check(write, &outcome, found.as_deref(), &told);
                // What was read survives, although its writer died before it was acknowledged.
                if found.is_some() {
                    assert_eq!(read(&authority(&disk.cut(Cut::Synced)), write.target()).await, found, "{told}");
                }
                let other = RecordKey::new(RecordKind::Catalog, []);
                assert!(matches!(next.create_record(&other, Bytes::from_static(NEXT)).await.unwrap(), Create::Created), "{told}");
                for cut in cuts() {
                    let reopened = authority(&disk.cut(cut));
                    assert_eq!(&reopened.read_record(&other).await.unwrap().unwrap().0[..], NEXT, "{told}, {cut:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_failure_is_definite_before_the_commit_point_and_unknown_from_it_on() {
    for write in WRITES {
        let mut outcomes = Vec::new();
        for number in 0..length(write).await {
            for fault in [Fault::FailBefore(Io::Other), Fault::FailAfter(Io::Other)] {
                let disk = write.disk().await;
                disk.plan(number, fault);
                let authority = authority(&disk);
                let outcome = write.run(&authority).await;
                let primitives = disk.primitives();
                let told = format!("{write:?} with {fault:?} at {number}, {outcome:?}: {primitives:#?}");
                let commit = primitives.iter().position(|(primitive, _)| match write {
                    Write::Create(_) => *primitive == "hard_link",
                    Write::Swap(_) => *primitive == "rename",
                    Write::Remove => *primitive == "remove",
                });
                match (&outcome, commit) {
                    (Outcome::Refused(kind), None) => assert_eq!(*kind, ErrorKind::Unavailable, "{told}"),
                    (Outcome::Unknown, _) if write == Write::Remove => {}
                    (Outcome::Unknown, Some(commit)) => assert!(number >= commit, "{told}"),
                    // Only removing the temporary name comes after the acknowledged sync.
                    (Outcome::Done, Some(commit)) => assert!(number > commit + 1, "{told}"),
                    _ => panic!("{told}"),
                }
                // The same process, and the power fails after it has read: what it read stays.
                let found = read(&authority, write.target()).await;
                check(write, &outcome, found.as_deref(), &told);
                if found.is_some() {
                    assert_eq!(read(&self::authority(&disk.cut(Cut::Synced)), write.target()).await, found, "{told}");
                }
                let left = disk.paths().iter().any(|path| path.contains("/tmp/") && !path.ends_with('/'));
                assert!(
                    !left || (primitives[number].0, fault) == ("remove", Fault::FailBefore(Io::Other)),
                    "a temporary file stays: {told}"
                );
                outcomes.push(outcome);
            }
        }
        assert!(outcomes.contains(&Outcome::Unknown), "{write:?}: {outcomes:?}");
    }
}

#[tokio::test]
async fn the_system_refusing_the_commit_itself_is_definite() {
    for (kind, expected) in [
        (Io::PermissionDenied, ErrorKind::InvalidInput),
        (Io::ReadOnlyFilesystem, ErrorKind::InvalidInput),
        (Io::StorageFull, ErrorKind::Unavailable),
        (Io::Unsupported, ErrorKind::Unsupported),
    ] {
        for write in WRITES.into_iter().filter(|write| *write != Write::Remove) {
            let disk = write.disk().await;
            disk.revive();
            write.run(&authority(&disk)).await;
            let commit = disk.primitives().iter().position(|(name, _)| ["rename", "hard_link"].contains(name)).unwrap();
            let disk = write.disk().await;
            disk.plan(commit, Fault::FailBefore(kind));
            assert_eq!(write.run(&authority(&disk)).await, Outcome::Refused(expected), "{write:?}, {kind:?}");
        }
    }
}

#[tokio::test]
async fn a_disk_that_lies_about_syncs_is_found_out() {
    for write in [Write::Create(Target::Head), Write::Create(Target::Record)] {
        let disk = SimDisk::new();
        disk.ignore_syncs();
        assert_eq!(write.run(&authority(&disk)).await, Outcome::Done);
        assert_eq!(read(&authority(&disk.cut(Cut::Synced)), write.target()).await, None, "the cut shows no loss, so it would show none");
        // A file that lost its bytes but kept its name is there, empty.
        assert_eq!(read(&authority(&disk.cut(Cut::Names)), write.target()).await.as_deref(), Some(&b""[..]));
    }
}

#[tokio::test]
async fn every_method_is_one_request_and_a_warm_one_costs_no_more_than_it_must() {
    let disk = SimDisk::new();
    let authority = authority(&disk);
    assert_eq!(create(&authority, Target::Head, OLD).await, Outcome::Done);
    assert_eq!(create(&authority, Target::Record, OLD).await, Outcome::Done);
    assert_eq!(swap(&authority, Target::Head, OLD, NEW).await, Outcome::Done);
    assert_eq!(swap(&authority, Target::Record, OLD, NEW).await, Outcome::Done);
    let names = |disk: &SimDisk| disk.primitives().iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let verbs = |disk: &SimDisk| disk.requests().iter().map(|(verb, _)| *verb).collect::<Vec<_>>();

    disk.revive();
    read(&authority, Target::Head).await;
    read(&authority, Target::Record).await;
    assert_eq!((verbs(&disk), names(&disk)), (vec![Verb::Read; 2], vec!["read"; 2]), "a version known to be durable is only read");

    disk.revive();
    assert_eq!(swap(&authority, Target::Head, NEW, NEXT).await, Outcome::Done);
    let steps = vec!["read", "lock", "read", "write_new", "sync_file", "rename", "sync_dir"];
    assert_eq!((verbs(&disk), names(&disk)), (vec![Verb::Swap], steps));

    disk.revive();
    assert_eq!(swap(&authority, Target::Head, OLD, NEW).await, Outcome::Lost);
    assert_eq!((verbs(&disk), names(&disk)), (vec![Verb::Swap], vec!["read"]));

    disk.revive();
    let another = RecordKey::new(RecordKind::Segment, ["main", "2"]);
    assert!(matches!(authority.create_record(&another, Bytes::from_static(OLD)).await.unwrap(), Create::Created));
    let steps = vec!["read", "write_new", "sync_file", "hard_link", "sync_dir", "remove"];
    assert_eq!((verbs(&disk), names(&disk)), (vec![Verb::Create], steps));

    disk.revive();
    assert_eq!(authority.list_records("segment/main").await.unwrap().len(), 2);
    assert_eq!(authority.list_branches().await.unwrap(), [main_branch()]);
    authority.remove_record(&another).await.unwrap();
    assert_eq!(verbs(&disk), [Verb::List, Verb::List, Verb::Remove]);
}
