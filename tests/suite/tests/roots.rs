//! Who owns a control that is apart from its data: one data root for good, wherever and whenever the creation was cut off.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use futures::TryStreamExt;
use headwater_conformance::faults::{Fault, FaultyAuthority, FaultyObjects, Network, Planned};
use headwater_conformance::rows;
use headwater_conformance::tap::{self, Tap, TapAuthority, TapObjects, render};
use headwater_core::authority::ControlAuthority;
use headwater_core::catalog::catalog_key;
use headwater_core::locator::DataRoot;
use headwater_core::memory::MemoryAuthority;
use headwater_core::verify::Depth;
use headwater_core::{Catalog, Error, ErrorKind, Parts, Result, Retry};
use headwater_sqlite::SqliteAuthority;
use headwater_suite::registry;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tempfile::TempDir;

/// A data root.
#[derive(Clone)]
struct Root {
    authority: Arc<MemoryAuthority>,
    objects: Arc<InMemory>,
    url: &'static str,
}

impl Root {
    fn new(url: &'static str) -> Self {
        Self { authority: Arc::default(), objects: Arc::default(), url }
    }

    /// Every object below it, and every control record.
    async fn everything(&self) -> (Vec<String>, Vec<String>) {
        let listed: Vec<_> = self.objects.list(None).try_collect().await.unwrap();
        let records = self.authority.list_records("").await.unwrap();
        assert!(self.authority.list_branches().await.unwrap().is_empty(), "a data root has no heads");
        (listed.into_iter().map(|object| object.location.to_string()).collect(), records.iter().map(ToString::to_string).collect())
    }
}

/// A control, and two roots for which it is named.
#[derive(Clone)]
struct Site {
    control: Arc<dyn ControlAuthority>,
    roots: [Root; 2],
    _folder: Option<Arc<TempDir>>,
}

impl Site {
    fn memory() -> Self {
        Self { control: Arc::new(MemoryAuthority::new()), roots: ["memory://first", "memory://second"].map(Root::new), _folder: None }
    }

    fn sqlite() -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let control = Arc::new(SqliteAuthority::new(folder.path().join("control.db")).unwrap());
        Self { control, _folder: Some(folder), ..Self::memory() }
    }

    fn apart(&self, root: usize, authority: Arc<dyn ControlAuthority>) -> Option<DataRoot> {
        Some(DataRoot { authority, url: self.roots[root].url.to_owned(), control: "memory://control".to_owned() })
    }

    /// A process that names this root.
    fn parts(&self, root: usize, tap: &Arc<Tap>) -> Parts {
        let Root { authority, objects, .. } = self.roots[root].clone();
        let control = Arc::new(TapAuthority::new(self.control.clone(), tap.clone()));
        let parts = Parts::new(registry(), control, Arc::new(TapObjects::new(objects, tap.clone())));
        Parts { data_root: self.apart(root, Arc::new(TapAuthority::new(authority, tap.clone()))), ..parts }
    }

    /// The same, behind a network.
    fn behind(&self, root: usize, network: &Arc<Network>) -> Parts {
        let Root { authority, objects, .. } = self.roots[root].clone();
        let control = Arc::new(FaultyAuthority::new(self.control.clone(), network.clone()));
        let parts = Parts::new(registry(), control, Arc::new(FaultyObjects::new(objects, network.clone())));
        Parts { data_root: self.apart(root, Arc::new(FaultyAuthority::new(authority, network.clone()))), ..parts }
    }

    async fn calm(&self, root: usize, table: &str) -> Result<()> {
        load(self.parts(root, &Tap::new()), table).await
    }

    /// One of both owns the control, says which, and works; the other is refused, and nothing but its locator is in it.
    async fn owner(&self, first: Result<()>, second: Result<()>) -> usize {
        let owner = match (first, second) {
            (Ok(()), Err(error)) => self.refused(1, 0, &error).await,
            (Err(error), Ok(())) => self.refused(0, 1, &error).await,
            both => panic!("not one of both is the root of the control's catalog: {both:?}"),
        };
        let error = Catalog::open(self.parts(1 - owner, &Tap::new())).await.unwrap_err();
        self.refused(1 - owner, owner, &error).await;
        let report = Catalog::open(self.parts(owner, &Tap::new())).await.unwrap().verify(Depth::Data).await.unwrap();
        assert!(report.ok(), "{:?}", report.problems);
        owner
    }

    async fn refused(&self, loser: usize, owner: usize, error: &Error) -> usize {
        assert_eq!((error.kind(), error.retry()), (ErrorKind::InvalidInput, Retry::Permanent), "{error:?}");
        let told = error.to_string();
        for part in [self.roots[loser].url, self.roots[owner].url, "name "] {
            assert!(told.contains(part), "{part:?} is not in {told}");
        }
        assert_eq!(error.context("data"), Some(self.roots[owner].url));
        let (objects, records) = self.roots[loser].everything().await;
        assert!(objects.is_empty() && records.iter().all(|record| *record == catalog_key().to_string()), "{objects:?} {records:?}");
        owner
    }
}

/// What `headwater load` does: the creation, and a commit behind it.
async fn load(parts: Parts, table: &str) -> Result<()> {
    let main = Catalog::open_or_create(parts, "parquet").await?.branch("main")?;
    let committed = main.transact(|tx| async move {
        let table = tx.create_table(table, rows::schema()).await?;
        tx.append(&table, rows::numbered(0..3)).await
    });
    committed.await.map(drop)
}

/// The process that creates the catalog dies at each request in turn, or with each reply lost. Then comes another root, and then the first.
#[tokio::test]
async fn whoever_finishes_a_creation_that_was_killed_is_the_only_owner() {
    for new in [Site::memory, Site::sqlite] {
        let tap = Tap::new();
        load(new().parts(0, &tap), "t").await.unwrap();
        let requests = tap.requests();
        let mut owned = [0, 0];
        for k in 0..requests.len() {
            for fault in [tap::Fault::Before(k), tap::Fault::After(k)] {
                println!("{fault:?} of\n{}", render(&requests));
                let (site, tap) = (new(), Tap::with_fault(fault));
                let _ = load(site.parts(0, &tap), "t").await;
                assert!(tap.fired());
                let second = site.calm(1, "of the second").await;
                let first = site.calm(0, "of the first").await;
                owned[site.owner(first, second).await] += 1;
            }
        }
        assert!(owned[0] > 2 && owned[1] > 10, "{owned:?} of {} requests", requests.len());
    }
}

/// The second root's load runs as a whole while a request of the first one's is under way: at each of its requests.
#[tokio::test]
async fn of_two_creations_at_once_one_becomes_the_owner() {
    let calm = Network::calm();
    load(Site::memory().behind(0, &calm), "t").await.unwrap();
    let verbs: Vec<&'static str> = calm.passed().iter().map(|passed| passed.verb).collect();
    let mut owned = [0, 0];
    for (i, verb) in verbs.iter().enumerate() {
        let nth = verbs[..i].iter().filter(|earlier| earlier == &verb).count();
        for fault in [Fault::Delayed(1), Fault::RequestsLost(1), Fault::RepliesLost(1)] {
            let (site, network) = (Site::memory(), Network::planned(&[Planned { verb, nth, fault }]));
            let other = site.clone();
            network.meanwhile(Arc::new(move || {
                let other = other.clone();
                Box::pin(async move { drop(other.calm(1, "of the second").await) })
            }));
            let told = load(site.behind(0, &network), "t").await;
            assert_eq!(network.fired().len(), 1);
            println!("{verb} {nth} {fault:?}: {:?}", told.as_ref().err());
            let first = site.calm(0, "of the first, again").await;
            assert!(told.is_err() || first.is_ok(), "what is acknowledged stays: {first:?}");
            let second = site.calm(1, "of the second, again").await;
            owned[site.owner(first, second).await] += 1;
        }
    }
    assert!(owned[0] > 2 && owned[1] > 10, "{owned:?}");
}

/// Wherever the creation was cut off, a root with something in it is not made a data root, and stays as it is.
#[tokio::test]
async fn who_finishes_a_creation_refuses_foreign_objects_as_who_begins_one() {
    let stranger = "letters/a.txt";
    let tap = Tap::new();
    Catalog::open_or_create(Site::memory().parts(0, &tap), "parquet").await.unwrap();
    for k in 0..tap.requests().len() {
        let (site, tap) = (Site::memory(), Tap::with_fault(tap::Fault::After(k)));
        let _ = Catalog::open_or_create(site.parts(0, &tap), "parquet").await;
        site.roots[1].objects.put(&Path::from(stranger), "x".into()).await.unwrap();
        let error = site.calm(1, "t").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
        assert_eq!(site.roots[1].everything().await, (vec![stranger.to_owned()], vec![]), "after request {k}");
        site.calm(0, "t").await.unwrap();
    }
}

/// The same of a catalog with its control beside its data, until the head of `main` is there.
#[tokio::test]
async fn a_creation_is_not_finished_over_foreign_objects() {
    let parts = |root: &Root, tap: &Arc<Tap>| {
        let authority = Arc::new(TapAuthority::new(root.authority.clone(), tap.clone()));
        Parts::new(registry(), authority, Arc::new(TapObjects::new(root.objects.clone(), tap.clone())))
    };
    let tap = Tap::new();
    Catalog::open_or_create(parts(&Root::new("memory://x"), &tap), "parquet").await.unwrap();
    let (mut refused, mut opened) = (0, 0);
    for k in 0..tap.requests().len() {
        let (root, tap) = (Root::new("memory://x"), Tap::with_fault(tap::Fault::After(k)));
        let _ = Catalog::open_or_create(parts(&root, &tap), "parquet").await;
        root.objects.put(&Path::from("letters/a.txt"), "x".into()).await.unwrap();
        let created = root.authority.list_branches().await.unwrap().len() == 1;
        match load(parts(&root, &Tap::new()), "t").await {
            Ok(()) => opened += 1,
            Err(error) => {
                assert_eq!((error.kind(), created), (ErrorKind::InvalidInput, false), "{error:?}");
                refused += 1;
            }
        }
    }
    assert!(refused > 4 && opened > 0, "{refused} {opened}");
}
