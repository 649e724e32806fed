//! What stands in the file: two tables, the views for people, and the version of all that.

use rusqlite::Connection;

/// Names a file of ours, in its header.
pub(crate) const APPLICATION: i32 = 0x4877_7472;

/// The version of the schema that this build makes and knows.
pub const VERSION: i32 = 1;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Without any table: nothing was written yet.
    Empty,
    /// Ours, of this schema version.
    Ours(i32),
    /// Another program's.
    Foreign,
}

/// Looks. Inside a transaction, so that it holds for what follows.
pub(crate) fn look(connection: &Connection) -> rusqlite::Result<Found> {
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i32>(0));
    if number("PRAGMA application_id")? == APPLICATION {
        return Ok(Found::Ours(number("PRAGMA user_version")?));
    }
    Ok(match number("SELECT count(*) FROM sqlite_schema")? {
        0 => Found::Empty,
        _ => Found::Foreign,
    })
}

/// Makes the tables and views of an empty file, in the transaction that is open.
pub(crate) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(TABLES)?;
    connection.execute_batch(VIEWS)?;
    connection.execute_batch(&format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}"))
}

/// A body that is not UTF-8 is kept as a blob, and is no JSON; no catalog writes one. The index is for the view of the journal, which
/// follows pointers that name a segment by the last 26 characters of its key.
const TABLES: &str = "
CREATE TABLE head (branch TEXT NOT NULL PRIMARY KEY, body ANY NOT NULL) STRICT;
CREATE TABLE record (key TEXT NOT NULL PRIMARY KEY, body ANY NOT NULL) STRICT;
CREATE INDEX record_id ON record (substr(key, -26));
";

/// A row that is not JSON shows in no view, and stops none.
const VIEWS: &str = "
CREATE VIEW heads AS
SELECT branch,
       body ->> '$.state' AS state,
       body ->> '$.seq' AS seq,
       body ->> '$.rev' AS rev,
       body ->> '$.\"commit\"' AS \"commit\",
       strftime('%Y-%m-%dT%H:%M:%fZ', (body ->> '$.time') / 1000.0, 'unixepoch') AS time,
       body ->> '$.incarnation' AS incarnation,
       body ->> '$.tables.count' AS tables,
       body ->> '$.tombstones.count' AS dropped,
       json_array_length(body, '$.intents') AS intents,
       json_array_length(body, '$.tail') AS tail,
       length(CAST(body AS BLOB)) AS bytes
FROM head WHERE json_valid(body);

CREATE VIEW tables AS
SELECT head.branch AS branch,
       t.value ->> '$.key' AS name,
       CAST(t.value ->> '$.rows' AS INTEGER) AS rows,
       t.value ->> '$.state' AS state,
       t.value ->> '$.\"commit\"' AS \"commit\",
       t.value ->> '$.table_id' AS table_id,
       t.value ->> '$.incarnation_id' AS incarnation_id,
       t.value ->> '$.owner' AS owner,
       t.value ->> '$.properties.key' AS key_columns,
       t.value ->> '$.schema_hash' AS schema_hash,
       t.value ->> '$.pin.path' AS pin,
       t.value ->> '$.pin.id' AS pin_id
FROM head, json_each(CASE WHEN json_valid(head.body) THEN head.body END, '$.tables.heads') AS t;

CREATE VIEW intents AS
SELECT head.branch AS branch,
       i.value ->> '$.id' AS id,
       i.value ->> '$.owner' AS owner,
       i.value -> '$.tables' AS tables,
       i.value ->> '$.record.key' AS record
FROM head, json_each(CASE WHEN json_valid(head.body) THEN head.body END, '$.intents') AS i;

CREATE VIEW commits AS
WITH RECURSIVE piece (branch, entries, older) AS (
    SELECT branch, body -> '$.tail', body ->> '$.segments[0].id' FROM head WHERE json_valid(body)
    UNION ALL
    SELECT piece.branch, record.body -> '$.entries', record.body ->> '$.segments[0].id'
    FROM piece JOIN record ON substr(record.key, -26) = lower(piece.older)
    WHERE record.key GLOB 'segment/*' AND json_valid(record.body)
)
SELECT piece.branch AS branch,
       e.value ->> '$.seq' AS seq,
       e.value ->> '$.\"commit\"' AS \"commit\",
       strftime('%Y-%m-%dT%H:%M:%fZ', (e.value ->> '$.time') / 1000.0, 'unixepoch') AS time,
       e.value ->> '$.kind' AS kind,
       e.value ->> '$.actor' AS actor,
       e.value ->> '$.message' AS message,
       e.value ->> '$.token' AS token,
       coalesce(e.value -> '$.body.inline.events', CASE WHEN json_valid(apart.body) THEN apart.body -> '$.events' END) AS events
FROM piece, json_each(piece.entries) AS e
LEFT JOIN record AS apart ON apart.key = e.value ->> '$.body.record.key';
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_found() {
        let connection = Connection::open_in_memory().unwrap();
        assert_eq!(look(&connection).unwrap(), Found::Empty);
        create(&connection).unwrap();
        assert_eq!(look(&connection).unwrap(), Found::Ours(VERSION));
        let other = Connection::open_in_memory().unwrap();
        other.execute_batch("CREATE TABLE t (x)").unwrap();
        assert_eq!(look(&other).unwrap(), Found::Foreign);
    }

    #[test]
    fn a_row_that_is_no_json_stops_no_view() {
        let connection = Connection::open_in_memory().unwrap();
        create(&connection).unwrap();
        for (i, body) in
            ["'{'", "''", "x'ff'", "7", "'null'", "'[]'", "'{\"tail\": 1, \"segments\": {}, \"time\": \"x\"}'"].iter().enumerate()
        {
            connection
                .execute_batch(&format!("INSERT INTO head VALUES ('{i}', {body}); INSERT INTO record VALUES ('segment/{i}', {body})"))
                .unwrap();
        }
        for view in ["heads", "tables", "commits", "intents"] {
            connection.query_row(&format!("SELECT count(*), max(branch) FROM {view}"), [], |row| row.get::<_, i64>(0)).unwrap();
        }
    }
}
