//! What of a large row group a filter makes a scan read: pages that may match, and heavy columns only where a value was found.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, StringViewArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use futures::TryStreamExt;
use headwater_core::ErrorKind;
use headwater_core::filter::{Comparison, Filter};
use headwater_core::store::{DataStore, Scan};
use headwater_core::views::{convert, viewed, viewed_filter};
use headwater_parquet::Settings;

use crate::counting::keys;
use crate::fixture::{Fixture, compare, id, noise, read};

const ROWS: i64 = 100_000;

/// `id` ascends, `mixed` has each value once, in no order, `near` ascends but for nulls and NaN, `text` ascends and is longer than the bounds that
/// files keep, `heavy` is 104 bytes a row that do not compress.
fn table() -> RecordBatch {
    let fields = vec![
        Field::new("id", DataType::Int64, false),
        Field::new("mixed", DataType::Int64, false),
        Field::new("near", DataType::Float64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("heavy", DataType::Binary, false),
    ];
    let noise = noise(3, 13 * ROWS as usize);
    let heavy = noise.values().chunks(13).map(|row| row.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>());
    let near = (0..ROWS).map(|row| match row {
        row if row % 1_000 == 13 => None,
        40_000 => Some(f64::NAN),
        row => Some(row as f64 / 2.0),
    });
    let columns: Vec<ArrayRef> = vec![
        Arc::new((0..ROWS).collect::<Int64Array>()),
        Arc::new((0..ROWS).map(|row| row * 7_919 % ROWS).collect::<Int64Array>()),
        Arc::new(near.collect::<Float64Array>()),
        Arc::new((0..ROWS).map(|row| (row % 1_000 != 17).then(|| text(row))).collect::<StringArray>()),
        Arc::new(heavy.map(Some).collect::<BinaryArray>()),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn text(row: i64) -> String {
    format!("{:06}{}{row}", row / 10, "x".repeat(70))
}

#[tokio::test]
async fn filters_are_exact_over_pages_and_read_what_they_need() {
    use Comparison::*;
    let whole = table();
    let viewed = convert(&whole, &viewed(&whole.schema())).unwrap();
    let mixed = |op, value: i64| compare("mixed", op, Int64Array::from(vec![value]));
    let near = |op, value: f64| compare("near", op, Float64Array::from(vec![value]));
    let texts = |op, row: i64| compare("text", op, StringArray::from(vec![text(row)]));
    let and = |filters: &[Filter]| Filter::And(filters.to_vec());
    // What may be read at most of one row group, in thousandths of the file, and in how many requests: the end of the file, then columns or their
    // pages that lie near each other; those of a filter evaluated first before the others. A column's dictionary, here at most 1 MiB, comes
    // with its pages. At last the same for 7 rows.
    let cases = [
        ("pages", and(&[id(GreaterEqual, 50_000), id(Less, 50_010)]), 10, (400, 3), 400),
        ("two stretches", Filter::Or(vec![id(Less, 5), id(GreaterEqual, ROWS - 5)]), 10, (460, 3), 460),
        ("pages of two columns", and(&[id(Less, 30_000), id(GreaterEqual, 15_000), near(Equal, 14_999.0)]), 1, (350, 4), 350),
        ("pages by their texts", and(&[texts(GreaterEqual, 50_000), texts(LessEqual, 50_019)]), 19, (480, 3), 480),
        ("a value found in one page", and(&[mixed(Equal, 4_321)]), 1, (350, 4), 350),
        ("a value that is not there", and(&[mixed(Equal, 55), id(Less, 10)]), 0, (60, 2), 60),
        ("most rows", mixed(GreaterEqual, 1_000), ROWS as usize - 1_000, (1_010, 2), 350),
        ("nulls", Filter::IsNull("near".into()), 100, (1_010, 2), 350),
        ("a column with a NaN has no bounds", near(Greater, 49_990.0), 20, (1_010, 2), 380),
        ("beyond every bound", id(Greater, ROWS), 0, (0, 0), 0),
    ];
    // The last: parts that begin at a later row group, and groups of several pages.
    let small = Settings { row_group_rows: 45_000, split_bytes: 4 << 20, ..Settings::default() };
    for (groups, settings) in [(1, Settings::default()), (3, small)] {
        let fixture = Fixture::with(settings);
        let pin = fixture.create(whole.clone()).await.pin;
        let bytes = fixture.store.describe(&pin).await.unwrap().bytes;
        let ask = async |scan: Scan| {
            fixture.objects.take();
            let found = read(&fixture.store, &pin, &scan).await.unwrap();
            let cost = fixture.objects.take();
            (found, cost.total("GET", "") * 1_000 / bytes, cost)
        };
        for (what, filter, rows, (thousandths, requests), limited) in &cases {
            let (what, filter) = (format!("{what}, {groups} groups"), Some(filter.clone()));
            let passing = |whole: &RecordBatch, filter: &Filter| filter.apply(whole).unwrap();
            let expected = passing(&whole, filter.as_ref().unwrap());
            let (found, read, cost) = ask(Scan { filter: filter.clone(), ..Scan::default() }).await;
            println!("{what}: {} rows, {read} of 1,000 in {} requests", found.num_rows(), cost.requests.len());
            assert_eq!((found.num_rows(), &found), (*rows, &expected), "{what}");
            if groups == 1 {
                assert_eq!(cost.requests.len(), *requests, "{what}: {cost:?}");
                assert!(read <= *thousandths, "{what}: {read}");
            }
            let columns = Some(vec!["heavy".to_owned(), "id".to_owned()]);
            let (found, _, _) = ask(Scan { filter: filter.clone(), columns, ..Scan::default() }).await;
            assert_eq!(found, expected.project(&[4, 0]).unwrap(), "{what}");
            let (found, _, _) = ask(Scan { filter: filter.clone(), columns: Some(Vec::new()), ..Scan::default() }).await;
            assert_eq!(found.num_rows(), *rows, "{what}");
            let (found, as_views, _) = ask(Scan { filter: filter.clone(), views: true, ..Scan::default() }).await;
            let expected_views = passing(&viewed, &viewed_filter(filter.as_ref().unwrap()).unwrap());
            assert_eq!((found.num_rows(), as_views), (*rows, read), "{what}, as views");
            assert!(*requests == 0 || found == expected_views, "{what}, as views");
            for limit in [1, 7, 60_000] {
                let partitions =
                    fixture.store.scan(&pin, &Scan { filter: filter.clone(), limit: Some(limit), ..Scan::default() }).await.unwrap();
                fixture.objects.take();
                let mut found = Vec::new();
                // As a reader of a limit does: in order, and no further.
                for partition in &partitions {
                    if found.iter().map(RecordBatch::num_rows).sum::<usize>() < limit as usize {
                        found.extend((partition.open)().try_collect::<Vec<_>>().await.unwrap());
                    }
                }
                let (found, wanted) = (concat_batches(&whole.schema(), &found).unwrap(), (*rows).min(limit as usize));
                assert_eq!(found.slice(0, wanted), expected.slice(0, wanted), "{what}, {limit} of them");
                let read = fixture.objects.take().total("GET", "") * 1_000 / bytes;
                assert!(groups > 1 || limit > 7 || read <= *limited, "{what}, {limit} of them: {read}");
            }
        }
    }
}

/// The digest of a large file is not checked when it is read: what is damaged in its page index is found, or it is about other bounds.
#[tokio::test]
async fn a_damaged_page_index_is_damage_or_other_bounds() {
    let fixture = Fixture::with(Settings { whole_bytes: 0, ..Settings::default() });
    let whole = table().project(&[0, 3]).unwrap();
    let pin = fixture.create(whole).await.pin;
    let file = keys(&fixture.objects).await.into_iter().find(|key| key.ends_with(".parquet")).unwrap();
    let sound = fixture.objects.bytes(&file).await;
    let scan = Scan { filter: Some(id(Comparison::Less, 10)), ..Scan::default() };
    let (mut damaged, mut read_on) = (0, 0);
    for at in (1..4_000).step_by(13) {
        let mut bytes = sound.to_vec();
        let place = bytes.len() - at;
        bytes[place] ^= 0x55;
        fixture.objects.replace(&file, bytes).await;
        match read(&fixture.store, &pin, &scan).await {
            Ok(rows) => read_on += usize::from(rows.num_rows() <= 10),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{at} bytes before the end: {error}");
                damaged += 1;
            }
        }
    }
    println!("{damaged} times damage, {read_on} times read");
    assert!(damaged > 30 && read_on > 30 && damaged + read_on == (1..4_000).step_by(13).len(), "{damaged} and {read_on}");
}

/// Columns of many types that ascend, each with a page of nothing but nulls: what pages are left out by.
fn typed() -> RecordBatch {
    const NULLS: std::ops::Range<i64> = 20_000..41_000;
    let rows = || (0..64_000i64).map(|row| (!NULLS.contains(&row)).then_some(row));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("signed", Arc::new(rows().map(|row| row.map(|row| row as i32 - 32_000)).collect::<Int32Array>())),
        ("unsigned", Arc::new(rows().map(|row| row.map(|row| u64::MAX - 64_000 + row as u64)).collect::<UInt64Array>())),
        ("around_zero", Arc::new(rows().map(|row| row.map(|row| (row - 50_000) as f64 * 0.0)).collect::<Float64Array>())),
        ("small", Arc::new(rows().map(|row| row.map(|row| row as f32 - 50_000.5)).collect::<Float32Array>())),
        ("flag", Arc::new(rows().map(|row| row.map(|row| row >= 50_000)).collect::<BooleanArray>())),
        ("day", Arc::new(rows().map(|row| row.map(|row| row as i32)).collect::<Date32Array>())),
        ("instant", Arc::new(rows().collect::<TimestampMicrosecondArray>().with_timezone("+02:00"))),
        ("price", Arc::new(rows().map(|row| row.map(i128::from)).collect::<Decimal128Array>().with_precision_and_scale(20, 2).unwrap())),
        ("text", Arc::new(rows().map(|row| row.map(text)).collect::<StringViewArray>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

#[tokio::test]
async fn every_type_is_exact_over_pages() {
    use Comparison::*;
    let fixture = Fixture::with(Settings { whole_bytes: 0, footer_bytes: 8 << 10, ..Settings::default() });
    let whole = typed();
    let pin = fixture.create(whole.clone()).await.pin;
    for field in whole.schema().fields() {
        let (name, column) = (field.name(), &whole[field.name().as_str()]);
        let (mut first, mut most) = (0, 0);
        for at in [0, 19_999, 41_000, 63_999] {
            for op in [Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual] {
                let compared = Filter::Compare { column: name.clone(), op, value: column.slice(at, 1) };
                for filter in [compared.clone(), Filter::Not(Box::new(compared))] {
                    fixture.objects.take();
                    let scan = Scan { filter: Some(filter.clone()), columns: Some(vec![name.clone()]), ..Scan::default() };
                    let found = read(&fixture.store, &pin, &scan).await.unwrap();
                    let bytes = fixture.objects.take().total("GET", "");
                    let expected = filter.apply(&whole.project(&[whole.schema().index_of(name).unwrap()]).unwrap()).unwrap();
                    assert_eq!((found.num_rows(), &found), (expected.num_rows(), &expected), "{filter}");
                    most = most.max(bytes);
                    if at == 0 && matches!(&filter, Filter::Compare { op: Equal, .. }) {
                        first = bytes;
                    }
                }
            }
        }
        println!("{name}: {first} bytes for its first value, {most} for all");
        // What takes a few bytes is read with the end of the file, and one value everywhere leaves nothing out.
        assert!(first < most || ["around_zero", "flag"].contains(&name.as_str()), "{name}: no page was left out");
    }
}
