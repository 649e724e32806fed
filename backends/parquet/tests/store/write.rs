//! Large inputs: multipart uploads, bounded memory, and what failures leave behind.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::StreamExt;
use headwater_core::store::{Change, DataStore, Rows, Scan};
use headwater_core::{Error, ErrorKind};
use headwater_parquet::Settings;

use crate::counting::{Lands, outage};
use crate::fixture::{Fixture, all, batch, noise};

const PART: usize = 256 << 10;

fn small() -> Settings {
    Settings {
        buffer_bytes: 1 << 20,
        part_bytes: PART,
        parts_in_flight: 2,
        row_group_bytes: 2 << 20,
        file_bytes: 16 << 20,
        ..Settings::default()
    }
}

fn noise_schema() -> SchemaRef {
    Arc::new(Schema::new(["a", "b"].map(|name| Field::new(name, DataType::Int64, false)).to_vec()))
}

fn noise_batch(seed: u64) -> RecordBatch {
    let column = |offset| Arc::new(noise(seed * 2 + offset, 16_384)) as ArrayRef;
    RecordBatch::try_new(noise_schema(), vec![column(0), column(1)]).unwrap()
}

/// 256 KiB of values per batch that do not compress, made as they are asked for.
fn noise_rows(batches: u64, last: Option<Error>) -> Rows {
    let batches = futures::stream::iter(0..batches).map(|seed| Ok(noise_batch(seed)));
    Rows { schema: noise_schema(), batches: batches.chain(futures::stream::iter(last.map(Err))).boxed() }
}

#[tokio::test]
async fn a_large_input_streams_through_a_few_parts() {
    const BATCHES: u64 = 160;
    let fixture = Fixture::with(small());
    let staged = fixture.store.stage(fixture.table, None, Change::Create(noise_rows(BATCHES, None))).await.unwrap();
    let cost = fixture.objects.take();
    let sent = cost.total("PART", ".parquet");
    assert!(sent > BATCHES * (200 << 10), "the rows do not compress: {sent}");
    // Not more is under way than the settings allow, however much goes through.
    assert!(cost.peak_part_bytes <= 2 * PART as u64, "{} of {sent} bytes", cost.peak_part_bytes);
    let files = cost.count("COMPLETE", ".parquet");
    assert!(files >= 2);
    assert_eq!(cost.count("START", ".parquet"), files);
    let short = cost.requests.iter().filter(|request| request.verb == "PART" && request.bytes < PART as u64).count();
    assert!(cost.requests.iter().all(|request| request.verb != "PART" || request.bytes <= PART as u64));
    assert!(short <= files, "only the last part of a file may be short");
    assert_eq!(cost.count("PUT", ".version.json"), 1);
    assert_eq!(cost.requests.last().unwrap().verb, "PUT", "the version object comes after the data it names");

    let description = fixture.cold().describe(&staged.pin).await.unwrap();
    assert_eq!((description.rows, staged.changed), (BATCHES * 16_384, BATCHES * 16_384));
    // Files and row groups end anywhere; the rows must be those that came in, in order.
    let mut next = 0;
    let mut waiting: Vec<RecordBatch> = Vec::new();
    for partition in fixture.cold().scan(&staged.pin, &Scan::default()).await.unwrap() {
        let mut batches = (partition.open)();
        while let Some(batch) = batches.next().await {
            waiting.push(batch.unwrap());
            while waiting.iter().map(RecordBatch::num_rows).sum::<usize>() >= 16_384 {
                let joined = arrow_select::concat::concat_batches(&noise_schema(), &waiting).unwrap();
                assert_eq!(joined.slice(0, 16_384), noise_batch(next));
                waiting = vec![joined.slice(16_384, joined.num_rows() - 16_384)];
                next += 1;
            }
        }
    }
    assert_eq!(next, BATCHES);
}

#[tokio::test]
async fn the_batches_rows_come_in_do_not_change_the_content() {
    let whole = batch(0..30_000);
    let mut contents = Vec::new();
    for step in [30_000, 8192, 1000, 7] {
        let fixture = Fixture::new();
        let batches = (0..30_000).step_by(step).map(|start| whole.slice(start, step.min(30_000 - start))).collect();
        let staged = fixture.store.stage(fixture.table, None, Change::Create(Rows::new(whole.schema(), batches))).await.unwrap();
        contents.push(staged.content);
        assert_eq!(all(&fixture.store, &staged.pin).await, whole);
    }
    assert!(contents.iter().all(|content| *content == contents[0]), "{contents:?}");
    let fixture = Fixture::new();
    assert_ne!(fixture.create(batch(1..30_001)).await.content, contents[0]);
    let (a, b) = (fixture.create(batch(0..0)).await, fixture.create(batch(0..0).project(&[0, 1]).unwrap()).await);
    assert_ne!(a.content, b.content, "the schema counts");
}

#[tokio::test]
async fn a_failed_upload_is_aborted_and_the_error_passes() {
    for (rows, fail, kind) in [
        (noise_rows(20, Some(Error::invalid("row 7 is bad"))), "", ErrorKind::InvalidInput),
        (noise_rows(20, None), "PART", ErrorKind::Unavailable),
        (noise_rows(20, None), "COMPLETE", ErrorKind::Unavailable),
    ] {
        let fixture = Fixture::with(small());
        let base = fixture.create(noise_batch(0)).await;
        let mut left = 5;
        fixture.objects.fail(move |request| {
            left -= usize::from(request.verb == fail && left > 0);
            (request.verb == fail && (left == 0 || fail == "COMPLETE")).then(outage)
        });
        let error = fixture.store.stage(fixture.table, Some(&base.pin), Change::Append(rows)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let cost = fixture.objects.take();
        assert_eq!((cost.count("START", ""), cost.count("ABORT", "")), (1, 1), "{fail}");
        assert_eq!(cost.count("PUT", ".version.json"), 1, "only the base's");
        assert_eq!(all(&fixture.store, &base.pin).await, noise_batch(0));
    }
}

#[tokio::test]
async fn a_dropped_stage_aborts_its_upload() {
    let fixture = Fixture::with(small());
    let base = fixture.create(noise_batch(0)).await;
    let endless = noise_rows(20, None).batches.chain(futures::stream::pending()).boxed();
    let stage = fixture.store.stage(fixture.table, Some(&base.pin), Change::Append(Rows { schema: noise_schema(), batches: endless }));
    {
        let mut stage = std::pin::pin!(stage);
        for _ in 0..10_000 {
            assert!(futures::poll!(stage.as_mut()).is_pending());
            tokio::task::yield_now().await;
            if fixture.objects.state().count("PART", "") >= 4 {
                break;
            }
        }
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let cost = fixture.objects.take();
    assert_eq!((cost.count("START", ""), cost.count("ABORT", ""), cost.count("COMPLETE", "")), (1, 1, 0));
}

#[tokio::test]
async fn a_failed_put_fails_the_stage_and_a_lost_reply_does_not() {
    let fixture = Fixture::new();
    let base = fixture.create(batch(0..10)).await;
    for failing in [".parquet", ".version.json"] {
        fixture.objects.fail(move |request| (request.verb == "PUT" && request.path.ends_with(failing)).then(outage));
        let rows = crate::fixture::rows(batch(0..5));
        let error = fixture.store.stage(fixture.table, Some(&base.pin), Change::Append(rows)).await.unwrap_err();
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, headwater_core::Retry::Retry), "{error}");
        assert!(error.context("object").unwrap().ends_with(failing));
        fixture.objects.take();
    }
    // The object landed, the reply did not, and the client's own retry found it: told by reading it back.
    let exists = |request: &crate::counting::Request| {
        let version = request.verb == "PUT" && request.path.ends_with(".version.json");
        version.then(|| object_store::Error::AlreadyExists { path: request.path.clone(), source: "exists".into() })
    };
    fixture.objects.fail_and(Lands::Itself, exists);
    let staged = fixture.append(&base.pin, batch(10..15)).await;
    let cost = fixture.objects.take();
    assert_eq!((cost.count("PUT", ""), cost.count("GET", "")), (2, 1));
    assert_eq!(all(&fixture.cold(), &staged.pin).await, batch(0..15));
    // Refused while another attempt is under way, S3's 409: there is nothing, so it is sent again, but not for ever.
    for (refusals, puts) in [(1, 3), (3, 5), (usize::MAX, 5)] {
        let mut left = refusals;
        fixture.objects.fail(move |request| {
            let refused = exists(request).filter(|_| left > 0);
            left -= usize::from(refused.is_some());
            refused
        });
        let rows = crate::fixture::rows(batch(10..15));
        let staged = fixture.store.stage(fixture.table, Some(&base.pin), Change::Append(rows)).await;
        assert_eq!(fixture.objects.take().count("PUT", ""), puts, "{refusals}");
        match staged {
            Ok(staged) => assert_eq!(all(&fixture.cold(), &staged.pin).await, batch(0..15)),
            Err(error) => assert_eq!((error.kind(), refusals), (ErrorKind::Unavailable, usize::MAX), "{error}"),
        }
    }
    // What is there is not ours: the name was given twice.
    fixture.objects.fail_and(Lands::Another, exists);
    let rows = crate::fixture::rows(batch(10..15));
    let error = fixture.store.stage(fixture.table, Some(&base.pin), Change::Append(rows)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
}

#[tokio::test]
async fn settings_that_allow_no_progress_are_refused() {
    let fixture = Fixture::new();
    let cold = fixture.cold();
    let error = cold.with_settings(Settings { part_bytes: 0, ..Settings::default() }).unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidInput && error.to_string().contains("part_bytes"));
    assert!(serde_json::from_str::<Settings>("{\"part_bites\": 1}").is_err());
    assert_eq!(serde_json::from_str::<Settings>("{}").unwrap(), Settings::default());
}
