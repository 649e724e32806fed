//! `optimize`, as a user runs it.

use serde_json::json;

use super::Place;

#[test]
fn many_small_files_become_one_and_the_rows_stay() {
    let place = Place::new();
    for n in 0..5 {
        place.write("t.csv", format!("n\n{n}\n"));
        place.run(&["load", "lake", "--table", "t=t.csv", "--table", "u=t.csv"]).ok();
    }
    let before = (place.rows("t"), place.rows("u"));
    let optimized = place.json(&["optimize", "lake", "t"]);
    assert_eq!(optimized, json!({"tables": [{"key": "t", "files_before": 5, "files": 1, "seq": 6}]}));
    let all = place.json(&["optimize", "lake"]);
    let wanted = json!([
        {"key": "t", "files_before": 1, "files": 1, "seq": null},
        {"key": "u", "files_before": 5, "files": 1, "seq": 7},
    ]);
    assert_eq!(all["tables"], wanted);
    assert_eq!((place.rows("t"), place.rows("u")), before);
    assert_eq!(place.json(&["log", "lake", "--limit", "1"])["commits"][0]["kind"], "optimize");
    assert_eq!(place.json(&["verify", "lake", "--data"])["ok"], json!(true));
    place.run(&["table", "index", "lake", "t", "n"]).fails(1, &["parquet", "index"]);
    place.run(&["optimize", "lake", "nothing"]).fails(1, &["nothing"]);
    assert!(place.run(&["optimize", "lake"]).ok().out.contains("as before"));
}
