//! The counters, on a real server, with requests that they must not miss.

use futures::TryStreamExt;
use headwater::registry::OpenedBackend;
use headwater_bench::proxy::{S3Error, Verb};
use headwater_conformance::tap::TapObjects;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::*;
use crate::place::Place;

/// A bucket with one object, the counters before it, and a client below the tap.
async fn bucket() -> (Place, Meter, Arc<dyn ObjectStore>) {
    let place = Place::loopback().unwrap();
    let meter = place.meter(None).await.unwrap();
    let OpenedBackend { objects, .. } = place.open_counted("c", &meter).unwrap();
    place.open("c").unwrap().objects.put(&Path::from("one"), "one".into()).await.unwrap();
    (place, meter, objects)
}

async fn list(objects: &Arc<dyn ObjectStore>) -> Result<usize> {
    let listed: Vec<_> = objects.list(None).try_collect().await.map_err(Error::objects("listing"))?;
    Ok(listed.len())
}

async fn get(objects: &Arc<dyn ObjectStore>) -> Result<usize> {
    let failed = || Error::objects("reading");
    Ok(objects.get(&Path::from("one")).await.map_err(failed())?.bytes().await.map_err(failed())?.len())
}

#[tokio::test]
async fn a_list_is_one_request_for_each_page() {
    let (place, meter, objects) = bucket().await;
    let tapped: Arc<dyn ObjectStore> = Arc::new(TapObjects::new(objects, meter.tap.clone()));
    let (found, sample) = meter.measure("a list", list(&tapped)).await.unwrap();
    assert_eq!((found, sample.data.requests, sample.round_trips), (1, 1, 1), "{sample:?}");
    place.clean().await.unwrap();
}

#[tokio::test]
async fn a_list_below_the_tap_is_not_trusted() {
    let (place, meter, objects) = bucket().await;
    let tapped: Arc<dyn ObjectStore> = Arc::new(TapObjects::new(objects.clone(), meter.tap.clone()));
    // Alone, and hidden behind a list that the tap sees.
    let alone = meter.measure("a list below the tap", list(&objects)).await;
    assert!(matches!(alone, Err(Error::Untrusted { .. })), "{alone:?}");
    let behind = async {
        list(&tapped).await?;
        list(&objects).await
    };
    let behind = meter.measure("one more", behind).await;
    assert!(matches!(behind, Err(Error::Untrusted { .. })), "{behind:?}");
    place.clean().await.unwrap();
}

#[tokio::test]
async fn a_retry_below_the_tap_is_counted() {
    let (place, meter, objects) = bucket().await;
    let tapped: Arc<dyn ObjectStore> = Arc::new(TapObjects::new(objects, meter.tap.clone()));
    let Outside::Loopback(_, proxy) = &meter.outside else { panic!("a loopback server") };
    proxy.inject(Rule::new(Fault::Reject(S3Error::SLOW_DOWN)).verb(Verb::Get).first(1));
    let (found, sample) = meter.measure("a read", get(&tapped)).await.unwrap();
    assert_eq!((found, sample.data.requests), (3, 2), "{sample:?}");
    assert!(sample.log.contains("503"), "{sample:?}");
    place.clean().await.unwrap();
}
