//! A catalog with its control in a SQLite file and its data elsewhere, by the real command: what belongs together stays together, and each
//! part alone says where the other one is.
#![cfg(all(feature = "cli", feature = "local", feature = "parquet", feature = "sqlite"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod loading;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use headwater::ErrorKind;
use loading::{Place, document, rows};
use serde_json::Value;
use tempfile::TempDir;

/// A folder to run commands in, with a file of one row.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        fs::write(desk.path("t.csv"), "x\n1\n").unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        command.args(args).arg("--json").current_dir(self.0.path()).stdin(Stdio::null()).output().unwrap()
    }

    fn load(&self, lake: &str, control: &str) -> Output {
        self.run(&["load", lake, "--table", "t=t.csv", "--control", control])
    }

    /// A refusal, and what it must say.
    fn refused(&self, args: &[&str], told: &[&str]) {
        let output = self.run(args);
        let error = serde_json::from_slice::<Value>(&output.stderr).unwrap()["error"].take();
        assert_eq!((output.status.code(), error["retry"].as_str()), (Some(1), Some("permanent")), "{args:?}: {error}");
        for part in told {
            assert!(error["message"].as_str().unwrap().contains(part), "{args:?}: {part:?} is not in {error}");
        }
    }

    /// Every file with its bytes, but for SQLite's own beside a file that was read.
    fn all(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn walk(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                let bytes = match kind {
                    kind if kind.is_dir() => Vec::new(),
                    kind if kind.is_symlink() => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
                    _ => fs::read(&path).unwrap(),
                };
                found.insert(path.clone(), bytes);
                if kind.is_dir() {
                    walk(&path, found);
                }
            }
        }
        let mut found = BTreeMap::new();
        walk(self.0.path(), &mut found);
        found
    }
}

#[test]
fn a_lake_is_used_by_both_its_parts_and_the_data_root_alone_names_the_control() {
    let desk = Desk::new();
    let control = desk.path("a b/größe%.db");
    fs::create_dir(control.parent().unwrap()).unwrap();
    // However the path is written.
    let spelled = ["sqlite:a b/größe%.db", "sqlite:x/../a b/größe%.db", &format!("sqlite:{}", control.display())];
    fs::create_dir(desk.path("x")).unwrap();
    for (seq, spelled) in spelled.into_iter().enumerate() {
        assert_eq!(document(&desk.load("lake", spelled))["seq"], seq + 1);
    }
    let url = url::Url::from_file_path(&control).unwrap().as_str().replace("file:", "sqlite:");
    assert_eq!(document(&desk.run(&["heads", "lake", "--control", &url]))["tables"][0]["rows"], 3);
    assert_eq!(document(&desk.run(&["verify", "lake", "--data", "--control", spelled[0]]))["ok"], true);
    assert_eq!(document(&desk.run(&["doctor", "lake", "--control", spelled[0]]))["ok"], true);
    let before = desk.all();
    for args in [&["heads", "lake"][..], &["load", "lake", "--table", "t=t.csv"], &["table", "drop", "lake", "t"], &["read", "lake", "t"]] {
        desk.refused(args, &[&url, "--control"]);
    }
    desk.refused(&["heads", spelled[0]], &["keeps control, and no data"]);
    assert_eq!(desk.all(), before);
}

#[tokio::test]
async fn a_program_reads_where_the_control_is_and_need_not_parse_it_from_a_message() {
    let place = Place::folder().with_sqlite();
    document(&place.load(&[("t", &place.file("t.csv", [(1, 1)]))]).output().unwrap());
    let error = headwater::open(&place.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let control = error.context("control").unwrap().to_owned();
    let found = headwater::builder(&place.url()).control(control).open().await.unwrap();
    let snapshot = found.branch("main").unwrap().snapshot().await.unwrap();
    assert_eq!(rows(&snapshot, "t").await, BTreeMap::from([((1, 1), 1)]));
}

#[test]
fn two_catalogs_never_share_a_data_root_or_a_control() {
    let desk = Desk::new();
    document(&desk.load("lake", "sqlite:a.db"));
    document(&desk.load("other", "sqlite:b.db"));
    document(&desk.run(&["load", "own", "--table", "t=t.csv"]));
    let before = desk.all();
    let load = |lake, control| ["load", lake, "--table", "t=t.csv", "--control", control];
    // A control that is not there yet, and one of another catalog.
    desk.refused(&load("lake", "sqlite:new.db"), &["a.db", "there is none at --control"]);
    desk.refused(&load("lake", "sqlite:b.db"), &["a.db", "choose another data root"]);
    desk.refused(&["heads", "lake", "--control", "sqlite:b.db"], &["a.db"]);
    // A data root with a control of its own, and one that is not there yet.
    desk.refused(&load("own", "sqlite:new.db"), &["beside the data", "leave --control out"]);
    desk.refused(&load("own", "sqlite:a.db"), &["leave --control out"]);
    desk.refused(&load("new", "sqlite:a.db"), &["no locator", "data root it was created with"]);
    // A folder's control, and a place that would be both.
    desk.refused(&load("new", "own"), &["beside its control"]);
    desk.refused(&load("own", "./own"), &["the same place"]);
    desk.refused(&load("new", "http://host/x"), &["this build keeps no control at http:"]);
    desk.refused(&load("new", "sqlite:a.db?mode=ro"), &["mode"]);
    desk.refused(&load("new", "sqlite:"), &["empty"]);
    desk.refused(&load("new", "sqlite://host/a.db"), &["sqlite:PATH"]);
    assert_eq!(desk.all(), before, "bad input changes nothing");
}

/// Whether it is there already, or would be made.
#[cfg(unix)]
#[test]
fn one_place_for_both_is_refused_in_every_spelling_and_nothing_is_written() {
    let desk = Desk::new();
    for folder in ["real", "real/empty", "x"] {
        fs::create_dir(desk.path(folder)).unwrap();
    }
    std::os::unix::fs::symlink(desk.path("real"), desk.path("link")).unwrap();
    std::os::unix::fs::symlink("link", desk.path("link to a link")).unwrap();
    let before = desk.all();
    let absolute = |path: &str| desk.path(path).to_str().unwrap().to_owned();
    let url = |path: &str| url::Url::from_file_path(desk.path(path)).unwrap().to_string();
    for end in ["empty", "new", "new/deeper"] {
        let spelled = |start: &str| format!("{start}/{end}");
        let spellings = [
            spelled("real"),
            spelled("./real"),
            spelled("real/."),
            spelled("real/"),
            spelled("x/../real"),
            spelled("link"),
            spelled("link to a link"),
            spelled("link/../real"),
            format!("{}/", spelled("real")),
            format!("{}/.", spelled("link")),
            absolute(&spelled("real")),
            absolute(&spelled("link")),
            url(&spelled("real")),
            format!("{}/", url(&spelled("link"))),
            url(&spelled("real")).replace("real", "re%61l"),
        ];
        for control in &spellings {
            for lake in [&spellings[0], &spellings[5], &spellings[8], control] {
                desk.refused(&["load", lake, "--table", "t=t.csv", "--control", control], &["the same place", "leave --control out"]);
            }
        }
        assert_eq!(desk.all(), before, "{end}");
    }
}

#[test]
fn the_control_of_a_folder_serves_data_elsewhere_and_is_no_lake_itself() {
    let desk = Desk::new();
    document(&desk.load("lake", "control"));
    document(&desk.load("lake", "control"));
    desk.refused(&["heads", "control"], &["whose data is elsewhere", "--control"]);
    desk.refused(&["heads", "lake"], &["control"]);
    assert!(!desk.path("control/data").exists() && desk.path("lake/data").exists());
}

#[test]
fn a_bad_file_leaves_neither_control_nor_data() {
    let desk = Desk::new();
    fs::write(desk.path("bad.csv"), "x\n1\n2,3\n").unwrap();
    let before = desk.all();
    desk.refused(&["load", "lake", "--table", "t=bad.csv", "--control", "sqlite:a.db"], &["bad.csv"]);
    desk.refused(&["load", "lake", "--table", "t=t.csv", "--control", "sqlite:not/there/a.db"], &["a.db", "folder"]);
    assert_eq!(desk.all(), before);
}

/// The disk takes no more in the middle of COMMIT: what reached the log may count, or not.
#[cfg(unix)]
#[tokio::test]
async fn a_commit_that_sqlite_cannot_finish_is_unknown_and_its_token_settles_it() {
    let place = Place::folder().with_sqlite();
    let load = |number: i64| place.load(&[("t", &place.file(&format!("{number}.csv"), [(1, number)]))]);
    document(&load(0).output().unwrap());
    // As long as somebody has the file open, its log stays, and grows beyond what the process below may write.
    let keeper = rusqlite::Connection::open(place.control_file()).unwrap();
    keeper.query_row("SELECT count(*) FROM heads", [], |_| Ok(())).unwrap();
    let log = place.control_file().with_file_name("control.db-wal");
    let mut number = 1;
    while fs::metadata(&log).map_or(0, |found| found.len()) < 64 << 10 {
        document(&load(number).output().unwrap());
        number += 1;
    }
    let real = load(number);
    let mut limited = Command::new("bash");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$@\"", "bash"]).arg(real.get_program()).args(real.get_args());
    let failed = limited.args(["--token", "the-one"]).stdin(Stdio::null()).output().unwrap();
    let error = serde_json::from_slice::<Value>(&failed.stderr).unwrap()["error"].take();
    assert_eq!((failed.status.code(), error["kind"].as_str()), (Some(4), Some("PublishUnknown")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("--token the-one"), "{error}");
    // It goes on, for others as for the one with the token.
    document(&load(number + 1).output().unwrap());
    for _ in 0..2 {
        document(&load(number).args(["--token", "the-one"]).output().unwrap());
    }
    let once: BTreeMap<_, _> = (0..=number + 1).map(|number| ((1, number), 1)).collect();
    assert_eq!(rows(&place.snapshot().await, "t").await, once);
    place.verify();
}

/// Another user's file. A superuser may write whatever the mode says, so nobody is asked instead.
#[cfg(unix)]
#[tokio::test]
async fn a_file_without_permission_to_write_is_refused_by_name() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    let place = Place::folder().with_sqlite();
    let file = place.file("t.csv", [(1, 1)]);
    document(&place.load(&[("t", &file)]).output().unwrap());
    let folder = file.parent().unwrap().to_owned();
    // Where anybody can run it.
    let program = folder.join("headwater");
    fs::copy(env!("CARGO_BIN_EXE_headwater"), &program).unwrap();
    let before = fs::read(place.control_file()).unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(&place.control_file(), 0o444);
    mode(&folder, 0o555);
    let real = place.load(&[("t", &file)]);
    let mut command = Command::new(&program);
    command.args(real.get_args()).stdin(Stdio::null());
    if fs::metadata(&folder).unwrap().uid() == 0 {
        command.uid(65_534).gid(65_534);
    }
    let failed = command.output().unwrap();
    mode(&folder, 0o755);
    let error = serde_json::from_slice::<Value>(&failed.stderr).unwrap()["error"].take();
    assert_eq!((failed.status.code(), error["kind"].as_str()), (Some(1), Some("InvalidInput")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("control.db"), "{error}");
    assert_eq!(fs::read(place.control_file()).unwrap(), before);
}

/// The queries of docs/sqlite.md, each on a catalog whose journal has spilled.
#[tokio::test]
async fn the_documented_queries_answer() {
    let place = Place::folder().with_sqlite();
    let file = place.file("t.csv", [(1, 1)]);
    document(&place.load(&[("trips", &file), ("größe \"x\"", &file)]).output().unwrap());
    let main = place.open().await.branch("main").unwrap();
    for number in 0..70 {
        let renamed = main.transact(|tx| async move {
            let (from, to) = if number % 2 == 0 { ("trips", "rides") } else { ("rides", "trips") };
            tx.rename_table(&tx.table(from).await?, to).await
        });
        renamed.await.unwrap();
    }
    let connection = rusqlite::Connection::open(place.control_file()).unwrap();
    let query = |sql: &str| {
        let mut statement = connection.prepare(sql).unwrap();
        let columns = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| (0..columns).map(|i| row.get::<_, rusqlite::types::Value>(i)).collect::<Result<Vec<_>, _>>();
        statement.query_map([], row).unwrap().collect::<Result<Vec<_>, _>>().unwrap()
    };
    let page = include_str!("../docs/sqlite.md");
    let queries: Vec<&str> = page.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(queries.len() >= 4, "{queries:?}");
    for sql in queries {
        assert!(!query(sql).is_empty(), "nothing answers {sql}");
    }
    use rusqlite::types::Value::{Integer, Text};
    let text = |text: &str| Text(text.to_owned());
    assert_eq!(
        query("SELECT branch, seq, tables, intents, state FROM heads"),
        [[text("main"), Integer(71), Integer(2), Integer(0), text("live")]]
    );
    assert_eq!(
        query("SELECT name, rows, state FROM tables ORDER BY name"),
        [[text("größe \"x\""), Integer(1), text("live")], [text("trips"), Integer(1), text("live")]]
    );
    let seqs: Vec<_> = (1..=71).map(|seq| [Integer(seq)]).collect();
    assert_eq!(query("SELECT seq FROM commits ORDER BY seq"), seqs, "spilled ones, too, and each once");
    let log = document(&place.command("log").args(["--limit", "1000"]).output().unwrap());
    let told: Vec<_> = log["commits"].as_array().unwrap().iter().map(|commit| [text(commit["commit"].as_str().unwrap())]).collect();
    assert_eq!(query("SELECT \"commit\" FROM commits ORDER BY seq DESC"), told);
    assert_eq!(query("SELECT count(*) FROM commits, json_each(events)"), [[Integer(72)]]);
    assert!(query("SELECT id FROM intents").is_empty());
}
