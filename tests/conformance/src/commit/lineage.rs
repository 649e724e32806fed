//! Mirrored tables: their chain follows their commits, and never decides one.

use headwater_core::verify::Depth;
use headwater_core::{At, Branch, Catalog, Commit, ErrorKind, Lineage, Result, TableOptions};

use super::{append, create, ids, refused};
use crate::lab::{Lab, main};
use crate::rows::{numbered, schema};
use crate::tap::{Fault, Tap};

async fn create_mirrored(branch: &Branch) -> Result<Commit> {
    let options = TableOptions { lineage: Lineage::Mirrored, ..TableOptions::default() };
    branch
        .transact(|tx| {
            let options = options.clone();
            async move {
                let table = tx.create_table_with("t", schema(), options).await?;
                tx.append(&table, numbered(0..3)).await
            }
        })
        .await
}

/// The seqs at which the chain of `t` has a version.
async fn chain(catalog: &Catalog) -> Vec<u64> {
    let now = main(catalog).snapshot().await.unwrap();
    let (table, chain) = (now.table("t").unwrap().table(), catalog.store().mirror().unwrap());
    let listed = catalog.store().list().await.unwrap();
    (1..=now.seq()).filter(|&seq| listed.iter().any(|object| object.path == chain.path(table, seq))).collect()
}

/// Whether every mirrored table's version is on its chain.
pub(crate) async fn assert_up(catalog: &Catalog) {
    let now = main(catalog).snapshot().await.unwrap();
    for head in now.tables().filter(|head| head.lineage().unwrap() == Lineage::Mirrored) {
        let seq = now.at(At::Commit(head.commit)).await.unwrap().seq();
        let path = catalog.store().mirror().unwrap().path(head.table(), seq);
        assert!(catalog.store().list().await.unwrap().iter().any(|object| object.path == path), "{path} is not there");
    }
}

pub(super) async fn a_mirrored_table_follows_its_commits(lab: &Lab) {
    let catalog = lab.create().await;
    let branch = main(&catalog);
    create(&branch, "u", 0..1).await;
    if catalog.store().mirror().is_none() {
        refused(create_mirrored(&branch).await, ErrorKind::Unsupported);
        assert_eq!(lab.main().await.snapshot().await.unwrap().seq(), 1);
        return;
    }
    let created = create_mirrored(&branch).await.unwrap();
    assert_eq!((created.seq, created.behind, chain(&catalog).await), (2, vec![], vec![2]));
    append(&branch, "u", 1..2).await.unwrap();
    append(&branch, "t", 3..4).await.unwrap();
    assert_eq!(chain(&catalog).await, [2, 4], "another table's commits are none of its versions");

    // The process dies right after the swap: the commit is told as one, and the chain is behind.
    let requests = async |fault: Option<Fault>| {
        let tap = Tap::new();
        let branch = main(&Catalog::open(lab.parts(&tap).await).await.unwrap());
        branch.snapshot().await.unwrap();
        tap.clear();
        fault.into_iter().for_each(|fault| tap.plan(fault));
        let commit = append(&branch, "t", 0..1).await.unwrap();
        (tap.requests().len(), commit.behind)
    };
    let (count, behind) = requests(None).await;
    assert!(behind.is_empty());
    for (fault, chained) in [(Fault::Before(count - 1), vec![2, 4, 5]), (Fault::After(count - 1), vec![2, 4, 5, 7])] {
        let (_, behind) = requests(Some(fault)).await;
        assert_eq!((behind.len(), chain(&catalog).await), (1, chained), "{fault:?}");
    }
    let report = catalog.verify(Depth::Data).await.unwrap();
    assert!(report.ok() && report.reclaimable_objects == 0, "{report:?}");

    // Asking brings it up, as often as one asks; so does the next commit, and none for a table that is not mirrored.
    let now = lab.main().await.snapshot().await.unwrap();
    now.mirror("t").await.unwrap();
    now.mirror("t").await.unwrap();
    now.at(At::Seq(6)).await.unwrap().mirror("t").await.unwrap();
    assert_eq!(chain(&catalog).await, [2, 4, 5, 6, 7]);
    refused(now.mirror("u").await, ErrorKind::InvalidInput);
    let branch = lab.main().await;
    append(&branch, "t", 9..10).await.unwrap();
    assert_eq!(ids(&branch.snapshot().await.unwrap(), "t").await, [0, 0, 0, 0, 1, 2, 3, 9]);
    assert_up(&lab.open().await).await;
    let report = catalog.verify(Depth::Data).await.unwrap();
    assert!(report.ok() && report.reclaimable_objects == 0, "{report:?}");
}
