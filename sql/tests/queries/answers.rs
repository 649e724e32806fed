//! Whole queries: the same answer as DataFusion gives over tables of its own with the same rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Int64Array, RecordBatch, StringArray, StringViewArray};
use arrow_schema::{DataType, Field};
use arrow_select::concat::concat_batches;
use futures::TryStreamExt;
use headwater_core::{At, ErrorKind};

use super::fixture::{Place, answer, number};
use super::{KIND, sample};

async fn place() -> Place {
    let place = Place::new().await;
    let (schema, batches) = sample::batches(5, 30);
    place.table("t", &schema, &batches).await;
    let names: Vec<String> = (0..7).map(|i| format!("name {i}")).collect();
    let columns: [(&str, arrow_array::ArrayRef); 2] =
        [("id", Arc::new(Int64Array::from_iter_values(0..7))), ("name", Arc::new(StringArray::from(names)))];
    let names = RecordBatch::try_from_iter(columns).unwrap();
    place.table("names", &names.schema(), &[names.slice(0, 4), names.slice(4, 3)]).await;
    place.table("nothing", &schema, &[]).await;
    place
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries() {
    let place = place().await;
    let snapshot = place.snapshot().await;
    for text in [
        "SELECT * FROM t",
        "SELECT list, id, \"Text\" FROM t",
        "SELECT id, id + long AS sum, upper(\"Text\") FROM t WHERE long < 1000",
        "SELECT double, single FROM t",
        "SELECT 1 FROM t",
        "SELECT count(*) FROM t",
        "SELECT count(*) FROM t WHERE id % 2 = 0",
        "SELECT count(*) FROM t WHERE id > 17",
        "SELECT count(*), count(id), count(long), count(DISTINCT flag) FROM t",
        "SELECT min(id), max(id), sum(small), min(\"Text\"), max(double), min(double) FROM t",
        "SELECT flag, count(*), sum(price) FROM t GROUP BY flag ORDER BY flag",
        "SELECT \"Text\", count(*) AS n FROM t WHERE day IS NOT NULL GROUP BY \"Text\" HAVING count(*) > 3 ORDER BY 1",
        "SELECT kind, count(*) FROM t GROUP BY kind",
        "SELECT id FROM t ORDER BY id LIMIT 5",
        "SELECT id FROM t ORDER BY id DESC LIMIT 5 OFFSET 3",
        "SELECT count(*) FROM (SELECT id FROM t LIMIT 7)",
        "SELECT count(*) FROM (SELECT id FROM t WHERE id > 100 LIMIT 7)",
        "SELECT count(*) FROM (SELECT id FROM t WHERE id % 2 = 0 LIMIT 70)",
        "SELECT count(*) FROM (SELECT id FROM t LIMIT 0)",
        "SELECT count(*) FROM (SELECT id FROM t LIMIT 10000 OFFSET 20)",
        "SELECT DISTINCT flag FROM t",
        "SELECT t.id, name FROM t JOIN names ON t.long = names.id",
        "SELECT names.id, count(t.id) FROM names LEFT JOIN t ON t.long = names.id AND t.flag GROUP BY names.id ORDER BY 1",
        "SELECT count(*) FROM t CROSS JOIN names",
        "SELECT a.id, b.id FROM t AS a JOIN t AS b ON a.id = b.id + 1 WHERE a.id < 9 ORDER BY 1",
        "WITH few AS (SELECT id, long FROM t WHERE id < 10) SELECT f.id, name FROM few AS f JOIN names USING (id) ORDER BY 1",
        "SELECT id FROM t WHERE id < 5 UNION ALL SELECT id FROM names",
        "SELECT id, sum(id) OVER (PARTITION BY flag ORDER BY id) FROM t ORDER BY id",
        "SELECT (SELECT max(id) FROM names), id FROM t WHERE id < 3 ORDER BY id",
        "SELECT sum(n) FROM (SELECT unnest(list) AS n FROM t)",
        "WITH RECURSIVE up AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM up JOIN names ON names.id = up.n) SELECT n FROM up ORDER BY n",
        "SELECT * FROM nothing",
        "SELECT count(*), sum(id), max(\"Text\") FROM nothing",
        "SELECT count(*) FROM nothing WHERE id > 3",
        "SELECT nothing.id FROM nothing JOIN t USING (id)",
        "SELECT names.id FROM names LEFT JOIN nothing USING (id) WHERE nothing.id IS NULL ORDER BY 1",
        "SELECT 1 + 1 AS two",
        "VALUES (1, 'a'), (2, 'b')",
        "SELECT sum(value) FROM generate_series(1, 10)",
    ] {
        place.same(&snapshot, text).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_that_came_later_are_null_before() {
    let place = Place::new().await;
    let (schema, batches) = sample::batches(2, 10);
    place.table("t", &schema, &batches).await;
    let added = place
        .branch
        .transact(|tx| async move { tx.add_columns(&tx.table("t").await?, vec![Field::new("later", DataType::Int64, true)]).await });
    added.await.unwrap();
    let row: [(&str, arrow_array::ArrayRef); 2] =
        [("id", Arc::new(Int64Array::from(vec![99]))), ("later", Arc::new(Int64Array::from(vec![7])))];
    place.append("t", &RecordBatch::try_from_iter(row).unwrap()).await;
    let snapshot = place.snapshot().await;
    assert_eq!(number(&snapshot, "SELECT count(*) FROM t WHERE later IS NULL").await, 20);
    assert_eq!(number(&snapshot, "SELECT sum(id) FROM t WHERE later = 7").await, 99);
    assert_eq!(number(&snapshot, "SELECT count(later) FROM t").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_sees_one_commit_and_an_earlier_snapshot_an_earlier_one() {
    let place = place().await;
    let (before, text) = (place.snapshot().await, "SELECT sum(id + 0) FROM t");
    let sum = number(&before, text).await;
    assert_eq!(sum, (0..150).sum::<i64>());
    let started = headwater_sql::query(&before, text).await.unwrap();
    let (_, batches) = sample::batches(6, 30);
    place.append("t", &batches[5]).await;
    // It was planned before the commit and is read after it.
    let read: Vec<RecordBatch> = started.batches.try_collect().await.unwrap();
    assert_eq!(read[0].column(0).as_ref(), &Int64Array::from(vec![sum]));

    let now = place.snapshot().await;
    assert_eq!(number(&now, text).await, (0..180).sum::<i64>());
    for (commits, rows) in [(2, 30), (3, 60), (6, 150)] {
        let then = now.at(At::Seq(commits)).await.unwrap();
        assert_eq!(number(&then, "SELECT count(*) FROM t WHERE id + 0 >= 0").await, rows);
    }

    // Two points in time in one query, each a catalog of its own.
    let context = headwater_sql::context(&now);
    context.register_catalog("before", Arc::new(headwater_sql::SnapshotCatalog::new(&before)));
    let new = "SELECT count(*) FROM t WHERE id NOT IN (SELECT id FROM before.main.t)";
    let new = context.sql(new).await.unwrap().collect().await.unwrap();
    assert_eq!(new[0].column(0).as_ref(), &Int64Array::from(vec![30]));
}

/// What a query answers can be written as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_becomes_a_table() {
    let place = place().await;
    let committed = place.branch.transact(|tx| {
        let branch = place.branch.clone();
        async move {
            let rows = headwater_sql::query(&branch.snapshot().await?, "SELECT id, name FROM names WHERE id > 2").await?;
            let table = tx.create_table("few", rows.schema.clone()).await?;
            tx.append(&table, rows).await
        }
    });
    committed.await.unwrap();
    assert_eq!(answer(&place.snapshot().await, "SELECT * FROM few").await.unwrap().num_rows(), 4);
}

/// DataFusion works on views; an answer has the types that its tables have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_and_bytes_come_as_the_tables_have_them() {
    let place = Place::new().await;
    let (schema, batches) = sample::batches(2, 10);
    place.table("t", &schema, &batches).await;
    let snapshot = place.snapshot().await;
    let all = answer(&snapshot, "SELECT * FROM t ORDER BY id").await.unwrap();
    assert_eq!(all, concat_batches(&schema, &batches).unwrap().with_schema(all.schema()).unwrap());
    let types = async |query: &str| -> Vec<DataType> {
        let answer = answer(&snapshot, query).await.unwrap();
        assert!(answer.num_rows() > 0, "{query}");
        answer.schema().fields().iter().map(|field| field.data_type().clone()).collect()
    };
    let text = r#"SELECT "Text", bytes, large, upper("Text"), max("Text"), approx_distinct(bytes) FROM t GROUP BY "Text", bytes, large"#;
    let plain = [DataType::Utf8, DataType::Binary, DataType::LargeUtf8, DataType::Utf8, DataType::Utf8, DataType::UInt64];
    assert_eq!(types(text).await, plain);
    let nested = r#"SELECT array_agg("Text"), make_array(max("Text")), struct(max("Text") AS s) FROM t"#;
    assert!(types(nested).await.iter().all(|data_type| !format!("{data_type}").contains("View")));
}

/// Only a store that keeps views can have such a table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_views_answers_with_views() {
    let place = Place::new().await;
    let long = "so long that no view holds it";
    let views = RecordBatch::try_from_iter_with_nullable([("v", Arc::new(StringViewArray::from(vec![long, "short"])) as _, true)]).unwrap();
    if let Err(refused) = place.try_table("v", &views.schema(), std::slice::from_ref(&views)).await {
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
        assert_ne!(KIND.store, "parquet", "it keeps views");
        return;
    }
    let found = answer(&place.snapshot().await, "SELECT v, upper(v) FROM v WHERE v > 'so'").await.unwrap();
    let types: Vec<&DataType> = found.schema_ref().fields().iter().map(|field| field.data_type()).collect();
    assert_eq!((types, found.num_rows()), (vec![&DataType::Utf8View; 2], 1));
    assert_eq!(found["v"].as_string_view().value(0), long);
}
