//! Lance tables, as a user has them.

use std::path::Path;

use serde_json::Value;

use super::{Place, keys};

/// The same lines with the other store: what a user sees differs where files are named.
#[test]
fn a_lake_of_lance_tables_takes_the_same_commands() {
    let place = Place::new();
    place.write("a.csv", "id,name\n1,x\n2,\n");
    place.write("b.csv", "id,name\n3,z\n");
    let dotted = &["load", "lake", "--store", "lance", "--table", "t=dotted.csv"];
    place.write("dotted.csv", "id,user.name\n1,x\n");
    place.run(dotted).fails(1, &["\"user.name\"", "rename"]);
    assert!(!place.path("lake").exists(), "what the store cannot keep leaves no catalog behind");
    place.run(&["load", "lake", "--store", "lance", "--table", "t=a.csv", "--table", "u=a.csv"]).ok();
    // The kind counts at creation only.
    place.run(&["load", "lake", "--store", "parquet", "--table", "t=b.csv"]).ok();
    place.run(&["load", "lake", "--table", "u=b.csv", "--mode", "overwrite"]).ok();
    place.run(&["table", "add-column", "lake", "t", "--column", "size double"]).ok();
    let rows = serde_json::json!([{"id": 1, "name": "x", "size": null}, {"id": 2, "name": null, "size": null}, {"id": 3, "name": "z", "size": null}]);
    assert_eq!(place.rows("t"), rows);
    assert_eq!(place.rows("u"), serde_json::json!([{"id": 3, "name": "z"}]));
    let read = |args: &[&str]| place.json(&[&["read", "lake", "t"], args].concat())["rows"].clone();
    assert_eq!(read(&["--at", "1", "--columns", "name"]), serde_json::json!([{"name": "x"}, {"name": null}]));

    let (one, two) = (place.json(&["files", "lake", "t", "--at", "1"]), place.json(&["files", "lake", "t"]));
    let text = |document: &Value, key: &str| document["dataset"][key].as_str().unwrap().to_owned();
    assert_eq!((keys(&one), keys(&one["dataset"])), (vec!["dataset"], vec!["format", "url", "version"]));
    assert!(text(&one, "url") == text(&two, "url") && text(&one, "version") != text(&two, "version"), "{one} {two}");
    let manifest = Path::new(&text(&one, "url")).join(format!("_versions/d{}.manifest", text(&one, "version")));
    assert!(manifest.is_absolute() && manifest.is_file(), "{}", manifest.display());
    assert_eq!(place.run(&["files", "lake", "t"]).ok().out, format!("{} {}\n", text(&two, "url"), text(&two, "version")));

    let verified = place.json(&["verify", "lake", "--data"]);
    assert_eq!((&verified["ok"], &verified["reclaimable"]["objects"]), (&Value::Bool(true), &Value::from(0)), "{verified}");
    std::fs::write(&manifest, "torn").unwrap();
    let verified = place.run(&["verify", "lake", "--json"]);
    assert!(verified.code == 1 && verified.out.contains(&text(&one, "version")), "{}", verified.out);
}

#[test]
fn an_index_is_a_commit_that_changes_no_row() {
    let place = Place::new();
    place.write("t.csv", "id,name\n1,x\n2,\n3,z\n");
    place.write("more.csv", "id,name\n2,y\n4,w\n");
    let created = ["table", "create", "lake", "t", "--column", "id bigint not null", "--column", "name varchar", "--key", "id"];
    place.run(&[&["load", "lake", "--store", "lance", "--table", "other=t.csv"][..]].concat()).ok();
    place.run(&created).ok();
    place.run(&["load", "lake", "--table", "t=t.csv"]).ok();
    let before = place.rows("t");
    assert!(place.run(&["table", "index", "lake", "t", "id"]).ok().out.contains("seq 4"));
    assert!(place.run(&["table", "index", "lake", "t", "id"]).ok().out.contains("nothing to do"));
    assert_eq!(place.rows("t"), before);
    assert_eq!(place.json(&["log", "lake", "--limit", "1"])["commits"][0]["kind"], "index");
    place.run(&["load", "lake", "--mode", "upsert", "--table", "t=more.csv"]).ok();
    let after = serde_json::json!([{"id": 1, "name": "x"}, {"id": 3, "name": "z"}, {"id": 2, "name": "y"}, {"id": 4, "name": "w"}]);
    assert_eq!(place.rows("t"), after);
    place.run(&["optimize", "lake", "t"]).ok();
    assert_eq!(place.rows("t"), after);
    place.run(&["table", "index", "lake", "t", "no"]).fails(1, &["\"no\"", "id, name"]);
    place.run(&["table", "index", "lake", "nothing", "id"]).fails(1, &["nothing"]);
    let verified = place.json(&["verify", "lake", "--data"]);
    assert_eq!((&verified["ok"], &verified["reclaimable"]["objects"]), (&Value::Bool(true), &Value::from(0)), "{verified}");
}

/// The chain that other Lance clients follow: never more than derived from what is committed.
#[test]
fn a_mirrored_table_is_followed_by_its_number() {
    let place = Place::new();
    place.write("t.csv", "id\n1\n");
    place.run(&["load", "lake", "--lineage", "mirrored", "--table", "t=t.csv"]).fails(1, &["parquet", "mirrored", "table t"]);
    assert!(!place.path("lake").exists(), "no catalog is left behind");
    let mirrored = &["load", "lake", "--store", "lance", "--lineage", "mirrored", "--table", "t=t.csv"];
    place.run(mirrored).ok();
    place.run(mirrored).ok();
    assert_eq!(place.json(&["table", "show", "lake", "t"])["lineage"], "mirrored");
    let before = place.state();
    let other = &["load", "lake", "--lineage", "detached", "--table", "t=t.csv"];
    place.run(other).fails(1, &["mirrored", "--lineage", "table t"]);
    assert_eq!(place.state(), before);

    // Where somebody else wrote the next version, the commit stands and says what is behind.
    let files = place.json(&["files", "lake", "t"]);
    let version = |seq: u64| Path::new(files["dataset"]["url"].as_str().unwrap()).join(format!("_versions/{}.manifest", u64::MAX - seq));
    assert!(version(1).is_file() && version(2).is_file() && !version(3).exists());
    std::fs::write(version(3), "another program's").unwrap();
    let behind = place.json(&["load", "lake", "--table", "t=t.csv"]);
    assert_eq!((&behind["seq"], &behind["behind"]), (&Value::from(3), &serde_json::json!(["t"])));
    assert_eq!(place.rows("t").as_array().unwrap().len(), 3);
    // A later version goes past it.
    place.run(&["optimize", "lake", "t"]).ok();
    assert!(version(4).is_file());
    std::fs::remove_file(version(4)).unwrap();
    assert_eq!(place.json(&["optimize", "lake", "t"])["tables"][0]["seq"], Value::Null);
    assert!(version(4).is_file(), "what is laid out well already is brought up all the same");
    std::fs::write(version(4), "another program's").unwrap();
    place.run(&["optimize", "lake", "t"]).fails(1, &["version 4", "another program", "table t"]);
    let verified = place.json(&["verify", "lake", "--data"]);
    assert_eq!((&verified["ok"], &verified["reclaimable"]["objects"]), (&Value::Bool(true), &Value::from(0)), "{verified}");
}
