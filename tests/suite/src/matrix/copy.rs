//! A prepared catalog, made once and put down as often as there are cells.

use bytes::Bytes;
use futures::TryStreamExt;
use headwater_conformance::crash::Scenario;
use headwater_conformance::faults::Network;
use headwater_core::authority::{Create, Expected, HeadRead, Swap};
use headwater_core::name::{BranchName, RecordKey};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use crate::Kind;
use crate::place::Place;

/// Everything a catalog keeps.
#[derive(Debug, Default)]
pub(crate) struct Copy {
    heads: Vec<(BranchName, Bytes)>,
    records: Vec<(RecordKey, Bytes)>,
    objects: Vec<(Path, Bytes)>,
}

impl Copy {
    /// The state before a scenario's operation.
    pub(crate) async fn before(scenario: &Scenario, kind: Kind) -> Self {
        let place = Place::memory(kind).await;
        let catalog = place.create(&Network::calm()).await.unwrap();
        (scenario.setup)(catalog.branch("main").unwrap()).await.unwrap();
        let (backend, mut copy) = (place.backend().await, Self::default());
        for branch in backend.authority.list_branches().await.unwrap() {
            let HeadRead::Found(body, _) = backend.authority.read_head(&branch, None).await.unwrap() else { panic!("no head") };
            copy.heads.push((branch, body));
        }
        for key in backend.authority.list_records("").await.unwrap() {
            let (body, _) = backend.authority.read_record(&key).await.unwrap().unwrap();
            copy.records.push((key, body));
        }
        for object in backend.objects.list(None).try_collect::<Vec<_>>().await.unwrap() {
            let body = backend.objects.get(&object.location).await.unwrap().bytes().await.unwrap();
            copy.objects.push((object.location, body));
        }
        copy
    }

    /// Puts it down in an empty place.
    pub(crate) async fn put_down(&self, place: &Place) {
        let backend = place.backend().await;
        let authority = place.recorder.record(backend.authority);
        for (key, body) in &self.objects {
            backend.objects.put(key, body.clone().into()).await.unwrap();
        }
        for (key, body) in &self.records {
            assert!(matches!(authority.create_record(key, body.clone()).await.unwrap(), Create::Created));
        }
        for (branch, body) in &self.heads {
            assert!(matches!(authority.swap_head(branch, Expected::Absent, body.clone()).await.unwrap(), Swap::Swapped(_)));
        }
    }
}
