//! `changes` and `diff`, as a user runs them.

use serde_json::{Value, json};

use super::{Place, Run, keys};

/// A keyed table `t`, changed by key once, and a table `s`, written again as it was, then renamed to `r`.
fn place() -> Place {
    let place = Place::new();
    place.write("t.csv", "id,name\n1,a\n2,b\n3,c\n");
    place.write("u.csv", "id,name\n2,B\n4,d\n");
    place.run(&["load", "lake", "--table", "t=t.csv", "--table", "s=t.csv", "--key", "id"]).ok();
    place.run(&["load", "lake", "--table", "t=u.csv", "--mode", "upsert"]).ok();
    place.run(&["load", "lake", "--table", "s=t.csv", "--mode", "overwrite"]).ok();
    place.run(&["table", "rename", "lake", "s", "r"]).ok();
    place
}

fn cursor(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("cursor ")).unwrap_or_else(|| panic!("no cursor: {text}"))
}

#[test]
fn rows_come_with_what_happened_to_them() {
    let place = place();
    let changes = place.json(&["changes", "lake", "t", "--since", "1"]);
    assert_eq!(keys(&changes), ["branch", "commit", "cursor", "happened", "rows", "seq", "since", "table"]);
    let rows = json!([
        {"_change": "updated_from", "id": 2, "name": "b"},
        {"_change": "updated_to", "id": 2, "name": "B"},
        {"_change": "added", "id": 4, "name": "d"},
    ]);
    assert_eq!((&changes["rows"], &changes["since"], &changes["seq"]), (&rows, &json!(1), &json!(4)));
    assert_eq!(place.json(&["changes", "lake", "t", "--since", "1", "--until", "1"])["rows"], json!([]));
    assert_eq!(place.json(&["changes", "lake", "s", "--since", "1"])["rows"], json!([]), "the same rows in another file");

    // A table for people, with the cursor below; programs get it beside the rows.
    let shown = place.run(&["changes", "lake", "t", "--since", "1"]).ok().out;
    assert!(shown.contains("updated_to     2  B\nadded          4  d\n3 rows\n"), "{shown}");
    assert_eq!(cursor(&shown), changes["cursor"].as_str().unwrap());
    let csv = place.run(&["changes", "lake", "t", "--since", "1", "--format", "csv"]);
    assert_eq!((csv.code, csv.out.as_str()), (0, "_change,id,name\nupdated_from,2,b\nupdated_to,2,B\nadded,4,d\n"));
    assert_eq!(cursor(&csv.err), cursor(&shown));
    let beside = place.run(&["changes", "lake", "t", "--since", "1", "-o", "t.parquet"]).ok().out;
    assert_eq!(cursor(&beside), cursor(&shown));
    assert_eq!(place.json(&["changes", "lake", "t", "--since", "1", "-o", "t.jsonl"])["cursor"], changes["cursor"]);
    assert_eq!(std::fs::read_to_string(place.path("t.jsonl")).unwrap().lines().count(), 3);
    place.run(&["load", "other", "--table", "c=t.parquet"]).ok();
    assert_eq!(place.json(&["read", "other", "c"])["rows"], rows);
}

#[test]
fn a_cursor_goes_on_where_the_last_call_ended() {
    let place = place();
    let first = place.run(&["changes", "lake", "t", "--since", "0", "--until", "2"]).ok().out;
    let second = place.json(&["changes", "lake", "t", "--since", cursor(&first)]);
    assert_eq!((&second["since"], &second["rows"]), (&json!(2), &json!([])));
    place.write("more.csv", "id,name\n9,i\n");
    place.load(&["t=more.csv"]).ok();
    let third = place.json(&["changes", "lake", "t", "--since", second["cursor"].as_str().unwrap()]);
    assert_eq!(third["rows"], json!([{"_change": "added", "id": 9, "name": "i"}]));
    // The text holds in another process as long as the catalog does, and in no other catalog.
    place.run(&["load", "other", "--table", "t=t.csv"]).ok();
    place.run(&["changes", "other", "t", "--since", cursor(&first)]).fails(1, &["catalog", "ask the catalog it was taken from"]);
}

#[test]
fn a_diff_tells_each_table() {
    let place = place();
    place.run(&["optimize", "lake"]).ok();
    place.run(&["table", "add-column", "lake", "r", "--column", "size double"]).ok();
    place.load(&["n=t.csv"]).ok();
    let diff = place.json(&["diff", "lake", "--from", "1"]);
    assert_eq!(keys(&diff), ["branch", "cursor", "from", "tables", "to"]);
    let fields = ["added", "deleted", "happened", "key", "renamed_from", "table_id", "updated"];
    assert!(diff["tables"].as_array().unwrap().iter().all(|table| keys(table) == fields), "{diff}");
    let told = |from: &str, to: &str| {
        let row = |table: &Value| {
            let counts = ["added", "updated", "deleted"].map(|count| table[count].as_u64().unwrap());
            format!("{} {counts:?} {}", table["key"].as_str().unwrap(), table["happened"])
        };
        let tables = place.json(&["diff", "lake", "--from", from, "--to", to])["tables"].clone();
        tables.as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    assert_eq!(told("1", "2"), [r#"t [1, 1, 0] ["rows"]"#]);
    assert_eq!(told("2", "3"), [r#"s [0, 0, 0] ["rewritten"]"#]);
    assert_eq!(told("4", "5"), [r#"t [0, 0, 0] ["rewritten"]"#]);
    assert_eq!(told("2", "7"), [r#"n [3, 0, 0] ["created"]"#, r#"r [0, 0, 0] ["renamed","columns"]"#, r#"t [0, 0, 0] ["rewritten"]"#,]);
    let shown = place.run(&["diff", "lake", "--from", "3", "--to", "4"]).ok().out;
    assert!(shown.contains("seq 3 to 4") && shown.contains("renamed from s"), "{shown}");
    assert!(place.run(&["diff", "lake", "--from", "7"]).ok().out.contains("no changes"));
    place.run(&["table", "drop", "lake", "n"]).ok();
    place.run(&["table", "recreate", "lake", "n"]).ok();
    assert_eq!(told("7", "8"), [r#"n [0, 0, 3] ["dropped"]"#]);
    assert_eq!(told("7", "9"), [r#"n [0, 0, 3] ["recreated"]"#]);
    assert_eq!(place.json(&["changes", "lake", "n", "--since", "7"])["rows"][0]["_change"], "deleted");
}

#[test]
fn a_column_of_that_name_stays_readable() {
    let place = Place::new();
    place.write("t.csv", "_change\nx\n");
    place.load(&["t=t.csv"]).ok();
    let changes = place.json(&["changes", "lake", "t", "--since", "0"]);
    assert_eq!(changes["rows"], json!([{"__change": "added", "_change": "x"}]));
}

#[test]
fn what_is_not_there_is_said_with_what_is() {
    let place = place();
    let run = |args: &[&str]| -> Run { place.run(args) };
    run(&["changes", "lake", "x", "--since", "1"]).fails(1, &["\"x\"", "r, t"]);
    run(&["changes", "lake", "t", "--since", "99"]).fails(1, &["4 commits", "99"]);
    run(&["changes", "lake", "t", "--since", "1", "--until", "99"]).fails(1, &["4 commits", "99"]);
    run(&["changes", "lake", "t", "--since", "3", "--until", "2"]).fails(1, &["exchange"]);
    run(&["changes", "lake", "t", "--since", "hw1:x"]).fails(1, &["not a cursor"]);
    run(&["changes", "lake", "t", "--since", "yesterday"]).fails(1, &["yesterday", "cursor"]);
    run(&["changes", "nowhere", "t", "--since", "1"]).fails(1, &["no catalog"]);
    run(&["diff", "lake", "--from", "99"]).fails(1, &["4 commits"]);
    run(&["changes", "lake", "t"]).fails(2, &["--since"]);
    run(&["diff", "lake"]).fails(2, &["--from"]);
}
