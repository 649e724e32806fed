//! The main job on a real S3 server, by the real command: two real files as one commit, and a bad one that leaves nothing behind.
#![cfg(all(feature = "cli", feature = "local", feature = "parquet", feature = "s3"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod loading;

use std::collections::BTreeSet;
use std::path::Path;

use loading::{Place, document};
use serde_json::Value;

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data").join(name).display().to_string()
}

#[tokio::test]
async fn two_real_files_are_one_commit_in_a_bucket() {
    let place = Place::bucket();
    let tables = [("penguins", 344, 8), ("airports", 3_376, 7)];
    let mut load = place.command("load");
    load.args(["--null", "NA"]);
    for (table, ..) in tables {
        load.arg("--table").arg(format!("{table}={}", example(&format!("{table}.csv"))));
    }
    assert_eq!(document(&load.output().unwrap())["seq"], 1);
    let heads = document(&place.command("heads").output().unwrap());
    let heads = heads["tables"].as_array().unwrap();
    let commits: BTreeSet<&str> = heads.iter().map(|head| head["commit"].as_str().unwrap()).collect();
    assert_eq!((heads.len(), commits.len()), (2, 1));
    for (table, rows, columns) in tables {
        let output = place.command("read").arg(table).output().unwrap();
        let read: Value = document(&output);
        let read = read["rows"].as_array().unwrap();
        assert_eq!(read.len(), rows, "{table}");
        let text = std::fs::read_to_string(example(&format!("{table}.csv"))).unwrap();
        assert_eq!((text.lines().count() - 1, text.lines().next().unwrap().split(',').count()), (rows, columns), "{table}");
        // The last line's values, as the file has them.
        let last = text.lines().last().unwrap();
        let values = read[rows - 1].as_object().unwrap().values();
        let values: Vec<String> = values.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
        for value in values.iter().filter(|value| *value != "null") {
            assert!(last.contains(value.as_str()), "{table}: {value} is not in {last}");
        }
    }
    place.verify();
}

#[tokio::test]
async fn one_bad_file_among_three_leaves_nothing_in_a_bucket() {
    let place = Place::bucket();
    let (good, bad) = (place.file("good.csv", [(1, 1)]), place.file("bad.csv", [(1, 1)]));
    std::fs::write(&bad, "writer,number\n1,2\n3\n").unwrap();
    let missing = good.with_file_name("missing.csv");
    for wrong in [&bad, &missing] {
        let failed = place.load(&[("a", &good), ("b", wrong), ("c", &good)]).output().unwrap();
        let error = serde_json::from_slice::<Value>(&failed.stderr).unwrap()["error"].take();
        assert_eq!(
            (failed.status.code(), &error["kind"]),
            (Some(1), &Value::from(if wrong == &bad { "InvalidInput" } else { "NotFound" })),
            "{error}"
        );
        let name = wrong.file_name().unwrap().to_str().unwrap();
        assert!(error["message"].as_str().unwrap().contains(name), "{error}");
        assert_eq!(place.keys().await, [""; 0], "not even a catalog");
    }
    document(&place.load(&[("a", &good)]).output().unwrap());
    let before = place.look().await;
    let unfit = place.file("unfit.csv", []);
    std::fs::write(&unfit, "writer,number\nsomebody,1\n").unwrap();
    for wrong in [&bad, &unfit] {
        let failed = place.load(&[("a", wrong), ("b", &good)]).output().unwrap();
        assert_eq!(failed.status.code(), Some(1));
        assert_eq!(place.look().await, before, "{}", wrong.display());
    }
    assert_eq!(place.seqs(), [1]);
    place.verify();
}
