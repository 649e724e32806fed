//! Damaged and missing objects: typed errors, never a panic, never wrong rows.

use headwater_core::json::sha256;
use headwater_core::store::{DataStore, Pin, Scan};
use headwater_core::{ErrorKind, Retry};
use headwater_parquet::Settings;
use serde_json::Value;

use crate::counting::outage;
use crate::fixture::{Fixture, batch, open, read};

async fn table(files: i64) -> (Fixture, Pin) {
    let fixture = Fixture::new();
    let mut pin = fixture.create(batch(0..10)).await.pin;
    for file in 1..files {
        pin = fixture.append(&pin, batch(file * 10..file * 10 + 10)).await.pin;
    }
    (fixture, pin)
}

fn pin_of(path: &str, bytes: &[u8]) -> Pin {
    Pin { path: path.into(), size: bytes.len() as u64, id: format!("sha256:{}", sha256(bytes)) }
}

#[tokio::test]
async fn a_version_object_that_is_not_what_the_pin_says_is_corrupt() {
    let (fixture, pin) = table(3).await;
    let good = fixture.objects.bytes(&pin.path).await.to_vec();
    let mut damaged: Vec<Vec<u8>> = Vec::new();
    for position in 0..good.len() {
        let mut bytes = good.clone();
        bytes[position] ^= 1 << (position % 8);
        damaged.push(bytes);
    }
    damaged.extend([vec![], good[..good.len() - 1].to_vec(), [good.as_slice(), b" "].concat()]);
    for bytes in damaged {
        fixture.objects.replace(&pin.path, bytes).await;
        let error = fixture.cold().describe(&pin).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.context("object") == Some(&pin.path) && error.to_string().contains("headwater verify"), "{error}");
    }
    fixture.objects.remove(&pin.path).await;
    let error = fixture.cold().describe(&pin).await.unwrap_err();
    assert_eq!((error.kind(), error.context("object")), (ErrorKind::Corrupt, Some(pin.path.as_str())));
    fixture.objects.replace(&pin.path, good).await;
    for wrong in [
        Pin { size: pin.size + 1, ..pin.clone() },
        Pin { id: format!("sha256:{}", "0".repeat(64)), ..pin.clone() },
        Pin { id: "etag:1".into(), ..pin.clone() },
        Pin { path: "../outside".into(), ..pin.clone() },
    ] {
        assert_eq!(fixture.cold().describe(&wrong).await.unwrap_err().kind(), ErrorKind::Corrupt, "{wrong:?}");
    }
    assert!(fixture.cold().describe(&pin).await.is_ok());
}

/// Every way to change one value of a JSON document, to remove it, or to have it twice.
fn mutations(document: &Value) -> Vec<(String, String)> {
    let mut out = Vec::new();
    walk(document, &mut String::new(), &mut |pointer, value| {
        let mut put = |what: &str, new: Value| {
            let mut changed = document.clone();
            *changed.pointer_mut(pointer).unwrap() = new;
            out.push((format!("{pointer} {what}"), changed.to_string()));
        };
        match value {
            Value::Number(number) => {
                put("one more", (number.as_u64().unwrap_or(0) + 1).into());
                put("zero", 0.into());
                put("negative", (-1).into());
                put("huge", u64::MAX.into());
                put("text", u64::MAX.to_string().into());
            }
            Value::String(text) => {
                put("longer", format!("{text}x").into());
                put("empty", "".into());
                put("outside", "../../etc/passwd".into());
            }
            Value::Bool(flag) => put("flipped", (!flag).into()),
            Value::Array(items) => {
                put("empty", Value::Array(vec![]));
                put("doubled", Value::Array(items.iter().chain(items).cloned().collect()));
                put("shorter", Value::Array(items.iter().skip(1).cloned().collect()));
                put("deep", serde_json::from_str(&format!("{}{}", "[".repeat(100), "]".repeat(100))).unwrap());
            }
            Value::Object(fields) => {
                for key in fields.keys() {
                    let mut without = fields.clone();
                    without.remove(key);
                    put(&format!("without {key}"), Value::Object(without));
                }
                let mut more = fields.clone();
                more.insert("more".into(), 1.into());
                put("with more", Value::Object(more));
            }
            Value::Null => {}
        }
        put("null", Value::Null);
    });
    // A doubled key is no JSON value: written by hand.
    if let Value::Object(fields) = document {
        let text = document.to_string();
        for (key, value) in fields {
            out.push((format!("{key} doubled"), format!("{{\"{key}\":{value},{}", &text[1..])));
        }
    }
    out
}

fn walk(value: &Value, pointer: &mut String, visit: &mut dyn FnMut(&str, &Value)) {
    visit(pointer, value);
    let length = pointer.len();
    let mut child = |key: String, value: &Value| {
        pointer.push('/');
        pointer.push_str(&key);
        walk(value, pointer, visit);
        pointer.truncate(length);
    };
    match value {
        Value::Array(items) => items.iter().enumerate().for_each(|(index, item)| child(index.to_string(), item)),
        Value::Object(fields) => fields.iter().for_each(|(key, item)| child(key.clone(), item)),
        _ => {}
    }
}

#[tokio::test]
async fn a_rewritten_version_object_is_an_error_or_the_right_rows() {
    // 34 files: one sealed list and two recent files.
    let (fixture, pin) = table(34).await;
    let document: Value = serde_json::from_slice(&fixture.objects.bytes(&pin.path).await).unwrap();
    let mut counts = [0, 0];
    for (what, text) in mutations(&document) {
        fixture.objects.replace(&pin.path, text.clone()).await;
        assert_eq!(fixture.cold().describe(&pin).await.unwrap_err().kind(), ErrorKind::Corrupt, "{what}");
        // As if the head named the changed object.
        let forged = pin_of(&pin.path, text.as_bytes());
        match read(&fixture.cold(), &forged, &Scan::default()).await {
            Ok(rows) => {
                counts[0] += 1;
                assert_eq!(rows.columns(), batch(0..340).columns(), "{what}");
            }
            Err(error) => {
                counts[1] += 1;
                let kind = error.kind();
                assert!(matches!(kind, ErrorKind::Corrupt | ErrorKind::FormatMismatch), "{what}: {error}");
            }
        }
        match fixture.cold().reach(std::slice::from_ref(&forged)).await {
            Ok(_) => {}
            Err(error) => assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::FormatMismatch), "{what}: {error}"),
        }
    }
    println!("{} mutations read as the right rows, {} are errors", counts[0], counts[1]);
    assert!(counts[1] > 200 && counts[0] > 0);
}

#[tokio::test]
async fn a_bound_that_cannot_be_read_is_an_error_where_it_is_needed() {
    let (fixture, pin) = table(2).await;
    let text = String::from_utf8(fixture.objects.bytes(&pin.path).await.to_vec()).unwrap();
    let changed = text.replacen("\"min\":\"0\"", "\"min\":\"zero\"", 1);
    assert_ne!(text, changed);
    fixture.objects.replace(&pin.path, changed.clone()).await;
    let forged = pin_of(&pin.path, changed.as_bytes());
    let filter = Some(crate::fixture::id(headwater_core::filter::Comparison::Equal, 3));
    let error = read(&fixture.cold(), &forged, &Scan { filter, ..Scan::default() }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(read(&fixture.cold(), &forged, &Scan::default()).await.unwrap(), batch(0..20));
}

#[tokio::test]
async fn a_data_file_that_is_missing_or_changed_is_corrupt() {
    // Read whole, and by ranges.
    for settings in [Settings::default(), Settings { whole_bytes: 0, footer_bytes: 512, ..Settings::default() }] {
        let fixture = Fixture::new();
        let pin = fixture.create(batch(0..2000)).await.pin;
        let reached = fixture.store.reach(std::slice::from_ref(&pin)).await.unwrap();
        let file = reached.iter().find(|reached| reached.data).unwrap().object.clone();
        let good = fixture.objects.bytes(&file.path).await.to_vec();
        assert!(good.len() > 2048);
        let store = || open(&fixture.objects, settings.clone());
        let sizes = [vec![], good[..10].to_vec(), good[..good.len() - 1].to_vec(), good[1..].to_vec(), [&good[..], b"PAR1"].concat()];
        for bytes in sizes {
            let size = bytes.len();
            fixture.objects.replace(&file.path, bytes).await;
            let error = read(&store(), &pin, &Scan::default()).await.unwrap_err();
            assert_eq!((error.kind(), error.context("object")), (ErrorKind::Corrupt, Some(file.path.as_str())), "{size}: {error}");
            assert!(error.to_string().contains("headwater verify"), "{error}");
        }
        fixture.objects.remove(&file.path).await;
        let error = read(&store(), &pin, &Scan::default()).await.unwrap_err();
        assert_eq!((error.kind(), error.context("object")), (ErrorKind::Corrupt, Some(file.path.as_str())), "{error}");

        // Same size, other bytes: found by the digest where the file is read whole, and never a panic.
        for position in (0..good.len()).step_by(if settings.whole_bytes == 0 { 7 } else { 501 }) {
            let mut bytes = good.clone();
            bytes[position] = bytes[position].wrapping_add(85);
            fixture.objects.replace(&file.path, bytes).await;
            match read(&store(), &pin, &Scan::default()).await {
                Ok(_) => assert_eq!(settings.whole_bytes, 0, "byte {position}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {position}: {error}"),
            }
        }
        fixture.objects.replace(&file.path, good).await;
        assert_eq!(read(&store(), &pin, &Scan::default()).await.unwrap(), batch(0..2000));
    }
}

#[tokio::test]
async fn a_file_of_another_table_is_not_read_as_rows() {
    let (fixture, pin) = table(1).await;
    let wrong = batch(0..10).project(&[1, 0]).unwrap();
    let other = fixture.create(wrong).await.pin;
    let take = |pin: Pin| {
        let objects = fixture.objects.clone();
        async move { serde_json::from_slice::<Value>(&objects.bytes(&pin.path).await).unwrap() }
    };
    let (mut ours, theirs) = (take(pin.clone()).await, take(other).await);
    for pointer in ["/recent", "/schema"] {
        let before = ours.clone();
        *ours.pointer_mut(pointer).unwrap() = theirs.pointer(pointer).unwrap().clone();
        *ours.pointer_mut("/total").unwrap() = theirs.pointer("/total").unwrap().clone();
        if pointer == "/schema" {
            *ours.pointer_mut("/total").unwrap() = before.pointer("/total").unwrap().clone();
        }
        let text = ours.to_string();
        fixture.objects.replace(&pin.path, text.clone()).await;
        let result = read(&fixture.cold(), &pin_of(&pin.path, text.as_bytes()), &Scan::default()).await;
        assert_eq!(result.map_err(|error| error.kind()).err(), Some(ErrorKind::Corrupt), "{pointer}");
        ours = before;
    }
}

#[tokio::test]
async fn an_outage_is_not_damage() {
    let (fixture, pin) = table(2).await;
    fixture.objects.fail(|_| Some(outage()));
    let error = fixture.cold().describe(&pin).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Retry));
    for settings in [Settings::default(), Settings { whole_bytes: 0, ..Settings::default() }] {
        fixture.objects.take();
        let partitions = open(&fixture.objects, settings).scan(&pin, &Scan::default()).await.unwrap();
        fixture.objects.fail(|_| Some(outage()));
        let error = futures::TryStreamExt::try_collect::<Vec<_>>((partitions[0].open)()).await.unwrap_err();
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Retry), "{error}");
    }
}
