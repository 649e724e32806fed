//! Loads: whatever the closure read decides whether its result still holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow_schema::{DataType, Field};
use headwater_core::store::Change;
use headwater_core::{Branch, ErrorKind, Result, Transaction};

use super::{append, create, drop_table, ids, refused, rename};
use crate::lab::{Lab, main};
use crate::rows::{numbered, read_in, rows, schema};
use crate::tap::Tap;

/// What the closure reads before it appends to `own`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    Nothing,
    OwnRows,
    OwnCount,
    Other,
    OtherRows,
    FreeName,
    List,
}

/// What another process commits between the closure's first run and its publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    OwnAppended,
    OwnOverwritten,
    OwnWidened,
    OwnRenamed,
    OwnDropped,
    OtherAppended,
    OtherWidened,
    OtherDropped,
    UnrelatedAppended,
    UnrelatedCreated,
    NameTaken,
}

use Meanwhile::*;
use Reads::*;

/// Reads, what happens meanwhile, how often the closure runs, and how it ends where it fails on its last run. Where the table it appends to
/// has moved, a store that does not rebase costs another run.
const CELLS: &[(Reads, Meanwhile, u32, Option<ErrorKind>)] = &[
    (Reads::Nothing, Meanwhile::Nothing, 1, None),
    // A pure append keeps its meaning on a newer version of the same columns.
    (Reads::Nothing, OwnAppended, 1, None),
    (Reads::Nothing, OwnOverwritten, 1, None),
    (Reads::Nothing, OwnWidened, 2, None),
    (Reads::Nothing, OwnRenamed, 2, Some(ErrorKind::NotFound)),
    (Reads::Nothing, OwnDropped, 2, Some(ErrorKind::NotFound)),
    (Reads::Nothing, OtherAppended, 1, None),
    (Reads::Nothing, OtherDropped, 1, None),
    (Reads::Nothing, UnrelatedCreated, 1, None),
    (Reads::Nothing, NameTaken, 1, None),
    (OwnRows, Meanwhile::Nothing, 1, None),
    (OwnRows, OwnAppended, 2, None),
    (OwnRows, OwnOverwritten, 2, None),
    (OwnRows, OtherAppended, 1, None),
    (OwnCount, OwnAppended, 2, None),
    (OwnCount, UnrelatedAppended, 1, None),
    // A table that is probed and not written is read all the same.
    (Other, OtherAppended, 1, None),
    (Other, OtherWidened, 2, None),
    (Other, OtherDropped, 2, Some(ErrorKind::NotFound)),
    (OtherRows, OtherAppended, 2, None),
    (OtherRows, OtherWidened, 2, None),
    (OtherRows, OtherDropped, 2, Some(ErrorKind::NotFound)),
    (OtherRows, UnrelatedAppended, 1, None),
    (OtherRows, UnrelatedCreated, 1, None),
    (FreeName, NameTaken, 2, Some(ErrorKind::AlreadyExists)),
    (FreeName, UnrelatedCreated, 1, None),
    (FreeName, OwnAppended, 1, None),
    (List, UnrelatedAppended, 1, None),
    (List, UnrelatedCreated, 2, None),
    (List, NameTaken, 2, None),
    (List, OtherWidened, 2, None),
    (List, OtherDropped, 2, None),
];

async fn happen(other: &Branch, meanwhile: Meanwhile) {
    let widen = |key: &'static str| {
        other.transact(move |tx| async move {
            let table = tx.table(key).await?;
            tx.add_columns(&table, vec![Field::new("size", DataType::Int64, true)]).await
        })
    };
    match meanwhile {
        Meanwhile::Nothing => return,
        OwnAppended => append(other, "own", 50..52).await,
        OwnOverwritten => other.transact(|tx| async move { tx.overwrite(&tx.table("own").await?, numbered(50..52)).await }).await,
        OwnWidened => widen("own").await,
        OwnRenamed => rename(other, "own", "own, renamed").await,
        OwnDropped => drop_table(other, "own").await,
        OtherAppended => append(other, "other", 50..52).await,
        OtherWidened => widen("other").await,
        OtherDropped => drop_table(other, "other").await,
        UnrelatedAppended => append(other, "unrelated", 50..52).await,
        UnrelatedCreated => Ok(create(other, "something new", 0..1).await),
        NameTaken => Ok(create(other, "free", 0..1).await),
    }
    .unwrap();
}

async fn look(tx: &Transaction, reads: Reads) -> Result<()> {
    match reads {
        Reads::Nothing => {}
        OwnRows => drop(read_in(tx, &tx.table("own").await?).await?),
        OwnCount => drop(tx.rows(&tx.table("own").await?).await?),
        Other => drop(tx.table("other").await?),
        OtherRows => drop(read_in(tx, &tx.table("other").await?).await?),
        FreeName => {
            if tx.find("free").await?.is_some() {
                return Err(headwater_core::Error::new(ErrorKind::AlreadyExists, "the name was free"));
            }
        }
        List => drop(tx.tables().await?),
    }
    Ok(())
}

/// Whether the store puts an append on a newer version.
async fn rebases(lab: &Lab) -> bool {
    let catalog = lab.create().await;
    let branch = main(&catalog);
    create(&branch, "own", 0..3).await;
    let old = branch.snapshot().await.unwrap().table("own").unwrap().clone();
    append(&branch, "own", 3..5).await.unwrap();
    let new = branch.snapshot().await.unwrap().table("own").unwrap().clone();
    let staged = catalog.store().stage(old.table(), Some(&old.pin), Change::Append(rows(5..6))).await.unwrap();
    catalog.store().rebase(new.table(), &staged, &new.pin).await.unwrap().is_some()
}

pub(super) async fn what_it_read_decides_whether_the_closure_runs_again(lab: &Lab) {
    let rebases = rebases(lab).await;
    for (reads, meanwhile, expected, fails) in CELLS.iter().copied() {
        let own_moved = matches!(meanwhile, OwnAppended | OwnOverwritten);
        let expected = if own_moved && !rebases { 2 } else { expected };
        let cell = format!("{reads:?}, {meanwhile:?}");
        let branch = main(&lab.create().await);
        for key in ["own", "other", "unrelated"] {
            create(&branch, key, 0..3).await;
        }
        let (other, runs) = (lab.main().await, AtomicU32::new(0));
        let committed = branch.transact(|tx| {
            let (other, runs) = (&other, &runs);
            async move {
                look(&tx, reads).await?;
                let own = tx.table("own").await?;
                if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                    happen(other, meanwhile).await;
                }
                tx.append(&own, numbered(10..12)).await
            }
        });
        let committed = committed.await;
        // A run that fails before it counts itself is a run as well.
        let counted = runs.load(Ordering::SeqCst) + u32::from(fails.is_some());
        assert_eq!(counted, expected, "{cell}: runs of the closure");
        let after = lab.main().await.snapshot().await.unwrap();
        match (committed, fails) {
            (Ok(commit), None) => {
                assert_eq!((commit.prepares, commit.published, commit.seq), (expected, true, after.seq()), "{cell}");
                assert_eq!(u32::from(meanwhile != Meanwhile::Nothing), commit.swaps_lost, "{cell}: swaps lost");
                let mut wanted: Vec<i64> = if meanwhile == OwnOverwritten { Vec::new() } else { (0..3).collect() };
                wanted.extend(10..12);
                if own_moved {
                    wanted.extend(50..52);
                }
                assert_eq!(ids(&after, "own").await, wanted, "{cell}");
            }
            (Err(error), Some(kind)) => assert_eq!(error.kind(), kind, "{cell}: {error:?}"),
            (result, _) => panic!("{cell}: {result:?}"),
        }
        lab.check().await;
    }
}

pub(super) async fn what_changes_nothing_publishes_nothing(lab: &Lab) {
    let branch = main(&lab.create().await);
    create(&branch, "t", 0..3).await;
    let tap = Tap::new();
    let quiet = main(&headwater_core::Catalog::open(lab.parts(&tap).await).await.unwrap());
    type Body = fn(Transaction) -> futures::future::LocalBoxFuture<'static, Result<()>>;
    let bodies: [(&str, Body); 5] = [
        ("nothing at all", |_| Box::pin(async { Ok(()) })),
        ("a probe", |tx| Box::pin(async move { tx.table("t").await.map(drop) })),
        ("reading rows", |tx| Box::pin(async move { read_in(&tx, &tx.table("t").await?).await.map(drop) })),
        ("appending no batch", |tx| Box::pin(async move { tx.append(&tx.table("t").await?, Vec::new()).await })),
        ("appending an empty batch", |tx| Box::pin(async move { tx.append(&tx.table("t").await?, numbered(0..0)).await })),
    ];
    for (what, body) in bodies {
        let commit = quiet.transact(body).await.unwrap();
        assert_eq!((commit.published, commit.seq, commit.tables.len()), (false, 1, 0), "{what}");
    }
    let writes = tap.requests().into_iter().filter(|request| request.sent > 0).count();
    assert_eq!(writes, 0, "{}", crate::tap::render(&tap.requests()));
    assert_eq!(lab.main().await.snapshot().await.unwrap().rev(), branch.snapshot().await.unwrap().rev());
    // An overwrite is asked for even where it makes no difference.
    let emptied = || quiet.transact(|tx| async move { tx.overwrite(&tx.table("t").await?, Vec::new()).await });
    for seq in [2, 3] {
        assert_eq!(emptied().await.unwrap().seq, seq);
        assert_eq!(ids(&lab.main().await.snapshot().await.unwrap(), "t").await, [] as [i64; 0]);
    }
}

pub(super) async fn any_number_of_tables_is_one_commit(lab: &Lab) {
    let branch = main(&lab.create().await);
    for tables in [1, 2, 3, 20] {
        let keys: Arc<[String]> = (0..tables).map(|i| format!("{tables} tables, {i}")).collect();
        let commit = branch.transact(|tx| {
            let keys = keys.clone();
            async move {
                for key in keys.iter() {
                    let table = tx.create_table(key, schema()).await?;
                    tx.append(&table, numbered(0..2)).await?;
                    // More rows for the same table are the same write.
                    tx.append(&table, numbered(2..3)).await?;
                }
                Ok(())
            }
        });
        let commit = commit.await.unwrap();
        assert_eq!(commit.tables.len(), tables);
        assert!(
            commit.tables.iter().zip(keys.iter()).all(|(table, key)| table.key.as_str() == key && (table.rows, table.changed) == (3, 3))
        );
        let snapshot = lab.main().await.snapshot().await.unwrap();
        assert_eq!((snapshot.seq(), snapshot.commit()), (commit.seq, commit.commit));
        for key in keys.iter() {
            assert_eq!(snapshot.table(key).unwrap().commit, commit.commit.unwrap());
            assert_eq!(ids(&snapshot, key).await, [0, 1, 2]);
        }
        let log = snapshot.log(1).await.unwrap();
        assert_eq!((log[0].entry.seq, log[0].body.events.len()), (commit.seq, tables));
    }
}

pub(super) async fn a_refused_closure_leaves_nothing(lab: &Lab) {
    let branch = main(&lab.create().await);
    create(&branch, "t", 0..3).await;
    let before = branch.snapshot().await.unwrap();
    let misfit = numbered(0..1).project(&[1]).unwrap();
    let refusals = [
        branch
            .transact(|tx| async move {
                append_and_create(&tx).await?;
                Err(headwater_core::Error::invalid("the closure changed its mind"))
            })
            .await,
        branch
            .transact(|tx| {
                let misfit = misfit.clone();
                async move {
                    append_and_create(&tx).await?;
                    tx.append(&tx.table("t").await?, misfit).await
                }
            })
            .await,
        branch
            .transact(|tx| async move {
                append_and_create(&tx).await?;
                tx.drop_table(&tx.table("t").await?).await
            })
            .await,
    ];
    for refusal in refusals {
        refused(refusal, ErrorKind::InvalidInput);
    }
    let after = lab.main().await.snapshot().await.unwrap();
    assert_eq!((after.seq(), after.rev(), after.tables().len()), (before.seq(), before.rev(), 1));
    assert_eq!(ids(&after, "t").await, [0, 1, 2]);
}

async fn append_and_create(tx: &Transaction) -> Result<()> {
    tx.append(&tx.table("t").await?, numbered(5..6)).await?;
    let table = tx.create_table("never", schema()).await?;
    tx.append(&table, numbered(0..2)).await
}
