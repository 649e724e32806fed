//! Errors of the store, through DataFusion and out again.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use futures::TryStreamExt;
use headwater_core::store::Scan;
use headwater_core::{Error, ErrorKind, Snapshot};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::fixture::{Place, answer};

async fn place() -> Place {
    let place = Place::new().await;
    let batch = |n: i64| {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(n..n + 10));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    };
    place.table("t", &batch(0).schema(), &[batch(0), batch(10), batch(20)]).await;
    place
}

/// What the table itself says when it is read.
async fn itself(snapshot: &Snapshot) -> Error {
    let partitions = match snapshot.scan("t", &Scan::default()).await {
        Ok(partitions) => partitions,
        Err(error) => return error,
    };
    for partition in partitions {
        if let Err(error) = (partition.open)().try_collect::<Vec<_>>().await {
            return error;
        }
    }
    panic!("the damage was not seen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_told_as_the_table_tells_it() {
    for data in [true, false] {
        let place = place().await;
        let reached = place.snapshot().await.reach("t").await.unwrap();
        let lost = reached.into_iter().rfind(|reached| reached.data == data).unwrap().object.path;
        place.lake.objects.delete(&Path::from(lost.as_str())).await.unwrap();
        let (snapshot, _) = place.cold().await;
        let wanted = itself(&snapshot).await;
        assert_eq!(wanted.kind(), ErrorKind::Corrupt, "{wanted}");
        // With a repartition, a join and a sort in between.
        for text in [
            "SELECT * FROM t",
            "SELECT n % 3, count(*) FROM t GROUP BY n % 3",
            "SELECT a.n FROM t AS a JOIN t AS b ON a.n = b.n + 1 ORDER BY a.n",
        ] {
            let (snapshot, _) = place.cold().await;
            let error = answer(&snapshot, text).await.unwrap_err();
            assert_eq!((error.kind(), error.retry()), (wanted.kind(), wanted.retry()), "{text}: {error}");
            assert_eq!(error.context("object"), wanted.context("object"), "{text}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_fails_on_its_rows_is_at_fault_itself() {
    let place = place().await;
    let snapshot = place.snapshot().await;
    for text in ["SELECT 1 / (n - n) FROM t", "SELECT CAST(CAST(n AS VARCHAR) || 'x' AS INT) FROM t"] {
        let error = answer(&snapshot, text).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}: {error:?}");
    }
}
