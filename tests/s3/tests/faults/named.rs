//! The faults that have cost others their data, each by its name, at the swap of an append to three tables. What the wire carried is shown.

use headwater_bench::proxy::{Answer, Fault, Injected, Request, Rule, S3Error, Verb};
use headwater_bench::server::Server;
use headwater_conformance::rows::numbered;
use headwater_core::{Catalog, ErrorKind, RetryPolicy};

use crate::matrix::{Bench, Cell, With};
use crate::place::{Place, TOKEN, operate, parts, retry};
use crate::scenario;
use crate::wire::{HEAD, Wire};

/// A swap: what its client was answered, and what the server answered to each copy.
type Sent<'a> = (Option<u16>, &'a [u16]);

async fn append() -> Bench {
    Bench::new(scenario("load: append to three tables"), With::Nobody).await
}

fn is_swap(request: &&Request) -> bool {
    request.verb == Verb::Put && request.key.ends_with(HEAD)
}

fn swaps(requests: &[Request]) -> Vec<Sent<'_>> {
    requests.iter().filter(is_swap).map(|swap| (swap.status, swap.forwarded.as_slice())).collect()
}

/// The commit succeeds, and these swaps went over the wire.
fn shows(name: &str, requests: &[Request], expected: &[Sent<'_>]) {
    let sent = swaps(requests);
    headwater_conformance::report(format_args!("on {}: {name}: {sent:?}", Server::shared().unwrap().name()));
    assert_eq!(sent, expected, "{name}:\n{}", headwater_bench::proxy::render(requests));
}

async fn succeeds(name: &str, wire: Wire, expected: &[Sent<'_>]) {
    let bench = append().await;
    let tried = bench.cell(Cell::At(bench.swap(), wire), retry()).await;
    tried.told.unwrap();
    shows(name, &tried.requests, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reply_lost_and_landed() {
    succeeds("reply lost and landed", Wire::ReplyLost, &[(None, &[200])]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_and_not_landed() {
    succeeds("lost and not", Wire::RequestLost, &[(None, &[]), (Some(200), &[200])]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_and_landing_after_we_looked() {
    succeeds("lost and landing after we looked", Wire::LandsAfterNext, &[(None, &[200]), (Some(412), &[412])]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflict_409_then_success() {
    succeeds("409 then success", Wire::Conflict409, &[(Some(409), &[]), (Some(200), &[200])]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storms_of_503() {
    let name = "503 storm, nothing landed";
    succeeds(name, Wire::Storm503, &[(Some(503), &[]), (Some(200), &[200])]).await;
    succeeds("503, and it landed", Wire::LandsWith503, &[(Some(503), &[200])]).await;
    let bench = append().await;
    let tried = bench.cell(Cell::HeadStorm(3), retry()).await;
    tried.told.unwrap();
    shows("503 storm, and it landed", &tried.requests, &[(Some(503), &[200])]);
}

/// The second copy arrives when another commit stands on the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicate_landing_after_success() {
    succeeds("duplicate landing after success", Wire::LandsAgainAtTheEnd, &[(Some(200), &[200, 412])]).await;

    let bench = append().await;
    let place = bench.place().await;
    let again = place.proxy.inject(bench.swap().rule(Wire::LandsAgainAtTheEnd.fault()));
    let committed = operate(place.proxied(), &bench.scenario, None).await.unwrap();
    let main = place.catalog().await.branch("main").unwrap();
    let next = main.transact(|tx| async move { tx.append(&tx.table("a").await?, numbered(700..702)).await }).await.unwrap();
    let before = bench.seen(&place).await;
    assert_eq!((again.held(), next.seq, before.tokens.as_slice()), (1, committed.seq + 1, [committed.seq].as_slice()));
    assert_eq!(again.release().await.unwrap(), [412]);
    assert_eq!(bench.seen(&place).await, before);
    place.verify().await;
}

/// 412, and no swap may be lost any more: whose it was is found out before anything is said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_duplicates_412_on_the_last_attempt() {
    let bench = append().await;
    let last = RetryPolicy { swaps: 0, prepares: 1, ..retry() };
    let tried = bench.cell(Cell::At(bench.swap(), Wire::SecondOfTwo), last).await;
    tried.told.unwrap();
    shows("own duplicate's 412 on the last attempt", &tried.requests, &[(Some(412), &[200, 412])]);

    // The same of the last copy that settles an uncertain swap.
    let place = bench.place().await;
    let lost = place.proxy.inject(bench.swap().rule(Fault::DropRequest));
    let again = Rule::new(Fault::Duplicate(Answer::Second)).verb(Verb::Put).key_ends_with(HEAD);
    let twice = place.proxy.inject(again.after(&lost).first(1));
    let mut parts = place.proxied();
    parts.retry = RetryPolicy { resolves: 1, ..last };
    let told = operate(parts, &bench.scenario, None).await;
    assert_eq!((lost.fired(), twice.fired()), (1, 1), "{}", place.proxy.render());
    assert!(told.unwrap().published);
    shows("own duplicate's 412 on the last copy", &place.proxy.requests(), &[(None, &[]), (Some(412), &[200, 412])]);
    settled(&bench, &place).await;
}

async fn settled(bench: &Bench, place: &Place) {
    place.proxy.heal();
    let committed = operate(parts(&place.direct), &bench.scenario, None).await.unwrap();
    assert_eq!(bench.seen(place).await.tokens, [committed.seq], "there once");
    place.verify().await;
}

/// Commits of another process, until none of the entries that stand in the tail now does.
async fn spill(place: &Place) {
    let main = place.catalog().await.branch("main").unwrap();
    for number in 0..3 {
        main.transact(|tx| async move {
            // Each name probed is part of the entry, with some 80 bytes.
            for name in 0..300 {
                assert!(tx.find(&format!("{name:080}")).await?.is_none());
            }
            tx.append(&tx.table("d").await?, numbered(800 + number..801 + number)).await
        })
        .await
        .unwrap();
    }
}

async fn until_held(held: &Injected) {
    while held.held() == 0 {
        tokio::task::yield_now().await;
    }
}

/// While a process waits to learn what became of its swap, others fill the tail: the token is found in a segment. So it is by a process that
/// comes later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_already_in_a_spilled_segment() {
    let bench = append().await;
    for (lands, wire) in [(true, Wire::ReplyLost), (false, Wire::RequestLost)] {
        let place = bench.place().await;
        let swap = place.proxy.inject(bench.swap().rule(wire.fault()));
        let look = place.proxy.inject(Rule::new(Fault::Hold).verb(Verb::Get).key_ends_with(HEAD).after(&swap).first(1));
        let others = async {
            until_held(&look).await;
            spill(&place).await;
            look.release().await.unwrap();
        };
        let (told, ()) = tokio::join!(operate(place.proxied(), &bench.scenario, None), others);
        let (committed, what) = (told.unwrap(), place.proxy.render());
        assert_eq!((swap.fired(), look.fired()), (1, 1), "{what}");
        let requests = place.proxy.requests();
        let searched = requests.iter().filter(|request| request.verb == Verb::Get && request.key.contains("/records/segment/")).count();
        assert!(searched > 0, "the token was not looked for in a segment: {what}");
        let expected: &[Sent<'_>] = if lands { &[(None, &[200])] } else { &[(None, &[]), (Some(200), &[200])] };
        shows(if lands { "token in a spilled segment" } else { "token in no spilled segment" }, &requests, expected);
        assert_eq!(bench.seen(&place).await.tokens, [committed.seq]);

        spill(&place).await;
        let main = place.catalog().await.branch("main").unwrap();
        let tail = main.snapshot().await.unwrap().log(2).await.unwrap();
        assert!(tail.iter().all(|logged| logged.entry.token.as_str() != TOKEN));
        settled(&bench, &place).await;
    }
}

/// A refused signature says nothing of the attempt before it, which lands, has landed or is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_skew_403_after_an_ambiguous_attempt() {
    let bench = append().await;
    let cases: [(_, _, &[Sent<'_>]); 2] = [
        ("lost", Wire::RequestLost, &[(None, &[]), (Some(403), &[]), (Some(200), &[200])]),
        ("landing after we looked", Wire::LandsAfterNext, &[(None, &[200]), (Some(403), &[])]),
    ];
    for (name, wire, expected) in cases {
        let place = bench.place().await;
        let first = place.proxy.inject(bench.swap().rule(wire.fault()));
        let resent = Rule::new(Fault::Reject(S3Error::TIME_TOO_SKEWED)).verb(Verb::Put).key_ends_with(HEAD);
        let skewed = place.proxy.inject(resent.after(&first).first(1));
        let committed = operate(place.proxied(), &bench.scenario, None).await.unwrap();
        assert_eq!((first.fired(), skewed.fired()), (1, 1), "{}", place.proxy.render());
        shows(&format!("clock-skew 403 after an attempt {name}"), &place.proxy.requests(), expected);
        assert_eq!(bench.seen(&place).await.tokens, [committed.seq]);
        settled(&bench, &place).await;
    }
    // The first lands, and it is the read that is refused: nobody can tell.
    let tried = bench.cell(Cell::SwapThenSkewedRead(Wire::ReplyLost), retry()).await;
    assert_eq!(tried.told.unwrap_err().kind(), ErrorKind::PublishUnknown);
    shows("clock-skew 403 to the read behind it", &tried.requests, &[(None, &[200])]);
    // As the first attempt it is definite: nothing was published.
    let place = bench.place().await;
    place.proxy.inject(bench.swap().rule(Fault::Reject(S3Error::TIME_TOO_SKEWED)));
    let refused = operate(place.proxied(), &bench.scenario, None).await.unwrap_err();
    assert_eq!((refused.kind(), place.proxy.fired()), (ErrorKind::InvalidInput, 1), "{refused:?}");
    assert!(bench.seen(&place).await.tokens.is_empty());
    let catalog = Catalog::open(parts(&place.direct)).await.unwrap();
    assert_eq!(catalog.branch("main").unwrap().snapshot().await.unwrap().seq(), bench.seen(&place).await.seq);
}
