//! Chains of versions in the store's own format. Where there are none, catalogs refuse tables that would need one.

use headwater_core::ErrorKind;
use headwater_core::store::DataStore;
use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::{StoreFixture, append, create, expected, read, refused, table};
use crate::fixture::OpenedStore;
use crate::rows::rows;

async fn listed(store: &dyn DataStore) -> Vec<String> {
    let mut paths: Vec<String> = store.list().await.unwrap().into_iter().map(|object| object.path).collect();
    paths.sort();
    paths
}

pub(super) async fn a_number_on_a_chain_stands_for_one_version(fixture: &StoreFixture) {
    let OpenedStore { store, objects } = fixture.open_fresh().await;
    let Some(chain) = store.mirror() else { return };
    let (own, other) = (table(), table());
    let first = create(store.as_ref(), own, rows(0..3)).await.pin;
    let second = append(store.as_ref(), own, &first, rows(3..5)).await.pin;
    let before = listed(store.as_ref()).await;
    for number in [0, 1 << 63] {
        refused(chain.put(own, &first, number).await, ErrorKind::InvalidInput);
    }
    refused(chain.put(other, &first, 1).await, ErrorKind::InvalidInput);
    assert_eq!(listed(store.as_ref()).await, before);

    // The later version first: who is late moves nothing back.
    chain.put(own, &second, 7).await.unwrap();
    chain.put(own, &first, 2).await.unwrap();
    let mut after = before.clone();
    after.extend([chain.path(own, 2), chain.path(own, 7)]);
    after.sort();
    assert_eq!(listed(store.as_ref()).await, after, "one object each");
    let copy = objects.get(&Path::from(chain.path(own, 7))).await.unwrap().bytes().await.unwrap();

    let another = fixture.reopen().await.store;
    let again = another.mirror().unwrap();
    again.put(own, &second, 7).await.unwrap();
    refused(again.put(own, &first, 7).await, ErrorKind::AlreadyExists);
    let foreign = Path::from(chain.path(own, 9));
    objects.put(&foreign, "another program's".into()).await.unwrap();
    let error = refused(again.put(own, &second, 9).await, ErrorKind::AlreadyExists);
    assert!(error.to_string().contains(foreign.as_ref()), "{error}");
    // Whoever builds on a version of the chain hands on what it says of itself.
    objects.put(&Path::from(chain.path(own, 8)), copy.clone().into()).await.unwrap();
    refused(again.put(own, &second, 8).await, ErrorKind::AlreadyExists);
    assert_eq!(objects.get(&Path::from(chain.path(own, 7))).await.unwrap().bytes().await.unwrap(), copy);
    assert_eq!(objects.get(&foreign).await.unwrap().bytes().await.unwrap(), "another program's");

    // Pins stand for themselves.
    for pin in [&first, &second] {
        let reached = another.reach(std::slice::from_ref(pin)).await.unwrap();
        assert!(reached.iter().all(|reached| before.contains(&reached.object.path)));
    }
    assert_eq!(read(another.as_ref(), &first).await, expected(0..3));
    assert_eq!(read(another.as_ref(), &second).await, expected(0..5));
}
