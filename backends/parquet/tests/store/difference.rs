//! Where two versions differ, in a table of more files than the lists one version object names.

use headwater_core::filter::Comparison;
use headwater_core::store::{Change, DataStore, Pin};

use crate::fixture::{Fixture, batch, id};

/// Files by which two versions differ, as another process finds them, and the version objects it reads for it.
async fn differing(fixture: &Fixture, before: &Pin, after: &Pin) -> ((usize, usize), usize) {
    let cold = fixture.cold();
    fixture.objects.take();
    let difference = cold.difference(before, after).await.unwrap().unwrap();
    let cost = fixture.objects.take();
    assert_eq!(cost.requests.len(), cost.count("GET", ".version.json"), "no data is read: {cost:?}");
    ((difference.removed.len(), difference.added.len()), cost.requests.len())
}

#[tokio::test]
async fn lists_of_lists_that_both_versions_name_are_not_read() {
    // A version object names 64 lists of 32 files, and then the version before it as a whole.
    const APPENDS: usize = 2 * 65 * 32 + 40;
    let fixture = Fixture::new();
    let mut pins = vec![fixture.create(batch(0..0)).await.pin];
    for append in 0..APPENDS {
        pins.push(fixture.append(&pins[append], batch(append as i64..append as i64 + 1)).await.pin);
    }
    let last = &pins[APPENDS];
    for (back, most) in [(0, 2), (1, 2), (31, 3), (33, 4), (100, 7), (2_000, 66), (APPENDS, 2 + APPENDS / 32)] {
        let (files, requests) = differing(&fixture, &pins[APPENDS - back], last).await;
        assert_eq!(files, (0, back), "{back} appends back");
        assert!(requests <= most, "{back} appends back: {requests} version objects");
        assert_eq!(differing(&fixture, last, &pins[APPENDS - back]).await.0, (back, 0), "and the other way round");
    }
    // At every place where lists end, and a few around.
    for end in [32, 33, 64, 65, 65 * 32 - 1, 65 * 32, 65 * 32 + 1, 66 * 32, 2 * 65 * 32, 2 * 65 * 32 + 1] {
        for (before, after) in [(end - 1, end), (end, end + 1), (end - 1, end + 33)] {
            let (files, requests) = differing(&fixture, &pins[before], &pins[after]).await;
            assert_eq!(files, (0, after - before), "from {before} to {after} appends");
            assert!(requests <= 4, "from {before} to {after} appends: {requests} version objects");
        }
    }
    // One of the newest files is written again, then one that is listed deep below.
    let delete = async |row: usize| fixture.store.stage(fixture.table, Some(last), Change::Delete(id(Comparison::Equal, row as i64))).await;
    assert_eq!(differing(&fixture, last, &delete(APPENDS - 1).await.unwrap().pin).await, ((1, 0), 2));
    assert_eq!(differing(&fixture, last, &delete(0).await.unwrap().pin).await.0, (1, 0));
}
