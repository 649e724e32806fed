//! A query reads, and reads nothing but the snapshot.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use headwater_core::ErrorKind;

use super::fixture::{Place, answer, number};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_more_than_read_is_refused_and_changes_nothing() {
    let place = Place::new().await;
    let batch = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]).unwrap();
    place.table("t", &batch.schema(), &[batch]).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in.csv"), "n\n7\n").unwrap();
    let (csv, out) = (folder.path().join("in.csv").display().to_string(), folder.path().join("out.csv").display().to_string());

    let (snapshot, head) = (place.snapshot().await, place.lake.head().await);
    place.tap.clear();
    for (text, name) in [
        ("CREATE TABLE new AS SELECT * FROM t".to_owned(), "CreateMemoryTable"),
        ("CREATE TABLE new (n INT)".to_owned(), "CreateMemoryTable"),
        ("CREATE VIEW new AS SELECT * FROM t".to_owned(), "CreateView"),
        (format!("CREATE EXTERNAL TABLE new (n INT) STORED AS CSV LOCATION '{csv}'"), "CreateExternalTable"),
        ("CREATE SCHEMA new".to_owned(), "CreateCatalogSchema"),
        ("CREATE DATABASE new".to_owned(), "CreateCatalog"),
        ("DROP TABLE t".to_owned(), "DropTable"),
        ("INSERT INTO t VALUES (3)".to_owned(), "Insert"),
        ("INSERT INTO t SELECT * FROM t".to_owned(), "Insert"),
        ("DELETE FROM t".to_owned(), "Delete"),
        ("UPDATE t SET n = 3".to_owned(), "Update"),
        (format!("COPY t TO '{out}' STORED AS CSV"), "COPY"),
        (format!("COPY (SELECT 1) TO '{out}' STORED AS CSV"), "COPY"),
        (format!("EXPLAIN COPY t TO '{out}' STORED AS CSV"), "COPY"),
        (format!("EXPLAIN ANALYZE COPY t TO '{out}' STORED AS CSV"), "COPY"),
        ("EXPLAIN ANALYZE INSERT INTO t VALUES (3)".to_owned(), "Insert"),
        ("SET datafusion.execution.batch_size = 1".to_owned(), "SetVariable"),
        ("RESET datafusion.execution.batch_size".to_owned(), "ResetVariable"),
        ("START TRANSACTION".to_owned(), "TransactionStart"),
        ("PREPARE p AS SELECT 1".to_owned(), "Prepare"),
        ("EXECUTE p".to_owned(), "Execute"),
        ("DEALLOCATE p".to_owned(), "Deallocate"),
    ] {
        let error = answer(&snapshot, &text).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}: {error:?}");
        assert!(error.to_string().contains("only reads") && error.to_string().contains(name), "{text}: {error}");
    }
    for text in [
        format!("SELECT * FROM '{csv}'"),
        format!("SELECT * FROM \"{csv}\""),
        format!("SELECT * FROM 'file://{csv}'"),
        format!("SELECT * FROM read_csv('{csv}')"),
        format!("SELECT * FROM csv_scan('{csv}')"),
        "BEGIN".to_owned(),
        "INSTALL httpfs".to_owned(),
        "CREATE EXTENSION x".to_owned(),
        "TRUNCATE TABLE t".to_owned(),
        "ATTACH 'x' AS y".to_owned(),
        "CREATE FUNCTION f() RETURNS INT RETURN 1".to_owned(),
        "VACUUM".to_owned(),
    ] {
        let error = answer(&snapshot, &text).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported), "{text}: {error:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(place.tap.requests().iter().all(|request| request.verb == "GET"), "something was written");
    assert_eq!(place.lake.head().await, head);
    assert_eq!(number(&place.snapshot().await, "SELECT sum(n) FROM t").await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_tells_about_the_snapshot_is_no_more_than_reading() {
    let place = Place::new().await;
    let batch = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]).unwrap();
    place.table("t", &batch.schema(), &[batch]).await;
    let snapshot = place.snapshot().await;
    for text in ["EXPLAIN SELECT * FROM t", "EXPLAIN ANALYZE SELECT * FROM t", "DESCRIBE t", "SHOW COLUMNS FROM t", "SHOW TABLES"] {
        assert!(answer(&snapshot, text).await.unwrap_or_else(|error| panic!("{text}: {error}")).num_rows() > 0, "{text}");
    }
}
