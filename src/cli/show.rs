//! `heads` and `log`: the present and the past of a branch.

use std::collections::HashMap;

use headwater::head::{Event, TableHead, TableState};
use headwater::ids::TableId;
use headwater::{At, LogEntry, Snapshot};
use serde_json::{Value, json};

use super::args::{Common, Log, Root};
use super::failure::Failure;
use super::output::{Target, print, style};
use super::render::{Grid, count, time, visible};

/// Commits that are read at once: as many as need to be in memory.
const PAGE: usize = 256;

/// Runs `heads`.
pub(crate) async fn heads(args: &Root, common: &Common) -> Result<(), Failure> {
    let (_, branch) = super::open_branch(&args.url, common).await?;
    let snapshot = branch.snapshot().await?;
    let mut tables: Vec<&TableHead> = snapshot.tables().collect();
    tables.sort_by(|a, b| a.key.cmp(&b.key));
    if common.json {
        let document = json!({
            "branch": snapshot.branch(),
            "incarnation": snapshot.incarnation(),
            "seq": snapshot.seq(),
            "rev": snapshot.rev(),
            "commit": snapshot.commit(),
            "tables": tables.iter().map(|head| head_json(head)).collect::<Vec<_>>(),
        });
        return print(&format!("{document}\n"));
    }
    let mut grid = Grid::new(style(), &["table", ">rows", "commit", "table id", "state"]);
    for head in &tables {
        grid.texts([
            head.key.to_string(),
            head.rows.to_string(),
            head.commit.to_string(),
            head.table_id.to_string(),
            state(head.state).to_owned(),
        ]);
    }
    let table = if tables.is_empty() { "no tables\n".to_owned() } else { grid.render() };
    print(&format!("{}\n\n{table}", headline(&snapshot)))
}

fn headline(snapshot: &Snapshot) -> String {
    match snapshot.commit() {
        Some(commit) => format!("branch {} · seq {} · commit {commit} · {}", snapshot.branch(), snapshot.seq(), time(snapshot.time_ms())),
        None => format!("branch {} · no commits", snapshot.branch()),
    }
}

/// The documented form of a table head.
pub(super) fn head_json(head: &TableHead) -> Value {
    json!({
        "key": head.key,
        "table_id": head.table_id,
        "incarnation_id": head.incarnation_id,
        "state": state(head.state),
        "rows": head.rows,
        "commit": head.commit,
        "pin": head.pin,
    })
}

/// The state's name.
pub(super) fn state(state: TableState) -> &'static str {
    match state {
        TableState::Live => "live",
        TableState::Tombstoned => "tombstoned",
    }
}

/// Runs `log`.
pub(crate) async fn log(args: &Log, common: &Common) -> Result<(), Failure> {
    let (_, branch) = super::open_branch(&args.root.url, common).await?;
    let mut snapshot = branch.snapshot().await?;
    if let Some(seq) = args.at {
        snapshot = snapshot.at(At::Seq(seq)).await?;
    }
    let mut names = Names::of(&snapshot);
    let (mut before, mut left) = (snapshot.seq() + 1, args.limit.unwrap_or(usize::MAX));
    let mut target = Target::open(None)?;
    if common.json {
        target.text("{\"commits\":[")?;
    }
    let mut first = true;
    while left > 0 && before > 1 {
        let page = snapshot.log_before(before, left.min(PAGE)).await?;
        let Some(last) = page.last() else { break };
        before = last.entry.seq;
        left -= page.len().min(left);
        for commit in &page {
            let separator = match (first, common.json) {
                (true, _) => "",
                (false, true) => ",",
                (false, false) => "\n",
            };
            first = false;
            let text = if common.json { names.document(commit).to_string() } else { names.lines(commit) };
            target.text(separator)?;
            target.text(&text)?;
        }
    }
    match (common.json, first) {
        (true, _) => target.text("]}\n")?,
        (false, true) => target.text("no commits\n")?,
        (false, false) => {}
    }
    target.complete()
}

/// Names of tables while the log goes back in time: an event carries the stable identity, and the name is the one the table had then.
struct Names(HashMap<TableId, String>);

impl Names {
    fn of(snapshot: &Snapshot) -> Self {
        Self(snapshot.tables().map(|head| (head.table_id, head.key.to_string())).collect())
    }

    /// What the commit did to each table, in its order; the names are those of the moment before the commit afterwards.
    fn back(&mut self, commit: &LogEntry) -> Vec<(String, &'static str, String)> {
        let mut done: Vec<_> = commit.body.events.iter().rev().map(|event| self.step(event)).collect();
        done.reverse();
        done
    }

    fn step(&mut self, event: &Event) -> (String, &'static str, String) {
        let id = event.table_id();
        let now = |names: &Self| names.0.get(&id).cloned().unwrap_or_else(|| id.to_string());
        let rows = |rows: &u64| count(*rows, "row");
        match event {
            Event::Registered { key, rows: all, .. } => {
                self.0.remove(&id);
                (key.to_string(), "created", rows(all))
            }
            Event::Written { rows: all, .. } => (now(self), "written", rows(all)),
            Event::HandedOver { owner, .. } => (now(self), "handed over", format!("to branch {owner}")),
            Event::Renamed { from, to, .. } => {
                self.0.insert(id, from.to_string());
                (to.to_string(), "renamed", format!("was {from}"))
            }
            Event::Dropped { key, .. } => {
                self.0.insert(id, key.to_string());
                (key.to_string(), "dropped", String::new())
            }
            Event::Recreated { key, rows: all, .. } => {
                self.0.remove(&id);
                (key.to_string(), "recreated", rows(all))
            }
        }
    }

    fn document(&mut self, commit: &LogEntry) -> Value {
        let entry = &commit.entry;
        let mut tables: Vec<String> = Vec::new();
        for (key, _, _) in self.back(commit) {
            if !tables.contains(&key) {
                tables.push(key);
            }
        }
        json!({
            "seq": entry.seq,
            "commit": entry.commit,
            "time": time(entry.time),
            "actor": entry.actor,
            "message": entry.message,
            "kind": entry.kind,
            "tables": tables,
        })
    }

    fn lines(&mut self, commit: &LogEntry) -> String {
        let entry = &commit.entry;
        let mut text = format!(
            "seq {} · commit {} · {} · {} · {}\n",
            entry.seq,
            entry.commit,
            time(entry.time),
            entry.kind.name(),
            visible(&entry.actor)
        );
        if let Some(message) = &entry.message {
            for line in message.lines() {
                text.push_str(&format!("    {}\n", visible(line)));
            }
        }
        let done = self.back(commit);
        let width = done.iter().map(|(key, _, _)| unicode_width::UnicodeWidthStr::width(key.as_str())).max().unwrap_or_default();
        for (key, what, detail) in done {
            let padding = " ".repeat(width - unicode_width::UnicodeWidthStr::width(key.as_str()));
            text.push_str(format!("  {key}{padding}  {what} {detail}").trim_end());
            text.push('\n');
        }
        text
    }
}
