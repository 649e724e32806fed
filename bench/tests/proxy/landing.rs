//! Requests that land after the client has stopped waiting for them.

use headwater_bench::proxy::{Fault, Landing, Rule, Verb};

use super::{Lab, is_cut, status};

#[tokio::test]
async fn a_late_request_lands_when_it_is_released() {
    let lab = Lab::new().await;
    let late = lab.proxy.inject(Rule::new(Fault::LandLate(Landing::OnRelease)).verb(Verb::Put).first(1));
    assert!(is_cut(&lab.create("a", "late").await));
    assert_eq!((late.fired(), late.held(), lab.stored("a").await), (1, 1, None));
    assert_eq!(late.release().await.expect("an answer"), [200]);
    assert_eq!((late.held(), lab.stored("a").await.as_deref()), (0, Some("late")));
    assert_eq!(late.release().await.expect("nothing to do"), [0; 0]);
    let requests = lab.proxy.requests();
    assert_eq!((requests.len(), requests[0].status, requests[0].forwarded.as_slice()), (1, None, [200].as_slice()));
}

#[tokio::test]
async fn a_late_request_may_find_the_place_taken() {
    let lab = Lab::new().await;
    let late = lab.proxy.inject(Rule::new(Fault::LandLate(Landing::OnRelease)).verb(Verb::Put).nth(1));
    assert!(is_cut(&lab.create("a", "late").await));
    assert_eq!(status(lab.create("a", "other").await), 200);
    lab.proxy.heal();
    assert_eq!(late.release().await.expect("an answer"), [412]);
    assert_eq!(lab.stored("a").await.as_deref(), Some("other"));
}

#[tokio::test]
async fn a_late_request_lands_after_the_next_one() {
    let lab = Lab::new().await;
    let late = lab.proxy.inject(Rule::new(Fault::LandLate(Landing::AfterNext)).verb(Verb::Put).key_ends_with("a").nth(1));
    assert!(is_cut(&lab.put("a", "late").await));
    assert_eq!(status(lab.put("b", "unrelated").await), 200);
    assert_eq!((late.held(), lab.stored("a").await), (1, None));
    assert_eq!(status(lab.put("a", "next").await), 200);
    assert_eq!((late.fired(), late.held(), lab.stored("a").await.as_deref()), (1, 0, Some("late")), "it overwrites what came in time");
    let forwarded: Vec<_> = lab.proxy.requests().into_iter().map(|r| r.forwarded).collect();
    assert_eq!(forwarded, [[200]; 3]);
}

#[tokio::test]
async fn what_is_held_is_lost_with_the_proxy() {
    let lab = Lab::new().await;
    let late = lab.proxy.inject(Rule::new(Fault::LandLate(Landing::OnRelease)));
    assert!(is_cut(&lab.put("a", "1").await));
    assert!(is_cut(&lab.put("a", "2").await));
    assert_eq!((late.fired(), late.held()), (2, 2));
    let Lab { proxy, client, direct, bucket } = lab;
    let address = proxy.addr();
    drop(proxy);
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the proxy still listens");
    assert!(is_cut(&client.get(&format!("/{bucket}/a")).await));
    assert_eq!(status(direct.get(&format!("/{bucket}/a")).await), 404);
}

#[tokio::test]
async fn a_second_copy_lands_after_the_first_was_answered() {
    let lab = Lab::new().await;
    let again = lab.proxy.inject(Rule::new(Fault::LandAgain(Landing::OnRelease)).key_ends_with("a").nth(1));
    assert_eq!(status(lab.create("a", "1").await), 200);
    assert_eq!((again.fired(), again.held()), (1, 1));
    assert_eq!(again.release().await.expect("an answer"), [412]);
    assert_eq!(lab.proxy.requests()[0].forwarded, [200, 412]);

    lab.proxy.clear();
    let again = lab.proxy.inject(Rule::new(Fault::LandAgain(Landing::AfterNext)).key_ends_with("b").nth(1));
    assert_eq!([status(lab.put("b", "first").await), status(lab.put("b", "second").await)], [200, 200]);
    assert_eq!((again.fired(), again.held(), lab.stored("b").await.as_deref()), (1, 0, Some("first")), "the copy overwrites");
}

#[tokio::test]
async fn a_held_request_goes_on_when_it_is_released() {
    let lab = Lab::new().await;
    let held = lab.proxy.inject(Rule::new(Fault::Hold).verb(Verb::Put).first(1));
    let released = async {
        while held.held() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(lab.stored("a").await, None);
        assert_eq!(held.release().await.expect("nothing to answer"), [0; 0], "its answer is the client's");
    };
    let (answer, ()) = tokio::join!(lab.put("a", "1"), released);
    assert_eq!((status(answer), held.fired(), held.held(), lab.stored("a").await.as_deref()), (200, 1, 0, Some("1")));
}
