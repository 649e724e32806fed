//! The command as a user meets it: exit codes, messages, documents, and what a failure leaves behind.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod changes;
mod keyed;
#[cfg(feature = "lance")]
mod lance;
mod optimize;
mod sql;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder with a lake in it (or not yet), and files beside.
struct Place(TempDir);

struct Run {
    code: i32,
    out: String,
    err: String,
}

impl Run {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }

    #[track_caller]
    fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.err);
        assert_eq!(self.err, "");
        self
    }

    /// The one line on standard error holds all of these.
    #[track_caller]
    fn fails(self, code: i32, parts: &[&str]) -> Self {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        assert!(self.err.starts_with("error: ") && self.err.trim_end().lines().count() == 1, "{}", self.err);
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is not in {}", self.err);
        }
        self
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_headwater"))
}

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data").join(name).display().to_string()
}

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    fn run(&self, args: &[&str]) -> Run {
        command().current_dir(self.0.path()).args(args).output().unwrap().into()
    }

    fn load(&self, tables: &[&str]) -> Run {
        let mut args = vec!["load", "lake"];
        tables.iter().for_each(|table| args.extend(["--table", table]));
        self.run(&args)
    }

    fn json(&self, args: &[&str]) -> Value {
        let mut args = args.to_vec();
        args.push("--json");
        self.run(&args).ok().json()
    }

    fn rows(&self, table: &str) -> Value {
        self.json(&["read", "lake", table])["rows"].clone()
    }

    /// Everything that a failed command must leave alone.
    fn state(&self) -> Option<(Value, Value)> {
        if !self.path("lake").exists() {
            return None;
        }
        let verified = self.json(&["verify", "lake"]);
        assert_eq!(verified["ok"], true, "{verified}");
        assert_eq!(verified["problems"], Value::Array(vec![]));
        Some((self.json(&["log", "lake"]), self.json(&["heads", "lake"])))
    }
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn two_real_files_become_one_commit_and_every_value_reads_back() {
    let place = Place::new();
    let (penguins, airports) = (example("penguins.csv"), example("airports.csv"));
    let tables = [format!("penguins={penguins}"), format!("airports={airports}")];
    let loaded = place.json(&["load", "lake", "--table", &tables[0], "--table", &tables[1], "--null", "NA", "-m", "first"]);
    assert_eq!(loaded["seq"], 1);
    assert_eq!(loaded["tables"].as_array().unwrap().len(), 2);

    let heads = place.json(&["heads", "lake"]);
    let rows: Vec<(&str, u64)> =
        heads["tables"].as_array().unwrap().iter().map(|head| (head["key"].as_str().unwrap(), head["rows"].as_u64().unwrap())).collect();
    assert_eq!(rows, [("airports", 3376), ("penguins", 344)]);
    assert!(heads["tables"].as_array().unwrap().iter().all(|head| head["commit"] == loaded["commit"] && head["state"] == "live"));

    // CSV out is CSV in, but for the spelling of nulls and numbers: compared value by value.
    for (name, file) in [("penguins", penguins), ("airports", airports)] {
        let out = place.run(&["read", "lake", name, "--format", "csv"]).ok().out;
        let (mut ours, text) = (fields(&out), std::fs::read_to_string(file).unwrap());
        let theirs = fields(&text);
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter_mut().zip(theirs) {
            for (ours, theirs) in ours.iter().zip(&theirs) {
                let same = ours == theirs || (ours.is_empty() && theirs == "NA") || ours.parse::<f64>().ok() == theirs.parse::<f64>().ok();
                assert!(same, "{ours:?} was {theirs:?}");
            }
        }
    }
    let typed: Vec<String> =
        place.json(&["table", "show", "lake", "penguins"])["columns"].as_array().unwrap().iter().map(|c| c["type"].to_string()).collect();
    assert_eq!(typed[2], "\"DOUBLE\"");
    assert_eq!(typed[5], "\"BIGINT\"");
}

/// Splits CSV without line breaks in fields.
fn fields(text: &str) -> Vec<Vec<String>> {
    let line = |line: &str| {
        let (mut fields, mut quoted) = (vec![String::new()], false);
        for c in line.trim_end_matches('\r').chars() {
            match c {
                '"' => quoted = !quoted,
                ',' if !quoted => fields.push(String::new()),
                c => fields.last_mut().unwrap().push(c),
            }
        }
        fields
    };
    text.lines().map(line).collect()
}

#[test]
fn bad_input_fails_with_its_place_and_writes_nothing() {
    let bad: &[(&str, &[u8], &[&str])] = &[
        ("ragged.csv", b"a,b\n1,2\n1,2,3\n", &["ragged.csv", "line 3", "3 fields"]),
        ("utf8.csv", b"a,b\n1,\xE9\n", &["utf8.csv", "line 2", "byte 7", "UTF-8"]),
        ("empty.csv", b"", &["empty.csv", "empty"]),
        ("double.csv", b"a,b,a\n1,2,3\n", &["double.csv", "\"a\"", "rename"]),
        ("noname.csv", b"a,,b\n1,2,3\n", &["noname.csv", "column 2"]),
        ("quote.csv", b"a,b\n1,\"2\n", &["quote.csv", "line 2", "closed"]),
        ("what.xyz", b"a,b\n1,2\n", &["what.xyz", "\"xyz\"", "--format"]),
        ("bad.jsonl", b"{\"a\":1}\n[2]\n", &["bad.jsonl", "line 2"]),
        ("twice.jsonl", b"{\"a\":1,\"a\":2}\n", &["twice.jsonl", "line 1", "\"a\""]),
        ("not.parquet", b"PAR1 this is not Parquet", &["not.parquet", "Parquet"]),
        ("not.arrow", b"ARROW1 this is not Arrow", &["not.arrow", "Arrow"]),
        ("zipped.csv", b"\x1F\x8B\x08\x00\x00", &["zipped.csv", "gzip"]),
    ];
    for exists in [false, true] {
        let place = Place::new();
        place.write("good.csv", "a,b\n1,2\n");
        std::fs::create_dir(place.path("folder.csv")).unwrap();
        if exists {
            place.load(&["t=good.csv"]).ok();
        }
        let before = place.state();
        assert_eq!(before.is_some(), exists);
        for (name, bytes, parts) in bad {
            place.write(name, bytes);
            // One bad file among three, wherever it stands.
            let table = format!("bad={name}");
            place.load(&["good=good.csv", &table, "more=good.csv"]).fails(1, parts);
            place.load(&[&table]).fails(1, parts);
            assert_eq!(place.state(), before, "{name}");
        }
        place.load(&["good=good.csv", "bad=missing.csv"]).fails(1, &["missing.csv", "no such file"]);
        place.load(&["good=good.csv", "bad=folder.csv"]).fails(1, &["folder.csv", "directory"]);
        for name in ["a/b", "a\\b", "   ", "", " a", &"x".repeat(81)] {
            place.load(&["good=good.csv", &format!("{name}=good.csv")]).fails(1, &["table name", "choose another"]);
        }
        place.run(&["load", "lake?no_such_option=1", "--table", "t=good.csv"]).fails(1, &["no_such_option"]);
        place.run(&["load", "lake", "--table", "t=good.csv", "--branch", "no/such"]).fails(1, &["branch name"]);
        place.run(&["load", "lake", "--table", "t=good.csv", "--branch", "dev"]).fails(1, &["\"dev\""]);
        place.run(&["load", "lake", "--table", "t=good.csv", "--token", "no token"]).fails(1, &["token"]);
        if !exists {
            place.run(&["load", "lake", "--table", "t=good.csv", "--store", "stone"]).fails(1, &["\"stone\"", "parquet"]);
        }
        assert_eq!(place.state(), before);
        assert!(!place.path("missing.csv").exists());
    }
}

#[test]
fn what_does_not_fit_the_table_is_refused() {
    let place = Place::new();
    place.write("t.csv", "n,day,name\n1,2012-01-01,x\n");
    place.load(&["t=t.csv"]).ok();
    place.run(&["table", "create", "lake", "strict", "--column", "id bigint not null", "--column", "x double"]).ok();
    let before = place.state();
    for (name, text, parts) in [
        ("type.csv", "n,day,name\n2,2012-01-02,y\nthree,2012-01-03,z\n", &["line 3", "column n", "\"three\"", "BIGINT"][..]),
        ("day.csv", "n,day\n2,tomorrow\n", &["line 2", "column day", "DATE"]),
        ("more.csv", "n,extra\n2,3\n", &["line 1", "\"extra\"", "add-column"]),
        ("type.jsonl", "{\"n\":1}\n{\"n\":1.5}\n", &["line 2", "column n", "1.5"]),
    ] {
        place.write(name, text);
        let table = format!("t={name}");
        place.load(&["new=t.csv", &table]).fails(1, parts).fails(1, &[name, "table t"]);
    }
    place.write("null.csv", "id,x\n1,2\n,3\n");
    place.load(&["strict=null.csv"]).fails(1, &["null.csv", "line 3", "column id", "null"]);
    place.write("lacks.csv", "x\n1\n");
    place.load(&["strict=lacks.csv"]).fails(1, &["lacks.csv", "\"id\"", "null"]);
    assert_eq!(place.state(), before);
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let place = Place::new();
    place.write("t.csv", "a\n1\n");
    place.load(&["t=t.csv", "t=t.csv"]).fails(2, &["--table t", "twice"]);
    place.run(&["load", "lake"]).fails(2, &["--table"]);
    place.run(&["load", "lake", "--table", "t"]).fails(2, &["NAME=FILE"]);
    place.run(&["load", "lake", "--table", "t=t.csv", "--mode", "merge"]).fails(2, &["upsert"]);
    place.run(&["read", "lake"]).fails(2, &["TABLE"]);
    place.run(&["nonsense"]).fails(2, &["nonsense"]);
    let json = place.run(&["load", "lake", "--json"]);
    assert_eq!(json.code, 2);
    let error: Value = serde_json::from_str(&json.err).unwrap();
    assert_eq!(keys(&error["error"]), ["kind", "message", "retry"]);
    assert!(!place.path("lake").exists());
    assert_eq!(place.run(&["--help"]).code, 0);
    assert_eq!(place.run(&[]).code, 2);
}

#[test]
fn reading_what_is_not_there() {
    let place = Place::new();
    for args in [&["heads", "lake"][..], &["log", "lake"], &["read", "lake", "t"], &["files", "lake", "t"], &["verify", "lake"]] {
        place.run(args).fails(1, &["lake"]);
        let mut json = args.to_vec();
        json.push("--json");
        let error: Value = serde_json::from_str(&place.run(&json).err).unwrap();
        assert_eq!(error["error"]["kind"], "NotFound");
        assert_eq!(error["error"]["retry"], "permanent");
    }
    assert!(!place.path("lake").exists(), "reading creates nothing");
    place.write("t.csv", "a\n1\n");
    place.load(&["t=t.csv"]).ok();
    place.run(&["read", "lake", "T"]).fails(1, &["\"T\"", "it has t"]);
    place.run(&["read", "lake", "t", "--at", "9"]).fails(1, &["9"]);
    place.run(&["read", "lake", "t", "--at", "yesterday"]).fails(1, &["yesterday"]);
    place.run(&["read", "lake", "t", "--columns", "b"]).fails(1, &["b"]);
    place.run(&["read", "lake", "t", "--where", "b = 1"]).fails(1, &["b = 1"]);
    place.run(&["read", "lake", "t", "--where", "a = x"]).fails(1, &["\"x\"", "BIGINT"]);
    place.run(&["read", "lake", "t", "--branch", "dev"]).fails(1, &["dev"]);
}

#[test]
fn documents_have_exactly_the_documented_fields() {
    let place = Place::new();
    place.write("t.csv", "a\n1\n2\n");
    let loaded = place.json(&["load", "lake", "--table", "t=t.csv", "-m", "why"]);
    assert_eq!(keys(&loaded), ["commit", "seq", "tables"]);
    assert_eq!(keys(&loaded["tables"][0]), ["key", "rows"]);
    let again = place.json(&["load", "lake", "--table", "t=t.csv"]);
    assert_eq!((again["seq"].clone(), again["tables"][0]["rows"].clone()), (2.into(), 2.into()), "rows are those of this commit");

    let heads = place.json(&["heads", "lake"]);
    assert_eq!(keys(&heads), ["branch", "commit", "incarnation", "rev", "seq", "tables"]);
    assert_eq!(keys(&heads["tables"][0]), ["commit", "incarnation_id", "key", "pin", "rows", "state", "table_id"]);
    assert_eq!(heads["tables"][0]["rows"], 4);

    let log = place.json(&["log", "lake"]);
    assert_eq!(keys(&log), ["commits"]);
    let commits = log["commits"].as_array().unwrap();
    assert_eq!(keys(&commits[0]), ["actor", "commit", "kind", "message", "seq", "tables", "time"]);
    assert_eq!(commits.iter().map(|commit| commit["seq"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(commits[1]["message"], "why");
    assert_eq!(commits[0]["message"], Value::Null);
    assert_eq!(commits[0]["tables"], serde_json::json!(["t"]));
    assert_eq!(place.json(&["log", "lake", "--at", "1"])["commits"].as_array().unwrap().len(), 1);
    assert_eq!(place.json(&["log", "lake", "--limit", "1"])["commits"][0]["seq"], 2);

    let verified = place.json(&["verify", "lake", "--data"]);
    assert_eq!(keys(&verified), ["ok", "problems", "reclaimable"]);
    assert_eq!(keys(&verified["reclaimable"]), ["bytes", "objects"]);

    let adapters = place.json(&["adapters"]);
    assert_eq!(keys(&adapters), ["adapters", "authorities", "missing", "stores"]);
    let kinds = |part: &str| adapters[part].as_array().unwrap().iter().map(|part| part["kind"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(kinds("adapters"), ["index", "load", "mutation", "optimize", "schema"]);
    assert!(kinds("authorities").contains(&"memory"));
}

#[test]
fn names_that_differ_stay_distinct() {
    let place = Place::new();
    let names = ["trips", "Trips", "TRIPS", "größe", "gro\u{308}ße", "日本", "100%", "a%20b", "a b", "it's", "say \"hi\"", "..", "a.b"];
    let mut args = vec!["load".to_owned(), "lake".to_owned()];
    for (i, name) in names.iter().enumerate() {
        place.write(&format!("{i}.csv"), format!("{name}x\n{i}\n").replace('"', "'"));
        args.extend(["--table".to_owned(), format!("{name}={i}.csv")]);
    }
    place.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).ok();
    for (i, name) in names.iter().enumerate() {
        let rows = place.rows(name);
        assert_eq!(rows.as_array().unwrap().len(), 1, "{name}");
        assert_eq!(rows[0].as_object().unwrap().values().next().unwrap(), &Value::from(i), "{name}");
    }
    let heads = place.json(&["heads", "lake"]);
    let mut listed: Vec<&str> = heads["tables"].as_array().unwrap().iter().map(|head| head["key"].as_str().unwrap()).collect();
    let mut expected = names.to_vec();
    listed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(listed, expected);
}

#[test]
fn every_format_carries_every_value_there_and_back() {
    let place = Place::new();
    let columns =
        ["n bigint", "x double", "b boolean", "d date", "t timestamp", "z timestamptz", "s varchar", "m decimal(10,2)", "bytes blob"];
    let create = |table: &str| {
        let mut args = vec!["table", "create", "lake", table];
        columns.iter().for_each(|column| args.extend(["--column", column]));
        place.run(&args).ok();
    };
    place.write("seed.csv", "q\n1\n");
    place.load(&["seed=seed.csv"]).ok();
    create("t");
    place.write(
        "t.jsonl",
        concat!(
            "{\"n\":9223372036854775807,\"x\":0.1,\"b\":true,\"d\":\"2012-02-29\",\"t\":\"2012-02-29T10:00:00.123456\",",
            "\"z\":\"2012-02-29T10:00:00+02:00\",\"s\":\"a, \\\"b\\\"\\nc\",\"m\":-12.30,\"bytes\":\"00ff\"}\n",
            "{\"n\":null,\"s\":\"\"}\n",
            "{\"n\":-1,\"x\":1e300,\"s\":\" größe 日本 \",\"b\":false}\n",
        ),
    );
    place.load(&["t=t.jsonl"]).ok();
    let rows = place.rows("t");
    assert_eq!(rows.as_array().unwrap().len(), 3);
    assert_eq!(rows[0]["n"], 9_223_372_036_854_775_807_i64);
    assert_eq!(rows[0]["z"], "2012-02-29T08:00:00Z");
    assert_eq!(rows[1]["s"], "");
    assert_eq!(rows[2]["d"], Value::Null);
    for format in ["csv", "jsonl", "parquet", "arrow"] {
        let (file, table) = (format!("out.{format}"), format!("from_{format}"));
        place.run(&["read", "lake", "t", "-o", &file]).ok();
        create(&table);
        place.load(&[&format!("{table}={file}")]).ok();
        assert_eq!(place.rows(&table), rows, "{format}");
        // And through standard output.
        let out = command().current_dir(place.0.path()).args(["read", "lake", "t", "--format", format]).output().unwrap();
        assert_eq!(out.stdout, std::fs::read(place.path(&file)).unwrap(), "{format}");
        // A table that is made from the file holds the same values.
        let inferred = format!("inferred_{format}");
        place.load(&[&format!("{inferred}={file}")]).ok();
        if matches!(format, "parquet" | "arrow") {
            assert_eq!(place.rows(&inferred), rows, "{format}");
        }
        assert_eq!(place.json(&["read", "lake", &inferred, "--columns", "s,n,t,z"])["rows"][0]["z"], rows[0]["z"], "{format}");
    }
    let names =
        std::fs::read_dir(place.0.path()).unwrap().filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains(".part"));
    assert_eq!(names.count(), 0);
}

#[test]
fn reading_a_part_of_a_table() {
    let place = Place::new();
    let rows: String = (0..100).map(|i| format!("{i},{}\n", if i % 10 == 0 { String::new() } else { format!("name {i}") })).collect();
    place.write("t.csv", format!("n,s\n{rows}"));
    place.load(&["t=t.csv"]).ok();
    let n = |args: &[&str]| -> Vec<i64> {
        let mut all = vec!["read", "lake", "t"];
        all.extend(args);
        place.json(&all)["rows"].as_array().unwrap().iter().map(|row| row["n"].as_i64().unwrap()).collect()
    };
    assert_eq!(n(&["--limit", "3"]), [0, 1, 2]);
    assert_eq!(n(&["--where", "n >= 97"]), [97, 98, 99]);
    assert_eq!(n(&["--where", "n >= 10", "--where", "s is null", "--limit", "2"]), [10, 20]);
    assert_eq!(n(&["--where", "s = name 5"]), [5]);
    let csv = place.run(&["read", "lake", "t", "--columns", "s,n", "--limit", "2", "--format", "csv"]).ok().out;
    assert_eq!(csv, "s,n\n,0\nname 1,1\n");
    let people = place.run(&["read", "lake", "t"]).ok().out;
    assert_eq!(people.lines().count(), 43);
    assert!(people.ends_with("100 rows in all, 40 shown\n"), "{people}");
    let filtered = place.run(&["read", "lake", "t", "--where", "n < 50"]).ok().out;
    assert!(filtered.ends_with("50 rows in all, 40 shown\n"), "{filtered}");
    assert!(place.run(&["read", "lake", "t", "--limit", "60"]).ok().out.ends_with("name 59\n60 rows\n"));
    assert!(place.run(&["read", "lake", "t", "--where", "n > 100"]).ok().out.ends_with("0 rows\n"));
}

#[test]
fn time_travel_by_number_commit_and_time() {
    let place = Place::new();
    place.write("a.csv", "n\n1\n");
    place.write("b.csv", "n\n2\n3\n");
    let first = place.json(&["load", "lake", "--table", "t=a.csv"]);
    let second = place.json(&["load", "lake", "--table", "t=b.csv", "--mode", "overwrite"]);
    let count = |at: &str| place.json(&["read", "lake", "t", "--at", at])["rows"].as_array().unwrap().len();
    assert_eq!((count("1"), count("2")), (1, 2));
    assert_eq!(count(first["commit"].as_str().unwrap()), 1);
    assert_eq!(count(second["commit"].as_str().unwrap()), 2);
    assert_eq!(count("2999-01-01T00:00:00Z"), 2);
    assert_eq!(place.json(&["log", "lake"])["commits"][1]["commit"], first["commit"]);
    let files = |at: &str| place.run(&["files", "lake", "t", "--at", at]).ok().out;
    assert_ne!(files("1"), files("2"));
    for line in files("1").lines().chain(files("2").lines()) {
        assert!(Path::new(line).is_absolute() && Path::new(line).is_file(), "{line}");
    }
}

#[test]
fn tables_are_created_renamed_dropped_and_recreated() {
    let place = Place::new();
    place.run(&["table", "create", "lake", "t", "--column", "id bigint"]).fails(1, &["lake"]);
    assert!(!place.path("lake").exists(), "only a load creates a catalog");
    place.write("t.csv", "id\n1\n");
    place.load(&["t=t.csv"]).ok();
    place.run(&["table", "create", "lake", "t", "--column", "id bigint"]).fails(1, &["\"t\"", "exists"]);
    place.run(&["table", "create", "lake", "u", "--column", "id"]).fails(1, &["name type"]);
    place.run(&["table", "create", "lake", "u", "--column", "id nonsense"]).fails(1, &["nonsense", "BIGINT"]);
    place.run(&["table", "create", "lake", "u", "--column", "id int", "--column", "id int"]).fails(1, &["id"]);
    place.run(&["table", "create", "lake", "u", "--column", "id int not null", "--column", "\"a b\" text"]).ok();
    place.run(&["table", "rename", "lake", "t", "u"]).fails(1, &["\"u\"", "exists"]);
    place.run(&["table", "rename", "lake", "t", "v"]).ok();
    place.run(&["table", "drop", "lake", "t"]).fails(1, &["\"t\""]);
    place.run(&["table", "add-column", "lake", "v", "--column", "note text"]).ok();
    place.run(&["table", "add-column", "lake", "v", "--column", "id text"]).fails(1, &["id"]);
    assert_eq!(place.rows("v"), serde_json::json!([{"id": 1, "note": null}]));
    let dropped = place.json(&["table", "show", "lake", "v"]);
    let commit = place.json(&["table", "drop", "lake", "v", "-m", "enough"]);
    assert_eq!(keys(&commit), ["commit", "seq", "tables"]);
    place.run(&["read", "lake", "v"]).fails(1, &["\"v\""]);
    assert_eq!(place.json(&["read", "lake", "v", "--at", "4"])["rows"][0]["id"], 1);
    place.run(&["table", "recreate", "lake", "v"]).ok();
    let recreated = place.json(&["table", "show", "lake", "v"]);
    assert_eq!(recreated["table_id"], dropped["table_id"]);
    assert_ne!(recreated["incarnation_id"], dropped["incarnation_id"]);
    assert_eq!(recreated["columns"], dropped["columns"]);
    assert_eq!(place.rows("v"), serde_json::json!([]));
    let log = place.run(&["log", "lake"]).ok().out;
    for part in ["v  recreated", "v  dropped", "enough", "v  renamed was t", "t  created 1 row"] {
        assert!(log.contains(part), "{part:?} is not in {log}");
    }
    let names: Vec<Value> =
        place.json(&["log", "lake"])["commits"].as_array().unwrap().iter().map(|commit| commit["tables"][0].clone()).collect();
    assert_eq!(names, ["v", "v", "v", "v", "u", "t"]);
    assert!(place.state().is_some());
}

#[test]
fn no_rows_are_a_defined_no_op() {
    let place = Place::new();
    place.write("header.csv", "a,b\n");
    let created = place.json(&["load", "lake", "--table", "t=header.csv"]);
    assert_eq!((created["seq"].clone(), created["tables"][0]["rows"].clone()), (1.into(), 0.into()));
    let before = place.state();
    let nothing = place.json(&["load", "lake", "--table", "t=header.csv"]);
    assert_eq!((nothing["seq"].clone(), nothing["tables"].clone()), (1.into(), serde_json::json!([])));
    assert!(place.load(&["t=header.csv"]).ok().out.contains("nothing to do"));
    assert_eq!(place.state(), before);
}

#[test]
fn a_token_commits_once() {
    let place = Place::new();
    place.write("a.csv", "n\n1\n");
    place.write("b.csv", "n\n2\n");
    let args = ["load", "lake", "--table", "t=a.csv", "--token", "once-1"];
    let first = place.json(&args);
    assert_eq!(place.json(&args), first);
    place.load(&["t=b.csv"]).ok();
    place.run(&["table", "add-column", "lake", "t", "--column", "m text"]).ok();
    assert_eq!(place.json(&args), first, "also after others have changed the table");
    assert_eq!(place.rows("t").as_array().unwrap().len(), 2);
    place.run(&["load", "lake", "--table", "t=b.csv", "--token", "once-1"]).fails(1, &["once-1"]);
    assert!(place.state().is_some());
}

#[test]
fn nobody_reading_the_output_is_no_error() {
    let place = Place::new();
    let rows: String = (0..200_000).map(|i| format!("{i}\n")).collect();
    place.write("t.csv", format!("n\n{rows}"));
    place.load(&["t=t.csv"]).ok();
    for format in ["csv", "jsonl", "parquet", "arrow"] {
        let mut child = command()
            .current_dir(place.0.path())
            .args(["read", "lake", "t", "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let run = Run::from(child.wait_with_output().unwrap());
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{format}");
    }
}

#[test]
fn an_output_file_is_whole_or_absent() {
    let place = Place::new();
    place.write("t.jsonl", "{\"l\":[1]}\n");
    place.load(&["t=t.jsonl"]).ok();
    place.write("out.csv", "before");
    place.run(&["read", "lake", "t", "-o", "out.csv"]).fails(1, &["CSV", "column l"]);
    assert_eq!(std::fs::read_to_string(place.path("out.csv")).unwrap(), "before");
    place.run(&["read", "lake", "t", "-o", "lake"]).fails(1, &["directory"]);
    place.run(&["read", "lake", "t", "-o", "no/such/out.csv", "--format", "jsonl"]).fails(1, &["out.csv"]);
    place.run(&["read", "lake", "t", "-o", "out.jsonl"]).ok();
    assert_eq!(std::fs::read_to_string(place.path("out.jsonl")).unwrap(), "{\"l\":[1]}\n");
}
