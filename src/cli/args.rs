//! What the command understands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::input::Format;
use super::output::OutputFormat;

/// Commits atomically across many tables on an object store.
#[derive(Debug, Parser)]
#[command(name = "headwater", version, about, max_term_width = 120)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// What every command takes.
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What every command takes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// Print one JSON document; errors, too, are JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The branch.
    #[arg(long, global = true, value_name = "NAME", default_value = "main")]
    pub(crate) branch: String,
    /// Where the catalog's control is, if not beside its data: sqlite:PATH, or a folder or URL of its own.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) control: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Load files into tables, as one commit; creates the catalog and the tables where they are missing.
    Load(Load),
    /// Show the current state: every table with its rows and last commit.
    Heads(Root),
    /// Show the commits, newest first.
    Log(Log),
    /// Read a table.
    Read(Read),
    /// Query all tables of a snapshot.
    #[cfg(feature = "sql")]
    Sql(Sql),
    /// Show which rows of a table were added, updated and deleted since a commit.
    Changes(Changes),
    /// Show what happened to each table between two commits.
    Diff(Diff),
    /// List the data files of a table, for DuckDB, Spark or Ray; of a Lance table, the dataset and its version.
    Files(Files),
    /// Create, change and show tables.
    #[command(subcommand)]
    Table(Table),
    /// Lay tables out in fewer and larger files; their rows stay.
    Optimize(Optimize),
    /// Check that everything the branches refer to is there and undamaged.
    Verify(Verify),
    /// List what this build has, and which feature adds the rest.
    Adapters,
    /// Try whether a place keeps the promises commits stand on; there need not be a catalog yet.
    Doctor(Root),
}

/// A catalog.
#[derive(Args, Debug)]
pub(crate) struct Root {
    /// The catalog: a folder, or a URL with options.
    #[arg(value_name = "URL")]
    pub(crate) url: String,
}

/// What a commit is called.
#[derive(Args, Clone, Debug)]
pub(crate) struct Committing {
    /// Why, for the log.
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// Names this commit: the same command with the same token commits once.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
}

/// How rows go into a table that has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Add the rows.
    Append,
    /// Put them in the place of all the table has.
    Overwrite,
    /// Replace the rows whose key is there, and add the others.
    Upsert,
}

/// Where a table's versions stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lineage {
    /// Each by itself.
    Detached,
    /// Also on the chain of the store's format, so that any program that knows the format finds the latest.
    Mirrored,
}

impl From<Lineage> for headwater::Lineage {
    fn from(lineage: Lineage) -> Self {
        match lineage {
            Lineage::Detached => Self::Detached,
            Lineage::Mirrored => Self::Mirrored,
        }
    }
}

/// `load`.
#[derive(Args, Debug)]
pub(crate) struct Load {
    #[command(flatten)]
    pub(crate) root: Root,
    /// A table and the file for it; once for each table.
    #[arg(long = "table", value_name = "NAME=FILE", required = true, value_parser = table_file)]
    pub(crate) tables: Vec<(String, PathBuf)>,
    /// What becomes of rows that are there.
    #[arg(long, value_enum, default_value = "append")]
    pub(crate) mode: Mode,
    /// The columns that name a row, for a table that is created: no two rows may share their values.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) key: Vec<String>,
    /// Where the versions of a table that is created stand.
    #[arg(long, value_enum)]
    pub(crate) lineage: Option<Lineage>,
    /// Text that means null in CSV files, besides the empty field; may be given more than once.
    #[arg(long = "null", value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) nulls: Vec<String>,
    /// The format of the files; by their names if not given.
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// The data store of a catalog that is created.
    #[arg(long, value_name = "KIND")]
    pub(crate) store: Option<String>,
    #[command(flatten)]
    pub(crate) committing: Committing,
}

impl Load {
    /// What a table has that is created.
    pub(crate) fn options(&self) -> headwater::TableOptions {
        headwater::TableOptions { key_columns: self.key.clone(), lineage: self.lineage.map(Into::into).unwrap_or_default() }
    }
}

fn table_file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !file.is_empty() => Ok((name.to_owned(), PathBuf::from(file))),
        _ => Err("write NAME=FILE".to_owned()),
    }
}

/// `log`.
#[derive(Args, Debug)]
pub(crate) struct Log {
    #[command(flatten)]
    pub(crate) root: Root,
    /// At most this many commits.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Begin at this commit number and go back.
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
}

/// A table at some point in time.
#[derive(Args, Debug)]
pub(crate) struct Place {
    #[command(flatten)]
    pub(crate) root: Root,
    /// The table.
    #[arg(value_name = "TABLE")]
    pub(crate) table: String,
    /// As it was: after this many commits, after this commit, or at this time (RFC 3339).
    #[arg(long, value_name = "SEQ|COMMIT|TIME")]
    pub(crate) at: Option<String>,
}

/// `read`.
#[derive(Args, Debug)]
pub(crate) struct Read {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Only these columns, in this order.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) columns: Option<Vec<String>>,
    /// Only rows for which this holds: =, <>, <, <=, >, >= and a value, "is null", "is not null"; several must all hold.
    #[arg(long = "where", value_name = "COL OP VALUE")]
    pub(crate) conditions: Vec<String>,
    /// At most this many rows.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Where rows go.
#[derive(Args, Debug)]
pub(crate) struct Output {
    /// The output format; by the name of the output file, or a table for people, if not given.
    #[arg(long, value_enum)]
    pub(crate) format: Option<OutputFormat>,
    /// Write to this file instead of standard output.
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(crate) path: Option<PathBuf>,
}

/// `sql`.
#[cfg(feature = "sql")]
#[derive(Args, Debug)]
pub(crate) struct Sql {
    #[command(flatten)]
    pub(crate) root: Root,
    /// One statement that reads. Names that are not in lower case stand in double quotes.
    #[arg(value_name = "QUERY")]
    pub(crate) query: String,
    /// On the tables as they were: after this many commits, after this commit, or at this time (RFC 3339).
    #[arg(long, value_name = "SEQ|COMMIT|TIME")]
    pub(crate) at: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// `changes`.
#[derive(Args, Debug)]
pub(crate) struct Changes {
    #[command(flatten)]
    pub(crate) root: Root,
    /// The table.
    #[arg(value_name = "TABLE")]
    pub(crate) table: String,
    /// What happened after this: a commit's number, its 26 characters, a time (RFC 3339), or the cursor that an earlier call printed.
    #[arg(long, value_name = "SEQ|CURSOR")]
    pub(crate) since: String,
    /// And not after this; up to now if not given.
    #[arg(long, value_name = "SEQ")]
    pub(crate) until: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// `diff`.
#[derive(Args, Debug)]
pub(crate) struct Diff {
    #[command(flatten)]
    pub(crate) root: Root,
    /// What happened after this: a commit's number, its 26 characters, a time (RFC 3339), or a cursor.
    #[arg(long, value_name = "SEQ|CURSOR")]
    pub(crate) from: String,
    /// And not after this; up to now if not given.
    #[arg(long, value_name = "SEQ")]
    pub(crate) to: Option<String>,
}

/// `optimize`.
#[derive(Args, Debug)]
pub(crate) struct Optimize {
    #[command(flatten)]
    pub(crate) root: Root,
    /// The tables; all of them if none is named.
    #[arg(value_name = "TABLE")]
    pub(crate) tables: Vec<String>,
    #[command(flatten)]
    pub(crate) committing: Committing,
}

/// `files`.
#[derive(Args, Debug)]
pub(crate) struct Files {
    #[command(flatten)]
    pub(crate) place: Place,
}

/// `table …`.
#[derive(Debug, Subcommand)]
pub(crate) enum Table {
    /// Create an empty table.
    Create {
        #[command(flatten)]
        root: Root,
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
        /// A column; once for each.
        #[arg(long = "column", value_name = "NAME TYPE [not null]", required = true)]
        columns: Vec<String>,
        /// The columns that name a row: no two rows may share their values.
        #[arg(long, value_name = "A,B", value_delimiter = ',')]
        key: Vec<String>,
        /// Where its versions stand.
        #[arg(long, value_enum, default_value = "detached")]
        lineage: Lineage,
        #[command(flatten)]
        committing: Committing,
    },
    /// Give a table another name; its rows and history stay.
    Rename {
        #[command(flatten)]
        root: Root,
        /// Its name.
        #[arg(value_name = "FROM")]
        from: String,
        /// Its new name.
        #[arg(value_name = "TO")]
        to: String,
        #[command(flatten)]
        committing: Committing,
    },
    /// Drop a table; earlier states still have it.
    Drop {
        #[command(flatten)]
        root: Root,
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        committing: Committing,
    },
    /// Begin a new, empty life of a dropped table, with the same identity.
    Recreate {
        #[command(flatten)]
        root: Root,
        /// The name it had.
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        committing: Committing,
    },
    /// Add columns at the end; the rows that are there have nulls in them.
    AddColumn {
        #[command(flatten)]
        root: Root,
        /// The table.
        #[arg(value_name = "NAME")]
        name: String,
        /// A column; once for each.
        #[arg(long = "column", value_name = "NAME TYPE", required = true)]
        columns: Vec<String>,
        #[command(flatten)]
        committing: Committing,
    },
    /// Index a column of a Lance table: rows are found and changed by it without reading the others.
    Index {
        #[command(flatten)]
        root: Root,
        /// The table.
        #[arg(value_name = "NAME")]
        name: String,
        /// The column.
        #[arg(value_name = "COLUMN")]
        column: String,
        #[command(flatten)]
        committing: Committing,
    },
    /// Show a table's columns and its current version.
    Show {
        #[command(flatten)]
        root: Root,
        /// The table.
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// `verify`.
#[derive(Args, Debug)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) root: Root,
    /// Read the data files, too, and compare their digests.
    #[arg(long)]
    pub(crate) data: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_table_and_its_file_are_split_at_the_first_equals_sign() {
        assert_eq!(table_file("a b=x=y.csv"), Ok(("a b".to_owned(), PathBuf::from("x=y.csv"))));
        assert!(table_file("a").is_err());
        assert!(table_file("a=").is_err());
        assert_eq!(table_file("=x"), Ok((String::new(), PathBuf::from("x"))), "the name is judged where names are");
    }
}
