//! The steps of every request, blocking. One function is one request.
//!
//! A write is one transaction that takes the file's write lock before it reads, so nothing comes between its comparison and its change. Its
//! commit point is COMMIT: a failure before it is definite. One of COMMIT itself is `Unknown`, unless SQLite still has the transaction open
//! and rolls it back: what was written to the log may be whole, and the next one to open the file would find it committed.

use headwater_core::authority::{Create, Swap, Tag};
use headwater_core::name::{BranchName, RecordKey};
use headwater_core::{Error, Result, json};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::failure::{astray, failure, unsettled};
use crate::file::{Opened, Turn};
use crate::schema::{self, Found};

/// Which row a request is about.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    Head(BranchName),
    Record(RecordKey),
}

impl Slot {
    fn name(&self) -> &str {
        match self {
            Self::Head(branch) => branch.as_str(),
            Self::Record(key) => key.as_str(),
        }
    }

    /// As errors print it.
    pub(crate) fn object(&self) -> String {
        match self {
            Self::Head(branch) => format!("head of branch {branch}"),
            Self::Record(key) => key.to_string(),
        }
    }

    fn sql(&self, head: &'static str, record: &'static str) -> &'static str {
        match self {
            Self::Head(_) => head,
            Self::Record(_) => record,
        }
    }
}

/// The tag of a version: bodies always differ (each has a fresh nonce), so the hash names one version and not only one content. It is taken
/// from the body at every comparison, so a row that somebody edits by hand is another version.
fn tag(body: &[u8]) -> Tag {
    Tag::new(json::sha256(body))
}

/// How a transaction ended.
enum Ended<T> {
    Done(T),
    Unsettled(Error),
}

/// What a transaction is to do with its changes.
enum Then<T> {
    Commit(T),
    Rollback(T),
}

/// Reads a row and its tag.
pub(crate) fn read(turn: &Turn<'_>, slot: &Slot) -> Result<Option<(Vec<u8>, Tag)>> {
    let body = turn.with(|opened| reading(turn, opened, |connection| body(connection, slot)))?.flatten().flatten();
    let body = body.transpose().map_err(|problem| Error::corrupt(slot.object(), problem))?;
    Ok(body.map(|body| {
        let tag = tag(&body);
        (body, tag)
    }))
}

/// Replaces a row that has the expected tag.
pub(crate) fn swap(turn: &Turn<'_>, slot: &Slot, expected: &Tag, new: &[u8]) -> Result<Swap> {
    let swapped = turn.with(|opened| {
        writing(turn, opened, |connection, found| {
            let fits = found != Found::Empty && matches!(body(connection, slot)?, Some(Ok(old)) if tag(&old) == *expected);
            if !fits {
                return Ok(Then::Rollback(false));
            }
            let sql = slot.sql("UPDATE head SET body = ?2 WHERE branch = ?1", "UPDATE record SET body = ?2 WHERE key = ?1");
            one(connection.execute(sql, params![slot.name(), value(new)])?).map(Then::Commit)
        })
    })?;
    Ok(match swapped {
        Some(Ended::Done(true)) => Swap::Swapped(tag(new)),
        Some(Ended::Unsettled(error)) => Swap::Unknown(error),
        // There is no file, so no version of that tag either.
        Some(Ended::Done(false)) | None => Swap::Conflict,
    })
}

/// Creates a row that must not exist, and the file where there is none.
pub(crate) fn create(turn: &Turn<'_>, slot: &Slot, new: &[u8]) -> Result<Create> {
    let created = turn.with_new(|opened| {
        turn.use_log(&opened.connection)?;
        writing(turn, opened, |connection, found| {
            if found == Found::Empty {
                schema::create(connection)?;
            }
            if body(connection, slot)?.is_some() {
                return Ok(Then::Rollback(false));
            }
            let sql = slot.sql("INSERT INTO head (branch, body) VALUES (?1, ?2)", "INSERT INTO record (key, body) VALUES (?1, ?2)");
            one(connection.execute(sql, params![slot.name(), value(new)])?).map(Then::Commit)
        })
    })?;
    Ok(match created {
        Ended::Done(true) => Create::Created,
        Ended::Done(false) => Create::Exists,
        Ended::Unsettled(error) => Create::Unknown(error),
    })
}

/// Creates a head; as [`create`].
pub(crate) fn create_head(turn: &Turn<'_>, slot: &Slot, new: &[u8]) -> Result<Swap> {
    Ok(match create(turn, slot, new)? {
        Create::Created => Swap::Swapped(tag(new)),
        Create::Exists => Swap::Conflict,
        Create::Unknown(error) => Swap::Unknown(error),
    })
}

/// Removes a record. May be repeated, so a failed COMMIT is an error like any other.
pub(crate) fn remove(turn: &Turn<'_>, slot: &Slot) -> Result<()> {
    let removed = turn.with(|opened| {
        writing(turn, opened, |connection, found| {
            let there = found != Found::Empty && body(connection, slot)?.is_some();
            if there {
                let sql = slot.sql("DELETE FROM head WHERE branch = ?1", "DELETE FROM record WHERE key = ?1");
                one(connection.execute(sql, [slot.name()])?)?;
            }
            Ok(if there { Then::Commit(()) } else { Then::Rollback(()) })
        })
    })?;
    match removed {
        Some(Ended::Unsettled(error)) => Err(error),
        Some(Ended::Done(())) | None => Ok(()),
    }
}

/// The branches that have a head. A name nobody can have given is an error.
pub(crate) fn branches(turn: &Turn<'_>) -> Result<Vec<BranchName>> {
    let names = names(turn, "SELECT branch FROM head", "", "")?;
    let parse = |name: Result<String, String>| {
        let corrupt = |shown: &str| Error::corrupt(format!("head of branch {shown:?}"), "no branch can have this name; remove the row");
        match name {
            Ok(name) => name.parse().map_err(|source: Error| corrupt(&name).because(source)),
            Err(shown) => Err(corrupt(&shown)),
        }
    };
    names.into_iter().map(parse).collect()
}

/// The keys of the records below a prefix of whole segments.
pub(crate) fn records(turn: &Turn<'_>, prefix: &str) -> Result<Vec<RecordKey>> {
    // '0' comes right behind '/'.
    let names = match prefix {
        "" => names(turn, "SELECT key FROM record", "", "")?,
        prefix => names(turn, "SELECT key FROM record WHERE key > ?1 AND key < ?2", &format!("{prefix}/"), &format!("{prefix}0"))?,
    };
    let parse = |name: Result<String, String>| {
        let corrupt = |shown: &str| Error::corrupt(shown, "no record can have this key; remove the row");
        match name {
            Ok(name) => RecordKey::try_from(name.clone()).map_err(|source| corrupt(&name).because(source)),
            Err(shown) => Err(corrupt(&shown)),
        }
    };
    names.into_iter().map(parse).collect()
}

/// Texts of one column; those that are not UTF-8 as they can be shown.
fn names(turn: &Turn<'_>, sql: &str, from: &str, to: &str) -> Result<Vec<Result<String, String>>> {
    let list = |connection: &Connection| {
        let mut statement = connection.prepare(sql)?;
        let name = |row: &Row<'_>| {
            let bytes = row.get_ref(0)?.as_bytes_or_null().ok().flatten().unwrap_or_default();
            Ok(String::from_utf8(bytes.to_vec()).map_err(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
        };
        let rows = if from.is_empty() { statement.query_map([], name)? } else { statement.query_map([from, to], name)? };
        rows.collect::<rusqlite::Result<Vec<_>>>()
    };
    Ok(turn.with(|opened| reading(turn, opened, list))?.flatten().unwrap_or_default())
}

/// The body of a row, or what is wrong with it.
type Body = Result<Vec<u8>, &'static str>;

fn body(connection: &Connection, slot: &Slot) -> rusqlite::Result<Option<Body>> {
    let sql = slot.sql("SELECT body FROM head WHERE branch = ?1", "SELECT body FROM record WHERE key = ?1");
    let body = |row: &Row<'_>| {
        Ok(match row.get_ref(0)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(bytes.to_vec()),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => Err("the row's body is neither text nor bytes; restore it"),
        })
    };
    connection.query_row(sql, [slot.name()], body).optional()
}

/// A body as a row keeps it: as text, for people, wherever it is text.
fn value(body: &[u8]) -> ToSqlOutput<'_> {
    match std::str::from_utf8(body) {
        Ok(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        Err(_) => ToSqlOutput::Owned(Value::Blob(body.to_vec())),
    }
}

/// A statement about one row that changed another number of rows is rolled back.
fn one(affected: usize) -> rusqlite::Result<bool> {
    if affected == 1 { Ok(true) } else { Err(rusqlite::Error::StatementChangedRows(affected)) }
}

/// Reads in a transaction, so that all of it is one state. `None` where nothing was written yet.
fn reading<T>(turn: &Turn<'_>, opened: &Opened, read: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<Option<T>> {
    let connection = &opened.connection;
    let attempt = || {
        connection.execute_batch("BEGIN")?;
        let read = schema::look(connection).and_then(|found| match found {
            Found::Ours(_) => Ok((found, Some(read(connection)?))),
            Found::Empty | Found::Foreign => Ok((found, None)),
        });
        rollback(connection)?;
        read
    };
    let (found, read) = turn.patience.patiently(attempt).map_err(|error| failure(&turn.file.path, error))?;
    turn.still(opened)?;
    turn.check(found)?;
    Ok(read)
}

/// Changes in a transaction. The wait for its lock may be long, so the file is compared with the path's when it is over, and once more when
/// all is done.
fn writing<T>(turn: &Turn<'_>, opened: &Opened, change: impl FnOnce(&Connection, Found) -> rusqlite::Result<Then<T>>) -> Result<Ended<T>> {
    let (connection, failed) = (&opened.connection, |error| failure(&turn.file.path, error));
    turn.patience.patiently(|| connection.execute_batch("BEGIN IMMEDIATE")).map_err(failed)?;
    let changed = turn.still(opened).and_then(|()| {
        let found = schema::look(connection).map_err(failed)?;
        turn.check(found)?;
        change(connection, found).map_err(failed)
    });
    match changed {
        Ok(Then::Commit(outcome)) => Ok(match commit(turn, opened)? {
            None => Ended::Done(outcome),
            Some(error) => Ended::Unsettled(error),
        }),
        Ok(Then::Rollback(outcome)) => {
            // Nothing was changed; a connection that cannot even say so is closed.
            let _ = rollback(connection);
            Ok(Ended::Done(outcome))
        }
        Err(error) => {
            let _ = rollback(connection);
            Err(error)
        }
    }
}

/// Commits: `None` where it did, an error that says so where it certainly did not, and one to read back otherwise.
fn commit(turn: &Turn<'_>, opened: &Opened) -> Result<Option<Error>> {
    let (connection, path) = (&opened.connection, &turn.file.path);
    // Without a log, readers can be in its way; the transaction then stays open.
    match turn.patience.patiently(|| connection.execute_batch("COMMIT")) {
        // To a file that is perhaps no longer the one others read.
        Ok(()) => Ok(turn.still(opened).err().map(|cause| astray(path, cause))),
        Err(cause) if !connection.is_autocommit() && rollback(connection).is_ok() => Err(failure(path, cause)),
        Err(cause) => Ok(Some(unsettled(path, cause))),
    }
}

fn rollback(connection: &Connection) -> rusqlite::Result<()> {
    if connection.is_autocommit() { Ok(()) } else { connection.execute_batch("ROLLBACK") }
}

/// What `doctor` looks at: SQLite's own check of the whole file, and how it commits. `None` where there is no file.
pub(crate) fn examine(turn: &Turn<'_>) -> Result<Option<(String, String)>> {
    turn.with(|opened| {
        let text = |sql: &str| {
            let read = || opened.connection.query_row(sql, [], |row| row.get::<_, String>(0));
            turn.patience.patiently(read).map_err(|error| failure(&turn.file.path, error))
        };
        Ok((text("PRAGMA quick_check(1)")?, text("PRAGMA journal_mode")?))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use headwater_core::ErrorKind;

    use super::*;
    use crate::file::ControlFile;
    use crate::wait::{Meanwhile, Patience};

    fn main() -> Slot {
        Slot::Head("main".parse().unwrap())
    }

    /// A turn that never waits, or in whose first pause this happens.
    fn turn(file: &ControlFile, meanwhile: Option<Meanwhile>) -> Turn<'_> {
        let patience = Patience::new(Duration::from_secs(if meanwhile.is_some() { 3600 } else { 0 }));
        patience.meanwhile.set(meanwhile);
        Turn { file, patience }
    }

    fn file(path: &Path) -> ControlFile {
        ControlFile::new(path.to_owned(), Duration::ZERO)
    }

    /// A file with a head, what its expected tag is, and how it goes away: for another file, or for none.
    fn replacing(folder: &Path) -> (ControlFile, Tag, [Meanwhile; 2]) {
        let [path, other] = ["control.db", "other.db"].map(|name| folder.join(name));
        let control = file(&path);
        create(&turn(&control, None), &main(), b"1").unwrap();
        create(&turn(&file(&other), None), &main(), b"1").unwrap();
        let delete = move || {
            for end in ["", "-wal", "-shm"] {
                let _ = fs::remove_file(format!("{}{end}", path.display()));
            }
            path
        };
        let delete_too = delete.clone();
        (control, tag(b"1"), [Box::new(move || fs::rename(other, delete()).unwrap()), Box::new(move || drop(delete_too()))])
    }

    /// What any program reads at the path now, and what the file that was replaced has.
    fn bodies(file: &ControlFile, before: &Connection) -> (Option<Vec<u8>>, String) {
        let now = read(&turn(file, None), &main()).unwrap().map(|(body, _)| body);
        (now, before.query_row("SELECT body FROM head", [], |row| row.get(0)).unwrap())
    }

    #[test]
    fn a_file_that_is_replaced_while_a_writer_waits_for_its_lock_is_not_written_to() {
        for way in 0..2 {
            let folder = tempfile::tempdir().unwrap();
            let (control, expected, ways) = replacing(folder.path());
            let replace = ways.into_iter().nth(way).unwrap();
            let [holder, witness] = [(); 2].map(|()| Connection::open(&control.path).unwrap());
            witness.query_row("SELECT count(*) FROM head", [], |_| Ok(())).unwrap();
            holder.execute_batch("BEGIN IMMEDIATE").unwrap();
            let meanwhile = move || {
                replace();
                holder.execute_batch("ROLLBACK").unwrap();
            };
            let error = swap(&turn(&control, Some(Box::new(meanwhile))), &main(), &expected, b"2").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
            assert!(error.to_string().contains("replaced") && error.context("path").is_some(), "{error:?}");
            assert_eq!(bodies(&control, &witness), ((way == 0).then(|| b"1".to_vec()), "1".to_owned()));
            // The next one is at the new file.
            let again = swap(&turn(&control, None), &main(), &expected, b"3").unwrap();
            assert!(matches!((way, again), (0, Swap::Swapped(_)) | (1, Swap::Conflict)));
        }
    }

    /// Without a log, a reader holds COMMIT up.
    #[test]
    fn a_commit_to_a_file_that_was_replaced_meanwhile_is_unknown() {
        for way in 0..2 {
            let folder = tempfile::tempdir().unwrap();
            let (control, expected, ways) = replacing(folder.path());
            let replace = ways.into_iter().nth(way).unwrap();
            drop(control);
            let control = file(&folder.path().join("control.db"));
            let [reader, witness] = [(); 2].map(|()| Connection::open(&control.path).unwrap());
            witness.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).unwrap();
            reader.execute_batch("BEGIN; SELECT count(*) FROM head").unwrap();
            let meanwhile = move || {
                replace();
                reader.execute_batch("ROLLBACK").unwrap();
            };
            let outcome = swap(&turn(&control, Some(Box::new(meanwhile))), &main(), &expected, b"2").unwrap();
            let Swap::Unknown(cause) = outcome else { panic!("{outcome:?}") };
            assert!(cause.to_string().contains("replaced"), "{cause:?}");
            assert_eq!(bodies(&control, &witness), ((way == 0).then(|| b"1".to_vec()), "2".to_owned()), "it went to the old file");
        }
    }
}
