//! What clients do, drawn from a seed, and what each of it means to the model.

use std::collections::BTreeMap;

use headwater_conformance::faults::{Random, Weather};
use headwater_core::store::Scan;
use headwater_core::{ErrorKind, Result, Transaction};

use super::numbers::{batch, collect, schema};

/// The tables there can be. The last one counts.
pub(crate) const TABLES: [&str; 5] = ["a", "b", "c", "d", "counter"];

/// One thing a client does. Writes are known in the journal by the number of the step that asked for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Appends the step's number to tables.
    Append(Vec<usize>),
    /// Leaves the step's number alone in a table.
    Overwrite(usize),
    /// Reads the counter and puts the next number in its place: a lost update shows.
    Count,
    /// Reads one table and appends the sum of what it read to another: what it read must still be so.
    Sum {
        from: usize,
        to: usize,
    },
    /// Creates a table that holds the step's number.
    Create(usize),
    Rename {
        from: usize,
        to: usize,
    },
    Drop(usize),
    /// Reads every table of what is current.
    Read,
    /// Reads every table of a state so many commits ago.
    ReadPast(u64),
    /// Opens the catalog again, with nothing cached.
    Reopen,
    /// Tries a commit whose outcome is unknown again, with its token.
    Settle,
    /// Swaps in a head that says the same, but for an intent that holds no table.
    Toggle,
}

/// An action of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) number: usize,
    pub(crate) client: usize,
    pub(crate) action: Action,
    /// Whether the caller names the commit.
    pub(crate) token: bool,
}

/// The rows of every live table.
pub(crate) type Tables = BTreeMap<String, Vec<i64>>;

impl Action {
    pub(crate) fn writes(&self) -> bool {
        !matches!(self, Self::Read | Self::ReadPast(_) | Self::Reopen | Self::Settle | Self::Toggle)
    }

    /// The model: what a step that writes makes of a state, or why it cannot.
    pub(crate) fn apply(&self, number: usize, tables: &mut Tables) -> Result<(), ErrorKind> {
        let there = |tables: &Tables, table: usize| if tables.contains_key(TABLES[table]) { Ok(()) } else { Err(ErrorKind::NotFound) };
        let free = |tables: &Tables, table: usize| if tables.contains_key(TABLES[table]) { Err(ErrorKind::AlreadyExists) } else { Ok(()) };
        let name = |table: usize| TABLES[table].to_owned();
        let number = number as i64;
        match self {
            Self::Append(to) => {
                to.iter().try_for_each(|table| there(tables, *table))?;
                to.iter().for_each(|table| tables.entry(name(*table)).or_default().push(number));
            }
            Self::Overwrite(table) => {
                there(tables, *table)?;
                tables.insert(name(*table), vec![number]);
            }
            Self::Count => {
                there(tables, TABLES.len() - 1)?;
                let next = next(&tables["counter"]);
                tables.insert(name(TABLES.len() - 1), vec![next]);
            }
            Self::Sum { from, to } => {
                there(tables, *from).and_then(|()| there(tables, *to))?;
                let sum = sum(&tables[TABLES[*from]]);
                tables.entry(name(*to)).or_default().push(sum);
            }
            Self::Create(table) => {
                free(tables, *table)?;
                tables.insert(name(*table), vec![number]);
            }
            Self::Rename { from, to } => {
                there(tables, *from)?;
                free(tables, *to)?;
                let rows = tables.remove(TABLES[*from]).unwrap_or_default();
                tables.insert(name(*to), rows);
            }
            Self::Drop(table) => {
                there(tables, *table)?;
                tables.remove(TABLES[*table]);
            }
            Self::Read | Self::ReadPast(_) | Self::Reopen | Self::Settle | Self::Toggle => unreachable!("it changes nothing"),
        }
        Ok(())
    }

    /// The same, asked of the real thing.
    pub(crate) async fn ask(&self, number: usize, tx: &Transaction) -> Result<()> {
        let number = [number as i64];
        match self {
            Self::Append(to) => {
                for table in to {
                    tx.append(&tx.table(TABLES[*table]).await?, batch(&number)).await?;
                }
                Ok(())
            }
            Self::Overwrite(table) => tx.overwrite(&tx.table(TABLES[*table]).await?, batch(&number)).await,
            Self::Count => {
                let counter = tx.table("counter").await?;
                let read = collect(&tx.scan(&counter, &Scan::default()).await?).await?;
                tx.overwrite(&counter, batch(&[next(&read)])).await
            }
            Self::Sum { from, to } => {
                let (from, to) = (tx.table(TABLES[*from]).await?, tx.table(TABLES[*to]).await?);
                let read = collect(&tx.scan(&from, &Scan::default()).await?).await?;
                tx.append(&to, batch(&[sum(&read)])).await
            }
            Self::Create(table) => {
                let table = tx.create_table(TABLES[*table], schema()).await?;
                tx.append(&table, batch(&number)).await
            }
            Self::Rename { from, to } => tx.rename_table(&tx.table(TABLES[*from]).await?, TABLES[*to]).await,
            Self::Drop(table) => tx.drop_table(&tx.table(TABLES[*table]).await?).await,
            Self::Read | Self::ReadPast(_) | Self::Reopen | Self::Settle | Self::Toggle => unreachable!("it changes nothing"),
        }
    }
}

fn next(counter: &[i64]) -> i64 {
    counter.last().copied().unwrap_or_default() + 1
}

fn sum(numbers: &[i64]) -> i64 {
    numbers.iter().sum::<i64>() % 1_000_003
}

/// How a history is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) writers: usize,
    pub(crate) readers: usize,
    /// Clients that only toggle.
    pub(crate) togglers: usize,
    pub(crate) steps_each: usize,
    pub(crate) weather: Weather,
    /// Names that each commit finds free: its entry lists them, so that the tail spills sooner.
    pub(crate) names: usize,
}

impl Shape {
    /// One of many kinds of history.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let weathers = [(0, 0), (10, 4), (30, 6), (30, 6), (90, 6)];
        let (faults_per_mille, cuts_per_mille) = *random.pick(&weathers);
        Self {
            writers: 2 + random.below(3) as usize,
            readers: 1 + random.below(2) as usize,
            togglers: 0,
            // Mostly short: a long history has a long tail in its head, and costs accordingly.
            steps_each: *random.pick(&[6, 8, 8, 8, 20]),
            weather: Weather { faults_per_mille, cuts_per_mille, turns: 1 + random.below(8), timeout: 1 + random.below(150) },
            names: *random.pick(&[0, 0, 0, 0, 60]),
        }
    }

    pub(crate) fn clients(&self) -> usize {
        self.writers + self.readers + self.togglers
    }

    /// The steps of all clients.
    pub(crate) fn steps(&self, random: &mut Random) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in 0..self.steps_each {
            for client in 0..self.clients() {
                let action = match client {
                    _ if client < self.writers => write(random),
                    _ if client < self.writers + self.readers => read(random),
                    _ => Action::Toggle,
                };
                // Number 0 made the tables.
                steps.push(Step { number: steps.len() + 1, client, action, token: random.chance(300) });
            }
        }
        steps
    }
}

fn write(random: &mut Random) -> Action {
    let mut table = || random.below(4) as usize;
    let (one, other) = (table(), table());
    match random.below(100) {
        0..35 => Action::Append((0..4).filter(|table| *table == one || random.chance(300)).collect()),
        35..45 => Action::Overwrite(one),
        45..60 => Action::Count,
        60..70 => Action::Sum { from: one, to: other },
        70..81 => Action::Create(one),
        81..85 => Action::Rename { from: one, to: other },
        85..88 => Action::Drop(one),
        88..95 => Action::Settle,
        95..98 => Action::Reopen,
        _ => Action::Read,
    }
}

fn read(random: &mut Random) -> Action {
    match random.below(100) {
        0..60 => Action::Read,
        60..85 => Action::ReadPast(u64::from(random.below(40))),
        85..92 => Action::Settle,
        _ => Action::Reopen,
    }
}
