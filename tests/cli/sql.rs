//! `sql`, as a user runs it; and without the feature, that there is none.

#[cfg(not(feature = "sql"))]
#[test]
fn a_build_without_it_says_which_feature_adds_it() {
    let place = super::Place::new();
    place.run(&["sql", "lake", "SELECT 1"]).fails(2, &["sql"]);
    assert!(place.run(&["adapters"]).ok().out.contains("missing: sql; build with --features sql"));
}

#[cfg(feature = "sql")]
mod with {
    use serde_json::{Value, json};

    use super::super::{Place, example};

    fn place() -> Place {
        let place = Place::new();
        let tables = ["penguins", "airports"].map(|name| format!("{name}={}", example(&format!("{name}.csv"))));
        place.run(&["load", "lake", "--null", "NA", "--table", &tables[0], "--table", &tables[1]]).ok();
        place
    }

    #[test]
    fn two_tables_answer_one_query() {
        let place = place();
        let text = "SELECT count(*) AS n, min(iata) AS first FROM airports WHERE state = 'AK'";
        let answer = place.json(&["sql", "lake", text]);
        let read = place.json(&["read", "lake", "airports", "--where", "state = AK", "--columns", "iata"]);
        let iata: Vec<&str> = read["rows"].as_array().unwrap().iter().map(|row| row["iata"].as_str().unwrap()).collect();
        assert_eq!(answer["rows"], json!([{"n": iata.len(), "first": iata.iter().min().unwrap()}]));
        assert_eq!(super::super::keys(&answer), ["branch", "commit", "rows", "seq"]);
        assert_eq!((&answer["seq"], &answer["branch"]), (&json!(1), &json!("main")));

        let joined = "SELECT (SELECT count(*) FROM penguins) + count(*) AS n FROM airports";
        assert_eq!(place.json(&["sql", "lake", joined])["rows"], json!([{"n": 344 + 3376}]));
        let people = place.run(&["sql", "lake", "SELECT iata FROM airports ORDER BY iata"]).ok().out;
        assert!(people.contains("3376 rows in all, 40 shown"), "{people}");
    }

    #[test]
    fn every_format_goes_out() {
        let place = place();
        let text = "SELECT iata, city FROM airports WHERE state = 'AK' ORDER BY iata";
        let csv = place.run(&["sql", "lake", text, "--format", "csv"]).ok().out;
        assert!(csv.starts_with("iata,city\n0AK,Pilot Station\n"), "{csv}");
        let lines = place.run(&["sql", "lake", text, "--format", "jsonl"]).ok().out;
        assert_eq!(lines.lines().count(), csv.lines().count() - 1);
        for file in ["out.parquet", "out.arrow"] {
            place.run(&["sql", "lake", text, "-o", file]).ok();
            place.run(&["load", "copy", "--table", &format!("t={file}"), "--mode", "overwrite"]).ok();
            let copied = place.json(&["sql", "copy", "SELECT * FROM t ORDER BY iata"])["rows"].clone();
            assert_eq!(copied, place.json(&["sql", "lake", text])["rows"]);
        }
        // Two columns of one name are one to whoever finds values by it.
        let twice = "SELECT a.iata, b.iata FROM airports AS a JOIN airports AS b ON a.iata = b.iata LIMIT 1";
        place.run(&["sql", "lake", twice, "--format", "csv"]).ok();
        place.run(&["sql", "lake", twice, "--format", "jsonl"]).fails(1, &["iata", "twice", "rename"]);
        assert!(!place.run(&["sql", "lake", twice, "--json"]).err.is_empty());
    }

    #[test]
    fn an_earlier_state_answers_as_it_did() {
        let place = Place::new();
        let text = "SELECT sum(n) AS n FROM t";
        for (commits, sum) in [(1, 0), (2, 1), (3, 3)] {
            place.write("t.csv", format!("n\n{}\n", commits - 1));
            place.load(&["t=t.csv"]).ok();
            assert_eq!(place.json(&["sql", "lake", text])["rows"], json!([{"n": sum}]));
        }
        let at = |at: &str| place.json(&["sql", "lake", text, "--at", at]);
        assert_eq!((&at("2")["rows"], &at("2")["seq"]), (&json!([{"n": 1}]), &json!(2)));
        let commit = place.json(&["log", "lake"])["commits"][2]["commit"].clone();
        assert_eq!(at(commit.as_str().unwrap())["rows"], json!([{"n": 0}]));
        place.run(&["sql", "lake", text, "--at", "0"]).fails(1, &["no table t", "it has none"]);
        place.run(&["sql", "lake", text, "--at", "9"]).fails(1, &["9"]);
    }

    #[test]
    fn what_is_wrong_is_told_in_one_line_and_changes_nothing() {
        let place = place();
        let before = place.state();
        place.run(&["sql", "lake", "SELECT * FROM planes"]).fails(1, &["planes", "airports, penguins"]);
        place.run(&["sql", "lake", "SELECT iato FROM airports"]).fails(1, &["iato", "iata"]);
        place.run(&["sql", "lake", "DROP TABLE airports"]).fails(1, &["only reads", "DropTable"]);
        place.run(&["sql", "lake", "COPY airports TO 'out.csv'"]).fails(1, &["only reads", "COPY"]);
        place.run(&["sql", "lake"]).fails(2, &["QUERY"]);
        place.run(&["sql", "nowhere", "SELECT 1"]).fails(1, &["nowhere"]);
        let failed = place.run(&["sql", "lake", "SELEC", "--json"]);
        let error: Value = serde_json::from_str(&failed.err).unwrap();
        assert_eq!((failed.code, &error["error"]["kind"]), (1, &json!("InvalidInput")));
        assert_eq!(place.state(), before);
        assert!(!place.path("out.csv").exists());
    }
}
