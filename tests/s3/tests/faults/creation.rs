//! Faults at every request of the creation of a catalog, and at those of the probe before it.

use headwater_bench::proxy::{Request, Rule, Verb, render};
use headwater_conformance::rows;
use headwater_core::{Catalog, ErrorKind, Result};

use crate::matrix::{Counts, all};
use crate::place::{Place, Reader, parts};
use crate::wire::{Planned, Site, Wire};

const PROBE: &str = "/probe/";

#[derive(Clone, Copy, Debug)]
enum Cell {
    At(Site, Wire),
    /// At a request of the probe, whose order is not the same in every run.
    Probe(Verb, usize, Wire),
}

impl Cell {
    fn inject(self, place: &Place) -> Planned {
        match self {
            Self::At(site, wire) => Planned::at(&place.proxy, &site, wire),
            Self::Probe(verb, nth, wire) => {
                let mut planned = Planned::default();
                planned.add(&place.proxy, Rule::new(wire.fault()).verb(verb).key_contains(PROBE).nth(nth), 1);
                planned
            }
        }
    }
}

/// What the creation may come to. A probe that a fault hits may take the server for a broken one, and says so.
fn honest(cell: Cell, created: &Result<Catalog>, what: &str) {
    let Err(error) = created else { return };
    let expected: &[ErrorKind] = match cell {
        Cell::Probe(..) => &[ErrorKind::Unavailable, ErrorKind::PreconditionIgnored, ErrorKind::Unsupported],
        Cell::At(_, wire) if wire.is_skewed() => &[ErrorKind::Unavailable, ErrorKind::InvalidInput],
        Cell::At(..) => &[ErrorKind::Unavailable],
    };
    assert!(expected.contains(&error.kind()), "{what}");
}

/// One cell: whatever happened, there is one catalog afterwards, it is empty, and it works.
async fn tried(reader: &Reader, cell: Cell) -> Counts {
    let place = Place::empty().await;
    let planned = cell.inject(&place);
    let created = Catalog::open_or_create(place.proxied(), "parquet").await;
    let what = format!("{cell:?}: {created:?}\n{}", place.proxy.render());
    assert!(planned.all_fired(), "a planned fault did not happen: {what}");
    honest(cell, &created, &what);
    if created.is_ok() {
        assert_eq!(reader.read(&place).await.seq, 0, "{what}");
    }
    // The next one completes it, and what arrives late changes nothing of it.
    let next = Catalog::open_or_create(parts(&place.direct), "parquet").await.unwrap();
    let main = next.branch("main").unwrap();
    main.transact(|tx| async move { tx.create_table("t", rows::schema()).await.map(drop) }).await.unwrap();
    let before = reader.read(&place).await;
    planned.release().await;
    assert_eq!(reader.read(&place).await, before, "{what}");
    let last = place.catalog().await;
    assert!(created.iter().chain([&next]).all(|known| known.id() == last.id()), "there is one catalog, whoever created it: {what}");
    place.verify().await;
    Counts::of(&created, planned.fired())
}

pub(crate) async fn run() {
    let place = Place::empty().await;
    Catalog::open_or_create(place.proxied(), "parquet").await.unwrap();
    let requests = place.proxy.requests();
    let (probes, own): (Vec<Request>, Vec<Request>) = requests.into_iter().partition(|request| request.key.contains(PROBE));
    assert!(own.len() == 8 && probes.len() >= 40, "{}", render(&own));
    let mut cells = Vec::new();
    let sites = Site::all(&own);
    for (number, site) in (1..).zip(&sites) {
        // Nothing follows the last one.
        let possible = site.faults().filter(|wire| number < sites.len() || !wire.needs_another());
        cells.extend(possible.map(|wire| Cell::At(*site, wire)));
    }
    // One fault for each request of the probe: it is made anew where it fails, and leaves nothing.
    for verb in [Verb::Get, Verb::Put, Verb::List, Verb::Delete] {
        let first = Site::all(&own).into_iter().find(|site| site.verb == verb);
        // A deletion is answered, or not.
        let fitting: Vec<Wire> = match first {
            Some(site) => site.faults().filter(|wire| !wire.needs_another() && (*wire != Wire::BodyCut || verb == Verb::Get)).collect(),
            None => vec![Wire::ReplyLost, Wire::RequestLost, Wire::Busy503, Wire::LandsWith500],
        };
        let count = probes.iter().filter(|request| request.verb == verb).count();
        assert!(count > 0, "the probe sends no {verb}");
        cells.extend((1..=count).map(|nth| Cell::Probe(verb, nth, fitting[nth % fitting.len()])));
    }
    let named = |cell| match cell {
        Cell::At(_, wire) => format!("{wire:?}"),
        Cell::Probe(_, _, wire) => format!("{wire:?} in the probe"),
    };
    let count = cells.len();
    let cells = cells.into_iter().map(|cell| (named(cell), cell)).collect();
    let reader = Reader::default();
    let name = format!("create a catalog, 8 requests and {} of the probe", probes.len());
    let sum = all(&name, cells, |cell| tried(&reader, cell)).await;
    assert!(count > 100 && sum.succeeded > sum.refused && sum.refused > 0 && sum.unknown == 0, "{sum}");
}
