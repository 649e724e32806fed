use std::sync::Arc;

use headwater_core::ErrorKind;
use headwater_core::authority::{ControlAuthority, Create, Expected, HeadRead, Swap, Tag};
use headwater_core::memory::MemoryAuthority;
use headwater_core::name::{BranchName, RecordKey, RecordKind};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutMode, PutOptions};

use super::{Fault, FaultyAuthority, FaultyObjects, Network, Planned, Random, Weather, When};

const SWAP: &str = "SWAP head";

fn faulty(faults: &[(usize, Fault)]) -> (FaultyAuthority, Arc<Network>) {
    let plan: Vec<_> = faults.iter().map(|(nth, fault)| Planned { verb: SWAP, nth: *nth, fault: *fault }).collect();
    let network = Network::planned(&plan);
    (FaultyAuthority::new(Arc::new(MemoryAuthority::new()), network.clone()), network)
}

fn main() -> BranchName {
    "main".parse().unwrap()
}

/// The body of the head behind the network, and its tag.
async fn head(authority: &FaultyAuthority) -> Option<(String, Tag)> {
    match authority.inner().read_head(&main(), None).await.unwrap() {
        HeadRead::Found(body, tag) => Some((String::from_utf8(body.to_vec()).unwrap(), tag)),
        _ => None,
    }
}

async fn swap(authority: &FaultyAuthority, expected: Option<&Tag>, body: &'static str) -> headwater_core::Result<Swap> {
    authority.swap_head(&main(), expected.map_or(Expected::Absent, Expected::Tag), body.into()).await
}

#[tokio::test]
async fn a_lost_reply_is_applied_and_a_lost_request_is_not() {
    let (authority, network) = faulty(&[(0, Fault::RequestsLost(1)), (1, Fault::RepliesLost(1))]);
    assert!(matches!(swap(&authority, None, "1").await.unwrap(), Swap::Unknown(_)));
    assert!(head(&authority).await.is_none());
    assert!(matches!(swap(&authority, None, "1").await.unwrap(), Swap::Unknown(_)));
    assert_eq!(head(&authority).await.unwrap().0, "1");
    assert_eq!(network.fired().len(), 2);
}

#[tokio::test]
async fn a_late_request_arrives_when_it_is_due_or_released() {
    let (authority, network) = faulty(&[(0, Fault::Late(When::Requests(2))), (1, Fault::Late(When::Released))]);
    assert!(matches!(swap(&authority, None, "1").await.unwrap(), Swap::Unknown(_)));
    for _ in 0..2 {
        assert!(matches!(authority.read_head(&main(), None).await.unwrap(), HeadRead::Absent));
    }
    let HeadRead::Found(_, tag) = authority.read_head(&main(), None).await.unwrap() else { panic!("it is due") };
    assert!(matches!(swap(&authority, Some(&tag), "2").await.unwrap(), Swap::Unknown(_)));
    assert_eq!((head(&authority).await.unwrap().0.as_str(), network.under_way()), ("1", 1));
    network.release().await;
    assert_eq!((head(&authority).await.unwrap().0.as_str(), network.under_way()), ("2", 0));
}

#[tokio::test]
async fn copies_arrive_later_or_answer_for_the_first() {
    let (authority, network) = faulty(&[(0, Fault::Repeated(When::Released)), (1, Fault::Echoed)]);
    let Swap::Swapped(first) = swap(&authority, None, "1").await.unwrap() else { panic!("the first outcome is delivered") };
    assert!(matches!(swap(&authority, Some(&first), "2").await.unwrap(), Swap::Conflict), "it conflicts with its own first copy");
    let (body, tag) = head(&authority).await.unwrap();
    assert_eq!(body, "2");
    network.release().await;
    assert_eq!(head(&authority).await.unwrap(), (body, tag), "the copy arrived too late to be applied");
}

#[tokio::test]
async fn refusals_apply_nothing() {
    let (authority, _) = faulty(&[(0, Fault::Refused), (1, Fault::Rejected)]);
    assert!(matches!(swap(&authority, None, "1").await.unwrap(), Swap::Conflict));
    assert_eq!(swap(&authority, None, "1").await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(head(&authority).await.is_none());
    assert!(matches!(swap(&authority, None, "1").await.unwrap(), Swap::Swapped(_)));
}

#[tokio::test]
async fn a_storm_takes_whatever_comes_for_as_long_as_it_lasts() {
    let (authority, network) = faulty(&[(0, Fault::RequestsLost(3))]);
    let record = RecordKey::new(RecordKind::Entry, ["x"]);
    assert!(matches!(swap(&authority, None, "1").await.unwrap(), Swap::Unknown(_)));
    assert!(matches!(authority.create_record(&record, "1".into()).await.unwrap(), Create::Unknown(_)));
    assert_eq!(authority.read_head(&main(), None).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(matches!(swap(&authority, None, "1").await.unwrap(), Swap::Swapped(_)));
    assert!(authority.read_record(&record).await.unwrap().is_none());
    let faults: Vec<_> = network.passed().into_iter().map(|passed| passed.fault.is_some()).collect();
    assert_eq!(faults, [true, true, true, false, false]);
}

#[tokio::test]
async fn a_held_read_says_what_was_current_when_it_was_sent() {
    let (authority, network) = faulty(&[]);
    let authority = Arc::new(authority);
    network.plan(&[Planned { verb: "GET head", nth: 0, fault: Fault::Held }]);
    let reading = tokio::spawn({
        let authority = authority.clone();
        async move { authority.read_head(&main(), None).await.unwrap() }
    });
    while network.fired().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(matches!(swap(&authority, None, "1").await.unwrap(), Swap::Swapped(_)));
    assert!(!reading.is_finished());
    network.release().await;
    assert!(matches!(reading.await.unwrap(), HeadRead::Absent));
}

#[tokio::test]
async fn objects_are_lost_late_and_doubled_like_records() {
    let fault = |nth, fault| Planned { verb: "PUT", nth, fault };
    let network = Network::planned(&[fault(0, Fault::RepliesLost(1)), fault(1, Fault::Echoed), fault(2, Fault::Late(When::Released))]);
    let objects = FaultyObjects::new(Arc::new(InMemory::new()), network.clone());
    let (a, b, c) = (Path::from("a"), Path::from("b"), Path::from("c"));
    assert!(objects.put(&a, "1".into()).await.is_err() && objects.head(&a).await.is_ok());
    let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    let echoed = object_store::ObjectStore::put_opts(&objects, &b, "1".into(), create).await;
    assert!(matches!(echoed, Err(object_store::Error::AlreadyExists { .. })));
    assert!(objects.put(&c, "1".into()).await.is_err() && objects.head(&c).await.is_err());
    network.release().await;
    assert!(objects.head(&c).await.is_ok());
    assert_eq!(network.fired().len(), 3);
}

#[tokio::test]
async fn one_seed_is_one_weather() {
    async fn seen(seed: u64) -> Vec<super::Passed> {
        let weather = Weather { faults_per_mille: 300, cuts_per_mille: 10, turns: 3, timeout: 10 };
        let network = Network::random(Random::new(seed), weather);
        let authority = FaultyAuthority::new(Arc::new(MemoryAuthority::new()), network.clone());
        for i in 0..200 {
            let record = RecordKey::new(RecordKind::Entry, [i.to_string().as_str()]);
            let _ = authority.create_record(&record, "1".into()).await;
            let _ = authority.read_record(&record).await;
        }
        network.passed()
    }
    assert_eq!(seen(7).await, seen(7).await);
    assert_ne!(seen(7).await, seen(8).await);
    assert!(seen(7).await.iter().filter(|passed| passed.fault.is_some()).count() > 50);
}
