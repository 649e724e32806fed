//! Faults at every request of the creation of a catalog.

use headwater_conformance::faults::{Network, Planned};
use headwater_conformance::rows;
use headwater_core::ErrorKind;

use super::seen::{Reader, Seen};
use super::{Cells, FAULTS, NewPlace, calm, requests};

/// Every fault at every request of the creation. Whatever happened, there is one catalog afterwards, it is empty, and it works.
pub async fn creation(new: NewPlace) -> Cells {
    let (place, network, reader) = (new().await, Network::calm(), Reader::default());
    place.create(&network).await.unwrap();
    let requests = requests(&network);
    let mut cells = Cells { scenario: "create a catalog", requests: requests.len(), ..Cells::default() };
    for (verb, nth) in requests {
        for fault in FAULTS.into_iter().filter(|fault| fault.fits(verb)) {
            let planned = Planned { verb, nth, fault };
            println!("{}: {planned:?}", cells.scenario);
            let (place, network) = (new().await, Network::planned(&[planned]));
            let created = place.create(&network).await;
            cells.cells += 1;
            cells.fired += network.fired().len();
            cells.count(&created);
            match &created {
                Ok(_) => assert_eq!(reader.read(&calm(&place).await).await, Seen::default()),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{planned:?}: {error:?}"),
            }
            // The next one completes it, and what arrives late changes nothing of it.
            let next = place.create(&Network::calm()).await.unwrap();
            let main = next.branch("main").unwrap();
            main.transact(|tx| async move { tx.create_table("t", rows::schema()).await.map(drop) }).await.unwrap();
            let before = reader.read(&next).await;
            network.release().await;
            let last = calm(&place).await;
            assert_eq!(reader.read(&last).await, before);
            assert!(created.into_iter().chain([next]).all(|known| known.id() == last.id()), "there is one catalog, whoever created it");
            place.check().await;
        }
    }
    cells
}
