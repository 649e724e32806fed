//! A model of tables: what every state holds, and what differs between two of them, known without reading anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use headwater_conformance::faults::Random;
use headwater_conformance::rows::Changed;
use headwater_core::filter::{Comparison, Filter};
use headwater_core::{Branch, Result, Transaction};

/// The value of each column; the first is never null.
pub(crate) type Row = Vec<Option<i64>>;

/// One table of the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    identity: usize,
    life: usize,
    columns: usize,
    keyed: bool,
    rows: Vec<Row>,
}

/// One state of the model: live tables by name, and dropped ones in the order of their drops.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ledger {
    live: BTreeMap<String, Table>,
    dropped: Vec<(String, Table)>,
    /// Lives so far.
    lives: usize,
}

/// A table's names before and after, whether it was recreated, whether its columns changed, and its rows.
pub(crate) type Expected = (Option<String>, Option<String>, bool, bool, Changed);

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn schema(columns: usize) -> SchemaRef {
    Arc::new(Schema::new((0..columns).map(|i| Field::new(format!("c{i}"), DataType::Int64, i > 0)).collect::<Vec<_>>()))
}

fn batch(columns: usize, rows: &[Row]) -> RecordBatch {
    let column = |i: usize| Arc::new(rows.iter().map(|row| row[i]).collect::<Int64Array>()) as ArrayRef;
    RecordBatch::try_new(schema(columns), (0..columns).map(column).collect()).unwrap()
}

fn text(row: &Row, columns: usize) -> String {
    let cell = |i: usize| row.get(i).copied().flatten().map_or("∅".to_owned(), |value| value.to_string());
    (0..columns).map(cell).collect::<Vec<_>>().join("|")
}

/// What differs between two states, sorted.
pub(crate) fn expected(earlier: &Ledger, later: &Ledger) -> Vec<Expected> {
    let texts = |table: &Table, columns| table.rows.iter().map(|row| text(row, columns)).collect::<Vec<_>>();
    let mut all = Vec::new();
    let find = |state: &Ledger, identity| {
        state.live.iter().find(|(_, table)| table.identity == identity).map(|(key, table)| (key.clone(), table.clone()))
    };
    for (key, before) in &earlier.live {
        let Some((to, after)) = find(later, before.identity) else {
            let deleted = texts(before, before.columns);
            all.push((Some(key.clone()), None, false, false, Changed { deleted, ..Changed::default() }));
            continue;
        };
        let (recreated, columns) = (before.life != after.life, before.columns != after.columns);
        let changed = if recreated {
            Changed { added: texts(&after, after.columns), updated: Vec::new(), deleted: texts(before, before.columns) }
        } else if before.keyed {
            by_key(before, &after)
        } else {
            Changed::between(&texts(before, after.columns), &texts(&after, after.columns))
        };
        if recreated || columns || *key != to || changed != Changed::default() {
            all.push((Some(key.clone()), Some(to), recreated, columns, changed));
        }
    }
    for (key, after) in &later.live {
        if find(earlier, after.identity).is_none() {
            let added = texts(after, after.columns);
            all.push((None, Some(key.clone()), false, false, Changed { added, ..Changed::default() }));
        }
    }
    all.iter_mut().for_each(|expected| expected.4.sort());
    all.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    all
}

fn by_key(before: &Table, after: &Table) -> Changed {
    let rows = |table: &Table| table.rows.iter().map(|row| (row[0], text(row, after.columns))).collect::<BTreeMap<_, _>>();
    let (old, new) = (rows(before), rows(after));
    let mut changed = Changed::default();
    for (key, row) in &new {
        match old.get(key) {
            None => changed.added.push(row.clone()),
            Some(was) if was != row => changed.updated.push((was.clone(), row.clone())),
            Some(_) => {}
        }
    }
    changed.deleted = old.into_iter().filter(|(key, _)| !new.contains_key(key)).map(|(_, row)| row).collect();
    changed
}

/// Few different values, so that rows are often equal.
fn drawn(table: &Table, random: &mut Random) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..1 + random.below(5) {
        let value = |random: &mut Random| (random.below(3) > 0).then(|| i64::from(random.below(3)));
        let mut row = vec![Some(i64::from(random.below(8)))];
        row.extend((1..table.columns).map(|_| value(random)));
        if !table.keyed || rows.iter().all(|other| other[0] != row[0]) {
            rows.push(row);
        }
    }
    rows
}

async fn commit<F: Future<Output = Result<()>>>(branch: &Branch, body: impl Fn(Transaction) -> F) {
    branch.transact(body).await.unwrap();
}

fn upsert(table: &mut Table, rows: &[Row]) {
    for row in rows {
        match table.rows.iter_mut().find(|old| old[0] == row[0]) {
            Some(old) => old.clone_from(row),
            None => table.rows.push(row.clone()),
        }
    }
}

/// One random step, on the branch and in the model. What it was.
pub(crate) async fn step(branch: &Branch, state: &mut Ledger, random: &mut Random) -> &'static str {
    let free: Vec<&str> = NAMES.into_iter().filter(|name| !state.live.contains_key(*name)).collect();
    let keys: Vec<String> = state.live.keys().cloned().collect();
    let dice = random.below(100);
    if keys.is_empty() || (dice < 6 && !free.is_empty()) {
        let key = *random.pick(&free);
        // A dropped name begins a new life, or is another table.
        let last = state.dropped.iter().rposition(|(name, _)| name == key);
        state.lives += 1;
        if let Some(place) = last.filter(|_| random.below(2) == 0) {
            let (_, old) = state.dropped.remove(place);
            state.live.insert(key.to_owned(), Table { life: state.lives, rows: Vec::new(), ..old });
            commit(branch, |tx| async move { tx.recreate_table(key, None).await.map(drop) }).await;
            return "recreate";
        }
        let mut table = Table { identity: state.lives, life: state.lives, columns: 2, keyed: random.below(2) == 0, rows: Vec::new() };
        table.rows = drawn(&table, random);
        let (keyed, rows) = (table.keyed, batch(2, &table.rows));
        state.live.insert(key.to_owned(), table);
        let create = |tx: Transaction| {
            let rows = rows.clone();
            async move {
                let table = match keyed {
                    true => tx.create_keyed_table(key, schema(2), &["c0"]).await?,
                    false => tx.create_table(key, schema(2)).await?,
                };
                tx.append(&table, rows).await
            }
        };
        commit(branch, create).await;
        return "create";
    }
    let key = random.pick(&keys).as_str();
    let Some(table) = state.live.get_mut(key) else { return "nothing" };
    let rows = drawn(table, random);
    match dice {
        0..10 if !free.is_empty() => {
            let to = *random.pick(&free);
            let table = state.live.remove(key);
            state.live.extend(table.map(|table| (to.to_owned(), table)));
            commit(branch, |tx| async move { tx.rename_table(&tx.table(key).await?, to).await }).await;
            "rename"
        }
        10..15 => {
            let table = state.live.remove(key);
            state.dropped.extend(table.map(|table| (key.to_owned(), table)));
            commit(branch, |tx| async move { tx.drop_table(&tx.table(key).await?).await }).await;
            "drop"
        }
        15..22 if table.columns < 4 => {
            let name = format!("c{}", table.columns);
            table.columns += 1;
            table.rows.iter_mut().for_each(|row| row.push(None));
            let added = || vec![Field::new(&name, DataType::Int64, true)];
            let add = |tx: Transaction| {
                let added = added();
                async move { tx.add_columns(&tx.table(key).await?, added).await }
            };
            commit(branch, add).await;
            "add column"
        }
        22..32 => {
            commit(branch, |tx| async move { tx.optimize(&tx.table(key).await?).await }).await;
            "optimize"
        }
        32..45 => {
            let id = i64::from(random.below(8));
            table.rows.retain(|row| row[0] != Some(id));
            let which = || Filter::Compare { column: "c0".to_owned(), op: Comparison::Equal, value: Arc::new(Int64Array::from(vec![id])) };
            commit(branch, |tx| async {
                let tx = tx;
                tx.delete(&tx.table(key).await?, which()).await
            })
            .await;
            "delete"
        }
        45..55 => {
            let id = i64::from(random.below(8));
            table.rows.iter_mut().filter(|row| row[0] == Some(id)).for_each(|row| row[1] = Some(9));
            let which = || Filter::Compare { column: "c0".to_owned(), op: Comparison::Equal, value: Arc::new(Int64Array::from(vec![id])) };
            let nine = || vec![("c1", Arc::new(Int64Array::from(vec![9])) as ArrayRef)];
            commit(branch, |tx| async {
                let tx = tx;
                tx.update(&tx.table(key).await?, which(), nine()).await
            })
            .await;
            "update"
        }
        55..70 => {
            // Sometimes the same rows, the other way round.
            let what = if random.below(2) == 0 { "overwrite" } else { "overwrite with the same" };
            table.rows = if what == "overwrite" { rows } else { table.rows.iter().rev().cloned().collect() };
            let rows = batch(table.columns, &table.rows);
            let overwrite = |tx: Transaction| {
                let rows = rows.clone();
                async move { tx.overwrite(&tx.table(key).await?, rows).await }
            };
            commit(branch, overwrite).await;
            what
        }
        _ => {
            let incoming = batch(table.columns, &rows);
            let keyed = table.keyed;
            if keyed {
                upsert(table, &rows)
            } else {
                table.rows.extend(rows)
            }
            let write = |tx: Transaction| {
                let incoming = incoming.clone();
                async move {
                    let table = tx.table(key).await?;
                    if keyed { tx.upsert(&table, incoming).await } else { tx.append(&table, incoming).await }
                }
            };
            commit(branch, write).await;
            if keyed { "upsert" } else { "append" }
        }
    }
}
