//! Every comparison with every type: the same rows as DataFusion's own table gives, pushed down or not.

use datafusion::common::ScalarValue;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{col, lit};
use headwater_core::Snapshot;
use headwater_core::views::viewed;
use headwater_sql::datafusion;

use super::fixture::Place;
use super::sample;

const OPERATORS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];

/// Whether the whole condition is the store's work, as the plan shows it.
async fn pushed(snapshot: &Snapshot, condition: &str) -> bool {
    let context = headwater_sql::context(snapshot);
    let plan = context.sql(&format!("SELECT id FROM t WHERE {condition}")).await.unwrap().create_physical_plan().await.unwrap();
    let shown = displayable(plan.as_ref()).indent(false).to_string();
    shown.contains("filter=") && !shown.contains("FilterExec")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comparisons() {
    let place = Place::new().await;
    let (schema, batches) = sample::batches(3, 40);
    place.table("t", &schema, &batches).await;
    let snapshot = place.snapshot().await;
    let (mut asked, mut found) = (0, 0);
    for (column, values) in sample::COLUMNS {
        for value in *values {
            for (i, op) in OPERATORS.into_iter().enumerate() {
                // A few forms of each comparison, so that each form meets each type.
                let condition = match i % 3 {
                    0 => format!("{column} {op} {value}"),
                    1 => format!("NOT ({value} {op} {column})"),
                    _ => format!("({column} {op} {value} OR {column} IS NULL) AND id > 3"),
                };
                found += place.same(&snapshot, &format!("SELECT id, {column} FROM t WHERE {condition}")).await;
                asked += 1;
            }
        }
    }
    assert!(asked > 250 && found > asked, "{found} rows for {asked} queries");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_forms() {
    let place = Place::new().await;
    let (schema, batches) = sample::batches(3, 40);
    place.table("t", &schema, &batches).await;
    let snapshot = place.snapshot().await;
    for (column, values) in sample::COLUMNS {
        let (low, high) = (values[0], values[1]);
        for condition in [
            format!("{column} IS NULL"),
            format!("{column} IS NOT NULL"),
            format!("{column} BETWEEN {low} AND {high}"),
            format!("{column} NOT BETWEEN {low} AND {high}"),
            format!("{column} IN ({low}, {high})"),
            format!("{column} NOT IN ({low}, {high})"),
            format!("{column} NOT IN ({low}, NULL)"),
            format!("{column} IS DISTINCT FROM {low}"),
            format!("{column} IS NOT DISTINCT FROM {high}"),
            format!("coalesce({column} = {low}, true) AND id < 50"),
            format!("({column} <> {low} AND id % 2 = 0) OR id = 1"),
            format!("NOT ({column} > {low} AND {column} < {high} OR id % 3 = 0)"),
        ] {
            place.same(&snapshot, &format!("SELECT id FROM t WHERE {condition}")).await;
        }
    }
    let many = |column: &str, not: &str| format!("{column} {not} IN ({})", (-5..60).map(|n| n.to_string()).collect::<Vec<_>>().join(", "));
    for column in ["id", "long", "tiny", "double", "price"] {
        for not in ["", "NOT"] {
            place.same(&snapshot, &format!("SELECT id FROM t WHERE {}", many(column, not))).await;
        }
    }
    for condition in [
        "flag",
        "NOT flag",
        "flag IS TRUE",
        "flag IS NOT FALSE",
        "flag IS UNKNOWN",
        "flag AND id > 7",
        "\"Text\" LIKE 'a%'",
        "\"Text\" || 'x' = 'ax'",
        "long + 1 = 2",
        "double = single",
        "double > long",
        "list[1] = 1",
        "list IS NULL",
        "id IN (1,2,3,4,5,6,7,8,9,10,11,12)",
        "double IN (1.5, 0.1, -1.5, 7.0, 8.0, 9.0)",
        "double NOT IN (0.0, 1.5, CAST('NaN' AS DOUBLE), 7.0, 8.0)",
        "id IN (SELECT long FROM t)",
        "EXISTS (SELECT 1 FROM t AS u WHERE u.long = t.id)",
        "(id < 50 AND long = (SELECT min(long) FROM t)) OR id = 7",
        "(id < 50 AND EXISTS (SELECT 1 FROM t AS u WHERE u.long = t.id)) OR id = 7",
        "(id < 50 AND long IN (SELECT id FROM t)) OR id = 7",
        "true",
        "false",
        "NULL",
        "1 = 1 OR id = 3",
    ] {
        place.same(&snapshot, &format!("SELECT id FROM t WHERE {condition}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_gets_what_it_can_do_exactly() {
    let place = Place::new().await;
    let (schema, batches) = sample::batches(2, 10);
    place.table("t", &schema, &batches).await;
    let snapshot = place.snapshot().await;
    for condition in [
        "id = 3",
        "3 < id",
        "small <> 1",
        "tiny > 7",
        "double < 1.5",
        "double NOT IN (1.5, 0.1)",
        "single = CAST(1.5 AS REAL)",
        "\"Text\" = 'a'",
        "'a' <= large",
        "bytes = X'00FF'",
        "flag",
        "NOT flag",
        "day >= DATE '2024-02-29'",
        "at < TIMESTAMP '2024-02-29 12:00:00'",
        "price = CAST(1.25 AS DECIMAL(10,2))",
        "list IS NULL",
        "kind IS NOT NULL",
        "id BETWEEN 3 AND 5 OR long IS NULL",
        "NOT (id > 3 AND long = 1)",
    ] {
        assert!(pushed(&snapshot, condition).await, "{condition}");
    }
    for condition in ["double = 0.0", "double < -0.0", "double > CAST('NaN' AS DOUBLE)", "id % 2 = 1", "long = id", "list[1] = 1"] {
        assert!(!pushed(&snapshot, condition).await, "{condition}");
    }
}
/// DataFusion may rewrite a condition after it was told that the scan sees to it, and then hand it over in another form.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_applies_every_condition_it_is_handed() {
    let place = Place::new().await;
    let (schema, batches) = sample::batches(3, 10);
    place.table("t", &schema, &batches).await;
    let snapshot = place.snapshot().await;
    let context = headwater_sql::context(&snapshot);
    let table = context.table_provider("t").await.unwrap();
    let unknown = || lit(ScalarValue::Boolean(None));
    let odd = || (col("id") % lit(2i64)).eq(lit(1i64));
    for (conditions, rows) in [
        (vec![], 30),
        (vec![col("id").gt_eq(lit(10i64))], 20),
        (vec![lit(10i64).lt(col("id"))], 19),
        (vec![lit(10i64).gt_eq(col("id")), lit(5i64).not_eq(col("id"))], 10),
        (vec![odd()], 15),
        (vec![col("id").gt_eq(lit(10i64)), odd()], 10),
        (vec![odd().and(col("id").lt(lit(10i64)))], 5),
        (vec![col("id").lt(lit(10i64)), unknown()], 0),
        (vec![col("id").lt(lit(10i64)).or(unknown())], 10),
        (vec![lit(false)], 0),
        (vec![lit(true)], 30),
    ] {
        for columns in [None, Some(vec![]), Some(vec![5]), Some(vec![4, 0])] {
            for limit in [None, Some(100)] {
                let plan = table.scan(&context.state(), columns.as_ref(), &conditions, limit).await.unwrap();
                let wanted = columns.as_ref().map_or(viewed(&schema), |columns| viewed(&schema.project(columns).unwrap()));
                assert_eq!(plan.schema().fields(), wanted.fields());
                let found = datafusion::physical_plan::collect(plan, context.task_ctx()).await.unwrap();
                assert!(found.iter().all(|batch| batch.schema().fields() == wanted.fields()));
                assert_eq!(found.iter().map(|batch| batch.num_rows()).sum::<usize>(), rows, "{conditions:?} {columns:?}");
            }
        }
    }
}
