//! Data files too large to be held until they are named, and stages of several files.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{BinaryArray, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use headwater_conformance::rows::{collect, texts};
use headwater_conformance::tap::{Fault, Tap, TapObjects, render};
use headwater_core::ErrorKind;
use headwater_core::filter::{Comparison, Filter};
use headwater_core::ids::{Incarnation, Mint, SystemEnvironment, TableId};
use headwater_core::json::sha256;
use headwater_core::store::{Change, DataStore, Pin, Reached, Rows, Scan, TableRef};
use headwater_lance::LanceStore;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path;

/// Larger than what Lance sends in one request.
const MIB: usize = 12;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false), Field::new("bytes", DataType::Binary, true)]))
}

/// Rows of 64 KiB that no encoding makes smaller.
fn noise(seed: u64, rows: usize) -> Rows {
    let mut state = seed;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let values: Vec<Vec<u8>> = (0..rows).map(|_| (0..1 << 16).map(|_| byte()).collect()).collect();
    let columns: Vec<arrow_array::ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..rows as i64)),
        Arc::new(BinaryArray::from_iter_values(values.iter().map(Vec::as_slice))),
    ];
    Rows::new(schema(), vec![RecordBatch::try_new(schema(), columns).unwrap()])
}

fn mint() -> Mint {
    Mint::new(Arc::new(SystemEnvironment))
}

fn table() -> TableRef {
    TableRef { id: TableId(mint().ulid()), incarnation: Incarnation(mint().ulid()) }
}

fn open(objects: &Arc<InMemory>) -> (LanceStore, Arc<Tap>) {
    let tap = Tap::new();
    (LanceStore::new(Arc::new(TapObjects::new(objects.clone(), tap.clone())), &mint()).unwrap(), tap)
}

async fn read(store: &LanceStore, pin: &Pin) -> headwater_core::Result<Vec<String>> {
    Ok(texts(&collect(&store.scan(pin, &Scan::default()).await?).await?))
}

async fn bytes(objects: &InMemory, reached: &Reached) -> Vec<u8> {
    objects.get(&Path::from(reached.object.path.as_str())).await.unwrap().bytes().await.unwrap().to_vec()
}

/// Data files of a version and whether their recorded digests are those of their bytes.
async fn digests(store: &LanceStore, objects: &InMemory, pin: &Pin) -> Vec<Reached> {
    let reached = store.reach(std::slice::from_ref(pin)).await.unwrap();
    for one in &reached {
        let bytes = bytes(objects, one).await;
        assert_eq!((one.digest.clone(), one.object.size), (Some(sha256(&bytes)), bytes.len() as u64), "{}", one.object.path);
    }
    reached.into_iter().filter(|reached| reached.data).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_file_goes_out_in_parts_and_its_digest_is_kept() {
    let (objects, table) = (Arc::new(InMemory::new()), table());
    let (store, tap) = open(&objects);
    let staged = store.stage(table, None, Change::Create(noise(1, MIB * 16))).await.unwrap();
    let requests = tap.requests();
    let count = |verb| requests.iter().filter(|request| request.verb == verb).count();
    assert_eq!(count("PUT"), 1, "the manifest:\n{}", render(&requests));
    assert!(requests.iter().all(|request| request.verb.starts_with("PUT")) && requests.len() >= 5, "{}", render(&requests));
    let large = digests(&store, &objects, &staged.pin).await;
    assert!(large.len() == 1 && large[0].object.size > (MIB as u64) << 20, "{large:?}");

    let twin = store.stage(table, Some(&staged.pin), Change::Append(noise(4, MIB * 16))).await.unwrap();
    let other = store.stage(table, Some(&staged.pin), Change::Append(noise(5, 2))).await.unwrap();
    let rebased = store.rebase(table, &twin, &other.pin).await.unwrap().unwrap();
    assert_eq!(digests(&store, &objects, &rebased.pin).await.len(), 3, "a rebase hands the digests on");

    // The digest is kept while the file is part of a version, and no longer.
    let appended = store.stage(table, Some(&staged.pin), Change::Append(noise(2, 1))).await.unwrap();
    let files = digests(&open(&objects).0, &objects, &appended.pin).await;
    assert!(files.len() == 2 && files.contains(&large[0]));
    let other = store.stage(table, Some(&appended.pin), Change::Overwrite(noise(3, 1))).await.unwrap();
    assert!(other.pin.size < appended.pin.size, "a version does not keep digests of files it does not have");

    assert_eq!(read(&open(&objects).0, &appended.pin).await.unwrap().len(), MIB * 16 + 1);
    // A column alone costs a fraction of the file.
    let (cold, tap) = open(&objects);
    let numbers = Scan { columns: Some(vec!["n".to_owned()]), ..Scan::default() };
    let batches = collect(&cold.scan(&staged.pin, &numbers).await.unwrap()).await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), MIB * 16);
    let received: usize = tap.requests().iter().map(|request| request.received).sum();
    assert!(received > 0 && received < 1 << 20, "{}", render(&tap.requests()));

    let path = Path::from(large[0].object.path.as_str());
    let whole = bytes(&objects, &large[0]).await;
    for damaged in [whole[..whole.len() - 1].to_vec(), [&whole[..], b" "].concat(), vec![0; whole.len()], Vec::new()] {
        objects.put(&path, damaged.into()).await.unwrap();
        let error = read(&open(&objects).0, &staged.pin).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(path.as_ref()), "{error:?}");
    }
    objects.delete(&path).await.unwrap();
    let error = read(&open(&objects).0, &staged.pin).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("missing"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_stage_that_dies_anywhere_is_told_and_leaves_its_base() {
    let (objects, table) = (Arc::new(InMemory::new()), table());
    let base = open(&objects).0.stage(table, None, Change::Create(noise(1, 3))).await.unwrap();
    let before = read(&open(&objects).0, &base.pin).await.unwrap();
    let mut died = 0;
    for k in 0.. {
        let (store, tap) = open(&objects);
        tap.plan(Fault::Before(k));
        let staged = store.stage(table, Some(&base.pin), Change::Append(noise(2, MIB * 16))).await;
        if !tap.fired() {
            assert_eq!(staged.unwrap().rows, 3 + MIB as u64 * 16);
            break;
        }
        let error = staged.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "at request {k}: {error:?}");
        assert!(error.to_string().contains("data/"), "the error names no object: {error}");
        assert_eq!(read(&open(&objects).0, &base.pin).await.unwrap(), before);
        died += 1;
    }
    assert!(died >= 6, "{died}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_of_several_files_reads_back_in_order() {
    let objects = Arc::new(InMemory::new());
    let (store, tap) = open(&objects);
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let batches = (0..22i64).map(|i| {
        let column = Int64Array::from_iter_values(i * 100_000..(i + 1) * 100_000);
        RecordBatch::try_new(schema.clone(), vec![Arc::new(column)]).unwrap()
    });
    let staged = store.stage(table(), None, Change::Create(Rows::new(schema.clone(), batches.collect()))).await.unwrap();
    let files = digests(&store, &objects, &staged.pin).await.len();
    assert!(files == 3 && tap.requests().iter().filter(|request| request.verb == "PUT").count() == 4, "{files} files");
    let partitions = open(&objects).0.scan(&staged.pin, &Scan::default()).await.unwrap();
    assert_eq!(partitions.iter().filter_map(|partition| partition.rows).collect::<Vec<_>>(), [1 << 20, 1 << 20, 2_200_000 - (2 << 20)]);
    let mut next = 0;
    for batch in collect(&partitions).await.unwrap() {
        let column: &Int64Array = batch.column(0).as_any().downcast_ref().unwrap();
        assert!(column.values().iter().copied().eq(next..next + batch.num_rows() as i64));
        next += batch.num_rows() as i64;
    }
    assert_eq!(next, 2_200_000);
}

/// What is large and whole stays; what is small, or lacks many rows, is written anew where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fragments_written_anew_keep_their_place() {
    let (objects, table) = (Arc::new(InMemory::new()), table());
    let (store, tap) = open(&objects);
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let numbers = |range: std::ops::Range<i64>| {
        let column = Int64Array::from_iter_values(range);
        Rows::new(schema.clone(), vec![RecordBatch::try_new(schema.clone(), vec![Arc::new(column)]).unwrap()])
    };
    const LARGE: i64 = 400_000;
    let starts = [0, LARGE, LARGE + 10, LARGE + 20, 2 * LARGE + 20, 2 * LARGE + 30];
    let mut pin = store.stage(table, None, Change::Create(numbers(0..LARGE))).await.unwrap().pin;
    for two in starts[1..].windows(2) {
        pin = store.stage(table, Some(&pin), Change::Append(numbers(two[0]..two[1]))).await.unwrap().pin;
    }
    let compare = |op, n: i64| Filter::Compare { column: "n".to_owned(), op, value: Arc::new(Int64Array::from(vec![n])) };
    let few = Filter::And(vec![compare(Comparison::GreaterEqual, 7), compare(Comparison::Less, 12)]);
    pin = store.stage(table, Some(&pin), Change::Delete(few)).await.unwrap().pin;
    let many = Filter::And(vec![compare(Comparison::GreaterEqual, LARGE + 20), compare(Comparison::Less, LARGE + 40_020)]);
    pin = store.stage(table, Some(&pin), Change::Delete(many)).await.unwrap().pin;
    let rows = |store: LanceStore, pin: Pin| async move {
        let partitions = store.scan(&pin, &Scan::default()).await.unwrap();
        let counts: Vec<_> = partitions.iter().filter_map(|partition| partition.rows).collect();
        let batches = collect(&partitions).await.unwrap();
        let numbers: Vec<i64> = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
        (counts, numbers)
    };
    let expected: Vec<i64> = (0..7).chain(12..LARGE + 20).chain(LARGE + 40_020..2 * LARGE + 30).collect();
    let large = LARGE as u64;
    assert_eq!(rows(open(&objects).0, pin.clone()).await, (vec![large - 5, 10, 10, large - 40_000, 10], expected.clone()));
    tap.clear();
    let optimized = store.stage(table, Some(&pin), Change::Rewrite).await.unwrap();
    let requests = tap.requests();
    assert_eq!(requests.iter().filter(|request| request.verb == "PUT").count(), 3, "{}", render(&requests));
    assert_eq!(rows(open(&objects).0, optimized.pin.clone()).await, (vec![large - 5, 20, large - 40_000, 10], expected));
    assert_eq!(store.stage(table, Some(&optimized.pin), Change::Rewrite).await.unwrap().pin, optimized.pin);
}
