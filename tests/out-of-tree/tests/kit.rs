//! The conformance kit over this crate's authority and store, and the two through the front door.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where something is not as it should be")]

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use bytes::Bytes;
use headwater::authority::{ControlAuthority, Expected, HeadRead, Severity, Swap, Tag};
use headwater::name::BranchName;
use headwater::registry::{Location, OpenedBackend, Part, Registry};
use headwater::verify::Depth;
use headwater::{At, Catalog, ErrorKind};
use headwater_conformance::fixture::{AuthorityOf, Fixture, Memory, StoreOf};
use headwater_conformance::lab::Lab;
use headwater_conformance::rows::{ids, numbered, read, schema};
use headwater_conformance::{authority, commit, store};
use one_file::{BACKEND, KIND, OneFile, STORE};
use tempfile::TempDir;
use tokio::task::JoinSet;

/// The backend, each place a folder of its own.
#[derive(Default)]
struct Place(Mutex<Option<TempDir>>);

#[async_trait::async_trait]
impl Fixture<OpenedBackend> for Place {
    async fn open_fresh(&self) -> OpenedBackend {
        *self.0.lock().unwrap() = Some(tempfile::tempdir().unwrap());
        self.reopen().await
    }

    async fn reopen(&self) -> OpenedBackend {
        opened(&url(self.0.lock().unwrap().as_ref().unwrap())).unwrap()
    }
}

/// A folder with a name that a URL must spell in another way.
fn url(folder: &TempDir) -> String {
    format!("onefile://{}/a%20lake", folder.path().display())
}

fn opened(url: &str) -> headwater::Result<OpenedBackend> {
    let Part::Backend(backend) = BACKEND.part else { panic!("the part is a backend") };
    (backend.open)(&Location::parse(url)?)
}

/// The registry of a catalog that is opened with both parts.
async fn registry() -> Registry {
    let catalog = headwater::builder("memory://").register(&BACKEND).register(&STORE).create(true).store(KIND).open().await;
    catalog.unwrap().registry().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_authority_conforms() {
    assert_eq!(authority::run_all(&AuthorityOf(Place::default())).await, authority::PROPERTIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_conforms_in_memory() {
    let fixture = StoreOf { backend: Memory::default(), registry: registry().await, kind: KIND.to_owned() };
    assert_eq!(store::run_all(&fixture).await, store::PROPERTIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_conforms_beside_the_authority() {
    let fixture = StoreOf { backend: Place::default(), registry: registry().await, kind: KIND.to_owned() };
    assert_eq!(store::run_all(&fixture).await, store::PROPERTIES.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn catalogs_conform() {
    assert_eq!(commit::run_all(&Lab::new(Place::default(), registry().await, KIND)).await, commit::PROPERTIES.len());
}

/// A file where the folder should be is a backend that is out of reach.
#[tokio::test]
async fn errors_name_the_object() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(authority::errors_name_the_object(&OneFile::new(file.path().join("control"))).await > 0);
}

#[tokio::test]
async fn the_probe_leaves_nothing_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let findings = OneFile::new(folder.path()).probe().await.unwrap();
    assert!(!findings.is_empty() && findings.iter().all(|finding| finding.severity == Severity::Good), "{findings:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_damaged_file_is_corrupt_and_stays_as_it_is() {
    let (folder, main) = (tempfile::tempdir().unwrap(), "main".parse::<BranchName>().unwrap());
    let authority = OneFile::new(folder.path());
    authority.swap_head(&main, Expected::Absent, Bytes::from_static(b"1")).await.unwrap();
    let path = folder.path().join("map");
    let damaged = std::fs::read_to_string(&path).unwrap().replace("\n1", "\n2");
    std::fs::write(&path, &damaged).unwrap();
    assert_eq!(authority.read_head(&main, None).await.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(authority.swap_head(&main, Expected::Absent, Bytes::new()).await.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
}

#[test]
fn a_url_of_another_place_is_refused() {
    for url in ["onefile://host/lake", "onefile:lake", "onefile:///lake?fsync=no"] {
        assert_eq!(opened(url).unwrap_err().kind(), ErrorKind::InvalidInput, "{url}");
    }
}

const PROCESSES: u64 = 4;
const TASKS: u64 = 4;
const INCREMENTS: u64 = 10;

async fn counted(authority: &OneFile, branch: &BranchName) -> (u64, Option<Tag>) {
    match authority.read_head(branch, None).await.unwrap() {
        HeadRead::Absent => (0, None),
        HeadRead::Found(body, tag) => (std::str::from_utf8(&body).unwrap().parse().unwrap(), Some(tag)),
        HeadRead::Unchanged => panic!("no tag was given"),
    }
}

/// The tasks of one of the processes below.
async fn count(folder: &Path) {
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (authority, branch) = (OneFile::new(folder), "main".parse::<BranchName>().unwrap());
        tasks.spawn(async move {
            let mut done = 0;
            while done < INCREMENTS {
                let (count, tag) = counted(&authority, &branch).await;
                let expected = tag.as_ref().map_or(Expected::Absent, Expected::Tag);
                match authority.swap_head(&branch, expected, (count + 1).to_string().into()).await.unwrap() {
                    Swap::Swapped(_) => done += 1,
                    Swap::Conflict => {}
                    Swap::Unknown(error) => panic!("nothing failed here: {error:?}"),
                }
            }
        });
    }
    tasks.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process of the test below"]
async fn counting_process() {
    count(Path::new(&std::env::var_os("ONE_FILE_FOLDER").unwrap())).await;
}

#[tokio::test]
async fn no_increment_of_sixteen_tasks_in_four_processes_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let start = |_| {
        let mut process = Command::new(std::env::current_exe().unwrap());
        process.args(["--ignored", "--exact", "counting_process"]).env("ONE_FILE_FOLDER", folder.path()).spawn().unwrap()
    };
    let processes: Vec<_> = (0..PROCESSES).map(start).collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    let (count, _) = counted(&OneFile::new(folder.path()), &"main".parse().unwrap()).await;
    assert_eq!(count, PROCESSES * TASKS * INCREMENTS);
}

async fn open(url: &str, create: bool) -> headwater::Result<Catalog> {
    headwater::builder(url).register(&BACKEND).register(&STORE).create(create).store(KIND).open().await
}

#[tokio::test]
async fn a_catalog_of_both_parts_lives_from_creation_to_verification() {
    let folder = tempfile::tempdir().unwrap();
    let url = url(&folder);
    assert_eq!(open(&url, false).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(headwater::open(&url).await.unwrap_err().to_string().contains("onefile://"), "no build has this backend by itself");
    let main = open(&url, true).await.unwrap().branch("main").unwrap();
    let made = main.transact(|tx| async move {
        for key in ["orders", "customers"] {
            tx.append(&tx.create_table(key, schema()).await?, numbered(0..3)).await?;
        }
        Ok(())
    });
    let first = made.await.unwrap();
    let added = main.transact(|tx| async move {
        tx.append(&tx.table("orders").await?, numbered(3..7)).await?;
        tx.overwrite(&tx.table("customers").await?, numbered(10..12)).await
    });
    added.await.unwrap();

    // As another process: only the URL is known. The catalog knows its kind of store.
    let catalog = headwater::builder(&url).register(&BACKEND).register(&STORE).open().await.unwrap();
    assert_eq!(catalog.store().kind(), KIND);
    let now = catalog.branch("main").unwrap().snapshot().await.unwrap();
    assert_eq!(ids(&read(&now, "orders").await.unwrap()), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(ids(&read(&now, "customers").await.unwrap()), [10, 11]);
    let then = now.at(At::Commit(first.commit.unwrap())).await.unwrap();
    assert_eq!(ids(&read(&then, "orders").await.unwrap()), [0, 1, 2]);
    assert_eq!(ids(&read(&then, "customers").await.unwrap()), [0, 1, 2]);
    let report = catalog.verify(Depth::Data).await.unwrap();
    assert!(report.ok(), "{:?}", report.problems);
}
