//! Names of every kind: as they are, if they are quoted.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use headwater_core::ErrorKind;

use super::fixture::{Place, answer, number};

const NAMES: [&str; 10] = ["Trips", "trips", "TRIPS", "tr\"ip\"", "it's", "a.b.c", "sp ace", "select", "Ausflüge – поездки 🚲", "1st;--"];

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_name_finds_its_own_table_and_column() {
    let place = Place::new().await;
    for (i, name) in NAMES.into_iter().enumerate() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![i as i64, 100]));
        let batch = RecordBatch::try_from_iter([(name, column)]).unwrap();
        place.table(name, &batch.schema(), &[batch]).await;
    }
    let snapshot = place.snapshot().await;
    for (i, name) in NAMES.into_iter().enumerate() {
        let name = quoted(name);
        assert_eq!(number(&snapshot, &format!("SELECT {name} FROM {name} WHERE {name} < 100")).await, i as i64);
        assert_eq!(number(&snapshot, &format!("SELECT sum(t.{name}) FROM headwater.main.{name} AS t")).await, 100 + i as i64);
        place.same(&snapshot, &format!("SELECT * FROM {name}")).await;
    }
    assert_eq!(number(&snapshot, "SELECT min(TRIPS) FROM Trips").await, 1, "what is not quoted is in lower case");
    assert_eq!(answer(&snapshot, "SHOW TABLES").await.unwrap().num_rows(), NAMES.len() + 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_there_is_told_with_what_is() {
    let place = Place::new().await;
    let batch = RecordBatch::try_from_iter([("Km", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
    place.table("Trips", &batch.schema(), std::slice::from_ref(&batch)).await;
    place.table("bikes", &batch.schema(), &[batch]).await;
    let snapshot = place.snapshot().await;
    for (text, parts) in [
        ("SELECT * FROM Trips", &["no table trips", "it has \"Trips\", bikes"][..]),
        ("SELECT * FROM bikes JOIN main.cars USING (km)", &["no table cars"]),
        ("SELECT * FROM headwater.main.\"x/y\"", &["no table \"x/y\""]),
        ("SELECT * FROM elsewhere.bikes", &["elsewhere.bikes"]),
        ("SELECT km FROM bikes", &["km", "Km"]),
        ("SELECT \"Km\" FROM bikes WHERE \"Km\" = [1]", &[]),
        ("SELECT nosuch(\"Km\") FROM bikes", &["nosuch"]),
        ("SELEC 1", &["SELEC"]),
        ("SELECT 1; SELECT 2", &[]),
        ("", &[]),
    ] {
        let error = answer(&snapshot, text).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported), "{text}: {error:?}");
        for part in parts {
            assert!(error.to_string().contains(part), "{part:?} is not in {error}");
        }
        if !parts.is_empty() {
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
        }
    }
    let empty = Place::new().await.snapshot().await;
    let error = answer(&empty, "SELECT * FROM t").await.unwrap_err();
    assert!(error.to_string().contains("it has none"), "{error}");
}
