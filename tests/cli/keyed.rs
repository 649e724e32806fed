//! Tables with a key, as a user makes and changes them.

use serde_json::json;

use super::Place;

fn place() -> Place {
    let place = Place::new();
    place.write("t.csv", "id,name\n1,a\n2,b\n3,c\n");
    place.write("u.csv", "id,name\n3,C\n4,d\n");
    place.write("twice.csv", "id,name\n7,x\n7,y\n");
    place.write("none.csv", "id,name\n5,x\n,y\n");
    place
}

#[test]
fn rows_are_upserted_by_the_key() {
    let place = place();
    place.run(&["load", "lake", "--table", "t=t.csv", "--key", "id"]).ok();
    place.run(&["load", "lake", "--table", "t=u.csv"]).fails(1, &["id = 3", "exists already", "upsert", "table t"]);
    let loaded = place.json(&["load", "lake", "--table", "t=u.csv", "--mode", "upsert"]);
    assert_eq!((&loaded["seq"], &loaded["tables"]), (&json!(2), &json!([{"key": "t", "rows": 2}])));
    let mut rows = place.rows("t").as_array().unwrap().clone();
    rows.sort_by_key(|row| row["id"].as_i64());
    let wanted = [(1, "a"), (2, "b"), (3, "C"), (4, "d")].map(|(id, name)| json!({"id": id, "name": name}));
    assert_eq!(rows, wanted);
    assert_eq!(place.json(&["table", "show", "lake", "t"])["key"], json!(["id"]));
    assert!(place.run(&["table", "show", "lake", "t"]).ok().out.contains("key          id\n"));
    // The second time nothing is new but the commit, and an empty file is nothing at all.
    place.write("empty.csv", "id,name\n");
    assert_eq!(place.json(&["load", "lake", "--table", "t=empty.csv", "--mode", "upsert"])["seq"], json!(2));
}

#[test]
fn a_bad_key_writes_nothing() {
    let place = place();
    let bad: [(&[&str], &[&str]); 5] = [
        (&["t=twice.csv", "--key", "id"], &["id = 7", "twice", "table t"]),
        (&["t=none.csv", "--key", "id"], &["\"id\"", "row 2", "table t"]),
        (&["t=t.csv", "--key", "number"], &["\"number\"", "id, name", "table t"]),
        (&["t=t.csv", "--key", "id,id"], &["\"id\"", "twice", "table t"]),
        (&["t=t.csv", "--mode", "upsert"], &["--key", "table t"]),
    ];
    for (args, parts) in bad {
        place.run(&[&["load", "lake", "--table"], args].concat()).fails(1, parts);
        assert!(place.state().is_none(), "{args:?} left a catalog behind");
    }
    place.run(&["load", "lake", "--table", "t=t.csv", "--key", "id"]).ok();
    place.run(&["load", "lake", "--table", "plain=t.csv"]).ok();
    let before = place.state();
    let bad: [(&[&str], &[&str]); 6] = [
        (&["t=twice.csv", "--mode", "upsert"], &["id = 7", "twice", "table t"]),
        (&["t=none.csv", "--mode", "upsert"], &["column id", "null", "none.csv", "line 3"]),
        (&["t=u.csv", "--mode", "upsert", "--key", "name"], &["the table's key is id", "table t"]),
        (&["t=twice.csv", "--mode", "overwrite"], &["id = 7", "twice", "table t"]),
        (&["plain=u.csv", "--mode", "upsert"], &["no key", "plain"]),
        (&["new=twice.csv", "--key", "id"], &["id = 7", "twice", "table new"]),
    ];
    for (args, parts) in bad {
        place.run(&[&["load", "lake", "--table"], args].concat()).fails(1, parts);
        assert_eq!(place.state(), before, "{args:?}");
    }
}

#[test]
fn a_table_is_created_with_a_key_of_two_columns() {
    let place = place();
    place.run(&["load", "lake", "--table", "t=t.csv"]).ok();
    let create =
        ["table", "create", "lake", "k", "--column", "day DATE not null", "--column", "n BIGINT not null", "--column", "v VARCHAR"];
    place.run(&[&create[..], &["--key", "day,v"]].concat()).fails(1, &["\"v\"", "not null"]);
    place.run(&[&create[..], &["--key", "day,n"]].concat()).ok();
    place.write("k.csv", "day,n,v\n2024-01-01,1,a\n2024-01-01,2,b\n");
    place.write("l.csv", "day,n,v\n2024-01-02,1,c\n2024-01-01,2,B\n");
    place.run(&["load", "lake", "--table", "k=k.csv"]).ok();
    place.run(&["load", "lake", "--table", "k=l.csv"]).fails(1, &["day = 2024-01-01, n = 2"]);
    place.run(&["load", "lake", "--table", "k=l.csv", "--mode", "upsert"]).ok();
    assert_eq!(place.rows("k").as_array().unwrap().len(), 3);
}
