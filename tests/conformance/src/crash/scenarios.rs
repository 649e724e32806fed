//! The operations to crash: every adapter's, in every shape a commit takes on its way to the head.

use std::sync::Arc;

use arrow_array::StringArray;
use arrow_schema::{DataType, Field};
use headwater_core::adapter::WriterKind;
use headwater_core::filter::Filter;
use headwater_core::head::{TAIL_BYTES, TAIL_ENTRIES};
use headwater_core::json::encode;
use headwater_core::store::ByKey;
use headwater_core::{Branch, Lineage, Result, TableOptions, Transaction};

use super::Scenario;
use crate::rows::{numbered, schema};

/// All of them.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "load: create three tables and append",
        adapter: WriterKind::Load,
        records: &[],
        setup: |_| Box::pin(async { Ok(()) }),
        commits: &[|tx| {
            Box::pin(async move {
                for (key, ids) in [("a", 0..3), ("b", 3..5), ("c", 5..9)] {
                    let table = tx.create_table(key, schema()).await?;
                    tx.append(&table, numbered(ids)).await?;
                }
                Ok(())
            })
        }],
    },
    Scenario {
        name: "load: append to three tables",
        adapter: WriterKind::Load,
        records: &[],
        setup: |main| Box::pin(tables(main)),
        commits: &[|tx| {
            Box::pin(async move {
                for (key, ids) in [("a", 10..13), ("b", 13..15), ("c", 15..19)] {
                    let table = tx.table(key).await?;
                    tx.append(&table, numbered(ids)).await?;
                }
                Ok(())
            })
        }],
    },
    Scenario {
        name: "load: append that spills, tail full by count",
        adapter: WriterKind::Load,
        records: &["segment/"],
        setup: |main| Box::pin(full_tail(main)),
        commits: &[|tx| Box::pin(async move { tx.append(&tx.table("a").await?, numbered(10..12)).await })],
    },
    Scenario {
        name: "load: append that spills, tail full by bytes",
        adapter: WriterKind::Load,
        records: &["segment/"],
        setup: |main| Box::pin(heavy_tail(main)),
        commits: &[|tx| {
            Box::pin(async move {
                probe(&tx, 10).await?;
                tx.append(&tx.table("a").await?, numbered(10..12)).await
            })
        }],
    },
    Scenario {
        name: "load: append whose entry has a body record",
        adapter: WriterKind::Load,
        records: &["entry/"],
        setup: |main| Box::pin(tables(main)),
        commits: &[|tx| {
            Box::pin(async move {
                probe(&tx, TAIL_BYTES / 80).await?;
                tx.append(&tx.table("a").await?, numbered(10..12)).await
            })
        }],
    },
    Scenario {
        name: "load: create a mirrored table",
        adapter: WriterKind::Load,
        records: &[],
        setup: |_| Box::pin(async { Ok(()) }),
        commits: &[|tx| {
            Box::pin(async move {
                let options = TableOptions { lineage: Lineage::Mirrored, ..TableOptions::default() };
                let table = tx.create_table_with("m", schema(), options).await?;
                tx.append(&table, numbered(0..3)).await
            })
        }],
    },
    Scenario {
        name: "load: overwrite",
        adapter: WriterKind::Load,
        records: &[],
        setup: |main| Box::pin(tables(main)),
        commits: &[|tx| {
            Box::pin(async move {
                tx.overwrite(&tx.table("a").await?, numbered(50..52)).await?;
                tx.overwrite(&tx.table("b").await?, Vec::new()).await
            })
        }],
    },
    Scenario {
        name: "load: two commits to two tables",
        adapter: WriterKind::Load,
        records: &[],
        setup: |main| Box::pin(tables(main)),
        commits: &[
            |tx| Box::pin(async move { tx.append(&tx.table("a").await?, numbered(10..12)).await }),
            |tx| Box::pin(async move { tx.append(&tx.table("b").await?, numbered(12..15)).await }),
        ],
    },
    Scenario {
        name: "load: two commits to one table",
        adapter: WriterKind::Load,
        records: &[],
        setup: |main| Box::pin(tables(main)),
        commits: &[
            |tx| Box::pin(async move { tx.append(&tx.table("a").await?, numbered(10..12)).await }),
            |tx| Box::pin(async move { tx.append(&tx.table("a").await?, numbered(12..15)).await }),
        ],
    },
    Scenario {
        name: "load: two commits where only one fits the tail",
        adapter: WriterKind::Load,
        records: &["segment/"],
        setup: |main| Box::pin(nearly_full_tail(main)),
        commits: &[
            |tx| Box::pin(async move { tx.append(&tx.table("a").await?, numbered(10..12)).await }),
            |tx| Box::pin(async move { tx.append(&tx.table("b").await?, numbered(12..15)).await }),
        ],
    },
    Scenario {
        name: "mutation: by key and by a condition, and a load beside it",
        adapter: WriterKind::Mutation,
        records: &[],
        setup: |main| Box::pin(keyed(main)),
        commits: &[|tx| {
            Box::pin(async move {
                tx.upsert(&tx.table("a").await?, numbered(2..7)).await?;
                tx.by_key(&tx.table("b").await?, ByKey::DELETE, numbered(0..2)).await?;
                tx.update(&tx.table("c").await?, Filter::IsNull("name".to_owned()), vec![("name", Arc::new(StringArray::from(vec!["x"])))])
                    .await?;
                tx.append(&tx.table("d").await?, numbered(10..12)).await
            })
        }],
    },
    Scenario {
        name: "mutation: two upserts of one table",
        adapter: WriterKind::Mutation,
        records: &[],
        setup: |main| Box::pin(keyed(main)),
        commits: &[
            |tx| Box::pin(async move { tx.upsert(&tx.table("a").await?, numbered(2..7)).await }),
            |tx| Box::pin(async move { tx.upsert(&tx.table("a").await?, numbered(6..9)).await }),
        ],
    },
    Scenario {
        name: "index: two tables",
        adapter: WriterKind::Index,
        records: &[],
        setup: |main| Box::pin(scattered(main)),
        commits: &[|tx| {
            Box::pin(async move {
                tx.index(&tx.table("a").await?, "id").await?;
                tx.index(&tx.table("b").await?, "name").await
            })
        }],
    },
    Scenario {
        name: "optimize: two tables",
        adapter: WriterKind::Optimize,
        records: &[],
        setup: |main| Box::pin(scattered(main)),
        commits: &[|tx| {
            Box::pin(async move {
                tx.optimize(&tx.table("a").await?).await?;
                tx.optimize(&tx.table("b").await?).await
            })
        }],
    },
    Scenario {
        name: "schema: create",
        adapter: WriterKind::Schema,
        records: &[],
        setup: |main| Box::pin(tables(main)),
        commits: &[|tx| Box::pin(async move { tx.create_table("e", schema()).await.map(drop) })],
    },
    Scenario {
        name: "schema: rename",
        adapter: WriterKind::Schema,
        records: &[],
        setup: |main| Box::pin(tables(main)),
        commits: &[|tx| Box::pin(async move { tx.rename_table(&tx.table("a").await?, "A").await })],
    },
    Scenario {
        name: "schema: drop",
        adapter: WriterKind::Schema,
        records: &["tombstones/"],
        setup: |main| Box::pin(tables(main)),
        commits: &[|tx| Box::pin(async move { tx.drop_table(&tx.table("a").await?).await })],
    },
    Scenario {
        name: "schema: recreate",
        adapter: WriterKind::Schema,
        records: &["tombstones/"],
        setup: |main| Box::pin(dropped(main)),
        commits: &[|tx| Box::pin(async move { tx.recreate_table("a", None).await.map(drop) })],
    },
    Scenario {
        name: "schema: add columns",
        adapter: WriterKind::Schema,
        records: &[],
        setup: |main| Box::pin(tables(main)),
        commits: &[|tx| {
            Box::pin(async move { tx.add_columns(&tx.table("a").await?, vec![Field::new("size", DataType::Float64, true)]).await })
        }],
    },
    Scenario {
        name: "schema: all of it in one commit that spills",
        adapter: WriterKind::Schema,
        records: &["segment/", "tombstones/"],
        setup: |main| Box::pin(dropped_and_full(main)),
        commits: &[|tx| {
            Box::pin(async move {
                tx.rename_table(&tx.table("b").await?, "b, renamed").await?;
                tx.drop_table(&tx.table("c").await?).await?;
                tx.add_columns(&tx.table("d").await?, vec![Field::new("size", DataType::Float64, true)]).await?;
                tx.recreate_table("a", None).await?;
                tx.create_table("e", schema()).await.map(drop)
            })
        }],
    },
    Scenario {
        name: "schema: two drops side by side",
        adapter: WriterKind::Schema,
        records: &["tombstones/"],
        setup: |main| Box::pin(tables(main)),
        commits: &[
            |tx| Box::pin(async move { tx.drop_table(&tx.table("a").await?).await }),
            |tx| Box::pin(async move { tx.drop_table(&tx.table("b").await?).await }),
        ],
    },
];

async fn tables(main: Branch) -> Result<()> {
    let create = main.transact(|tx| async move {
        for key in ["a", "b", "c", "d"] {
            let table = tx.create_table(key, schema()).await?;
            tx.append(&table, numbered(0..2)).await?;
        }
        Ok(())
    });
    create.await.map(drop)
}

/// Tables whose rows `id` names, and `d` without a key.
async fn keyed(main: Branch) -> Result<()> {
    let create = main.transact(|tx| async move {
        for key in ["a", "b", "c"] {
            let table = tx.create_keyed_table(key, schema(), &["id"]).await?;
            tx.append(&table, numbered(0..4)).await?;
        }
        tx.create_table("d", schema()).await.map(drop)
    });
    create.await.map(drop)
}

/// Tables of a few versions, each with rows of its own.
async fn scattered(main: Branch) -> Result<()> {
    tables(main.clone()).await?;
    for i in 0..3 {
        append(&main, "a", i).await?;
        append(&main, "b", i).await?;
    }
    Ok(())
}

async fn append(main: &Branch, key: &'static str, i: i64) -> Result<()> {
    let appended = main.transact(|tx| async move { tx.append(&tx.table(key).await?, numbered(100 + i..101 + i)).await });
    appended.await.map(drop)
}

/// Probes names that are free: each is part of the entry, with some 80 bytes.
async fn probe(tx: &Transaction, names: usize) -> Result<()> {
    for i in 0..names {
        assert!(tx.find(&format!("{i:080}")).await?.is_none());
    }
    Ok(())
}

/// Fills the tail by bytes, so that no entry of 1,200 fits it any more. That is more than an append is taken for before it is staged: it never
/// spills here.
async fn fill(main: &Branch) -> Result<()> {
    for i in 0.. {
        let tail = main.snapshot().await?.log(TAIL_ENTRIES).await?;
        let tail: Vec<_> = tail.into_iter().map(|logged| logged.entry).collect();
        let room = TAIL_BYTES - encode(&tail)?.len();
        if room < 1_200 {
            break;
        }
        let names = if room > 8_000 { 60 } else { 0 };
        let appended = main.transact(|tx| async move {
            probe(&tx, names).await?;
            tx.append(&tx.table("b").await?, numbered(100 + i..101 + i)).await
        });
        appended.await?;
    }
    Ok(())
}

async fn full_tail(main: Branch) -> Result<()> {
    tables(main.clone()).await?;
    for i in 1..TAIL_ENTRIES as i64 {
        append(&main, "b", i).await?;
    }
    Ok(())
}

async fn nearly_full_tail(main: Branch) -> Result<()> {
    tables(main.clone()).await?;
    for i in 2..TAIL_ENTRIES as i64 {
        append(&main, "c", i).await?;
    }
    Ok(())
}

async fn heavy_tail(main: Branch) -> Result<()> {
    tables(main.clone()).await?;
    fill(&main).await
}

async fn dropped(main: Branch) -> Result<()> {
    tables(main.clone()).await?;
    main.transact(|tx| async move { tx.drop_table(&tx.table("a").await?).await }).await.map(drop)
}

async fn dropped_and_full(main: Branch) -> Result<()> {
    dropped(main.clone()).await?;
    fill(&main).await
}
