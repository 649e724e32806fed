//! The creation of a catalog, seen by those who come meanwhile.

use headwater_conformance::faults::{Fault, Network, Planned, Random, Weather};
use headwater_conformance::rows::schema;
use headwater_core::{Catalog, ErrorKind};

use super::{READ, meanwhile};
use crate::place::Place;

/// Creates the catalog and a first table while the request is under way.
async fn creates_meanwhile(place: &Place, network: &Network) {
    let parts = place.parts(&Network::calm()).await;
    network.meanwhile(meanwhile(move || {
        let parts = parts.clone();
        async move {
            let catalog = Catalog::open_or_create(parts, "parquet").await.unwrap();
            let main = catalog.branch("main").unwrap();
            main.transact(|tx| async move { tx.create_table("t", schema()).await.map(drop) }).await.unwrap();
        }
    }));
}

/// Who opens a catalog that is just being created finds it or does not; nothing is damaged.
#[tokio::test]
async fn a_catalog_that_is_being_created_is_not_damaged() {
    for verb in [READ, "GET record"] {
        for place in Place::all().await {
            let network = Network::planned(&[Planned { verb, nth: 0, fault: Fault::Delayed(1) }]);
            creates_meanwhile(&place, &network).await;
            match Catalog::open(place.parts(&network).await).await {
                Ok(opened) => assert_eq!(opened.id(), place.open().await.catalog.id()),
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{verb}: {error:?}"),
            }
            assert_eq!(network.fired().len(), 1);
            place.check().await;
        }
    }
}

/// Requests that are sent at once arrive in any order, and between any two of them the other's creation goes on.
#[tokio::test]
async fn nor_in_any_order_in_which_requests_arrive() {
    let (mut there, mut absent) = (0, 0);
    for seed in 0..200 {
        for place in [Place::memory().await, Place::apart().await] {
            // Each of the two or three requests of an opening takes as long as a whole creation, at most.
            let slow = |number, turns| Network::random(Random::fork(seed, number), Weather { turns, ..Weather::default() });
            let opening = async { Catalog::open(place.parts(&slow(1, 600)).await).await };
            let creation = async { Catalog::open_or_create(place.parts(&slow(2, 40)).await, "parquet").await };
            let (opened, created) = futures::join!(opening, creation);
            match (opened, created.unwrap()) {
                (Ok(opened), created) => {
                    assert_eq!(opened.id(), created.id());
                    there += 1;
                }
                (Err(error), _) => {
                    assert_eq!(error.kind(), ErrorKind::NotFound, "seed {seed}: {error:?}");
                    absent += 1;
                }
            }
        }
    }
    assert!(there > 40 && absent > 40, "{there} {absent}");
}

/// Of two who create a catalog at once, the one who comes second at any of its requests opens the other's.
#[tokio::test]
async fn who_loses_the_creation_opens_the_winners_catalog() {
    let mut raced = 0;
    for verb in ["GET record", READ, "LIST heads", "CREATE record", "SWAP head", "SWAP record"] {
        for nth in 0..2 {
            for fault in [Fault::Delayed(1), Fault::RequestsLost(1)] {
                for place in Place::all().await {
                    let network = Network::planned(&[Planned { verb, nth, fault }]);
                    creates_meanwhile(&place, &network).await;
                    let created = Catalog::open_or_create(place.parts(&network).await, "parquet").await;
                    let fired = network.fired().len();
                    raced += fired;
                    network.heal();
                    match created {
                        Ok(catalog) => {
                            assert_eq!(catalog.id(), place.open().await.catalog.id());
                            let tables = catalog.branch("main").unwrap().snapshot().await.unwrap().tables().len();
                            assert_eq!(tables, fired, "{verb} {nth} {fault:?}");
                        }
                        // Somebody else is there meanwhile, and this request did not come through.
                        Err(error) => {
                            assert_eq!((error.kind(), fault), (ErrorKind::Unavailable, Fault::RequestsLost(1)), "{verb} {nth}: {error:?}")
                        }
                    }
                    place.check().await;
                }
            }
        }
    }
    assert!(raced >= 2 * 2 * 6, "{raced}");
}
